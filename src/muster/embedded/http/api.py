"""The HTTP API of the embedded cluster: Kubernetes' paths and JSON, as one ASGI function.

This module knows URLs, verbs, media types and streams. The registry knows what they mean.
It is one function without a framework, because watches are most of the load: a batch of changes is one send,
and a client that does not read is disconnected instead of buffered for. Every path except health requires the
token.

    GET     /version, /api, /apis, …                 what is served
    POST    /apis/authorization.k8s.io/v1/…          who is asking, and what they may do
    GET     /api/v1/namespaces/NS/pods[?watch=1]     list, watch
    GET     …/pods/NAME[/log]                        get, log
    GET     …/pods/NAME/exec                         run a command, over a WebSocket
    POST    …/pods[/NAME/{binding,eviction}]         create, bind, evict
    PUT     …/pods/NAME[/status]                     update
    PATCH   …/pods/NAME[/status]                     merge, strategic merge and JSON patch
    DELETE  …/pods[/NAME]                            delete, delete all that match
"""

import hmac
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import msgspec

from muster.api import kinds
from muster.embedded.client import LogSource
from muster.embedded.http import admittance, channels, reviews, tables, writing
from muster.embedded.http.answer import Answer, Send, Stream, failure, send_answer, send_stream
from muster.embedded.http.channels import Executor
from muster.embedded.http.discovery import document
from muster.embedded.http.request import Disconnected, Receive, Request, Scope, Target, target_of
from muster.embedded.http.tables import Table
from muster.embedded.schema import openapi
from muster.embedded.verbs import options
from muster.embedded.verbs.containers import log_target
from muster.embedded.verbs.registry import Registry
from muster.embedded.verbs.watching import Frame, Frames
from muster.kube.client import EVERY_START, LogOptions
from muster.kube.errors import (
    ApiError,
    BadRequest,
    MethodNotAllowed,
    NotFound,
    ServerError,
    Unauthorized,
)

App = Callable[[Scope, Receive, Send], Awaitable[None]]

#: Seconds that a watcher may take to read what was sent before it is disconnected.
SLOW: Final = 30.0
#: Seconds that a watch lasts unless the client asks for less.
WATCH: Final = 1800.0

_STREAMED: Final = ("exec", "attach", "portforward")
_HEALTH: Final = ("/healthz", "/livez", "/readyz")
log = logging.getLogger(__name__)


def http_api(registry: Registry, logs: LogSource, token: str, executor: Executor | None = None) -> App:
    """The ASGI application. Without an `executor`, no command can be started in a container."""
    expected = b"Bearer " + token.encode()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return
        request = Request(scope, receive)
        result: Answer | Stream
        try:
            if scope["path"] not in _HEALTH and not hmac.compare_digest(
                request.header(b"authorization"), expected
            ):
                raise Unauthorized("a bearer token is needed: use the kubeconfig of this cluster")
            if scope["path"] not in _HEALTH:
                admittance.admit(scope)
            if scope["type"] == "websocket":
                await _execute(registry, executor, request, receive, send)
                return
            result = await _handle(registry, logs, request)
        except ApiError as error:
            result = failure(error)
        except Disconnected:
            return
        except Exception:
            log.exception("%s %s", request.method, request.path)
            result = failure(ServerError("the server failed; its log has the reason"))
        if isinstance(result, Stream):
            await send_stream(result, receive, send)
        elif scope["type"] == "websocket":
            await channels.refuse(result, send)
        else:
            await send_answer(result, send)

    return app


async def _handle(registry: Registry, logs: LogSource, request: Request) -> Answer | Stream:
    if request.path in _HEALTH:
        return Answer(200, b"ok", ((b"content-type", b"text/plain"),))
    if request.method == "GET" and (found := document(request.path)) is not None:
        return Answer(200, msgspec.json.encode(found))
    if request.method == "GET" and request.path.startswith((openapi.ROOT, openapi.OLDER)):
        if (body := openapi.document(request.path.rstrip("/"))) is None:
            raise NotFound(f"{request.path} is not served here")
        return Answer(200, body)
    if request.method == "POST" and (review := reviews.at(request.path)) is not None:
        return Answer(201, msgspec.json.encode(reviews.answer(review, await request.json())))
    target = target_of(request.path)
    if target.subresource in _STREAMED:
        raise BadRequest(
            f"{target.subresource} is not possible this way: commands run over a WebSocket (kubectl 1.30 or "
            "later), and neither attach nor port-forward is supported"
        )
    called = request.method, bool(target.name)
    if called not in _READS and called not in _WRITES:
        raise MethodNotAllowed(f"{request.method} is not possible on {request.path}")
    if request.header(b"impersonate-user"):
        raise BadRequest("impersonation is not supported; leave Impersonate-User (kubectl: --as) out")
    more = ("force",) if request.media_type == writing.APPLY else ()
    options.check(request.method, bool(target.name), request.parameters, more)
    if called in _READS:
        return await _READS[called](registry, logs, target, request)
    return await _WRITES[called](registry, target, request)


