"""A client for registries: manifests, small blobs, referrers. Everything that a registry answers is hostile.

Every body is bounded and checked against its digest, every request has a time limit, and redirects are
followed by hand: at most `_REDIRECTS`, never from https to http, never to an address inside of the network
unless the registry itself is there (`muster.security.images.connections`). Credentials are sent to their
registry, and to its token service if that is in the same domain; never along a redirect.

Sources: opencontainers/distribution-spec, spec.md; distribution, docs/spec/auth/token.md.
"""

import asyncio
import hashlib
import ipaddress
import json
import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
from yarl import URL

from muster.kube.proxies import NONE, Proxies, choose
from muster.security.images.connections import Connections, inside
from muster.security.images.reference import Reference, is_digest

_MANIFESTS: Final = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
#: Bytes of a manifest, as registries limit it themselves, and of a blob, which is a configuration.
_MANIFEST: Final = 4 * 2**20
_BLOB: Final = 4 * 2**20
_TOKEN: Final = 2**16
_REDIRECTS: Final = 4
_CHALLENGE: Final = re.compile(r'([a-zA-Z_]+)="([^"]*)"')
#: Where docker.io really is.
_HOSTS: Final = {"docker.io": "registry-1.docker.io"}


class RegistryError(Exception):
    """A registry that does not answer as it should; the message says what was asked and what came back."""


class NotThere(RegistryError):
    """The registry has no such manifest or blob."""


@dataclass(frozen=True, slots=True)
class Manifest:
    digest: str
    content: Mapping[str, Any]  # Any: JSON


