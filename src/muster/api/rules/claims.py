"""Claims of devices, their templates, and the status in which a claim is allocated: defaults and validation.

Source: as in `device_parts`; pkg/apis/resource/v1/zz_generated.defaults.go.
"""

from collections.abc import Hashable, Iterable
from typing import Final

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
    check_toleration,
    driver_name,
    pool_name,
    unsupported,
)
from muster.api.rules.metadata import label, labels, qualified, shown, subdomain

MOST_REQUESTS: Final = 32
MOST_ALTERNATIVES: Final = 8
MOST_RESULTS: Final = 32
MOST_RESERVED: Final = 256
_MOST_CONSTRAINTS: Final = 32
_MODES: Final = ("ExactCount", "All")
_SOURCES: Final = ("FromClass", "FromClaim")
_SOURCES_OF_POD: Final = ("resourceClaimName", "resourceClaimTemplateName")
_UNKNOWN: Final = "write the name of one of the pod's resourceClaims"


def default_claim(obj: Object) -> Object:
    for request in at(obj, "spec", "devices").get("requests") or []:
        for asked in filter(None, (request.get("exactly"), *(request.get("firstAvailable") or []))):
            if not asked.get("allocationMode"):
                asked["allocationMode"] = "ExactCount"
            if asked["allocationMode"] == "ExactCount" and not asked.get("count"):
                asked["count"] = 1
            for toleration in asked.get("tolerations") or []:
                toleration["operator"] = toleration.get("operator") or "Equal"
    return obj


def default_template(obj: Object) -> Object:
    default_claim(at(obj, "spec"))
    return obj


def validate_claim(obj: Object, old: Object | None) -> list[Finding]:
    if old is not None:
        return check_frozen(obj, old, ("spec",))
    return _devices(at(obj, "spec", "devices"), ("spec", "devices"))


def validate_template(obj: Object, old: Object | None) -> list[Finding]:
    if old is not None:
        return check_frozen(obj, old, ("spec",))
    meta = at(obj, "spec", "metadata")
    errors = labels(meta.get("labels") or {}, ("spec", "metadata", "labels"))
    for key in meta.get("annotations") or {}:
        errors += qualified(key.lower(), ("spec", "metadata", "annotations"))
    return errors + _devices(at(obj, "spec", "spec", "devices"), ("spec", "spec", "devices"))


def validate_pod(spec: Object, path: Path) -> list[Finding]:
    """Checks which claims a pod has, and which of them its containers use."""
    errors = check_list(spec, path, "resourceClaims", None, _of_pod, by("name"))
    known = {claim.get("name") for claim in spec.get("resourceClaims") or []}

    def check(use: Object, where: Path) -> Iterable[Finding]:
        if use.get("name") not in known:
            yield Finding((*where, "name"), f"Not found: {shown(use.get('name', ''))}: {_UNKNOWN}")
        if use.get("request"):
            yield from label(use["request"], (*where, "request"))

    for field in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(field) or []):
            stated, where = container.get("resources") or {}, (*path, field, number, "resources")
            errors += check_list(stated, where, "claims", None, check, _use)
            uses = stated.get("claims") or []
            whole = {use.get("name") for use in uses if not use.get("request")}
            if any(use.get("request") and use.get("name") in whole for use in uses):
                told = "Invalid value: a claim that is used as a whole, and one of its requests"
                errors.append(Finding((*where, "claims"), told))
    return errors


def _use(use: Object) -> Hashable:
    return use.get("name"), use.get("request") or ""


def _of_pod(claim: Object, path: Path) -> Iterable[Finding]:
    yield from label(claim.get("name", ""), (*path, "name"))
    given = [field for field in _SOURCES_OF_POD if claim.get(field) is not None]
    if len(given) != 1:
        told = " or ".join(f"`{field}`" for field in _SOURCES_OF_POD)
        yield Finding(path, f"Invalid value: must specify one of {told}")
    for field in given:
        yield from subdomain(claim[field], (*path, field))


def update_status(obj: Object, old: Object) -> list[Finding]:
    """Checks the status of a claim. An allocation does not change; only what is allocated can be reserved.

    What drivers report of devices that the claim no longer has is removed.
    """
    _keep_devices(obj, old)
    status, before, path = obj.get("status") or {}, old.get("status") or {}, ("status",)
    allocation, reserved = status.get("allocation"), status.get("reservedFor") or []
    errors = check_list(status, path, "reservedFor", MOST_RESERVED, _consumer, by("uid"))
    if reserved and allocation is None:
        told = "Forbidden: may not be specified when `allocated` is not set"
        errors.append(Finding((*path, "reservedFor"), told))
    elif obj["metadata"].get("deletionTimestamp") and any(
        each not in (before.get("reservedFor") or []) for each in reserved
    ):
        told = "Forbidden: new entries may not be added while `deletionTimestamp` is set"
        errors.append(Finding((*path, "reservedFor"), told))
    errors += check_list(
        status, path, "devices", None, lambda one, where: _reported(one, where, obj), _identity
    )
    if allocation is None:
        return errors
    if before.get("allocation") is not None:
        return errors + check_frozen(obj, old, (*path, "allocation"))
    names = _names(at(obj, "spec", "devices"))
    inner, at_devices = at(allocation, "devices"), (*path, "allocation", "devices")
    errors += check_list(
        inner, at_devices, "results", MOST_RESULTS, lambda one, where: _result(one, where, names)
    )
    return errors + check_list(
        inner, at_devices, "config", 2 * MOST_CONFIGS, lambda one, where: _config_for(one, where, names)
    )


