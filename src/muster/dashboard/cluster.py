"""What is known of the cluster: one copy for all viewers.

Watches keep the objects up to date. What pages show follows them when a page is asked for (`live.py`), and is
shared by all viewers. These are told of changes at most `RATE` times a second.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Final

import msgspec

from muster.api import kinds
from muster.api.base import AnyKind, Resource
from muster.api.core_v1 import Pod
from muster.api.fields import UNREADABLE
from muster.app.snapshot import Settings, scheduler_settings
from muster.app.views.job import JobView
from muster.app.views.live import OF_JOBS
from muster.app.views.nodes import NodeView
from muster.app.views.queues import QueueView
from muster.core.words.gang import Layer
from muster.dashboard.access import Sight
from muster.dashboard.live import Decided, Live
from muster.dashboard.progress import Reports
from muster.dashboard.work import Planning
from muster.kube.client import Client
from muster.kube.errors import ApiError, Unanswered, Unreachable
from muster.kube.informers import Informers
from muster.runtime.mirror import WATCHED

#: How many times a second viewers are told of changes at most.
RATE: Final = 2
#: How many times as long as a page took viewers are not told of the next change.
REST: Final = 5
#: Seconds after which the scheduler's settings are read again, if the cluster has changed.
SETTINGS: Final = 30.0
#: Seconds without a further object after which kinds that have not been read are done without.
PATIENCE: Final = 5.0
#: Seconds that a page waits until the cluster has been taken in, before it says how far that is.
AT_FIRST: Final = 2.0
#: Objects that are encoded at once: watches and other viewers go on between.
TOGETHER: Final = 1_000
#: Seconds that a page waits for the answer why gangs wait; later it shows what the scheduler has recorded.
AT_ONCE: Final = 0.3
#: The kinds that pages are made from.
KINDS: Final[tuple[AnyKind, ...]] = tuple(dict.fromkeys((*WATCHED, *OF_JOBS)))


@dataclass(frozen=True, slots=True)
class Loading:
    """How far the first load is."""

    #: objects that have been read, and of them those that have been taken in
    read: int
    taken: int
    #: kinds that are being read
    left: tuple[str, ...]


class Moment:
    """The cluster at one moment: `live` as of a revision."""

    #: what of it is shown (`sight.Seen`)
    sight = Sight()

    def __init__(
        self, live: Live, revision: int, now: float, namespaces: frozenset[str], missing: list[str]
    ) -> None:
        """`namespaces`: of all objects."""
        self.live, self.revision, self.now, self.namespaces = live, revision, now, namespaces
        #: held while what it returns is used
        self.lock = live.lock
        #: kinds that could not be read so far
        self.missing = missing

    @property
    def jobs(self) -> list[JobView]:
        """All jobs, oldest first."""
        return self.live.jobs

    @property
    def nodes(self) -> list[NodeView]:
        """All nodes, by name."""
        return self.live.nodes

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers of the network topology between the cluster and the nodes, the widest first."""
        return self.live.layers

    @property
    def queues(self) -> list[QueueView]:
        """All queues, each after its parent."""
        return self.live.queues

    def on(self, node: str) -> list[tuple[Pod, JobView | None]]:
        """The pods that take room on a node, and their jobs."""
        return self.live.on(node)

    def text(self, text: str) -> str:
        """A text as it may be shown."""
        return text

    def ends(self) -> dict[tuple[str, str], float]:
        """When running gangs end, by namespace and name of their records, as far as that is known."""
        return self.live.ends()

    def job(self, namespace: str, name: str) -> JobView | None:
        """The newest job of that name; None if there is none."""
        return next(
            (one for one in reversed(self.jobs) if (one.namespace, one.name) == (namespace, name)), None
        )


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
        self._live = self._new(schedulers, Settings())
        self._ready = asyncio.Event()  # set when the whole cluster has been taken in
        self._read: set[AnyKind] = set()
        #: of pods, about their progress
        self.reports = Reports()
        self._settings_at = -inf
        #: the last answer why gangs wait; what computes the next; when that may begin (monotonic)
        self._decided: Decided | None = None
        self._deciding: asyncio.Task[None] | None = None
        self._decides_at, self._decided_of = -inf, -1
        #: seconds that it took to compute the last page: they are a small part of the time
        self.took = 0.0
        for kind in KINDS:
            reflector = self._informers[kind]
            reflector.subscribe(partial(self._take, kind), partial(self._progressed, kind))

    def missing(self) -> list[str]:
        """The kinds that have not been read yet."""
        return [kind.plural for kind in KINDS if not self._informers[kind].synced.is_set()]

    async def run(self) -> None:
        """Runs until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informers.run())
            group.create_task(self._tell())
            group.create_task(self._load())

    async def _load(self) -> None:
        """Takes in the whole cluster, so that the first viewer need not wait for that."""
        synced = asyncio.ensure_future(self._informers.synced(KINDS))
        read = -1
        while not synced.done() and read != self._read_now:  # who may not read a kind sees the others
            read = self._read_now
            await asyncio.wait([synced], timeout=PATIENCE)
        synced.cancel()
        moment = await self.now()
        await asyncio.to_thread(lambda: (moment.jobs, moment.nodes, moment.queues))
        self._ready.set()
        self._changed.set()

    @property
    def _read_now(self) -> int:
        """How many objects have been read."""
        found = (self._informers[kind] for kind in KINDS)
        return sum(max(len(each.items), each.reading) for each in found)

    async def loading(self) -> Loading | None:
        """How far the first load is; None when it is over. Waits for that for a while."""
        with suppress(TimeoutError):
            async with asyncio.timeout(AT_FIRST):
                await self._ready.wait()
        if self._ready.is_set():
            return None
        return Loading(self._read_now, self._live.taken, tuple(self.missing()))

    async def now(self) -> Moment:
        """The cluster as it is known now."""
        if self._moment is None or self._moment.revision != self._revision:
            revision, now = self._revision, time.time()
            await self._follow_settings(now)
            live = self._live
            namespaces = await asyncio.to_thread(live.catch_up, now)
            moment = Moment(live, revision, now, namespaces, self.missing())
            if live is not self._live:  # other settings have been read meanwhile
                return moment
            self._moment = moment
        return self._moment

    async def decided(self, moment: Moment) -> Decided | None:
        """Why gangs wait, as of a moment that may have passed; None if that is being computed.

        Viewers are told of a change when it has been.
        """
        due = self._decided_of != moment.revision and time.monotonic() >= self._decides_at
        if self._deciding is None and due:
            self._deciding = asyncio.create_task(self._decide(moment))
        if self._deciding is not None:
            await asyncio.wait([self._deciding], timeout=AT_ONCE)
        return self._decided

    async def _decide(self, moment: Moment) -> None:
        begun = time.monotonic()
        try:
            decided = await asyncio.to_thread(moment.live.decided, moment.now)
            took = time.monotonic() - begun
            self._decided, self._decided_of = decided, moment.revision
            self._decides_at = time.monotonic() + REST * took
            if took > AT_ONCE:
                self._changed.set()
        finally:
            self._deciding = None

    async def planning(self, moment: Moment, text: str, *, embedded: bool) -> Planning:
        """What a process needs to plan a text: the whole cluster."""
        there = [(number, [*self._informers[kind].items.values()]) for number, kind in enumerate(WATCHED)]

        def encoded() -> list[tuple[int, bytes]]:
            encode = msgspec.msgpack.encode
            return [
                (number, encode(items[first : first + TOGETHER]))
                for number, items in there
                for first in range(0, len(items), TOGETHER)
            ]

        live = moment.live
        served = None if live.schedulers is None else sorted(live.schedulers)
        objects = await asyncio.to_thread(encoded)
        return Planning(text, embedded, objects, served, live.settings, time.time())

    async def _follow_settings(self, now: float) -> None:
        """Reads the scheduler's settings. If they are others, everything is read by them again."""
        if self._schedulers is None or now - self._settings_at <= SETTINGS:
            return
        self._settings_at = now
        with suppress(ApiError, Unanswered, Unreachable):
            settings = await scheduler_settings(self.client)
            if settings != self._live.settings:
                self._live = self._new(settings.served or self._schedulers, settings)
                for kind in KINDS:
                    for item in self._informers[kind].items.values():
                        self._live.change(kind, None, item)

    def _new(self, schedulers: frozenset[str] | None, settings: Settings) -> Live:
        return Live(schedulers, settings, lambda kind, key: self._informers[kind].items.get(key))

    def _take(self, kind: AnyKind, old: Resource | None, new: Resource | None) -> None:
        self._live.change(kind, old, new)
        if kind is kinds.POD:
            before, after = (each if isinstance(each, Pod) else None for each in (old, new))
            self.reports.take(before, after)
        self._changed.set()

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
