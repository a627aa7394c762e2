"""The ASGI application of the pages, and the server that runs it on a loopback address.

    GET /…           a page; with `Accept: text/vnd.muster.main` only what is in <main>
    GET /events      server-sent events: the revision of the cluster, whenever it changes
    GET /static/…    style sheet and scripts, which are part of the package
    POST /…          a form of a page, with the token of its viewer

Nothing else is answered: no other method, and no request without access (`access.py`).
"""

import asyncio
import gzip
import logging
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from hashlib import sha256
from typing import Any, Final, Protocol

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from muster.dashboard.access import HEADERS, Access, Answer, Viewer, first_values, form_of
from muster.dashboard.cluster import Cluster
from muster.dashboard.connections import Connection
from muster.dashboard.pages import HERE, Page, Pages

HOST: Final = "127.0.0.1"
log = logging.getLogger(__name__)
#: Seconds after which an idle stream of events says that it is there.
IDLE: Final = 15.0
#: Viewers that are told of changes at once; of more, each loads pages only.
VIEWERS: Final = 200
#: Of them, those of one user.
STREAMS: Final = 50
#: What live.js accepts.
MAIN: Final = "text/vnd.muster.main"


class PortTaken(Exception):
    """The port of --port is in use."""


class Gate(Protocol):
    """Decides who has access."""

    async def admit(self, request: Request) -> Viewer | Response | None:
        """The viewer; or what is answered instead; None: no viewer is needed."""
        ...


def application(cluster: Cluster, pages: Pages, gate: Gate) -> ASGIApp:
    """The whole application."""
    viewers, streams = asyncio.Semaphore(VIEWERS), Counter[str]()

    async def page(request: Request) -> Response:
        viewer: Viewer = request.scope[VIEWER]
        query = first_values(request.query_params.multi_items())
        try:
            if request.method == "POST":
                sent = await form_of(request)
                if isinstance(sent, str):
                    found = pages.problem(400, "This form cannot be read", sent)
                elif not viewer.sent(request.headers, sent):
                    text = (
                        "It is not from a page that this browser was shown. Open the page again, and send it."
                    )
                    found = pages.problem(403, "This form is not accepted", text)
                else:
                    found = await pages.sent(request.url.path, query, sent, viewer)
                return _answered(found)
            found = await pages.page(request.url.path, query, viewer)
        except Exception:  # one object that cannot be shown leaves the other pages as they are
            log.exception("%s cannot be shown", request.url.path)
            found = pages.problem(500, "This page cannot be shown", "The terminal of the dashboard says why.")
        html = found.html
        if MAIN in request.headers.get("accept", ""):
            html = html[html.index("<main") : html.index("</main>") + len("</main>")]
        tag = f'"{sha256(html.encode()).hexdigest()[:32]}"'
        headers = {"ETag": tag, "Vary": "Accept, Accept-Encoding, Cookie"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        body = html.encode()
        if "gzip" in request.headers.get("accept-encoding", ""):
            body, headers["Content-Encoding"] = gzip.compress(body, 1), "gzip"
        return Response(body, found.status, headers, "text/html")

    async def events(request: Request) -> Response:
        viewer: Viewer = request.scope[VIEWER]
        if request.method == "HEAD":  # whether it may: a stream without a body would hold its connection
            return Response(media_type="text/event-stream")
        if viewers.locked() or streams[viewer.name] >= STREAMS:
            return Response("too many viewers", 503)

        async def stream() -> AsyncIterator[bytes]:
            async with viewers:
                streams[viewer.name] += 1
                changes = cluster.changes()
                waiting = asyncio.ensure_future(anext(changes))
                try:
                    while await viewer.stays():
                        done, _ = await asyncio.wait([waiting], timeout=IDLE)
                        if not done:
                            yield b": still here\n\n"
                            continue
                        yield f"event: changed\ndata: {waiting.result()}\n\n".encode()
                        waiting = asyncio.ensure_future(anext(changes))
                finally:
                    waiting.cancel()
                    streams[viewer.name] -= 1
                    if not streams[viewer.name]:
                        del streams[viewer.name]

        return StreamingResponse(stream(), media_type="text/event-stream")

    routes = [
        Route("/events", events),
        Mount("/static", StaticFiles(directory=HERE / "static")),
        Route("/{path:path}", page, methods=["GET", "POST"]),
    ]
    return _Guarded(Starlette(routes=routes), pages, gate)


#: Where the viewer is in the scope of a request.
VIEWER: Final = "muster.viewer"


def _answered(page: Page) -> Response:
    """The answer to a form."""
    if page.location:
        return RedirectResponse(page.location, 303)
    return Response(page.html, page.status, media_type="text/html")


class _Guarded:
    """Lets requests pass that have access, and sets the headers of all answers."""

    def __init__(self, app: ASGIApp, pages: Pages, gate: Gate) -> None:
        self._app, self._pages, self._gate = app, pages, gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # no WebSocket is accepted

        async def with_headers(message: Any) -> None:  # Any: ASGI's
            if message["type"] == "http.response.start":
                more = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message.get("headers", ()), *more]
            await send(message)

        request = Request(scope, receive)
        found = await self._gate.admit(request)
        if isinstance(found, Response):
            await found(scope, receive, with_headers)
        elif request.method not in ("GET", "HEAD", "POST"):
            text = "They are read, and their forms are sent."
            page = self._pages.problem(405, "Not a method of these pages", text)
            await Response(page.html, page.status, media_type="text/html")(scope, receive, with_headers)
        else:
            scope[VIEWER] = found
            await self._app(scope, receive, with_headers)


