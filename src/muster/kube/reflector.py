"""A cache of the objects of one kind, kept up to date by list and watch, for all that read the kind.

The reflector lists once and watches from that revision. If the server supports it, the watch sends the
existing objects first, and replaces the list: no answer is then as large as the cluster, and the server keeps
no copy of it. When the watch ends, the reflector resumes from the last revision seen. When that revision has
expired, it lists again and reports the differences. `items` therefore has every object at a recent revision,
and each change is reported exactly once, in order.

If the server refuses the kind (401, 403, 404), `items` grows old. `refused_for` says for how long.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from muster.api.base import Kind, Resource
from muster.api.fields import UNREADABLE
from muster.kube.client import Client, EventType, WatchEvent, ends_initial
from muster.kube.clock import Clock, SystemClock, back_off
from muster.kube.errors import (
    ApiError,
    BadRequest,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    Unanswered,
    Unauthorized,
    Unreachable,
)
from muster.kube.listing import list_all

R = TypeVar("R", bound=Resource)
OnChange = Callable[[R | None, R | None], None]
OnProgress = Callable[[str], None]
log = logging.getLogger(__name__)

BACK_OFF = (0.2, 30.0)  # seconds between retries, first and largest


#: Answers by which a server refuses a kind. Others may be over at the next request.
REFUSALS: Final = (Unauthorized, Forbidden, NotFound)
#: Seconds between two looks for a kind that the server does not have: its definition may be installed.
LOOK_AGAIN: Final = 5.0
#: Seconds without an object after which a server is taken not to stream lists.
FIRST_EVENTS: Final = 30.0


class _NoStream(Exception):
    """The server does not send what exists in a watch."""


class Reflector(Generic[R]):
    """Caches the objects of one kind and reports changes to its subscribers.

    An object that could be decoded only in part is logged. If a subscriber fails because of an object's
    content (`UNREADABLE`), the failure is logged; the other subscribers and the watch continue.
    """

    def __init__(
        self,
        client: Client,
        kind: Kind[R],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        clock: Clock | None = None,
        tolerated: tuple[type[ApiError], ...] = (),
        unread: tuple[type[ApiError], ...] = (),
        streaming: bool = False,
        view: Kind[R] | None = None,
    ) -> None:
        """`tolerated`: answers to a list that count as an empty list until the server has another answer.

        `unread`: answers that count so only until something has been read. An API server looks at rights
        first: where a role lacks a kind, it answers Forbidden, whether or not it has the kind.

        `streaming`: let the watch send what exists, instead of a list, if the server can do that. `view`: a
        kind with fewer fields, as which objects are read and kept.
        """
        self.kind = kind
        #: objects by `namespace/name`; read only
        self.items: dict[str, R] = {}
        #: set once the first list has been read
        self.synced = asyncio.Event()
        #: how many objects of a list have been read, while it is
        self.reading = 0
        #: the revision up to which `items` is up to date
        self.resource_version = ""
        self._client, self._view = client, view or kind
        self._subscribers: list[tuple[OnChange[R], OnProgress]] = []
        self._namespace, self._labels, self._fields = namespace, labels, fields
        self._clock = clock or SystemClock()
        self._tolerated, self._unread, self._streaming = tolerated, unread, streaming
        #: whether the last answer was a tolerated one, so that it is not known what exists
        self.off = False
        #: seconds between the first and the last of the refusals since anything was read
        self.refused_for = 0.0
        self._refused_since: float | None = None
        self._told = ""  # why it cannot be read, as logged last
        self._heard = False  # whether this watch has sent anything
        #: several projects have PodGroups
        self._called = ".".join(filter(None, (kind.plural, kind.group)))

    def subscribe(
        self, on_change: OnChange[R], on_progress: OnProgress = lambda resource_version: None
    ) -> None:
        """Reports the objects that are known, as new ones, and each later change.

        `on_change(old, new)`: old is None for a new object, new is None for a removed object.
        `on_progress(resource_version)` is called afterwards, once `items` is up to date with that revision.
        """
        for key, item in self.items.items():
            self._report(on_change, key, None, item)
        if self.resource_version:
            on_progress(self.resource_version)
        self._subscribers.append((on_change, on_progress))

    async def run(self) -> None:
        """Runs until cancelled.

        Failures are retried with a growing delay. A watch that sent something before it failed is resumed
        at once.
        """
        failures = 0
        while True:
            self._heard, asked = False, 0.0
            try:
                if not self.resource_version and not self._streaming:
                    await self._list()
                await self._watch()
                if not self._heard:
                    await self._clock.sleep(BACK_OFF[0])  # the server may end every watch at once
                failures = 0
                continue
            except Expired as error:
                self.resource_version, why = "", error.message
            except _NoStream:
                log.info("%s are listed in pages: the server does not stream lists", self.kind.plural)
                self._streaming = False
                continue
            except (ApiError, Unanswered, Unreachable) as error:
                why = str(error)
                if isinstance(error, self._tolerated):
                    self._turn_off(logging.INFO, why)
                elif isinstance(error, self._unread):
                    told = f"{why}; if the cluster has them, grant list and watch, and they are read at once"
                    self._turn_off(logging.WARNING, told)
                elif isinstance(error, REFUSALS):
                    self._refused()
                if isinstance(error, ApiError) and error.retry_after is not None:
                    asked = min(error.retry_after, BACK_OFF[1])
            if self._heard:
                failures = 0
                continue
            failures += 1
            delay = max(asked, back_off(BACK_OFF, failures - 1))
            if self.off:
                delay = max(asked, min(delay, LOOK_AGAIN))
            elif why != self._told:
                self._told = why
                log.warning(
                    "watching %s: %s; retried every %.0f s at most", self.kind.plural, why, BACK_OFF[1]
                )
            await self._clock.sleep(max(asked, delay * (0.5 + random.random() / 2)))  # spread the retries

    async def _list(self) -> None:
        listed = await list_all(
            self._client,
            self._view,
            self._namespace,
            labels=self._labels,
            fields=self._fields,
            progress=self._reads,
        )
        self.reading = 0
        self._replace({item.key: item for item in listed.items}, listed.resource_version)

    def _reads(self, number: int) -> None:
        self.reading = number

    def _replace(self, found: dict[str, R], resource_version: str) -> None:
        """Takes over all objects as of a revision, and reports what is different."""
        for key in [key for key in self.items if key not in found]:
            self._change(key, None)
        for key, item in found.items():
            old = self.items.get(key)
            if old is None or old.metadata.resource_version != item.metadata.resource_version:
                self._change(key, item)
        self._progress(resource_version)
        self.synced.set()

    def _turn_off(self, level: int, why: str) -> None:
        """Goes on without the kind: nothing waits for it, and it is read as soon as the server has it."""
        if not self.off:
            self.off = True
            log.log(level, "%s are off, as the cluster does not show them: %s", self._called, why)
        self.synced.set()

    def _refused(self) -> None:
        now = self._clock.monotonic()
        if self._refused_since is None:
            self._refused_since = now
        self.refused_for = now - self._refused_since

    async def _watch(self) -> None:
        #: what exists, while the watch sends that
        found: dict[str, R] | None = {} if not self.resource_version else None
        try:
            async with asyncio.timeout(None if found is None else FIRST_EVENTS) as patience:
                async for event in self._client.watch(
                    self._view,
                    self._namespace,
                    resource_version=self.resource_version,
                    labels=self._labels,
                    fields=self._fields,
                ):
                    if found is None:
                        self._heard = True
                        self._take(event)
                    elif event.type is EventType.DELETED:
                        found.pop(event.object.key, None)
                    elif event.type is not EventType.BOOKMARK:
                        found[event.object.key] = event.object
                        patience.reschedule(asyncio.get_running_loop().time() + FIRST_EVENTS)
                    elif ends_initial(event):
                        patience.reschedule(None)
                        self._replace(found, event.object.metadata.resource_version)
                        found = None
                    else:
                        raise _NoStream  # a bookmark before the end: it has not understood
        except TimeoutError:
            raise _NoStream from None
        except (BadRequest, Invalid):
            if found is None:
                raise
            raise _NoStream from None
        if found is not None:
            raise _NoStream

    def _take(self, event: WatchEvent[R]) -> None:
        if event.type is EventType.DELETED:
            self._change(event.object.key, None)
        elif event.type is not EventType.BOOKMARK:
            self._change(event.object.key, event.object)
        self._progress(event.object.metadata.resource_version)

    def _change(self, key: str, new: R | None) -> None:
        old = self.items.get(key)
        if new is None:
            self.items.pop(key, None)
        else:
            self.items[key] = new
            if why := new.metadata.unreadable:
                log.warning("%s %s cannot be read as a whole: %s", self.kind.kind, key, why)
        if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
            self._tell(key, old, None)  # deleted and re-created between two events
            old = None
        if old is not None or new is not None:
            self._tell(key, old, new)

    def _tell(self, key: str, old: R | None, new: R | None) -> None:
        for on_change, _ in self._subscribers:
            self._report(on_change, key, old, new)

    def _report(self, on_change: OnChange[R], key: str, old: R | None, new: R | None) -> None:
        try:
            on_change(old, new)
        except UNREADABLE:
            log.exception("%s %s cannot be read, and is set aside", self.kind.kind, key)

    def _progress(self, resource_version: str) -> None:
        self._unread = ()
        if self.off:  # also after a watch that goes on: while the kind is off, no failure of it is logged
            self.off = False
            log.info("%s can be read now", self._called)
        if self._told:
            self._told = ""
            log.info("%s can be read again", self.kind.plural)
        self._refused_since, self.refused_for = None, 0.0
        self.resource_version = resource_version
        for _, on_progress in self._subscribers:
            on_progress(resource_version)
