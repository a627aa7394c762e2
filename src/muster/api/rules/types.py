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
from collections.abc import Callable
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from muster.api import quantity
from muster.api.base import Kind, Object
from muster.api.fields import Finding
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
#: What Kubernetes writes for a field of a status that is required and has not been set.
_ZERO: Final[dict[str, Any]] = {"s": "", "i": 0, "b": False}
#: Where a value is, innermost step first: steps are joined for errors only.
_Place = tuple[Any, ...]
#: Types whose values need no further look if they are exactly of this class: most values are.
_EXACT: Final[dict[str, type]] = {"s": str, "x": str, "b": bool}
#: Gives a value its type, in place; returns it, unchanged if that is an error.
_Check = Callable[[Any, _Place, list[Finding]], Any]  # Any: JSON


def apply(kind: Kind[Any], obj: Object) -> list[Finding]:  # Any: an object of any kind
    """Gives the fields of `obj` their types, in place; returns those that cannot have theirs."""
    errors: list[Finding] = []
    if kind.kind in _table():
        _check(kind.kind, False)(obj, (), errors)
    return errors


@cache
def _table() -> dict[str, dict[str, str]]:
    """The fields of each struct, with their types."""
    table: dict[str, dict[str, str]] = json.loads(FILE.read_text()) | _CRDS
    return table


@cache
def _check(type_: str, in_status: bool) -> _Check:
    """The check for a type, which is made once. In a status, required fields may be left out."""
    if type_[0] == "[":
        return _list(type_[1:], in_status)
    if type_[0] == "{":
        return _map(type_[1:], in_status)
    return _SCALARS.get(type_) or _struct(type_, in_status)


def _struct(name: str, in_status: bool) -> _Check:
    fields = {field: type_.rstrip("!") for field, type_ in _table()[name].items()}
    required = [field for field, type_ in _table()[name].items() if type_.endswith("!")]
    exact = {field: _EXACT[type_] for field, type_ in fields.items() if type_ in _EXACT}

    def check(value: Any, at: _Place, errors: list[Finding]) -> Any:  # Any: JSON
        if not isinstance(value, dict):
            return _refused(value, at, errors, "a map")
        for key, item in value.items():
            if type(item) is not exact.get(key) and key in fields:
                # the key is there: its place does not move
                status = in_status or (key == "status" and not at)
                value[key] = _check(fields[key], status)(item, (key, at), errors)
        for key in required:
            if key in value:
                continue
            if not in_status:
                errors.append(Finding(_path((key, at)), "Required value"))
            elif fields[key] in _ZERO:
                value[key] = _ZERO[fields[key]]
        return value

    return check


def _list(inner: str, in_status: bool) -> _Check:
    exact, each = _EXACT.get(inner), _check(inner, in_status)

    def check(value: Any, at: _Place, errors: list[Finding]) -> Any:  # Any: JSON
        if not isinstance(value, list):
            return _refused(value, at, errors, "a list")
        for position, item in enumerate(value):
            if type(item) is not exact:
                value[position] = each(item, (position, at), errors)
        return value

    return check


def _map(inner: str, in_status: bool) -> _Check:
    exact, each = _EXACT.get(inner), _check(inner, in_status)

    def check(value: Any, at: _Place, errors: list[Finding]) -> Any:  # Any: JSON
        if not isinstance(value, dict):
            return _refused(value, at, errors, "a map")
        for key, item in value.items():
            if type(item) is not exact:
                value[key] = each(item, (key, at), errors)
        return value

    return check


def _string(value: Any, at: _Place, errors: list[Finding]) -> Any:  # Any: JSON
    if isinstance(value, str):
        return value
    return _refused(value, at, errors, "a string")


def _integer(value: Any, at: _Place, errors: list[Finding]) -> Any:  # Any: JSON
    if type(value) is int and -_INT64 <= value < _INT64:
        return value
    return _refused(value, at, errors, "an integer of at most 64 bits")


def _boolean(value: Any, at: _Place, errors: list[Finding]) -> Any:  # Any: JSON
    if isinstance(value, bool):
        return value
    return _refused(value, at, errors, "true or false")


def _time(value: Any, at: _Place, errors: list[Finding]) -> Any:  # Any: JSON
    if isinstance(value, str):
        try:
            msgspec.convert(value, datetime)
        except msgspec.ValidationError:
            pass
        else:
            return value
    return _refused(value, at, errors, "a time such as 2026-01-31T12:00:00Z")


def _quantity(value: Any, at: _Place, errors: list[Finding]) -> Any:  # Any: JSON
    try:
        return (quantity.canonical if isinstance(value, (str, int, float)) else quantity.parse)(value)
    except ValueError as error:
        errors.append(Finding(_path(at), f"Invalid value: {error}"))
        return value


def _integer_or_string(value: Any, at: _Place, errors: list[Finding]) -> Any:  # Any: JSON
    if isinstance(value, str) or (type(value) is int and -_INT64 <= value < _INT64):
        return value
    return _refused(value, at, errors, "an integer or a string")


def _any(value: Any, at: _Place, errors: list[Finding]) -> Any:  # Any: JSON
    return value


_SCALARS: Final[dict[str, _Check]] = {
    "s": _string,
    "i": _integer,
    "b": _boolean,
    "t": _time,
    "q": _quantity,
    "x": _integer_or_string,
    "o": _any,
}


def _refused(value: Any, at: _Place, errors: list[Finding], expected: str) -> Any:  # Any: JSON
    told = json.dumps(value)
    wrong = f"{shown(told).strip(chr(34))}: must be {expected}"
    if expected == "a string" and isinstance(value, bool | int | float):
        wrong = f'must be a string; write "{told}" in quotes'
    errors.append(Finding(_path(at), f"Invalid value: {wrong}"))
    return value


def _path(at: _Place) -> FieldPath:
    steps: list[str | int] = []
    while at:
        step, at = at
        steps.append(step)
    return tuple(reversed(steps))
