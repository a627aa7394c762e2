"""Small clusters and gangs with constraints, and an oracle for them: Kubernetes' rules pod by pod, naively.

The oracle tries every placement of the gang, and judges by `affinity_rules.py`, which compares every pair of
pods.
"""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from muster.core.cycle import Scheduler
from muster.core.words.decisions import Assign
from muster.core.words.events import (
    Footprint,
    GangSubmitted,
    LayersChanged,
    NodeChanged,
    PlanFound,
    PodsBound,
    PodsEnded,
)
from muster.core.words.gang import (
    Effect,
    Gang,
    GangId,
    Gather,
    HostPort,
    Layer,
    NodeName,
    Operator,
    Place,
    PodId,
    PodSet,
    PodTerm,
    Requirement,
    Shape,
    Spread,
    Strategy,
    Taint,
)
from muster.core.world.eligibility import obstacle
from tests.core import affinity_rules
from tests.core.affinity_rules import Pod

KEYS = ("host", "zone", "rack")


@dataclass(frozen=True)
class Case:
    nodes: tuple[NodeChanged, ...]
    there: tuple[Pod, ...]
    gang: Gang


def draw(seed: int) -> Case:
    """2 to 5 nodes, a few foreign pods, a gang of up to 5 pods in one or two sets; all of it is wanted."""
    rng = random.Random(seed)
    nodes = []
    for i in range(rng.randint(2, 5)):
        labels = {"host": f"n{i}", "zone": rng.choice("ab"), "rack": rng.choice("xyz")}
        if rng.random() < 0.1:
            del labels[rng.choice(["zone", "rack"])]
        taints = (Taint("t", "", Effect.NO_SCHEDULE),) if rng.random() < 0.1 else ()
        room = (("cpu", rng.randint(1, 4)),)
        nodes.append(NodeChanged(NodeName(f"n{i}"), room, tuple(sorted(labels.items())), taints))
    there = [_foreign(rng, rng.choice(nodes).name) for _ in range(rng.randint(0, 3))]
    sets, left = [], 5
    for name in "pq"[: rng.randint(1, 2)]:
        count = rng.randint(1, max(1, min(left, 4)))
        left -= count
        sets.append(PodSet(name, _shape(rng), count, count, labels=(("app", rng.choice("pq")),)))
        if left <= 0:
            break
    total = sum(s.count for s in sets)
    return Case(tuple(nodes), tuple(there), Gang(GangId("g"), tuple(sets), total, 0.0, namespace="ns"))


def _foreign(rng: random.Random, node: NodeName) -> Pod:
    apart = (_term(rng),) if rng.random() < 0.3 else ()
    ports = (_port(rng),) if rng.random() < 0.3 else ()
    labels = (("app", rng.choice("pqr")),)
    footprint = Footprint(rng.choice(["ns", "other"]), labels, ports, apart, leaving=rng.random() < 0.1)
    return Pod(footprint, Shape(()), node)


def _shape(rng: random.Random) -> Shape:
    kind = rng.random()
    return Shape(
        (("cpu", rng.randint(1, 2)),),
        selector=(("zone", "a"),) if rng.random() < 0.1 else (),
        ports=(_port(rng),) if rng.random() < 0.15 else (),
        pod_affinity=tuple(_term(rng) for _ in range(rng.choice([1, 1, 2]))) if kind < 0.35 else (),
        pod_anti_affinity=(_term(rng),) if 0.25 < kind < 0.6 else (),
        spread=tuple(_spread(rng) for _ in range(rng.choice([1, 1, 2]))) if 0.5 < kind < 0.95 else (),
    )


def _term(rng: random.Random) -> PodTerm:
    return PodTerm(rng.choice(KEYS), _labels(rng), rng.choice([("ns",), ("ns",), ("other",), None]))


def _labels(rng: random.Random) -> tuple[Requirement, ...]:
    operator = rng.choice([Operator.IN, Operator.IN, Operator.NOT_IN, Operator.EXISTS])
    values = () if operator is Operator.EXISTS else (rng.choice("pq"),)
    return (Requirement("app", operator, values),)


def _port(rng: random.Random) -> HostPort:
    return HostPort(rng.choice([80, 81]), rng.choice(["TCP", "UDP"]), rng.choice(["", "0.0.0.0", "1.1.1.1"]))


def _spread(rng: random.Random) -> Spread:
    return Spread(
        rng.choice(KEYS),
        rng.choice([1, 1, 2]),
        _labels(rng),
        min_domains=rng.choice([1, 1, 2, 3]),
        honor_affinity=rng.random() < 0.8,
        honor_taints=rng.random() < 0.5,
    )


def scheduler(case: Case) -> Scheduler:
    made = Scheduler()
    for fact in case.nodes:
        made.apply(fact)
    for i, pod in enumerate(case.there):
        made.apply(PodsBound({PodId(f"f{i}"): None}, pod.node, (), footprint=pod.footprint))
    made.apply(GangSubmitted(case.gang))
    return made


def placed(case: Case) -> tuple[Pod, ...] | None:
    """The gang's pods where the scheduler puts them; None if it waits."""
    assigns = [d for d in scheduler(case).decide(0.0) if isinstance(d, Assign)]
    if not assigns:
        return None
    sets = {pod.name: pod for pod in case.gang.pod_sets}
    return tuple(
        replace(wanted(case.gang, sets[place.pod_set]), node=name)
        for place, name in sorted(assigns[0].nodes.items())
    )


