"""Sorts the places of a gang by state: filled, to be filled, lost, or to be bound now."""

from collections.abc import Iterable, Iterator, Set

from muster.api.core_v1 import Pod
from muster.core.words.gang import Gang, NodeName, Place, PodId
from muster.runtime.commit.view import NEVER, GangView, Memory
from muster.runtime.plan import Plan, mark
from muster.runtime.writes import Bind
from muster.translate.group import Group
from muster.translate.pods import live


class Places:
    """The places of a gang, sorted by state."""

    def __init__(
        self, view: GangView, group: Group, memory: Memory, now: float, plan: Plan | None = None
    ) -> None:
        #: places with a live pod on a node
        self.filled: dict[Place, Pod] = {}
        #: places with a pod that could be bound
        self.ready: dict[Place, Pod] = {}
        for member in group.members.values():
            pod, place = member.pod, member.place
            if place is None or not live(pod):
                continue
            if pod.spec.node_name:
                self.filled[place] = pod
            elif not pod.spec.scheduling_gates:
                self.ready[place] = pod
        #: satisfied places: filled, or retired (no pod will fill them any more)
        self.settled: Set[Place] = self.filled.keys() | group.retired
        unfilled = {p: n for p, n in sorted(view.assigned.items()) if p not in self.settled}
        #: places assigned to nodes that no longer exist
        self.lost = {place: node for place, node in unfilled.items() if node not in view.nodes}
        #: assigned places that are to be filled
        self.missing = {place: node for place, node in unfilled.items() if place not in self.lost}
        #: places to fill now: plan and core agree, the pod exists and is not benched
        self.bindable: dict[Place, tuple[Pod, NodeName]] = {}
        #: when the first benched pod may be tried again
        self.unbenched = NEVER
        for place, node in self.missing.items():
            ready = self.ready.get(place)
            if ready is None or (plan is not None and plan.nodes.get(place) != node):
                continue
            if benched(memory, ready, now):
                until = memory.refusals[PodId(ready.metadata.uid)].until
                self.unbenched = min(self.unbenched, until)
            else:
                self.bindable[place] = (ready, node)


def minimum_met(gang: Gang, places: Iterable[Place]) -> bool:
    """Whether these places satisfy all stated minima of `gang`."""
    counts: dict[str, int] = {}
    for place in places:
        counts[place.pod_set] = counts.get(place.pod_set, 0) + 1
    return sum(counts.values()) >= gang.min_count and all(
        counts.get(pod_set.name, 0) >= pod_set.min_count for pod_set in gang.pod_sets
    )


def binds(view: GangView, places: Places, attempt: int, *, planned: bool = True) -> Iterator[Bind]:
    for place, (pod, node) in sorted(places.bindable.items(), key=lambda item: item[0]):
        stamp, device = mark(view.epoch, attempt, place), view.devices.get(place)
        yield Bind(pod, place, node, stamp, device, planned)


def benched(memory: Memory, pod: Pod, now: float) -> bool:
    refusal = memory.refusals.get(PodId(pod.metadata.uid))
    return refusal is not None and now < refusal.until
