"""Reads the typed resources of a workload: services, external services, secrets, volumes, GPUs."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from muster.api import duration
from muster.api.base import Object
from muster.compiler import spelling
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
    Toleration,
    Volume,
)
from muster.workloads import dns
from muster.workloads.findings import nearest
from muster.workloads.section import Section

#: The kinds of resources with fields of their own; what others mean, policies say.
KINDS: Final = ("secret", "external-service", "service", "volume", "gpu")
_TEXTS: Final[Object] = {"type": ["array", "null"], "items": {"type": "string"}}
_PORTS: Final = {"http": 80, "https": 443, "grpc": 443, "tcp": 0, "udp": 0}
#: host and port behind the scheme, then the rest of a URL. Of the rest only characters that RFC 3986 permits,
#: without a fragment: programs differ in how they read others.
_URL: Final = re.compile(r"(\[[^\[\]/?]*\]|[^:\[\]/?]*)(?::([0-9]{1,5}))?([/?].*)?", re.ASCII)
_REST: Final = re.compile(r"([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*")
#: Ends of names that only the cluster's own DNS knows.
_INTERNAL: Final = ("svc", "svc.cluster.local", "cluster.local", "pod.cluster.local")
#: Types of Secrets that hold what a program reads. Others mean something to the cluster itself.
_SECRET_TYPES: Final = (
    *("", "Opaque", "kubernetes.io/basic-auth", "kubernetes.io/dockercfg"),
    *("kubernetes.io/dockerconfigjson", "kubernetes.io/ssh-auth", "kubernetes.io/tls"),
)
#: Seconds between two reads of a secret's store, at least; 0 = it is read once.
_REFRESH: Final = 10
_CONSUMER: Final = re.compile(r"\*|[a-z0-9][-a-z0-9]{0,62}/(\*|[a-z0-9][-a-z0-9.]{0,252})")
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
    kind = section.kind("type", KINDS)
    if not kind:
        section.error("type", f"is missing; such as {', '.join(KINDS)}")
        return None
    direction = _DIRECTIONS.get(section.choice("direction", tuple(_DIRECTIONS), "outbound"), "outbound")
    id_ = section.text("id")
    at = section.spelt("namespace", any_of(spelling.label)) or namespace
    class_ = section.spelt("class", spelling.name) if kind == "gpu" else section.text("class")
    section.raw("metadata")
    params = section.section("params")
    what: Secret | External | Service | Volume | Gpu | Custom
    match kind:
        case "secret":
            what = _secret(section, params)
        case "external-service":
            what = _external(section, params, id_)
        case "service":
            port = params.integer("port", 80, minimum=1, maximum=65535)
            what = Service(at, section.spelt("id", any_of(spelling.label)) or name, port)
        case "volume":
            what = _volume(params, section.spelt("id", spelling.name), at)
        case "gpu":
            what = _gpu(params, class_)
        case _:
            what = Custom(kind, {key: params.raw(key) for key in params.names()})
    params.close()
    section.close()
    return Resource(name, section.path, what, direction)


def any_of(spell: Callable[[str], str]) -> Callable[[str], str]:
    """Spells `*`, too."""
    return lambda text: text if text == "*" else spell(text)


def _secret(section: Section, params: Section) -> Secret:
    keys = strings(params, "keys", spelling.key)
    refresh = params.seconds("refreshInterval")
    if refresh is not None and 0 < refresh < _REFRESH:
        params.error("refreshInterval", f"is {refresh}s; the least is {_REFRESH}s, or 0s to read it once")
    return Secret(
        params.spelt("provider", spelling.name),
        section.spelt("id", spelling.store_path),
        tuple(keys),
        "1h" if refresh is None else duration.show(refresh),
        params.choice("secretType", _SECRET_TYPES, ""),
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
    if scheme and scheme not in _PORTS:
        listed.error(name, f"{scheme[:40]}:// is not known; use {', '.join(f'{each}://' for each in _PORTS)}")
        return None
    match = _URL.fullmatch(rest)
    if match is None or "@" in match[1] or not _REST.fullmatch(match[3] or "") or (match[3] and not scheme):
        told = "a name and password belong into a secret" if "@" in rest else "such as https://s3.example.com"
        listed.error(name, f"{text[:80]!r} names no host; {told} or db.example.com:5432")
        return None
    wild = "*." if match[1].startswith("*.") else ""
    try:
        host = spelling.host(match[1].removeprefix("*."))
    except spelling.Misspelt as error:
        listed.error(name, f"{text[:80]!r} names no host: {error}")
        return None
    address = spelling.is_address(host)
    if wild and (address or "." not in host):
        listed.error(name, f"*.{host} matches almost any host; name the domain, such as *.s3.example.com")
        return None
    if host.endswith(tuple(f".{each}" for each in _INTERNAL)):
        listed.error(name, f"{host} is a Service of the cluster; declare it as a resource of type service")
        return None
    port = int(match[2] or _PORTS.get(scheme, 0))
    if not 0 < port < 2**16:
        told = f"has port {port}; the most is 65535" if port else f"names no port; write {host}:PORT"
        listed.error(name, f"{text[:80]!r} {told}")
        return None
    if static and not address:
        listed.error(name, f"{host} is not an address; resolution: static takes addresses")
    protocol: Protocol = "UDP" if scheme == "udp" else "TCP"
    made = Endpoint(name, wild + host, port, protocol)
    where = made.address if match[2] else made.address.removesuffix(f":{port}")
    return replace(made, url=f"{scheme}://{where}{match[3] or ''}" if scheme else made.address)


def _volume(params: Section, id_: str, namespace: str) -> Volume:
    return Volume(
        id_,
        namespace,
        params.quantity("size"),
        params.spelt("storageClass", spelling.name),
        params.choice("accessMode", _ACCESS, "ReadWriteOnce"),
        tuple(strings(params, "allowedConsumers", _consumer)),
    )


def _consumer(text: str) -> str:
    if not _CONSUMER.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is not namespace/job-task, namespace/* or *")
    return text


def _gpu(params: Section, class_: str) -> Gpu:
    tolerations = [_toleration(each) for each in params.sections("tolerations")]
    return Gpu(
        params.integer("count", 1, minimum=1, maximum=1024),
        params.spelt("model", spelling.value),
        tuple(dict.fromkeys(each for each in tolerations if each is not None)),
        params.integer("compute", 0, minimum=1, maximum=100),
        params.quantity("memory"),
        class_,
        params.path,
    )


def _toleration(section: Section) -> Toleration | None:
    key = section.spelt("key", spelling.qualified)
    exists = section.choice("operator", ("Exists", "Equal"), "Equal") == "Exists"
    value = section.spelt("value", spelling.value)
    effect = section.choice("effect", ("", *spelling.EFFECTS), "")
    seconds = section.integer("tolerationSeconds", 0) if "tolerationSeconds" in section else None
    if exists and value:
        section.error("value", "is for operator: Equal; with Exists any value is tolerated")
    if not exists and not key:
        section.error("key", "is missing; only operator: Exists tolerates every taint")
    if seconds is not None and effect != "NoExecute":
        section.error("tolerationSeconds", "is for effect: NoExecute")
    section.close()
    return Toleration(key, None if exists else value, effect, seconds, section.path)


def strings(section: Section, name: str, spell: Callable[[str], str] = str) -> list[str]:
    """A list of texts, each in the spelling of `spell`; errors name the item."""
    value = section.raw(name, _TEXTS)
    if value is None:
        return []
    if not isinstance(value, list):
        section.error(name, "takes a list of texts, such as [a, b]")
        return []
    texts = []
    for index, item in enumerate(value):
        if not isinstance(item, str):
            section.error((name, index), "takes text; put it in quotes")
        elif spell is str:
            texts.append(item)
        elif spelt := section.spelt((name, index), spell, item or " "):
            texts.append(spelt)
    return texts
