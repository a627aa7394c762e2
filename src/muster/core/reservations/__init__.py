"""Reservations and backfill: which gangs may start while one before them waits (docs/concepts/backfill.md).

A gang that does not fit gets a set of places and a time, the first at which it fits without the gangs that
will have ended by then (`start_search.py`). A later gang starts if it fits now and ends by that time, or if
it fits *beside* the reservation (`calendar.py`). The reserved gang can therefore start by its time, whatever
has been started meanwhile.

`easy` (Lifka, JSSPP 1995) has one reservation, which is searched again when it might be earlier.
`conservative` (Mu'alem and Feitelson, 2001) keeps its reservations from cycle to cycle. Unlike theirs, one is
not moved to an earlier future time; a gang that can start at once without delaying another does start.
"""

from collections.abc import Iterable
from dataclasses import replace
from enum import Enum
from itertools import takewhile
from math import inf

import numpy as np

from muster.core.demand import Demand, Request
from muster.core.placement import Fit, Infeasible, Placed
from muster.core.reservations.affinity_guard import AffinityGuard
from muster.core.reservations.answer import Reservation, WouldDelay, held
from muster.core.reservations.calendar import Calendar, Withheld
from muster.core.reservations.start_search import StartSearch
from muster.core.words.decisions import Explanation, Reserve
from muster.core.words.gang import Gang, GangId
from muster.core.world import World
from muster.core.world.devices import NO_SHARES, WHOLE
from muster.core.world.gangs import GangState
from muster.core.world.nodes import Columns
from muster.core.world.trial import Trial

_Answer = Placed | Infeasible | WouldDelay


class Backfill(Enum):
    """Which gangs may pass a gang that waits."""

    #: none
    STRICT = "strict"
    #: every gang that fits; nothing is reserved
    NONE = "none"
    #: gangs that do not delay the first that waits
    EASY = "easy"
    #: gangs that do not delay any of the first that wait
    CONSERVATIVE = "conservative"

    @property
    def reserves(self) -> bool:
        return self in (Backfill.EASY, Backfill.CONSERVATIVE)


