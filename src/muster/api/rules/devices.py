"""Device classes and slices of devices: defaults and validation. Source: as in `device_parts`."""

import re
from collections.abc import Iterable
from typing import Any, Final

from muster.api import quantity
from muster.api.base import Object, at
from muster.api.fields import Finding, Path
from muster.api.rules.device_parts import (
    MOST_CONFIGS,
    MOST_SELECTORS,
    attribute_name,
    by,
    check_config,
    check_frozen,
    check_list,
    check_selector,
    check_taint,
    driver_name,
    pool_name,
    too_many,
)
from muster.api.rules.metadata import label, qualified, shown, subdomain

MOST_DEVICES: Final = 128
#: Of a slice in which devices have taints, consume counters, or have attributes that are lists.
MOST_ADVANCED_DEVICES: Final = 64
_MOST_TAINTS: Final = 16
_MOST_ATTRIBUTES: Final = 32  # with the capacities
_MOST_ATTRIBUTE_VALUES: Final = 48
_MOST_COUNTER_SETS: Final = 8
_MOST_COUNTERS: Final = 32
_MOST_CONSUMED_SETS: Final = 2
_MOST_VALID_VALUES: Final = 10
_MOST_CONDITIONS: Final = 4
_LONGEST_VALUE: Final = 64
_PART: Final = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_VERSION: Final = re.compile(
    rf"(0|[1-9]\d*)(\.(0|[1-9]\d*)){{2}}(-{_PART}(\.{_PART})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?", re.ASCII
)
_SCALARS: Final = ("bool", "int", "string", "version")
_LISTS: Final = ("bools", "ints", "strings", "versions")
_WHERE: Final = ("nodeName", "nodeSelector", "allNodes")


def default_slice(obj: Object) -> Object:
    at(obj, "spec", "pool").setdefault("generation", 0)
    return obj


def validate_class(obj: Object, old: Object | None) -> list[Finding]:
    spec, path = obj.get("spec") or {}, ("spec",)
    errors = check_list(spec, path, "selectors", MOST_SELECTORS, check_selector)
    errors += check_list(spec, path, "config", MOST_CONFIGS, check_config)
    name = spec.get("extendedResourceName")
    if name is not None and not _is_extended(name):
        told = f"Invalid value: {shown(name)}: write the name of an extended resource: example.com/gpu"
        errors.append(Finding((*path, "extendedResourceName"), told))
    return errors


def validate_slice(obj: Object, old: Object | None) -> list[Finding]:
    spec, path = obj["spec"], ("spec",)
    pool, devices = spec["pool"], spec.get("devices") or []
    errors = [*driver_name(spec["driver"], (*path, "driver"))]
    errors += pool_name(pool["name"], (*path, "pool", "name"))
    for field, least in (("resourceSliceCount", 1), ("generation", 0)):
        if pool[field] < least:
            told = f"Invalid value: {pool[field]}: must be greater than or equal to {least}"
            errors.append(Finding((*path, "pool", field), told))
    if old is not None:
        for fixed in (("driver",), ("pool", "name"), ("nodeName",)):
            errors += check_frozen(obj, old, (*path, *fixed))
    errors += _where(spec, path, (*_WHERE, "perDeviceNodeSelection"))
    selector = spec.get("nodeSelector")
    if selector is not None and len(selector.get("nodeSelectorTerms") or []) != 1:
        at_terms = (*path, "nodeSelector", "nodeSelectorTerms")
        errors.append(Finding(at_terms, "Invalid value: must have exactly one node selector term"))
    if spec.get("sharedCounters") is not None and spec.get("devices") is not None:
        errors.append(Finding(path, "Invalid value: only one of `sharedCounters` or `devices` is allowed"))
    most = MOST_ADVANCED_DEVICES if any(map(_is_advanced, devices)) else MOST_DEVICES
    alone = bool(spec.get("perDeviceNodeSelection"))
    errors += check_list(
        spec, path, "devices", most, lambda device, where: _device(device, where, alone), by("name")
    )
    return errors + check_list(spec, path, "sharedCounters", _MOST_COUNTER_SETS, _counter_set, by("name"))


