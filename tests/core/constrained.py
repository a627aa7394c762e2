"""Small clusters and gangs with constraints, and an oracle for them: Kubernetes' rules pod by pod, naively.

The oracle shares no code with `constraints.py`: it looks at every pair of pods, and at every order in which
the gang's pods could be placed.
"""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from muster.core.decisions import Assign
from muster.core.eligibility import obstacle
from muster.core.events import (
    GangSubmitted,
    LayersChanged,
    NodeChanged,
    PlanFound,
    PodBound,
    PodsEnded,
    Presence,
)
from muster.core.gang import (
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
from muster.core.scheduler import Scheduler

KEYS = ("host", "zone", "rack")


@dataclass(frozen=True)
class Pod:
    presence: Presence
    shape: Shape
    node: str = ""


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


def _foreign(rng: random.Random, node: str) -> Pod:
    apart = (_term(rng),) if rng.random() < 0.3 else ()
    ports = (_port(rng),) if rng.random() < 0.3 else ()
    labels = (("app", rng.choice("pqr")),)
    presence = Presence(rng.choice(["ns", "other"]), labels, ports, apart, leaving=rng.random() < 0.1)
    return Pod(presence, Shape(()), node)


def _shape(rng: random.Random) -> Shape:
    kind = rng.random()
    return Shape(
        (("cpu", rng.randint(1, 2)),),
        selector=(("zone", "a"),) if rng.random() < 0.1 else (),
        ports=(_port(rng),) if rng.random() < 0.15 else (),
        near=tuple(_term(rng) for _ in range(rng.choice([1, 1, 2]))) if kind < 0.35 else (),
        apart=(_term(rng),) if 0.25 < kind < 0.6 else (),
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
        made.apply(PodBound(PodId(f"f{i}"), NodeName(pod.node), (), presence=pod.presence))
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
    return Pod(Presence(gang.namespace, pod_set.labels, shape.ports, shape.apart), shape)


def possible(case: Case) -> bool:
    """Whether any placement satisfies everything: all of them are tried."""
    pods = [wanted(case.gang, s) for s in case.gang.pod_sets for _ in range(s.count)]
    return any(
        satisfied(case, [replace(pod, node=n) for pod, n in zip(pods, names, strict=True)])
        for names in _ways(case, pods)
    )


def _ways(case: Case, pods: Sequence[Pod]) -> Iterator[tuple[str, ...]]:
    """Node names; equal pods in order of name."""
    names = [node.name for node in case.nodes]
    groups = [len(list(group)) for _, group in itertools.groupby(pods)]
    for parts in itertools.product(
        *(itertools.combinations_with_replacement(names, size) for size in groups)
    ):
        yield tuple(itertools.chain.from_iterable(parts))


def satisfied(case: Case, new: Sequence[Pod]) -> bool:
    nodes = {node.name: node for node in case.nodes}
    labels = {node.name: dict(node.labels) for node in case.nodes}
    for name, node in nodes.items():
        mine = [pod for pod in new if pod.node == name]
        if sum(amount for pod in mine for _, amount in pod.shape.requests) > dict(node.capacity)["cpu"]:
            return False
        if any(obstacle(pod.shape, node) for pod in mine):
            return False
    everybody = [*case.there, *new]
    for pod in new:
        for other in everybody:
            if other is not pod and (_collide(pod, other) or _apart(pod, other, labels)):
                return False
        for spread in pod.shape.spread:
            if not _even(pod, spread, everybody, nodes, labels):
                return False
    return _reachable(tuple(case.there), tuple(new), labels)


def _collide(one: Pod, other: Pod) -> bool:
    return one.node == other.node and any(
        (p.number, p.protocol) == (q.number, q.protocol)
        and (p.address == q.address or "" in (p.address, q.address) or "0.0.0.0" in (p.address, q.address))
        for p in one.presence.ports
        for q in other.presence.ports
    )


def _apart(one: Pod, other: Pod, labels: dict[NodeName, dict[str, str]]) -> bool:
    return any(
        _selects(term, theirs) and _together(term.key, mine, theirs, labels)
        for mine, theirs in ((one, other), (other, one))
        for term in mine.presence.apart
    )


def _together(key: str, one: Pod, other: Pod, labels: dict[NodeName, dict[str, str]]) -> bool:
    value = labels[NodeName(one.node)].get(key)
    return value is not None and value == labels[NodeName(other.node)].get(key)


def _selects(term: PodTerm, pod: Pod) -> bool:
    return (term.namespaces is None or pod.presence.namespace in term.namespaces) and _match(term.labels, pod)


def _match(requirements: Sequence[Requirement], pod: Pod) -> bool:
    value = dict(pod.presence.labels).get("app")
    checks = {
        Operator.IN: lambda r: value in r.values,
        Operator.NOT_IN: lambda r: value not in r.values,
        Operator.EXISTS: lambda r: value is not None,
    }
    return all(checks[r.operator](r) for r in requirements)


def _even(
    pod: Pod,
    spread: Spread,
    everybody: Sequence[Pod],
    nodes: dict[NodeName, NodeChanged],
    labels: dict[NodeName, dict[str, str]],
) -> bool:
    keys = [s.key for s in pod.shape.spread]
    if any(key not in labels[NodeName(pod.node)] for key in keys):
        return False
    counts: dict[str, int] = {}
    for name, node in nodes.items():
        bare = replace(node, taints=())
        usable = not obstacle(pod.shape, bare) if spread.honor_affinity else True
        clean = not node.taints if spread.honor_taints else True
        if usable and clean and all(key in labels[name] for key in keys):
            here = [p for p in everybody if p.node == name and not p.presence.leaving]
            counts.setdefault(labels[name][spread.key], 0)
            counts[labels[name][spread.key]] += sum(
                p.presence.namespace == pod.presence.namespace and _match(spread.labels, p) for p in here
            )
    least = 0 if len(counts) < spread.min_domains else min(counts.values())
    return counts[labels[NodeName(pod.node)][spread.key]] - least <= spread.max_skew


def _reachable(there: tuple[Pod, ...], new: tuple[Pod, ...], labels: dict[NodeName, dict[str, str]]) -> bool:
    """Whether the new pods can come in some order in which each finds the company that it wants."""

    @lru_cache(None)
    def reach(come: frozenset[int]) -> bool:
        if len(come) == len(new):
            return True
        present = [*there, *(new[i] for i in come)]
        return any(
            _has_company(new[i], present, labels) and reach(come | {i})
            for i in range(len(new))
            if i not in come
        )

    return reach(frozenset())


def _has_company(pod: Pod, present: Sequence[Pod], labels: dict[NodeName, dict[str, str]]) -> bool:
    terms = pod.shape.near
    if any(term.key not in labels[NodeName(pod.node)] for term in terms):
        return False
    liked = [p for p in present if all(_selects(term, p) for term in terms)]
    anywhere = any(term.key in labels[NodeName(p.node)] for p in liked for term in terms)
    if not anywhere and all(_selects(term, pod) for term in terms):
        return True
    return all(any(_together(term.key, pod, p, labels) for p in liked) for term in terms)


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

    Yields what it is assigned each time, with everybody who is there then.
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
                requests, name = pod.shape.requests, NodeName(pod.node)
                made.apply(PodBound(bound, name, requests, gang.id, place, pod.presence))
            there |= new
        if there and rng.random() < 0.7:
            lost = rng.choice(sorted(there))
            pod_id = next(p for p, event in made.pods.items() if event.place == lost and event.gang)
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
    used = {zones[NodeName(pod.node)] for pod in (*own, *new)}
    return not case.gang.gather or (len(used) == 1 and None not in used)
