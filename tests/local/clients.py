"""Ways to reach a registry as a `Client`: one suite holds for all of them."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

from muster.kube.client import Client
from muster.local.client import LocalClient
from muster.local.registry import Registry


class SpokenLogs:
    """A log source that says what it was asked."""

    async def read(
        self,
        namespace: str,
        pod_name: str,
        pod_uid: str,
        container: str,
        *,
        follow: bool,
        tail: int | None,
        previous: bool,
    ) -> AsyncIterator[bytes]:
        yield f"{namespace}/{pod_name}/{container} ".encode()
        yield f"follow={follow} tail={tail} previous={previous}".encode()


@asynccontextmanager
async def local(registry: Registry) -> AsyncIterator[Client]:
    yield LocalClient(registry, SpokenLogs())


Connect = Callable[[Registry], AbstractAsyncContextManager[Client]]

CLIENTS: Final[dict[str, Connect]] = {"local": local}
