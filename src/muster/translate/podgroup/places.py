"""The places of one PodGroup: a place per pod, kept open for the successor of a lost pod.

A bound pod that is lost (deleted, or its node is gone) leaves its place to a successor of equal shape, as
long as the group has fewer pods than its minimum. Only the last reading shows that such a place existed:
after a change of leader only the claim remains.
"""

from dataclasses import dataclass, field

from muster.api.core_v1 import Pod
from muster.core.words.gang import Labels, Place, PodId, PodSet, Shape
from muster.translate.demand import MOST_PLACES
from muster.translate.group import Group, Member
from muster.translate.places import Block, fill, planned
from muster.translate.podgroup.facts import facts
from muster.translate.podgroup.members import Pods
from muster.translate.podgroup.pod_sets import PODS, common, own_labels, pod_set_name
from muster.translate.quotas import proposed
from muster.translate.world import World


@dataclass(slots=True)
class Places:
    pod_sets: list[PodSet] = field(default_factory=list)
    members: dict[PodId, Member] = field(default_factory=dict)
    retired: set[Place] = field(default_factory=set)
    #: how many retired places no pod has: a bound pod of a higher index still runs
    abandoned: int = 0
    #: how many places whose pod was lost wait for another
    awaited: int = 0


def places_of(pods: Pods, before: Group | None, lacking: int, world: World, prefix: str) -> Places:
    """Assigns places. `lacking`: how many pods the minimum lacks; `prefix`: of the pod sets' names."""
    by_shape: dict[tuple[Shape, Labels], list[Pod]] = {}
    for pod in sorted((*pods.ready, *pods.ended), key=lambda pod: pod.metadata.name):
        said = facts(pod, world)
        by_shape.setdefault((said.shape, said.own_labels), []).append(pod)
    lost = _lost(pods, before)
    earlier = {pod_set.name: pod_set for pod_set in (before.gang.pod_sets if before is not None else ())}
    for pod_set in earlier.values():
        if pod_set.name in lost:
            by_shape.setdefault((pod_set.shape, own_labels(pod_set.shape, dict(pod_set.labels))), [])
    places = Places()
    taken_names: set[str] = set()
    for (shape, looked_at), alike in by_shape.items():
        name = pod_set_name(shape, looked_at)
        if name in taken_names:
            name = pod_set_name(shape, looked_at, namespaces=True)
        while name in taken_names:  # of two terms the one that means all namespaces has the plain name
            name += "x"
        taken_names.add(name)
        name = prefix + name.removeprefix(PODS)
        labels = common(alike) if alike else earlier[name].labels if name in earlier else looked_at
        gaps = lost.get(name, [])
        count = max(_count(name, alike), 1 + max(gaps, default=-1))
        # running pods claim their places before those that have ended
        block = Block(name, 0, count, sorted(alike, key=lambda pod: pod.terminal), lost=gaps)
        found = fill(block, before)
        uncreated, charges = proposed(alike, world)
        places.pod_sets.append(PodSet(name, shape, count, labels=labels, uncreated=uncreated, quotas=charges))
        vacant = [Place(name, gap) for gap in gaps if Place(name, gap) not in found.values()]
        awaited = vacant[: max(lacking - places.awaited, 0)]
        taken: set[Place | None] = set(awaited)
        for pod in alike:
            place = found[PodId(pod.metadata.uid)]
            if not pod.terminal:
                places.members[PodId(pod.metadata.uid)] = Member(pod, place)
                taken.add(place)
        places.retired |= {Place(name, index) for index in range(count)} - taken
        places.abandoned += count - len(alike) - len(awaited)
        places.awaited += len(awaited)
    return places


def _lost(pods: Pods, before: Group | None) -> dict[str, list[int]]:
    """Returns, by pod set, places whose pod ran in the last reading and is gone, or was awaited already."""
    if before is None or not any(pod.spec.node_name for pod in pods.ready):
        return {}
    here = {pod.metadata.uid for pod in (*pods.ready, *pods.ended)}
    had = {member.place: member.pod for member in before.members.values()}
    found: dict[str, list[int]] = {}
    for pod_set in before.gang.pod_sets:
        for index in range(pod_set.count):
            place = Place(pod_set.name, index)
            pod = had.get(place)
            gone = pod is None or (bool(pod.spec.node_name) and pod.metadata.uid not in here)
            if gone and place not in before.retired:
                found.setdefault(pod_set.name, []).append(index)
    return found


def _count(pod_set: str, pods: list[Pod]) -> int:
    """Returns the number of places: one per pod, and up to the highest that is written on a bound pod."""
    written = (place.index for place in map(planned, pods) if place is not None and place.pod_set == pod_set)
    return max(len(pods), 1 + max((index for index in written if index < MOST_PLACES), default=-1))
