"""Reads a cluster as plain Kubernetes objects from a file: YAML documents, JSON, lists of any kind.

The file is the output of `kubectl get … -o yaml|json`, several of them concatenated, or written by hand. A
snapshot may be large (50,000 pods are 40 to 300 MB), so it is not read like a job file. JSON is decoded
straight into the slim structs. YAML takes twenty times as long, and only libyaml and its nesting guard visit
each node. Positions are determined only if something is wrong.

Objects of kinds that are not requested are counted, not refused: a dump holds many. An unreadable object of a
requested kind is an error, because omitting a pod would invent free capacity.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path as FilePath
from typing import Any, Final

import msgspec
import yaml

from muster.api import foreign_kinds
from muster.api.base import Kind, Object, ObjectMeta, Resource, without_nulls
from muster.api.fields import TOO_DEEP, Finding, InvalidObject, convert, deep, too_deep
from muster.api.kinds import ALL
from muster.kube import apply
from muster.kube.decode import object_decoder
from muster.workloads import annotate, source
from muster.workloads.amounts import unreadable
from muster.workloads.findings import JobFileError

#: Limits of one file: its bytes, and its values with aliases expanded.
MAX_BYTES: Final = 2**30
MAX_VALUES: Final = 100_000_000
#: Errors reported at most for one file.
MOST_ERRORS: Final = 20

#: Any: kinds and objects of many types
AnyKind = Kind[Any]
Name = tuple[AnyKind, str, str]


@dataclass(slots=True)
class Objects:
    """Objects by kind, namespace and name, and what was omitted."""

    items: dict[Name, Resource] = field(default_factory=dict)
    #: objects of other kinds, by `apiVersion Kind`
    ignored: Counter[str] = field(default_factory=Counter)
    #: objects that occurred again: the last one of each name counts
    repeated: int = 0
    #: kinds that the cluster does not know
    absent: list[AnyKind] = field(default_factory=list)
    #: kinds that the cluster does not permit to list: those to do without, and others, with its message
    hidden: list[AnyKind] = field(default_factory=list)
    denied: dict[AnyKind, str] = field(default_factory=dict)

    def add(self, kind: AnyKind, resource: Resource) -> None:
        name = (kind, resource.metadata.namespace, resource.metadata.name)
        self.repeated += name in self.items
        self.items[name] = resource

    def advice(self) -> Iterator[str]:
        """Yields what to do with omitted objects: kinds of other projects, and versions that are not read."""
        for what in sorted(self.ignored):
            version, _, name = what.rpartition(" ")
            group = foreign_kinds.group_of(version)
            if (row := foreign_kinds.find(version, name)) is not None:
                yield row.message(group)
                continue
            versions = [kind.api_version for kind in ALL if (kind.group, kind.kind) == (group, name)]
            if versions and version not in versions:
                yield f"{name} of {version} is not read; {name} is known as {' or '.join(versions)}"


def read(file: FilePath, kinds: Iterable[AnyKind]) -> Objects:
    """The objects of these kinds in a file. Raises JobFileError with what is wrong, and where."""
    try:
        size = file.stat().st_size
        if size > MAX_BYTES:
            raise JobFileError.of(
                str(file), f"is {size / 2**30:.1f} GiB; a snapshot may have {MAX_BYTES >> 30} GiB"
            )
        content = file.read_bytes()
    except OSError as error:
        raise JobFileError.of(str(file), f"cannot be read: {error.strerror or error}") from None
    return parse(content, str(file), kinds)


def parse(
    content: bytes,
    file: str,
    kinds: Iterable[AnyKind],
    namespace: str = "default",
    *,
    confined: bool = False,
    proposed: bool = False,
) -> Objects:
    """The objects of these kinds in a file's content, called `file` in errors.

    `namespace`: of objects that do not name one; `confined`: objects must not name another. `proposed`: each
    object carries what its author wrote, so that it can be applied to an existing one.
    """
    if not content.strip():
        raise JobFileError.of(file, "is empty; expected Kubernetes objects")
    reading = _Reading(file, kinds, namespace, confined, proposed)
    if content.lstrip()[:1] in (b"{", b"["):
        reading.take_json(content)
    else:
        reading.take_yaml(source.decode(content, file))
    return reading.done()


def typed(
    values: Iterable[Object], kinds: Iterable[AnyKind], called: str = "objects", *, proposed: bool = False
) -> Objects:
    """The objects of these kinds among a program's own. Errors name objects by their position."""
    reading = _Reading(called, kinds, proposed=proposed)
    for number, value in enumerate(values):
        reading.take(value, (number,))
    return reading.done()