async def _execute(
    registry: Registry, executor: Executor | None, request: Request, receive: Receive, send: Send
) -> None:
    target = target_of(request.path)
    if target.kind is not kinds.POD or target.subresource != "exec" or executor is None:
        raise NotFound(f"{request.path} is not served over a WebSocket; only exec of pods is")
    await channels.serve(registry, executor, target, request, receive, send)


async def _read(registry: Registry, logs: LogSource, target: Target, request: Request) -> Answer | Stream:
    if target.subresource == "log" and target.kind is kinds.POD:
        return _log(registry, logs, target, request)
    if request.flag("watch"):
        raise BadRequest(f"watch the list, with fieldSelector=metadata.name={target.name}")
    if target.subresource not in ("", "status"):
        raise NotFound(f"{target.kind.plural} have no {target.subresource}")
    body = registry.get(target.kind, target.namespace, target.name)
    if (table := _table(target, request)) is not None:
        return Answer(200, table.encode([body], {}, registry.now()))
    return Answer(200, body)


async def _list(registry: Registry, logs: LogSource, target: Target, request: Request) -> Answer | Stream:
    labels, fields = request.query("labelSelector"), request.query("fieldSelector")
    version = request.number("resourceVersion") or 0
    table = _table(target, request)
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
        if table is not None:
            return Stream(_lines(frames, _as_rows(table, registry)), b"application/json", SLOW)
        return Stream(_lines(frames, Frame.encode), b"application/json", SLOW)
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
    if table is not None:
        return Answer(200, table.encode(page.items, page.metadata(), registry.now()))
    return Answer(200, page.encode(target.kind))


#: Handlers by method and whether the path names an object.
_READS: Final = {("GET", True): _read, ("GET", False): _list}
_WRITES: Final = {
    ("POST", False): writing.create,
    ("POST", True): writing.subcreate,
    ("PUT", True): writing.update,
    ("PATCH", True): writing.patch,
    ("DELETE", True): writing.delete,
    ("DELETE", False): writing.delete_all,
}


def _table(target: Target, request: Request) -> Table | None:
    return tables.asked(target.kind, request.header(b"accept"), request.query("includeObject"))


def _as_rows(table: Table, registry: Registry) -> Callable[[Frame], bytes]:
    return lambda frame: table.event(frame.type, frame.body, frame.revision, registry.now())


def _log(registry: Registry, logs: LogSource, target: Target, request: Request) -> Stream:
    how = LogOptions(
        follow=request.flag("follow"),
        tail=request.number("tailLines"),
        previous=request.flag("previous"),
        since=options.since(request.number("sinceSeconds"), request.query("sinceTime")),
        timestamps=request.flag("timestamps"),
        every_start=request.flag(EVERY_START),
    )
    pod = msgspec.json.decode(registry.get(kinds.POD, target.namespace, target.name))
    meant = log_target(pod, request.query("container"), how, registry.now())
    return Stream(
        logs.read(target.namespace, target.name, meant.pod_uid, meant.container, meant.how),
        b"text/plain",
        None,  # the log is kept in its file, so its reader may pause
    )


async def _lines(batches: AsyncIterator[Frames], encode: Callable[[Frame], bytes]) -> AsyncIterator[bytes]:
    """The lines of a watch. If it fails in the middle (a watcher too slow), the error is the last line."""
    try:
        async for frames in batches:
            yield b"".join(map(encode, frames))
    except ApiError as error:
        yield b'{"type":"ERROR","object":%b}\n' % msgspec.json.encode(error.as_status())
