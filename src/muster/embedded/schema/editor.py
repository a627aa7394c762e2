"""JSON Schemas of kinds for editors, from the table of types that the API server validates with."""

from typing import Any, Final

from muster.api.base import Kind, Object
from muster.api.marks import MARKS
from muster.embedded import schema

_SIMPLE: Final[Object] = {
    "s": {"type": ["string", "null"]},
    "i": {"type": ["integer", "null"]},
    "n": {"type": ["number", "null"]},
    "b": {"type": ["boolean", "null"]},
    "t": {"type": ["string", "null"]},
    "q": {"type": ["string", "number", "null"]},
    "x": {"type": ["string", "integer", "null"]},
    "o": {},
}


def of(kind: Kind[Any], draft: str) -> Object:  # Any: an object of any kind
    """The schema of the kind's objects in this draft: any null is as if it were absent.

    The annotations that muster reads on the kind are named, with an example of each.
    """
    definitions: dict[str, Object] = {}
    _add(schema.type_name(kind), definitions)
    fields = definitions.pop(schema.type_name(kind))["properties"]
    versions = [version for version, _ in kind.names]
    marks = {
        key: {**_SIMPLE["s"], **({"examples": mark.examples} if mark.form else {})}
        for key, mark in MARKS.items()
        if kind.kind in mark.on
    }
    named = {"properties": {"annotations": {"type": ["object", "null"], "properties": marks}}}
    return {
        "$schema": draft,
        "title": f"{kind.kind} of {kind.group}",
        "type": "object",
        "required": ["apiVersion", "kind", "metadata"],
        "additionalProperties": False,
        "properties": {
            **fields,
            "apiVersion": {"enum": versions},
            "kind": {"const": kind.kind},
            "metadata": {"allOf": [fields["metadata"], named]},
        },
        "definitions": definitions,
    }


def _add(name: str, definitions: dict[str, Object]) -> None:
    """Adds a type, and those that it refers to."""
    if name in definitions:
        return
    properties: Object = {}
    definitions[name] = {"type": ["object", "null"], "additionalProperties": False, "properties": properties}
    if required := [field for field, code in schema.table()[name].items() if code.endswith("!")]:
        definitions[name]["required"] = required
    for field, code in schema.fields(name).items():
        properties[field] = _value(code, definitions)


def _value(code: str, definitions: dict[str, Object]) -> Object:
    if code in _SIMPLE:
        return dict(_SIMPLE[code])
    if code[0] == "[":
        return {"type": ["array", "null"], "items": _value(code[1:], definitions)}
    if code[0] == "{":
        return {"type": ["object", "null"], "additionalProperties": _value(code[1:], definitions)}
    _add(code, definitions)
    return {"$ref": f"#/definitions/{code}"}
