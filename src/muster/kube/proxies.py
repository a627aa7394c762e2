"""Chooses the HTTP proxy of a request to an API server or a registry, as common tools do.

`HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` count, in capitals or not. A proxy is never used for this machine,
nor for a request that carries credentials without TLS, since the proxy would see them. Source: Go's
golang.org/x/net/http/httpproxy, which kubectl and container engines use.
"""

import ipaddress
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.request import getproxies_environment

import aiohttp
from yarl import URL

#: Proxies by scheme, as the environment names them; under "no" the hosts that are connected to directly.
Proxies = Mapping[str, str]


class UnusableProxy(ValueError):
    """A setting names a proxy that cannot be used; the message says why, without its password."""


class Proxy(NamedTuple):
    #: without user and password
    url: URL
    #: the proxy's own credentials; only the proxy receives them
    headers: Mapping[str, str]


NONE: Final[Proxies] = {}


def of_environment() -> Proxies:
    """Returns the proxies that the environment of this process names."""
    return getproxies_environment()


def find(url: URL, proxies: Proxies, *, secret: bool = False) -> URL | None:
    """Returns the proxy of a request, with its credentials; None = connect directly.

    `secret`: the request carries credentials. Raises `UnusableProxy`.
    """
    host, named = url.host or "", proxies.get(url.scheme, "")
    if not named or _here(host) or (secret and url.scheme != "https") or _excepted(host, url.port, proxies):
        return None
    return usable(named, f"{url.scheme.upper()}_PROXY")


def choose(url: URL, proxies: Proxies, *, secret: bool = False) -> Proxy | None:
    """Returns what `find` does, with the proxy's credentials as a header."""
    proxy = find(url, proxies, secret=secret)
    if proxy is None:
        return None
    headers = {}
    if proxy.user is not None:
        headers["Proxy-Authorization"] = aiohttp.encode_basic_auth(proxy.user, proxy.password or "")
    return Proxy(proxy.with_user(None), headers)


def usable(named: str, setting: str) -> URL:
    """Returns the URL of a proxy, with its credentials. Raises `UnusableProxy`, which names the setting."""
    with suppress(ValueError):
        proxy = URL(named if "://" in named else f"http://{named}")
        if proxy.scheme in ("http", "https") and proxy.host:
            return proxy
    raise UnusableProxy(f"{setting} is not an http:// or https:// URL, such as http://proxy:3128")


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
