"""Who may act: the term of a leader, and how it takes over from one that may not know it is over.

Two schedulers must never act on two different views. An epoch counts the terms. On the embedded cluster
a file lock proves that nobody else is there, and each start raises the epoch (`sole`). On a real
cluster the epoch is the number of times a lease has changed hands, and a leader acts only while it can
prove, by its own monotonic clock, that its lease is fresh (`fresh`). Election itself is not here yet:
whoever runs the scheduler brings its term along.

A clock cannot stop a write that is already on its way. Therefore a new leader first *touches* what an
earlier one could still write to: unbound members (binds carry their resourceVersion), owners that muster
suspends and resumes (which tests theirs), and pods that an open plan may end (so do evictions). That is
one write for each, and only where another leader can be. A touch writes the epoch into an annotation, so
it is also how a leader that is still alive learns that it has been deposed: it stops at the first epoch
higher than its own that any object tells of.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from muster.api.base import Resource
from muster.api.kinds import POD
from muster.core.decisions import Decision
from muster.core.events import Event
from muster.core.gang import GangId
from muster.journal import Began, Cycle, Journal
from muster.kube.client import Client
from muster.kube.clock import Clock
from muster.kube.errors import ApiError, Unanswered, Unreachable
from muster.names import EPOCH
from muster.runtime.commit.view import Limits
from muster.runtime.committer import Committer, Observed
from muster.runtime.performing import perform
from muster.runtime.plan import PlanTooLarge, found
from muster.runtime.watched import WatchedMirror
from muster.runtime.writes import AnyKind, Touch, Write

log = logging.getLogger(__name__)

#: Writes under way at once.
WRITES: Final = 64
#: Seconds after which everything is looked at again though nothing happened: the wall clock may be set.
LONGEST_SLEEP: Final = 60.0


class Deposed(Exception):
    """Another leader has taken over; nothing more may be written."""

    def __init__(self, epoch: int, seen: int) -> None:
        super().__init__(f"epoch {seen} has begun; this leader's was {epoch}")


@dataclass(frozen=True, slots=True)
class Term:
    epoch: int
    #: nobody else can be acting: there is nothing to touch
    sole: bool = False
    #: whether the lease is provably held now
    fresh: Callable[[], bool] = lambda: True


class Core(Protocol):
    """`muster.core.Scheduler`, or what a test puts in its place."""

    def apply(self, event: Event) -> None: ...

    def decide(self, now: float) -> list[Decision]: ...

    def wake_at(self) -> float | None: ...


class Leader:
    """Looks, decides and says what to write. Everything but `write` is pure computing; the loop drives it."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        term: Term,
        mirror: WatchedMirror,
        core: Core,
        limits: Limits | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.term, self.mirror, self.clock = term, mirror, clock
        self.committer = Committer(mirror, term.epoch, limits)
        self._client, self._core, self._journal = client, core, journal
        if journal is not None:
            journal.write(self._now(), Began(term.epoch))
        #: facts that outcomes of writes have taught, for the core
        self._learnt: list[Event] = []
        self._slots = asyncio.Semaphore(WRITES)

    def touches(self) -> list[Touch]:
        """What to touch before anything else; none left = what an earlier leader does now is refused."""
        self._look()
        self._check()
        return [] if self.term.sole else list(touches(self.mirror, self.term.epoch))

    def adopt(self) -> None:
        """Takes over the open plans: the core is told of them, and they are continued."""
        self.committer.adopt(self._now())
        for gang in self.mirror.planned():
            if gang in self.mirror.groups and not self.committer.is_ending(gang):
                self._tell([found(gang, self.mirror.plans(gang)[-1], self.mirror.find)])

    def turn(self) -> Iterator[tuple[GangId, Sequence[Write]]]:
        """1. See what has changed. 2. Decide. 3. Look at each gang concerned: what is to be written now."""
        self._check()
        self._look()
        self._decide()
        for gang in self.committer.due(self._now()):
            writes, events = self.committer.work(gang, self._now())
            self._learnt += events
            if writes:
                yield gang, writes

    async def write(self, write: Write) -> Exception | None:
        """Returns what went wrong."""
        async with self._slots:
            self._check()
            try:
                await perform(self._client, write, self.clock)
            except (ApiError, PlanTooLarge, Unanswered, Unreachable) as error:
                log.info("%s: %s", type(write).__name__, error)
                return error
            return None

    def done(self, gang: GangId, outcomes: Sequence[tuple[Write, Exception | None]]) -> None:
        """The writes of a turn have been tried, up to the first that failed."""
        self._learnt += self.committer.done(gang, outcomes, self._now())
        self.mirror.changed.set()

    def idle(self) -> float:
        """Seconds until something is due of itself."""
        if self._learnt:
            return 0.0
        timers = [self._core.wake_at(), self.committer.next_timer()]
        due = min((timer for timer in timers if timer is not None), default=float("inf"))
        return min(max(due - self._now(), 0.0), LONGEST_SLEEP)

    def _check(self) -> None:
        """A leader that has been deposed, or cannot prove that it has not, does nothing more."""
        if self.mirror.epoch_seen > self.term.epoch or not self.term.fresh():
            raise Deposed(self.term.epoch, max(self.mirror.epoch_seen, self.term.epoch + 1))

    def _look(self) -> None:
        changes = self.mirror.drain(self._now())
        self._tell(changes.events)
        for event in changes.events:
            self.committer.observe(event)
        for gang in changes.gangs:
            self.committer.changed(gang)

    def _decide(self) -> None:
        learnt, self._learnt = self._learnt, []
        self._tell(learnt)
        now = self._now()
        if self._journal is not None:
            self._journal.write(now, Cycle())
        for decision in self._core.decide(now):
            if self._journal is not None:
                self._journal.write(now, decision)
            self.committer.decided(decision)

    def _tell(self, events: Iterable[Event]) -> None:
        for event in events:
            if self._journal is not None:
                self._journal.write(self._now(), event)
            self._core.apply(event)

    def _now(self) -> float:
        return self.clock.now().timestamp()


def touches(observed: Observed, epoch: int) -> Iterator[Touch]:
    """What a new leader touches before it reads anything as settled; nothing that it has touched before."""
    seen: set[str] = set()
    for kind, obj in _in_reach(observed):
        if obj.metadata.uid in seen or obj.metadata.annotations.get(EPOCH) == str(epoch):
            continue
        seen.add(obj.metadata.uid)
        meta = obj.metadata
        yield Touch(kind, meta.namespace, meta.name, meta.resource_version, epoch)


def _in_reach(observed: Observed) -> Iterator[tuple[AnyKind, Resource]]:
    """Owners that may be suspended and resumed, unbound members, and whoever an open plan may end."""
    for _, group in sorted(observed.groups.items()):
        if group.owner is not None and group.owner.admission and not group.finished:
            owner = observed.find(group.owner.kind, f"{group.namespace}/{group.owner.name}")
            if owner is not None:
                yield group.owner.kind, owner
        for member in group.members.values():
            if not member.pod.spec.node_name:
                yield POD, member.pod
    for gang in observed.planned():
        planned = observed.groups.get(gang)
        for member in planned.members.values() if planned is not None else ():
            yield POD, member.pod
        for victim in (victim for plan in observed.plans(gang) for victim in plan.victims):
            for ref in victim.pods:
                pod = observed.find(POD, ref.key)
                if pod is not None and pod.metadata.uid == ref.uid:
                    yield POD, pod
