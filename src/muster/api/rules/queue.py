"""Queues: defaults, and the errors that one queue alone shows.

Whether its parent exists, whether queues are in a cycle, and whether several guarantees are too much together
depends on other objects, which may come later: the scheduler says that, in the queue's status.
"""

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from muster.api import quantity
from muster.api.base import Object
from muster.api.fields import Finding, Path
from muster.api.koordinator_v1alpha1 import CLUSTER_LAYER
from muster.api.rules.metadata import shown

ORDERS: Final = ("priority", "fifo", "fair")
#: The name of what all queues are below; it is no queue itself.
ROOT: Final = "root"
#: A queue is named in labels, too.
LONGEST_NAME: Final = 63
MOST_WEIGHT: Final = 1_000_000
#: The lowest and the highest priority that a pod can have.
LOWEST: Final = -(2**31)
HIGHEST: Final = 2**31 - 1
_LAYER: Final = re.compile(r"[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")


def default(obj: Object) -> Object:
    spec = obj.setdefault("spec", {})
    for field, value in (("parent", ROOT), ("weight", 1), ("order", ORDERS[0]), ("reclaimable", True)):
        spec.setdefault(field, value)
    return obj


def validate(obj: Object, old: Object | None) -> list[Finding]:
    spec, name = obj["spec"], obj["metadata"].get("name") or ""
    errors = [*_name(name), *_numbers(spec), *_layer(spec)]
    if spec["parent"] == name != ROOT:
        errors.append(
            _error(
                "parent",
                f"Invalid value: {shown(name)}: a queue cannot be its own parent; write another, or root",
            )
        )
    if spec["order"] not in ORDERS:
        expected = ", ".join(map(shown, ORDERS))
        errors.append(
            _error("order", f"Unsupported value: {shown(spec['order'])}: supported values: {expected}")
        )
    amounts: dict[str, dict[str, Fraction]] = {}
    for field in ("guarantee", "deserved", "capability"):
        amounts[field] = {}
        for resource, text in (spec.get(field) or {}).items():
            try:
                amounts[field][resource] = quantity.parse(text)
            except ValueError as error:
                errors.append(_error(field, f"Invalid value: {error}", resource))
                continue
            if amounts[field][resource] < 0:
                errors.append(_error(field, f"Invalid value: {text}: must not be negative", resource))
    for less, more in (("guarantee", "deserved"), ("guarantee", "capability"), ("deserved", "capability")):
        errors += _at_most(spec, amounts, less, more)
    return errors


def _name(name: str) -> Iterator[Finding]:
    if name == ROOT:
        message = f"Invalid value: {shown(ROOT)}: this is the name of the tree's root; choose another name"
        yield Finding(("metadata", "name"), message)
    if len(name) > LONGEST_NAME:
        message = f"Too long: {len(name)} characters; labels name queues, so at most {LONGEST_NAME}"
        yield Finding(("metadata", "name"), message)


def _numbers(spec: Object) -> Iterator[Finding]:
    if not 1 <= spec["weight"] <= MOST_WEIGHT:
        yield _error("weight", f"Invalid value: {spec['weight']}: write a number from 1 to {MOST_WEIGHT}")
    most = spec.get("maxGangs")
    if most is not None and most < 0:
        yield _error("maxGangs", f"Invalid value: {most}: must not be negative")
    priority = spec.get("maxPriority")
    if priority is not None and not LOWEST <= priority <= HIGHEST:
        message = f"Invalid value: {priority}: write a number from {LOWEST} to {HIGHEST}"
        yield _error("maxPriority", message)


def _layer(spec: Object) -> Iterator[Finding]:
    layer = spec.get("maxExclusiveLayer") or ""
    if layer.lower() == CLUSTER_LAYER.lower():
        message = (
            f"Invalid value: {shown(layer)}: the whole cluster is no domain to have; write a layer below it"
        )
        yield _error("maxExclusiveLayer", message)
    elif layer and not _LAYER.fullmatch(layer):
        message = (
            f"Invalid value: {shown(layer)}: write the name of a layer of the ClusterTopology, such as "
            f"Rack: letters, digits, -, _ and ., at most {LONGEST_NAME} characters"
        )
        yield _error("maxExclusiveLayer", message)


def _at_most(
    spec: Object, amounts: dict[str, dict[str, Fraction]], less: str, more: str
) -> Iterator[Finding]:
    for resource in amounts[less].keys() & amounts[more].keys():
        if amounts[less][resource] > amounts[more][resource]:
            limit = spec[more][resource]
            message = f"Invalid value: {spec[less][resource]}: is above the queue's {more}, {limit}"
            yield _error(less, message, resource)


def _error(field: str, message: str, *below: str) -> Finding:
    path: Path = ("spec", field, *below)
    return Finding(path, message)
