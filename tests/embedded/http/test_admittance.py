"""Connections of strangers to the HTTP API: how long they last, how many they are, what they may send."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from muster.embedded import credentials
from muster.embedded.http import admittance
from muster.embedded.http.api import http_api
from muster.embedded.http.serving import serving
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from muster.kube.clock import SystemClock
from tests.embedded.clients import SpokenLogs
from tests.patience import PATIENCE


class Served:
    def __init__(self, home: Path, port: int, token: str) -> None:
        self.home, self.port, self.token = home, port, token

    async def connect(self, *, secure: bool = True) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = ssl.create_default_context(cafile=str(credentials.authority_file(self.home)))
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=context if secure else None)

    def request(self, path: str = "/api", *more: str) -> bytes:
        head = [f"GET {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {self.token}", *more]
        return ("\r\n".join(head) + "\r\n\r\n").encode()


@asynccontextmanager
async def served(home: Path) -> AsyncIterator[Served]:
    credentials.ensure(home, SystemClock().now())
    store = Store(":memory:")
    token = credentials.token_file(home).read_text()
    try:
        async with serving(http_api(Registry(store), SpokenLogs(), token), home) as url:
            yield Served(home, int(url.rpartition(":")[2]), token)
    finally:
        store.close()


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    try:
        return await asyncio.wait_for(reader.read(), PATIENCE)
    except ConnectionError:
        return b""


@pytest.mark.parametrize("secure", [False, True])
async def test_a_stranger_has_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secure: bool) -> None:
    """Also before the handshake, and whatever it asks of the paths that need no token."""
    monkeypatch.setattr(admittance.Lobby.__init__, "__defaults__", (128, 0.2))
    async with served(tmp_path) as server:
        reader, writer = await server.connect(secure=secure)
        if secure:
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /hea")
        said = await until_closed(reader)
        assert said.startswith(b"HTTP/1.1 200" if secure else b"")
        writer.close()


async def test_who_has_shown_the_token_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admittance.Lobby.__init__, "__defaults__", (128, 5.0))
    async with served(tmp_path) as server:
        reader, writer = await server.connect()
        writer.write(server.request())
        assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
        other, closing = await server.connect()
        assert await until_closed(other) == b""  # a stranger's time is over
        writer.write(server.request("/healthz"))
        assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
        writer.close()
        closing.close()


async def test_strangers_keep_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admittance.Lobby.__init__, "__defaults__", (3, 600.0))
    async with served(tmp_path) as server:
        strangers = [await server.connect(secure=False) for _ in range(8)]
        reader, writer = await server.connect()
        writer.write(server.request())
        assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
        for gone, _ in strangers[:5]:
            assert await until_closed(gone) == b""
        for _, closing in strangers:
            closing.close()
        writer.close()


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"x" * 2**17,
        # its end is awaited, for as long as a stranger has
        pytest.param(b"GET /api HTTP/1.1\r\nX: " + b"x" * 2**17, marks=pytest.mark.full),
        b"GET /api HTTP/1.1\r\n" + b"X:\r\n" * 2**15,
        b"POST /api HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n" + b"x" * 2**22,
        b"POST /api HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " + b"x" * 2**22,
    ],
)
async def test_what_a_stranger_sends_is_bounded(tmp_path: Path, head: bytes) -> None:
    async with served(tmp_path) as server:
        reader, writer = await server.connect()
        writer.write(head)
        said = await until_closed(reader)
        assert said[9:12] in (b"", b"400", b"401")
        writer.close()


async def test_long_headers_within_the_bound(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        reader, writer = await server.connect()
        for _ in range(3):
            writer.write(server.request("/api", "X: " + "x" * 40_000))
            assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
            writer.write(server.request("/healthz"))
            assert b"200 OK" in await reader.readuntil(b"\r\n\r\nok")
        writer.close()
