"""Rules for a pod's volumes, and for what containers mount of them.

Source: kubernetes, pkg/apis/core/validation/validation.go (ValidateVolumes, validateVolumeSource,
validateProjectionSources, ValidateVolumeMounts). Types are right already (`muster.api.rules.types`).
"""

from collections.abc import Iterable
from typing import Any, Final

from muster.api import quantity
from muster.api.base import Object
from muster.api.fields import Finding, Path
from muster.api.rules import sources
from muster.api.rules.metadata import label, shown

_LAST_MODE: Final = 0o777
_HOST_PATH_TYPES: Final = (
    "",
    "DirectoryOrCreate",
    "Directory",
    "FileOrCreate",
    "File",
    "Socket",
    "CharDevice",
    "BlockDevice",
)
_PROJECTED: Final = ("configMap", "secret", "downwardAPI")


def default(volumes: Iterable[Object]) -> None:
    """A volume without a source is an emptyDir."""
    for volume in volumes:
        if isinstance(volume, dict) and volume.keys() == {"name"}:
            volume["emptyDir"] = {}


def validate(volumes: list[Object], path: Path) -> tuple[set[str], list[Finding]]:
    """The names of the volumes, and the errors in them."""
    names: set[str] = set()
    errors: list[Finding] = []
    for position, volume in enumerate(volumes):
        at, name = (*path, position), str(volume.get("name") or "")
        errors += label(name, (*at, "name"))
        if name in names:
            errors.append(Finding((*at, "name"), f"Duplicate value: {shown(name)}"))
        names.add(name)
        if len(given := sorted(volume.keys() - {"name"})) > 1:
            told = f"Forbidden: may not specify more than 1 volume type; there are {', '.join(given)}"
            errors.append(Finding(at, told))
        errors += _source(volume, at)
    return names, errors


def mounts(mounts: list[Object], volumes: set[str], path: Path) -> list[Finding]:
    """The errors in a container's `volumeMounts`."""
    errors: list[Finding] = []
    targets: set[str] = set()
    for position, mount in enumerate(mounts):
        at, name, target = (*path, position), str(mount.get("name") or ""), mount.get("mountPath")
        if name not in volumes:
            errors.append(Finding((*at, "name"), f"Not found: {shown(name)}"))
        if not target:
            errors.append(Finding((*at, "mountPath"), "Required value"))
        elif target in targets:
            errors.append(Finding((*at, "mountPath"), f"Invalid value: {shown(target)}: must be unique"))
        else:
            targets.add(target)
            errors += sources.plain(target, (*at, "mountPath"))
        for field in ("subPath", "subPathExpr"):
            if mount.get(field):
                errors += _relative(mount[field], (*at, field))
        if mount.get("subPath") and mount.get("subPathExpr"):
            told = "Invalid value: subPathExpr and subPath are mutually exclusive"
            errors.append(Finding((*at, "subPathExpr"), told))
    return errors


def _source(volume: Object, path: Path) -> list[Finding]:
    errors: list[Finding] = []
    for kind in ("configMap", "secret", "downwardAPI", "projected"):
        if (source := volume.get(kind)) is not None:
            errors += _mode(source, "defaultMode", (*path, kind))
    for kind in _PROJECTED:
        if (source := volume.get(kind)) is not None:
            errors += _entries(kind, source, "secretName" if kind == "secret" else "name", (*path, kind))
    if (source := volume.get("hostPath")) is not None:
        errors += _host_path(source, (*path, "hostPath"))
    if (size := (volume.get("emptyDir") or {}).get("sizeLimit")) is not None and quantity.parse(size) < 0:
        told = f"Forbidden: {size}: must be greater than or equal to 0"
        errors.append(Finding((*path, "emptyDir", "sizeLimit"), told))
    for position, source in enumerate((volume.get("projected") or {}).get("sources") or []):
        at = (*path, "projected", "sources", position)
        if not source:
            told = f"Required value: must specify a source, such as {', '.join(_PROJECTED)}"
            errors.append(Finding(at, told))
        elif len(source) > 1:
            errors.append(Finding(at, "Forbidden: may not specify more than 1 volume type"))
        for kind in _PROJECTED:
            if (one := source.get(kind)) is not None:
                errors += _entries(kind, one, "name", (*at, kind))
    return errors


def _entries(kind: str, source: Object, name: str, path: Path) -> list[Finding]:
    """A config map, a secret or fields of the pod, and the files that are made of them."""
    errors: list[Finding] = []
    if kind != "downwardAPI" and not source.get(name):
        errors.append(Finding((*path, name), "Required value"))
    for position, item in enumerate(source.get("items") or []):
        at = (*path, "items", position)
        errors += _relative(item.get("path") or "", (*at, "path")) + _mode(item, "mode", at)
        if kind == "downwardAPI":
            errors += sources.of_file(item, at)
        elif not item.get("key"):
            errors.append(Finding((*at, "key"), "Required value"))
    return errors


def _host_path(source: Object, path: Path) -> list[Finding]:
    target, type_ = source.get("path") or "", source.get("type") or ""
    errors = sources.plain(target, (*path, "path"))
    if not target:
        errors.append(Finding((*path, "path"), "Required value"))
    elif ".." in target.split("/"):
        errors.append(Finding((*path, "path"), f"Invalid value: {shown(target)}: must not contain '..'"))
    if type_ not in _HOST_PATH_TYPES:
        errors.append(Finding((*path, "type"), sources.unsupported(type_, _HOST_PATH_TYPES[1:])))
    return errors


def _mode(source: Object, field: str, path: Path) -> list[Finding]:
    mode: Any = source.get(field)  # Any: from JSON
    if mode is None or 0 <= mode <= _LAST_MODE:
        return []
    told = f"Invalid value: {mode}: must be a number between 0 and 0777 (octal), both inclusive"
    return [Finding((*path, field), told)]


def _relative(text: str, path: Path) -> list[Finding]:
    """A path that stays within its volume."""
    if not text:
        return [Finding(path, "Required value")]
    if text.startswith("/"):
        return [Finding(path, f"Invalid value: {shown(text)}: must be a relative path")]
    if ".." in text.split("/"):
        return [Finding(path, f"Invalid value: {shown(text)}: must not contain '..'")]
    return sources.plain(text, path)
