"""A cluster and gangs drawn from a seed, and the digest of what is decided on them."""

import hashlib
import random

from muster.core.cycle import Config, Scheduler
from muster.core.words.decisions import Decision
from muster.core.words.events import Event, GangSubmitted, PodsBound
from muster.core.words.gang import NodeName, PodId, PodSet
from tests.core.words import GPU, amounts, gang, node, shape


def facts(seed: int, scale: int = 1, prefix: str = "n") -> list[Event]:
    """A cluster of 12 nodes, partly used, and 15 gangs. Amounts and node names as told."""
    rng = random.Random(seed)
    told: list[Event] = []
    for i in range(12):
        gpu, zone = rng.randint(0, 8), rng.choice("ab")
        cpu = rng.randint(4, 16)
        told.append(node(f"{prefix}{i:02}", scale * gpu, scale * cpu, 0, labels={"zone": zone}))
        used = amounts({GPU: scale * rng.randint(0, 2)})
        told.append(PodsBound({PodId(f"p{i}"): None}, NodeName(f"{prefix}{i:02}"), used))
    for i in range(15):
        sets = [
            PodSet(
                f"s{k}",
                shape(
                    gpu=scale * rng.randint(0, 4),
                    cpu=scale * rng.randint(1, 3),
                    selector=rng.choice([None, {"zone": "a"}]),
                ),
                count := rng.randint(1, 6),
                rng.randint(0, count),
            )
            for k in range(rng.randint(1, 2))
        ]
        least = rng.randint(0, sum(s.count for s in sets))
        told.append(GangSubmitted(gang(f"g{i}", *sets, minimum=least, submitted=float(rng.randint(0, 3)))))
    return told


def decide(told: list[Event], config: Config | None = None) -> list[Decision]:
    muster = Scheduler(config)
    for event in told:
        muster.apply(event)
    return muster.decide(0.0)


def digest(seed: int) -> str:
    told = "\n".join(repr(decision) for decision in decide(facts(seed)))
    return hashlib.sha256(told.encode()).hexdigest()
