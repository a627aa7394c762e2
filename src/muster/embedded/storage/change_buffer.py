"""The newest events of the store, in memory, as encoded bytes.

Every watcher reads from this one copy and holds only the revision that it has seen, so a slow watcher costs
no memory. It reads events that are dropped here from disk. Once they are dropped there, too, it has to list
again (`Expired`). Events are kept per kind, because a watcher of a quiet kind must not lose its place because
of a busy kind.
"""

from bisect import bisect_right
from collections import deque
from operator import attrgetter

import msgspec

_REVISION = attrgetter("revision")


class Event(msgspec.Struct, frozen=True, gc=False):
    """One change of one object.

    `previous` is None if the change created the object. `body` is the state after the change, or the last
    state if `deleted`.
    """

    revision: int
    kind: str
    namespace: str
    name: str
    body: bytes
    previous: bytes | None
    deleted: bool

    @property
    def size(self) -> int:
        return len(self.body) + len(self.previous or b"")


class ChangeBuffer:
    """The newest events: at most `max_events` and about `max_bytes`, all of them after revision `start`."""

    def __init__(self, start: int, max_events: int, max_bytes: int) -> None:
        self._start, self._max_events, self._max_bytes = start, max_events, max_bytes
        self._kinds: dict[str, _OfKind] = {}
        self._order: deque[tuple[_OfKind, int]] = deque()  # every event's kind and size, oldest first
        self._bytes = 0

    def append(self, event: Event) -> None:
        of_kind = self._kinds.get(event.kind)
        if of_kind is None:
            of_kind = self._kinds[event.kind] = _OfKind(self._start)
        of_kind.events.append(event)
        size = event.size
        self._order.append((of_kind, size))
        self._bytes += size
        while len(self._order) > self._max_events or self._bytes > self._max_bytes:
            oldest, size = self._order.popleft()
            oldest.drop_first()
            self._bytes -= size

    def since(self, kind: str, revision: int, limit: int) -> list[Event] | None:
        """Up to `limit` events of `kind` after `revision`; None if some of them are no longer held."""
        of_kind = self._kinds.get(kind)
        if of_kind is None:
            return [] if revision >= self._start else None
        return of_kind.since(revision, limit) if revision >= of_kind.floor else None


class _OfKind:
    """A list with a moving head: a deque has no cheap access to its middle, a list no cheap removal."""

    __slots__ = ("events", "floor", "head")

    def __init__(self, floor: int) -> None:
        self.events: list[Event] = []
        self.head = 0
        #: the newest revision that may have been dropped
        self.floor = floor

    def drop_first(self) -> None:
        self.floor = self.events[self.head].revision
        self.head += 1
        if self.head * 2 > len(self.events):
            del self.events[: self.head]
            self.head = 0

    def since(self, revision: int, limit: int) -> list[Event]:
        first = bisect_right(self.events, revision, lo=self.head, key=_REVISION)
        return self.events[first : first + limit]
