"""Reservations and backfill: who may start while somebody who comes before him waits.

Small gangs would pass a large one for ever if whatever fits were simply started. A *reservation* ends that: a
gang that does not fit gets a set of places and a time, the first at which it fits when those who end by then
have gone (`earliest.py`). Whoever comes later starts if he fits now and ends by that time, or if he fits
*beside* it (`timetable.py`). So the reserved gang can start at its time, at the latest, whatever has been
started meanwhile.

- `strict`: nobody passes the first that waits.
- `none`: whoever fits passes; nothing is reserved.
- `easy`: one reservation, for the first that waits, found anew when it might be earlier (Lifka, JSSPP 1995).
  Only the first has a promise; everybody becomes the first in turn.
- `conservative`: one for each of the first `depth` that wait, and it is kept: it moves later only if its
  nodes go, if queues are edited, by as much as others stay too long, or if somebody comes later who ranks
  higher (Mu'alem and Feitelson, 2001). Unlike theirs, it is not moved to an earlier time that is still to
  come; who can start at once without delaying anybody starts at once.

A gang whose time nobody can tell, because it needs room of gangs without limit or estimate, is *drained* for
after `drain_after` seconds: those who began first are waited for first, and of the places that would then be
there, what is free is kept free.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from itertools import takewhile
from math import inf

import numpy as np

from muster.core.backfill.bookings import Bookings
from muster.core.backfill.company import Company
from muster.core.backfill.timetable import Reservation, Timetable, held
from muster.core.cluster import Cluster
from muster.core.decisions import Explanation, Reserve
from muster.core.devices import NO_SHARES, WHOLE
from muster.core.exact import Verdict
from muster.core.fit import Claim
from muster.core.gang import GangId, Place
from muster.core.gangs import GangState
from muster.core.ledger import Mark
from muster.core.nodes import Columns
from muster.core.placement import Want

_Placed = dict[Place, int] | Verdict


class Backfill(Enum):
    """Who may pass a gang that waits."""

    #: nobody
    STRICT = "strict"
    #: whoever fits; nothing is reserved
    NONE = "none"
    #: whoever does not delay the first that waits
    EASY = "easy"
    #: whoever does not delay any of the first that wait
    CONSERVATIVE = "conservative"

    @property
    def reserves(self) -> bool:
        return self in (Backfill.EASY, Backfill.CONSERVATIVE)


class Reservations:
    """The reservations of a cycle, and what they leave to others."""

    def __init__(self, backfill: Backfill, depth: int, drain_after: float | None, cluster: Cluster) -> None:
        """`depth` counts under `conservative`."""
        self._backfill, self._drain_after = backfill, inf if drain_after is None else drain_after
        #: reservations are kept from one cycle to the next
        self._keeps = backfill is Backfill.CONSERVATIVE
        #: to how many of those who wait it matters that they are told (`wait`)
        self._depth = 0 if backfill is Backfill.NONE else depth if self._keeps else 1
        self._nodes, self._ledger, self._queues = cluster.nodes, cluster.ledger, cluster.queues
        self._fit, self._ends, self._wants = cluster.fit, cluster.ends, cluster.wants
        self._timetable = Timetable(cluster.ledger, cluster.ends)
        self._company = Company(cluster)
        self._bookings = Bookings(cluster, self._timetable, self._company.meet)
        #: of those who have to wait in this cycle, in their order
        self.made: list[Reservation] = []
        #: what everybody else is told, if nobody may start any more in this cycle
        self.closed: Explanation | None = None
        #: easy: the reservation of the last cycle, if it would be found again
        self._kept: Reservation | None = None
        self._as_of = (-1, -1, -1)
        self._unchanged: bool | None = None
        self._now = 0.0
        self._told: dict[GangId, Reserve] = {}
        #: in this cycle: wants, of gangs that have begun or not, that would delay somebody if they lasted
        #: longer than until then
        self._held: dict[tuple[Want, bool], tuple[float, Reservation]] = {}
        #: wants that fit at no time that can be told, in this cycle
        self._never: set[Want] = set()
        #: conservative: whose places begin later than they did, and whose are gone, as of this cycle
        self._moved: set[GangId] = set()
        self._lost: set[GangId] = set()
        #: `Queues.plantings` in the last cycle
        self._rules = -1

    def begin(self, now: float, *, unchanged: bool | None = None) -> None:
        """A new cycle. `unchanged`: nothing is new since the end of the last one; None: find that out."""
        self._now, self._unchanged = now, unchanged
        if self._keeps:
            overdue = any(each.at < now for each in self._timetable)
            stale = len(self._timetable) and (overdue or not self._is_as_it_was)
            self._moved = self._timetable.reckon(now) if stale else set()
            self._lost = {gang for gang in self._moved if self._timetable.of(gang) is None}
            if self._rules != self._queues.plantings:  # it is another order now
                for each in self._timetable:
                    each.since = -1
            self._rules = self._queues.plantings
        else:
            self._kept = self.made[0] if self.made and unchanged is not False else None
            self._timetable.clear()
        self.made = []
        if unchanged is None:  # else it is only thought of
            self._bookings.next_cycle()
        self.closed = None
        self._held.clear()
        self._never.clear()

    def stand(self, now: float) -> bool:
        """Whether the next cycle may `go_on` from the last one: what begins is still to come, and would be
        found again, and nobody who may be told of a time later on was told that there is none."""
        unchanged = self._as_of == self._state
        if self._never or self.closed is not None or (self._keeps and not unchanged):
            return False
        return all(self._holds(each, now, unchanged=unchanged) for each in self.made)

    def go_on(self, now: float) -> None:
        """A new cycle, in which reservations, and those whom they hold up, are those of the last one."""
        self._now, self._unchanged, self._kept = now, None, None
        self._held.clear()
        self._bookings.next_cycle()

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """Cycles that begin in here are only thought of: afterwards all is as it was."""
        saved = self._timetable.save()
        before = self.made, self.closed, self._kept, self._now, self._moved, self._lost
        held, never = dict(self._held), set(self._never)
        try:
            yield
        finally:
            self._timetable.restore(saved)
            self.made, self.closed, self._kept, self._now, self._moved, self._lost = before
            self._held, self._never = held, never

    def end(self) -> list[Reserve]:
        """The cycle is over. Returns the reservations that are not as they were told last."""
        self._as_of = self._state
        if not self.made:
            self._timetable.clear()
            self._told.clear()
            self._ends.forget_left()
            return []
        if self._keeps:
            made = {each.gang for each in self.made}
            for gang in [each.gang for each in self._timetable if each.gang not in made]:
                self._timetable.drop(gang)  # it does not wait any more, or not for room
        before, self._told = self._told, {}
        fresh = []
        for each in self.made:
            told = before.get(each.gang)
            # What is overdue begins any moment, now as before.
            as_it_was = told is not None and (
                told.start == each.start or max(told.start, each.at) <= self._now
            )
            if told is None or not as_it_was or (told.nodes is not each.nodes and told.nodes != each.nodes):
                told = Reserve(each.gang, each.nodes, each.start)
                fresh.append(told)
            self._told[each.gang] = told
        return fresh

    def wanted(self, want: Want) -> bool:
        """Whether somebody who has to wait for this is still to be told (`wait`)."""
        return len(self.made) < self._depth and self.closed is None and want not in self._never

    def wait(self, state: GangState, claim: Claim) -> None:
        """A gang has to wait for its minimum: as far as can be, it is kept from being delayed."""
        if self._backfill is Backfill.STRICT:
            self.closed = held(f"{state.id} is before it, and nobody may pass", state.id)
        else:
            reservation = self._standing(state, claim) or self._book(state, claim)
            if reservation is None:
                self._never.add(claim.want)
            else:
                reservation.claim = claim
                self.made.append(reservation)

    def refusal(self, state: GangState, want: Want) -> Explanation | None:
        """Why this gang need not be tried: it is known that it would delay somebody."""
        if self.closed is not None:
            return self.closed
        if not self.made or self.wanted(want) or not state.plain or self._timetable.of(state.id) is not None:
            return None  # it is tried, and has a reservation of its own if it does not start
        until = self._until(state)
        known, reservation = self._held.get((want, state.begun), (inf, None))
        if reservation is None or until <= known:
            reservation = self._blocker(state, want, until)
            if reservation is not None and len(self._timetable) == 1:  # nobody else's can go meanwhile
                self._held[want, state.begun] = reservation.at, reservation
        return None if reservation is None else reservation.refusal

    def fit(self, state: GangState, claim: Claim) -> _Placed | Reservation:
        """As `Fit.fit`; a reservation, and the ledger as it was, if the gang would fit but for that."""
        until = self._until(state)
        first = self._in_the_way(state, until)
        if first is None:
            return self._pass(state, claim)
        if (blocker := self._blocker(state, claim.want, until)) is not None:
            return blocker
        placed: _Placed | Reservation = first
        if not state.plain or not claim.want.fits_by_slots or self._fit.refutes(claim.want) is not None:
            placed = self._try(state, claim, self._fit.fit)
        if not isinstance(placed, Reservation):
            return placed
        beside = self._try(state, claim, lambda claim: self._beside(state, claim))
        if isinstance(beside, Reservation) and self._company.matters(beside, claim):
            off = claim.keeping_off(beside.columns)
            beside = self._try(state, off, lambda claim: self._beside(state, claim))
        if isinstance(beside, dict):
            return beside
        if (kept := self._in_its_places(state, claim)) is not None:
            return kept
        if (overruled := self._overrule(state, claim)) is not None:
            return overruled
        minded = any(self._company.matters(each, claim) for each in self._timetable)
        if self._timetable.of(state.id) is None and not minded:
            last = max(each.at for each in self._timetable if each.at < until)
            self._held[claim.want, state.begun] = last, placed
        return placed

    def of(self, gang: GangId) -> Reservation | None:
        return self._timetable.of(gang)

    def due(self, gang: GangId) -> bool:
        """Whether it has places from now on: there it fits, even if it was tried elsewhere in vain."""
        own = self._timetable.of(gang)
        return own is not None and own.at <= self._now

    @property
    def due_at(self) -> float:
        """When the next time comes that is kept from cycle to cycle; infinite: none does."""
        kept = self._timetable if self._keeps else ()
        return min((each.at for each in kept if each.at > self._now), default=inf)

    def basis(self, reservation: Reservation) -> tuple[GangId, ...]:
        """Who has to end for it."""
        if reservation.basis is None:
            ends = self._ends.after(self._now, but=reservation.gang)
            by_then = takewhile(lambda end: end[0] <= reservation.at, ends)
            reservation.basis = tuple(state.id for _, state in by_then)
        return reservation.basis

    def _in_the_way(self, state: GangState, until: float) -> Reservation | None:
        """Some reservation that begins while this gang would still be there."""
        for each in self._timetable:
            if each.at < until and each.gang != state.id:
                return each
        return None

    def _blocker(self, state: GangState, want: Want, until: float) -> Reservation | None:
        """A reservation of this cycle that leaves too few slots for it, which fits but for that."""
        before = [each for each in self.made if each.at < until]  # else he is gone by then
        if not before or state.begun or not (state.plain and want.fits_by_slots) or self._fit.bars(want):
            return None
        if self.due(state.id):  # all others were made with it in mind, if not to the last digit
            return None
        (part,) = want.parts
        vector = self._fit.slots.room(part.shape)
        if part.need > vector.total:
            return None
        own = self._timetable.of(state.id)
        for each in before:
            if own is not None and own.at <= each.at < own.until:
                continue  # he is counted there himself
            if self._timetable.beside(each, vector) < part.need:
                return each
        return None

    def _pass(self, state: GangState, claim: Claim) -> _Placed:
        """It is gone before any reservation begins, and delays nobody."""
        placed = self._fit.fit(claim)
        if isinstance(placed, dict):
            self._unchanged = None
            self._timetable.drop(state.id)
            return placed
        return self._in_its_places(state, claim) or placed

    def _try(self, state: GangState, claim: Claim, fit: Callable[[Claim], _Placed]) -> _Placed | Reservation:
        own = self._timetable.of(state.id)
        minding = [each for each in self._timetable if each is not own and self._company.matters(each, claim)]
        saved = self._timetable.save() if own is not None or minding else None
        self._timetable.drop(state.id)  # nobody is in his own way
        mark, before = self._ledger.mark(), self._nodes.used.copy()
        placed, delayed = fit(claim), None
        if isinstance(placed, dict):
            until = self._until(state)
            used = self._nodes.used[: len(before)]
            columns = np.flatnonzero((used > before).any(axis=0)) if minding else None
            shares = self._ledger.shared(mark) if claim.want.sharing else NO_SHARES
            delayed = self._timetable.start_unless(before, shares, until)
            if delayed is None and columns is not None:
                delayed = self._spoiled(minding, claim, columns, until)
        if delayed is None:
            self._ledger.commit(mark)
        else:
            self._ledger.rollback(mark)
        if saved is not None and (delayed is not None or isinstance(placed, Verdict)):
            self._timetable.restore(saved)
        elif minding:
            self.made = [self._timetable.of(each.gang) or each for each in self.made]
        return placed if delayed is None else delayed

    def _spoiled(
        self, minding: Iterable[Reservation], passer: Claim, columns: Columns, until: float
    ) -> Reservation | None:
        """Whose company those spoil who have been placed by this claim on these columns, and stay so long.

        Who finds other places for the same time has those from now on.
        """
        for each in minding:
            if each.at < until:
                claim = self._company.knowing(each.claim, passer, columns)
                if not self._bookings.confirm(each, claim, self._now):
                    return each
        return None

    def _beside(self, state: GangState, claim: Claim) -> _Placed:
        """Placed on what reservations leave."""
        mark = self._ledger.mark()
        standing = self._timetable.standing(self._now, self._until(state))
        charged = self._timetable.withhold(standing, self._now, sharing=claim.want.sharing)
        placed = self._fit.fit(claim)
        if isinstance(placed, Verdict):
            self._ledger.rollback(mark)
        else:
            self._timetable.return_(charged)
            self._ledger.commit(mark)
        return placed

    def _in_its_places(self, state: GangState, claim: Claim) -> dict[Place, int] | None:
        """Placed where its own reservation says, which begins now: all others were made with that in mind."""
        own, column = self._timetable.of(state.id), self._nodes.column
        if own is None or own.at > self._now or not own.want.same_but_for_company(claim.want):
            return None
        there = {place: column[node] for place, node in own.nodes.items() if node in column}
        mark = self._ledger.mark()
        with self._ledger.on(own.devices):
            placed = self._fit.fit(self._wants.only(claim, there)._replace(preferred=there))
        if placed != there or self._over(own, mark):
            self._ledger.rollback(mark)
            return None
        self._ledger.commit(mark)
        self._timetable.drop(state.id)
        self._timetable.start(own.columns, own.use, own.shares, self._until(state))
        return there

    def _over(self, own: Reservation, mark: Mark) -> bool:
        """Whether it is not on its devices, or with it there is more on them, or on the node, than goes."""
        gpus, used = self._nodes.devices.row, self._nodes.devices.shared(own.columns)
        if self._ledger.shared(mark) != own.shares or any(used[device] > WHOLE for device in own.shares):
            return True
        return any(self._nodes.free_at(gpus, column) < 0 for column in own.columns.tolist())

    def _overrule(self, state: GangState, claim: Claim) -> dict[Place, int] | None:
        """A gang without a reservation, before gangs that have one from earlier cycles: it ranks higher."""
        later = self._later(state)
        if not later:
            return None
        saved = self._timetable.save()
        for gang in later:
            self._timetable.drop(gang)
        placed = self._try(state, claim, self._fit.fit)
        if isinstance(placed, Reservation):
            placed = self._try(state, claim, lambda claim: self._beside(state, claim))
        if isinstance(placed, dict):
            return placed
        self._timetable.restore(saved)
        return None

    def _later(self, state: GangState) -> list[GangId]:
        """Who has a reservation from an earlier cycle, has not had his turn in this one, and gives way to it.

        That is who was told his time before it came, or everybody if it has lost its own.
        """
        if self._timetable.of(state.id) is not None or len(self._timetable) == len(self.made):
            return []
        made, lost = {each.gang for each in self.made}, state.id in self._lost
        return [
            each.gang
            for each in self._timetable
            if each.gang not in made and (lost or each.since < state.arrived)
        ]

    def _standing(self, state: GangState, claim: Claim) -> Reservation | None:
        """The reservation that it has, if that still serves."""
        kept, self._kept = self._kept, None
        if (
            kept is not None
            and (kept.gang, kept.want) == (state.id, claim.want)
            and self._holds(kept, self._now, unchanged=self._is_as_it_was)
        ):
            self._timetable.put_back(kept)
            return kept
        known = self._timetable.of(state.id)
        if known is not None:
            self._bookings.keep(known, claim, self._now, moved=state.id in self._moved)
        return self._timetable.of(state.id)

    def _book(self, state: GangState, claim: Claim) -> Reservation | None:
        """A reservation that it has not had, before those of others who give way; None: for no time."""
        gang = state.gang
        assert gang is not None
        drains = self._now - gang.submitted >= self._drain_after
        duration = self._ends.duration(gang) if self._keeps else inf
        return self._bookings.make(
            state.id, claim, duration, self._now, before=self._later(state), drains=drains
        )

    def _holds(self, kept: Reservation, now: float, *, unchanged: bool) -> bool:
        """Whether it would be found again."""
        if unchanged:
            return kept.at > now
        if self._as_of[0] != self._nodes.capacity_revision or self._fit.bars(kept.want):
            return False
        kept.basis = None
        return self._timetable.stands(kept, now)

    @property
    def _is_as_it_was(self) -> bool:
        if self._unchanged is not None:
            return self._unchanged
        return self._as_of == self._state

    @property
    def _state(self) -> tuple[int, int, int]:
        """As long as it is the same, so are amounts and ends."""
        return self._nodes.capacity_revision, self._nodes.revision, self._ends.moved

    def _until(self, state: GangState) -> float:
        """When this gang is gone if it starts now, or what it gets now, if it has started before."""
        if state.gang is None:
            return inf
        duration = self._ends.duration(state.gang)
        start = state.bound if state.bound is not None else state.assigned
        if start is None or start + duration <= self._now:
            return self._now + duration
        return start + duration
