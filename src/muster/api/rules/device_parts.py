"""What device classes, slices and claims have in common: names, selectors, configurations, tolerations.

CEL expressions are held against their size only: the scheduler evaluates them, and says what is wrong with
one. Source: kubernetes, pkg/apis/resource/validation/validation.go, and the limits and tags of
staging/src/k8s.io/api/resource/v1/types.go.
"""

import re
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final

import msgspec

from muster.api.base import Object, at
from muster.api.fields import Finding, Path
from muster.api.rules.metadata import labels, qualified, shown, subdomain

MOST_SELECTORS: Final = 32
MOST_CONFIGS: Final = 32
LONGEST_EXPRESSION: Final = 10 * 1024  # bytes
_LONGEST_PARAMETERS: Final = 10 * 1024  # bytes of JSON
_LONGEST_DRIVER: Final = 63
_LONGEST_POOL: Final = 253
_LONGEST_ID: Final = 32
_ID: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
EFFECTS: Final = ("NoSchedule", "NoExecute", "None")
_OPERATORS: Final = ("Exists", "Equal")
_Check = Callable[[Any, Path], Iterable[Finding]]  # Any: JSON


def check_selector(selector: Object, path: Path) -> Iterable[Finding]:
    cel, where = selector.get("cel"), (*path, "cel", "expression")
    if cel is None:
        yield Finding((*path, "cel"), "Required value")
    elif not cel["expression"]:
        yield Finding(where, "Required value")
    elif len(cel["expression"].encode()) > LONGEST_EXPRESSION:
        yield Finding(where, f"Too long: may not be more than {LONGEST_EXPRESSION} bytes")


def check_config(config: Object, path: Path) -> Iterable[Finding]:
    opaque, where = config.get("opaque"), (*path, "opaque", "parameters")
    if opaque is None:
        yield Finding((*path, "opaque"), "Required value")
        return
    parameters = opaque.get("parameters")
    yield from driver_name(opaque["driver"], (*path, "opaque", "driver"))
    if not isinstance(parameters, dict):
        yield Finding(where, "Invalid value: must be an object")
    elif len(msgspec.json.encode(parameters)) > _LONGEST_PARAMETERS:
        yield Finding(where, f"Too long: may not be more than {_LONGEST_PARAMETERS} bytes")


def check_toleration(toleration: Object, path: Path) -> Iterable[Finding]:
    operator, value = toleration.get("operator") or "Equal", toleration.get("value", "")
    if toleration.get("key"):
        yield from qualified(toleration["key"], (*path, "key"))
    if operator not in _OPERATORS:
        yield unsupported((*path, "operator"), operator, _OPERATORS)
    elif operator == "Exists" and value:
        yield Finding((*path, "value"), "Invalid value: must be empty for operator `Exists`")
    else:
        yield from labels({"value": value}, path)
    if toleration.get("effect") and toleration["effect"] not in EFFECTS:
        yield unsupported((*path, "effect"), toleration["effect"], EFFECTS)


def check_taint(taint: Object, path: Path) -> Iterable[Finding]:
    yield from qualified(taint["key"], (*path, "key"))
    yield from labels({"value": taint.get("value", "")}, path)
    if taint["effect"] not in EFFECTS:
        yield unsupported((*path, "effect"), taint["effect"], EFFECTS)


def driver_name(name: str, path: Path) -> Iterable[Finding]:
    if not name:
        yield Finding(path, "Required value")
    elif len(name) > _LONGEST_DRIVER:
        yield Finding(path, f"Too long: may not be more than {_LONGEST_DRIVER} bytes")
    else:
        yield from subdomain(name.lower(), path)


def pool_name(name: str, path: Path) -> Iterable[Finding]:
    if not name:
        yield Finding(path, "Required value")
    elif len(name) > _LONGEST_POOL:
        yield Finding(path, f"Too long: may not be more than {_LONGEST_POOL} bytes")
    else:
        for part in name.split("/"):
            yield from subdomain(part, path)


def attribute_name(name: str, path: Path) -> Iterable[Finding]:
    """Checks the name of an attribute or a capacity: an identifier, with an optional domain."""
    domain, slash, own = name.rpartition("/")
    if slash:
        yield from driver_name(domain, path)
    if len(own) > _LONGEST_ID or not _ID.fullmatch(own):
        told = f"write at most {_LONGEST_ID} letters, digits or '_', and no digit first"
        yield Finding(path, f"Invalid value: {shown(own)}: {told}")


def check_list(
    parent: Object,
    path: Path,
    field: str,
    most: int | None,
    check: _Check,
    key: Callable[[Any], Hashable] | None = None,  # Any: JSON
) -> list[Finding]:
    """Checks a list: its length (None: any), each item, and with a `key` that no two items have the same."""
    items: list[Any] = parent.get(field) or []  # Any: JSON
    where = (*path, field)
    if most is not None and len(items) > most:
        return [too_many(where, len(items), most)]
    errors = [error for number, item in enumerate(items) for error in check(item, (*where, number))]
    seen: set[Hashable] = set()
    for number, one in enumerate(map(key, items) if key is not None else ()):
        if one in seen:
            errors.append(Finding((*where, number), f"Duplicate value: {shown(str(one))}"))
        seen.add(one)
    return errors


def by(field: str) -> Callable[[Object], Hashable]:
    return lambda item: item.get(field)


def check_frozen(obj: Object, old: Object, path: tuple[str, ...]) -> list[Finding]:
    *inner, last = path
    if at(obj, *inner).get(last) == at(old, *inner).get(last):
        return []
    return [Finding(path, "Invalid value: field is immutable")]


def unsupported(path: Path, value: str, supported: tuple[str, ...]) -> Finding:
    return Finding(path, f"Unsupported value: {shown(value)}: write {', '.join(supported)}")


def too_many(path: Path, count: int, most: int) -> Finding:
    return Finding(path, f"Too many: {count}: must have at most {most} items")
