"""Answers over HTTP: whole ones, and streams that end when their client leaves."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec

from muster.api.base import Object
from muster.embedded.http.request import Receive
from muster.kube.clock import first
from muster.kube.errors import ApiError

# Any: ASGI's messages are open dictionaries
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

JSON: Final = (b"content-type", b"application/json")


Headers = tuple[tuple[bytes, bytes], ...]


class Answer(NamedTuple):
    status: int
    body: bytes
    headers: Headers = (JSON,)


class Stream(NamedTuple):
    chunks: AsyncIterator[bytes]
    media: bytes
    #: seconds that the client may take to read a chunk
    patience: float | None


def warning(text: str) -> bytes:
    """The value of a header that kubectl shows as a warning."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{quoted}"'.encode("ascii", "backslashreplace")


def success(details: Object | None = None) -> bytes:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return msgspec.json.encode({**status, "details": details} if details else status)


def failure(error: ApiError) -> Answer:
    headers = [JSON]
    if error.retry_after is not None:
        headers.append((b"retry-after", str(max(1, round(error.retry_after))).encode()))
    return Answer(error.status, msgspec.json.encode(error.as_status()), tuple(headers))


async def send_answer(answer: Answer, send: Send) -> None:
    length = (b"content-length", str(len(answer.body)).encode())
    await send({"type": "http.response.start", "status": answer.status, "headers": [*answer.headers, length]})
    await send({"type": "http.response.body", "body": answer.body})


async def send_stream(stream: Stream, receive: Receive, send: Send) -> None:
    """Sends chunks as they arrive, until they end or the client disconnects.

    A client that does not read within `stream.patience` seconds is disconnected.
    """
    head = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", stream.media)]}
    with suppress(TimeoutError):
        await first(_pump(stream, head, send), _disconnect(receive))


async def _pump(stream: Stream, head: MutableMapping[str, Any], send: Send) -> None:
    async with asyncio.timeout(stream.patience):
        await send(head)
        await send({"type": "http.response.body", "body": b"", "more_body": True})
    async for chunk in stream.chunks:
        async with asyncio.timeout(stream.patience):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
