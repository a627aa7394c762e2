"""Fields that a kind does not have: `fieldValidation=Strict` refuses them, `Warn` names them.

Source: kubernetes/apimachinery, pkg/runtime/serializer/json (strict decoding).
"""

from collections.abc import Iterator
from typing import Any, Final

from muster.api.base import Kind, Object
from muster.api.fields import Path, dotted
from muster.embedded import schema

#: Most fields that one answer names.
MOST: Final = 50


def unknown(kind: Kind[Any], obj: Object) -> list[str]:  # Any: an object of any kind
    """The paths of fields that the kind does not have, in order."""
    found: list[str] = []
    for path in _unknown(schema.type_name(kind), obj, ()):
        found.append(dotted(path))
        if len(found) == MOST:
            break
    return sorted(found)


def message(paths: list[str]) -> str:
    return ", ".join(f'unknown field "{path}"' for path in paths)


def _unknown(type_: str, value: Any, at: Path) -> Iterator[Path]:  # Any: JSON
    if type_[0] == "[":
        if isinstance(value, list):
            for position, item in enumerate(value):
                yield from _unknown(type_[1:], item, (*at, position))
    elif type_[0] == "{":
        if isinstance(value, dict):
            for key, item in value.items():
                yield from _unknown(type_[1:], item, (*at, key))
    elif len(type_) > 1 and isinstance(value, dict):
        fields = schema.fields(type_)
        for key, item in value.items():
            if key not in fields:
                yield (*at, key)
            else:
                yield from _unknown(fields[key], item, (*at, key))
