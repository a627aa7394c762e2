"""Reads probes, as Kubernetes has them, but for what Pod Security Standard *restricted* refuses: a host.

The kubelet sends a probe from the node, past every network policy of the pod, so a probe with a host would
reach whatever the node reaches, such as the cloud's metadata. Source: kubernetes/pod-security-admission,
policy/check_hostProbesAndhostLifecycle.go.
"""

from typing import Final

from muster.api.base import Object
from muster.compiler import spelling
from muster.workloads.batch.resources import strings
from muster.workloads.section import Section

PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_ACTIONS: Final = ("exec", "httpGet", "tcpSocket", "grpc")
#: Each with its least value.
_NUMBERS: Final = {
    "initialDelaySeconds": 0,
    "timeoutSeconds": 1,
    "periodSeconds": 1,
    "successThreshold": 1,
    "failureThreshold": 1,
    "terminationGracePeriodSeconds": 1,
}
_HEADER: Final = "-!#$%&'*+.^_`|~"
_HOST: Final = "the kubelet would connect there, past the pod's network policy; leave it out to probe the pod"


def read(section: Section) -> Object:
    """The probe of a section."""
    given = [each for each in _ACTIONS if each in section]
    if len(given) != 1:
        section.error((), f"takes exactly one of {', '.join(_ACTIONS)}")
    made: Object = {each: _READERS[each](section.section(each)) for each in given}
    for name, least in _NUMBERS.items():
        if name in section:
            made[name] = section.integer(name, least, minimum=least)
    section.close()
    return made


def _exec(section: Section) -> Object:
    command = strings(section, "command")
    if not command or not command[0].startswith("/"):
        section.error("command", "is a list that begins with an absolute path")
        command = ["/bin/false"]
    else:
        command[0] = section.spelt(("command", 0), spelling.program, command[0]) or "/bin/false"
    section.close()
    return {"command": command}


def _http(section: Section) -> Object:
    made: Object = {}
    if path := section.text("path"):
        if not (path.startswith("/") and path.isascii() and path.isprintable() and " " not in path):
            section.error("path", f"{path[:80]!r} is not a path such as /healthz")
        made["path"] = path
    made["port"] = _port(section)
    _no_host(section)
    if "scheme" in section:
        made["scheme"] = section.choice("scheme", ("HTTP", "HTTPS"), "HTTP")
    if headers := [_header(each) for each in section.sections("httpHeaders")]:
        made["httpHeaders"] = headers
    section.close()
    return made


def _header(section: Section) -> Object:
    name, value = section.text("name"), section.text("value")
    if not name or not all(each.isascii() and (each.isalnum() or each in _HEADER) for each in name):
        section.error("name", f"{name[:80]!r} is not the name of a header")
    if not value.isprintable():
        section.error("value", "has a character that cannot be seen")
    section.close()
    return {"name": name, "value": value}


def _tcp(section: Section) -> Object:
    made: Object = {"port": _port(section)}
    _no_host(section)
    section.close()
    return made


def _grpc(section: Section) -> Object:
    made: Object = {"port": _port(section)}
    if service := section.spelt("service", spelling.plain):
        made["service"] = service
    section.close()
    return made


def _port(section: Section) -> int:
    """A number: the containers of a batch job give their ports no names."""
    if "port" not in section:
        section.error("port", "is missing")
    return section.integer("port", 1, minimum=1, maximum=65535)


def _no_host(section: Section) -> None:
    if section.text("host"):
        section.error("host", _HOST)


_READERS: Final = {"exec": _exec, "httpGet": _http, "tcpSocket": _tcp, "grpc": _grpc}
