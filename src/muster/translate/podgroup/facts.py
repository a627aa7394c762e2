"""Reads what one pod of a PodGroup says, once for each change of the pod.

Nothing here reads the group or its other pods. Pods of one template say the same: a gang is read from what
its pods say and how many say it, and not from pod after pod.
"""

from typing import Final, NamedTuple

from muster.api import foreign_marks, groups
from muster.api.base import controller_of
from muster.api.core_v1 import Pod
from muster.api.koordinator_v1alpha1 import GROUPS
from muster.api.marks import ON_PARTIAL
from muster.api.named_queue import stated_queue
from muster.core.words.gang import Code, Gate, Labels, Shape
from muster.translate import marks, network
from muster.translate.described import minimum_of
from muster.translate.podgroup.pod_sets import own_labels
from muster.translate.pods import asked
from muster.translate.priority import may_preempt, priority
from muster.translate.running import Run, pod_limit, run
from muster.translate.world import World

#: Characters of a name that a message shows.
_SHOWN: Final = 80


class Said(NamedTuple):
    """What a pod that may be scheduled says to its gang."""

    bound: bool
    #: the queue that it names; "" if none
    queue: str
    #: its topology rules
    rules: tuple[str, str]
    #: why the pod must not start, apart from its group and quotas
    refusal: Gate | None
    hold: Gate | None
    #: None if the stated priority cannot be honoured
    priority: int | None
    preempts: bool
    run: Run
    #: its GangGroup and the gang's minimum, as the pod writes them
    groups: str
    minimum: str
    #: what is said of its marks of other schedulers
    foreign: tuple[str, ...] = ()


class Kept(NamedTuple):
    """What a live pod says of its end."""

    controlled: bool
    on_partial: str | None
    limit: float | None


def said(pod: Pod, world: World) -> tuple[Shape, Labels, Said]:
    """Returns the shape, the pod's own labels on which its terms select, and what it says."""
    meta = pod.metadata
    shape, refusal = asked(pod, world)
    number = priority(pod.spec, world)
    unranked = number if isinstance(number, Gate) else None
    return (
        shape,
        own_labels(shape, meta.labels),
        Said(
            bool(pod.spec.node_name),
            stated_queue(meta),
            network.rules(meta),
            marks.refusal(meta, of_pods=True) or _torn(pod, world) or refusal or unranked,
            marks.hold(meta),
            None if isinstance(number, Gate) else number,
            may_preempt(pod.spec, world),
            run(meta),
            meta.annotations.get(GROUPS, ""),
            minimum_of(meta),
            foreign_marks.sentences(marks.foreign(pod)),
        ),
    )


def _torn(pod: Pod, world: World) -> Gate | None:
    """Returns Invalid for a pod that names gangs of two dialects."""
    found, meta = groups.named(pod), pod.metadata
    assert found is not None, "a pod of a group names one"
    for other in groups.also_named(pod, found):
        if not world.frees(other.dialect, meta.namespace, other.name):
            both = f"{_called(found)} and {_called(other)}"
            return Gate(Code.INVALID, f"it names {both}; a pod is in one gang: keep one of the two marks")
    return None


def _called(named: groups.Named) -> str:
    kind = named.dialect.kind
    return f"{kind.kind} {named.name[:_SHOWN]} of {kind.group}"


def kept(pod: Pod) -> Kept:
    return Kept(controller_of(pod) is not None, ON_PARTIAL.get(pod.metadata), pod_limit(pod))
