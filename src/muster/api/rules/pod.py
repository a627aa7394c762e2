"""Defaults of pods, what a pod must look like, and what of it may change.

Source: kubernetes, pkg/apis/core/v1/defaults.go and pkg/apis/core/validation/validation.go. An image is
not required here: the embedded cluster runs processes in the caller's environment.
"""

import ipaddress
from collections.abc import Iterable
from typing import Final

from muster.api.base import Object
from muster.api.fields import Finding, Path
from muster.api.rules import claims, container, resources, volumes
from muster.api.rules.metadata import label, labels, shown, subdomain
from muster.api.rules.sources import unsupported

GRACE_PERIOD: Final = 30  # seconds
_TIMES: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute", "")
_MAY_CHANGE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`, "
    "`spec.initContainers[*].image`, `spec.activeDeadlineSeconds` (only lower), `spec.tolerations` "
    "(only additions) and `spec.schedulingGates` (only removals)"
)


def default(obj: Object) -> Object:
    obj["spec"] = default_spec(obj.get("spec") or {})
    return obj


def default_spec(spec: Object) -> Object:
    """The spec of a pod or of a template, completed in place."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("terminationGracePeriodSeconds", GRACE_PERIOD)
    volumes.default(spec.get("volumes") or [])
    for each in _containers(spec):
        stated = each.get("resources") or {}
        limits = stated.get("limits")
        if isinstance(limits, dict):
            stated["requests"] = {**limits, **(stated.get("requests") or {})}
    return spec


def validate(obj: Object, old: Object | None) -> list[Finding]:
    if old is not None:
        return _changes(obj.get("spec") or {}, old.get("spec") or {})
    return validate_spec(obj.get("spec") or {}, ("spec",))


def validate_spec(spec: Object, path: Path) -> list[Finding]:
    """The rules for the spec of a new pod or of a template."""
    errors: list[Finding] = []
    if not spec.get("containers"):
        errors.append(Finding((*path, "containers"), "Required value: a pod has at least one container"))
    if spec.get("restartPolicy", "Always") not in ("Always", "OnFailure", "Never"):
        errors.append(
            Finding(
                (*path, "restartPolicy"), unsupported(spec["restartPolicy"], ("Always", "OnFailure", "Never"))
            )
        )
    for field, least in (("terminationGracePeriodSeconds", 0), ("activeDeadlineSeconds", 1)):
        value = spec.get(field)
        if value is not None and not least <= value <= container.LONGEST:
            told = f"Invalid value: {value}: must be between {least} and {container.LONGEST}, inclusive"
            errors.append(Finding((*path, field), told))
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            errors += label(spec[field], (*path, field))
    for position, alias in enumerate(spec.get("hostAliases") or []):
        errors += _alias(alias, (*path, "hostAliases", position))
    errors += labels(spec.get("nodeSelector") or {}, (*path, "nodeSelector"))
    names, more = volumes.validate(spec.get("volumes") or [], (*path, "volumes"))
    errors += more
    seen: set[str] = set()
    for field in ("initContainers", "containers"):
        for position, each in enumerate(spec.get(field) or []):
            at = (*path, field, position)
            errors += container.validate(
                each, at, names, spec.get("terminationGracePeriodSeconds", GRACE_PERIOD)
            )
            if each["name"] in seen:
                errors.append(Finding((*at, "name"), f"Duplicate value: {shown(each['name'])}"))
            seen.add(each["name"])
    for position, toleration in enumerate(spec.get("tolerations") or []):
        errors += _toleration(toleration, (*path, "tolerations", position))
    errors += claims.validate_pod(spec, path)
    errors += resources.of_pod(spec.get("resources") or {}, (*path, "resources"))
    errors += resources.overhead(spec.get("overhead") or {}, (*path, "overhead"))
    return errors


def _alias(alias: Object, path: Path) -> list[Finding]:
    errors: list[Finding] = []
    address = alias.get("ip") or ""
    try:
        ipaddress.ip_address(address)
    except ValueError:
        told = (
            f"Invalid value: {shown(address)}: must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        )
        errors.append(Finding((*path, "ip"), told))
    for position, name in enumerate(alias.get("hostnames") or []):
        errors += subdomain(name, (*path, "hostnames", position))
    return errors


def _containers(spec: Object) -> Iterable[Object]:
    for field in ("initContainers", "containers"):
        for each in spec.get(field) or []:
            if isinstance(each, dict):
                yield each


def _toleration(toleration: Object, path: Path) -> list[Finding]:
    operator = toleration.get("operator") or "Equal"
    if operator not in ("Equal", "Exists"):
        return [Finding((*path, "operator"), unsupported(operator, ("Equal", "Exists")))]
    if operator == "Exists" and toleration.get("value"):
        return [Finding((*path, "value"), "Invalid value: must be empty when `operator` is 'Exists'")]
    if not toleration.get("key") and operator != "Exists":
        return [Finding((*path, "operator"), "Invalid value: must be Exists when `key` is empty")]
    if (toleration.get("effect") or "") not in _TIMES:
        return [Finding((*path, "effect"), unsupported(toleration["effect"], _TIMES[:3]))]
    return []


def _changes(new: Object, old: Object) -> list[Finding]:
    """The errors of an update that changes more of a pod's spec than it may."""
    if new == old:
        return []
    errors: list[Finding] = []
    before, after = old.get("activeDeadlineSeconds"), new.get("activeDeadlineSeconds")
    if before is not None and (after is None or after > before):
        errors.append(
            Finding(
                ("spec", "activeDeadlineSeconds"), f"Invalid value: must be less than or equal to {before}"
            )
        )
    elif after is not None and after < 1:
        errors.append(Finding(("spec", "activeDeadlineSeconds"), "Invalid value: must be at least 1"))
    if any(toleration not in (new.get("tolerations") or []) for toleration in old.get("tolerations") or []):
        errors.append(
            Finding(("spec", "tolerations"), "Forbidden: existing tolerations cannot be modified or removed")
        )
    if any(gate not in (old.get("schedulingGates") or []) for gate in new.get("schedulingGates") or []):
        errors.append(
            Finding(("spec", "schedulingGates"), "Forbidden: only removal is allowed, not addition")
        )
    if _fixed(new) != _fixed(old):
        errors.append(Finding(("spec",), f"Forbidden: {_MAY_CHANGE}"))
    return errors


def _fixed(spec: Object) -> Object:
    """The spec without the fields that may change."""
    fixed = {
        key: value
        for key, value in spec.items()
        if key not in ("activeDeadlineSeconds", "tolerations", "schedulingGates")
    }
    for field in ("containers", "initContainers"):
        if field in fixed:
            fixed[field] = [
                {key: value for key, value in each.items() if key != "image"} for each in fixed[field] or []
            ]
    return fixed
