"""What the marks of a job object, a group, a namespace or a pod (`muster.api.marks`) mean for a gang.

A value that cannot be read is refused, not guessed.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from muster import names
from muster.api import foreign_marks, marks
from muster.api.base import ObjectMeta, Resource, controller_of
from muster.api.batch_v1 import Job
from muster.api.core_v1 import Pod
from muster.api.foreign_marks import ForeignMark
from muster.api.jobset_v1alpha2 import JobSet
from muster.api.natural import natural
from muster.core.words.gang import MOST_DEVICES, Code, Gate
from muster.translate.world import World

#: Annotations that muster writes on a pod when it binds or fences it.
_BINDING: Final = frozenset({names.PLAN, names.EPOCH, names.GPU_DEVICE})


def queue(
    stated: Iterable[str], named: Iterable[str], namespace: str, world: World
) -> tuple[str, Gate | None]:
    """Returns the queue of a gang: the first that its owners state (`stated_queue`), else what its pods name.

    If they name none, it is the queue that serves the namespace. Invalid if the pods of one gang name
    different queues. The core checks whether the queue exists.
    """
    if own := next(filter(None, stated), ""):
        return own, None
    served = world.queue_rules.of_namespace(namespace)
    found = sorted({each or served for each in named})
    if len(found) > 1:
        message = f"its pods name different queues ({', '.join(found)}), and a gang waits in one"
        return found[0], Gate(Code.INVALID, message)
    return (found[0] if found else served), None


def own_gang(meta: ObjectMeta) -> bool | None:
    """Whether an object asks to be a gang; None = no mark. Any value but "false" asks for it."""
    value = marks.GANG.text(meta)
    return None if value is None else value != "false"


def namespace_gang(namespace: str, world: World) -> bool:
    """Whether a namespace makes the Jobs and JobSets in it gangs that have no mark of their own."""
    found = world.namespaces.get(("", namespace))
    return found is not None and own_gang(found.metadata) is True


def gpu_device(meta: ObjectMeta) -> int | None:
    """Returns which of its node's shared devices a pod is on, if that is recorded."""
    return natural(meta.annotations.get(names.GPU_DEVICE), MOST_DEVICES - 1)


def unbound(annotations: Mapping[str, str]) -> Mapping[str, str]:
    """Returns a pod's annotations without those that muster writes when it binds or fences the pod."""
    if _BINDING.isdisjoint(annotations):
        return annotations
    return {key: value for key, value in annotations.items() if key not in _BINDING}


def refusal(meta: ObjectMeta, *, of_pods: bool = False) -> Gate | None:
    """Returns Invalid if a mark on the object, or on its pods themselves, cannot be honoured."""
    if meta.unreadable:
        return Gate(Code.INVALID, f"cannot be read: {meta.unreadable}")
    try:
        for mark in (marks.GANG, marks.HOLD, marks.ON_PARTIAL, marks.BELOW_MINIMUM):
            mark.read(meta)
    except ValueError as error:
        return Gate(Code.INVALID, str(error))
    if not of_pods and marks.GPU_SHARE.text(meta) is not None:
        return Gate(
            Code.INVALID, f"{names.GPU_SHARE} is each pod's own; write it on the pods or their template"
        )
    return None


def foreign(*objects: Resource) -> tuple[ForeignMark, ...]:
    """Returns the marks of other schedulers on these objects that muster does not read."""
    found: list[ForeignMark] = []
    for obj in objects:
        kind, fields = type(obj).__name__, None
        if isinstance(obj, Pod) and obj.spec.scheduling_group:
            fields = {"schedulingGroup": obj.spec.scheduling_group}
        elif isinstance(obj, JobSet) or (isinstance(obj, Job) and controller_of(obj) is not None):
            fields = {"scheduling": obj.spec.scheduling} if obj.spec.scheduling is not None else None
        found += foreign_marks.of(obj.metadata, kind, fields)
    return tuple(found)


def ungrouped(marks: Iterable[ForeignMark]) -> Gate | None:
    """Returns Invalid for a pod without a group if one of its marks, or of its owners', asks for a gang."""
    found = foreign_marks.gang(marks)
    return Gate(Code.INVALID, found.sentence()) if found is not None else None


def hold(meta: ObjectMeta) -> Gate | None:
    """Returns Gated while the object is held or being deleted."""
    if marks.HOLD.get(meta):
        return Gate(Code.GATED, f"held by {names.HOLD}; `muster release` lets it start")
    if meta.deletion_timestamp is not None:
        return Gate(Code.GATED, "is being deleted")
    return None
