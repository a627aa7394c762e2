"""Request bodies in protobuf, which kubectl and Go programs send for some kinds, as the JSON that they mean.

`messages.json` has the fields of every message, derived from Kubernetes' Go types
(tests/embedded/http/protobuf/official.py): by number, the name in JSON and a code. The name "" means that the
fields of the inner message stand in the outer one. Codes:

    s  a string     i  an integer               b  true or false    y  bytes, base64 in JSON
    t  a time       x  an integer or a string   q  a quantity       j  JSON
    [  a list of what follows                   {  a map of what follows
    ?  behind a code: absent differs from zero; without it, a zero value is left out of JSON

Any other code is the name of a message. A body begins with `k8s` and a zero byte; a `runtime.Unknown`
follows, which names the kind and holds the object.

Source: kubernetes/apimachinery, pkg/runtime/serializer/protobuf; protobuf's wire format.
"""

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final

from muster.api.base import Object
from muster.kube.errors import BadRequest

MEDIA: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
#: What the wire format says of a value: a number, or bytes.
_Raw = int | bytes


def decode(body: bytes) -> Object:
    """The object in a request's body. Raises `BadRequest`."""
    try:
        return _object(body)
    except (ValueError, OverflowError, LookupError) as error:  # text that is not UTF-8, too
        raise BadRequest(f"the body is not Kubernetes' protobuf: {error}") from None


def _object(body: bytes) -> Object:
    if not body.startswith(_MAGIC):
        raise ValueError("it does not begin with k8s")
    unknown = dict(_fields(body[len(_MAGIC) :]))
    type_ = dict(_fields(_bytes(unknown.get(1, b""))))
    head = {"apiVersion": _bytes(type_.get(1, b"")).decode(), "kind": _bytes(type_.get(2, b"")).decode()}
    if head["kind"] not in _messages():
        raise BadRequest(f"{head['kind'] or 'an object'} in protobuf is not supported; send JSON")
    return head | _message(head["kind"], _bytes(unknown.get(2, b"")))


@cache
def _messages() -> dict[str, dict[int, tuple[str, str]]]:
    table = json.loads(Path(__file__).with_name("messages.json").read_text())
    return {
        name: {int(number): (field, code) for number, (field, code) in fields.items()}
        for name, fields in table.items()
    }


def _message(name: str, body: bytes) -> Object:
    found: Object = {}
    known = _messages()[name]
    for number, raw in _fields(body):
        if number not in known:
            continue  # of a later version
        field, code = known[number]
        if not field:
            found |= _message(code, _bytes(raw))
        elif code[0] == "[":
            found.setdefault(field, []).extend(_items(code[1:], raw))
        elif code[0] == "{":
            entry = dict(_fields(_bytes(raw)))
            key = _bytes(entry.get(1, b"")).decode()
            found.setdefault(field, {})[key] = _value(code[1:], entry.get(2, b""))
        else:
            value = _value(code.rstrip("?"), raw)
            if value not in ("", 0, None, {}) or (code.endswith("?") and value is not None):
                found[field] = value
    return found


def _items(code: str, raw: _Raw) -> list[Any]:  # Any: JSON
    """The items that one field adds to a list; numbers may come packed."""
    if code == "i" and isinstance(raw, bytes):
        numbers, position = [], 0
        while position < len(raw):
            number, position = _varint(raw, position)
            numbers.append(_signed(number))
        return numbers
    return [_value(code, raw)]


def _value(code: str, raw: _Raw) -> Any:  # Any: JSON
    if code == "i":
        return _signed(_number(raw))
    if code == "b":
        return bool(_number(raw))
    body = _bytes(raw)
    if code == "s":
        return body.decode()
    if code == "y":
        return base64.b64encode(body).decode()
    if code == "j":
        inner = _bytes(dict(_fields(body)).get(1, b""))
        return json.loads(inner) if inner else None
    if code not in "tqx":
        return _message(code, body)
    parts = dict(_fields(body))
    if code == "q":
        return _bytes(parts.get(1, b"")).decode() or None
    if code == "x":
        is_text = bool(parts.get(1, 0))
        return _bytes(parts.get(3, b"")).decode() if is_text else _signed(_number(parts.get(2, 0)))
    if not parts:
        return None  # Go's zero time
    seconds, nanoseconds = _signed(_number(parts.get(1, 0))), _signed(_number(parts.get(2, 0)))
    time = _EPOCH + timedelta(seconds=seconds, microseconds=nanoseconds // 1000)
    return time.isoformat().replace("+00:00", "Z")


def _fields(body: bytes) -> Iterator[tuple[int, _Raw]]:
    """The fields of a message: number, and value."""
    position = 0
    while position < len(body):
        tag, position = _varint(body, position)
        wire = tag & 7
        if wire == _VARINT:
            number, position = _varint(body, position)
            yield tag >> 3, number
            continue
        if wire == _LENGTH:
            length, position = _varint(body, position)
        elif wire in (_FIXED32, _FIXED64):
            length = 4 if wire == _FIXED32 else 8
        else:
            raise ValueError(f"wire type {wire} is not used")
        if position + length > len(body):
            raise ValueError("it ends in the middle of a field")
        yield tag >> 3, body[position : position + length]
        position += length


def _varint(body: bytes, position: int) -> tuple[int, int]:
    """(the number at a position, the position behind it)."""
    number = 0
    for shift in range(0, 70, 7):
        if position >= len(body):
            raise ValueError("it ends in the middle of a number")
        byte = body[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & (2**64 - 1), position
    raise ValueError("a number is longer than 64 bits")


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def _number(raw: _Raw) -> int:
    if not isinstance(raw, int):
        raise ValueError("a field is text where a number belongs")
    return raw


def _bytes(raw: _Raw) -> bytes:
    if not isinstance(raw, bytes):
        raise ValueError("a field is a number where text belongs")
    return raw
