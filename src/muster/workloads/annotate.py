"""Writes what muster needs onto objects: gang or independent, the queue, the caller, the scheduler.

Every format uses these functions, so that `--gang` means the same everywhere. A gang is created suspended and
labelled as muster's to start. An object that its author suspended is left so, until the author resumes it.
"""

from typing import Any, Final

from muster import names
from muster.api import groups
from muster.api.base import Object
from muster.workloads.jobfile import Caller, Mode, Source

#: Kinds on which a queue can be set.
_QUEUED: Final = frozenset(row.kind.kind for row in groups.TABLE)
#: What an object has of its submission, not of its author.
_SUBMISSION: Final = (names.CALLER, names.SUBMITTED_FROM)
_MODE: Final[dict[str, Mode]] = {"true": "gang", "false": "independent"}


def mode_of(owner: Object) -> Mode | None:
    """The mode that the object itself requests, None if it requests none."""
    metadata = owner.get("metadata", {})
    value = metadata.get("labels", {}).get(names.GANG) or metadata.get("annotations", {}).get(names.GANG)
    return _MODE.get(str(value))


def as_gang(owner: Object, *, gated: bool = False) -> None:
    """Makes the pods of this Job or JobSet start together: muster starts it, unless its author suspended it.

    Pods with scheduling gates must exist for their gates to be lifted, so their owner is not suspended.
    """
    _label(owner, names.GANG, "true")
    if not (owner["spec"].get("suspend") or gated):
        _label(owner, names.ADMISSION, "gang")
        owner["spec"]["suspend"] = True


def suspended(owner: Object) -> bool:
    """Whether the author has suspended the Job or JobSet, so that muster does not start it."""
    labels = owner.get("metadata", {}).get("labels") or {}
    return bool((owner.get("spec") or {}).get("suspend")) and names.ADMISSION not in labels


def stated(obj: Object) -> Object:
    """A copy of `obj` with only what its author wrote, without what its first submission adds.

    The copy is compared with what the author wrote before. The next submission must not bring back that the
    object is suspended until muster starts it, nor from where and by whom the object was submitted.
    """
    if names.ADMISSION in obj.get("metadata", {}).get("labels", {}):
        labels = {key: text for key, text in obj["metadata"]["labels"].items() if key != names.ADMISSION}
        obj = {**obj, "metadata": {**obj["metadata"], "labels": labels}, "spec": {**(obj.get("spec") or {})}}
        obj["spec"].pop("suspend", None)
    return _without_caller(obj) if obj.get("kind") in ("Job", "JobSet", "Pod") else obj


def as_independent(owner: Object) -> None:
    """Makes each pod of this Job or JobSet start as soon as it fits, whatever its namespace says."""
    _label(owner, names.GANG, "false")


def in_queue(owner: Object, queue: str) -> None:
    """Puts a job, a bare pod or a PodGroup into this queue, whatever its file says."""
    if owner.get("kind") in _QUEUED:
        owner.setdefault("metadata", {}).get("annotations", {}).pop(names.QUEUE, None)
        _label(owner, names.QUEUE, queue)


def for_caller(template: Object, caller: Caller | None) -> None:
    """Makes the pods of this template run in the directory, and with the PATH, of the submitting shell."""
    if caller is not None:
        template.setdefault("metadata", {}).setdefault("annotations", {})[names.CALLER] = caller.annotation()


def with_source(obj: Object, source: Source | None) -> Object:
    """A copy of a job, or of the PodGroup of its pods, that says where it comes from."""
    metadata = obj.get("metadata") or {}
    marks = {
        **(metadata.get("annotations") or {}),
        names.SUBMITTED_FROM: source.annotation() if source else "",
    }
    return {**obj, "metadata": {**metadata, "annotations": marks}} if source else obj


def for_scheduler(template: Object, scheduler: str = names.SCHEDULER) -> None:
    """Assigns the pods of this template to muster, on a cluster that has other schedulers too.

    `scheduler`: the name that muster has there. A name that the author wrote is kept.
    """
    template.setdefault("spec", {}).setdefault("schedulerName", scheduler)


def _without_caller(value: Any) -> Any:  # Any: JSON
    """The value without where it was submitted, at any depth, and without mappings that held nothing else."""
    if isinstance(value, list):
        return [_without_caller(each) for each in value]
    if not isinstance(value, dict):
        return value
    rest = {key: _without_caller(each) for key, each in value.items() if key not in _SUBMISSION}
    return {key: each for key, each in rest.items() if each or each == value[key]}


def _label(owner: Object, key: str, value: str) -> None:
    owner.setdefault("metadata", {}).setdefault("labels", {})[key] = value
