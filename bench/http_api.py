"""Store and HTTP API together: writes by 32 connections that are kept alive, deliveries to 10 watchers.

The server is one process, as a host is; the load comes from another, over TLS, with as little work of
its own as raw requests on streams allow. Pods are about 2 KB.
"""

import asyncio
import multiprocessing
import ssl
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from bench.store import pod
from muster.embedded import credentials
from muster.embedded.http.api import http_api
from muster.embedded.http.serving import serving
from muster.embedded.node.logs import Logs
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry

PODS: Final = 4_000
CONNECTIONS: Final = 32
WATCHERS: Final = 10
PATH: Final = "/api/v1/namespaces/default/pods"


def run() -> dict[str, float]:
    """Figures per second."""
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as directory:
        ours, theirs = spawn.Pipe()
        server = spawn.Process(target=serve, args=(directory, theirs), daemon=True)
        server.start()
        try:
            port = ours.recv()
            return asyncio.run(_load(Path(directory), port))
        finally:
            ours.send("stop")
            server.join(10)


def serve(directory: str, pipe: "multiprocessing.connection.Connection") -> None:
    import uvloop

    home = Path(directory)
    credentials.ensure(home, datetime.now(UTC))

    async def serve() -> None:
        store = Store(home / "store.db")
        token = credentials.token_file(home).read_text()
        async with serving(http_api(Registry(store), Logs(home / "logs"), token), home) as url:
            pipe.send(int(url.rpartition(":")[2]))
            await asyncio.get_running_loop().run_in_executor(None, pipe.recv)
        store.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())


async def _load(home: Path, port: int) -> dict[str, float]:
    context = ssl.create_default_context(cafile=str(credentials.authority_file(home)))
    head = f"Host: 127.0.0.1\r\nAuthorization: Bearer {credentials.token_file(home).read_text()}\r\n"
    bodies = iter([msgspec.json.encode(pod(number)) for number in range(2 * PODS)])

    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", port, ssl=context, limit=2**22)

    async def write(count: int) -> float:
        """Creates `count` pods over all connections; pods per second."""
        wanted = iter(range(count))

        async def one() -> None:
            reader, writer = await connect()
            for _ in wanted:
                body = next(bodies)
                writer.write(
                    f"POST {PATH} HTTP/1.1\r\n{head}Content-Type: application/json\r\n"
                    f"Content-Length: {len(body)}\r\n\r\n".encode()
                    + body
                )
                answer = await reader.readuntil(b"\r\n\r\n")
                assert answer.startswith(b"HTTP/1.1 201"), answer
                length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                await reader.readexactly(length)
            writer.close()

        begin = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(CONNECTIONS)))
        return count / (time.perf_counter() - begin)

    async def watch(deliveries: int) -> None:
        reader, writer = await connect()
        writer.write(f"GET {PATH}?watch=1&resourceVersion={start} HTTP/1.1\r\n{head}\r\n".encode())
        seen = 0
        while seen < deliveries:
            seen += (await reader.read(2**18)).count(b'{"type":"')
        writer.close()

    writes = await write(PODS)
    reader, writer = await connect()
    writer.write(f"GET {PATH}?limit=1 HTTP/1.1\r\n{head}Connection: close\r\n\r\n".encode())
    listing = await reader.read()
    start = int(listing.partition(b'"resourceVersion":"')[2].partition(b'"')[0])
    begin = time.perf_counter()
    watchers = [asyncio.create_task(watch(PODS)) for _ in range(WATCHERS)]
    watched = await write(PODS)
    await asyncio.gather(*watchers)
    deliveries = PODS * WATCHERS / (time.perf_counter() - begin)
    return {
        f"writes/s, {CONNECTIONS} connections": writes,
        f"writes/s with {WATCHERS} watchers": watched,
        "watch deliveries/s meanwhile": deliveries,
    }
