"""Server-side apply: which manager owns which field, and what an applied configuration changes.

An object that has been applied keeps in `metadata.managedFields` which manager owns which fields. A manager
that applies a configuration owns the fields in it. It may not change a field of another manager (a conflict)
unless it forces that, and then owns the field. A field that it owned alone, and that it leaves out now, is
removed. Another write moves the fields that it changes to its writer. An object that was never applied has
no `managedFields`; when it is first applied, its fields belong to `before-first-apply`. Fields of the status
are not tracked.

A field is a path of steps as in FieldsV1: `f:NAME` of a map, `k:{KEYS}` or `v:VALUE` of a list; a last step
`.` is an item of a list itself.

Source: KEP-555; kubernetes-sigs/structured-merge-diff, merge/update.go and typed/.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from muster.api.base import Object
from muster.embedded import schema
from muster.embedded.api_errors import AnyKind
from muster.embedded.verbs.metadata import time_text
from muster.kube.errors import Conflict

Steps = tuple[str, ...]
#: The value of `metadata.managedFields`.
Managed = list[Object]
BEFORE: Final = "before-first-apply"
SELF: Final = "."
_UNTRACKED: Final = frozenset({("f:apiVersion",), ("f:kind",), ("f:status",)})
#: Metadata that users set; the rest is the server's.
_METADATA: Final = ("labels", "annotations", "finalizers", "ownerReferences")


def applied(
    kind: AnyKind, current: Object | None, config: Object, manager: str, force: bool, now: datetime
) -> tuple[Object, list[Object]]:
    """(the object with the configuration applied, its `managedFields`). Raises `Conflict`."""
    type_ = schema.type_name(kind)
    mine = _owned(type_, config)
    if current is None:
        return config, [_entry(kind, manager, "Apply", mine, now)]
    old = current["metadata"].get("managedFields") or [
        _entry(kind, BEFORE, "Update", _owned(type_, current), now)
    ]
    owners = {_writer(entry): _steps(entry.get("fieldsV1") or {}) for entry in old}
    before = owners.pop((manager, "Apply"), set())
    new = _merge(type_, current, config)
    values, wanted = dict(_leaves(type_, current)), dict(_leaves(type_, new))
    changed = {steps for steps in mine if steps[-1] != SELF and values.get(steps) != wanted.get(steps)}
    taken = {writer: steps & changed for writer, steps in owners.items() if steps & changed}
    if taken and not force:
        raise _conflict(kind, taken)
    owners = {writer: steps - changed for writer, steps in owners.items()}
    others = set().union(*owners.values())
    for steps in sorted(before - mine - others, key=len, reverse=True):
        if not (steps[-1] == SELF and any(other[: len(steps) - 1] == steps[:-1] for other in others)):
            new = _without(type_, new, steps)
    return new, _entries(kind, {**owners, (manager, "Apply"): mine}, old, now)


def updated(kind: AnyKind, current: Object, new: Object, manager: str, now: datetime) -> list[Object]:
    """The `managedFields` after another write than apply has made `new` of `current`."""
    type_ = schema.type_name(kind)
    old: list[Object] = current["metadata"]["managedFields"]
    values, wanted = dict(_leaves(type_, current)), dict(_leaves(type_, new))
    changed = {steps for steps in {*values, *wanted} if values.get(steps) != wanted.get(steps)}
    if not changed:
        return old
    owners = {_writer(entry): _steps(entry.get("fieldsV1") or {}) - changed for entry in old}
    own = owners.setdefault((manager, "Update"), set())
    owners[manager, "Update"] = own | {steps for steps in changed if steps in wanted}
    return _entries(kind, owners, old, now)


def _owned(type_: str, obj: Object) -> set[Steps]:
    return {steps for steps, _ in _leaves(type_, obj)}


def _leaves(type_: str, obj: Object) -> Iterator[tuple[Steps, Any]]:  # Any: JSON
    """The fields that have an owner of their own, and their values."""
    for key, value in obj.items():
        if key == "metadata":
            value = {field: value[field] for field in _METADATA if field in value}
            if not value:
                continue
        if (f"f:{key}",) not in _UNTRACKED:
            yield from _field(type_, key, value, (f"f:{key}",))


def _field(type_: str, field: str, value: Any, at: Steps) -> Iterator[tuple[Steps, Any]]:  # Any: JSON
    inner, merging = _about(type_, field)
    if isinstance(value, dict) and value and not merging.atomic:
        for key, item in value.items():
            yield from _field(inner, key, item, (*at, f"f:{key}"))
    elif isinstance(value, list) and merging.is_set:
        for item in value:
            yield (*at, _value_step(item)), item
    elif isinstance(value, list) and merging.keys and all(isinstance(item, dict) for item in value):
        for item in value:
            step = (*at, _key_step(merging.keys, item))
            yield (*step, SELF), True
            if not schema.item(inner[1:]).atomic:
                for key, part in item.items():
                    yield from _field(inner[1:], key, part, (*step, f"f:{key}"))
    else:
        yield at, value


def _about(type_: str, field: str) -> tuple[str, schema.Merging]:
    """The code of a field's type, and how it merges."""
    if type_[0] == "{":
        return type_[1:], schema.item(type_[1:])
    code = schema.fields(type_).get(field, "o")
    return code, schema.merging(type_, field, patch=False)


