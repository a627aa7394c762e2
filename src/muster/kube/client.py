"""The client protocol by which all layers above access an API server.

There are two implementations: `muster.kube.http` over the network, and `muster.embedded.client` on the store
of the embedded cluster in the same process. Reads return slim structs. Writes are JSON, as creates and
patches, so that fields that muster does not know are never lost.

All methods raise `muster.kube.errors.ApiError` if the server refuses the request, `Unanswered` if it is
unknown whether a write took effect, and `Unreachable` if nothing was sent.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Final, Generic, Literal, Protocol, TypedDict, TypeVar, Unpack

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


def ends_initial(event: WatchEvent[R]) -> bool:
    """Whether the objects that existed when the watch began have all been sent."""
    return event.object.metadata.annotations.get("k8s.io/initial-events-end") == "true"


class Page(msgspec.Struct, Generic[R], frozen=True):
    """A list, or one page of it."""

    items: list[R]
    resource_version: str
    #: token for the next page; "" on the last page
    token: str = ""


#: A merge patch (RFC 7386) is an object, a JSON patch (RFC 6902) a list of operations.
Patch = Object | list[Object]
Propagation = Literal["Foreground", "Background", "Orphan"]


class Deletion(TypedDict, total=False):
    """How an object is deleted."""

    #: preconditions (409); absent or "": none
    uid: str
    resource_version: str
    #: seconds; absent or None: the object's own
    grace_period: int | None
    #: absent: Background
    propagation: Propagation


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The part of a container's output to read (`PodLogOptions`)."""

    #: continue until the container ends
    follow: bool = False
    #: number of lines, from the end
    tail: int | None = None
    #: read the output of the start before the newest one
    previous: bool = False
    #: only output printed since a time, or in the last so much time by the server's clock
    since: datetime | timedelta | None = None
    #: whether each line begins with its time (RFC 3339) and a blank
    timestamps: bool = False
    #: also the output of the container's earlier starts, oldest first; `tail` then counts over all of them.
    #: Only the embedded cluster keeps it and knows this option: other API servers ignore it
    every_start: bool = False

    @property
    def partial(self) -> bool:
        """Whether output may be left out."""
        return self.tail is not None or self.since is not None

    def at(self, now: datetime) -> "LogOptions":
        """These options with `since` as a time; `now` is the current time."""
        return replace(self, since=now - self.since) if isinstance(self.since, timedelta) else self


EVERYTHING: Final = LogOptions()
#: The parameter of a request for `LogOptions.every_start`.
EVERY_START: Final = "musterEveryStart"


class Client(Protocol):
    async def get(self, kind: Kind[R], namespace: str, name: str) -> R: ...

    async def get_json(self, kind: Kind[R], namespace: str, name: str) -> Object:
        """The whole object as JSON, to show or to copy."""
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
        """Lists objects. `namespace=""` means all; `labels`, `fields` are selectors in Kubernetes' syntax."""
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
        """Changes after `resource_version`, with bookmarks, until the server ends the watch.

        Over HTTP `resource_version` may be "": then all objects that exist are sent first, as ADDED, and
        then a bookmark that `ends_initial` (KEP-3157). Raises `Invalid` if the server cannot do that.

        Raises `Expired` if the server no longer keeps that revision.
        """
        ...

    async def create(self, kind: Kind[R], namespace: str, obj: Object) -> R: ...

    async def dry_create(self, kind: Kind[R], namespace: str, obj: Object) -> Object:
        """Creates nothing (`dryRun=All`): returns the whole object that `create` would have stored."""
        ...

    async def patch(
        self, kind: Kind[R], namespace: str, name: str, patch: Patch, *, subresource: str = ""
    ) -> R:
        """Patches an object. `resourceVersion`, `uid` in a merge patch's metadata are preconditions (409)."""
        ...

    async def delete(self, kind: Kind[R], namespace: str, name: str, **how: Unpack[Deletion]) -> None:
        """Deletes an object."""
        ...

    async def bind(self, namespace: str, name: str, binding: Object) -> None:
        """Binds a pod to a node (POST pods/binding).

        `metadata.uid` and `metadata.resourceVersion` of the Binding are preconditions. Its annotations are
        merged into the pod's.
        """
        ...

    async def evict(self, namespace: str, name: str, eviction: Object) -> None:
        """Evicts a pod (POST pods/eviction); 429 if a disruption budget forbids it.

        `deleteOptions` of the Eviction contains the grace period and the preconditions.
        """
        ...

    def log(
        self, namespace: str, name: str, *, container: str = "", how: LogOptions = EVERYTHING
    ) -> AsyncIterator[bytes]:
        """The container's output in chunks, unchanged; until the container ends if `how.follow` is set."""
        ...

    async def close(self) -> None: ...
