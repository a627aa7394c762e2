"""Rules for one container: its program, its variables, its ports and its probes.

Source: kubernetes, pkg/apis/core/validation/validation.go (validateContainerCommon, validateProbe,
validateHandler, ValidateEnv). Types are right already (`muster.api.rules.types`).
"""

import re
from typing import Any, Final

from muster.api.base import Object
from muster.api.fields import Finding, Path
from muster.api.rules import resources, sources, volumes
from muster.api.rules.metadata import label, shown

_PORT_NAME: Final = re.compile(r"(?=[^-])[a-z0-9-]{1,15}(?<!-)")
_LAST_PORT: Final = 65535
_NUMBERS: Final = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOKS: Final = ("postStart", "preStop")
_HOOK_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "sleep")
_PROBES: Final = ("startupProbe", "livenessProbe", "readinessProbe")
LONGEST: Final = 2**31 - 1  # seconds, and tries


def validate(container: Object, path: Path, volume_names: set[str], grace: int) -> list[Finding]:
    """`grace`: seconds that the pod has to end."""
    errors = label(container["name"], (*path, "name"))
    for field in ("command", "args"):
        for position, word in enumerate(container.get(field) or []):
            errors += sources.plain(word, (*path, field, position))
    errors += sources.plain(container.get("workingDir") or "", (*path, "workingDir"))
    for position, variable in enumerate(container.get("env") or []):
        errors += _variable(variable, (*path, "env", position))
    for position, source in enumerate(container.get("envFrom") or []):
        errors += sources.of_variables(source, (*path, "envFrom", position))
    for position, port in enumerate(container.get("ports") or []):
        errors += _number(port.get("containerPort"), (*path, "ports", position, "containerPort"))
        if port.get("hostPort"):
            errors += _number(port["hostPort"], (*path, "ports", position, "hostPort"))
    errors += volumes.mounts(container.get("volumeMounts") or [], volume_names, (*path, "volumeMounts"))
    for field in _PROBES:
        if (probe := container.get(field)) is not None:
            errors += _probe(probe, (*path, field), once=field != "readinessProbe")
    for hook, handler in (container.get("lifecycle") or {}).items():
        if hook in _HOOKS:
            errors += _hook(handler, (*path, "lifecycle", hook), grace)
    return errors + resources.of_container(container.get("resources") or {}, (*path, "resources"))


def _variable(variable: Object, path: Path) -> list[Finding]:
    name, value, source = variable.get("name"), variable.get("value"), variable.get("valueFrom")
    errors: list[Finding] = []
    if not isinstance(name, str) or not name or "=" in name or "\0" in name:
        errors.append(Finding((*path, "name"), "Invalid value: a name without '=' is required"))
    if isinstance(value, str):
        errors += sources.plain(value, (*path, "value"))
    elif value is not None:
        told = f'Invalid value: must be a string; write "{value}" in quotes'
        errors.append(Finding((*path, "value"), told))
    if value and source:
        told = "Invalid value: may not be specified when `value` is not empty"
        errors.append(Finding((*path, "valueFrom"), told))
    elif source is not None:
        errors += sources.of_variable(source, (*path, "valueFrom"))
    return errors


def _probe(probe: Object, path: Path, *, once: bool) -> list[Finding]:
    """`once`: a single success is enough."""
    errors: list[Finding] = []
    for field in _NUMBERS:
        value = probe.get(field, 0)
        if value < 0:
            told = f"Invalid value: {value}: must be greater than or equal to 0"
            errors.append(Finding((*path, field), told))
        elif value > LONGEST:
            told = f"Invalid value: {value}: must be less than or equal to {LONGEST}"
            errors.append(Finding((*path, field), told))
    if once and probe.get("successThreshold", 0) not in (0, 1):
        told = f"Invalid value: {probe['successThreshold']}: must be 1"
        errors.append(Finding((*path, "successThreshold"), told))
    return errors + _handler(probe, path, _HANDLERS)


def _hook(hook: Object, path: Path, grace: int) -> list[Finding]:
    errors = _handler(hook, path, _HOOK_HANDLERS)
    seconds = (hook.get("sleep") or {}).get("seconds", 0)
    if not 0 <= seconds <= grace:
        told = f"Invalid value: {seconds}: must be between 0 and the grace period, {grace}"
        errors.append(Finding((*path, "sleep"), told))
    return errors


def _handler(handler: Object, path: Path, kinds: tuple[str, ...]) -> list[Finding]:
    errors: list[Finding] = []
    given = [kind for kind in kinds if kind in handler]
    if not given:
        told = f"Required value: must specify a handler type: {', '.join(kinds)}"
        errors.append(Finding(path, told))
    for more in given[1:]:
        errors.append(Finding((*path, more), "Forbidden: may not specify more than 1 handler type"))
    if "exec" in handler:
        command = handler["exec"].get("command") or []
        if not command:
            errors.append(Finding((*path, "exec", "command"), "Required value"))
        for position, word in enumerate(command):
            errors += sources.plain(word, (*path, "exec", "command", position))
    for kind in ("httpGet", "tcpSocket"):
        if kind in handler:
            errors += _port(handler[kind].get("port"), (*path, kind, "port"))
    if "httpGet" in handler:
        errors += _http(handler["httpGet"], (*path, "httpGet"))
    return errors


def _http(request: Object, path: Path) -> list[Finding]:
    errors: list[Finding] = []
    scheme, target = request.get("scheme") or "HTTP", request.get("path") or "/"
    if scheme not in ("HTTP", "HTTPS"):
        errors.append(Finding((*path, "scheme"), sources.unsupported(scheme, ("HTTP", "HTTPS"))))
    if any(letter.isspace() or not letter.isprintable() for letter in target):
        told = f"Invalid value: {shown(target)}: must not contain white space or control characters"
        errors.append(Finding((*path, "path"), told))
    return errors


def _port(port: Any, path: Path) -> list[Finding]:  # Any: a number or a name
    if isinstance(port, int):
        return _number(port, path)
    if isinstance(port, str) and _PORT_NAME.fullmatch(port) and re.search("[a-z]", port) and "--" not in port:
        return []
    told = f"Invalid value: {shown(str(port))}: write a port's number, or its name of at most 15 characters"
    return [Finding(path, told)]


def _number(port: Any, path: Path) -> list[Finding]:  # Any: an integer, or none
    if isinstance(port, int) and 1 <= port <= _LAST_PORT:
        return []
    return [Finding(path, f"Invalid value: {port}: must be between 1 and {_LAST_PORT}, inclusive")]
