"""What is known of the cluster: one copy for all viewers.

Watches keep the objects up to date. What pages show is derived from them when the first page asks for it, and
kept until something changes. Viewers are told of changes at most `RATE` times a second.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from functools import cached_property, partial
from math import inf
from typing import Final, TypeVar

from muster.api import groups, kinds
from muster.api.base import AnyKind, Kind, Resource
from muster.api.fields import UNREADABLE
from muster.app.snapshot import Settings, Snapshot, scheduler_settings
from muster.app.views import jobs, nodes, queues
from muster.app.views.job import JobView
from muster.app.views.nodes import NodeView
from muster.app.views.objects import Objects
from muster.app.views.queues import QueueView
from muster.core.world.failed_starts import FailedStarts
from muster.dashboard.access import Sight
from muster.kube.client import Client
from muster.kube.errors import ApiError, Unanswered, Unreachable
from muster.kube.informers import Informers
from muster.runtime.mirror import WATCHED
from muster.workloads import snapshot

R = TypeVar("R", bound=Resource)

#: How many times a second viewers are told of changes at most.
RATE: Final = 2
#: How many times as long as a page took viewers are not told of the next change.
REST: Final = 5
#: Seconds after which the scheduler's settings are read again, if the cluster has changed.
SETTINGS: Final = 30.0
#: Seconds that a page waits for the first list of all kinds.
PATIENCE: Final = 5.0
#: The kinds that pages are made from.
KINDS: Final[tuple[AnyKind, ...]] = tuple(
    dict.fromkeys((*WATCHED, kinds.JOBSET, kinds.JOB, kinds.BATCH_JOB, kinds.VOLCANO_JOB, *groups.OF_NAMED))
)


class Moment:
    """The cluster at one moment. Each answer is computed once, when it is first asked for."""

    #: what of it is shown (`sight.Seen`)
    sight = Sight()

    def __init__(
        self,
        informers: Informers,
        revision: int,
        now: float,
        schedulers: frozenset[str] | None,
        settings: Settings,
    ) -> None:
        self.revision, self.now = revision, now
        self._schedulers, self._settings = schedulers, settings
        self._objects = {kind: [*informers[kind].items.values()] for kind in KINDS}
        #: kinds that could not be read so far
        self.missing = [kind.plural for kind in KINDS if not informers[kind].synced.is_set()]

    @cached_property
    def namespaces(self) -> frozenset[str]:
        """The namespaces of all objects."""
        return frozenset(each.metadata.namespace for found in self._objects.values() for each in found) - {""}

    @cached_property
    def objects(self) -> Objects:
        named = [(kind, group) for kind in groups.OF_NAMED for group in self._objects[kind]]
        return Objects(
            self._of(kinds.JOBSET),
            self._of(kinds.JOB),
            named,
            self._of(kinds.POD),
            self._of(kinds.GANG),
            self._of(kinds.BATCH_JOB),
            self._of(kinds.VOLCANO_JOB),
        )

    @cached_property
    def jobs(self) -> list[JobView]:
        """All jobs, oldest first."""
        return jobs.views(self.objects)

    @cached_property
    def snapshot(self) -> Snapshot:
        """What answers for the scheduler."""
        found = snapshot.Objects()
        for kind in WATCHED:
            for each in self._objects[kind]:
                found.add(kind, each)
        return Snapshot(found, self._schedulers, now=self.now, settings=self._settings)

    @cached_property
    def queues(self) -> list[QueueView]:
        """All queues, each after its parent."""
        return queues.views(self.snapshot)

    @cached_property
    def nodes(self) -> list[NodeView]:
        """All nodes, by name."""
        there, pods, memory = self._of(kinds.NODE), self._of(kinds.POD), FailedStarts()
        if nodes.any_failed(pods, self._settings.bad_nodes, self.now):
            memory = nodes.failed_starts(self.snapshot, self.now, len(there))
        return nodes.views(there, pods, memory)

    def job(self, namespace: str, name: str) -> JobView | None:
        """The newest job of that name; None if there is none."""
        return next(
            (one for one in reversed(self.jobs) if (one.namespace, one.name) == (namespace, name)), None
        )

    def _of(self, kind: Kind[R]) -> Sequence[R]:
        return self._objects[kind]


class Cluster:
    """Follows a cluster, and tells viewers when it has changed."""

    def __init__(self, client: Client, schedulers: frozenset[str] | None) -> None:
        """`schedulers`: as `Snapshot` takes it."""
        self.client = client
        self._schedulers = schedulers
        self._informers = Informers(client)
        self._revision = 0
        self._changed = asyncio.Event()
        self._told = asyncio.Condition()
        self._moment: Moment | None = None
        self._asked = False  # whether a page has waited for all kinds
        self._read: set[AnyKind] = set()
        self._settings, self._settings_at = Settings(), -inf
        #: seconds that it took to compute the last page: they are a small part of the time
        self.took = 0.0
        for kind in KINDS:
            reflector = self._informers[kind]
            reflector.subscribe(lambda old, new: self._changed.set(), partial(self._progressed, kind))

    def missing(self) -> list[str]:
        """The kinds that have not been read yet."""
        return [kind.plural for kind in KINDS if not self._informers[kind].synced.is_set()]

    async def run(self) -> None:
        """Runs until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informers.run())
            group.create_task(self._tell())

    async def now(self) -> Moment:
        """The cluster as it is known now."""
        with suppress(TimeoutError):  # who may not read a kind sees the others
            async with asyncio.timeout(PATIENCE):
                await self._informers.synced(() if self._asked else KINDS)
        self._asked = True
        if self._moment is None or self._moment.revision != self._revision:
            now = time.time()
            if self._schedulers is not None and now - self._settings_at > SETTINGS:
                self._settings_at = now
                with suppress(ApiError, Unanswered, Unreachable):
                    self._settings = await scheduler_settings(self.client)
            served = self._settings.served or self._schedulers if self._schedulers is not None else None
            self._moment = Moment(self._informers, self._revision, now, served, self._settings)
        return self._moment

    def _progressed(self, kind: AnyKind, revision: str) -> None:
        """Shows a kind that has been read for the first time, even if there is no object of it."""
        if kind not in self._read:
            self._read.add(kind)
            self._changed.set()

    async def changes(self) -> AsyncIterator[int]:
        """Yields the revision now, and each later one that is met."""
        told = -1
        while True:
            async with self._told:
                await self._told.wait_for(lambda known=told: self._revision != known)  # type: ignore[misc]
                told = self._revision
            yield told

    async def _tell(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            async with self._told:
                self._revision += 1
                self._told.notify_all()
            await asyncio.sleep(max(1 / RATE, REST * self.took))


#: What an object that cannot be read may raise on its way into a page.
FAILURES: Final = UNREADABLE
