"""The environment and the command line of a container, as Kubernetes builds them.

`envFrom` first, then `env` in order, each entry able to use those before it as `$(NAME)`; `$$` stands
for one `$`, and a reference to an unknown name stays as it is. Source: kubernetes
third_party/forked/golang/expansion/expand.go and pkg/kubelet/kubelet_pods.go.
"""

import json
import math
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from muster import names
from muster.api import quantity
from muster.api.base import Object
from muster.api.core_v1 import ConfigMap, Container, Pod, Secret
from muster.api.resource_v1 import ResourceClaim, ResourceSlice

_INHERITED: Final = ("PATH", "HOME", "LANG")
_DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Unavailable(Exception):
    """An object that the container refers to does not exist (yet); the message names it."""


class Caller(msgspec.Struct, frozen=True):
    """The shell that submitted the pod: annotation `muster.dev/caller`."""

    cwd: str = "/"
    path: str = msgspec.field(name="PATH", default=_DEFAULT_PATH)
    home: str = msgspec.field(name="HOME", default="/")
    lang: str = msgspec.field(name="LANG", default="C.UTF-8")


def caller_of(pod: Pod) -> Caller:
    """The caller from the pod's annotation. Raises Unavailable if the annotation is invalid."""
    text = pod.metadata.annotations.get(names.CALLER)
    if text is None:
        return Caller()
    try:
        return msgspec.json.decode(text, type=Caller)
    except msgspec.DecodeError as error:
        raise Unavailable(
            f'annotation {names.CALLER} must be JSON such as {{"cwd": "/home/me", "PATH": …}}: {error}'
        ) from None


class Lookup(msgspec.Struct, frozen=True):
    """Lookup functions for a pod's references. They return None for an object that does not exist."""

    config_map: Callable[[str], ConfigMap | None]
    secret: Callable[[str], Secret | None]
    node_allocatable: Mapping[str, Any] = {}  # Any: quantities as the node states them
    claim: Callable[[str], ResourceClaim | None] = lambda name: None
    slices: Callable[[], Iterable[ResourceSlice]] = tuple
    node_labels: Mapping[str, str] = {}


NOTHING: Final = Lookup(lambda name: None, lambda name: None)


def environment(pod: Pod, container: Container, caller: Caller, lookup: Lookup) -> dict[str, str]:
    """All variables of a container, without those of the isolation. Raises Unavailable."""
    # Python's output is shown as it is printed, not when a buffer is full
    result = {"PATH": caller.path, "HOME": caller.home, "LANG": caller.lang, "PYTHONUNBUFFERED": "1"}
    result["HOSTNAME"] = kernel_hostname_of(pod)
    for source in container.env_from:
        result.update(_all_of(source, lookup))
    for entry in container.env:
        if "valueFrom" in entry:
            value = _value_from(entry["name"], entry["valueFrom"], pod, container, lookup)
            if value is None:
                continue
        else:
            value = expand(str(entry.get("value", "")), result)
        result[entry["name"]] = value
    return result


def hostname_of(pod: Pod) -> str:
    """The pod's host name, cut to 63 characters, the limit of the kernel and of DNS."""
    return (pod.spec.hostname or pod.metadata.name)[:63].rstrip("-.")


def kernel_hostname_of(pod: Pod) -> str:
    """What `hostname` prints in the pod: its host name or, with `setHostnameAsFQDN`, its full name."""
    host, sub = hostname_of(pod), pod.spec.subdomain
    if not pod.spec.set_hostname_as_fqdn or not sub:
        return host
    return f"{host}.{sub}.{pod.metadata.namespace}.svc.cluster.local"


def command_line(container: Container, env: Mapping[str, str]) -> list[str]:
    """The command with its arguments, expanded."""
    return [expand(word, env) for word in (*container.command, *container.args)]