def _merge(type_: str, old: Any, config: Object) -> Object:  # Any: JSON
    new: Object = dict(old) if isinstance(old, dict) else {}
    for field, value in config.items():
        inner, merging = _about(type_, field)
        before = new.get(field)
        if isinstance(value, dict) and not merging.atomic:
            new[field] = _merge(inner, before, value)
        elif isinstance(value, list) and merging.is_set and isinstance(before, list):
            new[field] = before + [item for item in value if item not in before]
        elif isinstance(value, list) and merging.keys and isinstance(before, list):
            new[field] = _merge_items(inner[1:], merging.keys, before, value)
        else:
            new[field] = value
    return new


def _merge_items(
    type_: str, keys: tuple[str, ...], old: list[Any], config: list[Any]
) -> list[Any]:  # Any: JSON
    new = list(old)
    for item in config:
        step = _key_step(keys, item)
        for position, each in enumerate(new):
            if _key_step(keys, each) == step:
                whole = schema.item(type_).atomic or not isinstance(item, dict)
                new[position] = item if whole else _merge(type_, each, item)
                break
        else:
            new.append(item)
    return new


def _without(type_: str, value: Any, steps: Steps) -> Any:  # Any: JSON
    """A map without the field at these steps; maps and lists that become empty go with it."""
    field = steps[0].removeprefix("f:")
    if not isinstance(value, dict) or field not in value:
        return value
    rest = {key: item for key, item in value.items() if key != field}
    inner, merging = _about(type_, field)
    if len(steps) == 1:
        return rest
    if steps[1].startswith("f:"):
        left = _without(inner, value[field], steps[1:])
    elif not isinstance(value[field], list):
        return value
    elif steps[1].startswith("v:"):
        left = [item for item in value[field] if _value_step(item) != steps[1]]
    else:
        left = []
        for item in value[field]:
            if _key_step(merging.keys, item) != steps[1]:
                left.append(item)
            elif steps[2:] != (SELF,):
                left.append(_without(inner[1:], item, steps[2:]))
    return {**value, field: left} if left else rest


def _key_step(keys: tuple[str, ...], item: Any) -> str:  # Any: JSON
    found = {key: item[key] for key in keys if isinstance(item, dict) and key in item}
    if "protocol" in keys:
        found.setdefault("protocol", "TCP")
    return "k:" + json.dumps(found, sort_keys=True, separators=(",", ":"))


def _value_step(value: Any) -> str:  # Any: JSON
    return "v:" + json.dumps(value, separators=(",", ":"))


def _steps(fields: Any, at: Steps = ()) -> set[Steps]:  # Any: FieldsV1
    """The steps of every leaf of FieldsV1."""
    if not isinstance(fields, dict) or not fields:
        return {at} if at else set()
    return set().union(*(_steps(inner, (*at, step)) for step, inner in fields.items()))


def _fields_v1(steps: Iterable[Steps]) -> Object:
    root: Object = {}
    for path in sorted(steps):
        node = root
        for step in path:
            node = node.setdefault(step, {})
    return root


def _writer(entry: Object) -> tuple[str, str]:
    return entry.get("manager", ""), entry.get("operation", "")


def _entry(kind: AnyKind, manager: str, operation: str, steps: set[Steps], now: datetime) -> Object:
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": kind.api_version,
        "time": time_text(now),
        "fieldsType": "FieldsV1",
        "fieldsV1": _fields_v1(steps),
    }


def _entries(
    kind: AnyKind, owners: Mapping[tuple[str, str], set[Steps]], old: list[Object], now: datetime
) -> list[Object]:
    """One entry for each owner that owns something; an entry that says nothing new keeps its time."""
    known = {_writer(entry): entry for entry in old}
    entries = []
    for (manager, operation), steps in owners.items():
        entry = _entry(kind, manager, operation, steps, now)
        before = known.get((manager, operation))
        if before is not None and before.get("fieldsV1") == entry["fieldsV1"]:
            entry = before
        if steps or operation == "Apply":
            entries.append(entry)
    return sorted(entries, key=lambda entry: (entry["operation"], entry["manager"]))


def _conflict(kind: AnyKind, taken: Mapping[tuple[str, str], set[Steps]]) -> Conflict:
    causes, lines = [], []
    for (manager, operation), paths in sorted(taken.items()):
        fields = [_shown(path) for path in sorted(paths)]
        using = f" using {kind.api_version}" if operation == "Update" else ""
        what = f'conflict with "{manager}"{using}'
        lines.append(f"{what}: {fields[0]}" if len(fields) == 1 else "\n- ".join([f"{what}:", *fields]))
        causes += [{"reason": "FieldManagerConflict", "message": what, "field": field} for field in fields]
    count = f"{len(causes)} conflict" + ("s" if len(causes) > 1 else "")
    message = f"Apply failed with {count}: " + "\n".join(lines)
    return Conflict(message, details={"causes": causes})


def _shown(steps: Steps) -> str:
    """A path in messages, such as `.spec.containers[name="c"].image`."""
    text = ""
    for step in steps:
        if step.startswith("k:"):
            pairs = json.loads(step[2:]).items()
            text += "[" + ",".join(f"{key}={json.dumps(value)}" for key, value in pairs) + "]"
        elif step.startswith("v:"):
            text += f"[={step[2:]}]"
        elif step != SELF:
            text += "." + step.removeprefix("f:")
    return text
