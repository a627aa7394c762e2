"""Connections of probes and scrapers: bounded in number, time and bytes.

The port of a daemon's probes asks for no token, and whoever reaches it in the cluster may connect. There are
at most `GUESTS` connections: for one more, the oldest is closed, so idle ones keep no kubelet out. Each has
`SECONDS` and may send `BYTES`, which is far more than one request for metrics takes.
"""

import asyncio
from collections.abc import Callable
from typing import Final

GUESTS: Final = 64
SECONDS: Final = 30.0
BYTES: Final = 64 * 1024


class Guests:
    """Makes the protocols of a server's connections, each within its bounds."""

    def __init__(self, made: Callable[[], asyncio.Protocol]) -> None:
        """`made` returns the protocol that serves one connection."""
        self._made = made
        self._inside: dict[Guest, asyncio.TimerHandle] = {}  # oldest first

    def __call__(self) -> "Guest":
        return Guest(self._made(), self)

    def enter(self, guest: "Guest") -> None:
        if len(self._inside) >= GUESTS:
            next(iter(self._inside)).abort()
        self._inside[guest] = asyncio.get_running_loop().call_later(SECONDS, guest.abort)

    def leave(self, guest: "Guest") -> None:
        timer = self._inside.pop(guest, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        """Closes all connections, also those of clients that do not read."""
        for guest in list(self._inside):
            guest.abort()


class Guest(asyncio.Protocol):
    """One connection: all but what is too much goes to the protocol that serves it."""

    def __init__(self, serves: asyncio.Protocol, guests: Guests) -> None:
        self._serves, self._guests = serves, guests
        self._transport: asyncio.Transport | None = None
        self._received = 0

    def abort(self) -> None:
        self._guests.leave(self)
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "TCP"
        self._transport = transport
        self._guests.enter(self)
        self._serves.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        if self._received > BYTES:
            self.abort()
        else:
            self._serves.data_received(data)

    def eof_received(self) -> bool | None:
        return self._serves.eof_received()

    def pause_writing(self) -> None:
        self._serves.pause_writing()

    def resume_writing(self) -> None:
        self._serves.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._guests.leave(self)
        self._serves.connection_lost(exc)