class Reservations:
    """The reservations of a cycle, and what they leave to others."""

    def __init__(
        self,
        backfill: Backfill,
        depth: int,
        drain_after: float | None,
        world: World,
        fit: Fit,
        steps: int | None = None,
    ) -> None:
        """`depth` is used only by `conservative`. `steps`: of one search for a time, as in `Config`."""
        self._backfill, self._drain_after = backfill, inf if drain_after is None else drain_after
        #: reservations are kept from one cycle to the next
        self.keeps = backfill is Backfill.CONSERVATIVE
        #: how many waiting gangs are recorded (`wait`)
        self._depth = 0 if backfill is Backfill.NONE else depth if self.keeps else 1
        self._nodes, self._ledger = world.nodes, world.ledger
        self._log, self._queues, self._gangs = world.log, world.queues, world.gangs
        self._fit, self._completions, self._demands = fit, world.completions, world.demands
        self._calendar = Calendar(world.ledger, world.completions)
        self._guard = AffinityGuard(world, fit)
        self._search = StartSearch(world, fit, self._calendar, steps)
        #: of the gangs that have to wait in this cycle, in their order
        self.made: list[Reservation] = []
        #: the reason of all other gangs, if no gang may start any more in this cycle
        self.closed: Explanation | None = None
        #: easy: the reservation of the last cycle, if it would be found again
        self._kept: Reservation | None = None
        self._as_of = (-1, -1, -1)
        self._unchanged: bool | None = None
        self._now = 0.0
        self._announced: dict[GangId, Reserve] = {}
        #: in this cycle: demands (and whether their gang has started) that would delay a reservation if they
        #: lasted longer than the given time
        self._held: dict[tuple[Demand, bool], tuple[float, Reservation]] = {}
        #: demands that fit at no known time, in this cycle
        self._never: set[Demand] = set()
        #: conservative: gangs whose reservation begins later than it did, or is lost, as of this cycle
        self._moved: set[GangId] = set()
        self._lost: set[GangId] = set()
        #: `Queues.rules_version` in the last cycle
        self._rules = -1

    def begin(self, now: float, *, unchanged: bool | None = None) -> None:
        """Begin a cycle. `unchanged`: nothing has changed since the last one; None: find that out."""
        self._now, self._unchanged = now, unchanged
        if self.keeps:
            overdue = any(each.at < now for each in self._calendar.values())
            stale = self._calendar and (overdue or not self._is_as_it_was)
            self._moved = self._calendar.recompute(now) if stale else set()
            self._lost = {gang for gang in self._moved if gang not in self._calendar}
            if self._rules != self._queues.rules_version:  # the order is another one now
                for each in self._calendar.values():
                    each.arrivals = -1
            self._rules = self._queues.rules_version
        else:
            self._kept = self.made[0] if self.made and unchanged is not False else None
            if self._calendar:
                self._calendar.reset()
        self.made = []
        if unchanged is None:  # else it is a dry run
            self._search.problems.clear()
        self.closed = None
        self._held.clear()
        self._never.clear()

    def can_resume(self, now: float) -> bool:
        """Whether the next cycle may `resume` from the last one.

        It may if every reservation begins in the future and would be found again, and if no gang was found to
        fit at no known time.
        """
        unchanged = self._as_of == self._state
        if self._never or self.closed is not None or (self.keeps and not unchanged):
            return False
        return all(self._holds(each, now, unchanged=unchanged) for each in self.made)

    def resume(self, now: float) -> None:
        """Begin a cycle with the reservations of the last one, which hold up the same gangs."""
        self._now, self._unchanged, self._kept = now, None, None
        self._held.clear()
        self._search.problems.clear()

    def save(self) -> None:
        """Let the trial that has begun restore what this cycle has found, if it is undone."""
        for name in ("made", "closed", "_kept", "_now", "_moved", "_lost", "_held", "_never"):
            self._log.push(setattr, self, name, getattr(self, name))
        self._held, self._never = {**self._held}, {*self._never}

    def withdraw(self) -> None:
        """After all gangs have been tried: drop reservations of gangs that do not wait for capacity now."""
        if not self.keeps:
            return  # all of them are of this cycle
        made = {each.gang for each in self.made}
        for gang in [gang for gang in self._calendar if gang not in made]:
            self._calendar.drop(gang)

    def end(self) -> list[Reserve]:
        """End the cycle. Returns the reservations that differ from what was announced last."""
        self._as_of = self._state
        if not self.made:
            self._announced.clear()
            return []
        before, self._announced = self._announced, {}
        fresh = []
        for each in self.made:
            known = before.get(each.gang)
            if known is None or not each.is_announced(known, self._now):
                known = Reserve(each.gang, each.nodes, each.start)
                fresh.append(known)
            self._announced[each.gang] = known
        return fresh

    def wanted(self, demand: Demand) -> bool:
        """Whether a gang that has to wait with this demand is still to be recorded (`wait`)."""
        return len(self.made) < self._depth and self.closed is None and demand not in self._never

    def wait(self, state: GangState, request: Request) -> None:
        """Record that a gang has to wait for its minimum, and reserve for it if it has no reservation."""
        if self._backfill is Backfill.STRICT:
            self.closed = held(f"{state.id} is before it, and no gang may pass it", state.id)
        else:
            reservation = self._standing(state, request) or self._book(state, request)
            if reservation is None:
                self._never.add(request.demand)
            else:
                reservation.request = request
                self.made.append(reservation)

    def refusal(self, state: GangState, demand: Demand) -> Explanation | None:
        """Why this gang need not be tried: it is known to delay a reservation. None: try it."""
        if self.closed is not None:
            return self.closed
        if not self.made or self.wanted(demand) or not state.plain or state.id in self._calendar:
            return None  # it is tried, and has a reservation of its own if it does not start
        until = self._until(state)
        known, reservation = self._held.get((demand, state.begun), (inf, None))
        if reservation is None or until <= known:
            reservation = self._blocker(state, demand, until)
            if reservation is not None and len(self._calendar) == 1:  # no other one can end meanwhile
                self._held[demand, state.begun] = reservation.at, reservation
        return None if reservation is None else reservation.refusal

    def fit(self, state: GangState, request: Request) -> _Answer:
        """As `Fit.fit`; `WouldDelay`, and the ledger as it was, if it would fit but for a reservation."""
        until = self._until(state)
        others = (each for each in self._calendar.values() if each.gang != state.id)
        first = next((each for each in others if each.at < until), None)
        if first is None:  # it has gone before any reservation begins
            return self._pass(state, request)
        if (blocker := self._blocker(state, request.demand, until)) is not None:
            return WouldDelay(blocker)
        anywhere: _Answer = WouldDelay(first)
        by_slots = state.plain and request.demand.fits_by_slots
        if not by_slots or self._fit.refutes(request.demand) is not None:
            anywhere = self._try(state, request, until)
        if not isinstance(anywhere, WouldDelay):
            return anywhere
        answer = self._try(state, request, until, beside=True)
        match answer:
            case WouldDelay(delayed) if self._guard.concerns(delayed, request):
                off = request.keeping_off(delayed.columns)
                answer = self._try(state, off, until, beside=True)
        if answer:
            return answer
        postponed = isinstance(answer, Infeasible) and answer.postponed
        if taken := self._in_its_places(state, request) or self._overrule(state, request, until):
            return taken
        minded = any(self._guard.concerns(each, request) for each in self._calendar.values())
        if state.id not in self._calendar and not minded:
            last = max(each.at for each in self._calendar.values() if each.at < until)
            self._held[request.demand, state.begun] = last, anywhere.reservation
        return replace(anywhere, postponed=postponed)

    def of(self, gang: GangId) -> Reservation | None:
        return self._calendar.get(gang)

    def due(self, gang: GangId) -> bool:
        """Whether its reservation has begun: it fits there, even if it was tried elsewhere in vain."""
        own = self._calendar.get(gang)
        return own is not None and own.at <= self._now

    @property
    def due_at(self) -> float:
        """The next time of a reservation that is kept from cycle to cycle; infinite: there is none."""
        kept = self._calendar.values() if self.keeps else ()
        return min((each.at for each in kept if each.at > self._now), default=inf)

    def basis(self, reservation: Reservation) -> tuple[GangId, ...]:
        """The gangs that have to end for it."""
        if reservation.basis is None:
            ends = self._completions.after(self._now, but=reservation.gang)
            by_then = takewhile(lambda end: end[0] <= reservation.at, ends)
            reservation.basis = tuple(state.id for _, state in by_then)
        return reservation.basis

    def _blocker(self, state: GangState, demand: Demand, until: float) -> Reservation | None:
        """A reservation of this cycle that leaves too few slots for a gang that otherwise fits."""
        before = [each for each in self.made if each.at < until]  # else the gang has gone by then
        if not before or state.begun or not (state.plain and demand.fits_by_slots) or self._fit.bars(demand):
            return None
        if self.due(state.id):  # all others were made with it charged, if not to the last digit
            return None
        (part,) = demand.parts
        vector = self._fit.slots.room(part.shape)
        if part.need > vector.total:
            return None
        own = self._calendar.get(state.id)
        for each in before:
            if own is not None and own.at <= each.at < own.until:
                continue  # the gang itself is charged there
            if self._calendar.beside(each, vector) < part.need:
                return each
        return None

    def _pass(self, state: GangState, request: Request) -> Placed | Infeasible:
        """Place a gang that has gone before any reservation begins, so that it delays none."""
        placed = self._fit.fit(request)
        if placed:
            self._unchanged = None
            if state.id in self._calendar:
                self._calendar.drop(state.id)
            return placed
        return self._in_its_places(state, request) or placed

    def _try(self, state: GangState, request: Request, until: float, *, beside: bool = False) -> _Answer:
        """Place it until then, and charge the calendar, unless that delays a reservation.

        `beside`: only on what reservations leave.
        """
        own = self._calendar.get(state.id)
        guarded = [
            each
            for each in self._calendar.values()
            if each is not own and self._guard.concerns(each, request)
        ]
        with self._log.trial() as trial:
            self._calendar.drop(state.id)  # its own reservation does not block it
            before = self._nodes.used.copy()
            charged: list[Withheld] = []
            if beside:
                standing = self._calendar.standing(self._now, until)
                charged = self._calendar.withhold(standing, self._now, sharing=request.demand.sharing)
            placed = self._fit.fit(request)
            if not placed:
                return placed
            self._calendar.give_back(charged)
            shares = self._ledger.shared(trial) if request.demand.sharing else NO_SHARES
            columns = np.flatnonzero((self._nodes.used[: len(before)] > before).any(axis=0))
            use = self._nodes.used[: len(before)].take(columns, axis=1) - before.take(columns, axis=1)
            for column in self._nodes.devices.opened(shares):  # counted where they are closed otherwise
                use[self._nodes.devices.row, columns.searchsorted(column)] -= 1
            delayed = self._calendar.start(columns, use, shares, until, late=False)
            if delayed is None and guarded:
                delayed = self._spoiled(guarded, request, columns, until)
            if delayed is not None:
                return WouldDelay(delayed)
            trial.keep()
        if guarded:
            self.made = [self._calendar.get(each.gang) or each for each in self.made]
        return placed

    def _spoiled(
        self, guarded: Iterable[Reservation], passer: Request, columns: Columns, until: float
    ) -> Reservation | None:
        """The first reservation that the passing gang, placed on these columns until then, makes impossible.

        A reservation that finds other places for the same time has those from now on.
        """
        for each in guarded:
            if each.at < until:
                request = self._guard.beside_passer(each.request, passer, columns)
                if not self._search.confirm(each, request, self._now):
                    return each
        return None

    def _in_its_places(self, state: GangState, request: Request) -> Placed | None:
        """Place it where its reservation, which begins now, says: all others were made with that charged."""
        own, column = self._calendar.get(state.id), self._nodes.column
        if own is None or own.at > self._now or not own.demand.equal_but_for_anti_affinity(request.demand):
            return None
        if not any(request.vacant):  # a dry run that does not say which places it asks for
            return None
        there = {place: column[node] for place, node in own.nodes.items() if node in column}
        with self._log.trial() as trial:
            with self._ledger.on(own.devices):
                placed = self._fit.fit(self._demands.only(request, there)._replace(preferred=there))
            if not placed or placed.columns != there or self._over(own, trial):
                return None
            trial.keep()
        self._calendar.drop(state.id)
        self._calendar.start(own.columns, own.use, own.shares, self._until(state), late=True)
        return placed

    def _over(self, own: Reservation, trial: Trial) -> bool:
        """Whether it is not on its devices, or overcommits them or a node."""
        gpus, used = self._nodes.devices.row, self._nodes.devices.shared(own.columns)
        if self._ledger.shared(trial) != own.shares or any(used[device] > WHOLE for device in own.shares):
            return True
        return any(self._nodes.free_at(gpus, column) < 0 for column in own.columns.tolist())

    def _overrule(self, state: GangState, request: Request, until: float) -> Placed | None:
        """Place a gang without a reservation ahead of reservations of earlier cycles that it outranks."""
        later = self._later(state)
        if not later:
            return None
        with self._log.trial() as trial:
            for gang in later:
                self._calendar.drop(gang)
            answer = self._try(state, request, until)
            if isinstance(answer, WouldDelay):
                answer = self._try(state, request, until, beside=True)
            if answer:
                trial.keep()
                return answer
        return None

    def _later(self, state: GangState) -> list[GangId]:
        """Gangs that give way to it: with a reservation of an earlier cycle, and not yet tried in this one.

        These reservations were made before the gang arrived. If it has lost its own, all of them give way.
        """
        if state.id in self._calendar or len(self._calendar) == len(self.made):
            return []
        made, lost = {each.gang for each in self.made}, state.id in self._lost
        others = (each for each in self._calendar.values() if each.gang not in made)
        return [each.gang for each in others if lost or each.arrivals < state.arrived]

    def _standing(self, state: GangState, request: Request) -> Reservation | None:
        """The reservation that it has, if that still holds."""
        kept, self._kept = self._kept, None
        if (
            kept is not None
            and (kept.gang, kept.demand) == (state.id, request.demand)
            and self._holds(kept, self._now, unchanged=self._is_as_it_was)
        ):
            self._calendar.reset(kept)
            return kept
        known = self._calendar.get(state.id)
        if known is not None:
            self._search.keep(known, request, self._now, moved=state.id in self._moved)
        return self._calendar.get(state.id)

    def _book(self, state: GangState, request: Request) -> Reservation | None:
        """A new reservation, ahead of those of gangs that give way; None: it fits at no known time."""
        gang = state.gang
        assert gang is not None
        drains = self._now - gang.submitted >= self._drain_after
        duration = self._duration(gang) if self.keeps else inf
        before = self._later(state)
        return self._search.make(state.id, request, duration, self._now, before=before, drains=drains)

    def _holds(self, kept: Reservation, now: float, *, unchanged: bool) -> bool:
        """Whether a search would find this reservation again."""
        if unchanged:
            return kept.at > now
        if self._as_of[0] != self._nodes.capacity_revision or self._fit.bars(kept.demand):
            return False
        kept.basis = None
        return self._calendar.stands(kept, now)

    @property
    def _is_as_it_was(self) -> bool:
        if self._unchanged is not None:
            return self._unchanged
        return self._as_of == self._state

    @property
    def _state(self) -> tuple[int, int, int]:
        """As long as this is the same, so are amounts and ends."""
        return self._nodes.capacity_revision, self._nodes.revision, self._completions.moved

    def _until(self, state: GangState) -> float:
        """When this gang has gone if it starts now; for a gang that has started before, its further pods."""
        if state.gang is None:
            return inf
        duration = self._duration(state.gang)
        start = state.bound if state.bound is not None else state.assigned
        if start is None or start + duration <= self._now:
            return self._now + duration
        return start + duration

    def _duration(self, gang: Gang) -> float:
        """How long a gang may run, as far as those with reservations have to believe it.

        An estimate is not enforced. A gang of its queue, but of other namespaces, could not reclaim what a
        false one takes from it.
        """
        if gang.estimate is not None:
            for each in self._calendar.values():
                known = self._gangs.get(each.gang)  # it may have gone since the last cycle
                other = known.gang if known is not None else None
                if other is not None and other.queue == gang.queue and other.namespaces != gang.namespaces:
                    return gang.limit if gang.limit is not None else inf
        return self._completions.duration(gang)
