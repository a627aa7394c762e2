"""Ids of the resources that policies are asked about: their form, and the attributes that follow.

A resource has one id (`muster.compiler.spelling`). A `forbid` or a test case that names another one would
decide about nothing, so it is refused, with what to write.
"""

from collections.abc import Callable, Mapping
from typing import Final

from muster.compiler import spelling
from muster.compiler.spelling import Misspelt
from muster.security.images.reference import InvalidReference, split

#: Attributes of a resource, all of them texts; `*` is every one.
Attributes = Mapping[str, str]
_PROTOCOLS: Final = ("UDP",)
_ALL_CAPABILITIES: Final = (f"capability:{spelling.ALL}", "privileged")
#: Overrides of a pod, not of one of its containers.
_OF_POD: Final = ("hostNetwork", "shareProcessNamespace", "automountServiceAccountToken", "sysctl")


def attributes(type_: str, id_: str) -> Attributes:
    """The attributes of a resource; none for a type that has none. Raises `Misspelt`."""
    read = _READERS.get(type_)
    return {} if read is None else read(id_)


def parts(type_: str, id_: str) -> tuple[str, ...]:
    """All that a request for several things is for, if that can be listed: every capability."""
    several = type_ == "SecurityOverride" and id_ in _ALL_CAPABILITIES
    return tuple(f"capability:{each}" for each in sorted(spelling.CAPABILITIES)) if several else ()


def covers(type_: str, id_: str, other: str) -> bool:
    """Whether who may use the one resource may use the other, too: whether a forbid of `other` is about it.

    An id of an endpoint without protocol also named that of UDP before there were ids with protocols, so a
    forbid of `host:port` is about both.
    """
    if id_ == other:
        return False
    match type_:
        case "SecurityOverride":
            kind, _, name = other.partition(":")
            return (kind == "capability" and id_ in _ALL_CAPABILITIES) or (
                kind == "allowedBinary" and name != "*" and id_ == "allowedBinary:*"
            )
        case "ExternalEndpoint" | "Toleration" | "Caller":
            one, two = attributes(type_, id_), attributes(type_, other)
            return all(_covers(type_, name, one[name], two[name]) for name in one)
    return False


def _covers(type_: str, name: str, one: str, other: str) -> bool:
    """The same of one attribute."""
    if one in ("*", other):
        return True
    if type_ != "ExternalEndpoint":
        return False
    if name == "protocol":
        return other in ("*", "TCP")
    if name == "host" and one.startswith("*."):
        return other.partition(".")[2] == one.removeprefix("*.")
    return name == "host" and one in ("entity:all", "entity:world")


def _image(id_: str) -> Attributes:
    try:
        image = split(id_)
    except InvalidReference as error:
        raise Misspelt(str(error)) from None
    _is(id_, image.text)
    return {
        "registry": image.registry,
        "name": image.repository,
        "tag": image.tag,
        "digest": image.digest,
    }


def _secret(id_: str) -> Attributes:
    provider, _, path = id_.partition(":")
    return {"provider": spelling.name(provider), "path": spelling.store_path(path)}


def _endpoint(id_: str) -> Attributes:
    """`host:port` of TCP, `host:port/UDP`, `entity:name` with every port and protocol, `entity:name:port`."""
    if id_.startswith("entity:"):
        _, entity, *port = id_.split(":")
        if len(port) > 1:
            raise Misspelt(f"{id_[:80]!r} is not entity:name or entity:name:port")
        number = _port(port[0], id_) if port else "*"
        protocol = "TCP" if port else "*"
        return {"host": f"entity:{spelling.label(entity)}", "port": number, "protocol": protocol}
    address, protocol = _protocol(id_)
    written, _, port_ = address.rpartition(":")
    wild = "*." if written.startswith("*.") else ""
    host = wild + spelling.host(written.removeprefix("*."))
    number = port_ if port_ == "*" else _port(port_, id_)
    _is(id_, spelling.endpoint(host, number, protocol))
    return {"host": host, "port": number, "protocol": protocol}


def _service(id_: str) -> Attributes:
    """`namespace/name:port`."""
    where, _, port = id_.rpartition(":")
    namespace, _, name = where.partition("/")
    return {
        "namespace": spelling.label(namespace),
        "name": spelling.label(name),
        "port": _port(port, id_),
    }


def _caller(id_: str) -> Attributes:
    """`namespace/name`; `*` is every one."""
    namespace, _, name = id_.partition("/")
    for each in (namespace, name):
        if each != "*":
            spelling.label(each)
    return {"namespace": namespace, "name": name}


def _volume(id_: str) -> Attributes:
    namespace, _, name = id_.partition("/")
    return {"namespace": spelling.label(namespace), "id": spelling.name(name)}


def _override(id_: str) -> Attributes:
    kind, colon, rest = id_.partition(":")
    spell = _OVERRIDES.get(kind)
    if colon and spell is not None:
        _is(id_, f"{kind}:{spell(rest)}")
    category = {"capability": "capability", "allowedBinary": "binary"}.get(kind)
    if category is None and kind in ("seccomp", "apparmor"):
        category = "profile"
    return {"category": category or ("pod" if kind in _OF_POD else "container"), "override": id_}


def _program(text: str) -> str:
    return text if text == "*" else spelling.program(text)


_OVERRIDES: Final[dict[str, Callable[[str], str]]] = {
    "capability": spelling.capability,
    "allowedBinary": _program,
    "sysctl": spelling.sysctl,
}


def _toleration(id_: str) -> Attributes:
    """`key:effect` of any value, or `key=value:effect`; `*` is any key or effect."""
    taint, _, effect = id_.rpartition(":")
    key, equal, value = taint.partition("=")
    if key != "*":
        spelling.qualified(key)
    if effect not in ("*", *spelling.EFFECTS) or (equal and key == "*"):
        raise Misspelt(f"{id_[:80]!r} is not key:effect or key=value:effect, such as gpu:NoSchedule")
    return {"key": key, "value": spelling.value(value) if equal else "*", "effect": effect}


def _metadata(id_: str) -> Attributes:
    key, _, value = id_.partition("=")
    return {"key": key, "value": value}


def _name(id_: str) -> Attributes:
    spelling.name(id_)
    return {}


def _port(text: str, id_: str) -> str:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 2**16):
        raise Misspelt(f"{id_[:80]!r} has no port from 1 to 65535 at its end")
    _is(text, str(int(text)))
    return text


def _protocol(id_: str) -> tuple[str, str]:
    address, slash, protocol = id_.rpartition("/")
    if not slash:
        return id_, "TCP"
    if protocol == "TCP":
        raise Misspelt(f"{id_[:80]!r}: write {address[:80]}, which is TCP")
    if protocol not in _PROTOCOLS:
        raise Misspelt(f"{id_[:80]!r}: the protocol is {' or '.join(_PROTOCOLS)}, or none for TCP")
    return address, protocol


def _is(written: str, one: str) -> None:
    """Raises `Misspelt` for another spelling than the one."""
    if written != one:
        raise Misspelt(f"write {one[:200]!r} for {written[:200]!r}")


_READERS: Final[dict[str, Callable[[str], Attributes]]] = {
    "Image": _image,
    "SecretPath": _secret,
    "ExternalEndpoint": _endpoint,
    "Service": _service,
    "Caller": _caller,
    "SecurityOverride": _override,
    "Volume": _volume,
    "Toleration": _toleration,
    "Metadata": _metadata,
    **dict.fromkeys(("Queue", "PriorityClass", "RuntimeClass", "Scheduler", "Namespace"), _name),
}
