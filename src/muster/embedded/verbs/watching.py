"""A watch: the changes of one kind after a revision, as one client with its selectors sees them.

An object that starts to match a selector is ADDED, and one that ceases to match is DELETED, whatever happened
to it. A watch holds only one revision; it reads the next changes in batches from the store's change buffer.
Changes of one turn of the event loop form one batch.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final, Literal, NamedTuple

import msgspec

from muster.embedded.api_errors import AnyKind, resource
from muster.embedded.storage.change_buffer import Event
from muster.embedded.storage.store import Store
from muster.embedded.verbs.selectors import Selector

#: Most changes that a watcher gets at once.
BATCH: Final = 64
#: Seconds between bookmarks.
BOOKMARK_EVERY: Final = 60.0


class Frame(NamedTuple):
    """One event of a watch; `body` is the object as JSON."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    revision: int
    body: bytes

    def encode(self) -> bytes:
        """The event as a line of the response."""
        return b'{"type":"%b","object":%b}\n' % (self.type.encode(), self.body)


Frames = list[Frame]


async def watch(
    store: Store,
    kind: AnyKind,
    namespace: str,
    selector: Selector,
    revision: int,
    *,
    bookmarks: bool,
    timeout: float | None,
) -> AsyncIterator[Frames]:
    """Yields changes, until `timeout` seconds have passed or the store is closed.

    Raises `Expired` if the watcher is too slow.
    """
    key = resource(kind)
    loop = asyncio.get_running_loop()
    end = None if timeout is None else loop.time() + timeout
    due = loop.time() + BOOKMARK_EVERY
    while not store.closed:
        events = store.since(key, revision, BATCH)
        if events:
            revision = events[-1].revision
            frames = [
                frame
                for event in events
                if (not namespace or event.namespace == namespace) and (frame := _seen(event, selector))
            ]
            if frames:
                yield frames
                await asyncio.sleep(0)  # a watcher that is far behind must not starve other tasks
            continue
        revision = store.revision
        until = due if end is None else min(due, end)
        try:
            async with asyncio.timeout_at(until):
                await store.changed(key)
        except TimeoutError:
            due = loop.time() + BOOKMARK_EVERY
            if bookmarks:
                # nothing changed since `revision`, except of other kinds
                yield [bookmark(kind, revision)]
            if end is not None and loop.time() >= end:
                return


def bookmark(kind: AnyKind, revision: int) -> Frame:
    body = {
        "kind": kind.kind,
        "apiVersion": kind.api_version,
        "metadata": {"resourceVersion": str(revision), "creationTimestamp": None},
    }
    return Frame("BOOKMARK", revision, msgspec.json.encode(body))


def _seen(event: Event, selector: Selector) -> Frame | None:
    """The frame that a watcher with this selector gets for a change; None if it sees nothing of it."""
    before = event.previous is not None and selector.matches(event.previous)
    after = not event.deleted and selector.matches(event.body)
    if after:
        return Frame("MODIFIED" if before else "ADDED", event.revision, event.body)
    return Frame("DELETED", event.revision, event.body) if before else None
