"""Opens connections to registries, and decides by their addresses which ones are opened at all.

Users choose registries: a user that may create a BatchJob makes the controller connect to the host of an
image. So a connection is refused at the moment at which it is made, by the address that it is made to, after
names have been resolved. A name that leads to another address the second time is checked the second time.

- Link-local addresses are refused, and the other addresses at which clouds serve their metadata.
- Addresses of this machine are refused unless the administrator, or the user of a command, allows them.
- A registry with a public address may not lead inside of the network, by a redirect or its token service.
  Such requests have a pool of connections of their own, so that they find none that is open already.

An HTTP proxy resolves names itself, and the administrator chooses it; only addresses are checked there.
"""

import ipaddress
import socket
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from errno import EACCES
from functools import partial
from typing import Any, Final, Self

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from muster.kube.proxies import Proxy

#: Where clouds serve metadata besides link-local addresses: AWS and Google (IPv6), Alibaba, Azure.
_METADATA: Final = frozenset(
    map(ipaddress.ip_address, ("fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16"))
)
#: IPv6 addresses whose last 32 bits are the IPv4 address that a gateway connects to (RFC 6052).
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
#: Most hosts that are known to be public.
_KNOWN: Final = 10_000


class Connections:
    """Sends requests to registries. `loopback`: whether to connect to this machine."""

    def __init__(self, *, loopback: bool, resolver: AbstractResolver | None = None) -> None:
        self._loopback, self._resolver = loopback, resolver
        #: False = private addresses only; a host that has once had a public one remains public
        self._public: dict[str, bool] = {}

    async def __aenter__(self) -> Self:
        resolver = _Noting(self._resolver or aiohttp.ThreadedResolver(), self._public)
        self._direct, self._onward, self._proxied = (
            aiohttp.ClientSession(connector=each, cookie_jar=aiohttp.DummyCookieJar())
            for each in (
                aiohttp.TCPConnector(resolver=resolver, socket_factory=partial(self._socket, False)),
                aiohttp.TCPConnector(resolver=resolver, socket_factory=partial(self._socket, True)),
                aiohttp.TCPConnector(),
            )
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        for session in (self._direct, self._onward, self._proxied):
            await session.close()

    def get(
        self, url: URL, headers: Mapping[str, str], proxy: Proxy | None, *, onward: bool
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """Requests a URL. `onward`: a registry with a public address has led there.

        Raises OSError, or aiohttp.ClientError because of one, if the address is refused.
        """
        if proxy is None:
            session = self._onward if onward else self._direct
            return session.get(url, headers=headers, allow_redirects=False)
        if url.host and (why := self._refusal(url.host, onward)):
            raise PermissionError(EACCES, why)
        if url.scheme == "http":  # the request itself goes to the proxy
            headers = {**headers, **proxy.headers}
        return self._proxied.get(
            url, headers=headers, allow_redirects=False, proxy=proxy.url, proxy_headers=proxy.headers
        )

    def inside(self, host: str) -> bool:
        """Whether a host that has been connected to is this machine, or inside of the network."""
        return inside(host) or self._public.get(host) is False

    def _socket(
        self, onward: bool, info: tuple[Any, Any, int, str, tuple[Any, ...]]
    ) -> socket.socket:  # Any: as in socket.getaddrinfo
        family, kind, protocol, _, address = info
        if why := self._refusal(str(address[0]), onward):
            raise PermissionError(EACCES, why)
        return socket.socket(family, kind, protocol)

    def _refusal(self, host: str, onward: bool) -> str:
        """Why there is no connection to an address; "" if there may be one, and for names."""
        if (address := _address(host)) is None:
            return ""
        if address.is_link_local or address in _METADATA:
            return f"{address} is link-local, or serves a cloud's metadata: muster never connects to it"
        if (address.is_loopback or address.is_unspecified) and not self._loopback:
            return f"{address} is this machine; batchJobs.loopbackRegistries allows that"
        if onward and not address.is_global:
            return f"{address} is inside of this network, and the registry that leads there is not"
        return ""


def inside(host: str) -> bool:
    """Whether a host is this machine or an address that is not public, as far as its name says."""
    if (address := _address(host)) is not None:
        return not address.is_global
    return host == "localhost" or host.endswith((".localhost", ".local", ".internal", ".svc"))


class _Noting(AbstractResolver):
    """Resolves names, and notes which hosts have a public address."""

    def __init__(self, resolver: AbstractResolver, public: dict[str, bool]) -> None:
        self._resolver, self._public = resolver, public

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        public = not all(inside(each["host"]) for each in found)
        if len(self._public) >= _KNOWN:
            del self._public[next(iter(self._public))]
        self._public[host] = self._public.pop(host, False) or public
        return found

    async def close(self) -> None:
        await self._resolver.close()


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that a connection to `host` would be made to; None for a name."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        if (mapped := address.ipv4_mapped or address.sixtofour) is not None:
            return mapped
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address
