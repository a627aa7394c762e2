"""The scheduler: facts in (`apply`), decisions out (`decide`), for whole gangs.

`apply` records a fact at any time (`facts.py`). `decide` runs one cycle over all that is known:

1. *nodes*: merge new nodes in.
2. *settlement*: release holds that have ended.
3. *settlement*, *queues*: compute what each gang lacks, what each queue uses and what it is entitled to.
4. *order* says which gang is next, and how much it may have. *starts* places each gang whole: its minimum at
   once and as many more pods as fit, or nothing; greedily, then exactly, then with victims (*fit*,
   *preemption*). A gang that does not fit is skipped: *infeasible* remembers it, or it gets a reservation
   (*backfill*).
5. *settlement*: bring the accounts of started and evicted gangs up to date.
6. *explain* why the other gangs wait.

Both are pure: the same events and times give the same decisions on any machine. The scheduler itself only
puts these parts together; each piece of state has one owner among them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf

from muster.core.cycle.dry_run import DryRun
from muster.core.cycle.incremental import Quiet
from muster.core.cycle.start import Starts
from muster.core.explain import Explainer
from muster.core.explain.remedies import Remedies
from muster.core.infeasible import InfeasibleDemands
from muster.core.placement import Fit
from muster.core.placement.order import Order
from muster.core.placement.packing import Pack
from muster.core.preemption import Preemption
from muster.core.queueing.admission import Admission
from muster.core.queueing.attempts import Attempt, Attempts
from muster.core.queueing.pending import PendingQueues
from muster.core.reservations import Backfill, Reservations
from muster.core.reservations.backfill_order import shortest_first
from muster.core.words.decisions import Decision, Explanation
from muster.core.words.events import Event
from muster.core.words.gang import GangId
from muster.core.world import World
from muster.core.world.completions import expected, promised
from muster.core.world.eligibility import Eligibility
from muster.core.world.gangs import GangState
from muster.core.world.nodes import Nodes


@dataclass(frozen=True, slots=True)
class Config:
    """Settings of a scheduler, fixed for its life. A policy of the simulator is one of these."""

    #: seconds a vacated place of a standing gang stays held for its replacement
    hold: float = 300.0
    #: seconds until the next cycle if exact searches had to be put off
    turn: float = 1.0
    #: say why gangs wait (`Wait`); False for a replay whose explanations are not read
    explain: bool = True
    #: which gangs may start ahead of a gang that waits
    backfill: Backfill = Backfill.EASY
    #: under `conservative`: how many waiting gangs have a reservation
    depth: int = 64
    #: seconds after which nodes are kept free for a gang whose start cannot be estimated; None: never
    drain_after: float | None = 3600.0
    #: whether gangs that may backfill are served by rising duration, not in queue order
    shortest_first: bool = False
    #: the order in which nodes are filled
    order: Callable[[Nodes, Eligibility], Order] = Pack
    #: gangs of each queue for which a cycle finds what would start them, and placements that it tries for it
    remedies: int = 3
    trials: int = 100


class Scheduler:
    """The state, and the cycle over it. It never blocks, and belongs to one thread."""

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
        self.world = world
        self.nodes, self.ledger, self.eligibility = world.nodes, world.ledger, world.eligibility
        self.slots, self.topology, self.fit = fit.slots, world.topology, fit
        self.gangs, self.pods, self.ends = world.gangs, world.pods, world.ends
        self.queues, self.quotas = world.queues, world.quotas
        # What a cycle asks about that state
        self.preemption = Preemption(world, fit)
        self.reservations = Reservations(backfill, config.depth, config.drain_after, world, fit)
        self._infeasible = InfeasibleDemands(world, fit)
        self._admission = Admission(self.queues, self.quotas, world.demands)
        self._pending = PendingQueues(self.queues, self.ends.duration if backfill.reserves else None)
        self._quiet = Quiet(world, self._pending, self._infeasible, self.preemption, self.reservations)
        self._starts = Starts(hold, world, fit, self._infeasible, self.preemption, self.reservations)
        dry_run = DryRun(
            world,
            fit,
            self._admission,
            self._pending,
            self._infeasible,
            self.preemption,
            self.reservations,
            self._starts,
            self._in_order,
        )
        remedies = Remedies(
            config.remedies,
            config.trials,
            self._starts.request,
            self._admission,
            self.preemption,
            self.reservations,
            dry_run,
        )
        self._explainer = Explainer(world, fit, self._admission, remedies)
        #: gangs that were leaving stay, since the end of the last cycle: they may be victims again
        self._spared = False
        #: gangs that lacked something in the last cycle, in the order in which they were served
        self.served: Sequence[GangState] = ()

    def apply(self, event: Event) -> None:
        """Record one event. A repeated event changes nothing."""
        self.world.apply(event)

    def decide(self, now: float) -> list[Decision]:
        """Run one cycle. Return the decisions in the order in which they are to be carried out."""
        # 1. What follows from the events
        lapsed, releases, changed = self.world.settle(now)
        self._follow(changed)
        self.slots.order.settle()
        if self.config.explain or (self._pending and not self.queues.undivided):
            self.queues.entitle()
        # 2. Each gang in order
        self._infeasible.begin()
        self.fit.exact.next_cycle()
        self.preemption.next_cycle(now, changed=self._infeasible.changed)
        # When explaining, visit infeasible gangs too: the reason may be the gang's own.
        seen = self.config.explain
        only = None if seen or lapsed else self._quiet.lasts(now)
        if only is None:
            self.reservations.begin(now)
        else:
            self.reservations.go_on(now)
        attempts = Attempts(
            self._pending,
            self.queues,
            self._admission,
            lapsed,
            self._starts.hopeless,
            lambda demand: demand not in self._infeasible,
            seen=seen,
            only=only,
        )
        placed = [
            decision for attempt in self._in_order(attempts) for decision in self._starts.place(attempt, now)
        ]
        self.served = [*attempts.served.values()]
        self._pending.newcomers.clear()
        # 3. Gangs that have started, gangs that were evicted
        self._spared = self.world.end_forsaken()
        self._follow(self.world.account())
        # 4. Why the other gangs wait
        waits = []
        if self.config.explain:
            waits = self._explainer.explain(self.served, self._infeasible.verdict, now)
        reserves = self.reservations.end()
        self._quiet.note(self.served)
        self._infeasible.end(started=bool(placed))
        return [*releases, *placed, *reserves, *waits]

    def settle(self) -> None:
        """Update what follows from the events (what gangs lack, what queues use). Decide nothing."""
        self._follow(self.world.account())
        self.slots.order.settle()
        self.queues.entitle()

    def asked(self, gang: GangId) -> Explanation | None:
        """Why a gang waits, as of the last cycle, and all that would start it; None: it does not wait.

        This is for single requests: a cycle spends less on remedies, for the first gangs of each queue only.
        """
        state = self.gangs.get(gang)
        return None if state is None else self._explainer.asked(state, self._infeasible.verdict)

    @property
    def behind(self) -> bool:
        """Whether work is left to the next cycle, which may start or evict gangs without any change."""
        return self.fit.exact.behind or self.preemption.behind or self._spared or self._infeasible.helped

    def wake_at(self) -> float | None:
        """The earliest time at which a cycle has work without a new event; None: there is none.

        At that time a hold, a back-off or a minimum run time ends, a reservation begins, a postponed search
        is due, or gangs may fit thanks to the affinity of a gang that has just started.
        """
        times = [time for time in self.gangs.timed.values() if time != inf]
        if self.behind or self._explainer.behind:
            times.append(self.world.accounting.now + self.config.turn)
        times += [self.preemption.due, self.reservations.due_at]
        return None if (first := min(times)) == inf else first

    def _follow(self, changed: Sequence[GangState]) -> None:
        """Update what rests on gangs that have changed."""
        self._pending.update(changed)
        self.preemption.update(changed)
        self.slots.order.gangs_changed(changed)

    def _in_order(self, attempts: Attempts) -> Iterable[Attempt]:
        if not self.config.shortest_first:
            return attempts
        return shortest_first(attempts, self.reservations, self.queues, self._admission, self.ends.duration)
