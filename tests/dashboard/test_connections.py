"""Clients that send or read slowly, over 127.0.0.1: each is cut, and others are served."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from muster.dashboard import connections, server
from tests.patience import PATIENCE

HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n"
LARGE = 4 << 20  # bytes


async def _page(request: Request) -> Response:
    return PlainTextResponse("here")


async def _form(request: Request) -> Response:
    return PlainTextResponse(str(len(await request.body())))


async def _large(request: Request) -> Response:
    return Response(bytes(LARGE * int(request.query_params["times"])))


async def _events(request: Request) -> Response:
    async def stream() -> AsyncIterator[bytes]:
        for number in range(1_000):
            yield f"data: {number}\n\n".encode()
            await asyncio.sleep(0.05)

    return StreamingResponse(stream(), media_type="text/event-stream")


@asynccontextmanager
async def served(monkeypatch: pytest.MonkeyPatch, viewers: int = 50) -> AsyncIterator[int]:
    monkeypatch.setattr(server, "VIEWERS", viewers)
    monkeypatch.setattr(connections, "LOOK", 0.05)
    for name in ("HEAD", "BODY"):
        monkeypatch.setattr(connections, name, 0.2)
    routes = [Route("/", _page), Route("/large", _large), Route("/events", _events)]
    app: Any = Starlette(routes=[*routes, Route("/form", _form, methods=["POST"])])  # Any: an application
    async with server.serving(lambda port: app, 0) as port:
        yield port


async def is_cut(port: int, *sent: bytes) -> bytes:
    """What was answered before the connection was cut; it waits for that. Each of `sent` comes later."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 12)
    answered = b""
    try:
        for each in sent:
            writer.write(each)
            await asyncio.sleep(0.01)
        async with asyncio.timeout(PATIENCE):
            while more := await reader.read(1 << 16):
                answered += more
    except ConnectionError:
        pass
    finally:
        writer.close()
    return answered


async def get(port: int) -> bytes:
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HEAD + b"Connection: close\r\n\r\n")
        answered = await reader.read()
        writer.close()
        return answered


POST = b"POST /form HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param([], id="nothing"),
        pytest.param([HEAD], id="half a head"),
        pytest.param([bytes([each]) for each in HEAD + b"X: " + b"y" * 20], id="a head byte by byte"),
        pytest.param([POST, b"a"], id="half a form"),
        pytest.param([POST, *[b"a"] * 50], id="a form byte by byte"),
    ],
)
async def test_who_sends_slowly_is_cut_without_an_answer(
    monkeypatch: pytest.MonkeyPatch, sent: list[bytes]
) -> None:
    async with served(monkeypatch) as port:
        assert await is_cut(port, *sent) == b""
        assert b"here" in await get(port)


async def test_a_head_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(monkeypatch) as port:
        monkeypatch.setattr(connections, "HEAD", PATIENCE)
        assert await is_cut(port, HEAD, *[b"X: " + b"y" * 30_000 + b"\r\n"] * 8) == b""


async def test_a_reader_that_does_not_read_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(monkeypatch) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 10)
        transport: Any = writer.transport  # Any: a socket's
        transport.pause_reading()
        writer.write(b"GET /large?times=8 HTTP/1.1\r\nHost: x\r\n\r\n")
        # the kernel tells of the cut once this side writes
        async with asyncio.timeout(PATIENCE):
            while not transport.is_closing():
                await asyncio.sleep(0.05)
                writer.write(b"\r\n")
        assert b"here" in await get(port)


async def test_streams_and_large_answers_that_are_read_last_longer_than_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with served(monkeypatch) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(PATIENCE):
            await reader.readuntil(b"data: 20\n")
        writer.close()
        whole = await is_cut(port, b"GET /large?times=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert len(whole) > LARGE


async def test_all_connections_held_by_silent_clients_are_free_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with served(monkeypatch, viewers=2) as port:
        held = [asyncio.create_task(is_cut(port)) for _ in range(12)]
        assert await asyncio.gather(*held) == [b""] * 12
        assert b"here" in await get(port)
