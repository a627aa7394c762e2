"""What is written on objects on the way to the cluster: gang or not, who submits, which scheduler.

Every format uses these, so that `--gang` means the same everywhere. A gang is created suspended and
marked as ours to start; an object that its author suspended is left so, and waits for its author.
"""

from typing import Any, Final

from muster import names
from muster.api.base import Object
from muster.workloads.jobfile import Caller, Mode

#: Kinds that say in which queue a gang waits.
_QUEUED: Final = ("Job", "JobSet", "Pod", "PodGroup")
_MODE: Final[dict[str, Mode]] = {"true": "gang", "false": "independent"}


def mode_of(owner: Object) -> Mode | None:
    """What the object itself says, if anything."""
    metadata = owner.get("metadata", {})
    value = metadata.get("labels", {}).get(names.GANG) or metadata.get("annotations", {}).get(names.GANG)
    return _MODE.get(str(value))


def as_gang(owner: Object, *, gated: bool = False) -> None:
    """The pods of this Job or JobSet start together; muster starts it, unless its author suspended it.

    Pods with scheduling gates have to be made for somebody to lift them; they wait as they are.
    """
    _label(owner, names.GANG, "true")
    if not (owner["spec"].get("suspend") or gated):
        _label(owner, names.ADMISSION, "gang")
        owner["spec"]["suspend"] = True


def stated(obj: Object) -> Object:
    """A copy of `obj` without what only its first submission adds: what its author says of it.

    It is compared with what the author said before. That the object is suspended until muster starts it, and
    from where it was submitted, must not come back with the next submission.
    """
    if names.ADMISSION in obj.get("metadata", {}).get("labels", {}):
        labels = {key: text for key, text in obj["metadata"]["labels"].items() if key != names.ADMISSION}
        obj = {**obj, "metadata": {**obj["metadata"], "labels": labels}, "spec": {**(obj.get("spec") or {})}}
        obj["spec"].pop("suspend", None)
    return _without_caller(obj) if obj.get("kind") in ("Job", "JobSet", "Pod") else obj


def as_independent(owner: Object) -> None:
    """Each pod of this Job or JobSet starts as soon as there is room, whatever its namespace says."""
    _label(owner, names.GANG, "false")


def in_queue(owner: Object, queue: str) -> None:
    """A job, a bare pod or a PodGroup waits in this queue, whatever it said before."""
    if owner.get("kind") in _QUEUED:
        owner.setdefault("metadata", {}).get("annotations", {}).pop(names.QUEUE, None)
        _label(owner, names.QUEUE, queue)


def for_caller(template: Object, caller: Caller | None) -> None:
    """The pods of this template run where, and with the PATH with which, they were submitted."""
    if caller is not None:
        template.setdefault("metadata", {}).setdefault("annotations", {})[names.CALLER] = caller.annotation()


def for_scheduler(template: Object) -> None:
    """The pods of this template are muster's to place on a cluster that has other schedulers too."""
    template.setdefault("spec", {}).setdefault("schedulerName", names.SCHEDULER)


def _without_caller(value: Any) -> Any:  # Any: JSON
    """At whatever depth its templates stand; what holds nothing else goes with it."""
    if isinstance(value, list):
        return [_without_caller(each) for each in value]
    if not isinstance(value, dict):
        return value
    rest = {key: _without_caller(each) for key, each in value.items() if key != names.CALLER}
    return {key: each for key, each in rest.items() if each or each == value[key]}


def _label(owner: Object, key: str, value: str) -> None:
    owner.setdefault("metadata", {}).setdefault("labels", {})[key] = value
