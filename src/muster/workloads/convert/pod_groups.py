"""An object of one kind of group as an object of another, and what that kind has no words for.

What an object asks for is read by its row of the table of groups, and written by the row of the other
dialect. What the written object then asks for is read again: the difference is what the other dialect cannot
say. For queues and priorities there are marks under `muster.dev`, which muster reads in every dialect.
"""

from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cache
from typing import Any, Final, get_type_hints

import msgspec

from muster import names
from muster.api import elastic_quota, groups, kinds, marks
from muster.api.base import AnyKind, Object, at
from muster.api.fields import Finding, Path, Severity
from muster.api.groups import Asked, Dialect
from muster.api.koordinator_v1alpha1 import GROUPS, NOT_PREEMPTIBLE, TOPOLOGY_INDEX, TOPOLOGY_SPEC
from muster.api.layers import Chain
from muster.api.volcano_v1beta1 import PREEMPTABLE, QUEUE_NAME
from muster.workloads.convert import topology
from muster.workloads.convert.units import Unit

#: What a cluster has noted about an object, which is not for an object of another kind.
_NOTED: Final = (
    *("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"),
    *("ownerReferences", "finalizers", "deletionTimestamp"),
)
_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
#: What only says where something is written, or is no demand.
_APART: Final = frozenset({"field", "field_of_tasks", "warnings", "queue", "priority_class", "priority"})
COMPARED: Final = tuple(each.name for each in fields(Asked) if each.name not in _APART)
#: Marks of a gang as a whole: on its group, or on the Job or JobSet that is the gang.
OF_GANG: Final = (
    *(key for key, row in marks.MARKS.items() if groups.CREATED.kind.kind in row.on),
    *(TOPOLOGY_SPEC, QUEUE_NAME, PREEMPTABLE),
)
#: Those that a scheduler obeys, by the dialect of another one than muster.
_OBEYED: Final[dict[str, Dialect | None]] = {
    **{key: None for key in OF_GANG if key != names.SUBMITTED_FROM},
    **dict.fromkeys(
        (TOPOLOGY_SPEC, TOPOLOGY_INDEX, *(key for key, _ in NOT_PREEMPTIBLE)), groups.KOORDINATOR.naming
    ),
    QUEUE_NAME: groups.VOLCANO,
    PREEMPTABLE: groups.VOLCANO,
    elastic_quota.NAME: groups.KOORDINATOR.naming,
}
#: Kinds that the scheduler of one dialect reads, apart from its groups; None: that of muster alone.
_OF_SCHEDULERS: Final[dict[AnyKind, Dialect | None]] = {
    kinds.QUEUE: None,
    kinds.QUEUE_VOLCANO: groups.VOLCANO,
    kinds.ELASTIC_QUOTA: groups.KOORDINATOR.naming,
    kinds.CLUSTER_NETWORK_TOPOLOGY: groups.KOORDINATOR.naming,
    kinds.WORKLOAD: groups.NATIVE,
}
#: What to do about a field that is lost. The refusal of an object says so itself.
ADVICE: Final = {
    "minimum": "write how many pods must run together",
    "tasks": f"write a PodGroup for each task, joined by the annotation {GROUPS}",
    "domain": "put the ClusterNetworkTopology with a layer of this label alone into the file, or write a "
    "podAffinity with this topologyKey",
    "total": "its quota is charged as its pods are created",
    "preempts": "write preemptionPolicy: Never in the PriorityClass of its pods",
    "indivisible": "raise the minimum to the number of its pods, so that none of them is evicted alone",
}


#: What a JobSet, or a Job, that is a gang says by its marks: what an object of this row says, and no minimum.
_OF_JOBS: Final = groups.CREATED


