"""The scheduler: applies events to its state, and decides for whole gangs.

`apply` takes facts in, in any order that watches can produce; `decide` is one cycle over everything that
is known. Both are pure: the same events and times give the same decisions on any machine.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from muster.core.admission import Admission
from muster.core.backfill import Backfill, Reservations
from muster.core.decisions import Assign, Decision, Release, Wait
from muster.core.eligibility import Eligibility
from muster.core.ends import Ends, expected, promised
from muster.core.events import (
    BudgetChanged,
    BudgetRemoved,
    CommitFailed,
    Event,
    GangRemoved,
    GangSubmitted,
    LayersChanged,
    NodeChanged,
    NodeRemoved,
    PlacesLost,
    PlacesRetired,
    PlanFound,
    PodBound,
    PodEnded,
    QueueChanged,
    QueueRemoved,
    QuotaChanged,
    QuotaRemoved,
)
from muster.core.exact import Verdict
from muster.core.explain import Explainer
from muster.core.explain.case import Cluster
from muster.core.fit import Claim, Fit
from muster.core.gang import Amounts, GangId, NodeName, Place, PodId
from muster.core.gangs import (
    BackOff,
    GangState,
    Hold,
    Wants,
    fill,
    give_back,
    hold,
    occupy,
    pod_set_of,
    presence,
    stands,
    unwanted,
    vacate,
)
from muster.core.ledger import Ledger
from muster.core.nodes import Columns, Nodes
from muster.core.order import Lines, Standing, Turn, Turns
from muster.core.packing import Order, Pack
from muster.core.placement import Want
from muster.core.preemption import Preemption, leaves_for, waits_for
from muster.core.queues import Queues
from muster.core.quotas import Quotas
from muster.core.remedies import Remedies
from muster.core.slots import Slots
from muster.core.timetable import Reservation
from muster.core.topology import Topology
from muster.core.victims import Found


@dataclass(frozen=True, slots=True)
class Config:
    #: seconds a vacated place of a standing gang stays held for its replacement
    hold: float = 300.0
    #: seconds until the next cycle if exact searches had to be put off
    turn: float = 1.0
    #: say why gangs wait (`Wait`); a replay that nobody asks has no use for it
    explain: bool = True
    #: who may pass a gang that waits
    backfill: Backfill = Backfill.EASY
    #: under `conservative`: how many gangs that wait have a reservation
    depth: int = 64
    #: seconds after which nodes are kept free for a gang whose start nobody can tell; None: never
    drain_after: float | None = 3600.0
    #: whether those who may pass are served by rising duration, not in their own order
    shortest_first: bool = False
    #: in which order nodes are filled
    order: Callable[[Nodes, Eligibility], Order] = Pack
    #: say what would start them to so many gangs of each queue, and how many placements a cycle tries for it
    remedies: int = 3
    trials: int = 100


class Scheduler:
    def __init__(self, config: Config | None = None) -> None:
        self.config = config or Config()
        self.nodes = Nodes()
        self.eligibility = Eligibility(self.nodes)
        order = self.config.order(self.nodes, self.eligibility)
        self.ledger = Ledger(self.nodes, order.device)
        self.slots = Slots(self.nodes, self.eligibility, order)
        self.gangs: dict[GangId, GangState] = {}
        self.pods: dict[PodId, PodBound] = {}
        self.topology = Topology(self.nodes)
        self.fit = Fit(self.nodes, self.ledger, self.slots, self.topology, self.gangs)
        self.queues = Queues(self.nodes, self.eligibility)
        self.preemption = Preemption(
            self.nodes, self.ledger, self.eligibility, self.fit, self.gangs, self.pods, self.queues
        )
        certain = self.config.backfill is Backfill.CONSERVATIVE
        self.ends = Ends(self.pods, self.nodes.demand, promised if certain else expected)
        self.reservations = Reservations(
            self.config.backfill,
            self.config.depth,
            self.config.drain_after,
            self.nodes,
            self.ledger,
            self.fit,
            self.ends,
        )
        self._wants = Wants(self.ledger.presences)
        self.quotas = Quotas()
        self._admission = Admission(self.queues, self.quotas, self._wants)
        self._explainer = Explainer(
            Cluster(
                self.nodes,
                self.eligibility,
                self.slots,
                self.ledger,
                self.fit,
                self.gangs,
                self.pods,
                self.preemption,
                self.reservations,
            ),
            Remedies(
                self.config.remedies,
                self.config.trials,
                lambda state, want: self._claim(state, want, {}),
                self._admission,
            ),
        )
        #: gangs whose state changed since the last cycle
        self._touched: set[GangId] = set()
        #: those of them that have started in this cycle, and nothing has changed about them since
        self._started: set[GangId] = set()
        #: gangs that lack something
        self._lines = Lines(self.queues, self.ends.duration if self.config.backfill.reserves else None)
        #: gangs with a hold or a back-off that ends, and when the first of them does
        self._timed: dict[GangId, float] = {}
        #: wants that did not fit when there was as much room as in `_room`, with what was found out about it
        self._misfits: dict[Want, Verdict | None] = {}
        self._room = (-1, -1)
        #: `Nodes.revision` after the last cycle
        self._as_of = -1
        #: somebody came in the last cycle who may be company for those who waited for it
        self._company = False
        #: `Presences.carried` at the beginning of the last cycle
        self._carried = 0
        #: when the last cycle was
        self._decided = 0.0
        #: what lacked something in the last cycle, in the order in which it was served
        self.served: Sequence[GangState] = ()

    # Events

    def apply(self, event: Event) -> None:
        """Take one fact in. Told twice, it changes nothing."""
        match event:
            case PodBound():
                self._pod_bound(event)
            case PodEnded():
                self._pod_ended(event)
            case NodeChanged():
                if self.nodes.change(event):
                    self._end_endless_back_offs()
            case NodeRemoved():
                if self.nodes.remove(event.name):
                    self._touched |= {s.id for s in self.gangs.values() if event.name in s.nodes}
            case GangSubmitted():
                self._gang_submitted(event)
            case GangRemoved():
                self._gang_removed(event)
            case PlacesRetired():
                state = self._state(event.gang)
                state.retired = event.places
                state.stamp += 1
                for retired in event.places:
                    state.planned.pop(retired, None)
            case PlanFound():
                state = self._state(event.gang)
                for place_, node in event.nodes.items():
                    if not (place_ in state.filled or place_ in state.holds or place_ in state.retired):
                        state.planned[place_] = node
                for victim in event.victims:
                    self.preemption.found(event.gang, victim)
            case PlacesLost():
                self._places_lost(event)
            case CommitFailed():
                self._commit_failed(event)
            case LayersChanged():
                if self.topology.change(event.layers):
                    self._misfits.clear()
            case QueueChanged():
                if self.queues.change(event.queue):
                    self._touched.update(self.gangs)  # what they ask for may count now, or no longer
            case BudgetChanged() | BudgetRemoved():
                if self.preemption.budgets.apply(event):
                    self.preemption.forget()
            case QueueRemoved():
                if self.queues.remove(event.name):
                    self._touched.update(self.gangs)
            case QuotaChanged():
                self.quotas.change((event.namespace, event.name), event.room)
            case QuotaRemoved():
                self.quotas.remove((event.namespace, event.name))

    def _pod_bound(self, event: PodBound) -> None:
        known = self.pods.get(event.pod)
        if known is not None:
            if event.presence.device is None and (known.node, known.requests) == (event.node, event.requests):
                event = _with_device(event, known.presence.device)
            if known == event:
                return
        elif event.gang is not None and event.place is not None:
            state = self._state(event.gang)
            promise = state.holds.get(event.place)
            if promise is not None and _keeps(event, promise):
                # The promise is kept: what the place takes is charged already, and stays so.
                del state.holds[event.place]
                if event.presence.device is None:
                    event = _with_device(event, promise.device)
                self.ledger.rename(event.node, promise.presence, event.presence)
                self.pods[event.pod] = event
                fill(state, event.pod, event.place, event.at)
                self.preemption.departures.pod_bound(event.pod, event.gang)
                return
        vacated = self._remove_pod(known) if known is not None else None
        device = self.ledger.take(event.node, event.requests, event.presence.device, event.presence)
        self.pods[event.pod] = _with_device(event, device)
        if event.gang is None:
            self.fit.exclusion.foreign[event.node] += 1
        else:
            state = self._state(event.gang)
            if event.place is not None:
                give_back(state, [event.place], self.ledger)
            fill(state, event.pod, event.place, event.at)
            self.preemption.departures.pod_bound(event.pod, event.gang)
            if event.place is None and vacated is not None and known is not None and known.gang == event.gang:
                state.leaving[event.pod] = vacated
            occupy(state, event.node, event.requests, 1)

    def _pod_ended(self, event: PodEnded) -> None:
        known = self.pods.get(event.pod)
        if known is None:
            return
        leaves = self.preemption.departures.pod_ended(event.pod)
        vacated = self._remove_pod(known)
        if vacated is None or known.gang is None or leaves:
            return
        state = self.gangs[known.gang]
        if state.gang is None:
            return
        pod_set = pod_set_of(state, vacated)
        if pod_set is None or _undone(state):
            return
        if vacated not in state.holds and known.node in self.nodes.facts:
            requests, who = pod_set.shape.requests, presence(state.gang, pod_set)
            device = known.presence.device if requests == known.requests else None
            device = self.ledger.take(known.node, requests, device, who)
            until = event.at + self.config.hold
            hold(state, vacated, Hold(known.node, requests, False, until, device, who))

    def _remove_pod(self, pod: PodBound) -> Place | None:
        """Returns the place that nobody fills now."""
        del self.pods[pod.pod]
        self.ledger.give(pod.node, pod.requests, pod.presence.device, pod.presence)
        if pod.gang is None:
            self.fit.exclusion.foreign[pod.node] -= 1
            return None
        self._touched.add(pod.gang)
        state = self.gangs[pod.gang]
        occupy(state, pod.node, pod.requests, -1)
        return vacate(state, pod.pod)

    def _gang_submitted(self, event: GangSubmitted) -> None:
        state = self._state(event.gang.id)
        gang = event.gang
        if state.gang is not None:
            gang = replace(gang, submitted=min(gang.submitted, state.gang.submitted))
        if gang == state.gang:
            return
        state.gang = gang
        for place_, promise in state.holds.items():
            if (pod_set := pod_set_of(state, place_)) is not None:
                self.ledger.rename(promise.node, promise.presence, who := presence(gang, pod_set))
                promise.presence = who
        state.lapsed.clear()
        if state.back_off is not None and state.back_off.until == inf:
            state.back_off = None

    def _gang_removed(self, event: GangRemoved) -> None:
        state = self._state(event.gang)
        self.preemption.departures.give_up(event.gang)
        give_back(state, list(state.holds), self.ledger)
        state.gang = state.back_off = state.explanation = None
        state.retired = frozenset()
        state.planned.clear()
        state.leaving.clear()

    def _places_lost(self, event: PlacesLost) -> None:
        state = self._state(event.gang)
        give_back(state, event.places, self.ledger)
        for lost in event.places:
            state.planned.pop(lost, None)
        old = state.back_off
        excluded = event.excluded | (old.excluded if old is not None else frozenset())
        until = max(event.until, old.until) if old is not None else event.until
        state.back_off = BackOff(until, "", excluded, gang=False)

    def _commit_failed(self, event: CommitFailed) -> None:
        state = self._state(event.gang)
        self.preemption.departures.give_up(event.gang)
        give_back(state, list(state.holds), self.ledger)
        state.planned.clear()
        state.back_off = BackOff(event.until, event.message, event.excluded, gang=True)

    def _end_endless_back_offs(self) -> None:
        for gang in self._timed:
            state = self.gangs[gang]
            if state.back_off is not None and state.back_off.until == inf:
                state.back_off = None
                self._touched.add(gang)

    def _state(self, gang: GangId) -> GangState:
        """The state of a gang that an event is about."""
        self._touched.add(gang)
        state = self.gangs.get(gang)
        if state is None:
            state = self.gangs[gang] = GangState(gang)
        return state

    # Decisions

    def decide(self, now: float) -> list[Decision]:
        """One cycle. Decisions in the order in which they are to be carried out.

        1. Merge new nodes in.
        2. Give back what is held no longer: holds that have run out, places that are not wanted now.
        3. Find out what each gang lacks, and what each queue uses and is entitled to.
        4. In the order of `Turns`, place each gang whole: its minimum at once and as many more as fit and
           its queue allows, or nothing; greedily, then exactly; then with victims. What does not fit is
           passed over.
        5. Explain what stays.
        """
        self._decided = now
        self.nodes.settle()
        lapsed, releases = self._release(now)
        if self.ledger.presences.carried != self._carried:
            self._carried = self.ledger.presences.carried
            self._touched |= {s.id for s in self.gangs.values() if self._wants.newly_concerned(s)}
        self._settle()
        self.queues.entitle()
        self._forget_misfits()
        self._company = False
        self.fit.exact.next_cycle()
        self.preemption.next_cycle(now, changed=self._as_of != self.nodes.revision)
        self.reservations.begin(now)
        # Who is explained is looked at, hopeless or not: what keeps him may be his own.
        seen = self.config.explain
        turns = Turns(self._lines, self.queues, self._admission, lapsed, self._hopeless, seen=seen)
        placed = [decision for turn in self._in_turn(turns) for decision in self._place(turn, now)]
        self.served = [*turns.served.values()]
        self._touched |= self.preemption.departures.end_forsaken() & self.gangs.keys()
        self._settle()
        waits = self._explainer.explain(self.served, self._misfits, now) if self.config.explain else []
        reserves = self.reservations.end()
        self._as_of = self.nodes.revision
        self._company |= any(isinstance(d, Assign) for d in placed) and any(w.sociable for w in self._misfits)
        return [*releases, *placed, *reserves, *waits]

    def settle(self) -> None:
        """Bring up to date what follows from the events: what gangs lack, what queues use. Decide nothing."""
        self.nodes.settle()
        self._settle()
        self.queues.entitle()

    def wake_at(self) -> float | None:
        """When a hold or a back-off ends, a postponed search has its turn, or company has come."""
        times = [time for time in self._timed.values() if time != inf]
        if self.fit.exact.behind or self.preemption.behind or self._company:
            times.append(self._decided + self.config.turn)
        if self.preemption.due != inf:
            times.append(self.preemption.due)
        return min(times, default=None)

    def _release(self, now: float) -> tuple[set[GangId], list[Release]]:
        """Gangs whose hold has run out just now, and all promises that end."""
        lapsed: set[GangId] = set()
        releases = []
        for gang in sorted(self._touched.union(g for g, time in self._timed.items() if time <= now)):
            state = self.gangs[gang]
            if state.holds:
                if stands(state):
                    self._limit_holds(state, now)
                run_out = [p for p, h in state.holds.items() if h.until is not None and h.until <= now]
                if run_out:
                    lapsed.add(gang)
                    state.lapsed.update(run_out)
                told = give_back(state, {*run_out, *unwanted(state, self.nodes.facts)}, self.ledger)
                if told:
                    releases.append(Release(gang, frozenset(told)))
                if run_out or told:
                    self._touched.add(gang)
            if state.back_off is not None and state.back_off.until <= now:
                state.back_off = None
                self._touched.add(gang)
        return lapsed, releases

    def _limit_holds(self, state: GangState, now: float) -> None:
        """The start is over: places that were promised with it are held a while longer, not for ever."""
        for promise in state.holds.values():
            if promise.told and promise.until is None:
                promise.until = now + self.config.hold

    def _settle(self) -> None:
        """Bring what touched gangs lack, and when they need attention again, up to date."""
        self._touched |= self.preemption.settle(self._touched) & self.gangs.keys()
        for gang in self._touched:
            state = self.gangs[gang]
            if gang not in self._started:
                self._account(state)
            if state.want is not None or (state.gang is not None and state.gang.gate is not None):
                self._lines.put(state)
            else:
                self._lines.drop(gang)
                state.explanation = None
            if deadlines := state.deadlines:
                self._timed[gang] = min(deadlines)
            else:
                self._timed.pop(gang, None)
            if state.forgettable:
                del self.gangs[gang]
                self._timed.pop(gang, None)
        self._touched.clear()
        self._started.clear()

    def _account(self, state: GangState) -> None:
        """What it lacks, when it ends, and what its queue uses, as it is now."""
        if not state.begun:
            state.bound = state.assigned = None
        elif state.started is None and (state.pods or state.holds):
            state.assigned = self._decided  # this cycle starts it, or nobody knows since when it is there
        self.ends.note(state)
        self.fit.exclusion.settle(state)
        self._wants.settle(state)
        self.queues.settle(state, self.preemption.departures.of(state))
        self.quotas.settle(state)

    def _forget_misfits(self) -> None:
        """What did not fit does not fit until room is given, or a search that was put off has its turn.

        Where affinity or spread decides, a pod that comes can make room as well.
        """
        room = (self.ledger.given, self.nodes.capacity_revision)
        if room != self._room:
            self._misfits.clear()
            self._room = room
            return
        changed, behind = self._as_of != self.nodes.revision, self.fit.exact.behind
        if changed or behind or self._company:
            self._misfits = {
                want: verdict
                for want, verdict in self._misfits.items()
                if not (want.sociable and (changed or self._company))
                and not (changed and verdict is not None and verdict.open)
                and not (behind and verdict is not None and verdict.postponed)
            }

    def _hopeless(self, state: GangState, want: Want, over: bool) -> bool:
        """Whether it is known that this, which is all or a part of what it wants, cannot start.

        `over`: it would carry its queue over, and gets no reservation for that.
        """
        if (refusal := self.reservations.refusal(state, want)) is not None:
            state.refusal = state.refusal or refusal
            return True
        if not state.plain or not self._is_misfit(want) or self.preemption.helps(state, want):
            return False
        return over or not (state.waits and self.reservations.wanted)

    def _is_misfit(self, want: Want) -> bool:
        if want not in self._misfits:
            verdict = self.fit.refutes(want)
            if verdict is None:
                return False
            self._misfits[want] = verdict
        return True

    def _in_turn(self, turns: Iterable[Turn]) -> Iterator[Turn]:
        """In order; with the shortest first, those within entitlement who pass a gang by their duration."""
        if not self.config.shortest_first:
            yield from turns
            return
        rest: list[Turn] = []
        for turn in turns:
            if self._passes_by_duration(turn):
                rest.append(turn)
                continue
            yield from self._shortest_first(rest)
            rest.clear()
            yield turn
        yield from self._shortest_first(rest)

    def _passes_by_duration(self, turn: Turn) -> bool:
        return bool(self.reservations.made) and turn.standing is Standing.WITHIN

    def _shortest_first(self, turns: Iterable[Turn]) -> Iterator[Turn]:
        """What each may have is found out anew once somebody has started."""
        moves = self.queues.moves

        def key(turn: Turn) -> tuple[float, tuple[int, float, GangId]]:
            assert turn.state.gang is not None
            return self.ends.duration(turn.state.gang), turn.state.rank

        for turn in sorted(turns, key=key):
            state = turn.state
            if self.queues.moves != moves:
                assert state.gang is not None
                account = self.queues.find(state.gang.queue)
                answer = self._admission.within(state, account) if account is not None else None
                if not isinstance(answer, Want):
                    state.refusal = answer
                    continue
                turn = replace(turn, offer=self._admission.offer(state, answer))
            yield turn

    def _place(self, turn: Turn, now: float) -> list[Decision]:
        """Its Assign, after the Evict that makes room for it if it takes one; nothing if it does not fit."""
        state, want = turn.state, turn.offer.want
        if self._wants.newly_concerned(state):
            # Somebody who keeps it off has come in this very cycle: it is served in the next.
            self._touched.add(state.id)
            self._company = True
            return []
        if state.back_off is not None and state.back_off.gang:
            return []
        if beneficiary := self.preemption.departures.whole.get(state.id):
            state.refusal = leaves_for(beneficiary)
            return []
        if (refusal := self.reservations.refusal(state, want)) is not None:
            state.refusal = refusal
            return []
        plain = state.plain and state.id not in self.preemption.departures
        misfit = plain and self._is_misfit(want)
        reserves = state.waits and turn.standing is not Standing.OVER
        helps = self.preemption.helps(state, want)
        if misfit and not helps and not (reserves and self.reservations.wanted):
            return []
        untold = {p: promise for p, promise in state.holds.items() if not promise.told}
        claim = self._claim(state, want, untold)
        if claim.vacant is not turn.offer.vacant:
            claim = replace(claim, vacant=turn.offer.vacant)
        if misfit and not helps:
            self.reservations.wait(state, claim)
            return []
        mark = self.ledger.mark()
        for promise in untold.values():
            self.ledger.give(promise.node, promise.requests, promise.device, promise.presence)
        self.preemption.departures.lift(state.id)
        placed = self._misfits[want] if misfit else self.reservations.fit(state, claim)
        found = None
        if not isinstance(placed, dict | Reservation) and self.preemption.helps(state, want):
            found = self.preemption.find(state, claim)
            if found is not None:
                placed = self._fit_without(state, found, claim)
        if not isinstance(placed, dict) or not (placed or untold):
            self.ledger.rollback(mark)
            if isinstance(placed, Reservation):
                state.refusal = placed.refusal
            elif plain or want.bound:
                self._misfits[want] = placed if isinstance(placed, Verdict) else None
            if reserves and self.reservations.wanted:
                self.reservations.wait(state, claim)
            return []
        devices = self.fit.devices(want, placed, mark)
        self.ledger.commit(mark)
        evict = self.preemption.evict(state, found) if found is not None else None
        assign = self._assign(state, placed, devices, untold, now)
        self.preemption.departures.lower(state.id)
        if evict is None or assign is None:
            return [assign] if assign is not None else []
        for victim in evict.victims:
            self._touched.add(victim.gang)
            self._started.discard(victim.gang)
            self._account(self.gangs[victim.gang])
        return [evict, assign, Wait(state.id, waits_for(evict.victims))]

    def _fit_without(
        self, state: GangState, found: Found, claim: Claim
    ) -> dict[Place, int] | Verdict | Reservation:
        """Where it fits once the victims that were found for it are gone, as they are from here on."""
        for charged in self.preemption.freed(found.victims):
            self.ledger.give(*charged)
        placed = self.reservations.fit(state, replace(claim, search=False))
        if isinstance(placed, Verdict):  # it took an exact search: its answer is known
            preferred = {**claim.preferred, **found.placed}
            return self.reservations.fit(state, replace(claim, preferred=preferred))
        return placed

    def _claim(self, state: GangState, want: Want, untold: Mapping[Place, Hold]) -> Claim:
        assert state.gang is not None
        ranks = {s.name: s.ranks for s in state.gang.pod_sets if s.ranks}
        if not state.begun and state.back_off is None:
            return Claim(want, state.vacant, ranks=ranks, presences=state.presences)
        column = self.nodes.column
        nodes = {p: self.pods[pod].node for pod, p in state.pods.items() if p is not None}
        nodes.update({p: promise.node for p, promise in state.holds.items() if promise.told})
        return Claim(
            want,
            state.vacant,
            preferred=self._preferred(state, untold),
            settled={p: column[node] for p, node in nodes.items() if node in column},
            excluded=self._avoided(state),
            ranks=ranks,
            presences=state.presences,
        )

    def _preferred(self, state: GangState, untold: Mapping[Place, Hold]) -> dict[Place, int]:
        """Columns of the places that have a node of their own: held since they were vacated, or planned."""
        nodes = {p: node for p, node in state.planned.items() if p not in state.holds}
        nodes.update({p: promise.node for p, promise in untold.items()})
        return {
            p: self.nodes.column[node]
            for p, node in nodes.items()
            if node in self.nodes.column and pod_set_of(state, p) is not None
        }

    def _avoided(self, state: GangState) -> Columns | None:
        columns = [self.nodes.column[node] for node in state.avoids if node in self.nodes.column]
        return np.array(sorted(columns), np.intp) if columns else None

    def _assign(
        self,
        state: GangState,
        placed: Mapping[Place, int],
        devices: Mapping[Place, int],
        untold: Mapping[Place, Hold],
        now: float,
    ) -> Assign | None:
        """Hold what was placed. The ledger is charged with it already, and no longer with `untold`."""
        assert state.gang is not None
        for place_, promise in untold.items():
            del state.holds[place_]
            occupy(state, promise.node, promise.requests, -1)
        if untold:
            self._misfits.clear()  # a place that moved has left room behind
            self.fit.exact.room_freed()
        asked = {p.name: (p.shape.requests, presence(state.gang, p)) for p in state.gang.pod_sets}
        fresh = now + self.config.hold if state.pods else None
        names, together = self.nodes.names, Counter[tuple[NodeName, Amounts]]()
        for place_, column in placed.items():
            until = untold[place_].until if place_ in untold else fresh
            requests, who = asked[place_.pod_set]
            node = names[column]
            state.holds[place_] = Hold(node, requests, True, until, devices.get(place_), who)
            together[node, requests] += 1
        for (node, requests), times in together.items():
            occupy(state, node, requests, times)
        state.planned.clear()
        state.lapsed -= placed.keys()
        self._touched.add(state.id)
        self._account(state)
        if state.want is None and not self.preemption.departures:
            self._started.add(state.id)
        if not placed:
            return None
        return Assign(state.id, {p: state.holds[p].node for p in sorted(placed)}, devices)


def _undone(state: GangState) -> bool:
    """Whether its start has failed: its pods are ended on purpose, and nobody comes for their places."""
    return state.back_off is not None and state.back_off.gang and not stands(state)


def _keeps(event: PodBound, promise: Hold) -> bool:
    """Whether the pod is what was promised, and where. Without a device on record it has the promised one."""
    device = event.presence.device
    if promise.node != event.node or promise.requests != event.requests:
        return False
    return device is None or device == promise.device


def _with_device(event: PodBound, device: int | None) -> PodBound:
    if device == event.presence.device:
        return event
    return replace(event, presence=replace(event.presence, device=device))
