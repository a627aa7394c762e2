"""The HTTP API of the embedded cluster: Kubernetes' paths and JSON, as one ASGI function.

This module knows URLs, verbs, media types and streams. The registry knows what they mean.
It is one function without a framework, because watches are most of the load: a batch of changes is one send,
and a client that does not read is disconnected instead of buffered for. Every path except health requires the
token.

    GET     /version, /api, /apis, …                 what is served
    GET     /api/v1/namespaces/NS/pods[?watch=1]     list, watch
    GET     …/pods/NAME[/log]                        get, log
    POST    …/pods[/NAME/{binding,eviction}]         create, bind, evict
    PUT     …/pods/NAME[/status]                     update
    PATCH   …/pods/NAME[/status]                     merge patch, JSON patch
    DELETE  …/pods[/NAME]                            delete, delete all that match
"""

import asyncio
import hmac
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, unquote

import msgspec

from muster.api import kinds
from muster.api.base import Kind, Object
from muster.api.fields import TOO_DEEP, too_deep
from muster.kube.client import LogOptions
from muster.kube.errors import (
    ApiError,
    BadRequest,
    MethodNotAllowed,
    NotFound,
    ServerError,
    TooLarge,
    Unauthorized,
    UnsupportedMediaType,
)
from muster.local import options
from muster.local.client import LogSource
from muster.local.discovery import document
from muster.local.registry import Registry

# Any: ASGI's messages are open dictionaries
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

#: Largest request body in bytes: etcd's default of 1.5 MiB with room for the encoding.
LARGEST: Final = 3 * 2**20
#: Seconds that a watcher may take to read what was sent before it is disconnected.
SLOW: Final = 30.0
#: Seconds that a watch lasts unless the client asks for less.
WATCH: Final = 1800.0

_JSON: Final = (b"content-type", b"application/json")
_PATCHES: Final = {"application/merge-patch+json": dict, "application/json-patch+json": list}
_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_HEALTH: Final = ("/healthz", "/livez", "/readyz")
log = logging.getLogger(__name__)


class Target(NamedTuple):
    """The object or collection that a path names."""

    kind: Kind[Any]  # Any: a kind out of the table of all kinds
    namespace: str
    name: str
    subresource: str


class Answer(NamedTuple):
    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = (_JSON,)


class Stream(NamedTuple):
    chunks: AsyncIterator[bytes]
    media: bytes
    #: seconds that the client may take to read a chunk
    patience: float | None


def door(registry: Registry, logs: LogSource, token: str) -> App:
    """The ASGI application."""
    expected = b"Bearer " + token.encode()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        try:
            if scope["path"] not in _HEALTH and not hmac.compare_digest(
                request.header(b"authorization"), expected
            ):
                raise Unauthorized("a bearer token is needed: use the kubeconfig of this cluster")
            result = await _handle(registry, logs, request)
        except ApiError as error:
            result = _refusal(error)
        except Disconnected:
            return
        except Exception:
            log.exception("%s %s", scope["method"], scope["path"])
            result = _refusal(ServerError("the server failed; its log has the reason"))
        if isinstance(result, Answer):
            await _answer(result, send)
        else:
            await _stream(result, receive, send)

    return app


class Disconnected(Exception):
    """The client disconnected in the middle of its request."""


