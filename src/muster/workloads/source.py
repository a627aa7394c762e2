"""Reads job files as text, and writes them: YAML in, plain JSON values out, with the position of each field.

libyaml composes a file once into nodes that know their line and column. Values are built from the nodes, and
a field's position is looked up in the nodes only when an error has to be placed. The values are what JSON can
carry: a date stays text as written, `12:30` is not a number in base 60, and tags that request more are
refused.

A file is untrusted. Its size, its nesting and the number of its nodes are bounded, the last both as written
and with aliases expanded, so that neither a huge file nor a small one full of aliases takes more than a few
hundred MB. libyaml's binding recurses on the C stack, so nesting is checked while the file is composed. A key
that occurs twice is an error: YAML would silently keep the last.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, Final

import yaml

from muster.api.fields import Finding, Path, Severity
from muster.api.visible import visible_lines
from muster.workloads.findings import JobFileError

#: Bytes of one job file.
MAX_BYTES: Final = 8 * 2**20
#: Keys and values of one job file, with its aliases expanded.
MAX_NODES: Final = 500_000
#: Levels of nesting. A pod's deepest field is at about 20.
MAX_DEPTH: Final = 100

#: No JSON that is exchanged with an API server has a number as large.
_LARGEST: Final = 2**63
_TAG: Final = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class Mark:
    """A position in a file; both count from 1, as editors do."""

    line: int
    column: int


class Document:
    """One YAML document: its value, and the position of each of its fields."""

    def __init__(self, file: str, value: Any, node: yaml.Node) -> None:  # Any: a user's YAML
        self.file = file
        self.value = value
        self._node = node

    def mark(self, path: Path = ()) -> Mark:
        """The position of `path`: that of its key, or of the nearest enclosing field that exists."""
        node, mark = self._node, self._node.start_mark
        for step in path:
            found = _child(node, step)
            if found is None:
                break
            node, mark = found
        return Mark(mark.line + 1, mark.column + 1)

    def finding(self, path: Path, message: str, severity: Severity = Severity.ERROR) -> Finding:
        """A finding about the field at `path`."""
        mark = self.mark(path)
        return Finding(path, message, severity, file=self.file, line=mark.line, column=mark.column)


def read(file: FilePath) -> str:
    """The text of a job file. Raises `JobFileError` if the file cannot be read or is too large."""
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
            size = max(len(content), file.stat().st_size)
    except OSError as error:
        raise JobFileError.of(str(file), f"cannot be read: {error.strerror}") from None
    if size > MAX_BYTES:
        raise JobFileError.of(
            str(file),
            f"is {size / 2**20:.1f} MiB, and a job file may have {MAX_BYTES // 2**20} MiB; "
            f"use counts (count, completions, replicas) instead of writing each pod out",
        )
    return decode(content, str(file))


def decode(content: bytes, file: str) -> str:
    """The bytes of a job file as text."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise JobFileError.of(file, "is not text in UTF-8", line) from None


def parse(text: str, file: str) -> list[Document]:
    """The non-empty documents of a job file. Raises `JobFileError`."""
    if len(text) > MAX_BYTES:
        raise JobFileError.of(file, f"is larger than a job file may be ({MAX_BYTES // 2**20} MiB)")
    try:
        documents = [Document(file, _value(node, file), node) for node in _compose(text, file)]
    except yaml.YAMLError as error:
        raise not_yaml(error, text, file) from None
    documents = [document for document in documents if document.value is not None]
    if not documents:
        raise JobFileError.of(file, "is empty; a job file has at least one job")
    return documents


class Loader(yaml.CSafeLoader):
    """libyaml's loader with muster's nesting limit. libyaml calls these methods for every node."""

    def __init__(self, text: str, file: str) -> None:
        super().__init__(text)
        self._file, self._depth = file, 0

    def descend_resolver(self, current_node: yaml.Node | None, current_index: object) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            line = current_node.start_mark.line + 1 if current_node is not None else 1
            raise _too_deep(self._file, line)

    def ascend_resolver(self) -> None:
        self._depth -= 1


class _Composer(Loader):
    """The loader with muster's limit on the number of nodes, too."""

    def __init__(self, text: str, file: str) -> None:
        super().__init__(text, file)
        self._nodes = 0

    def resolve(self, *args: Any) -> Any:  # Any: the binding's own untyped hook
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise _too_many(self._file)
        return super().resolve(*args)  # type: ignore[no-untyped-call]


def _compose(text: str, file: str) -> Iterator[yaml.Node]:
    loader = _Composer(text, file)
    total = 0
    while loader.check_node():
        node = loader.get_node()
        assert node is not None, "check_node says that there is one"
        total += _expanded(node, file, {})[0]
        if total > MAX_NODES:
            raise _too_many(file)
        yield node


def _expanded(node: yaml.Node, file: str, measured: dict[int, tuple[int, int] | None]) -> tuple[int, int]:
    """Nodes and levels of `node` with its aliases expanded.

    An anchor precedes its aliases, so this recurses no deeper than the file is nested.
    """
    if isinstance(node, yaml.ScalarNode):
        return 1, 1
    line = node.start_mark.line + 1
    if id(node) in measured:
        known = measured[id(node)]
        if known is None:
            raise JobFileError.of(file, "contains an alias of something it is part of", line)
        return known
    measured[id(node)] = None
    children: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        children = [child for pair in node.value for child in pair]
    elif isinstance(node, yaml.SequenceNode):
        children = node.value
    sizes = [_expanded(child, file, measured) for child in children]
    size = 1 + sum(nodes for nodes, _ in sizes)
    levels = 1 + max((levels for _, levels in sizes), default=0)
    if levels > MAX_DEPTH:
        raise _too_deep(file, line)
    if size > MAX_NODES:
        raise _too_many(file)
    measured[id(node)] = (size, levels)
    return size, levels


