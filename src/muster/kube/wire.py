"""Sends requests with one answer over connections that are kept open; a scheduler sends thousands of them.

A request is one write to a transport, and httptools parses the answers. That takes a third of the processor
time of a request by aiohttp, which the client uses for everything else: reads, watches, proxies.
"""

import asyncio
import re
import ssl
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import httptools

#: Seconds until an attempt to connect times out, and until a request does.
CONNECT: Final = 10.0
TOTAL: Final = 60.0
#: Seconds for which an unused connection is kept; API servers close theirs later.
KEPT: Final = 15.0
#: Most bytes of an answer's headers and body; an object has at most some megabytes.
MOST_BYTES: Final = 64 << 20


class NotConnected(Exception):
    """No connection could be made, so nothing has been sent."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    retry_after: str


class Wire:
    """The connections to one server, at most `limit` at once. Requests beyond that wait for one."""

    def __init__(self, server: str, tls: ssl.SSLContext | None, server_name: str, limit: int) -> None:
        address = urlsplit(server)
        secure = address.scheme == "https"
        self._host, self._port = address.hostname or "", address.port or (443 if secure else 80)
        self._tls = (tls or True) if secure else None  # never without TLS if the URL says https
        self._server_name = (server_name or None) if secure else None
        self._authority = address.netloc
        #: the headers of the last request, and their text
        self._headers: tuple[tuple[str, str], ...] = ()
        self._lines = ""
        self._free = asyncio.Semaphore(limit)
        self._idle: list[tuple[float, _Link]] = []  # the last used is the next to be used

    async def send(
        self,
        method: str,
        path: str,
        query: Iterable[tuple[str, str]],
        headers: Iterable[tuple[str, str]],
        body: bytes,
    ) -> Answer:
        """Sends a request once. Raises NotConnected; OSError or TimeoutError if no answer can be read."""
        head = self._head(method, path, query, headers, len(body))
        async with self._free:
            link = await self._connected()
            answer = None
            try:
                async with asyncio.timeout(TOTAL):
                    answer = await link.ask(head + body)
                return answer
            finally:
                if answer is not None and link.reusable:
                    self._idle.append((time.monotonic(), link))
                else:
                    link.abort()

    def close(self) -> None:
        for _, link in self._idle:
            link.abort()
        self._idle.clear()

    def _head(
        self,
        method: str,
        path: str,
        query: Iterable[tuple[str, str]],
        headers: Iterable[tuple[str, str]],
        length: int,
    ) -> bytes:
        every, asked = tuple(headers), urlencode([*query])
        if every != self._headers:  # mostly they are those of the last request
            lines = [f"{name}: {value}\r\n" for name, value in every]
            if any("\r" in line[:-2] or "\n" in line[:-2] for line in lines):
                raise ValueError("a header holds a line break")
            self._headers, self._lines = every, "".join(lines)
        target = path if _PLAIN.fullmatch(path) else quote(path, safe=_SAFE)
        first = f"{method} {target}{'?' if asked else ''}{asked} HTTP/1.1\r\nHost: {self._authority}\r\n"
        return f"{first}{self._lines}Content-Length: {length}\r\n\r\n".encode()

    async def _connected(self) -> "_Link":
        while self._idle:
            since, link = self._idle.pop()
            if link.reusable and time.monotonic() < since + KEPT:
                return link
            link.abort()
        try:
            async with asyncio.timeout(CONNECT):
                _, link = await asyncio.get_running_loop().create_connection(
                    _Link, self._host, self._port, ssl=self._tls, server_hostname=self._server_name
                )
        except (OSError, TimeoutError) as error:
            raise NotConnected(str(error) or f"no connection within {CONNECT:.0f} s") from error
        return link


class _Link(asyncio.Protocol):
    """One connection, with at most one request under way."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._asked: asyncio.Future[Answer] | None = None
        self._parts: list[bytes] = []
        self._received = 0
        self._retry_after = ""
        self._headed = self._measured = (
            False  # whether the headers are read, and whether they give the body's length
        )
        self.reusable = True

    def ask(self, request: bytes) -> "asyncio.Future[Answer]":
        self._asked = asyncio.get_running_loop().create_future()
        self._parts, self._received, self._retry_after = [], 0, ""
        self._transport.write(request)
        return self._asked

    def abort(self) -> None:
        self.reusable = False
        self._transport.abort()

    # -- what the transport calls

    def connection_made(self, transport: Any) -> None:  # Any: uvloop's transports are of no common class
        self._transport: asyncio.Transport = transport

    def data_received(self, data: bytes) -> None:
        if self._asked is None:  # no request is open
            self.abort()
            return
        self._received += len(data)
        if self._received > MOST_BYTES:
            self._fail(ConnectionError(f"an answer of more than {MOST_BYTES >> 20} MiB"))
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(ConnectionError(f"no HTTP: {error}"))

    def connection_lost(self, error: Exception | None) -> None:
        if error is None and self._headed and not self._measured:  # such an answer ends with its connection
            self.on_message_complete()
        self._fail(error or ConnectionError("the server has closed the connection"))

    def _fail(self, error: Exception) -> None:
        asked, self._asked = self._asked, None
        if asked is not None and not asked.done():
            asked.set_exception(error if isinstance(error, OSError) else ConnectionError(str(error)))
        self.abort()

    # -- what the parser calls

    def on_message_begin(self) -> None:
        self._headed = self._measured = False
        if self._asked is None:  # an answer without a request must not count as that of the next request
            self.reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        match name.lower():
            case b"retry-after":
                self._retry_after = value.decode(errors="replace")
            case b"content-length" | b"transfer-encoding":
                self._measured = True

    def on_headers_complete(self) -> None:
        self._headed = True

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        status, asked = self._parser.get_status_code(), self._asked
        if status < 200:  # interim; the final answer follows
            return
        self._asked = None
        self.reusable = self.reusable and self._parser.should_keep_alive()
        if asked is not None and not asked.done():
            asked.set_result(Answer(status, b"".join(self._parts), self._retry_after))


#: Characters of a path that stay as they are, and paths that have no others.
_SAFE: Final = "/:@!$&'()*+,;=~"
_PLAIN: Final = re.compile(r"[A-Za-z0-9/._~-]+")
