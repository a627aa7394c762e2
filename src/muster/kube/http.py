"""The client over HTTP: aiohttp and `wire` for the connections, msgspec for the bodies.

A write is not repeated, because the caller must know whether it may have taken effect. A connection that
could not be made raises `Unreachable`; an answer that is missing or cannot be read raises `Unanswered`. Only
a request that is refused as Unauthorized, which has no effect, is retried once if there are new credentials.
A read to which the server answers with a delay (429 or 5xx with Retry-After) is repeated after that time.
(aiohttp itself repeats a GET or DELETE once if a connection that was kept open is found closed.) Watches are
read in chunks and split at newlines here, because a line (one object) may be larger than the buffer of any
line reader.
"""

import asyncio
import math
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain
from typing import Any, Final, TypeVar, Unpack
from urllib.parse import urlsplit

import aiohttp
import msgspec
from aiohttp import AddrInfoType
from multidict import CIMultiDict

from muster.api.base import Kind, Object, Resource
from muster.api.kinds import POD
from muster.api.natural import natural
from muster.kube import errors
from muster.kube.client import (
    EVERY_START,
    EVERYTHING,
    Deletion,
    EventType,
    LogOptions,
    Page,
    Patch,
    WatchEvent,
)
from muster.kube.credentials import in_thread
from muster.kube.decode import decode, decode_change, decode_event, decode_list
from muster.kube.throttle import Bucket
from muster.kube.wire import Answer, NotConnected, Wire

R = TypeVar("R", bound=Resource)
T = TypeVar("T")
B = TypeVar("B", bytes, msgspec.Raw, bytes | msgspec.Raw)
#: Takes the method, the status and the seconds of an answered request.
Answered = Callable[[str, int, float], None]

CONNECTIONS: Final = 64  # most connections to the server, besides those that read logs
WATCH_SECONDS: Final = 300  # after which the server ends a watch and the client resumes it
#: Times that a read is sent if the server asks for a pause (Retry-After), and the longest pause in seconds.
READS: Final = 10
LONGEST_PAUSE: Final = 30.0
MOST_BYTES: Final = 512 << 20  # of an answer: a page has 2,000 objects, which are rarely above 100 KiB
_ALWAYS: Final = {"Accept": "application/json", "User-Agent": "muster"}
_INITIAL: Final = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
TIMEOUT: Final = aiohttp.ClientTimeout(total=60, connect=10)
STREAM_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, connect=10, sock_read=WATCH_SECONDS + 60)


@dataclass(frozen=True, slots=True)
class Connection:
    """The address of an API server and the credentials for it."""

    server: str  # https://host:port
    tls: ssl.SSLContext | None = None
    #: called for each request, so that expired tokens can be renewed
    headers: Callable[[], Mapping[str, str]] = field(default=dict)
    #: whether `headers` would read the credentials now, which may take long
    expired: Callable[[], bool] = lambda: False
    #: the namespace of the context in use
    namespace: str = "default"
    #: called with the headers of a request that was refused as Unauthorized: whether there are others now
    refused: Callable[[Mapping[str, str]], bool] = lambda headers: False
    #: URL of an HTTP proxy to connect through; "": none
    proxy: str = ""
    #: the name that the server's certificate must have; "": that of the address
    server_name: str = ""
    #: whether `tls` has a certificate that says who the client is, whatever `headers` say
    certified: bool = False