def as_row(unit: Unit, obj: Object, row: Dialect, to: Dialect, layers: Chain, told: list[Finding]) -> Object:
    """The group `obj` of the dialect `row` as an object of the dialect `to`.

    For `JOBSET` the metadata has the marks of the Job or JobSet that is the gang. `unit`: the object of the
    file that it comes from, which reports what is told. `layers`: those by which a topology may be said
    otherwise.
    """
    marked = to is groups.JOBSET
    obj = {key: value for key, value in obj.items() if key != "status"}
    what = "a JobSet" if marked else f"a PodGroup of {to}"
    to = _OF_JOBS if marked else to
    asked = _with_marks(row.read(obj), obj)
    name = str(at(obj, "metadata").get("name", ""))
    if not asked.domain and (label := topology.label(obj, layers)) and _says_domains(to, label):
        asked, obj = replace(asked, domain=label), without(obj, TOPOLOGY_SPEC)
    made = to.written(name, "", asked)
    again = to.read(made)
    made["metadata"] = _metadata(obj, asked, again)
    rule = topology.rule(obj, asked.domain, layers) if asked.domain != again.domain else ""
    if rule:
        made["metadata"].setdefault("annotations", {})[TOPOLOGY_SPEC] = rule
        again = replace(again, domain=asked.domain)
    known = frozenset() if marked else _fields(to)
    same = asked.field.split(".")[1:2] if _alike("minimum", asked, again) else []  # the field that says it
    for key, value in at(obj, "spec").items():
        if key in made["spec"] or key in same or _is_read(obj, row, key):
            continue
        if key in known:
            made["spec"][key] = value
        else:
            lost = f"is lost: {what} has no such field; muster places a gang without it"
            told.append(unit.report(("spec", key), lost, Severity.WARNING))
    for field in COMPARED:
        if not _alike(field, asked, again):
            path = ("spec", *_said_by(obj, row, field))
            why = asked.refusal if field == "refusal" else f"is lost: {what} cannot say it; {ADVICE[field]}"
            told.append(unit.report(path, why, Severity.WARNING))
    if marked:
        return made
    unsaid = [*((names.QUEUE,) if asked.queue != again.queue else ()), *_priority_mark(asked, again)]
    if rule and to.naming is not _OBEYED[TOPOLOGY_SPEC]:
        unsaid.append(TOPOLOGY_SPEC)
    for key in unsaid:
        only = f"{what} has no field for it: {key} says it, which only muster reads"
        told.append(unit.report(_path_of(obj, row, key), only, Severity.NOTE))
    for path, key in only_muster(made, to):
        if key not in unsaid:
            told.append(unit.report(path, disobeyed(to), Severity.NOTE))
    return made


def only_muster(obj: Object, to: Dialect) -> Iterator[tuple[Path, str]]:
    """Yields path and key of what a group or a pod says that the scheduler of a dialect does not read."""
    for where in ("labels", "annotations"):
        for key in at(obj, "metadata", where):
            if key in _OBEYED and to.naming is not _OBEYED[key]:
                yield ("metadata", where, key), key


def is_of_others(kind: AnyKind, to: Dialect) -> bool:
    """Whether a kind is read by muster, and by another scheduler, but not by that of a dialect."""
    return to is not groups.JOBSET and kind in _OF_SCHEDULERS and to.naming is not _OF_SCHEDULERS[kind]


def disobeyed(to: Dialect) -> str:
    return f"the scheduler of {to} does not read it; muster does"


def _with_marks(asked: Asked, obj: Object) -> Asked:
    """What the object asks for by its fields and, which count more, by its marks."""
    queue, priority = _mark(obj, names.QUEUE), _mark(obj, names.PRIORITY)
    if queue:
        asked = replace(asked, queue=queue)
    if priority and not _is_number(priority):
        asked = replace(asked, priority_class=priority, priority=None)
    elif asked.priority is not None:
        asked = replace(asked, priority_class="")
    return asked


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdigit()


def _mark(obj: Object, key: str) -> str:
    metadata = at(obj, "metadata")
    return str(at(metadata, "labels").get(key) or at(metadata, "annotations").get(key) or "")


