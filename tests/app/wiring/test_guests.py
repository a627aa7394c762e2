"""Whoever reaches the port of the probes keeps no one else out, and costs little."""

import asyncio

import pytest

from muster.app.wiring import guests
from muster.app.wiring.probes import State, serving
from tests.app.wiring.test_probes import somewhere
from tests.patience import PATIENCE

PROBE = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


async def connect(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = address.rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    try:
        return await asyncio.wait_for(reader.read(), PATIENCE)
    except ConnectionError:
        return b""


async def answered(address: str) -> bytes:
    reader, writer = await connect(address)
    writer.write(PROBE)
    said = await until_closed(reader)
    writer.close()
    return said


async def test_idle_connections_keep_no_probe_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guests, "GUESTS", 3)
    monkeypatch.setattr(guests, "SECONDS", 600.0)
    address = somewhere()
    async with serving(address, State()):
        idle = [await connect(address) for _ in range(8)]
        assert (await answered(address)).startswith(b"HTTP/1.1 200 OK")
        for reader, _ in idle[:5]:
            assert await until_closed(reader) == b""
        for _, writer in idle:
            writer.close()


@pytest.mark.parametrize("said", [b"", b"GET /heal", b"GET /healthz HTTP/1.1\r\nX: y\r\n"])
async def test_a_connection_has_a_time(monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    monkeypatch.setattr(guests, "SECONDS", 0.2)
    address = somewhere()
    async with serving(address, State()):
        reader, writer = await connect(address)
        writer.write(said)
        assert await until_closed(reader) == b""
        writer.close()


@pytest.mark.parametrize(
    "said",
    [
        b"GET /" + b"x" * 2**20,
        b"GET /healthz HTTP/1.1\r\n" + b"X:\r\n" * 2**18,
        b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n" + b"x" * 2**20,
    ],
)
async def test_what_a_connection_sends_is_bounded(monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    monkeypatch.setattr(guests, "SECONDS", 600.0)
    address = somewhere()
    async with serving(address, State()):
        reader, writer = await connect(address)
        writer.write(said)
        assert (await until_closed(reader))[9:12] in (b"", b"400", b"405")
        writer.close()


async def test_a_connection_is_for_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guests, "SECONDS", 600.0)
    address = somewhere()
    async with serving(address, State()):
        reader, writer = await connect(address)
        writer.write(PROBE * 3)
        assert (await until_closed(reader)).count(b"HTTP/1.1 200 OK") == 1
        writer.close()
