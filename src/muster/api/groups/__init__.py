"""The table of groups: a row for each kind of object that makes pods a gang.

A row, a `Dialect`, says what the object is, how a pod names it, what stands for it while it does not exist,
what it asks for, and the words of its status. PodGroups have a module here for each project. Translation,
controllers, views, the readers of job files, `plan` and `check` iterate over the rows, and name no kind of
PodGroup themselves. How a gang of a dialect is read is registered by row in `translate.dialects`.
docs/internals/architecture.md says how to add a dialect.

A pod belongs to the first group of the table that it names by label; otherwise to the one that it names by
annotation; otherwise to the gang that it describes itself; otherwise to the one that its spec names, which a
controller may have set; otherwise to the JobSet or Job that controls it, if that is a gang. Otherwise it is a
gang of one. A pod that names gangs of two dialects is refused (`also_named`).

Projects that stem from each other name their groups by one key (`Dialect.shares`). The gang is that of the
key's row, whichever object describes it: that of the first row which has one of the name (`counting`).
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from muster.api import kinds
from muster.api.base import AnyKind, Object, Reference, at, controller_of, is_subdomain
from muster.api.core_v1 import Pod, PodTemplate
from muster.api.groups.coscheduling import KOORDINATOR, POD_GROUP
from muster.api.groups.dialect import Asked, Dialect, Phases
from muster.api.groups.kubebatch import INCUBATOR, SIGS_DEV
from muster.api.groups.native import NATIVE
from muster.api.groups.volcano import VOLCANO
from muster.api.jobset_v1alpha2 import JOBSET_NAME

__all__ = [
    "INCUBATOR",
    "KOORDINATOR",
    "NATIVE",
    "POD_GROUP",
    "SIGS_DEV",
    "VOLCANO",
    "Asked",
    "Dialect",
    "Phases",
]

JOBSET: Final = Dialect(name="jobset", kind=kinds.JOBSET, controls=kinds.JOB, stamp=JOBSET_NAME)
JOB: Final = Dialect(name="job", kind=kinds.JOB, controls=kinds.POD)
#: a pod without a group: a gang of one
POD: Final = Dialect(name="pod", kind=kinds.POD)

#: All dialects, in the order in which namesakes claim `namespace/name` as the id of their gang.
TABLE: Final = (JOBSET, JOB, POD_GROUP, KOORDINATOR, VOLCANO, INCUBATOR, SIGS_DEV, NATIVE, POD)
#: Those of gangs: a row that shares the keys of another shares its gangs, too.
OF_GANGS: Final = tuple(row for row in TABLE if row.shares is None)
#: Those whose groups are named by pods, and control nothing.
NAMED: Final = tuple(row for row in TABLE if row.naming.label or row.naming.annotations or row.in_spec)
#: By the row of a gang, those of which an object may describe it, in order.
SHARING: Final[Mapping[Dialect, tuple[Dialect, ...]]] = {
    row: tuple(other for other in TABLE if other.naming is row) for row in OF_GANGS
}
#: The kinds of their objects.
OF_NAMED: Final[tuple[AnyKind, ...]] = tuple(row.kind for row in NAMED)
#: What these kinds are called.
NAMES_OF_NAMED: Final = tuple(dict.fromkeys(kind.kind for kind in OF_NAMED))
#: That of the groups that muster creates for pods which are to be a gang.
CREATED: Final = POD_GROUP
#: That of gangs that pods describe.
DESCRIBED: Final = KOORDINATOR
BY_KIND: Final[Mapping[AnyKind, Dialect]] = {row.kind: row for row in TABLE}

_BY_REFERENCE: Final = {(row.kind.group, row.kind.kind): row.naming for row in TABLE}

#: Labels, and annotations, by which a pod may name a gang; keys of both sorts by which it may describe one.
LABELS: Final = tuple(row.label for row in NAMED if row.label)
ANNOTATIONS: Final = tuple(key for row in NAMED for key in row.annotations)
DESCRIPTIONS: Final = tuple(key for row in NAMED for key in row.by_description)
_NAMING: Final = frozenset((*LABELS, *DESCRIPTIONS))
_AS_ANNOTATION: Final = frozenset((*ANNOTATIONS, *DESCRIPTIONS))
#: the annotations that say which gang a pod is in, and what that is like
_SAYING: Final = _AS_ANNOTATION.union(key for row in NAMED for key in (*row.minimum, *row.description))
#: the row whose groups `spec.schedulingGroup` names
_BY_FIELD: Final = next((row for row in NAMED if row.in_spec), None)
_BY_LABEL: Final = tuple((row, row.label) for row in NAMED if row.label)
_BY_ANNOTATION: Final = tuple((row, key) for row in NAMED for key in row.annotations)
_BY_DESCRIPTION: Final = tuple((row, key) for row in NAMED for key in row.by_description)


class Named(NamedTuple):
    """The group that a pod names, whether or not its object exists."""

    dialect: Dialect
    name: str
    #: whether the pod describes the gang
    described: bool = False


def named(pod: Pod | PodTemplate) -> Named | None:
    """Returns the group that a pod, or the pods of a template, name; None if they name none."""
    meta = pod.metadata
    return _named(meta.labels, meta.annotations, pod.spec.scheduling_group)


def also_named(pod: Pod, found: Named) -> list[Named]:
    """Returns the groups of other dialects that a pod names besides the one that it belongs to."""
    meta = pod.metadata
    every = _all_named(meta.labels, meta.annotations, pod.spec.scheduling_group)
    return [one for one in every if one.dialect is not found.dialect]


def named_in(template: Object) -> Named | None:
    """As `named`, of a pod or a template as JSON."""
    meta = at(template, "metadata")
    field = at(template, "spec", "schedulingGroup") or None
    return _named(at(meta, "labels"), at(meta, "annotations"), field)


def naming(template: Object) -> tuple[str, ...]:
    """Returns the path of the field, label or annotation by which a template names its group; () if none."""
    found = named_in(template)
    if found is None:
        return ()
    row, meta = found.dialect, at(template, "metadata")
    if row.in_spec and at(template, "spec", "schedulingGroup").get("podGroupName"):
        return "spec", "schedulingGroup", "podGroupName"
    for key in filter(None, (row.label, *row.annotations, *row.by_description)):
        for where in ("labels", "annotations"):
            if at(meta, where).get(key) == found.name:
                return "metadata", where, key
    return ()


def row_of(obj: Object) -> Dialect | None:
    """Returns the dialect that an object as JSON is a group, or a pod, of."""
    kind = kinds.BY_NAME.get((obj["apiVersion"], obj["kind"]))
    return BY_KIND.get(kind) if kind is not None else None


def naming_of(source: Reference) -> Dialect | None:
    """Returns the dialect of the gangs that an object of this kind describes, in whatever version."""
    return _BY_REFERENCE.get((source.api_version.rpartition("/")[0], source.kind))


def possible(pod: Pod) -> Iterator[tuple[Dialect, str]]:
    """Yields the groups whose member a pod may be, with their names."""
    if (found := named(pod)) is not None:
        yield found.dialect, found.name
    controller = controller_of(pod)
    for row in TABLE:
        if row.stamp and (name := pod.metadata.labels.get(row.stamp)):
            yield row, name
        if row.controls is kinds.POD and controller is not None and row.kind.matches(controller):
            yield row, controller.name


def created(name: str, namespace: str, minimum: int) -> Object:
    """Returns the object of a new group of `CREATED`: so many of its pods must run together."""
    return CREATED.written(name, namespace, Asked(minimum=minimum, field=""))


def named_alike(before: Pod, now: Pod) -> bool:
    """Whether two states of a pod name the same group, and describe it alike."""
    if before.metadata.labels != now.metadata.labels:
        return False
    if before.spec.scheduling_group != now.spec.scheduling_group:
        return False
    old, new = before.metadata.annotations, now.metadata.annotations
    if old.keys().isdisjoint(_SAYING) and new.keys().isdisjoint(_SAYING):
        return True
    return all(old.get(key) == new.get(key) for key in _SAYING)


def _named(labels: Mapping[str, str], annotations: Mapping[str, str], field: Object | None) -> Named | None:
    # most pods name none, and this is asked several times for each change of a pod
    if field is None and labels.keys().isdisjoint(_NAMING) and annotations.keys().isdisjoint(_AS_ANNOTATION):
        return None
    return next(_all_named(labels, annotations, field), None)


def _all_named(
    labels: Mapping[str, str], annotations: Mapping[str, str], field: Object | None
) -> Iterator[Named]:
    for row, label in _BY_LABEL:
        if name := labels.get(label):
            yield Named(row, name)
    for row, key in _BY_ANNOTATION:
        if name := annotations.get(key):
            yield Named(row, name)
    for row, key in _BY_DESCRIPTION:
        if name := labels.get(key) or annotations.get(key):  # a name that no object could have names none
            if is_subdomain(name):
                yield Named(row, name, described=True)
            break
    if field is not None and _BY_FIELD is not None and (name := field.get("podGroupName")):
        yield Named(_BY_FIELD, str(name))