class HttpClient:
    """`muster.kube.client.Client` over HTTP. Create it in a running event loop, and close it at the end."""

    def __init__(
        self,
        connection: Connection,
        bucket: Bucket | None = None,
        answered: Answered = lambda method, status, seconds: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`bucket`: what each request waits for, but no watch. `answered` is told of each answer."""
        self._connection, self._bucket, self._answered = connection, bucket or Bucket(), answered
        self._sleep = sleep
        self._server_name = connection.server_name or None
        # A proxy in front of several clusters serves each below its own path
        # (`https://host/k8s/clusters/c-1`).
        address = urlsplit(connection.server)
        self._origin, self._prefix = f"{address.scheme}://{address.netloc}", address.path.rstrip("/")
        self._session = self._open(CONNECTIONS)
        self._wire = Wire(connection.server, connection.tls, connection.server_name, CONNECTIONS)
        # Each followed log uses a connection of its own for as long as its container runs. Their number is
        # not limited, and they do not count against the connections of other requests.
        self._logs = self._open(0)

    def _open(self, connections: int) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            base_url=self._origin,
            connector=aiohttp.TCPConnector(
                ssl=self._connection.tls or True, limit=connections, socket_factory=_kept_alive
            ),
            proxy=self._connection.proxy or None,
            timeout=TIMEOUT,
            headers=_ALWAYS,
        )

    async def close(self) -> None:
        await self._logs.close()
        await self._session.close()
        self._wire.close()

    async def get(self, kind: Kind[R], namespace: str, name: str) -> R:
        return _object(kind, await self._request("GET", kind.path(namespace, name)))

    async def get_json(self, kind: Kind[R], namespace: str, name: str) -> Object:
        return _understood(_json.decode, await self._request("GET", kind.path(namespace, name)))

    async def list(
        self,
        kind: Kind[R],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        token: str = "",
    ) -> Page[R]:
        query = _selectors(labels, fields)
        if limit:
            query["limit"] = str(limit)
        if token:
            query["continue"] = token
        content = await self._request("GET", kind.path(namespace), query)
        body = _understood(lambda raw: decode_list(kind, raw), content)
        return Page(body.items, body.metadata.resource_version, body.metadata.continue_)

    async def watch(
        self,
        kind: Kind[R],
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[WatchEvent[R]]:
        query = {
            **_selectors(labels, fields),
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(WATCH_SECONDS),
            **({} if resource_version else _INITIAL),
        }
        async for line in self._lines(kind.path(namespace), query):
            if (change := decode_change(kind, line)) is not None:
                yield WatchEvent(*change)
                continue
            event = _understood(decode_event, line)
            if event.type == "ERROR":
                status = _understood(_json.decode, event.object)
                raise errors.from_status(status, int(status.get("code") or 500))
            yield WatchEvent(EventType(event.type), _object(kind, event.object))

    async def served(self, group: str, version: str) -> frozenset[str]:
        """Returns the plurals of a version of a group that the server serves; none without this version."""
        try:
            content = await self._request("GET", f"/apis/{group}/{version}")
        except errors.NotFound:
            return frozenset()
        return frozenset(each.name for each in _understood(_resources.decode, content).resources)

    async def create(self, kind: Kind[R], namespace: str, obj: Object) -> R:
        return _object(kind, await self._request("POST", kind.path(namespace), body=obj))

    async def dry_create(self, kind: Kind[R], namespace: str, obj: Object) -> Object:
        content = await self._request("POST", kind.path(namespace), {"dryRun": "All"}, body=obj)
        made: Object = _understood(_json.decode, content)
        return made

    async def patch(
        self, kind: Kind[R], namespace: str, name: str, patch: Patch, *, subresource: str = ""
    ) -> R:
        media = "application/json-patch+json" if isinstance(patch, list) else "application/merge-patch+json"
        path = kind.path(namespace, name, subresource)
        return _object(kind, await self._request("PATCH", path, body=patch, media=media))

    async def delete(self, kind: Kind[R], namespace: str, name: str, **how: Unpack[Deletion]) -> None:
        options: Object = {"kind": "DeleteOptions", "apiVersion": "v1"}
        options["propagationPolicy"] = how.get("propagation", "Background")
        if (seconds := how.get("grace_period")) is not None:
            options["gracePeriodSeconds"] = seconds
        preconditions = {"uid": how.get("uid"), "resourceVersion": how.get("resource_version")}
        if any(preconditions.values()):
            options["preconditions"] = {key: value for key, value in preconditions.items() if value}
        await self._request("DELETE", kind.path(namespace, name), body=options)

    async def bind(self, namespace: str, name: str, binding: Object) -> None:
        await self._request("POST", POD.path(namespace, name, "binding"), body=binding)

    async def evict(self, namespace: str, name: str, eviction: Object) -> None:
        await self._request("POST", POD.path(namespace, name, "eviction"), body=eviction)

    async def log(
        self, namespace: str, name: str, *, container: str = "", how: LogOptions = EVERYTHING
    ) -> AsyncIterator[bytes]:
        query = {"container": container} if container else {}
        for option in ("follow", "previous", "timestamps"):
            if getattr(how, option):
                query[option] = "true"
        if how.every_start:
            query[EVERY_START] = "true"
        if how.tail is not None:
            query["tailLines"] = str(how.tail)
        if isinstance(how.since, timedelta):
            query["sinceSeconds"] = str(max(1, math.ceil(how.since.total_seconds())))
        elif how.since is not None:
            query["sinceTime"] = how.since.isoformat()
        async for chunk in self._chunks(self._logs, POD.path(namespace, name, "log"), query):
            yield chunk

    async def _headers(self) -> Mapping[str, str]:
        """The credentials. The loop does not wait while a plug-in runs."""
        if self._connection.expired():
            return await in_thread(self._connection.headers)
        return self._connection.headers()

    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        body: Patch | None = None,
        media: str = "application/json",
    ) -> bytes:
        payload = msgspec.json.encode(body) if body is not None else None
        kept = {"Content-Type": media} if body is not None else {}
        for _ in range(READS - 1):
            try:
                return await self._request_once(method, path, query, payload, kept)
            except errors.ApiError as error:
                if method != "GET" or error.retry_after is None:
                    raise
                await self._sleep(error.retry_after)
        return await self._request_once(method, path, query, payload, kept)

    async def _request_once(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        payload: bytes | None,
        kept: Mapping[str, str],
    ) -> bytes:
        """Sends a request: once more if it is refused as Unauthorized and there are other credentials."""
        await self._bucket.take()
        sent = await self._headers()
        try:
            return await self._send(method, path, query, payload, _with(sent, kept))
        except errors.Unauthorized:
            if not await in_thread(lambda: self._connection.refused(sent)):
                raise
        return await self._send(method, path, query, payload, _with(await self._headers(), kept))

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        payload: bytes | None,
        headers: Mapping[str, str],
    ) -> bytes:
        path, asked = self._prefix + path, time.monotonic()
        try:
            if method == "GET" or self._connection.proxy:
                answer = await self._fetch(method, path, query, payload, headers)
            else:
                every = chain(_ALWAYS.items(), headers.items())
                answer = await self._wire.send(method, path, (query or {}).items(), every, payload or b"")
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, NotConnected) as error:
            raise errors.Unreachable(f"{self._connection.server}: {error}") from error
        except (aiohttp.ClientError, OSError) as error:  # a TimeoutError is an OSError
            raise errors.Unanswered(f"{method} {path}: {error or type(error).__name__}") from error
        self._answered(method, answer.status, time.monotonic() - asked)
        _raise_for_status(path, answer)
        return answer.body

    async def _fetch(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        payload: bytes | None,
        headers: Mapping[str, str],
    ) -> Answer:
        async with self._session.request(
            method, path, params=query, data=payload, headers=headers, server_hostname=self._server_name
        ) as response:
            return await _answer(response)

    async def _chunks(
        self, session: aiohttp.ClientSession, path: str, query: Mapping[str, str]
    ) -> AsyncIterator[bytes]:
        """The body of a GET as it arrives."""
        sent = await self._headers()
        try:
            async for chunk in self._stream(session, path, query, sent):
                yield chunk
            return
        except errors.Unauthorized:  # raised before the first chunk only
            if not await in_thread(lambda: self._connection.refused(sent)):
                raise
        async for chunk in self._stream(session, path, query, await self._headers()):
            yield chunk

    async def _stream(
        self,
        session: aiohttp.ClientSession,
        path: str,
        query: Mapping[str, str],
        sent: Mapping[str, str],
    ) -> AsyncIterator[bytes]:
        headers = _with(sent, {"Accept-Encoding": "identity"})
        try:
            async with session.get(
                self._prefix + path,
                params=query,
                headers=headers,
                timeout=STREAM_TIMEOUT,
                server_hostname=self._server_name,
            ) as response:
                if response.status >= 400:
                    _raise_for_status(path, await _answer(response))
                async for chunk in response.content.iter_any():
                    yield chunk
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise errors.Unreachable(f"{self._connection.server}: {error}") from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise errors.Unanswered(f"GET {path}: {error or type(error).__name__}") from error

    async def _lines(self, path: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        rest = b""
        async for chunk in self._chunks(self._session, path, query):
            *lines, rest = (rest + chunk if rest else chunk).split(b"\n")
            for line in lines:
                if line:
                    yield line
            await asyncio.sleep(0)  # a busy watch must not starve other tasks


def _with(headers: Mapping[str, str], more: Mapping[str, str]) -> CIMultiDict[str]:
    """Returns the headers of a request; some of the credentials' may occur several times."""
    found = CIMultiDict(headers)
    found.update(more)
    return found


def _kept_alive(address: AddrInfoType) -> socket.socket:
    """Returns a socket whose dead peer is noticed within 30 s: a watch may be silent for a minute."""
    family, type_, protocol, _, _ = address
    made = socket.socket(family, type_, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):  # not on every platform
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made


_json: Final = msgspec.json.Decoder(dict[str, Any])  # Any: JSON


class _Resource(msgspec.Struct, frozen=True):
    name: str


class _Resources(msgspec.Struct, frozen=True):
    """An APIResourceList: the resources of a version of a group."""

    resources: list[_Resource] = []


_resources: Final = msgspec.json.Decoder(_Resources)


def _object(kind: Kind[R], content: bytes | msgspec.Raw) -> R:
    return _understood(lambda raw: decode(kind, raw), content)


def _understood(read: Callable[[B], T], content: B) -> T:
    """Decodes an answer. Raises `Unanswered` if it cannot: whether a write took effect is then unknown."""
    try:
        return read(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise errors.Unanswered(f"the answer cannot be understood: {error}") from error


def _selectors(labels: str, fields: str) -> dict[str, str]:
    return {key: value for key, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}


async def _answer(response: aiohttp.ClientResponse) -> Answer:
    """Reads an answer. Raises `Unanswered` if it is larger than any page of a list."""
    pieces, size = list[bytes](), 0
    async for piece in response.content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > MOST_BYTES:
            raise errors.Unanswered(f"an answer of more than {MOST_BYTES >> 20} MiB")
    return Answer(response.status, b"".join(pieces), response.headers.get("Retry-After", ""))


def _raise_for_status(path: str, answer: Answer) -> None:
    if answer.status < 400:
        return
    try:
        status = msgspec.json.decode(answer.body, type=dict[str, Any])  # Any: a Status' details are open
    except msgspec.DecodeError:
        said = answer.body.decode(errors="replace").strip()[:500]
        # a path of no known API group; most often the kind's definition is not installed
        if answer.status == 404:
            said = f"it does not serve {path}; is the CustomResourceDefinition of this kind installed?"
        status = {"message": said}
    raise errors.from_status(status, answer.status, _pause(answer.retry_after))


def _pause(asked: str) -> float | None:
    """Returns the seconds of a Retry-After, `LONGEST_PAUSE` at most; None if it says no number of seconds."""
    seconds = natural(asked)
    return None if seconds is None else min(float(seconds), LONGEST_PAUSE)
