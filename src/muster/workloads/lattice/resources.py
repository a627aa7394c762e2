"""Reads the typed resources of a workload: services, external services, secrets, volumes, GPUs."""

import re
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from muster.compiler.workload import (
    Custom,
    Direction,
    Endpoint,
    External,
    Gpu,
    Protocol,
    Resource,
    Secret,
    Service,
    Volume,
)
from muster.workloads import dns
from muster.workloads.findings import nearest
from muster.workloads.section import Section

_PORTS: Final = {"http": 80, "https": 443, "grpc": 443, "tcp": 0, "udp": 0}
_HOST: Final = re.compile(
    r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*"
)
_STORE_PATH: Final = re.compile(r"[A-Za-z0-9._/-]{1,253}")
_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")
#: What Cilium calls entities. Source: cilium/cilium, pkg/policy/api/entity.go.
_ENTITIES: Final = (
    *("all", "world", "world-ipv4", "world-ipv6", "cluster", "host", "remote-node", "kube-apiserver"),
    *("ingress", "init", "health", "unmanaged", "none"),
)
_DIRECTIONS: Final[dict[str, Direction]] = {"outbound": "outbound", "inbound": "inbound", "both": "both"}
_ACCESS: Final = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")


def read(section: Section, namespace: str) -> Resource | None:
    """The resource of a section. Errors are reported by the section; None if its kind is not known."""
    name = str(section.path[-1])
    if not dns.is_name(name) or "." in name or len(name) > dns.LABEL:
        section.error((), "a resource's name has lowercase letters, digits and hyphens")
        return None
    kind = section.text("type")
    if not kind:
        section.error("type", "is missing; such as secret, external-service, service, volume, gpu")
        return None
    direction = _DIRECTIONS.get(section.choice("direction", tuple(_DIRECTIONS), "outbound"), "outbound")
    id_ = section.text("id")
    at = section.text("namespace", namespace)
    class_ = section.text("class")
    section.raw("metadata")
    params = section.section("params")
    what: Secret | External | Service | Volume | Gpu | Custom
    match kind:
        case "secret":
            what = _secret(section, params, id_)
        case "external-service":
            what = _external(section, params, id_)
        case "service":
            what = Service(at, id_ or name, params.integer("port", 0, maximum=65535))
        case "volume":
            what = _volume(params, id_, at)
        case "gpu":
            what = _gpu(params, class_)
        case _:
            what = Custom(kind, {key: params.raw(key) for key in params.names()})
    params.close()
    section.close()
    return Resource(name, section.path, what, direction)


def _secret(section: Section, params: Section, id_: str) -> Secret:
    if id_ and not _STORE_PATH.fullmatch(id_):
        section.error("id", "is the path in the store: letters, digits and . _ / -")
    keys = strings(params, "keys")
    for index, key in enumerate(keys):
        if not _KEY.fullmatch(key):
            params.error(("keys", index), f"{key!r} is not a key of a Secret: letters, digits and . _ -")
    return Secret(
        params.text("provider"),
        id_,
        tuple(keys),
        params.text("refreshInterval", "1h"),
        params.text("secretType"),
    )


def _external(section: Section, params: Section, id_: str) -> External:
    listed = params.section("endpoints")
    static = params.choice("resolution", ("dns", "static"), "dns") == "static"
    endpoints = [_endpoint(listed, name, static) for name in listed.names()]
    entity, port = "", 0
    if id_.startswith("entity:"):
        _, entity, *rest = id_.split(":")
        if rest and rest[0].isascii() and rest[0].isdigit() and len(rest[0]) <= 5:
            port = int(rest[0])
        if entity not in _ENTITIES:
            section.error("id", f"there is no entity {entity[:40]!r}{nearest(entity, _ENTITIES)}")
        if len(rest) > 1 or (rest and not 0 < port < 2**16):
            section.error("id", "is entity:NAME or entity:NAME:PORT, such as entity:world:443")
    elif not endpoints:
        section.error((), "names nothing to reach: params.endpoints, such as {s3: https://s3.example.com}")
    return External(tuple(each for each in endpoints if each is not None), entity, port)


def _endpoint(listed: Section, name: str, static: bool) -> Endpoint | None:
    text = listed.text(name)
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "", text
    try:
        split = urlsplit(f"//{rest}")
        host, port = split.hostname or "", split.port or 0
    except ValueError:
        host, port = "", 0
    if scheme and scheme not in _PORTS:
        listed.error(name, f"{scheme}:// is not known; use {', '.join(f'{each}://' for each in _PORTS)}")
        return None
    protocol: Protocol = "UDP" if scheme == "udp" else "TCP"
    made = Endpoint(name, host, port or _PORTS.get(scheme, 0), protocol, text if scheme else "")
    named = _HOST.fullmatch(host.removeprefix("*.")) and not re.fullmatch("[0-9.]+", host)
    if not (made.is_address or named) or len(host) > dns.NAME:
        listed.error(name, f"{text!r} names no host; such as https://s3.example.com or db.example.com:5432")
        return None
    if "*" in host and "." not in host.removeprefix("*."):
        listed.error(name, f"{host} matches almost any host; name the domain, such as *.s3.example.com")
        return None
    if not made.port:
        listed.error(name, f"{text!r} names no port; write {host}:PORT")
        return None
    if static and not made.is_address:
        listed.error(name, f"{host} is not an address; resolution: static takes addresses")
    return made if scheme else replace(made, url=made.address)


def _volume(params: Section, id_: str, namespace: str) -> Volume:
    return Volume(
        id_,
        namespace,
        params.quantity("size"),
        params.text("storageClass"),
        params.choice("accessMode", _ACCESS, "ReadWriteOnce"),
        tuple(strings(params, "allowedConsumers")),
    )


def _gpu(params: Section, class_: str) -> Gpu:
    tolerations = [{key: each.raw(key) for key in each.names()} for each in params.sections("tolerations")]
    return Gpu(
        params.integer("count", 1, minimum=1, maximum=1024),
        params.text("model"),
        tuple(tolerations),
        params.integer("compute", 0, minimum=1, maximum=100),
        params.quantity("memory"),
        class_,
        params.path,
    )


def strings(section: Section, name: str) -> list[str]:
    """A list of texts; errors name the item."""
    value = section.raw(name)
    if value is None:
        return []
    if not isinstance(value, list):
        section.error(name, "takes a list of texts, such as [a, b]")
        return []
    texts = []
    for index, item in enumerate(value):
        if isinstance(item, str):
            texts.append(item)
        else:
            section.error((name, index), "takes text; put it in quotes")
    return texts
