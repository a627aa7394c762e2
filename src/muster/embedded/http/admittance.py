"""Connections whose client has not shown the token: bounded in number, time and bytes.

Every user of the machine can connect to the HTTP API. A connection is a stranger from its beginning, so also
during the TLS handshake, until a request on it has shown the token. A stranger has `SECONDS` and `BYTES`.
There are at most `STRANGERS`: for one more, the oldest is closed, so idle connections exclude no others.
Requests of every connection have at most `HEADERS` bytes of URL and headers.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

log = logging.getLogger(__name__)

SECONDS: Final = 10.0
STRANGERS: Final = 128
#: Bytes that a stranger may send: more than arrives before the first request is looked at.
BYTES: Final = 2**20
#: Bytes of URL and headers of one request; each header counts for `_A_HEADER` more, which it takes in memory.
HEADERS: Final = 64 * 1024
_A_HEADER: Final = 64
#: The key, in the `state` of an ASGI scope, of what is called once a request has shown the token.
_ADMIT: Final = "admit"


def admit(scope: Mapping[str, Any]) -> None:  # Any: ASGI's
    """Says that the client on the connection of this request has shown the token."""
    called = scope.get("state", {}).get(_ADMIT)
    if called is not None:
        called()


class Lobby:
    """All strangers of a server."""

    def __init__(self, context: ssl.SSLContext, strangers: int = STRANGERS, seconds: float = SECONDS) -> None:
        self._context, self._seconds = context, seconds
        self._most = strangers
        self._inside: dict[Connection, asyncio.TimerHandle] = {}  # oldest first

    async def accept(self, listener: socket.socket, made: Callable[[], "Connection"]) -> None:
        """Accepts connections until cancelled; `made` returns the protocol of a new one."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listener)
            except OSError as error:  # such as too many open files
                log.warning("a connection cannot be accepted: %s", error)
                await asyncio.sleep(1.0)
                continue
            connection = made()
            connection.shaking = loop.create_task(self._shake(connection, accepted))
            self.enter(connection)

    async def _shake(self, connection: "Connection", accepted: socket.socket) -> None:
        """Does the TLS handshake."""
        made = False
        try:
            with suppress(OSError):  # of the peer, or of TLS: a stranger's mistakes are not worth a line
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: connection,
                    accepted,
                    ssl=self._context,
                    ssl_handshake_timeout=self._seconds,
                )
                made = True
        finally:
            if not made:
                self.leave(connection)
                accepted.close()

    def enter(self, connection: "Connection") -> None:
        if len(self._inside) >= self._most:
            oldest = next(iter(self._inside))
            self.leave(oldest)
            oldest.abort()
        loop = asyncio.get_running_loop()
        self._inside[connection] = loop.call_later(self._seconds, self._late, connection)

    def leave(self, connection: "Connection") -> None:
        timer = self._inside.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def has(self, connection: "Connection") -> bool:
        return connection in self._inside

    def close(self) -> None:
        """Closes the connections of all strangers."""
        for connection in list(self._inside):
            self._late(connection)

    def _late(self, connection: "Connection") -> None:
        self.leave(connection)
        connection.abort()


class Connection(HttpToolsProtocol):
    """HTTP over an established TLS connection, as uvicorn serves it, within the bounds."""

    def __init__(
        self, lobby: Lobby, config: Config, server_state: ServerState, app_state: dict[str, Any]
    ) -> None:
        # uvicorn copies the state into each request's scope, and passes it on to a WebSocket
        super().__init__(config, server_state, {**app_state, _ADMIT: lambda: lobby.leave(self)})
        self._lobby = lobby
        self.shaking: asyncio.Task[None] | None = None
        self._made: asyncio.Transport | None = None
        self._received = 0  # bytes, all together
        self._head: object = None  # of the request whose URL and headers are being received
        self._unparsed = 0  # bytes received of them
        self._parsed = 0  # and what they take in memory

    def abort(self) -> None:
        """Closes the connection at once, also during its handshake."""
        if self._made is not None:
            self._made.abort()
        elif self.shaking is not None:
            self.shaking.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made = cast(asyncio.Transport, transport)
        super().connection_made(self._made)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lobby.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        if self._received > BYTES and self._lobby.has(self):
            self.abort()
            return
        head = self._head
        super().data_received(data)
        if head is not None and head is self._head:
            self._unparsed += len(data)
            if self._unparsed > HEADERS:  # one that does not end is passed to no callback
                self.abort()

    def on_message_begin(self) -> None:
        self._head, self._unparsed, self._parsed = object(), 0, 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + _A_HEADER)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head = None
        super().on_headers_complete()

    def _count(self, size: int) -> None:
        self._parsed += size
        if self._parsed > HEADERS:
            raise ValueError("URL and headers are too long")  # uvicorn answers 400, and closes