class Request:
    """One HTTP request: its headers, its query, its body."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self._headers: dict[bytes, bytes] = dict(scope["headers"])
        self.parameters = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        self._receive = receive

    def header(self, name: bytes) -> bytes:
        return self._headers.get(name, b"")

    def query(self, name: str) -> str:
        values: list[str] = self.parameters.get(name, [""])
        return values[-1]

    def flag(self, name: str) -> bool:
        return self.query(name).lower() in ("1", "true")

    def number(self, name: str) -> int | None:
        text = self.query(name)
        if not text:
            return None
        if not text.isdecimal() or len(text) > 18:
            raise BadRequest(f"{name}={text} is not a number")
        return int(text)

    @property
    def dry_run(self) -> bool:
        return options.is_dry(self.parameters.get("dryRun", ()))

    @property
    def media_type(self) -> str:
        given = str(self.header(b"content-type"), "latin-1")
        return given.partition(";")[0].strip().lower()

    async def body(self) -> bytes:
        declared = self.header(b"content-length")
        if declared.isdigit() and int(declared) > LARGEST:
            raise TooLarge(f"the body has {int(declared)} bytes; the limit is {LARGEST}")
        chunks, size = [], 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if size > LARGEST:
                raise TooLarge(f"the body is larger than the limit of {LARGEST} bytes")
            if not message.get("more_body"):
                return b"".join(chunks)

    async def json(self, type_: type[Any] = dict) -> Any:
        """The body as a JSON value of type `type_`. Any: the user may send any content."""
        body = await self.body()
        try:
            value = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadRequest(f"the body is not JSON: {error}") from None
        if not isinstance(value, type_):
            what = "a JSON object" if type_ is dict else "a list of operations"
            raise BadRequest(f"the body is not {what}")
        if too_deep(body, value):
            raise BadRequest(f"the body {TOO_DEEP}")
        return value


async def _handle(registry: Registry, logs: LogSource, request: Request) -> Answer | Stream:
    if request.path in _HEALTH:
        return Answer(200, b"ok", ((b"content-type", b"text/plain"),))
    if request.method == "GET" and (found := document(request.path)) is not None:
        return Answer(200, msgspec.json.encode(found))
    target = _target(request.path)
    handler = _VERBS.get((request.method, bool(target.name)))
    if handler is None:
        raise MethodNotAllowed(f"{request.method} is not possible on {request.path}")
    if request.header(b"impersonate-user"):
        raise BadRequest("impersonation is not supported; leave Impersonate-User (kubectl: --as) out")
    if request.media_type == _PROTOBUF:
        raise UnsupportedMediaType("protobuf is not supported; send JSON (kubectl: create -f FILE)")
    options.check(request.method, bool(target.name), request.parameters)
    return await handler(registry, logs, target, request)


def _target(path: str) -> Target:
    """The target of a path such as `/api/v1/namespaces/ns/pods/name/log`."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[:1] == ["api"] and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise NotFound(f"{path} is not served here")
    namespace = ""
    # namespaces/NS is an object itself, and the prefix of the paths of all objects in it
    if rest[0] == "namespaces" and len(rest) > 2 and (group, rest[2]) != ("", "status"):
        namespace, rest = rest[1], rest[2:]
    kind = kinds.BY_PLURAL.get((group, version, rest[0]))
    if kind is None or len(rest) > 3 or (namespace and not kind.namespaced):
        raise NotFound("the server could not find the requested resource")
    name, subresource = (*rest[1:], "", "")[:2]
    if name and kind.namespaced and not namespace:
        raise NotFound(f"{kind.plural} live in a namespace: …/namespaces/NS/{kind.plural}/{name}")
    return Target(kind, namespace, name, subresource)


async def _read(registry: Registry, logs: LogSource, target: Target, request: Request) -> Answer | Stream:
    if target.subresource == "log" and target.kind is kinds.POD:
        return _log(registry, logs, target, request)
    if request.flag("watch"):
        raise BadRequest(f"watch the list, with fieldSelector=metadata.name={target.name}")
    if target.subresource not in ("", "status"):
        raise NotFound(f"{target.kind.plural} have no {target.subresource}")
    return Answer(200, registry.get(target.kind, target.namespace, target.name))


async def _list(registry: Registry, logs: LogSource, target: Target, request: Request) -> Answer | Stream:
    labels, fields = request.query("labelSelector"), request.query("fieldSelector")
    version = request.number("resourceVersion") or 0
    if request.flag("watch"):
        if request.flag("sendInitialEvents"):
            raise BadRequest("sendInitialEvents is not supported: list, then watch from its resourceVersion")
        frames = registry.watch(
            target.kind,
            target.namespace,
            revision=version,
            labels=labels,
            fields=fields,
            bookmarks=request.flag("allowWatchBookmarks"),
            timeout=min(WATCH, request.number("timeoutSeconds") or WATCH),
        )
        return Stream(_lines(frames), b"application/json", SLOW)
    exact = request.query("resourceVersionMatch") == "Exact"
    page = registry.list(
        target.kind,
        target.namespace,
        labels=labels,
        fields=fields,
        limit=request.number("limit") or 0,
        token=request.query("continue"),
        revision=version if exact else 0,
    )
    return Answer(200, page.encode(target.kind))


async def _create(registry: Registry, logs: LogSource, target: Target, request: Request) -> Answer:
    body = await request.json()
    with registry.rehearsal(request.dry_run):
        return Answer(201, registry.create(target.kind, target.namespace, body))


async def _subcreate(registry: Registry, logs: LogSource, target: Target, request: Request) -> Answer:
    body = await request.json()
    with registry.rehearsal(request.dry_run):
        if target.kind is kinds.POD and target.subresource == "binding":
            registry.bind(target.namespace, target.name, body)
        elif target.kind is kinds.POD and target.subresource == "eviction":
            registry.evict(target.namespace, target.name, body)
        else:
            raise MethodNotAllowed(f"POST is not possible on {request.path}")
    return Answer(201, _success())


async def _update(registry: Registry, logs: LogSource, target: Target, request: Request) -> Answer:
    kind, namespace, name, subresource = target
    body = await request.json()
    with registry.rehearsal(request.dry_run):
        return Answer(200, registry.update(kind, namespace, name, body, subresource=subresource))


