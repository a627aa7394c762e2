"""The live scheduler: one loop that looks, decides and commits.

    drain the mirror → tell the core → let it decide → look at each gang that has changed → write

Deciding is pure and quick, writing is neither: writes of one gang go out in order in a task of its own,
those of different gangs side by side, while the loop goes on. It sleeps until something changes or the
next timer is due.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from muster.core.events import Event, PlanFound
from muster.core.gang import GangId
from muster.core.scheduler import Scheduler
from muster.journal import Journal
from muster.kube.client import Client
from muster.kube.clock import Clock
from muster.kube.errors import ApiError, Unanswered, Unreachable
from muster.runtime.commit import Limits
from muster.runtime.committer import Committer
from muster.runtime.leader import Deposed, Term, touches
from muster.runtime.mirror import Mirror
from muster.runtime.writes import PARALLEL, Write, perform

log = logging.getLogger(__name__)

#: Writes under way at once.
WRITES = 64
#: Seconds between two looks, so that a burst of changes is one.
PACE = 0.005
#: Seconds after which everything is looked at again though nothing happened: the wall clock may be set.
LONGEST_SLEEP = 60.0


async def run(
    client: Client,
    clock: Clock,
    term: Term,
    *,
    scheduler: Scheduler | None = None,
    schedulers: frozenset[str] | None = None,
    limits: Limits | None = None,
    journal: Journal | None = None,
    leading: asyncio.Event | None = None,
) -> None:
    """Runs until cancelled, or until `Deposed` is raised.

    `schedulers`: values of `spec.schedulerName` that make a pod ours, None = all. `leading` is set once
    this leader has recovered and decides.
    """
    mirror = Mirror(client, clock, schedulers)
    loop = _Loop(client, clock, term, mirror, scheduler or Scheduler(), limits, journal)
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(mirror.run(), name="mirror")
        try:
            await mirror.synced()
            await loop.take_over()
            if leading is not None:
                leading.set()
            await loop.lead(tasks)
        finally:
            watching.cancel()


@dataclass(slots=True)
class _Loop:
    client: Client
    clock: Clock
    term: Term
    mirror: Mirror
    scheduler: Scheduler
    limits: Limits | None
    journal: Journal | None
    committer: Committer = field(init=False)
    #: facts that outcomes of writes have taught, for the core
    learnt: list[Event] = field(default_factory=list)
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(WRITES))

    def __post_init__(self) -> None:
        self.committer = Committer(self.mirror, self.term.epoch, self.limits)

    async def take_over(self) -> None:
        """1. Touch what an earlier leader could still write to. 2. See that. 3. Adopt its open plans."""
        self._look()
        while not self.term.sole and (found := list(touches(self.mirror, self.term.epoch))):
            for touch in found:
                await self._write(touch)
            await self._sleep(1.0)
            self._look()
        self.committer.adopt()
        for gang in self.mirror.planned():
            plan = self.mirror.plans(gang)[-1]
            if gang in self.mirror.groups and not self.committer.is_ending(gang):
                self._tell([PlanFound(gang, plan.nodes)])

    async def lead(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            self._check()
            self._look()
            self._decide()
            for gang in self.committer.due(self._now()):
                writes, events = self.committer.work(gang, self._now())
                self.learnt += events
                if writes:
                    tasks.create_task(self._commit(gang, writes))
            if not self.learnt:
                await self._sleep(self._idle())
            await self.clock.sleep(PACE)

    def _look(self) -> None:
        changes = self.mirror.drain(self._now())
        self._tell(changes.events)
        for event in changes.events:
            self.committer.observe(event)
        for gang in changes.gangs:
            self.committer.changed(gang)

    def _decide(self) -> None:
        learnt, self.learnt = self.learnt, []
        self._tell(learnt)
        now = self._now()
        for decision in self.scheduler.decide(now):
            if self.journal is not None:
                self.journal.write(now, decision)
            self.committer.decided(decision)

    def _tell(self, events: Iterable[Event]) -> None:
        for event in events:
            if self.journal is not None:
                self.journal.write(self._now(), event)
            self.scheduler.apply(event)

    async def _commit(self, gang: GangId, writes: Sequence[Write]) -> None:
        """In order; neighbours of a kind that may go together, together. The first failure ends it."""
        outcomes: list[tuple[Write, Exception | None]] = []
        for kind, same in groupby(writes, type):
            batch = list(same)
            if kind in PARALLEL:
                results = await asyncio.gather(*map(self._write, batch))
            else:
                results = []
                for write in batch:
                    results.append(await self._write(write))
                    if results[-1] is not None:
                        break
            outcomes += zip(batch, results, strict=False)
            if any(results):
                break
        self.learnt += self.committer.done(gang, outcomes, self._now())
        self.mirror.changed.set()

    async def _write(self, write: Write) -> Exception | None:
        async with self.slots:
            self._check()
            try:
                await perform(self.client, write, self.clock)
            except (ApiError, Unanswered, Unreachable) as error:
                log.info("%s: %s", type(write).__name__, error)
                return error
            return None

    def _check(self) -> None:
        """A leader that has been deposed, or cannot prove that it has not, does nothing more."""
        if self.mirror.epoch_seen > self.term.epoch or not self.term.fresh():
            raise Deposed(self.term.epoch, max(self.mirror.epoch_seen, self.term.epoch + 1))

    def _now(self) -> float:
        return self.clock.now().timestamp()

    def _idle(self) -> float:
        """Seconds until something is due of itself."""
        timers = [self.scheduler.wake_at(), self.committer.next_timer()]
        due = min((timer for timer in timers if timer is not None), default=float("inf"))
        return min(max(due - self._now(), 0.0), LONGEST_SLEEP)

    async def _sleep(self, seconds: float) -> None:
        """Until something changes, at the longest this long."""
        changed = asyncio.ensure_future(self.mirror.changed.wait())
        timer = asyncio.ensure_future(self.clock.sleep(seconds))
        try:
            await asyncio.wait({changed, timer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
            timer.cancel()
