"""Reads one Kubernetes object of a file: its kind, its name, and the types of the fields that muster reads.

Fields that muster does not read pass through unchecked. Null means absent, as in Kubernetes.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from muster.api import foreign_kinds, groups, kinds
from muster.api.base import Kind, Object, without_nulls
from muster.api.batch_v1 import JobSpec
from muster.api.core_v1 import PodTemplate
from muster.api.fields import Finding, InvalidObject, Path, Severity, convert
from muster.api.templates import templates
from muster.names import SCHEDULER
from muster.workloads import dns
from muster.workloads.findings import nearest, similar
from muster.workloads.jobfile import GENERATED, PREFIX, Options
from muster.workloads.source import Document

#: Kinds whose end ends the run.
JOBS: Final[tuple[Kind[Any], ...]] = (kinds.JOBSET, kinds.JOB, kinds.POD)
#: Any, because a table of kinds holds kinds of many types.
SUPPORTED: Final[tuple[Kind[Any], ...]] = (
    *JOBS,
    kinds.VOLCANO_JOB,
    *groups.OF_NAMED,
    kinds.WORKLOAD,
    kinds.CONFIG_MAP,
    kinds.SECRET,
    kinds.SERVICE,
    kinds.SERVICE_ACCOUNT,
    kinds.RESOURCE_CLAIM_TEMPLATE,
    kinds.RESOURCE_CLAIM,
    kinds.DEVICE_CLASS,
    kinds.PRIORITY_CLASS,
    kinds.RESOURCE_QUOTA,
    kinds.PDB,
    kinds.CLUSTER_NETWORK_TOPOLOGY,
    *kinds.QUEUES,
    kinds.NAMESPACE,
)
_BY_KIND: Final = {kind.kind: kind for kind in reversed(SUPPORTED)}
_BY_NAME: Final = {name: kind for kind in SUPPORTED for name in kind.names}
#: Kinds that have a format of their own; they come here if their apiVersion is wrong.
_BATCH: Final = {kind.kind: kind for kind in (kinds.BATCH_JOB, kinds.LATTICE_JOB)}
_READ: Final = (*SUPPORTED, *_BATCH.values())
_INT32: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One object, and its place in the file."""

    kind: Kind[Any]  # Any: of any kind
    object: Object
    document: Document
    at: Path
    #: the field in the file that a field of the object is compiled from
    origin: Callable[[Path], Path] = lambda path: path
    #: whether it is deleted with the file's job
    owned: bool = False
    #: the kind that its author wrote, if that is compiled; "" if it is the object's
    written: str = ""

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.object["metadata"].get("namespace", ""))

    def report(self, path: Path, message: str, severity: Severity = Severity.ERROR) -> Finding:
        """A finding about a field of the object."""
        return self.document.finding((*self.at, *self.origin(path)), message, severity)


def read(documents: Sequence[Document], options: Options) -> tuple[list[Entry], list[Entry], list[Finding]]:
    """The objects of a file that can be read, those that cannot, and what is wrong with these."""
    entries: list[Entry] = []
    unread: list[Entry] = []
    findings: list[Finding] = []
    names = _Names(options)
    for document, value, at in flat(documents):
        found = _kind(document, value, at)
        if isinstance(found, Finding):
            findings.append(found)
            continue
        entry = Entry(found, without_nulls(value) | {"apiVersion": found.api_version}, document, at)
        errors = names.settle(entry) or mistyped(entry)
        findings += errors
        (unread if errors else entries).append(entry)
    return entries, unread, findings


def known(documents: Sequence[Document]) -> bool:
    """Whether the documents hold only objects that a job file may hold."""
    values = (value for _, value, _ in flat(documents) if isinstance(value, dict))
    return all(known_kind(value) is not None for value in values)


def known_kind(value: Any) -> Kind[Any] | None:  # Any: a user's YAML, a kind of any objects
    """The kind of an object that a job file may hold; None for others."""
    if not isinstance(value, dict):
        return None
    name = str(value.get("apiVersion")), str(value.get("kind"))
    return _BY_NAME.get(name)


def flat(documents: Sequence[Document]) -> Iterator[tuple[Document, Any, Path]]:  # Any: a user's YAML
    """Each object; the items of a List are yielded one by one."""
    for document in documents:
        value = document.value
        if isinstance(value, dict) and value.get("kind") == "List" and isinstance(value.get("items"), list):
            for index, item in enumerate(value["items"]):
                yield document, item, ("items", index)
        else:
            yield document, value, ()