def _is_extended(name: str) -> bool:
    """Whether this can be the name of a resource with a domain of its own; quotas say `requests.NAME`."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return not qualified(f"requests.{name}", ())


def _where(part: Object, path: Path, fields: tuple[str, ...]) -> Iterable[Finding]:
    """Checks that exactly one of the fields says for which nodes a slice, or a device, is."""
    given = [field for field in fields if part.get(field) is not None]
    for field in given:
        if part[field] == "" or part[field] is False:
            yield Finding((*path, field), "Invalid value: must be either unset or not empty")
    if isinstance(name := part.get("nodeName"), str) and name:
        yield from subdomain(name, (*path, "nodeName"))
    if len(given) != 1:
        told = ", ".join(f"`{field}`" for field in fields)
        what = "Invalid value" if given else "Required value"
        yield Finding(path, f"{what}: exactly one of {told} is required")


def _is_advanced(device: Object) -> bool:
    return bool(device.get("taints") or device.get("consumesCounters")) or any(
        field in attribute for attribute in (device.get("attributes") or {}).values() for field in _LISTS
    )


def _device(device: Object, path: Path, alone: bool) -> Iterable[Finding]:
    """Checks a device of a slice. `alone`: each device says itself for which nodes it is."""
    yield from label(device["name"], (*path, "name"))
    attributes, capacities = device.get("attributes") or {}, device.get("capacity") or {}
    if (count := len(attributes) + len(capacities)) > _MOST_ATTRIBUTES:
        told = f"Invalid value: {count}: at most {_MOST_ATTRIBUTES} attributes and capacities"
        yield Finding(path, told)
        return
    values = sum(sum(len(each.get(field, ())) for field in _LISTS) or 1 for each in attributes.values())
    if values > _MOST_ATTRIBUTE_VALUES:
        told = f"Invalid value: {values}: at most {_MOST_ATTRIBUTE_VALUES} values of attributes"
        yield Finding(path, told)
        return
    for name, attribute in attributes.items():
        yield from attribute_name(name, (*path, "attributes"))
        yield from _attribute(attribute, (*path, "attributes", name))
    for name, capacity in capacities.items():
        yield from attribute_name(name, (*path, "capacity"))
        where = (*path, "capacity", name, "requestPolicy")
        if (policy := capacity.get("requestPolicy")) is None:
            continue
        if device.get("allowMultipleAllocations"):
            yield from _policy(policy, capacity["value"], where)
        else:
            yield Finding(where, "Forbidden: allowMultipleAllocations must be true")
    yield from check_list(device, path, "taints", _MOST_TAINTS, check_taint)
    yield from check_list(
        device, path, "consumesCounters", _MOST_CONSUMED_SETS, _consumption, by("counterSet")
    )
    if alone:
        yield from _where(device, path, _WHERE)
    elif any(field in device for field in _WHERE):
        told = ", ".join(f"`{field}`" for field in _WHERE)
        yield Finding(path, f"Invalid value: {told} need `perDeviceNodeSelection` in the slice")
    yield from _binding_conditions(device, path)


def _binding_conditions(device: Object, path: Path) -> Iterable[Finding]:
    conditions, failures = "bindingConditions", "bindingFailureConditions"
    for field, other in ((conditions, failures), (failures, conditions)):
        yield from check_list(device, path, field, _MOST_CONDITIONS, qualified, lambda name: name)
        if device.get(field) and not device.get(other):
            yield Finding((*path, other), f"Invalid value: required with {field}")


def _attribute(attribute: Object, path: Path) -> Iterable[Finding]:
    if len([field for field in (*_SCALARS, *_LISTS) if field in attribute]) != 1:
        yield Finding(path, "Invalid value: exactly one value must be specified")
    for field in (*_SCALARS, *_LISTS):
        if field not in attribute:
            continue
        values = attribute[field] if field in _LISTS else [attribute[field]]
        if not values:
            yield Finding((*path, field), "Invalid value: must not be empty")
        for value in values:
            if isinstance(value, str) and len(value.encode()) > _LONGEST_VALUE:
                yield Finding((*path, field), f"Too long: may not be more than {_LONGEST_VALUE} bytes")
            elif field.startswith("version") and not _VERSION.fullmatch(value):
                told = f"Invalid value: {shown(value)}: write a version as semver.org has it: 1.2.3"
                yield Finding((*path, field), told)


def _policy(policy: Object, capacity: Any, path: Path) -> Iterable[Finding]:  # Any: a quantity
    """Checks how much of a capacity one request may have."""
    values, limits = policy.get("validValues") or [], policy.get("validRange")
    if values and limits is not None:
        yield Finding(path, "Forbidden: `validValues` and `validRange` exclude each other")
        return
    if (values or limits is not None) and policy.get("default") is None:
        yield Finding((*path, "default"), "Required value")
        return
    most, default = quantity.parse(capacity), quantity.parse(policy.get("default", 0))
    if values:
        found = [quantity.parse(each) for each in values]
        where = (*path, "validValues")
        if len(values) > _MOST_VALID_VALUES:
            yield too_many(where, len(values), _MOST_VALID_VALUES)
        elif found != sorted(set(found)):
            yield Finding(where, "Invalid value: must be in ascending order, each once")
        if found[-1] > most:
            yield Finding(where, f"Invalid value: {values[-1]}: is larger than the capacity {capacity}")
        if default not in found:
            yield Finding(where, f"Invalid value: the default {policy['default']} is not among them")
    if limits is None:
        return
    where = (*path, "validRange")
    least = quantity.parse(limits["min"])
    end = quantity.parse(limits["max"]) if limits.get("max") is not None else most
    if not least <= default <= end <= most:
        told = "Invalid value: must be min <= default <= max <= capacity"
        yield Finding(where, told)
    if limits.get("step") is not None:
        step = quantity.parse(limits["step"])
        if step <= 0 or least + step > most:
            told = "Invalid value: must be positive, and min + step <= capacity"
            yield Finding((*where, "step"), told)
        elif (default - least) % step or (limits.get("max") is not None and (end - least) % step):
            told = "Invalid value: default and max must be min and a multiple of step"
            yield Finding((*where, "step"), told)


def _counter_set(counters: Object, path: Path) -> Iterable[Finding]:
    yield from label(counters["name"], (*path, "name"))
    yield from _counters(counters["counters"], (*path, "counters"))


def _consumption(consumption: Object, path: Path) -> Iterable[Finding]:
    yield from label(consumption["counterSet"], (*path, "counterSet"))
    yield from _counters(consumption["counters"], (*path, "counters"))


def _counters(counters: Object, path: Path) -> Iterable[Finding]:
    if not counters:
        yield Finding(path, "Required value")
    elif len(counters) > _MOST_COUNTERS:
        yield too_many(path, len(counters), _MOST_COUNTERS)
    else:
        for name in counters:
            yield from label(name, path)
