"""One gang's attempt: from what it may have to its Assign, or to a note of why there is none.

Cheap tests come before any trial: a gang that backs off or is being evicted, a gang that a reservation holds
up, and a demand that is known not to fit are refused at once. Then a trial begins. The gang's unannounced
holds, and the pods that leave for it, are lifted off the ledger, and the gang is fitted. If it does not fit
and victims might help, it is fitted without them. If it fits, the trial is kept, the places are held, and the
victims are evicted. Otherwise the trial is undone, and the answer says what is noted: a demand that does not
fit in the table of `infeasible`, and a gang that has to wait with a reservation.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np

from muster.core.cycle.charged_domains import ChargedDomains, Overcharged
from muster.core.demand import Demand, Request
from muster.core.parts import Parts
from muster.core.placement import Infeasible, Placed, Reason
from muster.core.preemption import Victims
from muster.core.queueing import Attempt, Tier
from muster.core.reservations.answer import WouldDelay
from muster.core.words.decisions import Assign, Decision, Evict, Explanation, Victim, Wait
from muster.core.words.devices import Allocation
from muster.core.words.gang import FOREIGN, Code, GangId, Place
from muster.core.work import WorkBudget
from muster.core.world.allocation import Claims
from muster.core.world.gangs import GangState, Hold, footprint, having, occupy, pod_set_of
from muster.core.world.nodes import Columns
from muster.core.world.trial import Trial

#: Gangs named in a message.
_NAMED: Final = 3


@dataclass(slots=True, eq=False)
class Answer:
    """Whether a gang starts, and what that takes."""

    #: None: it was not tried
    outcome: Placed | Infeasible | WouldDelay | Overcharged | None
    request: Request
    #: of each place, if it fits
    columns: Mapping[Place, int]
    #: held places that are placed again
    unannounced: Mapping[Place, Hold]
    #: of the places that share a GPU
    devices: Mapping[Place, int]
    #: of the places whose pods have claims
    claims: Mapping[Place, tuple[Allocation, ...]]
    victims: Victims | None = None

    @property
    def starts(self) -> bool:
        return bool(self.outcome) and bool(self.columns or self.unannounced)


class VictimSearch(Protocol):
    """What a placement step asks of `preemption`; in a dry run some of it is left out."""

    def may_help(self, state: GangState, demand: Demand) -> bool: ...

    def victims(self, state: GangState, request: Request) -> Victims | None: ...


class PlacementStep:
    def __init__(
        self,
        hold: float,
        parts: Parts,
        preemption: VictimSearch,
        work: WorkBudget | None = None,
        *,
        search: bool = True,
    ) -> None:
        """`hold`: as in `Config`. `search`: whether exact searches are made (`Request.search`).

        `work`: which demands that take long are tried in a cycle; None: all of them.
        """
        self._world = world = parts.world
        self._fit, self._infeasible, self._reservations = parts.fit, parts.infeasible, parts.reservations
        self._hold, self._preemption, self._work, self._search = hold, preemption, work, search
        self._gangs, self._pods, self._demands = world.gangs, world.pods, world.demands
        self._ledger, self._nodes = world.ledger, world.nodes
        self._charged = ChargedDomains(parts)
        self._pending_evictions = world.pending_evictions
        #: by namespace, steps on demands that have not been tried yet
        self._unpaid: dict[str, int] = {}

    def cannot_start(self, state: GangState, demand: Demand, tier: Tier, cap_exceeded: bool) -> bool:
        """Whether the gang does not start with `demand`, all or a part of what it lacks: known, or postponed.


        A gang that would borrow gets no reservation for that. `cap_exceeded`: as in `Grant`.
        """
        if self._postponed(state, demand, peek=True):
            return True
        if cap_exceeded:
            return not self._preemption.may_help(state, demand)
        if state.plain and self._refuted_at_cost(state, demand) and not self._reservations.closed:
            if self._preemption.may_help(state, demand):
                return False
            return tier is Tier.BORROWING or not (self._reservations.wanted(demand) and state.waits)
        refusal = self._reservations.refusal(state, demand)
        state.refusal = state.refusal or refusal
        return refusal is not None

    def place(self, attempt: Attempt, now: float) -> list[Decision]:
        """Place the gang. Return its Assign, after the Evict that makes room if needed; empty: no fit."""
        state = attempt.state
        if attempt.demand.parts and self._demands.newly_concerned(state):
            self._gangs.touched.add(state.id)
            if not attempt.whole or attempt.cap_exceeded:
                # It may have a part of its old demand, which is stale: it is served in the next cycle.
                self._infeasible.helped = True
                return []
            self._demands.settle(state)
            assert state.demand is not None
            attempt = replace(attempt, demand=state.demand, vacant=state.vacant)
        if self.passed_over(attempt) or self._postponed(state, attempt.demand):
            return []
        before = self._nodes.steps
        with self._world.trial() as trial:
            answer = self.answer(attempt, trial)
            if answer.starts:
                trial.keep()
        decisions = self.conclude(attempt, answer, now)
        if not attempt.demand.fits_by_slots and state.gang is not None:
            self._pay(state.gang.namespace, self._nodes.steps - before)
        return decisions

    def _postponed(self, state: GangState, demand: Demand, *, peek: bool = False) -> bool:
        """Whether the gang is tried in a later cycle, since its namespace has used up its share of this one.

        A gang with a reservation is tried, so that it keeps it: there are few of these. `peek`: if not
        postponed, it is not tried yet.
        """
        if self._work is None or demand.fits_by_slots or state.gang is None:
            return False
        if self._reservations.of(state.id) is not None:
            return False
        namespace = state.gang.namespace
        postponed = self._work.refuses(namespace, demand) if peek else not self._work.takes(namespace, demand)
        if not postponed:
            return False
        state.refusal = state.refusal or POSTPONED
        return True

    def answer(self, attempt: Attempt, trial: Trial) -> Answer:
        """Steps 3 to 5, in a trial: whether the gang starts. If so, its places are charged to the ledger."""
        state, demand, capped = attempt.state, attempt.demand, attempt.cap_exceeded
        unannounced = (
            {p: promise for p, promise in state.holds.items() if not promise.announced} if state.holds else {}
        )
        request = self._request(state, demand, attempt.vacant, unannounced)
        outcome: Placed | Infeasible | WouldDelay | Overcharged | None = None
        # 3. Is it known not to fit?
        known = self._comparable(state) and self._refuted(state, demand)
        if known := known and not self._reservations.due(state.id):
            outcome = self._infeasible.answer(demand)
        if (capped or known) and not self._preemption.may_help(state, demand):
            return Answer(outcome, request, {}, {}, {}, {})
        self._lift(state, unannounced)
        # 4. Does it fit, beside the reservations?
        exclusive = demand.rules is not None and bool(demand.rules.exclusive)
        if not (capped or known):
            outcome = (
                self._charged.fit(attempt, request) if exclusive else self._reservations.fit(state, request)
            )
        # 5. If not, does it without other gangs?
        victims = None
        if not outcome:
            match outcome:
                case None | Infeasible() if self._preemption.may_help(state, demand):
                    victims = self._preemption.victims(state, request)
                    if victims is not None:
                        outcome = self._fit_without(state, victims, request)
                    if isinstance(outcome, Placed) and exclusive:
                        outcome = self._charged.judge(attempt, outcome, victims)
        columns = outcome.columns if outcome else {}
        devices = self._fit.devices(demand, columns, trial) if columns and demand.sharing else {}
        claims = self._fit.claims(demand, columns) if columns and demand.claiming else {}
        if claims is None:
            return Answer(Infeasible(Reason.BUDGET), request, {}, unannounced, {}, {})
        return Answer(outcome, request, columns, unannounced, devices, claims, victims)

    def conclude(self, attempt: Attempt, answer: Answer, now: float) -> list[Decision]:
        """Start the gang if it fits; else note why not, and let it wait, if need be with a reservation."""
        if answer.starts:
            return self._start(attempt.state, answer, now)
        state, demand = attempt.state, attempt.demand
        noted = self._comparable(state) or demand.bound
        match answer.outcome:
            case _ if attempt.cap_exceeded:
                return []  # its queue's refusal is recorded already
            case Overcharged(refusal):
                state.refusal = refusal
                attempt.borrows = refusal.code is Code.OVER_SHARE and attempt.tier is Tier.WITHIN
                return []
            case WouldDelay(reservation):
                state.refusal = reservation.refusal
            case Infeasible() as infeasible if noted:
                self._infeasible.note(demand, infeasible, answer.request.namespace)
            case Placed() if noted:
                self._infeasible.note(demand, None, answer.request.namespace)
        # 6. It waits
        if self.reserves(attempt):
            self._reservations.wait(state, answer.request)
        return []

    def reserves(self, attempt: Attempt) -> bool:
        """Whether the gang has to wait for its minimum, and that is to be recorded (`Reservations.wait`)."""
        if not attempt.state.waits or attempt.tier is Tier.BORROWING or attempt.cap_exceeded:
            return False
        return self._reservations.wanted(attempt.demand)

    def _refuted(self, state: GangState, demand: Demand) -> bool:
        """Whether this demand of the gang need not be tried."""
        return state.gang is not None and self._infeasible.refuses(state.gang.namespace, demand)

    def _refuted_at_cost(self, state: GangState, demand: Demand) -> bool:
        """As `_refuted`, before it is tried: work for claims on devices. A gang that is tried pays then."""
        before = self._nodes.steps
        refuted = self._refuted(state, demand)
        if self._work is not None and demand.claiming and state.gang is not None:
            namespace = state.gang.namespace
            self._unpaid[namespace] = self._unpaid.get(namespace, 0) + self._nodes.steps - before
            if refuted:
                self._pay(namespace, 0)
        return refuted

    def _pay(self, namespace: str, steps: int) -> None:
        """Charge a namespace for steps on its demands."""
        if self._work is not None:
            self._work.charge(namespace, steps + self._unpaid.pop(namespace, 0), len(self._nodes))

    def _comparable(self, state: GangState) -> bool:
        """Whether what is known about its demand holds for this gang, and the other way round."""
        return state.plain and state.id not in self._pending_evictions

    def request(self, state: GangState, demand: Demand) -> Request:
        """The request by which this gang would be placed, with all of its vacant places."""
        return self._request(state, demand, state.vacant, {})

    def _fit_without(
        self, state: GangState, found: Victims, request: Request
    ) -> Placed | Infeasible | WouldDelay:
        """Where the gang fits without the victims that were found for it, which are lifted off the ledger."""
        self._pending_evictions.lift_victims(found.gangs)
        match self._reservations.fit(state, request._replace(search=False)):
            case Infeasible():  # only an exact search found it: reuse its answer
                preferred = {**request.preferred, **found.placed}
                return self._reservations.fit(state, request._replace(preferred=preferred))
            case placed:
                return placed

    def _promise(
        self,
        state: GangState,
        answer: Answer,
        until: float | None,
    ) -> None:
        """Hold these places on these columns. The ledger is charged with them already."""
        assert state.gang is not None
        asked = {p.name: (p.shape, footprint(state.gang, p)) for p in state.gang.pod_sets}
        together: defaultdict[tuple[str, int], list[Place]] = defaultdict(list)
        for place, column in answer.columns.items():
            together[place.pod_set, column].append(place)
        holds, names = state.holds, self._nodes.names
        for (pod_set, column), places in together.items():
            node, (shape, pod_footprint) = names[column], asked[pod_set]
            holds.update(dict.fromkeys(places, Hold(node, shape, True, until, None, pod_footprint)))
            occupy(state, node, shape.requests, len(places))
        for place, device in answer.devices.items():
            holds[place] = holds[place]._replace(device=device)
        self._give_devices(state, answer)
        state.planned.clear()
        state.lapsed -= answer.columns.keys()

    def _give_devices(self, state: GangState, answer: Answer) -> None:
        """Let the places that were just held have the devices of their claims, for which they have waited."""
        waited = {part.pod_set: part.shape.claims for part in answer.request.demand.parts}
        ended: defaultdict[Claims, Counter[int]] = defaultdict(Counter)
        for place, allocations in answer.claims.items():
            promise, column = state.holds[place], answer.columns[place]
            given = tuple([device for each in allocations for _, device in each.devices])
            state.holds[place] = promise._replace(footprint=having(promise.footprint, given))
            ended[waited[place.pod_set]][column] += 1
            self._ledger.use(column, given)
        for claims, columns in ended.items():
            times = np.fromiter(columns.values(), np.int64, len(columns))
            self._ledger.wait(np.fromiter(columns, np.intp, len(columns)), claims, -times)

    def _lift(self, state: GangState, unannounced: Mapping[Place, Hold]) -> None:
        """Let the gang's unannounced holds, and what leaves for it, be gone from the ledger, for a trial."""
        for promise in unannounced.values():
            self._ledger.lift(state.id, promise.charged)
            occupy(state, promise.node, promise.requests, -1)
            self._world.log.push_brief(occupy, state, promise.node, promise.requests, 1)
        if state.id in self._pending_evictions:
            self._pending_evictions.lift(state.id)

    def _start(self, state: GangState, answer: Answer, now: float) -> list[Decision]:
        """Evict the victims, and hold the places. The ledger is charged with the places already."""
        self._world.save(state)
        victims = answer.victims
        evict = self._evict(state, victims) if victims is not None and victims.gangs else None
        assign = self._assign(state, answer, now)
        if state.id in self._pending_evictions:
            self._pending_evictions.lower(state.id)
        if evict is None or assign is None:
            return [assign] if assign is not None else []
        self._world.evicted(victim.gang for victim in evict.victims)
        return [evict, assign, Wait(state.id, waits_for(evict.victims))]

    def _evict(self, state: GangState, victims: Victims) -> Evict:
        """Evict the victims. So far they are off the ledger; `lower` charges it with them again."""
        assert state.gang is not None
        named = []
        for victim in victims.gangs:
            other = self._gangs[victim.gang]
            self._world.save(other)
            reclaimed = other.gang is not None and other.gang.queue not in (state.gang.queue, FOREIGN)
            named.append(replace(victim, reclaimed=reclaimed))
        self._pending_evictions.evict(state.id, victims.gangs, victims.placed)
        return Evict(tuple(named), state.id, sum(victim.work_lost for victim in named))

    def passed_over(self, attempt: Attempt) -> bool:
        """Whether the gang is skipped whatever room there is.

        It backs off, is being evicted, is known to delay a reservation, or ResourceQuotas have nothing left
        for it beyond its minimum.
        """
        state, demand = attempt.state, attempt.demand
        if state.back_off is not None or not demand.parts:
            return True
        if beneficiary := self._pending_evictions.whole.get(state.id):
            state.refusal = leaves_for(beneficiary)
            return True
        if (refusal := self._reservations.refusal(state, demand)) is not None:
            state.refusal = state.refusal if attempt.cap_exceeded else refusal
            return True
        return False

    def _request(
        self,
        state: GangState,
        demand: Demand,
        vacant: Sequence[Sequence[int]],
        unannounced: Mapping[Place, Hold],
    ) -> Request:
        assert state.gang is not None
        ranks = {s.name: s.ranks for s in state.gang.pod_sets if s.ranks}
        if not (state.begun or state.avoided):
            return Request(
                demand,
                vacant,
                search=self._search,
                namespace=state.gang.namespace,
                ranks=ranks,
                footprints=state.footprints,
            )
        column = self._nodes.column
        nodes = {p: self._pods[pod].node for pod, p in state.pods.items() if p is not None}
        nodes.update({p: promise.node for p, promise in state.holds.items() if promise.announced})
        return Request(
            demand,
            vacant,
            preferred=self._preferred(state, unannounced),
            planned=[column[node] for node in state.planned.values() if node in column],
            settled={p: column[node] for p, node in nodes.items() if node in column},
            excluded=self._avoided(state),
            search=self._search,
            namespace=state.gang.namespace,
            ranks=ranks,
            footprints=state.footprints,
        )

    def _preferred(self, state: GangState, unannounced: Mapping[Place, Hold]) -> dict[Place, int]:
        """Columns of the places that have their own node: held since they were vacated, or planned."""
        nodes = {p: node for p, node in state.planned.items() if p not in state.holds}
        nodes.update({p: promise.node for p, promise in unannounced.items()})
        return {
            p: self._nodes.column[node]
            for p, node in nodes.items()
            if node in self._nodes.column and pod_set_of(state, p) is not None
        }

    def _avoided(self, state: GangState) -> Columns | None:
        columns = [self._nodes.column[node] for node in state.avoided if node in self._nodes.column]
        return np.array(sorted(columns), np.intp) if columns else None

    def _assign(self, state: GangState, answer: Answer, now: float) -> Assign | None:
        """Hold the placed places and return their Assign; None if nothing was placed.

        The ledger is charged with them already, and no longer with unannounced holds.
        """
        placed, unannounced = answer.columns, answer.unannounced
        for place, promise in unannounced.items():
            del state.holds[place]
            occupy(state, promise.node, promise.requests, -1)
        whole = len(placed) == sum(map(len, state.vacant))
        self._promise(state, answer, now + self._hold if state.pods else None)
        for place in unannounced.keys() & placed.keys():  # no longer than it was held for
            state.holds[place] = state.holds[place]._replace(until=unannounced[place].until)
        self._world.started(state, whole=whole)
        if not placed:
            return None
        names = self._nodes.names
        claims = {place: some for place, some in answer.claims.items() if some}
        return Assign(state.id, {p: names[placed[p]] for p in sorted(placed)}, answer.devices, claims)


#: The reason of a gang that has not been tried yet.
POSTPONED: Final = Explanation(
    Code.POSTPONED,
    "placement",
    "it is decided in a later cycle: constraints, topology rules or several pod sets take many steps, and "
    "its namespace has used up its share of this cycle",
)


def leaves_for(beneficiary: GangId) -> Explanation:
    """The reason of a gang that is a victim itself."""
    message = f"its own pods are still leaving: they make room for {beneficiary}"
    return Explanation(Code.WAITING_FOR_VICTIMS, "victims", message, blockers=(beneficiary,))


def waits_for(victims: Sequence[Victim]) -> Explanation:
    """The reason of a gang whose victims are leaving."""
    gangs = [victim.gang for victim in victims]
    more = f" and {len(gangs) - _NAMED} more" if len(gangs) > _NAMED else ""
    surplus = "pods above the minimum of " if all(victim.pods for victim in victims) else ""
    message = f"its places are held until {surplus}{', '.join(gangs[:_NAMED])}{more} have made room for it"
    return Explanation(Code.WAITING_FOR_VICTIMS, "victims", message, blockers=tuple(gangs))
