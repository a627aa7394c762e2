"""Preemption: victims at the least loss for a gang whose minimum does not fit, or none.

`Preemption.victims` answers that question. A search costs milliseconds, and thousands of gangs may wait. So a
search is made only where it can help (`may_help`): for a gang that may preempt, while a gang of lower
priority runs in its queue, or its queue may reclaim from another; once for equal demands of a queue, the
highest priority first (a gang that may evict less will not fit either); not again until something changes;
and for at most `SEARCHES` demands of a namespace in a cycle (`core/work.py`).

The rules of rank under which no two gangs evict each other in turn are those of `ranks_above` and
`_may_evict`; docs/concepts/preemption.md gives the proof.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Set
from itertools import groupby, product
from math import inf
from typing import Final

from muster.core.demand import Demand, Request
from muster.core.infeasible import InfeasibleDemands
from muster.core.placement import Fit
from muster.core.preemption.candidates import Candidates, Test, always
from muster.core.preemption.eviction_units import UnitTable, budgeted, caps, limits
from muster.core.preemption.progress import Progress
from muster.core.preemption.victims import Victims, find
from muster.core.words.amounts import Sums, Usage
from muster.core.words.decisions import Victim
from muster.core.words.gang import FOREIGN, Gang, GangId, PodId
from muster.core.work import WorkBudget
from muster.core.world import World
from muster.core.world.gangs import GangState, departing, given_up, stands, starting
from muster.core.world.ledger import Charged
from muster.core.world.queues import reclaim

__all__ = ["Preemption", "Victims"]

#: Demands of a namespace for which victims are searched in a cycle.
SEARCHES: Final = 4
#: Steps (`core/work.py`) of one search in a cycle, if cycles are not limited.
STEPS: Final = 16_000
#: Interrupted searches of a namespace that are remembered, and for how many cycles all of a namespace are.
_INTERRUPTED: Final = 16
_FORGOTTEN: Final = 1_000
#: Seconds, from the first cycle that sees a pod being deleted, in which muster does not preempt for the
#: capacity that the pod is about to free. A pod that exists longer may be stuck.
COMING: Final = 300.0


class Preemption:
    def __init__(
        self, world: World, fit: Fit, infeasible: InfeasibleDemands, steps: int | None = None
    ) -> None:
        """`steps`: of one search in a cycle, as in `Config`."""
        self._world, self._fit, self._queues, self._running = world, fit, world.queues, RunningGangs()
        self._infeasible = infeasible
        self._candidates = Candidates(
            world.nodes, world.gangs, world.pods, world.exclusive_domains.surcharges
        )
        self._budget, self._steps = WorkBudget(SEARCHES), steps or STEPS
        #: by namespace, searches that were interrupted
        self._interrupted: dict[str, dict[tuple[Demand, str], Progress]] = {}
        #: whether a search was interrupted in this cycle
        self.interrupted = False
        #: queues that a demand of a queue may take from, in this cycle
        self._from: dict[tuple[Demand, str], set[str]] = {}
        self._now = 0.0
        #: counts cycles in which searches that failed in earlier ones may succeed
        self._changes = 0
        #: versions of the queues in the last cycle
        self._rules = (-1, -1)
        #: when a search that failed may succeed without any event: a minimum run time ends, or a pod that is
        #: being deleted no longer counts as leaving
        self.due = inf

    def next_cycle(self, now: float, changed: bool) -> None:
        """Begin a cycle. `changed`: the results of earlier cycles no longer hold."""
        self._now = now
        self._budget.next_cycle()
        self.interrupted = False
        self._from.clear()
        # Entitlements matter only where something can be reclaimed.
        reclaims = len(self._running.queues) > 1
        rules = self._queues.rules_version, self._queues.entitlement_version if reclaims else -1
        if changed or now >= self.due or rules != self._rules:
            self._changes += 1
            self._rules, self.due = rules, inf

    @property
    def _as_of(self) -> tuple[int, ...]:
        """Returns the versions that a search depends on: until one changes, a failed search fails again."""
        world = self._world
        budgets, domains = world.budgets.changes, world.exclusive_domains.released
        return self._changes, self._running.version, budgets, domains

    def update(self, changed: Iterable[GangState]) -> None:
        """Update which gangs run, and as what. With one more as a victim a search may succeed."""
        for state in changed:
            self._running.note(state)

    @property
    def behind(self) -> bool:
        """Whether some demands have not been searched yet."""
        return self._budget.behind or self.interrupted

    def victims(self, state: GangState, request: Request) -> Victims | None:
        """Victims for the gang, and its places then. The ledger is charged as the gang sees it, and stays so.

        Also None if the gang fits once the pods that are already leaving have gone.
        """
        gang, pending = state.gang, self._world.pending_evictions
        assert gang is not None
        what = request.demand, gang.queue
        if not self._budget.takes(gang.namespace, what):
            return None
        self._budget.charge(gang.namespace, 1)
        coming = {
            pod: since + COMING
            for pod, since in pending.deleted.items()
            if since is not None and since + COMING > self._now
        }
        if (pending or coming) and self._fits_soon(state, request, coming.keys()):
            found, due = None, min(coming.values(), default=inf)
        else:
            progress = self._progress_of(gang.namespace, what)
            found, due = self.search(state, request, progress)
            if found is None and (progress.unfinished or progress.since != self._as_of):
                self._go_on_later(gang.namespace, what, progress)
                return None
        self.due = min(self.due, due)
        if found is None:
            self._infeasible.note_spared(gang, request.demand, self._as_of)
        return found

    def _progress_of(self, namespace: str, what: tuple[Demand, str]) -> Progress:
        """How far the search for this demand of a queue has come."""
        mine = self._interrupted.get(namespace, {})
        return mine.pop(what, None) or Progress(since=self._as_of)

    def _go_on_later(self, namespace: str, what: tuple[Demand, str], progress: Progress) -> None:
        """Let a search go on in a later cycle, or begin anew if it is as of a world that has changed."""
        self.interrupted, cycle = True, self._budget.cycle
        if not progress.unfinished:
            return
        if namespace not in self._interrupted:
            others = self._interrupted.items()
            self._interrupted = {
                name: each
                for name, each in others
                if any(cycle - other.cycle < _FORGOTTEN for other in each.values())
            }
        mine = self._interrupted.setdefault(namespace, {})
        if len(mine) >= _INTERRUPTED:
            del mine[next(iter(mine))]
        progress.cycle = cycle
        mine[what] = progress

    # -- whether a search can help

    def may_help(self, state: GangState, demand: Demand, *, from_scratch: bool = False) -> bool:
        """Whether a search may make room for this demand, as far as is known without searching.

        `from_scratch`: as queues are now, whatever earlier searches found.
        """
        gang, running = state.gang, self._running
        if gang is None or not running.queues or not gang.preempts or not state.waits:
            return False
        lowest = [running.lowest(queue) for queue in (gang.queue, FOREIGN)]
        lower = any(each is not None and each < gang.priority for each in lowest)
        if from_scratch:
            return lower or bool(self._reclaimed_from(gang.queue, demand))
        if not lower and running.queues.keys() <= {gang.queue}:
            return False
        if self._budget.refused(gang.namespace, (demand, gang.queue)):
            return False  # its turn is in a later cycle
        if self._infeasible.spares_all(gang, demand, self._as_of):
            return False
        return lower or bool(self._reclaims(gang.queue, demand))

    def idle(self, queue: str, priority: int) -> bool:
        """Whether no gang of this queue, of this priority or less, can evict any gang, whatever it lacks."""
        if self._world.pending_evictions or not self._running.queues.keys() <= {queue}:
            return False
        lowest = self._running.lowest(queue)
        return lowest is None or lowest >= priority

    def _reclaims(self, queue: str, demand: Demand) -> set[str]:
        """The queues from which it may reclaim, as of this cycle."""
        known = self._from.get((demand, queue))
        if known is None:
            known = self._from[demand, queue] = self._reclaimed_from(queue, demand)
        return known

    def _reclaimed_from(self, queue: str, demand: Demand) -> set[str]:
        asked, queues = self._world.exclusive_domains.least(demand), self._queues
        least = Usage(dict.fromkeys(asked, 1))
        return {
            other for other in self._running.queues if reclaim.may_reclaim(queues, queue, asked, other, least)
        }

    # -- which gangs may be victims

    def _ranks_above(self, preemptor: Gang, demand: Demand) -> Callable[[Gang], bool]:
        """Whether a gang has lower priority in its queue or of another scheduler, or its queue may reclaim
        from that gang's queue.
        """
        reclaims = self._reclaims(preemptor.queue, demand)

        def ranks_above(other: Gang) -> bool:
            lower = other.queue in (preemptor.queue, FOREIGN) and other.priority < preemptor.priority
            return lower or other.queue in reclaims

        return ranks_above

    def none_because(self, state: GangState, request: Request) -> str | None:
        """Why there are no victims for the gang among the running gangs; None: not known yet."""
        gang, demand, world = state.gang, request.demand, self._world
        assert gang is not None
        if world.pending_evictions or (gang.preempts and self.may_help(state, demand)):
            return None
        ranks_above = self._ranks_above(gang, demand)
        lower = [each for each in world.gangs.values() if each.gang and each.pods and ranks_above(each.gang)]
        if not lower:
            if len(world.queues.accounts) == 1:
                return "no gang of lower priority runs"
            return f"no gang of lower priority runs in queue {gang.queue}, and other queues need not give way"
        staying = [each for each in lower if not departing(each, world.pods)]
        if not staying:
            return f"{_gangs(len(lower))} of lower rank {_are(len(lower))} leaving already"
        candidates, _ = self._candidates.of(
            self._now, self._may_evict(gang, demand), heeds=self._protects(gang)
        )
        able = sorted(candidate.gang.id for candidate in candidates)
        if not able:
            protected = "protected: not preemptible, starting, or within a minimum run time"
            return f"{_gangs(len(staying))} of lower rank {_are(len(staying))} {protected}"
        if world.pending_evictions.deleted:  # perhaps the room of these pods is enough
            return None
        with world.trial():
            world.pending_evictions.lift_victims([Victim(other) for other in able])
            fits = bool(self._fit.fit(request._replace(search=False)))
        if fits:
            return f"budgets or entitlements protect too much of the {_gangs(len(able))} of lower rank"
        if demand.helped_by_arrivals:  # it may need some of them to stay
            return (
                f"no way was found to make it fit by evicting some of the {_gangs(len(able))} that it may end"
            )
        return f"it would not fit even without the {_gangs(len(able))} that it may end"

    def _protects(self, preemptor: Gang) -> Test:
        """Whether what a gang says against its eviction counts for this preemptor."""
        return lambda other: reclaim.protects(self._queues, preemptor.queue, other.queue)

    def _may_evict(self, preemptor: Gang, demand: Demand) -> Test:
        """Whether it may evict a gang: of lower rank, not leaving, not waiting for victims, not itself."""
        pending, pods = self._world.pending_evictions, self._world.pods
        leaving = {pods[pod].gang for pod in pending.leaving}
        barred = {*leaving, *pending.whole, *pending, preemptor.id}
        ranks_above = self._ranks_above(preemptor, demand)
        return lambda other: ranks_above(other) and other.id not in barred

    # -- searches

    def _fits_soon(self, state: GangState, request: Request, coming: Set[PodId]) -> bool:
        """Whether it would fit once all victims of other gangs, and the `coming` pods, have left."""
        ledger, pending = self._world.ledger, self._world.pending_evictions
        with self._world.trial():
            for pod in sorted(coming - pending.leaving.keys()):
                bound = self._world.pods[pod]
                ledger.give(Charged.of(bound))
            for beneficiary in pending:
                if beneficiary != state.id:
                    pending.lift(beneficiary)
            return bool(self._fit.fit(request._replace(search=False)))

    def search(
        self, state: GangState, request: Request, progress: Progress | None = None
    ) -> tuple[Victims | None, float]:
        """Victims, whether or not the gang may preempt, and when the next minimum run time ends.

        `progress`: where the search goes on. If it is interrupted again, that says so.
        """
        gang, world = state.gang, self._world
        assert gang is not None
        asked = world.exclusive_domains.least(request.demand).minus(given_up(state))
        may_evict, protects = self._may_evict(gang, request.demand), self._protects(gang)
        progress = progress or Progress(at_once=True)
        progress.go_on(world.nodes.steps, self._steps)
        found, due, number = None, inf, 0
        # First all gangs are heeded that say something against their eviction, or have a disruption budget
        # that does; then those that the queues protect, if that makes a difference.
        progress.differs |= any(
            not reclaim.protects(self._queues, gang.queue, other) for other in self._running.protected
        )
        for heeds, queues in product((always, protects), self._nearest_first(gang, request.demand)):
            if heeds is protects and not progress.differs:
                break

            def may(other: Gang, queues: Set[str] = queues) -> bool:
                return other.queue in queues and may_evict(other)

            for highest in self._candidates.levels(request.demand, may, heeds):
                number += 1
                if number <= progress.tables:
                    continue
                candidates, due = self._candidates.of(self._now, may, highest, heeds)
                table = UnitTable(candidates, len(world.nodes))
                if table.groups:  # some candidate is on a node
                    counted = budgeted(table, world)
                    progress.differs |= any(
                        not protects(table.gang_of(n)) for units in counted.values() for n in units
                    )
                    allow = limits(table, gang.queue, asked, world, counted, heeds)
                    quota = caps(table, gang.queue, asked, not state.begun, self._queues)
                    found = find(request, table, allow, quota, world, self._fit, progress)
                if found is not None or progress.unfinished:
                    return found, due
                progress.next_table(number)
                progress.unfinished = progress.over(world.nodes.steps)
                if progress.unfinished:
                    return None, due
        return found, due

    def _nearest_first(self, preemptor: Gang, demand: Demand) -> Iterator[Set[str]]:
        """Queues in which to look for victims, until there are some: first among pods of other schedulers,
        then in the nearest queues of the tree that are over their entitlement, then in farther ones as well,
        and in its own queue last.
        """
        mine = [account.name for account in self._queues.path(preemptor.queue)]

        def distance(queue: str) -> int:
            shared = {account.name for account in self._queues.path(queue)}
            return next((level for level, name in enumerate(mine) if name in shared), len(mine))

        queues: set[str] = set()
        if self._running.queues[FOREIGN]:
            queues.add(FOREIGN)
            yield frozenset(queues)
        reclaimed = sorted(self._reclaims(preemptor.queue, demand), key=distance)
        for _, some in groupby(reclaimed, key=distance):
            queues.update(some)
            yield frozenset(queues)
        if self._running.queues[preemptor.queue]:
            yield frozenset({preemptor.queue, *queues})


class RunningGangs:
    """Running gangs that may be victims: how many there are in each queue, and of which priority."""

    def __init__(self) -> None:
        #: by queue, how many gangs have pods, and how many of these say something against their eviction: a
        #: mark, or a minimum above their pods
        self.queues, self.protected = Sums[str](), Sums[str]()
        #: by queue, how many preemptible gangs with pods have which priority; no zeros
        self.priorities: dict[str, Counter[int]] = {}
        #: each of these gangs, its state's stamp, and whether it says something against its eviction
        self._noted: dict[GangId, tuple[Gang, int, bool]] = {}
        #: counts changes of gangs that are not starting: with one of them as a victim, a search that failed
        #: may succeed
        self.version = 0

    def lowest(self, queue: str) -> int | None:
        """Returns the lowest priority of a preemptible gang of this queue; None = no such gang runs."""
        return min(self.priorities.get(queue, ()), default=None)

    def note(self, state: GangState) -> None:
        """Record a changed gang: whether it runs, and with which priority."""
        gang = state.gang if state.pods and state.gang is not None and not state.gang.of_node else None
        old, stamp, said = self._noted.get(state.id, (None, -1, False))
        open_start = starting(state)
        met = gang is not None and len(state.filled) + len(state.retired) >= gang.min_count
        says = gang is not None and (
            not gang.preemptible or gang.min_run_time > 0 or not (open_start or stands(state))
        )
        if gang is old and says == said and (gang is None or stamp == state.stamp):
            return
        if gang is not old or says != said:
            if old is not None:
                del self._noted[state.id]
                self._count(old, said, -1)
            if gang is not None:
                self._count(gang, says, 1)
        if gang is not None:
            self._noted[state.id] = gang, state.stamp, says
            self.version += met or not open_start

    def _count(self, gang: Gang, says: bool, more: int) -> None:
        self.queues.count(gang.queue, more)
        if says:
            self.protected.count(gang.queue, more)
        if not gang.preemptible:
            return
        priorities = self.priorities.get(gang.queue)
        if priorities is None:
            priorities = self.priorities[gang.queue] = Counter()
        priorities[gang.priority] += more
        if not priorities[gang.priority]:
            del priorities[gang.priority]
        if not priorities:
            del self.priorities[gang.queue]


def _gangs(count: int) -> str:
    return "1 gang" if count == 1 else f"{count} gangs"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
