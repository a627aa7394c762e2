"""Rules for what containers and pods ask for: names of resources, amounts, requests against limits.

CPU, memory and ephemeral storage may be promised more often than a node has them, so that a request may be
below its limit, or alone. Anything else (GPUs and other extended resources, huge pages) may not: it is asked
for by its limit, and a request only repeats it.

Source: kubernetes, pkg/apis/core/validation/validation.go (ValidateContainerResourceRequirements,
validateContainerResourceName, validatePodResourceRequirements) and pkg/apis/core/v1/helper/helpers.go.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from muster.api import quantity
from muster.api.base import Object
from muster.api.fields import Finding, Path
from muster.api.rules.metadata import qualified, shown

_HUGE_PAGES: Final = "hugepages-"
_STANDARD: Final = ("cpu", "memory", "ephemeral-storage")
_OF_PODS: Final = ("cpu", "memory")


def of_container(resources: Object, path: Path) -> list[Finding]:
    """The errors in a container's `resources`."""
    errors = _amounts(resources, path, _container_resource)
    named = {*(resources.get("limits") or {}), *(resources.get("requests") or {})}
    if any(name.startswith(_HUGE_PAGES) for name in named) and named.isdisjoint(_OF_PODS):
        errors.append(
            Finding(path, "Forbidden: a container that requests huge pages must also request cpu or memory")
        )
    return errors


def of_pod(resources: Object, path: Path) -> list[Finding]:
    """The errors in a pod's own `resources`, which hold for all of its containers together."""
    return _amounts(resources, path, _pod_resource)


def overhead(amounts: Object, path: Path) -> list[Finding]:
    return [error for name, amount in amounts.items() for error in _amount(name, amount, (*path, name))[1]]


def _amounts(resources: Object, path: Path, name_wrong: Callable[[str], str]) -> list[Finding]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    errors: list[Finding] = []
    read: dict[str, Fraction | None] = {}
    for name, amount in limits.items():
        read[name], more = _amount(name, amount, (*path, "limits", name), name_wrong)
        errors += more
    for name, amount in requests.items():
        if limits.get(name) == amount:
            continue  # most often it has been taken from there
        at = (*path, "requests", name)
        value, more = _amount(name, amount, at, name_wrong)
        errors += more
        if value is None:
            continue
        limit, equal = read.get(name), not _may_be_overcommitted(name)
        if name not in limits and equal:
            told = f"has no limit; write {name}: {amount} under limits, and no request is needed"
        elif limit is None or limit == value:
            continue
        elif equal:
            told = f"must be equal to {name} limit of {limits[name]}"
        elif value > limit:
            told = f"must be less than or equal to {name} limit of {limits[name]}"
        else:
            continue
        errors.append(Finding(at, f"Invalid value: {amount}: {told}"))
    return errors


def _amount(
    name: str,
    amount: Any,  # Any: from JSON
    path: Path,
    name_wrong: Callable[[str], str] = lambda name: "",
) -> tuple[Fraction | None, list[Finding]]:
    """The amount, if it is readable and valid for this resource, and the errors in it."""
    errors = qualified(name, path)
    if wrong := name_wrong(name):
        return None, [*errors, Finding(path, wrong)]
    try:
        value = quantity.parse(amount)
    except ValueError as error:
        return None, [*errors, Finding(path, f"Invalid value: {error}")]
    if value < 0:
        errors.append(Finding(path, f"Invalid value: {amount}: must be greater than or equal to 0"))
    if "/" in name and value.denominator != 1:
        errors.append(Finding(path, f"Invalid value: {amount}: must be an integer"))
    if name.startswith(_HUGE_PAGES) and (size := _page(name)) and (value % size or not value):
        errors.append(Finding(path, f"Invalid value: {amount}: must be a positive multiple of {name}"))
    return value, errors


def _page(name: str) -> Fraction | None:
    """The size of these huge pages."""
    try:
        return quantity.parse(name.removeprefix(_HUGE_PAGES)) or None
    except ValueError:
        return None


def _container_resource(name: str) -> str:
    """Why a container cannot request this resource; "" if it can."""
    prefix, slash, _ = name.rpartition("/")
    if slash:
        if prefix.startswith("requests."):
            return f"Invalid value: {shown(name)}: write {name.removeprefix('requests.')}"
        return ""
    if name in _STANDARD or name.startswith(_HUGE_PAGES):
        return ""
    return (
        f"Invalid value: {shown(name)}: is neither a standard resource ({', '.join(_STANDARD)}) nor one with "
        "a prefix, such as nvidia.com/gpu"
    )


def _pod_resource(name: str) -> str:
    if name in _OF_PODS or name.startswith(_HUGE_PAGES):
        return ""
    supported = ", ".join((*_OF_PODS, f"{_HUGE_PAGES}…"))
    return f"Unsupported value: {shown(name)}: write it in a container; supported values: {supported}"


def _may_be_overcommitted(name: str) -> bool:
    prefix, slash, _ = name.rpartition("/")
    return "kubernetes.io" in prefix if slash else not name.startswith(_HUGE_PAGES)