async def _patch(registry: Registry, logs: LogSource, target: Target, request: Request) -> Answer:
    kind, namespace, name, subresource = target
    type_ = _PATCHES.get(request.media_type)
    if type_ is None:
        raise UnsupportedMediaType(
            f"patches of type {request.media_type} are not supported; send {' or '.join(_PATCHES)}"
        )
    body = await request.json(type_)
    with registry.rehearsal(request.dry_run):
        return Answer(200, registry.patch(kind, namespace, name, body, subresource=subresource))


async def _delete(registry: Registry, logs: LogSource, target: Target, request: Request) -> Answer:
    given = options.of_deletion(await request.body(), request.parameters)
    if target.subresource:
        raise MethodNotAllowed(f"DELETE is not possible on {request.path}")
    with registry.rehearsal(given.is_dry):
        body = registry.delete(target.kind, target.namespace, target.name, given.meant())
        if target.kind is not kinds.POD and _is_gone(registry, target):
            return Answer(200, _success({"kind": target.kind.plural, "name": target.name}))
        return Answer(200, body)


async def _delete_all(registry: Registry, logs: LogSource, target: Target, request: Request) -> Answer:
    given = options.of_deletion(await request.body(), request.parameters)
    if target.kind is kinds.NAMESPACE or (target.kind.namespaced and not target.namespace):
        raise MethodNotAllowed(f"DELETE is not possible on {request.path}: delete within one namespace")
    labels, fields = request.query("labelSelector"), request.query("fieldSelector")
    with registry.rehearsal(given.is_dry):
        deleted = registry.delete_collection(
            target.kind, target.namespace, given.meant(), labels=labels, fields=fields
        )
        return Answer(200, deleted.encode(target.kind))


#: Handlers by method and whether the path names an object.
_VERBS: Final = {
    ("GET", True): _read,
    ("GET", False): _list,
    ("POST", False): _create,
    ("POST", True): _subcreate,
    ("PUT", True): _update,
    ("PATCH", True): _patch,
    ("DELETE", True): _delete,
    ("DELETE", False): _delete_all,
}


def _is_gone(registry: Registry, target: Target) -> bool:
    try:
        registry.get(target.kind, target.namespace, target.name)
    except NotFound:
        return True
    return False


def _log(registry: Registry, logs: LogSource, target: Target, request: Request) -> Stream:
    how = LogOptions(
        follow=request.flag("follow"),
        tail=request.number("tailLines"),
        previous=request.flag("previous"),
        since=options.since(request.number("sinceSeconds"), request.query("sinceTime")),
        timestamps=request.flag("timestamps"),
    )
    meant = registry.log_target(target.namespace, target.name, request.query("container"), how)
    return Stream(
        logs.read(target.namespace, target.name, meant.pod_uid, meant.container, meant.how),
        b"text/plain",
        None,  # the log is kept in its file, so its reader may pause
    )


def _success(details: Object | None = None) -> bytes:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return msgspec.json.encode({**status, "details": details} if details else status)


def _refusal(error: ApiError) -> Answer:
    headers = [_JSON]
    if error.retry_after is not None:
        headers.append((b"retry-after", str(max(1, round(error.retry_after))).encode()))
    return Answer(error.status, msgspec.json.encode(error.as_status()), tuple(headers))


async def _lines(batches: AsyncIterator[list[Any]]) -> AsyncIterator[bytes]:
    """The lines of a watch. If it fails in the middle (a watcher too slow), the error is the last line."""
    try:
        async for frames in batches:
            yield b"".join(frame.encode() for frame in frames)
    except ApiError as error:
        yield b'{"type":"ERROR","object":%b}\n' % msgspec.json.encode(error.as_status())


async def _answer(answer: Answer, send: Send) -> None:
    length = (b"content-length", str(len(answer.body)).encode())
    await send({"type": "http.response.start", "status": answer.status, "headers": [*answer.headers, length]})
    await send({"type": "http.response.body", "body": answer.body})


async def _stream(stream: Stream, receive: Receive, send: Send) -> None:
    """Sends chunks as they arrive, until they end or the client disconnects.

    A client that does not read within `stream.patience` seconds is disconnected.
    """
    head = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", stream.media)]}
    pump = asyncio.create_task(_pump(stream, head, send))
    gone = asyncio.create_task(_disconnect(receive))
    try:
        await asyncio.wait({pump, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (pump, gone):
            task.cancel()
            with suppress(asyncio.CancelledError, TimeoutError):
                await task


async def _pump(stream: Stream, head: MutableMapping[str, Any], send: Send) -> None:
    async with asyncio.timeout(stream.patience):
        await send(head)
        await send({"type": "http.response.body", "body": b"", "more_body": True})
    async for chunk in stream.chunks:
        async with asyncio.timeout(stream.patience):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
