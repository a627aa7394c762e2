"""Strategic merge patch: a merge patch that merges lists of maps by their keys, as `kubectl apply` sends it.

A patch may have directives: `$patch` (replace, delete, merge) in a map, `$retainKeys`, and beside a list
`$setElementOrder/FIELD` and `$deleteFromPrimitiveList/FIELD`. `muster.embedded.schema` says how a
field merges.

Source: kubernetes/apimachinery, pkg/util/strategicpatch/patch.go.
"""

from collections.abc import Callable
from typing import Any, Final

from muster.api.base import Object
from muster.embedded import schema
from muster.embedded.api_errors import AnyKind
from muster.kube.errors import BadRequest, UnsupportedMediaType

PATCH: Final = "$patch"
RETAIN: Final = "$retainKeys"
ORDER: Final = "$setElementOrder/"
DELETE: Final = "$deleteFromPrimitiveList/"


def apply(kind: AnyKind, obj: Object, patch: Object) -> Object:
    """`obj` with the patch applied; neither is changed."""
    if schema.is_custom(kind):
        raise UnsupportedMediaType(
            f"a strategic merge patch is for Kubernetes' own kinds; patch {kind.kind} with a merge patch"
        )
    return _map(schema.type_name(kind), obj, patch)


def _map(type_: str, old: Any, patch: Object) -> Object:  # Any: JSON
    """The map `old`, of a type or of values of a type (`{type`), patched."""
    directive = patch.get(PATCH, "merge")
    if directive == "replace":
        return _clean(patch)
    if directive == "delete":
        return {}
    if directive != "merge":
        raise BadRequest(f"the patch has an unknown directive: {PATCH}: {directive!r}")
    new: Object = dict(old) if isinstance(old, dict) else {}
    if (retained := patch.get(RETAIN)) is not None:
        kept = _list(retained, RETAIN)
        new = {key: value for key, value in new.items() if key in kept}
    for key, value in patch.items():
        if key.startswith(DELETE):
            field = key.removeprefix(DELETE)
            gone = _list(value, key)
            if isinstance(new.get(field), list):
                new[field] = [item for item in new[field] if item not in gone]
        elif key.startswith("$"):
            continue
        elif value is None:
            new.pop(key, None)
        else:
            new[key] = _value(type_, key, new.get(key), value, patch)
    for key, value in patch.items():
        field = key.removeprefix(ORDER)
        if field != key and isinstance(new.get(field), list):
            before = old.get(field) if isinstance(old, dict) else None
            new[field] = _ordered(type_, field, new[field], before, _list(value, key))
    return new


def _value(type_: str, field: str, old: Any, value: Any, patch: Object) -> Any:  # Any: JSON
    inner = type_[1:] if type_[0] == "{" else schema.fields(type_).get(field, "o")
    merging = schema.merging(type_, field, patch=True)
    if isinstance(value, dict):
        if merging.atomic:
            return _clean(value)
        return _map(inner, old, value)
    if not isinstance(value, list):
        return value
    if merging.is_set:
        before = old if isinstance(old, list) else []
        return before + [item for item in value if item not in before]
    if merging.keys:
        return _items(inner[1:], merging.keys[0], old if isinstance(old, list) else [], value)
    return [_clean(item) if isinstance(item, dict) else item for item in value]


def _items(type_: str, key: str, old: list[Any], patch: list[Any]) -> list[Any]:  # Any: JSON
    """A list of maps, merged by `key`."""
    if not all(isinstance(item, dict) for item in (*old, *patch)):
        raise BadRequest(f"the patch has a list in which an item is not a map with the key {key}")
    if any(item.get(PATCH) == "replace" for item in patch):
        return [_clean(item) for item in patch if item.keys() != {PATCH}]
    new = list(old)
    for item in patch:
        if key not in item:
            raise BadRequest(f"map: {item!r:.200} does not contain declared merge key: {key}")
        same = [position for position, each in enumerate(new) if each.get(key) == item[key]]
        if item.get(PATCH) == "delete":
            new = [each for position, each in enumerate(new) if position not in same]
        elif same:
            new[same[0]] = _map(type_, new[same[0]], item)
        else:
            new.append(_map(type_, {}, item))
    return new


def _ordered(type_: str, field: str, new: list[Any], old: Any, order: list[Any]) -> list[Any]:  # Any: JSON
    """The list in the patch's order; unnamed items stay behind those they were behind."""
    keys = schema.merging(type_, field, patch=True).keys
    identity: Callable[[Any], Any] = (lambda item: item.get(keys[0])) if keys else (lambda item: item)
    wanted = [identity(item) for item in order]
    before = [identity(item) for item in old or ()]
    named = sorted(
        (item for item in new if identity(item) in wanted), key=lambda item: wanted.index(identity(item))
    )
    others = [item for item in new if identity(item) not in wanted]
    merged: list[Any] = []
    while named and others:
        first, other = identity(named[0]), identity(others[0])
        is_first = first in before and other in before and before.index(first) < before.index(other)
        merged.append((named if is_first else others).pop(0))
    return merged + named + others


def _clean(value: Object) -> Object:
    """A map without directives and nulls, at any depth."""
    new: Object = {}
    for key, item in value.items():
        if key.startswith("$") or item is None:
            continue
        if isinstance(item, dict):
            item = _clean(item)
        elif isinstance(item, list):
            item = [_clean(each) if isinstance(each, dict) else each for each in item]
        new[key] = item
    return new


def _list(value: Any, name: str) -> list[Any]:  # Any: JSON
    if not isinstance(value, list):
        raise BadRequest(f"the patch has a {name} that is not a list")
    return value
