"""The objects of a file that is converted, each with the pod templates in it.

Objects of kinds that muster does not read are passed on. Their pod templates are found by their shape, since
their pods may be members of a gang, too.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from muster import names
from muster.api import kinds
from muster.api.base import AnyKind, Object, at, without_nulls
from muster.api.fields import Finding, Path, Severity
from muster.api.templates import pod_templates
from muster.workloads import annotate
from muster.workloads.demand import pod_sets
from muster.workloads.findings import JobFileError
from muster.workloads.jobfile import PLAIN
from muster.workloads.kubernetes import objects, volcano_jobs
from muster.workloads.source import Document

#: The namespace of objects that name none.
_DEFAULT: Final = "default"
#: Kinds of which it is known how many pods they have at a time.
_COUNTED: Final = (kinds.JOBSET, kinds.JOB, kinds.POD)


@dataclass(slots=True, eq=False)
class Unit:
    """One object, which is changed in place."""

    object: Any  # a user's YAML; an `Object` if its kind is known
    #: a finding about a field of the object
    report: Callable[[Path, str, Severity], Finding]
    #: None: muster does not read it
    kind: AnyKind | None = None
    #: the object as written, with its nulls
    written: Any = None  # a user's YAML

    @property
    def name(self) -> str:
        """The name; "" if the API server makes it."""
        return str(self._metadata.get("name") or "")

    @property
    def namespace(self) -> str:
        return str(self._metadata.get("namespace") or _DEFAULT)

    @property
    def _metadata(self) -> Object:
        return at(self.object, "metadata") if isinstance(self.object, dict) else {}

    def __str__(self) -> str:
        kind = self.object.get("kind") if isinstance(self.object, dict) else None
        return " ".join(filter(None, (str(kind or "a document")[:80], self.name[:80])))

    @property
    def type(self) -> str:
        """`apiVersion Kind`, as its author writes them."""
        said = self.object if isinstance(self.object, dict) else {}
        return " ".join(str(said.get(key, ""))[:80] for key in ("apiVersion", "kind"))

    @property
    def final(self) -> Any:  # Any: a user's YAML
        """The object as it is printed: as written unless it was changed."""
        unchanged = self.written is not None and self.object == without_nulls(self.written)
        return self.written if unchanged else self.object


class Member(NamedTuple):
    """The pods of one template."""

    unit: Unit
    path: Path
    template: Object
    #: how many there are at a time; None if that is not known
    pods: int | None


def read(documents: Sequence[Document], *, volcano: bool) -> tuple[list[Unit], list[Finding]]:
    """The objects of a file of Kubernetes objects, and what is said of those that are compiled.

    `volcano`: Jobs of Volcano stay what they are; otherwise each is what it is compiled to. Raises
    `JobFileError` for what cannot be read.
    """
    found: list[Unit] = []
    findings: list[Finding] = []
    for document, value, path in objects.flat(documents):
        kind = objects.known_kind(value)
        if kind is None:
            found.append(Unit(value, _reporter(document, path)))
            continue
        entry = objects.Entry(kind, without_nulls(value), document, path)
        errors = objects.mistyped(entry)
        if kind is kinds.VOLCANO_JOB and not volcano and not errors:
            found += _compiled(entry, findings)
        elif not errors:
            found.append(Unit(annotate.stated(entry.object), entry.report, kind, value))
        findings += errors
    if errors := [each for each in findings if each.severity is Severity.ERROR]:
        raise JobFileError(errors)
    return found, findings


def _compiled(entry: objects.Entry, findings: list[Finding]) -> Iterator[Unit]:
    """What a Job of Volcano becomes for those who have no controller for it."""
    metadata = entry.object.setdefault("metadata", {})
    if not metadata.get("name"):
        told = "is missing; a JobSet is called by it"
        findings.append(entry.report(("metadata", "name"), told))
        return
    named = metadata.setdefault("namespace", "")
    made, told_of_it = volcano_jobs.compiled([entry], PLAIN)
    findings += told_of_it
    for each in made:
        if not named:
            each.object["metadata"].pop("namespace", None)
        yield Unit(each.object, each.report, each.kind)


def _reporter(document: Document, at: Path) -> Callable[[Path, str, Severity], Finding]:
    return lambda path, message, severity: document.finding((*at, *path), message, severity)


def members(unit: Unit) -> list[Member]:
    """The pod templates of an object."""
    if unit.kind is None:
        return [Member(unit, path, template, None) for path, template in _shaped(unit.object, ())]
    templates = [*pod_templates(unit.object, unit.kind)]
    counts: list[int | None] = [None] * len(templates)
    if unit.kind in _COUNTED:
        counts = _counts(unit)
    pairs = zip(templates, counts, strict=True)
    return [Member(unit, path, template, count) for (path, template), count in pairs]


def _counts(unit: Unit) -> list[int | None]:
    named = unit.object if unit.name else {**unit.object, "metadata": {"name": ""}}
    try:
        return [each.count for each in pod_sets(named)]
    except LookupError:  # an API server would refuse it
        told = "is not whole: each of its jobs needs a spec with a template"
        raise JobFileError([unit.report(("spec",), told, Severity.ERROR)]) from None


def marked_within(value: Any, path: Path = ()) -> Iterator[Path]:  # Any: a user's YAML
    """Yields the paths of what is marked as a gang of muster, such as the template of a CronJob."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from marked_within(item, (*path, index))
    elif isinstance(value, dict):
        metadata = at(value, "metadata")
        marks = (at(metadata, where).get(names.GANG) for where in ("labels", "annotations"))
        if "true" in map(str, marks):
            yield path
        for key, item in value.items():
            yield from marked_within(item, (*path, key))


def _shaped(value: Any, path: Path) -> Iterator[tuple[Path, Object]]:  # Any: a user's YAML
    """Yields what has the shape of a pod template: a spec with containers."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _shaped(item, (*path, index))
    elif isinstance(value, dict):
        if isinstance(at(value, "spec").get("containers"), list):
            yield path, value
            return
        for key, item in value.items():
            yield from _shaped(item, (*path, key))