_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, env: Mapping[str, str]) -> str:
    """`$(NAME)` replaced by its value, `$$` by `$`."""

    def one(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else env.get(name, match[0])

    return _REFERENCE.sub(one, text)


def _all_of(source: Object, lookup: Lookup) -> dict[str, str]:
    prefix = source.get("prefix", "")
    found = _entries(source, lookup, ("configMapRef", "secretRef"))
    return {prefix + key: value.decode(errors="surrogateescape") for key, value in (found or {}).items()}


def _value_from(name: str, source: Object, pod: Pod, container: Container, lookup: Lookup) -> str | None:
    if "fieldRef" in source:
        return field(pod, source["fieldRef"].get("fieldPath", ""))
    if "resourceFieldRef" in source:
        return resource(pod, container, source["resourceFieldRef"], lookup.node_allocatable)
    found = _entries(source, lookup, ("configMapKeyRef", "secretKeyRef"))
    reference = source.get("configMapKeyRef") or source.get("secretKeyRef") or {}
    key = reference.get("key", "")
    if found is not None and key in found:
        return found[key].decode(errors="surrogateescape")
    if reference.get("optional"):
        return None
    raise Unavailable(f"env {name}: {reference.get('name')!r} has no key {key!r}")


def _entries(source: Object, lookup: Lookup, keys: Sequence[str]) -> dict[str, bytes] | None:
    """All entries of the config map or secret that `source` names; None if it is absent and may be."""
    for key, of_kind in zip(keys, (config_map_entries, secret_entries), strict=True):
        if key in source:
            reference = source[key]
            found = of_kind(lookup, reference.get("name", ""))
            if found is None and not reference.get("optional"):
                kind = "configmap" if of_kind is config_map_entries else "secret"
                raise Unavailable(f"{kind} {reference.get('name')!r} not found")
            return found
    raise Unavailable(f"environment source {json.dumps(source)} is none of {', '.join(keys)}")


def config_map_entries(lookup: Lookup, name: str) -> dict[str, bytes] | None:
    found = lookup.config_map(name)
    if found is None:
        return None
    texts = {key: value.encode() for key, value in found.data.items()}
    return texts | {key: b64decode(value) for key, value in found.binary_data.items()}


def secret_entries(lookup: Lookup, name: str) -> dict[str, bytes] | None:
    found = lookup.secret(name)
    return None if found is None else {key: b64decode(value) for key, value in found.data.items()}


_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


def field(pod: Pod, path: str) -> str:
    """The value of a fieldRef. Raises Unavailable for a path that is not supported."""
    meta = pod.metadata
    simple = {
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace,
        "metadata.uid": meta.uid,
        "spec.nodeName": pod.spec.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name or "default",
        "status.podIP": pod.status.pod_ip,
        "status.podIPs": pod.status.pod_ip,
        "status.hostIP": pod.status.host_ip or "127.0.0.1",
        "status.hostIPs": pod.status.host_ip or "127.0.0.1",
    }
    if path in simple:
        return simple[path]
    if match := _SUBSCRIPT.fullmatch(path):
        return (meta.labels if match[1] == "labels" else meta.annotations).get(match[2], "")
    if path in ("metadata.labels", "metadata.annotations"):
        values = meta.labels if path.endswith("labels") else meta.annotations
        return "\n".join(f"{key}={json.dumps(value)}" for key, value in sorted(values.items()))
    raise Unavailable(
        f"fieldRef {path!r} is not offered; choose from {', '.join(simple)}, metadata.labels['KEY'], "
        "metadata.annotations['KEY']"
    )


def resource(pod: Pod, container: Container, reference: Object, allocatable: Mapping[str, Any]) -> str:
    """The value of a resourceFieldRef, rounded up to its divisor."""
    named = reference.get("containerName")
    if named:
        found = [c for c in (*pod.spec.containers, *pod.spec.init_containers) if c.name == named]
        if not found:
            raise Unavailable(f"resourceFieldRef: the pod has no container {named!r}")
        container = found[0]
    kind, _, what = str(reference.get("resource", "")).partition(".")
    amounts = {"limits": container.resources.limits, "requests": container.resources.requests}.get(kind)
    if amounts is None:
        raise Unavailable(
            f"resourceFieldRef {reference.get('resource')!r}: write limits.cpu, requests.memory …"
        )
    amount = amounts.get(what, allocatable.get(what, 0) if kind == "limits" else 0)
    divisor = quantity.parse(reference.get("divisor") or 1) or 1
    return str(math.ceil(quantity.parse(amount) / divisor))
