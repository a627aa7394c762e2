"""Preemption within a cycle: which gangs search for victims, how often, and what their eviction charges.

A search costs milliseconds, and thousands of gangs may wait. So a search is made only where it can help:

- for a gang that may preempt and whose minimum does not fit, on the nodes or below the hard caps of its
  queues,
- while a gang of lower priority runs in its queue, or another queue is over its entitlement and this one is
  not,
- once for equal demands of a queue, the highest priority first (a gang that may evict less will not fit
  either),
- not again until something changes,
- for at most `SEARCHES` wants in a cycle; further ones are searched in later cycles.

No two gangs evict each other in turn. In one queue a victim's priority is below the preemptor's, so the
victim can never evict it in return, and a chain of evictions only goes down in priority. Across queues the
victim's queue was over its entitlement. So the victim cannot start within it again as long as entitlements
stay, and only gangs that stay within theirs reclaim. Entitlements depend on what queues use and wait for
together, which no eviction changes. A gang whose victims are leaving is never a victim, so the start for
which they were evicted takes place first.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import replace
from math import inf
from typing import Final

from muster.core.demand import Demand, Request
from muster.core.placement import Fit
from muster.core.placement.search_budget import Rota
from muster.core.preemption.candidates import Candidates
from muster.core.preemption.eviction_units import Table
from muster.core.preemption.limits import Limits, Quota, caps, limits
from muster.core.preemption.victims import Found, Search
from muster.core.words.decisions import Evict, Explanation, Victim
from muster.core.words.gang import Code, Gang, GangId, PodId
from muster.core.world import World
from muster.core.world.gangs import GangState, departing, occupy, stands
from muster.core.world.ledger import Charged

#: Demands per cycle for which victims are searched.
SEARCHES: Final = 4
#: Seconds, from the first cycle that sees a pod being deleted, in which muster does not preempt for the
#: capacity that the pod is about to free. A pod that exists longer may be stuck.
COMING: Final = 300.0
#: Gangs named in a message.
_NAMED: Final = 3


class Preemption:
    def __init__(self, world: World, fit: Fit) -> None:
        self._ledger, self._fit, self._queues = world.ledger, fit, world.queues
        self._gangs, self._pods = world.gangs, world.pods
        self._budgets, self._exclusive = world.budgets, world.exclusive_domains
        self.departures = world.departures
        self._candidates = Candidates(world.nodes, world.gangs, world.pods)
        self._search = Search(world.nodes, world.ledger, world.eligibility, fit)
        self._rota = Rota(SEARCHES)
        #: per queue, how many gangs with pods have which priority; each of these gangs, and its state's stamp
        self._running: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self._counted: dict[GangId, tuple[Gang, int]] = {}
        #: wants of a queue for which there were no victims, and the highest priority that looked for them
        self._hopeless: dict[tuple[Demand, str], int] = {}
        #: queues that a demand of a queue may take from, in this cycle
        self._from: dict[tuple[Demand, str], set[str]] = {}
        #: wants of a queue that are searched in a later cycle
        self._later: set[tuple[Demand, str]] = set()
        #: what else decides about victims, as of these searches
        self._as_of = (-1, -1, -1)
        #: of the queues, in the last cycle
        self._rules = (-1, -1)
        self._now = 0.0
        #: when the next minimum run time ends
        self._due = inf

    def next_cycle(self, now: float, changed: bool) -> None:
        """Begin a cycle. `changed`: the results of earlier cycles no longer hold."""
        self._now = now
        self._rota.next_cycle()
        self._from.clear()
        self._later.clear()
        # Entitlements matter only where something can be reclaimed.
        rules = self._queues.rules_version, self._queues.entitlement_version * (len(self._running) > 1)
        if changed or now >= self._due or rules != self._rules:
            self._hopeless.clear()
            self._due = inf
            self._rules = rules

    def update(self, changed: Iterable[GangState]) -> None:
        """Update which gangs run, and as what. With one more as a victim a search may succeed."""
        for state in changed:
            self._note(state)

    def _note(self, state: GangState) -> None:
        gang = state.gang if state.pods and state.gang is not None and state.gang.preemptible else None
        old, stamp = self._counted.get(state.id, (None, -1))
        if gang is old and (gang is None or stamp == state.stamp):
            return
        if gang is not old:
            if old is not None:
                running = self._running[old.queue]
                running[old.priority] -= 1
                if not running[old.priority]:
                    del running[old.priority]
                del self._counted[state.id]
            if gang is not None:
                self._running[gang.queue][gang.priority] += 1
        if gang is not None:
            self._counted[state.id] = gang, state.stamp
            if self._hopeless and stands(state):
                self._hopeless.clear()

    def helps(self, state: GangState, demand: Demand) -> bool:
        """Whether a search may make room for this demand, as far as is known without searching."""
        gang = state.gang
        if gang is None or not gang.preempts:
            return False
        running = self._running.get(gang.queue)
        lower = bool(running and min(running) < gang.priority)
        others = len(self._running) > bool(running)
        if not (lower or others) or not state.waits:
            return False
        self._forget_outdated()
        failed = self._hopeless.get((demand, gang.queue))
        if failed is not None and gang.priority <= failed:
            return False
        if (demand, gang.queue) in self._later:
            return False
        return lower or bool(self._reclaims(gang.queue, demand))

    def _forget_outdated(self) -> None:
        versions = self._budgets.changes, self._exclusive.released, self.departures.spared
        if versions != self._as_of:
            self._as_of = versions
            self._hopeless.clear()

    def idle(self, queue: str, priority: int) -> bool:
        """Whether no gang of this queue, of this priority or less, can evict any gang, whatever it wants."""
        if self.departures or not self._running.keys() <= {queue}:
            return False
        return min(self._running.get(queue, ()), default=priority) >= priority

    def conceivable(self, state: GangState, demand: Demand) -> bool:
        """Whether there is any gang that it may evict, as queues are now, whatever earlier searches found."""
        gang = state.gang
        if gang is None or not gang.preempts or not state.waits:
            return False
        running = self._running.get(gang.queue)
        if running and min(running) < gang.priority:
            return True
        asked = self._queues.amounts(demand)[0]
        least = tuple((resource, 1) for resource, _ in asked)
        return any(self._queues.may_reclaim(gang.queue, asked, other, least) for other in self._running)

    def _reclaims(self, queue: str, demand: Demand) -> set[str]:
        """The queues from which it may reclaim, as of this cycle."""
        known = self._from.get((demand, queue))
        if known is None:
            asked = self._queues.amounts(demand)[0]
            least = tuple((resource, 1) for resource, _ in asked)
            may = self._queues.may_reclaim
            known = {other for other in self._running if may(queue, asked, other, least)}
            self._from[demand, queue] = known
        return known

    def find(self, state: GangState, request: Request) -> Found | None:
        """Victims for it, and its places then. The ledger is charged as the gang sees it, and stays so.

        Also None if the gang fits once the pods that are already leaving have gone.
        """
        gang = state.gang
        assert gang is not None
        if not self._rota.take(request.demand):
            self._later.add((request.demand, gang.queue))
            return None
        coming = {
            pod: since + COMING
            for pod, since in self.departures.deleted.items()
            if since is not None and since + COMING > self._now
        }
        if (self.departures or coming) and self._fits_soon(state, request, coming.keys()):
            self._hopeless[request.demand, gang.queue] = gang.priority
            self._due = min(self._due, *coming.values(), inf)
            return None
        found, due = self._search_for(state, request)
        self._due = min(self._due, due)
        if found is None:
            self._hopeless[request.demand, gang.queue] = gang.priority
        return found

    def _fits_soon(self, state: GangState, request: Request, coming: Set[PodId]) -> bool:
        """Whether it would fit once all victims of other gangs, and the `coming` pods, have left."""
        mark = self._ledger.mark()
        for pod in sorted(coming - self.departures.leaving.keys()):
            bound = self._pods[pod]
            self._ledger.give(bound.node, bound.requests, bound.presence.device, bound.presence)
        for beneficiary in self.departures.beneficiaries:
            if beneficiary != state.id:
                self.departures.lift(beneficiary)
        placed = self._fit.fit(request._replace(search=False))
        self._ledger.rollback(mark)
        return bool(placed)

    def would_find(self, state: GangState, request: Request) -> Found | None:
        """The victims if the gang might preempt. This search does not count towards `SEARCHES`."""
        return self._search_for(state, request)[0]

    def _search_for(self, state: GangState, request: Request) -> tuple[Found | None, float]:
        """Victims, and when the next minimum run time ends."""
        gang = state.gang
        assert gang is not None
        asked, leaving = self._queues.asked(state, request.demand), self.departures.leaving

        def limit(table: Table) -> Limits:
            return limits(table, gang.queue, asked, self._queues, self._budgets, self._pods, leaving)

        def quota(table: Table) -> Quota:
            return caps(table, gang.queue, asked, not state.begun, self._queues)

        may, found, due = self._may_end(gang, request.demand), None, inf
        for highest in self._candidates.levels(request.demand, may):
            candidates, due = self._candidates.of(self._now, may, highest)
            found = self._search.find(request, candidates, limit, quota, self._freed)
            if found is not None:
                break
        return found, due

    def nobody(self, state: GangState, request: Request, running: Iterable[GangState]) -> str | None:
        """Why there are no victims for it among the running gangs; None: not known yet."""
        gang = state.gang
        assert gang is not None
        if self.departures or (gang.preempts and self.helps(state, request.demand)):
            return None
        ranks_above = self._ranks_above(gang, request.demand)
        lower = [
            other
            for other in running
            if other.gang is not None and other.pods and other.id != gang.id and ranks_above(other.gang)
        ]
        if not lower:
            if len(self._queues.accounts) == 1:
                return "no gang of lower priority runs"
            return f"no gang of lower priority runs in queue {gang.queue}, and other queues need not give way"
        staying = [other for other in lower if not departing(other, self._pods)]
        if not staying:
            are = "is" if len(lower) == 1 else "are"
            return f"{_gangs(len(lower))} of lower rank {are} leaving already"
        candidates, _ = self._candidates.of(self._now, self._may_end(gang, request.demand))
        able = {candidate.gang.id for candidate in candidates}.intersection(other.id for other in lower)
        if not able:
            are = "is" if len(staying) == 1 else "are"
            return (
                f"{_gangs(len(staying))} of lower rank {are} protected: not preemptible, starting, "
                "or within a minimum run time"
            )
        if self.departures.deleted:  # it may be that none is looked for, because their room is enough
            return None
        mark = self._ledger.mark()
        everybody = [Victim(gang) for gang in sorted(able)]
        self.lift(everybody)
        with self._fit.exclusive_domains.without(everybody):
            fits = bool(self._fit.fit(request._replace(search=False)))
        self._ledger.rollback(mark)
        if fits:
            return f"budgets or entitlements protect too much of the {_gangs(len(able))} of lower rank"
        if request.demand.sociable:  # it may need some of them to stay
            return (
                f"no way was found to make it fit by ending some of the {_gangs(len(able))} that it may end"
            )
        return f"it would not fit even without the {_gangs(len(able))} that it may end"

    def lift(self, victims: Iterable[Victim]) -> None:
        """Charge the ledger as if these had left, for a trial."""
        for victim in victims:
            for charged in self._freed(victim):
                self._ledger.lift(victim.gang, charged)

    def _freed(self, victim: Victim) -> Iterator[Charged]:
        """What is charged for it."""
        state = self._gangs[victim.gang]
        for pod in sorted(victim.pods or state.pods):
            bound = self._pods[pod]
            yield Charged(bound.node, bound.requests, bound.presence.device, bound.presence)
        if not victim.pods:
            for _, promise in sorted(state.holds.items()):
                yield Charged(promise.node, promise.requests, promise.device, promise.presence)

    def evict(self, state: GangState, found: Found) -> Evict:
        """Evict the victims. So far they are off the ledger; `lower` charges their departure."""
        for victim in found.victims:
            ending = self._gangs[victim.gang]
            promised = []
            if not victim.pods:
                promised = [promise for promise in ending.holds.values() if promise.told]
                for promise in ending.holds.values():
                    occupy(ending, promise.node, promise.requests, -1)
                ending.holds.clear()
            pods = victim.pods or ending.pods.keys()
            whole = () if victim.pods else (victim.gang,)
            self.departures.begin(state.id, pods, whole, promised, found.placed)
        lost = sum(victim.work_lost for victim in found.victims)
        return Evict(tuple(map(self._of_queue(state), found.victims)), state.id, lost)

    def _of_queue(self, state: GangState) -> Callable[[Victim], Victim]:
        """Marks the victims that are reclaimed from another queue."""
        queue = state.gang.queue if state.gang is not None else ""

        def note(victim: Victim) -> Victim:
            gang = self._gangs[victim.gang].gang
            return replace(victim, reclaimed=gang is not None and gang.queue != queue)

        return note

    @property
    def behind(self) -> bool:
        """Whether some wants have not been searched yet."""
        return self._rota.behind

    @property
    def due(self) -> float:
        """When a gang that could be a victim leaves its minimum run time."""
        return self._due

    def _ranks_above(self, preemptor: Gang, demand: Demand) -> Callable[[Gang], bool]:
        """Whether a gang has lower priority in its queue, or its queue may reclaim from that gang's queue."""
        reclaims = self._reclaims(preemptor.queue, demand)

        def ranks_above(other: Gang) -> bool:
            lower = other.queue == preemptor.queue and other.priority < preemptor.priority
            return lower or other.queue in reclaims

        return ranks_above

    def _may_end(self, preemptor: Gang, demand: Demand) -> Callable[[Gang], bool]:
        """Whether it may evict a gang: of lower rank, not leaving, not waiting for victims, not itself."""
        leaving = {self._pods[pod].gang for pod in self.departures.leaving}
        barred = {*leaving, *self.departures.whole, *self.departures.beneficiaries, preemptor.id}
        ranks_above = self._ranks_above(preemptor, demand)
        return lambda other: ranks_above(other) and other.id not in barred


def leaves_for(beneficiary: GangId) -> Explanation:
    """The reason of a gang that is a victim itself."""
    message = f"its own pods are leaving still: they make room for {beneficiary}"
    return Explanation(Code.WAITING_FOR_VICTIMS, "victims", message, blockers=(beneficiary,))


def waits_for(victims: Sequence[Victim]) -> Explanation:
    """The reason of a gang whose victims are leaving."""
    gangs = [victim.gang for victim in victims]
    more = f" and {len(gangs) - _NAMED} more" if len(gangs) > _NAMED else ""
    surplus = "pods above the minimum of " if all(victim.pods for victim in victims) else ""
    message = f"its places are held until {surplus}{', '.join(gangs[:_NAMED])}{more} have made room for it"
    return Explanation(Code.WAITING_FOR_VICTIMS, "victims", message, blockers=tuple(gangs))


def _gangs(count: int) -> str:
    return "1 gang" if count == 1 else f"{count} gangs"