class Once:
    """Lets the browser pass that has opened the address first (`access.Access`)."""

    def __init__(self, access: Access, pages: Pages) -> None:
        self._access, self._pages = access, pages

    async def admit(self, request: Request) -> Viewer | Response:
        url = request.url
        match self._access.judge(request.headers, request.query_params.get("token")):
            case Answer.WRONG_HOST:
                text = "This address is not the one that `muster dashboard` has printed."
                return self._problem(421, "Another host", text)
            case Answer.NO_ACCESS:
                text = "Open the address that `muster dashboard` prints. It is valid once."
                text += " Run it again for another."
                return self._problem(403, "No access", text)
            case Answer.COOKIE:
                there = url.remove_query_params("token")
                address = there.path + (f"?{there.query}" if there.query else "")
                return RedirectResponse(
                    "/" + address.lstrip("/"), 303, headers={"Set-Cookie": self._access.cookie}
                )
        return self._access.viewer

    def _problem(self, status: int, title: str, message: str) -> Response:
        return Response(self._pages.problem(status, title, message).html, status, media_type="text/html")


@asynccontextmanager
async def serving(
    make: Callable[[int], ASGIApp], port: int, host: str = HOST, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """A context that serves what `make` returns for a port, which it yields.

    `port`: 0 for any. `host`: "" for all addresses. `tls`: None for plain HTTP. Raises PortTaken.
    """
    try:
        listener = socket.create_server(
            (host, port),
            family=socket.AF_INET if "." in host else socket.AF_INET6,
            dualstack_ipv6=not host and socket.has_dualstack_ipv6(),
        )
    except OSError as error:
        raise PortTaken(f"port {port} of {host or 'this machine'} cannot be used: {error.strerror}") from None
    number: int = listener.getsockname()[1]
    config = uvicorn.Config(
        make(number),
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        limit_concurrency=4 * VIEWERS,
        ssl_context_factory=None if tls is None else lambda config, default: tls,
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield number
    finally:
        server.should_exit = True
        await task
        listener.close()


class _Server(uvicorn.Server):
    """A server that leaves signals to its caller."""

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]  # a plain context will do
        return nullcontext()
