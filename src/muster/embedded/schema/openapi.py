"""The OpenAPI v3 documents of the embedded cluster: one for each group and version, and an index.

kubectl reads them to learn that the server validates (`fieldValidation`), to merge (`apply`), and to explain.
They have the types, not the sentences: `kubectl explain` shows `<no description>`.

Source: KEP-2896; kubernetes, api/openapi-spec/v3.
"""

import hashlib
from functools import cache
from typing import Any, Final

import msgspec

from muster.api import kinds
from muster.api.base import Kind, Object
from muster.embedded import schema
from muster.version import VERSION

ROOT: Final = "/openapi/v3"
#: kubectl asks for it about a kind that version 3 lacks, and takes an error for the reason that the kind is
#: unknown. An empty answer is an empty document of protobuf.
OLDER: Final = "/openapi/v2"
_SIMPLE: Final[dict[str, Object]] = {
    "s": {"type": "string"},
    "i": {"type": "integer", "format": "int64"},
    "n": {"type": "number", "format": "double"},
    "b": {"type": "boolean"},
    "t": {"type": "string", "format": "date-time"},
    "q": {"type": "string"},
    "x": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    "o": {"type": "object"},
}
_PATCHES: Final = ("json-patch+json", "merge-patch+json", "apply-patch+yaml")
_STRATEGIC: Final = "strategic-merge-patch+json"


def document(path: str) -> bytes | None:
    """The document at a path, encoded; None if there is none."""
    if path == OLDER:
        return b""
    if path == ROOT:
        return _index()
    return _document(path.removeprefix(f"{ROOT}/")) if path.startswith(f"{ROOT}/") else None


def _groups() -> dict[str, list[Kind[Any]]]:  # Any: kinds of many types
    found: dict[str, list[Kind[Any]]] = {}
    for kind in kinds.ALL:
        found.setdefault(f"apis/{kind.api_version}" if kind.group else f"api/{kind.version}", []).append(kind)
    return found


@cache
def _index() -> bytes:
    paths = {}
    for name in _groups():
        body = _document(name)
        assert body is not None, "the groups have documents"
        checksum = hashlib.sha256(body).hexdigest().upper()
        paths[name] = {"serverRelativeURL": f"{ROOT}/{name}?hash={checksum}"}
    return msgspec.json.encode({"paths": paths})


@cache
def _document(name: str) -> bytes | None:
    members = _groups().get(name)
    if members is None:
        return None
    schemas: dict[str, Object] = {}
    for kind in members:
        _add(schema.type_name(kind), schemas)
        schemas[schema.type_name(kind)]["x-kubernetes-group-version-kind"] = [_gvk(kind)]
    return msgspec.json.encode(
        {
            "openapi": "3.0.0",
            "info": {"title": "muster", "version": VERSION},
            "paths": {path: item for kind in members for path, item in _paths(kind).items()},
            "components": {"schemas": schemas},
        }
    )


def _gvk(kind: Kind[Any]) -> Object:  # Any: as above
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _paths(kind: Kind[Any]) -> dict[str, Object]:  # Any: as above
    of_list = kind.path("{namespace}" if kind.namespaced else None)
    one = kind.path("{namespace}" if kind.namespaced else None, "{name}")
    found = {
        of_list: {"get": _operation(kind, "list"), "post": _operation(kind, "post")},
        one: {action: _operation(kind, action) for action in ("get", "put", "patch", "delete")},
    }
    if kind.status:
        found[f"{one}/status"] = {action: _operation(kind, action) for action in ("get", "put", "patch")}
    return found


def _operation(kind: Kind[Any], action: str) -> Object:  # Any: as above
    ref = {"$ref": f"#/components/schemas/{schema.type_name(kind)}"}
    answer: Object = {"description": "OK", "content": {"application/json": {"schema": ref}}}
    operation: Object = {
        "responses": {"200": answer},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _gvk(kind),
    }
    if action in ("post", "put", "patch"):
        names = ("dryRun", "fieldManager", "fieldValidation") + (("force",) if action == "patch" else ())
        operation["parameters"] = [
            {"name": name, "in": "query", "schema": {"type": "boolean" if name == "force" else "string"}}
            for name in names
        ]
        medias: tuple[str, ...] = ("json",) if action != "patch" else _PATCHES
        if action == "patch" and not schema.is_custom(kind):
            medias += (_STRATEGIC,)
        body = ref if action != "patch" else {"type": "object"}
        operation["requestBody"] = {"content": {f"application/{media}": {"schema": body} for media in medias}}
    return operation


def _add(name: str, schemas: dict[str, Object]) -> None:
    """Adds a type, and those that it refers to."""
    if name in schemas:
        return
    properties: Object = {}
    schemas[name] = {"type": "object", "properties": properties}
    if required := [field for field, code in schema.table()[name].items() if code.endswith("!")]:
        schemas[name]["required"] = required
    for field, code in schema.fields(name).items():
        properties[field] = {**_value(code, schemas), **_merge_extensions(name, field)}


def _value(code: str, schemas: dict[str, Object]) -> Object:
    if code in _SIMPLE:
        return _SIMPLE[code]
    if code[0] == "[":
        return {"type": "array", "items": _value(code[1:], schemas)}
    if code[0] == "{":
        return {"type": "object", "additionalProperties": _value(code[1:], schemas)}
    _add(code, schemas)
    return {"allOf": [{"$ref": f"#/components/schemas/{code}"}]}


def _merge_extensions(name: str, field: str) -> Object:
    """What the merging of a field is called in OpenAPI."""
    found: Object = {}
    applied, patched = (schema.merging(name, field, patch=patch) for patch in (False, True))
    is_list = schema.fields(name)[field].startswith("[")
    if is_list:
        kind_of = "set" if applied.is_set else "map" if applied.keys else "atomic"
        found["x-kubernetes-list-type"] = kind_of
        if applied.keys:
            found["x-kubernetes-list-map-keys"] = list(applied.keys)
    elif applied.atomic:
        found["x-kubernetes-map-type"] = "atomic"
    if patched.keys or patched.is_set:
        found["x-kubernetes-patch-strategy"] = "merge,retainKeys" if patched.retain_keys else "merge"
        if patched.keys:
            found["x-kubernetes-patch-merge-key"] = patched.keys[0]
    elif patched.atomic and not is_list:
        found["x-kubernetes-patch-strategy"] = "replace"
    return found