class _Head(msgspec.Struct, rename="camel"):
    """The part of an object that decides how to read the rest."""

    api_version: str = ""
    kind: str = ""
    items: list[msgspec.Raw] | None = None


_HEADS: Final = msgspec.json.Decoder(_Head)
_WHERE = tuple[str | int, ...]


class _Reading:
    def __init__(
        self,
        file: str,
        kinds: Iterable[AnyKind],
        namespace: str = "default",
        confined: bool = False,
        proposed: bool = False,
    ) -> None:
        self._file, self._namespace, self._confined, self._proposed = file, namespace, confined, proposed
        self._kinds = {name: kind for kind in kinds for name in kind.names}
        self._found = Objects()
        self._errors: list[tuple[_WHERE, str]] = []
        self._text: str | None = None

    def done(self) -> Objects:
        if self._errors:
            raise JobFileError(self._findings())
        return self._found

    def take_json(self, content: bytes) -> None:
        try:
            if content.lstrip()[:1] == b"[":
                for number, item in enumerate(msgspec.json.decode(content, type=list[msgspec.Raw])):
                    self._take_raw(item, (number,), "", "")
            else:
                self._take_raw(content, (), "", "")
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise _not_json(error, content, self._file) from None

    def _take_raw(self, raw: "bytes | msgspec.Raw", at: _WHERE, api_version: str, kind_name: str) -> None:
        """Takes one undecoded object.

        `api_version`, `kind_name`: the type of an item of a typed list, if the item does not name it.
        """
        try:
            head = _HEADS.decode(raw)
        except msgspec.ValidationError as error:
            self._fault(at, f"is not a Kubernetes object: {error}")
            return
        api_version, kind_name = head.api_version or api_version, head.kind or kind_name
        if head.items is not None and kind_name.endswith("List"):
            inner = (api_version, kind_name.removesuffix("List")) if kind_name != "List" else ("", "")
            for number, item in enumerate(head.items):
                self._take_raw(item, (*at, "items", number), *inner)
            return
        kind = self._kind(api_version, kind_name, at)
        if kind is None:
            return
        if self._proposed or too_deep(raw):
            self._convert(kind, msgspec.json.decode(raw), at)
            return
        try:
            self._add(kind, object_decoder(kind).decode(raw), at)
        except msgspec.ValidationError:
            self._convert(kind, msgspec.json.decode(raw), at)  # for the field's path

    def take_yaml(self, text: str) -> None:
        self._text = text
        try:
            loader = _Loader(text, self._file)
            number = 0
            while loader.check_data():  # type: ignore[no-untyped-call]
                value = loader.get_data()
                if "&" in text:
                    _bounded(value, self._file)
                if value is not None:
                    self.take(value, (number,))
                number += 1
        except yaml.YAMLError as error:
            raise source.not_yaml(error, text, self._file) from None
        except RecursionError:  # caused by aliases of aliases
            raise JobFileError.of(self._file, "is nested too deeply") from None
        except ValueError as error:  # caused by numbers such as 0o9
            if isinstance(error, JobFileError):
                raise
            raise JobFileError.of(self._file, f"is not YAML: {error}") from None

    def take(self, value: Any, at: _WHERE, api_version: str = "", kind_name: str = "") -> None:  # Any: JSON
        if not isinstance(value, Mapping):
            self._fault(at, "is not an object: a mapping with apiVersion and kind is needed")
            return
        api_version, kind_name = value.get("apiVersion") or api_version, value.get("kind") or kind_name
        items = value.get("items")
        if isinstance(items, list) and isinstance(kind_name, str) and kind_name.endswith("List"):
            inner = (api_version, kind_name.removesuffix("List")) if kind_name != "List" else ("", "")
            for number, item in enumerate(items):
                self.take(item, (*at, "items", number), *inner)
            return
        kind = self._kind(api_version, kind_name, at)
        if kind is None:
            return
        try:
            msgspec.msgpack.encode(value)
        except (OverflowError, TypeError, ValueError, RecursionError) as error:
            self._fault(at, f"{kind.kind} {_name(dict(value))} has what no object can hold: {error}")
            return
        self._convert(kind, dict(value), at)

    def _kind(self, api_version: object, kind_name: object, at: _WHERE) -> AnyKind | None:
        if not (isinstance(api_version, str) and api_version and isinstance(kind_name, str) and kind_name):
            self._fault(at, "is not a Kubernetes object: it needs apiVersion and kind")
            return None
        kind = self._kinds.get((api_version, kind_name))
        if kind is None:
            self._found.ignored[f"{api_version} {kind_name}"] += 1
        return kind

    def _convert(self, kind: AnyKind, value: Object, at: _WHERE) -> None:
        if deep(value):
            self._fault(at, f"{kind.kind} {_name(value)} {TOO_DEEP}")
            return
        try:
            resource = convert(value, kind.type)
        except InvalidObject as error:
            for each in error.errors:
                self._fault((*at, *each.path), f"{kind.kind} {_name(value)}: {each}")
            return
        if self._proposed:
            whole = without_nulls({**value, "kind": kind.kind})
            resource = convert(apply.noted(whole, annotate.stated(whole)), kind.type)
        self._add(kind, resource, at)

    def _add(self, kind: AnyKind, resource: Resource, at: _WHERE) -> None:
        meta = resource.metadata
        if not meta.name:
            self._fault(at, f"{kind.kind} has no metadata.name")
            return
        for wrong in unreadable(resource):
            self._fault((*at, *wrong.path), f"{kind.kind} {meta.name}: {wrong}")
        namespace = (meta.namespace or self._namespace) if kind.namespaced else ""
        if self._confined and kind.namespaced and namespace != self._namespace:
            told = f"is {namespace!r}, and --namespace is {self._namespace}; omit one of them"
            self._fault(
                (*at, "metadata", "namespace"), f"{kind.kind} {meta.name}: metadata.namespace: {told}"
            )
        if not (meta.uid and meta.namespace == namespace):
            uid = meta.uid or f"{kind.kind}/{namespace}/{meta.name}"
            named: ObjectMeta = msgspec.structs.replace(meta, namespace=namespace, uid=uid)
            resource = msgspec.structs.replace(resource, metadata=named)
        self._found.add(kind, resource)

    def _fault(self, at: _WHERE, message: str) -> None:
        if len(self._errors) < MOST_ERRORS:
            self._errors.append((at, message))

    def _findings(self) -> Iterator[Finding]:
        nodes = [*_nodes(self._text, self._file)] if self._text is not None else []
        for at, message in self._errors:
            line = 0
            if nodes and isinstance(at[0], int):
                document = source.Document(self._file, None, nodes[at[0]])
                line = document.mark(at[1:]).line
            else:
                message = f"{_position(at)}{message}"
            yield Finding((), message, file=self._file, line=line, column=int(line > 0))


