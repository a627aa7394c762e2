"""Defaults of pods, what a pod must look like, and what of it may change.

Source: kubernetes, pkg/apis/core/v1/defaults.go and pkg/apis/core/validation/validation.go. An image is
not required here: the embedded cluster runs processes in the caller's environment.
"""

from collections.abc import Iterable
from typing import Any, Final

from muster.api.base import Object
from muster.api.fields import FieldError, Path
from muster.api.rules import resources
from muster.api.rules.metadata import label, labels, shown

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
    for container in _containers(spec):
        stated = container.get("resources") or {}
        limits = stated.get("limits")
        if isinstance(limits, dict):
            stated["requests"] = {**limits, **(stated.get("requests") or {})}
    return spec


def validate(obj: Object, old: Object | None) -> list[FieldError]:
    if old is not None:
        return _changes(obj.get("spec") or {}, old.get("spec") or {})
    return validate_spec(obj.get("spec") or {}, ("spec",))


def validate_spec(spec: Object, path: Path) -> list[FieldError]:
    """The rules for the spec of a new pod or of a template."""
    errors: list[FieldError] = []
    if not spec.get("containers"):
        errors.append(FieldError((*path, "containers"), "Required value: a pod has at least one container"))
    if spec.get("restartPolicy", "Always") not in ("Always", "OnFailure", "Never"):
        errors.append(
            FieldError(
                (*path, "restartPolicy"), _supported(spec["restartPolicy"], "Always", "OnFailure", "Never")
            )
        )
    for field, least in (("terminationGracePeriodSeconds", 0), ("activeDeadlineSeconds", 1)):
        value = spec.get(field)
        if value is not None and value < least:
            errors.append(
                FieldError(
                    (*path, field), f"Invalid value: {value}: must be greater than or equal to {least}"
                )
            )
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            errors += label(spec[field], (*path, field))
    errors += labels(spec.get("nodeSelector") or {}, (*path, "nodeSelector"))
    volumes, more = _volumes(spec.get("volumes") or [], (*path, "volumes"))
    errors += more
    seen: set[str] = set()
    for field in ("initContainers", "containers"):
        for position, container in enumerate(spec.get(field) or []):
            at = (*path, field, position)
            errors += _container(container, at, volumes)
            if container["name"] in seen:
                errors.append(FieldError((*at, "name"), f"Duplicate value: {shown(container['name'])}"))
            seen.add(container["name"])
    for position, toleration in enumerate(spec.get("tolerations") or []):
        errors += _toleration(toleration, (*path, "tolerations", position))
    errors += resources.of_pod(spec.get("resources") or {}, (*path, "resources"))
    errors += resources.overhead(spec.get("overhead") or {}, (*path, "overhead"))
    return errors


def _containers(spec: Object) -> Iterable[Object]:
    for field in ("initContainers", "containers"):
        for container in spec.get(field) or []:
            if isinstance(container, dict):
                yield container


def _volumes(volumes: list[Object], path: Path) -> tuple[set[str], list[FieldError]]:
    names: set[str] = set()
    errors: list[FieldError] = []
    for position, volume in enumerate(volumes):
        name = str(volume.get("name") or "")
        errors += label(name, (*path, position, "name"))
        if name in names:
            errors.append(FieldError((*path, position, "name"), f"Duplicate value: {shown(name)}"))
        names.add(name)
    return names, errors


def _container(container: Object, path: Path, volumes: set[str]) -> list[FieldError]:
    errors = label(container["name"], (*path, "name"))
    for position, variable in enumerate(container.get("env") or []):
        name = variable.get("name")
        if not isinstance(name, str) or not name or "=" in name:
            errors.append(
                FieldError((*path, "env", position, "name"), "Invalid value: a name without '=' is required")
            )
        elif not isinstance(variable.get("value", ""), str | None):
            errors.append(
                FieldError(
                    (*path, "env", position, "value"),
                    f'Invalid value: must be a string; write "{variable["value"]}" in quotes',
                )
            )
        if variable.get("value") and variable.get("valueFrom"):
            errors.append(
                FieldError(
                    (*path, "env", position, "valueFrom"),
                    "Invalid value: may not be specified when `value` is not empty",
                )
            )
    for position, mount in enumerate(container.get("volumeMounts") or []):
        at = (*path, "volumeMounts", position)
        name = str(mount.get("name") or "")
        if name not in volumes:
            errors.append(FieldError((*at, "name"), f"Not found: {shown(name)}"))
        if not mount.get("mountPath"):
            errors.append(FieldError((*at, "mountPath"), "Required value"))
    return errors + resources.of_container(container.get("resources") or {}, (*path, "resources"))


def _toleration(toleration: Object, path: Path) -> list[FieldError]:
    operator = toleration.get("operator") or "Equal"
    if operator not in ("Equal", "Exists"):
        return [FieldError((*path, "operator"), _supported(operator, "Equal", "Exists"))]
    if operator == "Exists" and toleration.get("value"):
        return [FieldError((*path, "value"), "Invalid value: must be empty when `operator` is 'Exists'")]
    if not toleration.get("key") and operator != "Exists":
        return [FieldError((*path, "operator"), "Invalid value: must be Exists when `key` is empty")]
    if (toleration.get("effect") or "") not in _TIMES:
        return [FieldError((*path, "effect"), _supported(toleration["effect"], *_TIMES[:3]))]
    return []


def _supported(value: Any, *values: str) -> str:  # Any: from JSON
    return f"Unsupported value: {shown(str(value))}: supported values: " + ", ".join(f'"{v}"' for v in values)


def _changes(new: Object, old: Object) -> list[FieldError]:
    """What an update may do to a pod's spec."""
    if new == old:
        return []
    errors: list[FieldError] = []
    before, after = old.get("activeDeadlineSeconds"), new.get("activeDeadlineSeconds")
    if before is not None and (after is None or after > before):
        errors.append(
            FieldError(
                ("spec", "activeDeadlineSeconds"), f"Invalid value: must be less than or equal to {before}"
            )
        )
    elif after is not None and after < 1:
        errors.append(FieldError(("spec", "activeDeadlineSeconds"), "Invalid value: must be at least 1"))
    if any(toleration not in (new.get("tolerations") or []) for toleration in old.get("tolerations") or []):
        errors.append(
            FieldError(
                ("spec", "tolerations"), "Forbidden: existing tolerations cannot be modified or removed"
            )
        )
    if any(gate not in (old.get("schedulingGates") or []) for gate in new.get("schedulingGates") or []):
        errors.append(
            FieldError(("spec", "schedulingGates"), "Forbidden: only removal is allowed, not addition")
        )
    if _fixed(new) != _fixed(old):
        errors.append(FieldError(("spec",), f"Forbidden: {_MAY_CHANGE}"))
    return errors


def _fixed(spec: Object) -> Object:
    """The spec without what may change."""
    fixed = {
        key: value
        for key, value in spec.items()
        if key not in ("activeDeadlineSeconds", "tolerations", "schedulingGates")
    }
    for field in ("containers", "initContainers"):
        if field in fixed:
            fixed[field] = [
                {key: value for key, value in container.items() if key != "image"}
                for container in fixed[field] or []
            ]
    return fixed