class Registry:
    """Reads from registries over these connections. `credentials`: registry → (user, password)."""

    def __init__(
        self,
        connections: Connections,
        credentials: Mapping[str, tuple[str, str]] | None = None,
        *,
        timeout: float = 10.0,
        proxies: Proxies = NONE,
    ) -> None:
        self._connections, self._credentials, self._timeout = connections, credentials or {}, timeout
        self._proxies = proxies
        self._tokens: dict[tuple[str, str], str] = {}

    async def manifest(self, image: Reference, version: str) -> Manifest:
        """The manifest of a tag or digest, checked against the digest. Raises `RegistryError`."""
        body = await self._get(image, f"manifests/{version}", _MANIFESTS, _MANIFEST)
        digest = _digest(body)
        if is_digest(version) and digest != version:
            raise RegistryError(f"{image.name} answered {version} with another manifest")
        return Manifest(digest, _object(body, f"manifest {version} of {image.name}"))

    async def blob(self, image: Reference, digest: str, most: int = _BLOB) -> bytes:
        """A blob of at most `most` bytes, checked against its digest. Raises `RegistryError`."""
        if not is_digest(digest):
            raise RegistryError(f"{image.name} names a blob by {digest[:80]!r}, which is not a digest")
        body = await self._get(image, f"blobs/{digest}", "*/*", most)
        if _digest(body) != digest:
            raise RegistryError(f"{image.name} answered {digest} with another blob")
        return body

    async def referrers(self, image: Reference, digest: str) -> list[Mapping[str, Any]]:
        """What refers to a digest, by the API or by its fallback tag. Raises `RegistryError`."""
        accept = "application/vnd.oci.image.index.v1+json"
        try:
            body = await self._get(image, f"referrers/{digest}", accept, _MANIFEST)
            index = _object(body, f"list of referrers of {image.name}")
        except NotThere:
            try:
                index = dict((await self.manifest(image, digest.replace(":", "-"))).content)
            except NotThere:
                return []
        listed = index.get("manifests")
        return [each for each in (listed if isinstance(listed, list) else []) if isinstance(each, dict)]

    async def _get(self, image: Reference, path: str, accept: str, most: int) -> bytes:
        what = f"{path} of {image.name}"
        try:
            async with asyncio.timeout(self._timeout):
                return await self._read(image, path, accept, most, what)
        except TimeoutError:
            raise RegistryError(f"{what}: no answer within {self._timeout:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise RegistryError(f"{what}: {str(error)[:200] or type(error).__name__}") from None

    async def _read(self, image: Reference, path: str, accept: str, most: int, what: str) -> bytes:
        host = _HOSTS.get(image.registry, image.registry)
        start = URL(f"{_scheme(host)}://{host}/v2/{image.repository}/{path}")
        scope = f"repository:{image.repository}:pull"
        for attempt in range(2):
            status, body, challenge = await self._follow(start, accept, most, what, image.registry, scope)
            if status == 401 and attempt == 0 and challenge:
                await self._authorise(image.registry, host, scope, challenge)
                continue
            if status == 404:
                raise NotThere(f"{what}: not found")
            if status != 200:
                raise RegistryError(f"{what}: the registry answered {status}")
            return body
        raise RegistryError(f"{what}: the registry refuses the credentials")

    async def _follow(
        self, url: URL, accept: str, most: int, what: str, registry: str, scope: str
    ) -> tuple[int, bytes, str]:
        """(status, body, challenge), with redirects followed without credentials."""
        start = url
        for _ in range(_REDIRECTS + 1):
            headers = {"Accept": accept}
            if url.origin() == start.origin() and (token := self._tokens.get((registry, scope))):
                headers["Authorization"] = token
            async with self._ask(url, headers, start) as response:
                if response.status in (301, 302, 303, 307, 308):
                    url = self._onward(url, response.headers.get("Location", ""), start, what)
                    continue
                body = await _bounded(response, most, what) if response.status == 200 else b""
                return response.status, body, response.headers.get("WWW-Authenticate", "")
        raise RegistryError(f"{what}: more than {_REDIRECTS} redirects")

    async def _authorise(self, registry: str, host: str, scope: str, challenge: str) -> None:
        """Gets a token for a scope as the registry's challenge says, or uses the credentials themselves."""
        credentials = self._credentials.get(registry)
        kind, _, rest = challenge.partition(" ")
        if kind.lower() == "basic" and credentials:
            self._tokens[(registry, scope)] = aiohttp.encode_basic_auth(*credentials)
            return
        fields = dict(_CHALLENGE.findall(rest))
        if kind.lower() != "bearer" or "realm" not in fields:
            raise RegistryError(f"{registry} asks for credentials in a way that is not supported")
        realm = URL(fields["realm"])
        if realm.host is None or (realm.scheme != "https" and not inside(realm.host)):
            raise RegistryError(f"{registry} names a token service that is not https")
        start = URL(f"{_scheme(host)}://{host}")
        if inside(realm.host) and not self._connections.inside(start.raw_host or ""):
            raise RegistryError(f"{registry} names a token service inside of this network")
        query = {"scope": scope, **({"service": fields["service"]} if "service" in fields else {})}
        login = credentials if credentials and _same_domain(realm.host, host) else None
        headers = {"Authorization": aiohttp.encode_basic_auth(*login)} if login else {}
        async with self._ask(realm.update_query(query), headers, start) as response:
            if response.status != 200:
                raise RegistryError(f"{registry}: its token service answered {response.status}")
            answer = _object(await _bounded(response, _TOKEN, "token"), "token")
        token = answer.get("token") or answer.get("access_token")
        if not isinstance(token, str) or not token.isprintable():
            raise RegistryError(f"{registry}: its token service gave no token")
        self._tokens[(registry, scope)] = f"Bearer {token}"

    def _ask(
        self, url: URL, headers: Mapping[str, str], start: URL
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """Requests a URL to which the registry at `start` has led, or which is that registry's own."""
        proxy = choose(url, self._proxies, secret="Authorization" in headers)
        onward = url.origin() != start.origin() and not self._connections.inside(start.raw_host or "")
        return self._connections.get(url, headers, proxy, onward=onward)

    def _onward(self, url: URL, location: str, start: URL, what: str) -> URL:
        """Where a redirect leads. Raises `RegistryError` if it must not be followed."""
        onward = url.join(URL(location)) if location else url
        host = onward.host or ""
        if not location or onward.scheme not in ("http", "https"):
            raise RegistryError(f"{what}: redirects to nowhere")
        if url.scheme == "https" and onward.scheme == "http":
            raise RegistryError(f"{what}: redirects from https to http")
        if inside(host) and not self._connections.inside(start.raw_host or ""):
            raise RegistryError(f"{what}: redirects to an address inside of this network")
        return onward


async def _bounded(response: aiohttp.ClientResponse, most: int, what: str) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_chunked(2**16):
        body += chunk
        if len(body) > most:
            raise RegistryError(f"{what}: is larger than {most // 2**10} KiB")
    return bytes(body)


def _scheme(host: str) -> str:
    """http for registries on this machine, as container engines do it; https for all others."""
    name = URL(f"https://{host}").host or ""
    return "http" if name == "localhost" or _loopback(name) else "https"


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _same_domain(one: str, registry: str) -> bool:
    """Whether a token service belongs to a registry: the same host, or a sibling below a domain."""
    host = URL(f"https://{registry}").host or ""
    if one == host:
        return True
    parent = host.partition(".")[2]
    return "." in parent and one.endswith(f".{parent}")


def _digest(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def _object(body: bytes, what: str) -> dict[str, Any]:  # Any: JSON
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise RegistryError(f"{what}: is not JSON") from None
    if not isinstance(value, dict):
        raise RegistryError(f"{what}: is not a JSON object")
    return value
