"""The cycle: events in (`apply`), decisions out (`decide`), for whole gangs.

    1. `world.settle` updates what follows from the events: holds that end, what each gang lacks, what each
       queue uses and is entitled to.
    2. `queueing` says which gang is next, and how much of what it lacks it may have: a `Grant`.
    3. `infeasible` knows demands that cannot start until something changes. These are skipped.
    4. `placement` finds nodes for the whole gang: its minimum at once and as many more pods as fit, greedily,
       then exactly, beside what is reserved. The answer is `Placed`, `Infeasible` or `WouldDelay`.
    5. If the gang does not fit, `preemption` looks for victims without which it does.
    6. If there are none, `reservations` reserves for it, and gangs behind it may not delay that.

Steps 3 to 6 are one gang's attempt (`start.py`). At the end the accounts of started and evicted gangs are
updated, and `explain` says why the others wait. All of it is pure: the same events and times give the same
decisions on any machine. Each piece of state has one owner; the scheduler itself only puts the parts
together.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from math import inf
from typing import Final

from muster.core.cycle.config import Config
from muster.core.cycle.dry_run import DryRun
from muster.core.cycle.incremental import IncrementalCycle
from muster.core.cycle.start import PlacementStep
from muster.core.explain import Explainer, Remedies
from muster.core.infeasible import InfeasibleDemands
from muster.core.parts import Parts
from muster.core.placement import Fit
from muster.core.placement.attainable import Attainable
from muster.core.preemption import Preemption
from muster.core.queueing import Admission, Attempt, Attempts
from muster.core.queueing.pending import PendingQueues
from muster.core.reservations import Backfill, Reservations
from muster.core.reservations.backfill_order import shortest_first
from muster.core.words.decisions import Decision, Explanation, Reserve, Wait
from muster.core.words.events import Event
from muster.core.words.gang import GangId
from muster.core.work import WorkBudget
from muster.core.world import World
from muster.core.world.completions import expected, promised
from muster.core.world.eligibility import Eligibility
from muster.core.world.gangs import GangState
from muster.core.world.handlers import apply
from muster.core.world.nodes import Nodes

__all__ = ["Config", "Scheduler"]


#: Cycles for postponed gangs follow each other so many times as fast as those for postponed searches. Other
#: events are taken in between two cycles.
SOONER: Final = 10


class Scheduler:
    """The state, and the cycle over it. It never blocks, and belongs to one thread.

    All of its state can be saved (`core.saved`), so it holds no lambdas, iterators or cached functions.
    """

    def __init__(self, config: Config | None = None) -> None:
        self.config = config = config or Config()
        hold, backfill = config.hold, config.backfill
        # The shared state
        nodes = Nodes()
        eligibility = Eligibility(nodes)
        order = config.order(nodes, eligibility)
        duration = promised if backfill is Backfill.CONSERVATIVE else expected
        world = World(hold, nodes, eligibility, order.device, duration)
        fit = Fit(world, order)
        self.world, self.fit = world, fit
        world.queues.attainable = Attainable(world, fit.slots)
        # What a cycle asks about that state
        self._infeasible = InfeasibleDemands(world, fit)
        steps = config.steps if config.explain else None
        self.preemption = Preemption(world, fit, self._infeasible, steps)
        self.reservations = Reservations(backfill, config.depth, config.drain_after, world, fit, steps)
        self._admission = Admission(world.queues, world.quotas, world.demands, world.exclusive_domains.least)
        self._pending = PendingQueues(world.queues, world.completions.duration if backfill.reserves else None)
        own = self._infeasible, self._admission, self._pending, self.preemption, self.reservations
        parts = Parts(world, fit, *own)
        self._incremental = IncrementalCycle(parts)
        self._work = WorkBudget(steps)
        self._placement = step = PlacementStep(hold, parts, self.preemption, self._work)
        self._attempts = Attempts(
            self._pending, world.queues, self._admission, step.cannot_start, self._infeasible.may_fit
        )
        dry_run = DryRun(hold, parts, self._in_order)
        remedies = Remedies(config.remedies, config.trials, step.request, parts, dry_run)
        self._explainer = Explainer(parts, remedies, steps)
        #: gangs that were leaving stay, since the end of the last cycle: they may be victims again
        self._spared = False
        #: some gang had to be explained in the last cycle
        self._explained = False
        #: gangs that lacked something in the last cycle, in the order in which they were served
        self.served: Sequence[GangState] = ()

    def apply(self, event: Event) -> None:
        """Record one event. A repeated event changes nothing."""
        apply(self.world, event)

    def decide(self, now: float) -> list[Decision]:
        """Run one cycle. Return the decisions in the order in which they are to be carried out."""
        lapsed, releases, changed = self.world.settle(now)
        self._follow(changed)
        placed: list[Decision] = []
        attempts = self._begin(now, lapsed)
        for attempt in self._in_order(attempts):
            placed += self._placement.place(attempt, now)
        self.served = [*attempts.served.values()]
        self._spared = self.world.end_forsaken()
        self._follow(self.world.account())
        self.reservations.withdraw()
        waits = self._explain(now) if self.config.explain else []
        reserves = self._end(started=bool(placed))
        return [*releases, *placed, *reserves, *waits]

    def settle(self) -> None:
        """Update what follows from the events (what gangs lack, what queues use). Decide nothing."""
        self._follow(self.world.account())
        self.fit.slots.order.settle()
        self.world.queues.entitle()

    def asked(self, gang: GangId) -> Explanation | None:
        """Why a gang waits, as of the last cycle, and all that would start it; None: it does not wait.

        This is for single requests: a cycle spends less on remedies, for the first gangs of each queue only.
        """
        state = self.world.gangs.get(gang)
        with self.world.nodes.claims.between():
            return None if state is None else self._explainer.asked(state)

    def front(self, queue: str, most: int) -> list[GangId]:
        """Which gangs of a queue wait, in the order in which they are served, at most so many."""
        waiting = self._pending.of_queue.get(queue, ())
        return [state.id for state in islice(waiting, most)]

    @property
    def behind(self) -> bool:
        """Whether work is left to the next cycle, which may start or evict gangs without any change."""
        return (
            self.fit.exact.budget.behind
            or self.preemption.behind
            or self._work.behind
            or self._spared
            or self._infeasible.helped
        )

    def wake_at(self) -> float | None:
        """The earliest time at which a cycle has work without a new event; None: there is none.

        At that time a hold, a back-off or a minimum run time ends, a node is no longer avoided, a reservation
        begins, a postponed search is due, or gangs may fit thanks to the affinity of a gang that has just
        started.
        """
        times = [time for time in self.world.gangs.timed.values() if time != inf]
        if self.behind or self._explainer.behind:
            times.append(self.world.now + self.config.turn)
        if self._work.behind or self._explainer.postponed or self.preemption.interrupted:
            times.append(self.world.now + self.config.turn / SOONER)
        times += [self.preemption.due, self.reservations.due_at, self.world.failed_starts.due]
        return None if (first := min(times)) == inf else first

    def _begin(self, now: float, lapsed: set[GangId]) -> Attempts:
        """Begin a cycle in all parts. Return its attempts. `lapsed`: gangs that have just lost a hold."""
        self.fit.slots.order.settle()
        if self.config.explain or (self._pending and not self.world.queues.undivided):
            self.world.queues.entitle()
        self._infeasible.begin()
        self.fit.exact.budget.next_cycle()
        self._work.next_cycle()
        self.preemption.next_cycle(now, changed=self._infeasible.changed)
        # When explaining, visit infeasible gangs too: the reason may be the gang's own.
        seen = self._has_reservation if self.config.explain else None
        only = None if seen or lapsed else self._incremental.lasts(now)
        if only is None:
            self.reservations.begin(now)
        else:
            self.reservations.resume(now)
        return self._attempts.begin(lapsed, seen, only)

    def _has_reservation(self, state: GangState) -> bool:
        return self.reservations.of(state.id) is not None

    def _end(self, *, started: bool) -> list[Reserve]:
        """End the cycle in all parts, and return the reservations that are new."""
        self._pending.newcomers.clear()
        reserves = self.reservations.end()
        if not self.config.explain:
            self._incremental.note(self.served)
        self._infeasible.end(started=started)
        return reserves

    def _explain(self, now: float) -> list[Wait]:
        """Why gangs wait, as far as the reason is new."""
        waiting = [state for state in self.served if state.lacks]
        if not (waiting or self._explained):
            return []
        self._explained = bool(waiting)
        return self._explainer.explain(waiting, now)

    def _follow(self, changed: Sequence[GangState]) -> None:
        """Update what rests on gangs that have changed."""
        if not changed:
            return
        self._pending.update(changed)
        self.preemption.update(changed)
        self.fit.gangs_changed(changed)

    def _in_order(self, attempts: Attempts) -> Iterable[Attempt]:
        if not self.config.shortest_first:
            return attempts
        return shortest_first(
            attempts, self.reservations, self.world.queues, self._admission, self.world.completions.duration
        )
