"""A cache of the objects of one kind, kept up to date by list and watch.

The reflector lists once and watches from that revision. When the watch ends, it resumes from the last
revision seen. When that revision has expired, it lists again and reports the differences. `items` therefore
has every object at a recent revision, and each change is reported exactly once, in order.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Generic, TypeVar

from muster.api.base import Kind, Resource
from muster.api.fields import UNREADABLE
from muster.kube.client import Client, EventType
from muster.kube.clock import Clock, SystemClock
from muster.kube.errors import ApiError, Expired, Forbidden, NotFound, Unanswered, Unreachable
from muster.kube.listing import everything

R = TypeVar("R", bound=Resource)
log = logging.getLogger(__name__)

BACK_OFF = (0.2, 30.0)  # seconds between retries, first and largest


class Reflector(Generic[R]):
    """Caches the objects of one kind and reports changes.

    `on_change(old, new)` is called for each change: old is None for a new object, new is None for a removed
    object. If `on_change` fails because of the object's content (`UNREADABLE`), the failure is logged and the
    watch continues. An object that could be decoded only in part is logged, too.

    `on_progress(resource_version)` is called afterwards, once `items` is up to date with that revision.
    """

    def __init__(
        self,
        client: Client,
        kind: Kind[R],
        on_change: Callable[[R | None, R | None], None] = lambda old, new: None,
        *,
        on_progress: Callable[[str], None] = lambda resource_version: None,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        clock: Clock | None = None,
        optional: bool = False,
    ) -> None:
        """`optional`: a kind that the cluster does not know, or forbids to list, counts as an empty list."""
        self.kind = kind
        #: objects by `namespace/name`; read only
        self.items: dict[str, R] = {}
        #: set once the first list has been read
        self.synced = asyncio.Event()
        #: the revision up to which `items` is up to date
        self.resource_version = ""
        self._client = client
        self._on_change, self._on_progress = on_change, on_progress
        self._namespace, self._labels, self._fields = namespace, labels, fields
        self._clock = clock or SystemClock()
        self._optional = optional
        self._heard = False  # whether this watch has sent anything

    async def run(self) -> None:
        """Runs until cancelled.

        Failures are retried with a growing delay. A watch that sent something before it failed is resumed
        at once.
        """
        failures = 0
        while True:
            self._heard = False
            try:
                if not self.resource_version:
                    await self._list()
                await self._watch()
                if not self._heard:
                    await self._clock.sleep(BACK_OFF[0])  # the server may end every watch at once
                failures = 0
                continue
            except Expired as error:
                self.resource_version, why = "", error.message
            except (ApiError, Unanswered, Unreachable) as error:
                why = str(error)
                if self._optional and isinstance(error, Forbidden | NotFound):
                    self.synced.set()
            if self._heard:
                failures = 0
                continue
            failures += 1
            delay = min(BACK_OFF[1], BACK_OFF[0] * 2 ** min(failures - 1, 10))
            log.warning("watching %s: %s; again in %.1f s", self.kind.plural, why, delay)
            await self._clock.sleep(delay * (0.5 + random.random() / 2))  # spread the retries

    async def _list(self) -> None:
        listed = await everything(
            self._client, self.kind, self._namespace, labels=self._labels, fields=self._fields
        )
        found = {item.key: item for item in listed.items}
        for key in [key for key in self.items if key not in found]:
            self._change(key, None)
        for key, item in found.items():
            old = self.items.get(key)
            if old is None or old.metadata.resource_version != item.metadata.resource_version:
                self._change(key, item)
        self.resource_version = listed.resource_version
        self._on_progress(listed.resource_version)
        self.synced.set()

    async def _watch(self) -> None:
        async for event in self._client.watch(
            self.kind,
            self._namespace,
            resource_version=self.resource_version,
            labels=self._labels,
            fields=self._fields,
        ):
            self._heard = True
            if event.type is EventType.DELETED:
                self._change(event.object.key, None)
            elif event.type is not EventType.BOOKMARK:
                self._change(event.object.key, event.object)
            self.resource_version = event.object.metadata.resource_version
            self._on_progress(self.resource_version)

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
        try:
            self._on_change(old, new)
        except UNREADABLE:
            log.exception("%s %s cannot be read, and is set aside", self.kind.kind, key)
