"""Short ways to say nodes, gangs and pods in tests."""

from collections.abc import Iterable, Mapping

from muster.core.cycle import Scheduler
from muster.core.words.decisions import Assign, Decision, Release, Wait
from muster.core.words.events import GangSubmitted, NodeChanged, PodsBound
from muster.core.words.gang import (
    Amounts,
    Gang,
    GangId,
    Gate,
    NodeName,
    NodeTerm,
    Place,
    PodId,
    PodSet,
    Shape,
    Taint,
    Toleration,
)
from muster.core.world.gangs import footprint
from muster.names import GPU, GPU_SHARE

__all__ = ["GPU"]


def node(
    name: str,
    gpu: int = 8,
    cpu: int = 64_000,
    memory: int = 512 * 2**30,
    pods: int | None = 110,
    labels: Mapping[str, str] | None = None,
    taints: tuple[Taint, ...] = (),
    cordoned: bool = False,
    ready: bool = True,
) -> NodeChanged:
    capacity = {"cpu": cpu, "memory": memory, GPU: gpu} | ({} if pods is None else {"pods": pods})
    return NodeChanged(
        NodeName(name), amounts(capacity), tuple(sorted((labels or {}).items())), taints, cordoned, ready
    )


def amounts(by_name: Mapping[str, int]) -> Amounts:
    return tuple(sorted((resource, amount) for resource, amount in by_name.items() if amount))


def shape(
    gpu: int = 0,
    cpu: int = 0,
    memory: int = 0,
    selector: Mapping[str, str] | None = None,
    affinity: tuple[NodeTerm, ...] | None = None,
    tolerations: tuple[Toleration, ...] = (),
    share: int = 0,
    **other: int,
) -> Shape:
    requests = amounts({GPU: gpu, "cpu": cpu, "memory": memory, GPU_SHARE: share, **other})
    return Shape(requests, tuple(sorted((selector or {}).items())), affinity, tolerations)


def gang(
    name: str,
    *sets: PodSet,
    count: int = 1,
    of: Shape | None = None,
    minimum: int | None = None,
    submitted: float = 0.0,
    priority: int = 0,
    gate: Gate | None = None,
) -> Gang:
    """Of `sets`, else of one set `main` of `count` pods; the minimum defaults to all."""
    sets = sets or (PodSet("main", of or shape(gpu=1), count, count if minimum is None else minimum),)
    least = sum(s.count for s in sets) if minimum is None else minimum
    return Gang(GangId(name), sets, least, submitted, priority, gate=gate)


def places(*indices: int, pod_set: str = "main") -> frozenset[Place]:
    return frozenset(Place(pod_set, index) for index in indices)


def scheduler(nodes: Iterable[NodeChanged] = (), *gangs: Gang) -> Scheduler:
    made = Scheduler()
    for fact in nodes:
        made.apply(fact)
    for one in gangs:
        made.apply(GangSubmitted(one))
    return made


def foreign(scheduler: Scheduler, on: str, gpu: int) -> None:
    scheduler.apply(PodsBound({PodId(f"foreign-{on}"): None}, NodeName(on), amounts({GPU: gpu})))


def bind(scheduler: Scheduler, assign: Assign, only: Iterable[Place] | None = None) -> list[PodsBound]:
    """Bind what was assigned, as a runtime would, under pod ids `<gang>:<place>`."""
    known = _gang(scheduler, assign.gang)
    sets = {s.name: (s.shape.requests, footprint(known, s)) for s in known.pod_sets}
    bound = [
        PodsBound({pod(assign.gang, place): place}, name, requests, assign.gang, pod_footprint)
        for place, name in sorted(assign.nodes.items())
        for requests, pod_footprint in [sets[place.pod_set]]
        if only is None or place in only
    ]
    for event in bound:
        scheduler.apply(event)
    return bound


def pod(gang: str, place: Place) -> PodId:
    return PodId(f"{gang}:{place}")


def _gang(scheduler: Scheduler, name: GangId) -> Gang:
    found = scheduler.world.gangs[name].gang
    assert found is not None
    return found


def assigns(decisions: list[Decision]) -> list[Assign]:
    return [d for d in decisions if isinstance(d, Assign)]


def releases(decisions: list[Decision]) -> list[Release]:
    return [d for d in decisions if isinstance(d, Release)]


def waits(decisions: list[Decision]) -> list[Wait]:
    return [d for d in decisions if isinstance(d, Wait)]


def started(decisions: list[Decision]) -> list[str]:
    return [d.gang for d in assigns(decisions)]


def where(assign: Assign) -> list[str]:
    """Node names in order of place."""
    return [name for _, name in sorted(assign.nodes.items())]
