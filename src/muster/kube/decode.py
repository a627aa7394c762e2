"""Decoders of objects and lists, one per kind, created once; a damaged object loses its invalid fields.

An API server may return values that no struct can hold: a number of 20 digits where the kind's definition
sets no bounds, a field of another type, 10,000 nested lists. Such an object must not end the watch. It must
not be dropped either: without one of its pods, a node would seem to have room that it lacks. The decoder
therefore leaves out the invalid fields, one by one, until the rest can be read. `metadata.unreadable` names
the first of them and its value. The code that decides about the object refuses it for that reason
(`muster.translate.marks`). Null means absent, as in Kubernetes. A value that is nested deeper than the fields
of any kind is treated as absent, too.

Equal parts of objects are one object (`sharing.py`), unless their kind says itself what is kept.
"""

import re
from typing import Any, Final, Generic, Literal, TypeVar

import msgspec

from muster.api.base import Kind, Object, Resource, without_nulls
from muster.api.fields import MOST_NESTED, InvalidObject, Path, convert
from muster.kube.client import EventType
from muster.kube.sharing import shared

R = TypeVar("R", bound=Resource)

#: Most fields of one object that are left out; if more are invalid, everything but the metadata is left out.
MOST_FAULTS: Final = 20
#: Most characters of an unreadable value in messages.
LONGEST_VALUE: Final = 80


class ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class ObjectList(msgspec.Struct, Generic[R]):
    """A list as the API server returns it."""

    items: list[R]
    metadata: ListMeta


# Any: one table for decoders of many types
_OBJECTS: Final[dict[Kind[Any], msgspec.json.Decoder[Any]]] = {}
_LISTS: Final[dict[Kind[Any], msgspec.json.Decoder[Any]]] = {}


def object_decoder(kind: Kind[R]) -> msgspec.json.Decoder[R]:
    """The decoder for objects that must not be damaged."""
    decoder = _OBJECTS.get(kind)
    if decoder is None:
        decoder = _OBJECTS[kind] = msgspec.json.Decoder(kind.type)
    return decoder


def decode(kind: Kind[R], raw: bytes | memoryview | msgspec.Raw) -> R:
    """Decodes an object, damaged or not. Raises msgspec.DecodeError if it has no identity."""
    try:
        found = object_decoder(kind).decode(raw)
    except (msgspec.ValidationError, UnicodeDecodeError, RecursionError):
        found = _salvaged(kind, bytes(raw))
    return (kind.kept or shared)(found)


def decode_list(kind: Kind[R], raw: bytes) -> ObjectList[R]:
    """Decodes a list of objects, damaged or not. Raises msgspec.DecodeError if it is no list."""
    decoder = _LISTS.get(kind)
    if decoder is None:
        generic: Any = ObjectList  # Any: the generic struct gets its type at run time
        decoder = _LISTS[kind] = msgspec.json.Decoder(generic[kind.type])
    try:
        found: ObjectList[R] = decoder.decode(raw)
    except (msgspec.ValidationError, UnicodeDecodeError, RecursionError):
        parts = _PARTS.decode(_plain(raw))
        return ObjectList([decode(kind, item) for item in parts.items or ()], parts.metadata)
    return ObjectList([*map(kind.kept or shared, found.items)], found.metadata)


def decode_change(kind: Kind[R], raw: bytes) -> tuple[EventType, R] | None:
    """Decodes an event of a watch with its object in one pass, if it is written as API servers write it.

    None: it is not, or it is no change of an object, or it is damaged; `decode_event` reads it.
    """
    for type_, start in _STARTS:
        if raw.startswith(start) and raw.endswith(b"}"):
            try:
                return type_, decode(kind, memoryview(raw)[len(start) : -1])
            except msgspec.DecodeError:
                return None
    return None


def decode_event(raw: bytes) -> "Event":
    """Decodes an event of a watch, but not its object. Raises msgspec.DecodeError if it is no event."""
    try:
        return _EVENT.decode(raw)
    except (UnicodeDecodeError, RecursionError):
        return _EVENT.decode(_plain(raw))


class Event(msgspec.Struct):
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw


class _Parts(msgspec.Struct):
    items: list[msgspec.Raw] | None
    metadata: ListMeta


#: How the lines of changes begin.
_STARTS: Final = tuple(
    (type_, b'{"type":"%b","object":' % type_.value.encode())
    for type_ in (EventType.MODIFIED, EventType.ADDED, EventType.DELETED)
)
_EVENT: Final = msgspec.json.Decoder(Event)
_PARTS: Final = msgspec.json.Decoder(_Parts)


def _salvaged(kind: Kind[R], raw: bytes) -> R:
    value = without_nulls(msgspec.json.decode(_plain(raw)))
    if not isinstance(value, dict):
        raise msgspec.ValidationError(f"Expected a {kind.kind}, got {_shown(value, ())}")
    faults: list[str] = []
    while True:
        try:
            found = convert(value, kind.type)
        except InvalidObject as error:
            fault = error.errors[0]
            if fault.path in _IDENTITY:
                raise msgspec.ValidationError(str(fault)) from None
        else:
            break
        faults.append(f"{fault}, got {_shown(value, fault.path)}")
        _leave_out(value, fault.path)
        if len(faults) == MOST_FAULTS:
            value = {"metadata": value.get("metadata", {})}
    if not faults:
        return found
    return msgspec.structs.replace(
        found, metadata=msgspec.structs.replace(found.metadata, unreadable=faults[0])
    )


#: Fields that identify an object; without them it cannot be decoded.
_IDENTITY: Final = ((), ("metadata",), *(("metadata", key) for key in ("name", "namespace", "uid")))


def _leave_out(value: Object, path: Path) -> None:
    """Removes the value at `path`, or, if the path does not exist, its deepest part that does."""
    holder: Any = value  # Any: JSON
    at, key = holder, path[0]
    for step in path:
        if not (step in at if isinstance(at, dict) else isinstance(at, list) and isinstance(step, int)):
            break
        holder, key, at = at, step, at[step]
    holder.pop(key)


def _shown(value: Any, path: Path) -> str:  # Any: JSON
    for step in path:
        try:
            value = value[step]
        except (LookupError, TypeError):
            break
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


_TOKENS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


def _plain(raw: bytes) -> bytes:
    """The JSON in a form that any decoder accepts. Works without recursion.

    Bytes that are not UTF-8 are replaced. A value nested deeper than the fields of any kind becomes null.
    """
    raw = raw.decode("utf-8", "replace").encode()
    kept: list[bytes] = []
    depth = start = 0
    for token in _TOKENS.finditer(raw):
        if token[0] in (b"{", b"["):
            depth += 1
            if depth == MOST_NESTED:
                kept += raw[start : token.start()], b"null"
        elif token[0] in (b"}", b"]"):
            if depth == MOST_NESTED:
                start = token.end()
            depth -= 1
    return b"".join((*kept, raw[start:])) if kept else raw