def _kind(document: Document, value: Any, at: Path) -> Kind[Any] | Finding:  # Any: a user's YAML
    if not isinstance(value, dict):
        return document.finding(at, "is not an object: a mapping with apiVersion and kind is needed")
    name, version = value.get("kind"), value.get("apiVersion")
    if not isinstance(name, str) or not name:
        return document.finding(
            (*at, "kind"), f"is missing; one of {', '.join(sorted([*_BY_KIND, *_BATCH]))}"
        )
    found = _BY_NAME.get((str(version), name))
    if found is not None:
        return found
    if (whose := _foreign(version, name)) is not None:
        return document.finding((*at, "kind"), whose)
    if name not in _BY_KIND and name not in _BATCH:
        told = f"{name} is not supported in a job file{nearest(name, [*_BY_KIND, *_BATCH])}"
        return document.finding((*at, "kind"), told)
    known = [kind for kind in _READ if kind.kind == name]
    group = foreign_kinds.group_of(str(version))
    versions = " or ".join(kind.api_version for kind in [k for k in known if k.group == group] or known)
    if version == versions:
        return document.finding(at, f"a {name} must be the only document of its file")
    said = "is missing" if version is None else f"is {version!r}"
    return document.finding((*at, "apiVersion"), f"{said}; {name} is known as {versions}")


def _foreign(version: object, name: str) -> str | None:
    """Returns what is said of a kind of another project; None if one that muster reads may be meant."""
    group = foreign_kinds.group_of(version) if isinstance(version, str) else None
    if group is None:
        row = None if name in _BY_KIND or name in _BATCH else foreign_kinds.called(name)
        return row.message() if row is not None else None
    if (row := foreign_kinds.find(str(version), name)) is not None:
        return row.message(group)
    groups_read = {kind.group for kind in _READ}
    if group in groups_read:
        return None
    if (project := foreign_kinds.PROJECTS.get(group)) is not None:
        return f"{name} is a kind of {project} ({group}), which a job file cannot have"
    if not group or similar(group, groups_read):
        return None
    return (
        f"{name} of {group} is a kind that a job file cannot have; apply it with kubectl: muster schedules "
        f"the pods that its controller makes if they have schedulerName: {SCHEDULER}"
    )


class _Names:
    """The names of the file's objects: generated where requested, each used once."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._taken: dict[tuple[str, str, str], int] = {}

    def settle(self, entry: Entry) -> list[Finding]:
        """Completes the object's name and namespace, or returns what is wrong with them."""
        metadata = entry.object.setdefault("metadata", {})
        if not isinstance(metadata, dict):
            return [entry.report(("metadata",), "takes a mapping with a name")]
        if entry.kind.namespaced:
            here = self._options.namespace
            own = metadata.setdefault("namespace", here)
            if self._options.confined and own != here:
                told = f"is {own!r}, and --namespace is {here}; omit one of them"
                return [entry.report(("metadata", "namespace"), told)]
        else:
            metadata.pop("namespace", None)
        name, prefix = metadata.get("name"), metadata.pop("generateName", None)
        if not name and isinstance(prefix, str) and prefix:
            name = self._generated(entry, prefix)
            metadata["name"] = name
        for step in ("name", "namespace"):
            if (error := _misnamed(entry, step, metadata.get(step))) is not None:
                return [error]
        identity = (entry.kind.path(), str(metadata.get("namespace", "")), str(name))
        line = entry.document.mark(entry.at).line
        if (other := self._taken.setdefault(identity, line)) != line:
            return [
                entry.report(
                    ("metadata", "name"),
                    f"a {entry.kind.kind} {name} is already in line {other}; rename one",
                )
            ]
        return []

    def _generated(self, entry: Entry, prefix: str) -> str:
        """As long a name as API servers generate: what they accept must not be too long here."""
        namespace = str(entry.object["metadata"].get("namespace", ""))
        stem = f"{prefix[:PREFIX]}{self._options.suffix[:GENERATED]}"
        name, number = stem, 1
        while (entry.kind.path(), namespace, name) in self._taken:
            number += 1
            name = f"{stem}-{number}"
        return name


def _misnamed(entry: Entry, step: str, name: object) -> Finding | None:
    path = ("metadata", step)
    if step == "namespace" and not entry.kind.namespaced:
        return None
    if not isinstance(name, str) or not name:
        return entry.report(path, "is missing; write a name of lowercase letters, digits and hyphens")
    if not dns.is_name(name):
        better = re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")[: dns.LABEL]
        advice = f", such as {better}" if dns.is_name(better) else ""
        return entry.report(path, f"{name[:80]!r}: use lowercase letters, digits, hyphens and dots{advice}")
    if len(name) > dns.NAME:
        return entry.report(path, f"has {len(name)} characters, {len(name) - dns.NAME} more than {dns.NAME}")
    return None


def mistyped(entry: Entry) -> list[Finding]:
    """Errors for fields of a wrong type, in the object and in its templates."""
    errors = _type_errors(entry.object, entry.kind.type, ())
    for path, value, type_ in _templates(entry):
        errors += _type_errors(value, type_, path)
    found = [
        entry.report(at, told)
        for each in errors
        for at, told in _told(entry.object, _within(entry.object, each), each.message)
    ]
    return found or list(_numbers(entry))


#: Errors reported at most for one object, or for one of its templates.
_MOST_ERRORS: Final = 20