def _priority_mark(asked: Asked, again: Asked) -> tuple[str, ...]:
    unsaid = asked.priority_class != again.priority_class or asked.priority != again.priority
    return (names.PRIORITY,) if unsaid else ()


def _metadata(obj: Object, asked: Asked, again: Asked) -> Object:
    """The metadata, with marks for what the fields do not say, and without marks for what they do."""
    found = {key: value for key, value in at(obj, "metadata").items() if key not in _NOTED}
    labels, annotations = dict(at(found, "labels")), dict(at(found, "annotations"))
    annotations.pop(_APPLIED, None)
    for values in (labels, annotations):
        if asked.queue:
            values.pop(names.QUEUE, None)
        if not _is_number(str(values.get(names.PRIORITY, ""))):
            values.pop(names.PRIORITY, None)
    if asked.queue != again.queue:
        labels[names.QUEUE] = asked.queue
    if _priority_mark(asked, again) and not _is_number(_mark(obj, names.PRIORITY)):
        annotations[names.PRIORITY] = asked.priority_class or str(asked.priority)
    for key, values in (("labels", labels), ("annotations", annotations)):
        found.pop(key, None)
        if values:
            found[key] = values
    return found


def _is_read(obj: Object, row: Dialect, key: str) -> bool:
    """Whether muster reads a field of the spec: without it the object would ask for something else."""
    asked, less = _with_and_without(obj, row, key)
    return any(getattr(asked, field) != getattr(less, field) for field in _READ)


_READ: Final = (*COMPARED, "queue", "priority_class", "priority")


def _with_and_without(obj: Object, row: Dialect, key: str) -> tuple[Asked, Asked]:
    spec: Object = {each: value for each, value in at(obj, "spec").items() if each != key}
    return row.read(obj), row.read({**obj, "spec": spec})


def _said_by(obj: Object, row: Dialect, field: str) -> Path:
    """The field of the spec without which the object would not ask for it."""
    for key in at(obj, "spec"):
        if not _alike(field, *_with_and_without(obj, row, key)):
            return (key,)
    return ()


def _path_of(obj: Object, row: Dialect, key: str) -> Path:
    """Where an object says its queue or its priority."""
    if _mark(obj, key):
        where = "labels" if key in at(obj, "metadata", "labels") else "annotations"
        return "metadata", where, key
    sort = _SORTS[key]
    return "spec", *next(filter(None, (_said_by(obj, row, each) for each in sort)), ())


#: What a key says where a dialect has no field for it.
_SORTS: Final = {
    names.QUEUE: ("queue",),
    names.PRIORITY: ("priority", "priority_class"),
    TOPOLOGY_SPEC: ("domain",),
}


def _says_domains(row: Dialect, label: str) -> bool:
    """Whether groups of a dialect have a field for the node label that holds them together."""
    return bool(row.read(row.written("", "", Asked(minimum=1, field="", domain=label))).domain)


def without(obj: Object, annotation: str) -> Object:
    """A copy of an object without an annotation."""
    metadata = at(obj, "metadata")
    kept = {key: text for key, text in at(metadata, "annotations").items() if key != annotation}
    return {**obj, "metadata": {**metadata, "annotations": kept}}


def _alike(field: str, one: Asked, other: Asked) -> bool:
    mine, theirs = getattr(one, field), getattr(other, field)
    if field == "minimum":  # without one any pod may start, as with one of 1
        mine, theirs = max(mine, 1), max(theirs, 1)
    return bool((mine or None) == (theirs or None))  # nothing may be said as "", as {} or by no field


@cache
def _fields(row: Dialect) -> frozenset[str]:
    """The fields of the spec that muster knows, as JSON names them."""
    spec: Any = get_type_hints(row.kind.type)["spec"]  # a struct
    return frozenset(each.encode_name for each in msgspec.structs.fields(spec))