def _value(node: yaml.Node, file: str) -> Any:  # Any: a user's YAML
    """The JSON value of a node. Each use of an alias gets a value of its own."""
    tag = node.tag.removeprefix(_TAG)
    if isinstance(node, yaml.MappingNode) and tag == "map":
        return _mapping(node, file)
    if isinstance(node, yaml.SequenceNode) and tag == "seq":
        return [_value(item, file) for item in node.value]
    return _scalar(node, tag, file)


def _mapping(node: yaml.MappingNode, file: str) -> dict[str, Any]:
    value: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if key_node.tag == _TAG + "merge":
            value = {**_merged(value_node, file, line), **value}
            continue
        if not isinstance(key_node, yaml.ScalarNode):
            raise JobFileError.of(file, "has a key that is not text", line)
        key = str(key_node.value)
        if key in lines:
            raise JobFileError.of(
                file, f"{key} is given twice, here and in line {lines[key]}; remove or rename one", line
            )
        lines[key] = line
        value[key] = _value(value_node, file)
    return value


def _merged(node: yaml.Node, file: str, line: int) -> dict[str, Any]:
    """The fields that `<<: *anchor` merges; if several anchors set a field, the first one wins."""
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, file)
    if isinstance(node, yaml.SequenceNode) and all(isinstance(n, yaml.MappingNode) for n in node.value):
        merged: dict[str, Any] = {}
        for item in node.value:
            merged = {**_mapping(item, file), **merged}
        return merged
    raise JobFileError.of(file, "<< takes a mapping, or a list of mappings", line)


def _scalar(node: yaml.Node, tag: str, file: str) -> str | int | float | bool | None:
    text = str(node.value)
    match tag:
        case "str" | "timestamp" | "value":
            if "\0" in text:  # no argument, variable or file name can have it
                raise JobFileError.of(file, "has a NUL character in a text", node.start_mark.line + 1)
            return text
        case "null":
            return None
        case "bool":
            return text.lower() in ("true", "yes", "on")
        case "int" | "float" if ":" in text:  # base 60 in YAML 1.1, but meant as a time or a port
            return text
        case "int":
            return _integer(text, node, file)
        case "float":
            return _float(text, node, file)
        case _:
            line = node.start_mark.line + 1
            raise JobFileError.of(file, f"the tag {tag} has no meaning in a job file", line)


def _integer(text: str, node: yaml.Node, file: str) -> int:
    digits = text.replace("_", "")
    octal = digits.lstrip("+-").startswith("0") and digits.lstrip("+-").isdigit()
    try:
        value = int(digits, 8 if octal else 0)
    except ValueError:
        value = _LARGEST
    if not -_LARGEST < value < _LARGEST:
        raise JobFileError.of(file, "is not a number that fits", node.start_mark.line + 1)
    return value


def _float(text: str, node: yaml.Node, file: str) -> float:
    digits = text.replace("_", "").lower()
    value = math.inf if digits.lstrip("+-") in (".inf", ".nan") else float(digits)
    if not math.isfinite(value):
        raise JobFileError.of(file, f"{text} is not a number that fits", node.start_mark.line + 1)
    return value


def _child(node: yaml.Node, step: str | int) -> tuple[yaml.Node, yaml.Mark] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == step:
                return value, key.start_mark
    elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        item = node.value[step]
        return item, item.start_mark
    return None


def _too_many(file: str) -> JobFileError:
    return JobFileError.of(
        file, f"has more than {MAX_NODES:,} keys and values, its aliases expanded; use counts instead"
    )


def _too_deep(file: str, line: int) -> JobFileError:
    return JobFileError.of(file, f"is nested deeper than {MAX_DEPTH} levels", line)


def not_yaml(error: yaml.YAMLError, text: str, file: str) -> JobFileError:
    details: Mapping[str, Any] = vars(error)  # Any: PyYAML's errors are untyped
    mark = details.get("problem_mark") or details.get("context_mark")
    message = details.get("problem") or details.get("reason") or "cannot be read"
    if mark is not None and "nesting depth" in message:  # libyaml's own limit, met before ours is
        return _too_deep(file, mark.line + 1)
    if context := details.get("context"):
        message = f"{message} ({context})"
    if mark is not None and text[mark.index : mark.index + 1] == "\t":
        message = "a tab is not allowed here; indent YAML with spaces"
    if mark is not None:
        return JobFileError.of(file, f"is not YAML: {message}", mark.line + 1, mark.column + 1)
    line = text.count("\n", 0, int(details.get("position") or 0)) + 1
    return JobFileError.of(file, f"is not YAML: {message}", line)


def written(value: Any, width: int = 80) -> str:  # Any: what JSON can say
    """Returns YAML that reads as this value, with escapes if a character would not be visible.

    Where characters are not escaped, libyaml takes U+0085 and others for line breaks.
    """
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=width)
    if visible_lines(text) != text:
        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=False, width=width)
    return text
