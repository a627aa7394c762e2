"""Checks quantities in a snapshot that no API server would have accepted.

A node's capacity and a pod's requests must be readable; otherwise capacity would be invented: a pod that
requests `seven` GPUs would take none that anything could count.
"""

from collections.abc import Iterator
from functools import lru_cache

from muster.api import quantity
from muster.api.base import Resource
from muster.api.core_v1 import LimitRange, Node, Pod, Quantities, ResourceRequirements
from muster.api.fields import Finding, Path
from muster.api.node_v1 import Overhead, RuntimeClass


def unreadable(resource: Resource) -> Iterator[Finding]:
    """Errors for unreadable or negative quantities in nodes, pods and whatever adds to new pods."""
    match resource:
        case Node():
            field = "allocatable" if resource.status.allocatable else "capacity"
            yield from _wrong(getattr(resource.status, field), ("status", field))
        case LimitRange(spec=spec):
            for index, item in enumerate(spec.limits):
                for name, amounts in (
                    ("max", item.max),
                    ("min", item.min),
                    ("default", item.default),
                    ("defaultRequest", item.default_request),
                ):
                    yield from _wrong(amounts, ("spec", "limits", index, name))
        case RuntimeClass(overhead=Overhead(pod_fixed=amounts)):
            yield from _wrong(amounts, ("overhead", "podFixed"))
        case Pod(spec=spec):
            for field, containers in (
                ("containers", spec.containers),
                ("initContainers", spec.init_containers),
            ):
                for index, container in enumerate(containers):
                    yield from _requirements(container.resources, ("spec", field, index))
            yield from _requirements(spec.resources, ("spec",))
            yield from _wrong(spec.overhead, ("spec", "overhead"))


def _requirements(resources: ResourceRequirements, at: Path) -> Iterator[Finding]:
    yield from _wrong(resources.requests, (*at, "resources", "requests"))
    yield from _wrong(resources.limits, (*at, "resources", "limits"))


def _wrong(quantities: Quantities, at: Path) -> Iterator[Finding]:
    for resource, text in quantities.items():
        if why := _why(text):
            yield Finding((*at, resource), why)


@lru_cache(maxsize=4096)  # a cluster has thousands of pods but few different amounts
def _why(text: str | int | float) -> str:
    try:
        return f"{text} is negative; write 0 or more" if quantity.parse(text) < 0 else ""
    except ValueError as error:
        return str(error)
