"""Connections of viewers that have to move on: what a slow or silent client may hold is bounded in time.

A server that waits for a request's head, for the rest of a form, or until an answer has been read, waits as
long as the client likes, and a few hundred such clients hold all connections. Here each has so many seconds,
and is then cut. Of a stream of events, all has been read as long as nothing waits to be sent.
"""

from asyncio import TimerHandle, Transport
from math import inf
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: Seconds for the head of a request, from the connection or its first byte; and then for its body.
HEAD: Final = 10.0
BODY: Final = 30.0
#: Bytes of a head at most; a bearer token may have 16 KiB (`sign_in.LONGEST`).
HEAD_BYTES: Final = 1 << 16
#: Seconds between two looks at a connection.
LOOK: Final = 5.0
#: Looks in a row at which something may wait to be sent; one at which no less waits counts as several.
LOOKS: Final = 60
STUCK: Final = 10


class Connection(HttpToolsProtocol):
    """uvicorn's connection, with these bounds."""

    _due = inf  # when what is being received must have been
    _heading = True  # whether the head of a request is not complete
    _bytes = 0  # of that head
    _unread = 0  # looks in a row at which something waited to be sent, as they count
    _left = 0  # bytes that waited then
    _looks: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # as in its base
        super().connection_made(transport)
        self._due = self.loop.time() + HEAD
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._looks is not None:
            self._looks.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._bytes += len(data) if self._heading else 0
        if self._bytes > HEAD_BYTES + len(data):  # more than came with the end of a head
            self.transport.abort()
            return
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._heading, self._due = True, min(self._due, self.loop.time() + HEAD)

    def on_headers_complete(self) -> None:
        self._heading, self._bytes, self._due = False, 0, self.loop.time() + BODY
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._heading, self._due = True, inf  # until the next begins; idle connections uvicorn closes
        super().on_message_complete()

    def _look(self) -> None:
        left, before = self.transport.get_write_buffer_size(), self._left
        self._unread = 0 if not left else self._unread + (1 if left < before else STUCK)
        self._left = left
        if self.loop.time() >= self._due or self._unread > LOOKS:
            self.transport.abort()
            return
        self._looks = self.loop.call_later(LOOK, self._look)
