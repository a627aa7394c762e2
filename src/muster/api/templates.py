"""The templates in an object: those of the Jobs and of the pods that are made from it.

Structs keep templates as JSON, because they are copied. They are found here.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from muster.api.base import AnyKind, Object
from muster.api.fields import Path
from muster.api.kinds import CRON_JOB, JOB, JOBSET, POD, VOLCANO_JOB


class Template(NamedTuple):
    path: Path
    #: the kind of what is made from it: JOB, VOLCANO_JOB or POD
    kind: AnyKind
    #: {metadata, spec} as written; {} if it is absent
    value: Any  # Any: JSON that may not have been read yet


#: A step of a path: every item of a list.
_EACH: Final = "*"
#: By API group and kind, where its templates are, and what is made from them.
_IN: Final[Mapping[tuple[str, str], tuple[tuple[str, ...], AnyKind]]] = {
    (JOB.group, JOB.kind): (("spec", "template"), POD),
    (CRON_JOB.group, CRON_JOB.kind): (("spec", "jobTemplate"), JOB),
    (JOBSET.group, JOBSET.kind): (("spec", "replicatedJobs", _EACH, "template"), JOB),
    (VOLCANO_JOB.group, VOLCANO_JOB.kind): (("spec", "tasks", _EACH, "template"), POD),
    (VOLCANO_JOB.group, "CronJob"): (("spec", "jobTemplate"), VOLCANO_JOB),
}


def templates(obj: Object, kind: AnyKind | None = None) -> Iterator[Template]:
    """Yields the templates in an object, each after the one that contains it; none for a kind without any.

    `kind`: the object's; None: as the object says.
    """
    named = (kind.group, kind.kind) if kind is not None else _named(obj)
    return _inside(named, obj, ())


def pod_templates(obj: Object, kind: AnyKind | None = None) -> Iterator[tuple[Path, Object]]:
    """Yields path and template of all pods that are made from an object; for a pod, the pod itself."""
    if (POD.group, POD.kind) == ((kind.group, kind.kind) if kind is not None else _named(obj)):
        yield (), obj
    for template in templates(obj, kind):
        if template.kind is POD:
            yield template.path, template.value


def _named(obj: Object) -> tuple[str, str]:
    return str(obj.get("apiVersion", "")).rpartition("/")[0], str(obj.get("kind", ""))


def _inside(named: tuple[str, str], value: Any, at: Path) -> Iterator[Template]:  # Any: JSON
    if named not in _IN:
        return
    steps, kind = _IN[named]
    for path, found in _walk(value, steps, at):
        yield Template(path, kind, found)
        yield from _inside((kind.group, kind.kind), found, path)


def _walk(value: Any, steps: tuple[str, ...], at: Path) -> Iterator[tuple[Path, Any]]:  # Any: JSON
    if not steps:
        yield at, value
    elif steps[0] == _EACH:
        for index, item in enumerate(value if isinstance(value, list) else ()):
            yield from _walk(item, steps[1:], (*at, index))
    else:
        inner = value.get(steps[0]) if isinstance(value, dict) else None
        yield from _walk({} if inner is None else inner, steps[1:], (*at, steps[0]))
