"""Ways to reach a registry as a `Client`: one suite holds for all of them."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from muster.embedded import credentials
from muster.embedded.client import LocalClient
from muster.embedded.http.api import http_api
from muster.embedded.http.serving import serving
from muster.embedded.verbs.registry import Registry
from muster.kube.client import Client, LogOptions
from muster.kube.clock import SystemClock
from muster.kube.http import Connection, HttpClient


class SpokenLogs:
    """A log source that says what it was asked."""

    async def read(
        self, namespace: str, pod_name: str, pod_uid: str, container: str, how: LogOptions
    ) -> AsyncIterator[bytes]:
        yield f"{namespace}/{pod_name}/{container} ".encode()
        yield f"follow={how.follow} tail={how.tail} previous={how.previous} ".encode()
        yield f"since={how.since} timestamps={how.timestamps}".encode()


@asynccontextmanager
async def local(registry: Registry) -> AsyncIterator[Client]:
    yield LocalClient(registry, SpokenLogs())


@asynccontextmanager
async def http(registry: Registry) -> AsyncIterator[Client]:
    """Over TLS, through the HTTP API."""
    with TemporaryDirectory() as directory:
        home = Path(directory)
        credentials.ensure(home, SystemClock().now())
        async with serving(http_api(registry, SpokenLogs(), "secret"), home) as url:
            headers = {"Authorization": "Bearer secret"}
            client = HttpClient(Connection(url, credentials.client_context(home), lambda: headers))
            yield client
            await client.close()


Connect = Callable[[Registry], AbstractAsyncContextManager[Client]]

CLIENTS: Final[dict[str, Connect]] = {"local": local, "http": http}