def _type_errors(value: Any, type_: type, at: Path) -> list[Finding]:  # Any: a user's YAML
    """Errors where `value` cannot be read as `type_`.

    The reader stops at the first error, so the faulty value is removed and the rest is read again.
    """
    errors: list[Finding] = []
    while len(errors) < _MOST_ERRORS:
        try:
            convert(value, type_, at)
            break
        except InvalidObject as error:
            errors += error.errors
            if (rest := _without(value, error.errors[0].path[len(at) :])) is None:
                break
            value = rest
    return errors


def _without(value: Any, path: Path) -> Any:  # Any: a user's YAML
    """A copy of `value` without the item at `path`; None if there is no such item, or `path` is empty."""
    if not path or not isinstance(value, dict | list):
        return None
    step = path[0]
    if step not in (value if isinstance(value, dict) else range(len(value))):
        return None
    copy: Any = value.copy()
    if len(path) == 1:
        del copy[step]
    elif (rest := _without(copy[step], path[1:])) is None:
        return None
    else:
        copy[step] = rest
    return copy


def _templates(entry: Entry) -> Iterator[tuple[Path, Any, type]]:  # Any: a user's YAML
    """The parts that the object's struct keeps as JSON, each with the struct that it is read as later."""
    for path, kind, template in templates(entry.object, entry.kind):
        if kind is kinds.JOB:
            yield (*path, "spec"), template.get("spec", {}) if isinstance(template, dict) else {}, JobSpec
        else:
            yield path, template, PodTemplate


def _numbers(entry: Entry) -> Iterator[Finding]:
    """Errors for counts that Kubernetes would refuse."""
    for path, spec in _counted(entry):
        for name in ("replicas", "parallelism", "completions", "backoffLimit", "activeDeadlineSeconds"):
            value = spec.get(name)
            if isinstance(value, int) and value < 0:
                yield entry.report((*path, name), f"is {value}; the least is 0")
            elif isinstance(value, int) and value > _INT32:
                yield entry.report((*path, name), f"is {value}; the most is {_INT32}")


def _counted(entry: Entry) -> Iterator[tuple[Path, Object]]:
    if entry.kind is kinds.JOB:
        yield ("spec",), entry.object.get("spec", {})
    if entry.kind is kinds.JOBSET:
        for index, replicated in enumerate(entry.object.get("spec", {}).get("replicatedJobs", [])):
            at: Path = ("spec", "replicatedJobs", index)
            yield at, replicated
            yield (*at, "template", "spec"), replicated.get("template", {}).get("spec", {})


def _within(value: Object, error: Finding) -> Path:
    """The longest prefix of the error's path that exists in the object."""
    path: list[str | int] = []
    current: Any = value  # Any: a user's YAML
    for step in error.path:
        try:
            current = current[step]
        except (KeyError, IndexError, TypeError):
            break
        path.append(step)
    return tuple(path)


def _told(obj: Object, at: Path, message: str) -> Iterator[tuple[Path, str]]:
    """Yields what is said of an error: of a map of texts, of each key whose value is none."""
    values: Any = obj  # a user's YAML
    for step in at:
        values = values[step]
    if at[-1:] not in (("labels",), ("annotations",)) or not isinstance(values, dict):
        yield at, _plainly(message) + _quoted(obj, at, message)
        return
    for key, value in values.items():
        if not isinstance(value, str):
            sort = next((said for type_, said in _SORTS.items() if isinstance(value, type_)), "nothing")
            text = json.dumps(value, default=str)
            written = "'{}'".format(text.replace("'", "''")) if '"' in text else f'"{text}"'
            advice = f"; put it in quotes: {written}" if len(text) <= _QUOTED else ""
            yield (*at, key), f"takes text, not {sort}{advice}"


#: What values that are no text are called, a flag before the number that it is to Python.
_SORTS: Final = {bool: "true or false", int | float: "a number", list: "a list", dict: "a mapping"}
#: Characters of a value that a message repeats.
_QUOTED: Final = 200


def _quoted(value: Any, at: Path, message: str) -> str:  # Any: a user's YAML
    """What to write for a number or flag in the place of text, such as the 1 of `[sleep, 1]`."""
    for step in at:
        value = value[step]
    if not message.startswith("Expected `str") or not isinstance(value, bool | int | float):
        return ""
    return f'; put it in quotes: "{str(value).lower() if isinstance(value, bool) else value}"'


_WORDS: Final = {
    "int": "a whole number",
    "str": "text",
    "bool": "true or false",
    "object": "a mapping",
    "array": "a list",
    "float": "a number",
    "null": "nothing",
}


def _plainly(message: str) -> str:
    """msgspec's message in YAML terms."""
    if match := re.fullmatch(r"Expected `([\w| ]+)`, got `(\w+)`", message):
        wanted = " or ".join(_WORDS.get(word, word) for word in match[1].split(" | ") if word != "null")
        return f"takes {wanted}, not {_WORDS.get(match[2], match[2])}"
    if match := re.fullmatch(r"Expected `(?:int|float)` ([<>]=) (-?[\d.]+)", message):
        return f"is too {'large; the most' if match[1] == '<=' else 'small; the least'} is {match[2]}"
    if match := re.fullmatch(r"Object missing required field `(\w+)`", message):
        return f"needs {match[1]}"
    return message
