"""The client that everything above talks to an API server with.

Two implementations: `muster.kube.http` over the network, and `muster.local.client` on the embedded
store in the same process. Reads are typed and slim, writes are JSON: creates and patches, so that
fields muster does not know are never lost.

All methods raise `muster.kube.errors.ApiError` for what the server refuses, `Unanswered` when it is
unknown whether a write took effect, and `Unreachable` when nothing was sent.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Final, Generic, Literal, Protocol, TypeVar

import msgspec

from muster.api.base import Kind, Object, Resource

R = TypeVar("R", bound=Resource)


class EventType(Enum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"  # `object` has only a resourceVersion


class WatchEvent(msgspec.Struct, Generic[R], frozen=True):
    type: EventType
    object: R


class Page(msgspec.Struct, Generic[R], frozen=True):
    """A list, or one page of it."""

    items: list[R]
    resource_version: str
    #: token for the next page, "" at the end
    token: str = ""


#: A merge patch (RFC 7386) is an object, a JSON patch (RFC 6902) a list of operations.
Patch = Object | list[Object]
Propagation = Literal["Foreground", "Background", "Orphan"]


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What to read of a container's output (`PodLogOptions`)."""

    #: go on until the container ends
    follow: bool = False
    #: lines, from the end
    tail: int | None = None
    #: of the start before the newest
    previous: bool = False
    #: what was printed from a time on, or so long ago by the server's clock
    since: datetime | timedelta | None = None
    #: each line begins with its time (RFC 3339) and a blank
    timestamps: bool = False

    def at(self, now: datetime) -> "LogOptions":
        """With `since` as a time."""
        return replace(self, since=now - self.since) if isinstance(self.since, timedelta) else self


EVERYTHING: Final = LogOptions()


class Client(Protocol):
    async def get(self, kind: Kind[R], namespace: str, name: str) -> R: ...

    async def get_json(self, kind: Kind[R], namespace: str, name: str) -> Object:
        """The whole object, to show or to copy."""
        ...

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
        """`namespace=""` means all; `labels` and `fields` are selectors in Kubernetes' syntax."""
        ...

    def watch(
        self,
        kind: Kind[R],
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[WatchEvent[R]]:
        """Changes after `resource_version`, with bookmarks. Ends when the server does; raises `Expired`."""
        ...

    async def create(self, kind: Kind[R], namespace: str, obj: Object) -> R: ...

    async def patch(
        self, kind: Kind[R], namespace: str, name: str, patch: Patch, *, subresource: str = ""
    ) -> R:
        """Put `resourceVersion` or `uid` into a merge patch's metadata to make it conditional (409)."""
        ...

    async def delete(
        self,
        kind: Kind[R],
        namespace: str,
        name: str,
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period: int | None = None,
        propagation: Propagation = "Background",
    ) -> None:
        """`uid` and `resource_version` are preconditions (409)."""
        ...

    async def bind(self, namespace: str, name: str, binding: Object) -> None:
        """POST pods/binding. `metadata.uid`, `metadata.resourceVersion` of the Binding are preconditions; its
        annotations are merged into the pod's."""
        ...

    async def evict(self, namespace: str, name: str, eviction: Object) -> None:
        """POST pods/eviction; `deleteOptions` has grace and preconditions. 429 where a budget forbids it."""
        ...

    def log(
        self, namespace: str, name: str, *, container: str = "", how: LogOptions = EVERYTHING
    ) -> AsyncIterator[bytes]:
        """The container's output in chunks as it is, until it ends if followed."""
        ...

    async def close(self) -> None: ...
