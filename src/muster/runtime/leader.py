"""The leader: its term, and how it takes over from a leader that may not know that its term is over.

Two schedulers must never act on two different views. An epoch counts the terms. On the embedded cluster
a file lock proves that no other scheduler runs, and each start raises the epoch (`sole`). On a real
cluster the epoch is the number of times a lease has changed hands, and a leader acts only while it can
prove, by its own monotonic clock, that its lease is fresh (`fresh`). The caller that runs the scheduler
supplies the term (`election.py`).

Only the lock or the lease proves another leader. What an object says of epochs proves nothing: any user may
write an annotation or a GangPlan. `fencing` describes how the late writes of an earlier leader are refused.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from muster.core.words.decisions import Assign, Decision, Wait
from muster.core.words.events import Event
from muster.core.words.gang import GangId, Shape
from muster.effects import Effect
from muster.effects.execute import Outcome, execute
from muster.journal import Began, Cycle, Recorder
from muster.kube.client import Client
from muster.kube.clock import Clock
from muster.kube.errors import ApiError, Conflict, Unanswered, Unreachable
from muster.runtime.budget import WriteBudget
from muster.runtime.commit.view import Limits
from muster.runtime.committer import Committer
from muster.runtime.fencing import Fencing
from muster.runtime.plan_record import PlanTooLarge, plan_found
from muster.runtime.recreation import Gather, NotRecreatable, gathered, recording
from muster.runtime.watched import WatchedMirror
from muster.runtime.writes import Fence, RecordPods, Write
from muster.translate.disclosure import EVERYTHING, Disclosure

log = logging.getLogger(__name__)

#: Seconds after which everything is checked again even if nothing happened: the wall clock may be set.
LONGEST_SLEEP: Final = 60.0
#: Seconds between two retries of all that admission refused: some clusters rewrite their webhooks all day.
READMITTED: Final = 5.0
#: Most seconds for which a new leader waits for answers about devices before it decides open plans. It takes
#: about one to start the process that answers. Longer than this, gangs without devices should not wait.
ANSWERS: Final = 5.0
#: Most writes under way at once. A busy API server divides its time among them, so those that only report
#: have few slots, and these are their own.
WRITES: Final = 64
REPORTS: Final = 16


class Deposed(Exception):
    """Raised when the lease is lost or cannot be proven any more: another leader may act now.

    Also raised when what is known of the cluster is no longer true, because its store has been replaced.
    """


@dataclass(frozen=True, slots=True)
class Term:
    epoch: int
    #: no other leader can be acting: there is nothing to fence
    sole: bool = False
    #: no earlier leader has seen pods of a later resourceVersion, so none of them is to be fenced
    seen: float = float("inf")
    #: whether the lease is provably held now
    fresh: Callable[[], bool] = lambda: True

    def lost(self) -> Deposed:
        return Deposed(f"the term of epoch {self.epoch} cannot be proven any more; another leader may act")


class Core(Protocol):
    """`muster.core.Scheduler`, or what a test puts in its place."""

    def apply(self, event: Event) -> None: ...

    def decide(self, now: float) -> list[Decision]: ...

    def wake_at(self) -> float | None: ...


class Leader:
    """Observes, decides and returns what to write. Everything but `write` is pure; the loop drives it."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        term: Term,
        mirror: WatchedMirror,
        core: Core,
        limits: Limits | None = None,
        journal: Recorder | None = None,
        timed: Callable[[float], None] | None = None,
        names: Disclosure = EVERYTHING,
        budget: WriteBudget | None = None,
    ) -> None:
        """`timed` takes the seconds of each cycle of the core; `names`: the gangs its writes may name."""
        self.term, self.mirror, self.clock = term, mirror, clock
        self.committer = Committer(mirror, term.epoch, limits, names, budget)
        self._client, self._core, self._journal, self._timed = client, core, journal, timed
        if journal is not None:
            journal.write(self._now(), Began(term.epoch))
        self.fencing = Fencing(mirror, term.epoch, term.seen)
        #: when what admission refused may be retried again because admission has changed
        self._readmits_at = 0.0
        #: monotonic time until which the take-over waits for answers about devices; None = it does not wait
        self._answered_by: float | None = None
        #: gangs whose plans it has taken over and the core has not decided yet, with their waiting pods
        self._undecided: dict[GangId, frozenset[str]] = {}
        #: events for the core that outcomes of writes have produced
        self._learnt: list[Event] = []
        self._writing, self._reporting = asyncio.Semaphore(WRITES), asyncio.Semaphore(REPORTS)
        #: how it reads several objects
        self.gather: Gather[Any] = gathered  # Any: whatever is read

    def fences(self) -> list[Fence]:
        """Returns the fences to make now, before anything else, until the fencing is complete."""
        self._look()
        self._check()
        return [] if self.term.sole else self.fencing.first(self._now())

    def fenced(self, outcome: Outcome[Write]) -> None:
        """Takes the outcome of a fence. A refused fence holds back only its own gangs."""
        if isinstance(outcome.effect, Fence):
            self.fencing.learn(outcome.effect, outcome.error, self._now())

    def ready(self) -> bool:
        """Whether it may adopt: no object awaits its fence, and it is known which devices plans may use.

        The core starts without answers to the expressions that select devices. If it decided a plan then,
        the devices that its claims have would not fit, and the start would be undone.
        """
        if not self.fencing.complete:
            return False
        if not self._unanswered():
            return True
        if self._answered_by is None:
            self._answered_by = self.clock.monotonic() + ANSWERS
        return self.clock.monotonic() >= self._answered_by

    def adopt(self) -> None:
        """Takes over the open plans: reports them to the core and continues them."""
        self._answered_by = None
        self.committer.hold_back(self.fencing.unfenced)
        self.committer.adopt(self._now())
        for gang in self.mirror.planned():
            if gang in self.mirror.groups and not self.committer.is_ending(gang):
                ready = self.mirror.groups[gang].members.ready.values()
                self._undecided[gang] = frozenset(pod.metadata.uid for pod in ready)
                self._tell([plan_found(gang, self.committer.recorded(gang), self.mirror.find)])

        self.mirror.devices.spare(frozenset().union(*self._undecided.values()))

    def turn(self) -> Iterator[tuple[GangId, Sequence[Write]]]:
        """1. Read what has changed. 2. Decide. 3. Visit each gang concerned, and yield its writes."""
        self._check()
        self._look()
        self._decide()
        for gang, fence in self.fencing.again(self._now()):
            yield gang, (fence,)
        self.committer.hold_back(self.fencing.unfenced)
        for gang in self.committer.due(self._now()):
            writes, events = self.committer.work(gang, self._now())
            self._learnt += events
            if writes:
                yield gang, writes

    async def write(self, write: Write, *, reports: bool = False) -> Outcome[Write]:
        """Makes the write, if this leader still leads. A write that only `reports` delays no other write."""
        async with self._reporting if reports else self._writing:
            self._check()
            try:
                if isinstance(write, RecordPods):
                    effect: Effect = await recording(self._client, write, self.gather)
                else:
                    effect = write
                revision = await execute(self._client, effect, self.clock.now())
            except (ApiError, PlanTooLarge, NotRecreatable, Unanswered, Unreachable) as error:
                level = (
                    logging.DEBUG if isinstance(error, Conflict) else logging.INFO
                )  # the next look decides
                log.log(level, "%s: %s", type(write).__name__, error)
                return Outcome(write, error)
            return Outcome(write, revision=revision)

    def done(self, gang: GangId, outcomes: Sequence[Outcome[Write]]) -> None:
        """Takes the outcomes of a gang's writes, up to and including the first run that failed."""
        fences = [outcome for outcome in outcomes if isinstance(outcome.effect, Fence)]
        for outcome in fences:
            self.fenced(outcome)
        if not fences:
            self._learnt += self.committer.done(gang, outcomes, self._now())
        self.mirror.changed.set()

    def idle(self) -> float:
        """Returns the seconds until the next timer is due."""
        if self._learnt:
            return 0.0
        timers = [self._core.wake_at(), self.committer.next_timer(), self.fencing.next()]
        if self.mirror.readmitted:
            timers.append(self._readmits_at)
        if self._answered_by is not None:
            timers.append(self._now() + self._answered_by - self.clock.monotonic())
        due = min((timer for timer in timers if timer is not None), default=float("inf"))
        return min(max(due - self._now(), 0.0), LONGEST_SLEEP)

    def _unanswered(self) -> bool:
        """Whether a gang with an open plan asks for devices whose expressions have not been evaluated yet."""
        pending = self.mirror.devices.pending
        planned = (self.mirror.groups.get(gang) for gang in self.mirror.planned()) if pending else ()
        shapes = (each.shape for group in planned if group is not None for each in group.gang.pod_sets)
        return any(not pending.isdisjoint(_answers(shape)) for shape in shapes)

    def _check(self) -> None:
        """Raises `Deposed` if the leader has been deposed, or cannot prove that it has not."""
        if not self.term.fresh():
            raise self.term.lost()

    def _look(self) -> None:
        changes = self.mirror.drain(self._now())
        self._tell(changes.events)
        for event in changes.events:
            self.committer.observe(event)
        for gang in changes.gangs:
            self.committer.changed(gang)
        for gang in changes.renewed:
            self.committer.renewed(gang)

        if self.mirror.readmitted and self._now() >= self._readmits_at:
            self.mirror.readmitted, self._readmits_at = False, self._now() + READMITTED
            self.fencing.readmitted(self._now())
            self._learnt += self.committer.readmitted(self._now())

    def _decide(self) -> None:
        learnt, self._learnt = self._learnt, []
        self._tell(learnt)
        now = self._now()
        if self._journal is not None:
            self._journal.write(now, Cycle())
        began = self.clock.monotonic()
        decisions = self._core.decide(now)
        if self._timed is not None:
            self._timed(self.clock.monotonic() - began)
        for decision in decisions:
            if self._journal is not None:
                self._journal.write(now, decision)
            self.committer.decided(decision)
            if isinstance(decision, Assign | Wait):
                self._undecided.pop(decision.gang, None)
        if self._undecided:
            planned = {*self.mirror.planned()}
            self._undecided = {gang: pods for gang, pods in self._undecided.items() if gang in planned}
        self.mirror.devices.spare(frozenset().union(*self._undecided.values()))

    def _tell(self, events: Iterable[Event]) -> None:
        for event in events:
            if self._journal is not None:
                self._journal.write(self._now(), event)
            self._core.apply(event)

    def _now(self) -> float:
        return self.clock.now().timestamp()


def _answers(shape: Shape) -> Iterator[str]:
    """Yields the answers about devices that a pod depends on; a resource may be one, if devices are."""
    yield from (resource for resource, _ in shape.requests)
    for request in (request for claim in shape.claims for request in claim.requests):
        for one in request.alternatives:
            yield from one.selectors
