"""Preemption: a gang of 256 GPUs among 600 jobs that fill 1,000 nodes of 8, anywhere or in one domain.

The jobs are rigid or *elastic*: of these, each can spare half of its pods.

Time of the process, not of the clock: what the cycle costs in which the victims are found, chosen and called,
and the gang is assigned. *Cold* is the first time that these jobs are candidates; what they would free is
cached from then on, and recomputed only for those that change (*warm*).
"""

import gc
import random
import statistics
import time
from dataclasses import replace
from typing import Final

from muster.core.cycle import Config, Scheduler
from muster.core.words.decisions import Assign, Evict
from muster.core.words.events import GangRemoved, GangSubmitted, LayersChanged, NodeChanged, PodsBound
from muster.core.words.gang import Gang, GangId, Gather, Layer, NodeName, PodId, PodSet, Shape, Strategy

NODES: Final = 1_000
JOBS: Final = 600
GPU: Final = "nvidia.com/gpu"
SHAPES: Final = {n: Shape((("cpu", 8_000 * n), ("memory", 64 * 2**30 * n), (GPU, n))) for n in (1, 2, 4, 8)}
#: pods, GPUs of each, and the layer of which one domain must hold them: 16 nodes in a rack, 128 in a spine;
#: whether the jobs are elastic
GANGS: Final = (
    (256, 1, "", False),
    (64, 4, "", False),
    (32, 8, "", False),
    (16, 8, "", False),
    (64, 8, "", False),
    (16, 8, "rack", False),
    (256, 1, "spine", False),
    (32, 8, "spine", False),
    (64, 8, "", True),
    (32, 8, "spine", True),
)
RUNS: Final = 5
NOW: Final = 100_000.0


def run() -> dict[str, float]:
    """Figures by name; every name says its unit."""
    figures = {}
    for count, gpus, layer, elastic in GANGS:
        cold, warm = zip(*(preempt(seed, count, gpus, layer, elastic) for seed in range(RUNS)), strict=True)
        where = f" in one {layer}" if layer else ""
        what = f"preemption: {count} pods of {gpus}{where} among {JOBS} {'elastic ' * elastic}jobs"
        figures[f"{what}, warm, ms"] = 1e3 * statistics.median(warm)
        figures[f"{what}, cold, ms"] = 1e3 * statistics.median(cold)
    return figures


def preempt(seed: int, count: int, gpus: int, layer: str, elastic: bool) -> tuple[float, float]:
    """Seconds of the first such gang, and of one for which others have looked before."""
    cold = timed(full(seed, elastic), count, gpus, layer)
    scheduler = full(seed, elastic)
    shape = SHAPES[8]
    hopeless = Gang(GangId("ns/hopeless"), (PodSet("main", shape, NODES + 1, NODES + 1),), NODES + 1, NOW, 9)
    scheduler.apply(GangSubmitted(hopeless))
    scheduler.decide(NOW)
    return cold, timed(scheduler, count, gpus, layer)


def timed(scheduler: Scheduler, count: int, gpus: int, layer: str) -> float:
    pods = PodSet("main", SHAPES[gpus], count, count)
    gather = (Gather(layer, Strategy.MUST_GATHER),) if layer else ()
    scheduler.apply(GangSubmitted(Gang(GangId("ns/preemptor"), (pods,), count, NOW, 9, gather=gather)))
    gc.collect()  # what other clusters have left is not this cycle's
    started = time.process_time()
    decisions = scheduler.decide(NOW)
    took = time.process_time() - started
    assert any(isinstance(decision, Evict) for decision in decisions)
    return took


def full(seed: int, elastic: bool = False) -> Scheduler:
    """Jobs of 1 to 8 GPUs per pod, of four priorities, since when is drawn."""
    rng = random.Random(seed)
    scheduler = Scheduler(Config(explain=False))
    for i in range(NODES):
        capacity = (("cpu", 96_000), ("memory", 768 * 2**30), (GPU, 8), ("pods", 110))
        labels = (("rack", f"r{i // 16:02}"), ("spine", f"s{i // 128}"))
        scheduler.apply(NodeChanged(NodeName(f"node-{i:04}"), capacity, labels))
    scheduler.apply(LayersChanged((Layer("spine", ("spine",)), Layer("rack", ("rack",)))))
    left = NODES * 8
    for i in range(JOBS):
        gpus = rng.choice((1, 1, 2, 4, 8))
        count = max(1, round(left / (JOBS - i) / gpus * rng.uniform(0.3, 1.7)))
        priority, least = rng.randint(0, 3), (count + 1) // 2 if elastic else count
        gang = Gang(
            GangId(f"ns/job-{i}"), (PodSet("main", SHAPES[gpus], count, least),), least, 0.0, priority
        )
        # No job is preempted while the cluster is filled.
        scheduler.apply(GangSubmitted(replace(gang, preempts=False)))
        assigned = [decision for decision in scheduler.decide(0.0) if isinstance(decision, Assign)]
        if not assigned:
            scheduler.apply(GangRemoved(gang.id))
        for assign in assigned:
            at = rng.uniform(1.0, NOW)
            for place, node in assign.nodes.items():
                pod = PodId(f"{assign.gang}/{place}")
                scheduler.apply(PodsBound({pod: place}, node, SHAPES[gpus].requests, assign.gang, at=at))
        left -= count * gpus
    scheduler.decide(0.0)
    return scheduler
