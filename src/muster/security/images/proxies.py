"""Chooses the HTTP proxy of a request to a registry, as common tools do.

`HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` count, in capitals or not. A proxy is never used for this machine,
nor for a request that carries credentials without TLS, since the proxy would see them. Source: Go's
golang.org/x/net/http/httpproxy, which container engines use.
"""

import ipaddress
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.request import getproxies_environment

import aiohttp
from yarl import URL

#: Proxies by scheme, as the environment names them; under "no" the hosts that are connected to directly.
Proxies = Mapping[str, str]


class UnusableProxy(ValueError):
    """The environment names a proxy that cannot be used; the message says why, without its password."""


class Proxy(NamedTuple):
    #: without user and password
    url: URL
    #: the proxy's own credentials; only the proxy receives them
    headers: Mapping[str, str]


NONE: Final[Proxies] = {}


def of_environment() -> Proxies:
    """Returns the proxies that the environment of this process names."""
    return getproxies_environment()


def choose(url: URL, proxies: Proxies, *, secret: bool = False) -> Proxy | None:
    """Returns the proxy of a request; None = connect directly. `secret`: it carries credentials.

    Raises `UnusableProxy`.
    """
    host, named = url.host or "", proxies.get(url.scheme, "")
    if not named or _here(host) or (secret and url.scheme != "https") or _excepted(host, url.port, proxies):
        return None
    try:
        proxy = URL(named if "://" in named else f"http://{named}")
        unusable = proxy.scheme not in ("http", "https") or not proxy.host
    except ValueError:
        unusable = True
    if unusable:
        raise UnusableProxy(
            f"{url.scheme.upper()}_PROXY is not an http:// or https:// URL, such as http://proxy:3128"
        )
    headers = {}
    if proxy.user is not None:
        headers["Proxy-Authorization"] = aiohttp.encode_basic_auth(proxy.user, proxy.password or "")
    return Proxy(proxy.with_user(None), headers)


def _excepted(host: str, port: int | None, proxies: Proxies) -> bool:
    """Whether NO_PROXY names a host: by its name, a domain above it, its address, or a network (CIDR)."""
    listed = [each.strip().lower() for each in proxies.get("no", "").split(",")]
    for each in filter(None, listed):
        domain = each.removeprefix("*").removeprefix(".")
        if each == "*" or any(f".{name}".endswith(f".{domain}") for name in (host, f"{host}:{port}")):
            return True
        if _within(host, each):
            return True
    return False


def _within(host: str, network: str) -> bool:
    try:
        return "/" in network and ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def _here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
