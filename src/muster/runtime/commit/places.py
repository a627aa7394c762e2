"""Sorts the places of a gang by state: filled, ready to be filled, missing, or lost."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from muster.api.core_v1 import Pod
from muster.core.words.gang import Gang, NodeName, Place
from muster.runtime.commit.view import GangView
from muster.translate.group import Group
from muster.translate.pods import live


@dataclass(frozen=True, slots=True)
class Places:
    """The places of a gang, by state. A missing place may be ready as well: its pod exists."""

    #: places with a live pod on a node
    filled: Mapping[Place, Pod]
    #: places with a pod that could be bound
    ready: Mapping[Place, Pod]
    #: satisfied places: filled, or retired (no pod will fill them any more)
    settled: Set[Place]
    #: assigned places that are to be filled
    missing: Mapping[Place, NodeName]
    #: places assigned to nodes that no longer exist
    lost: Mapping[Place, NodeName]


def places_of(view: GangView, group: Group) -> Places:
    filled: dict[Place, Pod] = {}
    ready: dict[Place, Pod] = {}
    for member in group.members.values():
        pod, place = member.pod, member.place
        if place is None or not live(pod):
            continue
        if pod.spec.node_name:
            filled[place] = pod
        elif not pod.spec.scheduling_gates:
            ready[place] = pod
    settled = filled.keys() | group.retired
    missing: dict[Place, NodeName] = {}
    lost: dict[Place, NodeName] = {}
    for place, node in view.assigned.items():
        if place not in settled:
            (missing if node in view.nodes else lost)[place] = node
    return Places(filled, ready, settled, missing, lost)


def minimum_met(gang: Gang, places: Iterable[Place]) -> bool:
    """Whether these places satisfy all stated minima of `gang`."""
    counts: dict[str, int] = {}
    for place in places:
        counts[place.pod_set] = counts.get(place.pod_set, 0) + 1
    return sum(counts.values()) >= gang.min_count and all(
        counts.get(pod_set.name, 0) >= pod_set.min_count for pod_set in gang.pod_sets
    )
