"""Connections that are kept open, over TLS and on uvloop, as the daemons use them."""

import asyncio
import ssl
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
import uvloop

from muster.embedded import credentials
from muster.kube import wire as module
from muster.kube.wire import Answer, NotConnected, Wire


class Server:
    """Answers each request with its path, and closes the connection after the third."""

    def __init__(self) -> None:
        self.connections = 0
        self.heads: list[list[str]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        for number in range(3):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            self.heads.append(head)
            length = next(int(line.split(": ")[1]) for line in head if line.startswith("Content-Length"))
            body = head[0].split(" ")[1].encode() + await reader.readexactly(length)
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" if number == 1 else b"")
            last = "Connection: close\r\n" if number == 2 else ""
            writer.write(f"HTTP/1.1 201 Created\r\n{last}Transfer-Encoding: chunked\r\n\r\n".encode())
            for piece in (body[:3], body[3:]):
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await writer.drain()
            writer.write(b"0\r\n\r\n")
        writer.close()


def test_a_connection_is_used_for_one_request_after_the_other_until_the_server_closes_it(
    tmp_path: Path,
) -> None:
    credentials.ensure(tmp_path, datetime.now(UTC))
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    theirs.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")

    async def talk() -> None:
        server = Server()
        listening = await asyncio.start_server(server.serve, "127.0.0.1", ssl=theirs)
        port = listening.sockets[0].getsockname()[1]
        wire = Wire(f"https://127.0.0.1:{port}", credentials.client_context(tmp_path), "", 2)
        headers = [("Accept", "application/json")]
        for number in range(4):
            answer = await wire.send("POST", "/a b", [("dryRun", "All")], headers, b"!%d" % number)
            assert answer == Answer(201, b"/a%%20b?dryRun=All!%d" % number, "")
        assert server.connections == 2
        assert server.heads[0][:3] == [
            "POST /a%20b?dryRun=All HTTP/1.1",
            f"Host: 127.0.0.1:{port}",
            "Accept: application/json",
        ]
        with pytest.raises(ValueError, match="line break"):
            await wire.send("POST", "/", [], [("Authorization", "x\r\nHost: y")], b"")
        await asyncio.gather(*(wire.send("POST", "/", [], [], b"body") for _ in range(6)))
        assert server.connections == 4, "at most two at once, of three requests each; two of them were used"
        wire.close()
        listening.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(talk())


async def test_where_nothing_listens_nothing_is_sent() -> None:
    listening = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1")
    port = listening.sockets[0].getsockname()[1]
    listening.close()
    await listening.wait_closed()
    wire = Wire(f"http://127.0.0.1:{port}", None, "", 1)
    for _ in range(2):  # and the place of a request that fails is free again
        with pytest.raises(NotConnected):
            await wire.send("POST", "/", [], [], b"")


async def _served(*answers: bytes) -> tuple[asyncio.Server, Wire, list[bytes]]:
    """A server that sends these answers, one for each request, and closes the connection after the last."""
    asked: list[bytes] = []
    left = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while left:
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(left.pop(0))
            await writer.drain()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1")
    return listening, Wire(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", None, "", 1), asked


async def test_an_answer_may_end_with_its_connection() -> None:
    listening, wire, _ = await _served(b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 7\r\n\r\nno server")
    assert await wire.send("POST", "/", [], [], b"") == Answer(503, b"no server", "7")
    listening.close()


async def test_an_answer_that_says_its_length_is_not_taken_before_its_end() -> None:
    listening, wire, _ = await _served(b"HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\nhalf")
    with pytest.raises(ConnectionError):
        await wire.send("POST", "/", [], [], b"")
    listening.close()


async def test_bytes_after_an_answer_do_not_answer_the_next_request() -> None:
    two = b"HTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\n1HTTP/1.1 409 Conflict\r\nContent-Le"
    listening, wire, asked = await _served(
        two, b"ngth: 1\r\n\r\nxHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2"
    )
    assert (await wire.send("POST", "/", [], [], b"")).status == 201
    listening.close()
    with pytest.raises(NotConnected):  # the connection is not used again, and there is no other
        await wire.send("POST", "/", [], [], b"")
    assert len(asked) == 1


def test_a_server_of_https_gets_no_request_without_tls() -> None:
    assert Wire("https://127.0.0.1", None, "", 1)._tls is True


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: "], ids=["body", "header"]
)
async def test_an_endless_answer_is_cut_off(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1 << 20)

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        with suppress(ConnectionError):
            writer.write(answer)
            while True:
                writer.write(b"x" * 1000)
                await writer.drain()

    listening = await asyncio.start_server(endless, "127.0.0.1")
    wire = Wire(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", None, "", 1)
    with pytest.raises(ConnectionError, match="more than 1 MiB"):
        await wire.send("POST", "/", [], [], b"")
    listening.close()
