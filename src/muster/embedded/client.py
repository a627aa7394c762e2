"""`muster.kube.client.Client` on the embedded store in the same process, without HTTP.

Objects are decoded from the store's bytes into slim structs, as the HTTP client decodes a response, so that
no caller can share a mutable object with the store by accident. Callers that read the same bytes at about the
same time, as a writer and the informers do, get the same struct: it is frozen, and its parts are read only.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from functools import lru_cache
from typing import Any, Final, Protocol, TypeVar, Unpack

import msgspec

from muster.api import kinds
from muster.api.base import Kind, Object, Resource
from muster.api.fields import UNREADABLE
from muster.embedded.verbs.containers import log_target
from muster.embedded.verbs.deletion import DeleteOptions
from muster.embedded.verbs.registry import Registry
from muster.kube.client import EVERYTHING, Deletion, EventType, LogOptions, Page, Patch, WatchEvent
from muster.kube.decode import decode
from muster.kube.errors import BadRequest, NotFound, ServerError

R = TypeVar("R", bound=Resource)
log = logging.getLogger(__name__)

#: Most structs remembered by the bytes that they were decoded from, for the watchers of a change.
SHARED: Final = 1024
#: Most writes that are committed together, so that other tasks get their turn.
BATCH: Final = 64


class LogSource(Protocol):
    """The source of containers' output: the node agent's files."""

    def read(
        self, namespace: str, pod_name: str, pod_uid: str, container: str, how: LogOptions
    ) -> AsyncIterator[bytes]:
        """The container's output in chunks, unchanged. `how.since` is a time, or None."""
        ...


class LocalClient:
    """`Client` on a registry in the same process.

    Each call yields to the event loop once before it acts, as a call over a network would. Writes of one turn
    of the loop are committed together, and answered after the commit.
    """

    def __init__(self, registry: Registry, logs: LogSource | None = None) -> None:
        self.registry = registry
        self._logs = logs
        #: writes of this turn, and the futures for their outcomes
        self._writes: list[tuple[Callable[[], bytes], asyncio.Future[bytes]]] = []

    async def get(self, kind: Kind[R], namespace: str, name: str) -> R:
        await asyncio.sleep(0)
        return _decode(kind, self.registry.get(kind, namespace, name))

    async def get_json(self, kind: Kind[R], namespace: str, name: str) -> Object:
        await asyncio.sleep(0)
        obj: Object = msgspec.json.decode(self.registry.get(kind, namespace, name))
        return obj

    async def list(
        self,
        kind: Kind[R],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        token: str = "",
    ) -> Page[R]:
        await asyncio.sleep(0)
        listing = self.registry.list(kind, namespace, labels=labels, fields=fields, limit=limit, token=token)
        items = [_decode(kind, body) for body in listing.items]
        return Page(items, str(listing.revision), listing.token)

    async def watch(
        self,
        kind: Kind[R],
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[WatchEvent[R]]:
        if resource_version and not resource_version.isdigit():
            raise BadRequest(f"{resource_version!r} is not a resource version of this server")
        async for frames in self.registry.watch(
            kind, namespace, revision=int(resource_version or 0), labels=labels, fields=fields
        ):
            for frame in frames:
                yield WatchEvent(EventType(frame.type), _decode(kind, frame.body))

    async def create(self, kind: Kind[R], namespace: str, obj: Object) -> R:
        return _decode(kind, await self._write(lambda: self.registry.create(kind, namespace, obj)))

    async def dry_create(self, kind: Kind[R], namespace: str, obj: Object) -> Object:
        await asyncio.sleep(0)
        with self.registry.dry_run():
            made: Object = msgspec.json.decode(self.registry.create(kind, namespace, obj))
        return made

    async def patch(
        self, kind: Kind[R], namespace: str, name: str, patch: Patch, *, subresource: str = ""
    ) -> R:
        registry = self.registry
        body = await self._write(
            lambda: registry.patch(kind, namespace, name, patch, subresource=subresource)
        )
        return _decode(kind, body)

    async def delete(self, kind: Kind[R], namespace: str, name: str, **how: Unpack[Deletion]) -> None:
        options = DeleteOptions(**(Deletion(propagation="Background") | how))
        await self._write(lambda: self.registry.delete(kind, namespace, name, options))

    async def bind(self, namespace: str, name: str, binding: Object) -> None:
        await self._write(lambda: self.registry.bind(namespace, name, binding))

    async def evict(self, namespace: str, name: str, eviction: Object) -> None:
        await self._write(lambda: self.registry.evict(namespace, name, eviction))

    async def log(
        self, namespace: str, name: str, *, container: str = "", how: LogOptions = EVERYTHING
    ) -> AsyncIterator[bytes]:
        pod = msgspec.json.decode(self.registry.get(kinds.POD, namespace, name))
        meant = log_target(pod, container, how, self.registry.now())
        if self._logs is None:
            raise NotFound(f"pod {name}: this cluster keeps no logs")
        async for chunk in self._logs.read(namespace, name, meant.pod_uid, meant.container, meant.how):
            yield chunk

    async def close(self) -> None:
        """Does nothing: the code that opened the store closes it."""

    async def _write(self, write: Callable[[], bytes]) -> bytes:
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[bytes] = loop.create_future()
        if not self._writes:
            loop.call_soon(self._commit)
        self._writes.append((write, outcome))
        return await outcome

    def _commit(self) -> None:
        batch, self._writes = self._writes[:BATCH], self._writes[BATCH:]
        if self._writes:
            asyncio.get_running_loop().call_soon(self._commit)
        wanted = [(write, future) for write, future in batch if not future.done()]  # not cancelled
        outcomes = self.registry.together([write for write, _ in wanted])
        for (_, future), outcome in zip(wanted, outcomes, strict=True):
            if isinstance(outcome, UNREADABLE):  # the HTTP API logs unexpected errors, too
                log.error("a write failed", exc_info=outcome)
                future.set_exception(ServerError("the server failed; its log has the reason"))
            elif isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)


def _decode(kind: Kind[R], body: bytes) -> R:
    obj: R = _decoded(kind, body)
    return obj


@lru_cache(maxsize=SHARED)
def _decoded(kind: Kind[Any], body: bytes) -> Any:  # Any: an object of `kind`
    """The decoded bytes. They contain the object's revision, so the cache cannot become stale."""
    return decode(kind, body)
