"""Serves the HTTP API over TLS on a loopback address, with uvicorn.

Every user of the machine can connect to it. What a connection may cost before it has shown the token is
bounded (`muster.embedded.http.admittance`).
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

import uvicorn

from muster.embedded.http.admittance import Connection, Lobby
from muster.embedded.http.api import App

HOST: Final = "127.0.0.1"
#: Seconds that pending requests may take when the server stops; watches end at once.
GRACE: Final = 1


class ServingError(Exception):
    """The server could not start; the message says why."""


@asynccontextmanager
async def serving(app: App, home: Path, port: int = 0) -> AsyncIterator[str]:
    """A context that serves `app` and yields the URL. A port that is in use is replaced by a free one."""
    listener = _listen(port)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(home / "server.crt", home / "server.key")
    lobby = Lobby(context)
    server = _Server(
        lobby,
        uvicorn.Config(
            app,
            http="httptools",
            ws=_web_socket,  # type: ignore[arg-type]  # it is only called
            ws_per_message_deflate=False,
            ws_ping_interval=None,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=120,
            timeout_graceful_shutdown=GRACE,
        ),
    )
    task = asyncio.create_task(server.serve(sockets=[listener]))
    started = asyncio.create_task(server.listening.wait())
    await asyncio.wait({task, started}, return_when=asyncio.FIRST_COMPLETED)
    try:
        if not server.listening.is_set():
            started.cancel()
            raise ServingError("the server could not start; the host's log has the reason")
        yield f"https://{HOST}:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        listener.close()
        lobby.close()
        await server.abort()


def _listen(port: int) -> socket.socket:
    for candidate in (port, 0):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, candidate))
        except OSError:
            listener.close()
            continue
        listener.listen(512)
        listener.setblocking(False)
        return listener
    raise ServingError(f"no port is free on {HOST}")


def _web_socket(**arguments: Any) -> asyncio.Protocol:  # Any: uvicorn's
    """The protocol of a WebSocket. It is imported with the first one, as most clusters never see any."""
    from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

    return WebSocketsSansIOProtocol(**arguments)


class _Server(uvicorn.Server):
    """A server that leaves signals to its caller and sets `listening` once it listens."""

    def __init__(self, lobby: Lobby, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self._lobby = lobby
        self._accepting: asyncio.Task[None] | None = None

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]  # a plain context will do
        return nullcontext()

    async def abort(self) -> None:
        """Aborts open connections: of clients that never read, or do not answer when asked to close."""
        for connection in list(self.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()
        await asyncio.sleep(0)  # the loop informs their protocols

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        assert sockets is not None
        self._accepting = asyncio.create_task(self._lobby.accept(sockets[0], self._connection))
        self.listening.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
        await super().shutdown(sockets)

    def _connection(self) -> Connection:
        return Connection(self._lobby, self.config, self.server_state, self.lifespan.state)