def wanted(gang: Gang, pod_set: PodSet) -> Pod:
    shape = pod_set.shape
    return Pod(Footprint(gang.namespace, pod_set.labels, shape.ports, shape.pod_anti_affinity), shape)


def possible(case: Case) -> bool:
    """Whether any placement satisfies everything: all of them are tried."""
    pods = [wanted(case.gang, s) for s in case.gang.pod_sets for _ in range(s.count)]
    return any(
        satisfied(case, [replace(pod, node=n) for pod, n in zip(pods, names, strict=True)])
        for names in _ways(case, pods)
    )


def _ways(case: Case, pods: Sequence[Pod]) -> Iterator[tuple[NodeName, ...]]:
    """Node names; equal pods in order of name."""
    names = [node.name for node in case.nodes]
    groups = [len(list(group)) for _, group in itertools.groupby(pods)]
    for parts in itertools.product(
        *(itertools.combinations_with_replacement(names, size) for size in groups)
    ):
        yield tuple(itertools.chain.from_iterable(parts))


def satisfied(case: Case, new: Sequence[Pod]) -> bool:
    nodes = {node.name: node for node in case.nodes}
    for name, node in nodes.items():
        mine = [pod for pod in new if pod.node == name]
        if sum(amount for pod in mine for _, amount in pod.shape.requests) > dict(node.capacity)["cpu"]:
            return False
        if any(obstacle(pod.shape, node) for pod in mine):
            return False
    asked = (new, case.there, nodes)
    return (
        affinity_rules.tolerated(*asked)
        and affinity_rules.even(*asked)
        and affinity_rules.affinity_satisfied(*asked)
    )


def answers(seeds: Sequence[int]) -> dict[str, int]:
    """How often a gang fits, is placed, is placed wrongly, and is missed."""
    told = {"cases": len(seeds), "possible": 0, "placed": 0, "wrong": 0, "missed": 0}
    for seed in seeds:
        case = draw(seed)
        found, can = placed(case), possible(case)
        told["possible"] += can
        told["placed"] += found is not None
        told["wrong"] += found is not None and not satisfied(case, found)
        told["missed"] += can and found is None
    return told


def stories(seed: int) -> Iterator[tuple[Case, list[Pod]]]:
    """A gang that can do with less, perhaps with a plan from before, perhaps gathered in a zone, loses pods.

    Yields what it is assigned each time, with all pods that are there then.
    """
    rng, case = random.Random(-seed), draw(seed)
    sets = tuple(
        replace(s, count=s.count + rng.randint(0, 2), min_count=rng.randint(0, s.count))
        for s in case.gang.pod_sets
    )
    least = rng.randint(max(1, sum(s.min_count for s in sets)), sum(s.count for s in sets))
    gather = (Gather("z", Strategy.MUST_GATHER),) if rng.random() < 0.3 else ()
    gang = replace(case.gang, pod_sets=sets, min_count=least, gather=gather)
    made = scheduler(replace(case, gang=gang))
    made.apply(LayersChanged((Layer("z", ("zone",)),)))
    if rng.random() < 0.3:
        every = [Place(s.name, i) for s in sets for i in range(s.count)]
        nodes = {place: rng.choice(case.nodes).name for place in every if rng.random() < 0.6}
        made.apply(PlanFound(gang.id, nodes))
    by_name = {s.name: wanted(gang, s) for s in sets}
    there: dict[Place, Pod] = {}
    for now in (0.0, 1.0, 2.0):
        for decision in made.decide(now):
            if not isinstance(decision, Assign):
                continue
            new = {p: replace(by_name[p.pod_set], node=name) for p, name in decision.nodes.items()}
            yield _then(case, gang, list(there.values())), list(new.values())
            for place, pod in new.items():
                bound = PodId(f"{place}@{now}")
                requests, name = pod.shape.requests, pod.node
                made.apply(PodsBound({bound: place}, name, requests, gang.id, pod.footprint))
            there |= new
        if there and rng.random() < 0.7:
            lost = rng.choice(sorted(there))
            pod_id = next(p for p, event in made.world.pods.items() if event.pods[p] == lost and event.gang)
            made.apply(PodsEnded((pod_id,), now))
            del there[lost]


def _then(case: Case, gang: Gang, there: Sequence[Pod]) -> Case:
    """The case with these pods of the gang on its nodes."""
    nodes = []
    for node in case.nodes:
        used = sum(amount for pod in there if pod.node == node.name for _, amount in pod.shape.requests)
        nodes.append(replace(node, capacity=(("cpu", dict(node.capacity)["cpu"] - used),)))
    return Case(tuple(nodes), (*case.there, *there), gang)


def gathered(case: Case, new: Sequence[Pod]) -> bool:
    """Whether the gang is in one zone, if it has to be."""
    zones = {node.name: dict(node.labels).get("zone") for node in case.nodes}
    own = [pod for pod in case.there if pod.shape.requests]
    used = {zones[pod.node] for pod in (*own, *new)}
    return not case.gang.gather or (len(used) == 1 and None not in used)
