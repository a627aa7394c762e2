"""Decides which pod fills which place.

A place is worth one running pod, not one particular pod: the second wave of a Job, and the
replacement of a lost pod, take the places of their predecessors. A pod takes, in this order,

1. the place that its annotation names (it was bound to it);
2. the place it had in the last reading, so that its place in a plan in progress does not change;
3. of its Job, the slot of its completion index, if that is below the number of slots;
4. a place whose pod was lost, else the lowest free place.

Without 2 the rule would need no memory, and bound pods would still always have the same places; but
waiting pods would move up whenever a lower place becomes free, while binds to the old places are under way.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from muster import names
from muster.api.core_v1 import Pod
from muster.api.natural import natural
from muster.core.words.gang import Place, PodId
from muster.translate.group import Group
from muster.translate.pods import completion_index


@dataclass(frozen=True, slots=True)
class Block:
    """Adjacent places of one pod set, and the pods that claim them, in the order of their claims."""

    pod_set: str
    start: int
    size: int
    pods: Sequence[Pod]
    #: whether the pods are of one Job: they prefer the slot of their completion index
    slots: bool = False
    #: places whose pod was lost: a new pod takes one of these before any other
    lost: Collection[int] = ()


def fill(block: Block, before: Group | None) -> dict[PodId, Place | None]:
    """Returns the place of each pod; None for a pod that found none free."""
    free = set(range(block.start, block.start + block.size))
    found: dict[PodId, Place | None] = {}

    def claim(wish: Callable[[Pod], Place | None]) -> None:
        for pod in block.pods:
            uid = PodId(pod.metadata.uid)
            place = None if uid in found else wish(pod)
            if place is not None and place.pod_set == block.pod_set and place.index in free:
                free.remove(place.index)
                found[uid] = place

    claim(planned)
    if before is not None:
        claim(lambda pod: _last(pod, before))
    if block.slots:
        claim(lambda pod: _slot(pod, block))
    rest = iter(sorted(free, key=lambda index: (index not in block.lost, index)))
    for pod in block.pods:
        uid = PodId(pod.metadata.uid)
        if uid not in found:
            index = next(rest, None)
            found[uid] = None if index is None else Place(block.pod_set, index)
    return found


def planned(pod: Pod) -> Place | None:
    """Returns the place that `muster.dev/plan: <epoch>.<attempt>/<pod set>/<index>` names."""
    match pod.metadata.annotations.get(names.PLAN, "").split("/"):
        case [_, pod_set, text] if (index := natural(text)) is not None:
            return Place(pod_set, index)
    return None


def _last(pod: Pod, before: Group) -> Place | None:
    member = before.members.get(PodId(pod.metadata.uid))
    return member.place if member is not None else None


def _slot(pod: Pod, block: Block) -> Place | None:
    index = completion_index(pod)
    if index is None or index >= block.size:
        return None
    return Place(block.pod_set, block.start + index)