class _Loader(source.Loader):
    """A YAML loader that reads dates as text."""


_Loader.yaml_implicit_resolvers = {
    first: [each for each in resolvers if each[0] != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _nodes(text: str, file: str) -> Iterator[yaml.Node]:
    loader = _Loader(text, file)
    while loader.check_node():
        node = loader.get_node()
        assert node is not None, "check_node says that there is one"
        yield node


def _bounded(value: Any, file: str) -> None:  # Any: YAML
    """Refuses a document that its aliases make too large: each use of an alias counts."""
    sizes: dict[int, int] = {}

    def size(each: Any) -> int:  # Any: YAML
        if not isinstance(each, dict | list):
            return 1
        known = sizes.get(id(each))
        if known is None:
            sizes[id(each)] = MAX_VALUES  # until its size is known; an alias of an ancestor would be infinite
            children: Collection[Any] = each.values() if isinstance(each, dict) else each
            known = sizes[id(each)] = 1 + sum(map(size, children))
        if known >= MAX_VALUES:
            raise JobFileError.of(file, f"has more than {MAX_VALUES:,} values, its aliases expanded")
        return known

    size(value)


def _not_json(error: Exception, content: bytes, file: str) -> JobFileError:
    message = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
    before, found, position = message.rpartition("(byte ")
    if not found and "truncated" not in message:
        return JobFileError.of(file, f"is not JSON: {message}")
    at = int(position.rstrip(")")) if found else len(content.rstrip())  # where the content breaks off
    line = content.count(b"\n", 0, at) + 1
    column = at - content.rfind(b"\n", 0, at)
    return JobFileError.of(
        file,
        f"is not JSON: {(before or message).removeprefix('JSON is malformed: ').strip()} (column {column})",
        line,
    )


def _name(value: Object) -> str:
    meta = value.get("metadata")
    name = meta.get("name") if isinstance(meta, Mapping) else None
    return str(name)[:80] if name else "without a name"


def _position(at: _WHERE) -> str:
    """The object's position as `object 3: `; "" for the only object."""
    lists = takewhile(lambda step: step == "items" or isinstance(step, int), at)
    numbers = [step + 1 for step in lists if isinstance(step, int)]
    return f"object {'.'.join(map(str, numbers[:2]))}: " if numbers else ""
