"""Types of Kubernetes' own kinds: each field gets the JSON type that clients expect of it, or is refused.

Quantities become strings in the canonical form that an API server answers with (`cpu: 1` is "1", `0.5` is
"500m"): clients with types, the official ones among them, cannot read an object otherwise. Fields that
Kubernetes does not know stay as they are.

`types.json` has all types, from Kubernetes' OpenAPI by way of the official client, by name and field
(tests/api/rules/official.py): `s` is a string, `i` an integer, `b` true or false, `t` a time, `q` a quantity,
`x` an integer or a string, `o` any JSON, `[` a list of what follows, `{` a map of it; `!` behind it: it
is required. The types of CRDs are their structs'.
"""

import json
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from muster.api import quantity
from muster.api.base import Kind, Object
from muster.api.fields import FieldError
from muster.api.fields import Path as FieldPath
from muster.api.rules.metadata import shown

FILE: Final = Path(__file__).with_name("types.json")
#: Of the kinds that are CRDs, the parts that are Kubernetes' own.
_CRDS: Final[Object] = {
    "JobSet": {"metadata": "ObjectMeta", "spec": "JobSetSpec"},
    "JobSetSpec": {"replicatedJobs": "[ReplicatedJob"},
    "ReplicatedJob": {"template": "JobTemplateSpec"},
}
_INT64: Final = 2**63
_EXPECTED: Final = {
    "s": "a string",
    "i": "an integer of at most 64 bits",
    "b": "true or false",
    "t": "a time such as 2026-01-31T12:00:00Z",
    "x": "an integer or a string",
}
#: What Kubernetes writes for a field of a status that is required and has not been set.
_ZERO: Final[dict[str, Any]] = {"s": "", "i": 0, "b": False}
#: Where a value is, innermost step first: steps are joined for errors only.
_Place = tuple[Any, ...]


class _Struct(NamedTuple):
    fields: dict[str, str]
    required: list[str]


def apply(kind: Kind[Any], obj: Object) -> list[FieldError]:  # Any: an object of any kind
    """Gives the fields of `obj` their types, in place; returns those that cannot have theirs."""
    errors: list[FieldError] = []
    if kind.kind in _structs():
        _struct(kind.kind, obj, (), errors)
    return errors


@cache
def _structs() -> dict[str, _Struct]:
    table = json.loads(FILE.read_text()) | _CRDS
    return {
        name: _Struct(
            {field: type_.rstrip("!") for field, type_ in fields.items()},
            [field for field, type_ in fields.items() if type_.endswith("!")],
        )
        for name, fields in table.items()
    }


def _struct(name: str, value: Any, at: _Place, errors: list[FieldError]) -> None:  # Any: JSON
    if not isinstance(value, dict):
        errors.append(_wrong(value, at, "a map"))
        return
    fields, required = _structs()[name]
    for key, item in value.items():
        type_ = fields.get(key)
        if type_ is not None and not (type_ == "s" and isinstance(item, str)):  # most are that
            value[key] = _typed(type_, item, (key, at), errors)  # the key is there: its place does not move
    for key in required:
        if key not in value:
            _missing(fields[key], key, value, at, errors)


def _typed(type_: str, value: Any, at: _Place, errors: list[FieldError]) -> Any:  # Any: JSON
    """`value` converted to `type_`; unchanged if that is an error."""
    first = type_[0]
    if first == "s":
        if isinstance(value, str):
            return value
    elif first == "i":
        if type(value) is int and -_INT64 <= value < _INT64:
            return value
    elif first == "b":
        if isinstance(value, bool):
            return value
    elif first == "q":
        try:
            return (quantity.canonical if isinstance(value, str | int | float) else quantity.parse)(value)
        except ValueError as error:
            errors.append(FieldError(_path(at), f"Invalid value: {error}"))
            return value
    elif first == "x":
        if isinstance(value, str) or (type(value) is int and -_INT64 <= value < _INT64):
            return value
    elif first == "t":
        if isinstance(value, str) and _is_time(value):
            return value
    elif first == "o":
        return value
    elif first in "[{":
        _many(type_, value, at, errors)
        return value
    else:
        _struct(type_, value, at, errors)
        return value
    errors.append(_wrong(value, at, _EXPECTED[first]))
    return value


def _many(type_: str, value: Any, at: _Place, errors: list[FieldError]) -> None:  # Any: JSON
    """Of a list or a map, each."""
    inner = type_[1:]
    if type_[0] == "[":
        if not isinstance(value, list):
            errors.append(_wrong(value, at, "a list"))
            return
        for position, item in enumerate(value):
            if inner != "s" or not isinstance(item, str):
                value[position] = _typed(inner, item, (position, at), errors)
    elif not isinstance(value, dict):
        errors.append(_wrong(value, at, "a map"))
    else:
        for key, item in value.items():
            if inner != "s" or not isinstance(item, str):
                value[key] = _typed(inner, item, (key, at), errors)


def _missing(type_: str, key: str, value: Object, at: _Place, errors: list[FieldError]) -> None:
    path = _path((key, at))
    if path[0] != "status":
        errors.append(FieldError(path, "Required value"))
    elif type_ in _ZERO:
        value[key] = _ZERO[type_]


def _is_time(value: str) -> bool:
    try:
        msgspec.convert(value, datetime)
    except msgspec.ValidationError:
        return False
    return True


def _wrong(value: Any, at: _Place, expected: str) -> FieldError:  # Any: JSON
    told = json.dumps(value)
    if expected == _EXPECTED["s"] and isinstance(value, bool | int | float):
        return FieldError(_path(at), f'Invalid value: must be a string; write "{told}" in quotes')
    return FieldError(_path(at), f"Invalid value: {shown(told).strip(chr(34))}: must be {expected}")


def _path(at: _Place) -> FieldPath:
    steps: list[str | int] = []
    while at:
        step, at = at
        steps.append(step)
    return tuple(reversed(steps))