def _keep_devices(obj: Object, old: Object) -> None:
    """Removes what drivers report of devices that the claim had, and no longer has."""
    status, gone = obj.get("status") or {}, _held(old) - _held(obj)
    if gone and status.get("devices"):
        status["devices"] = [each for each in status["devices"] if _identity(each) not in gone]
        if not status["devices"]:
            del status["devices"]


def _reported(device: Object, path: Path, claim: Object) -> Iterable[Finding]:
    if _identity(device) not in _held(claim):
        yield Finding(path, "Invalid value: must be an allocated device in the claim")


def _held(claim: Object) -> set[Hashable]:
    """The devices that are allocated for a claim."""
    results = at(claim, "status", "allocation", "devices").get("results") or []
    return {_identity(each) for each in results}


def _identity(device: Object) -> Hashable:
    return tuple(device.get(key) for key in ("driver", "pool", "device", "shareID"))


def _devices(claim: Object, path: Path) -> list[Finding]:
    names = _names(claim)
    errors = check_list(claim, path, "requests", MOST_REQUESTS, _request, by("name"))
    errors += check_list(
        claim, path, "constraints", _MOST_CONSTRAINTS, lambda one, where: _constraint(one, where, names)
    )
    return errors + check_list(
        claim, path, "config", MOST_CONFIGS, lambda one, where: _config_for(one, where, names)
    )


def _names(claim: Object) -> set[str]:
    """How constraints, configurations and results may name a request: `request` or `request/alternative`."""
    found = set()
    for request in claim.get("requests") or []:
        found.add(request["name"])
        found |= {f"{request['name']}/{each['name']}" for each in request.get("firstAvailable") or []}
    return found


def _request(request: Object, path: Path) -> Iterable[Finding]:
    yield from label(request["name"], (*path, "name"))
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or []
    if (exactly is None) is (not alternatives):
        what = "Required value" if exactly is None else "Invalid value"
        yield Finding(path, f"{what}: exactly one of `exactly` or `firstAvailable` is required")
    elif exactly is not None:
        yield from _asked(exactly, (*path, "exactly"))
    else:
        yield from check_list(request, path, "firstAvailable", MOST_ALTERNATIVES, _alternative, by("name"))


def _alternative(alternative: Object, path: Path) -> Iterable[Finding]:
    yield from label(alternative["name"], (*path, "name"))
    yield from _asked(alternative, path)


def _asked(asked: Object, path: Path) -> Iterable[Finding]:
    if not asked["deviceClassName"]:
        yield Finding((*path, "deviceClassName"), "Required value")
    else:
        yield from subdomain(asked["deviceClassName"], (*path, "deviceClassName"))
    yield from check_list(asked, path, "selectors", MOST_SELECTORS, check_selector)
    mode, count = asked["allocationMode"], asked.get("count") or 0
    if mode not in _MODES:
        yield unsupported((*path, "allocationMode"), mode, _MODES)
    elif mode == "All" and count:
        told = f"Invalid value: {count}: must not be specified when allocationMode is 'All'"
        yield Finding((*path, "count"), told)
    elif mode == "ExactCount" and count <= 0:
        yield Finding((*path, "count"), f"Invalid value: {count}: must be greater than zero")
    yield from check_list(asked, path, "tolerations", None, check_toleration)


def _constraint(constraint: Object, path: Path, names: set[str]) -> Iterable[Finding]:
    yield from _references(constraint, path, names)
    given = [field for field in ("matchAttribute", "distinctAttribute") if constraint.get(field) is not None]
    if len(given) != 1:
        what = "Invalid value" if given else "Required value"
        yield Finding(path, f"{what}: exactly one of `matchAttribute` or `distinctAttribute` is required")
    for field in given:
        name = constraint[field]
        yield from attribute_name(name, (*path, field))
        if "/" not in name:
            told = f"Invalid value: {shown(name)}: write a domain and a name: example.com/model"
            yield Finding((*path, field), told)


def _references(part: Object, path: Path, names: set[str]) -> list[Finding]:
    """Checks which requests a constraint or configuration is for."""

    def check(name: str, where: Path) -> Iterable[Finding]:
        if name not in names:
            yield Finding(where, f"Invalid value: {shown(name)}: the claim has no such request")

    return check_list(part, path, "requests", MOST_REQUESTS, check, lambda name: name)


def _config_for(config: Object, path: Path, names: set[str]) -> Iterable[Finding]:
    yield from _references(config, path, names)
    yield from check_config(config, path)
    if config.get("source", _SOURCES[0]) not in _SOURCES:
        yield unsupported((*path, "source"), config["source"], _SOURCES)


def _consumer(consumer: Object, path: Path) -> Iterable[Finding]:
    for field in ("resource", "name", "uid"):
        if not consumer.get(field):
            yield Finding((*path, field), "Required value")


def _result(result: Object, path: Path, names: set[str]) -> Iterable[Finding]:
    if (request := result.get("request", "")) not in names:
        told = f"Invalid value: {shown(request)}: the claim has no such request"
        yield Finding((*path, "request"), told)
    yield from driver_name(result.get("driver", ""), (*path, "driver"))
    yield from pool_name(result.get("pool", ""), (*path, "pool"))
    yield from label(result.get("device", ""), (*path, "device"))
    yield from check_list(result, path, "tolerations", None, check_toleration)
