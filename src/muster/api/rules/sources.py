"""Rules for where variables and files take their values from: fields of the pod, config maps, secrets.

Source: kubernetes, pkg/apis/core/validation/validation.go (validateEnvVarValueFrom, ValidateEnvFrom,
validateObjectFieldSelector, validateContainerResourceFieldSelector, validateContainerResourceDivisor).
"""

import re
from collections.abc import Sequence
from typing import Final

from muster.api import quantity
from muster.api.base import Object
from muster.api.fields import Finding, Path
from muster.api.rules.metadata import shown

_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['[^']+'\]")
_OF_ENV: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_OF_FILES: Final = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
_RESOURCES: Final = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "memory", "ephemeral-storage")
)
_BYTES: Final = ("1", *(f"1{unit}{i}" for i in ("", "i") for unit in ("k" if not i else "K", *"MGTPE")))
_DIVISORS: Final = {"cpu": ("1m", "1"), "": _BYTES}
_VALUES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_MAPS: Final = ("configMapRef", "secretRef")


def of_variable(source: Object, path: Path) -> list[Finding]:
    """The errors in `valueFrom` of a variable."""
    errors = _one(source, _VALUES, path)
    if (field := source.get("fieldRef")) is not None:
        errors += _field(field, _OF_ENV, (*path, "fieldRef"))
    if (resource := source.get("resourceFieldRef")) is not None:
        errors += _resource(resource, (*path, "resourceFieldRef"))
    for kind in ("configMapKeyRef", "secretKeyRef"):
        if (reference := source.get(kind)) is not None and not reference.get("key"):
            errors.append(Finding((*path, kind, "key"), "Required value"))
    return errors


def of_variables(source: Object, path: Path) -> list[Finding]:
    """The errors in an entry of `envFrom`."""
    errors = _one(source, _MAPS, path)
    for kind in _MAPS:
        if (reference := source.get(kind)) is not None and not reference.get("name"):
            errors.append(Finding((*path, kind, "name"), "Required value"))
    prefix = source.get("prefix") or ""
    if "=" in prefix or "\0" in prefix:
        errors.append(Finding((*path, "prefix"), f"Invalid value: {shown(prefix)}: must not contain '='"))
    return errors


def of_file(item: Object, path: Path) -> list[Finding]:
    """The errors in a file of a downwardAPI volume."""
    errors = _one(item, ("fieldRef", "resourceFieldRef"), path)
    if (field := item.get("fieldRef")) is not None:
        errors += _field(field, _OF_FILES, (*path, "fieldRef"))
    if (resource := item.get("resourceFieldRef")) is not None:
        errors += _resource(resource, (*path, "resourceFieldRef"))
        if not resource.get("containerName"):
            errors.append(Finding((*path, "resourceFieldRef", "containerName"), "Required value"))
    return errors


def plain(text: str, path: Path) -> list[Finding]:
    """Programs, variables and paths end at a NUL, so that none can have one."""
    if "\0" not in text:
        return []
    return [
        Finding(path, f"Invalid value: {shown(text)}: must not contain NUL characters".replace("\0", "␀"))
    ]


def unsupported(value: object, supported: Sequence[str]) -> str:
    return f"Unsupported value: {shown(str(value))}: supported values: " + ", ".join(
        f'"{each}"' for each in supported
    )


def _one(source: Object, kinds: Sequence[str], path: Path) -> list[Finding]:
    given = [kind for kind in kinds if kind in source]
    if len(given) == 1:
        return []
    if given:
        told = f"Invalid value: may not have more than one field specified at a time: {', '.join(given)}"
    else:
        told = f"Invalid value: must specify one of: {', '.join(kinds)}"
    return [Finding(path, told)]


def _field(reference: Object, supported: Sequence[str], path: Path) -> list[Finding]:
    field = reference.get("fieldPath") or ""
    if not field:
        return [Finding((*path, "fieldPath"), "Required value")]
    if field in supported or _SUBSCRIPT.fullmatch(field):
        return []
    return [Finding((*path, "fieldPath"), unsupported(field, supported))]


def _resource(reference: Object, path: Path) -> list[Finding]:
    resource, divisor = reference.get("resource") or "", reference.get("divisor")
    if not resource:
        return [Finding((*path, "resource"), "Required value")]
    kind, _, name = resource.partition(".")
    if resource not in _RESOURCES and not (kind in ("limits", "requests") and name.startswith("hugepages-")):
        return [Finding((*path, "resource"), unsupported(resource, _RESOURCES))]
    supported = _DIVISORS.get(name, _BYTES)
    if divisor is None or quantity.parse(divisor) in (0, *map(quantity.parse, supported)):
        return []
    told = f"Invalid value: {divisor}: only divisor's values {', '.join(supported)} are supported with {name}"
    return [Finding((*path, "divisor"), told)]
