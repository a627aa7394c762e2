"""Reservations and backfill: who may start while somebody who comes before him waits.

Small gangs would pass a large one for ever if whatever fits were simply started. A *reservation* ends that: a
gang that does not fit gets a set of places and a time, the first instant at which it fits when those who end
by then have gone. It is found with `Fit` on the ledger as it will be then, so that fragmentation, topology
and constraints are part of it. Whoever comes later starts if he fits now and ends by that time, or if he fits
*beside* it (`timetable.py`). So the reserved gang can start at its time, at the latest, whatever has been
started meanwhile.

- `strict`: nobody passes the first that waits.
- `none`: whoever fits passes; nothing is reserved.
- `easy`: one reservation, for the first that waits, found anew whenever something has changed (Lifka, JSSPP
  1995). Only the first has a promise; everybody becomes the first in turn.
- `conservative`: one for each of the first `depth` that wait, and it is kept: it moves later only if its
  nodes go, if others stay longer than they may, or if somebody who ranks higher needs the places (Mu'alem and
  Feitelson, 2001). Unlike theirs, it is not moved to an earlier time that is still to come; who can start
  at once without delaying anybody starts at once.

A gang whose time nobody can tell, because it needs room of gangs without limit or estimate, is *drained* for
after `drain_after` seconds: those who began first are waited for first, and of the places that would then be
there, what is free is kept free.

Greedy placement is not monotone: more room may fit less. The instants are therefore tried one after the
other, without bisection. Before the first trial the sums of what is free must suffice, which skips most of
them; after `TRIALS` trials the steps grow, and what is then found is a time at which the gang fits, if
perhaps not the first.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import Final

import numpy as np

from muster.core.decisions import Explanation, Reserve
from muster.core.ends import Ends, Room
from muster.core.exact import Verdict
from muster.core.fit import Claim, Fit
from muster.core.gang import GangId, Place
from muster.core.gangs import GangState
from muster.core.ledger import Ledger
from muster.core.nodes import Columns, Nodes
from muster.core.placement import Want
from muster.core.timetable import Amounts, Reservation, Timetable, held

#: Instants that are tried one by one before the steps grow.
TRIALS: Final = 256

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


@dataclass(frozen=True, slots=True)
class Start:
    """When a gang fits at the earliest, where, and which gangs have to end for it."""

    #: infinite: some of them end at no time that is known
    at: float
    #: the last of the ends that are known
    known: float
    basis: tuple[GangId, ...]
    placed: Mapping[Place, int]
    columns: Columns
    #: rows × columns: what it uses, and what else is in use then
    use: Amounts
    others: Amounts


class Reservations:
    """The reservations of a cycle, and what they leave to others."""

    def __init__(
        self,
        backfill: Backfill,
        depth: int,
        drain_after: float | None,
        nodes: Nodes,
        ledger: Ledger,
        fit: Fit,
        ends: Ends,
    ) -> None:
        """`depth` counts under `conservative`."""
        self._backfill, self._drain_after = backfill, inf if drain_after is None else drain_after
        self._depth = depth if backfill is Backfill.CONSERVATIVE else 1
        self._nodes, self._ledger, self._fit, self._ends = nodes, ledger, fit, ends
        self._timetable = Timetable(nodes, ledger, ends)
        #: of those who have to wait in this cycle, in their order
        self.made: list[Reservation] = []
        #: what everybody else is told, if nobody may start any more in this cycle
        self._closed: Explanation | None = None
        #: easy: the reservation of the last cycle, if it would be found again
        self._kept: Reservation | None = None
        self._as_of = (-1, -1)
        self._now = 0.0
        self._told: dict[GangId, Reserve] = {}
        #: wants that would fit but for a reservation, if they last until then or longer, in this cycle
        self._held: dict[Want, tuple[float, Reservation]] = {}
        #: wants that fit at no time that can be told, in this cycle
        self._never: set[Want] = set()

    def begin(self, now: float, *, unchanged: bool | None = None) -> None:
        """A new cycle. `unchanged`: nothing is new since the end of the last one; None: find that out."""
        self._now = now
        as_it_was = unchanged
        if as_it_was is None:
            as_it_was = self._as_of == (self._nodes.revision, self._ends.moved)
        if self._backfill is Backfill.CONSERVATIVE:
            for gang in [each.gang for each in self._timetable if each.at < now]:
                self._timetable.drop(gang)
            if not as_it_was and len(self._timetable):
                self._timetable.reckon(now)
        else:
            first = self.made[0] if as_it_was and self.made else None
            self._kept = first if first is not None and first.at > now else None
            self._timetable.clear()
        self.made = []
        self._closed = None
        self._held.clear()
        self._never.clear()

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """Cycles that begin in here are only thought of: afterwards all is as it was."""
        saved = self._timetable.save()
        before = self.made, self._closed, self._kept, self._now, dict(self._held), set(self._never)
        try:
            yield
        finally:
            self._timetable.restore(saved)
            self.made, self._closed, self._kept, self._now, self._held, self._never = before

    def end(self) -> list[Reserve]:
        """The cycle is over. Returns the reservations that are not as they were told last."""
        made = {each.gang for each in self.made}
        for gang in [each.gang for each in self._timetable if each.gang not in made]:
            self._timetable.drop(gang)  # it does not wait any more, or not for room
        self._as_of = self._nodes.revision, self._ends.moved
        before, self._told = self._told, {}
        fresh = []
        for each in self.made:
            told = before.get(each.gang)
            # What is overdue begins any moment, now as before.
            as_it_was = told is not None and (
                told.start == each.start or max(told.start, each.at) <= self._now
            )
            if told is None or not as_it_was or told.nodes != each.nodes:
                told = Reserve(each.gang, each.nodes, each.start)
                fresh.append(told)
            self._told[each.gang] = told
        return fresh

    @property
    def wanted(self) -> bool:
        """Whether somebody who has to wait is still to be told (`wait`)."""
        return self._backfill is not Backfill.NONE and len(self.made) < self._depth and self._closed is None

    def wait(self, state: GangState, claim: Claim) -> None:
        """A gang has to wait for its minimum: as far as can be, it is kept from being delayed."""
        if self._backfill is Backfill.STRICT:
            self._closed = held(f"{state.id} is before it, and nobody may pass", state.id)
        elif claim.want not in self._never:
            reservation = self._standing(state, claim) or self._reserve(state, claim)
            if reservation is not None:
                self.made.append(reservation)

    def refusal(self, state: GangState, want: Want) -> Explanation | None:
        """Why this gang need not be tried: it is known that it would delay somebody."""
        if self._closed is not None:
            return self._closed
        if not self._held:
            return None
        until, reservation = self._held.get(want, (inf, None))
        if reservation is None or not state.plain or self._until(state) < until:
            return None
        return None if self._timetable.of(state.id) is not None else reservation.refusal

    def fit(self, state: GangState, claim: Claim) -> _Placed | Reservation:
        """As `Fit.fit`; a reservation, and the ledger as it was, if the gang would fit but for that."""
        first = self._in_the_way(state)
        if first is None:
            return self._pass(state, claim)
        placed: _Placed | Reservation = first
        if not state.plain or not claim.want.fits_by_slots or self._fit.refutes(claim.want) is not None:
            placed = self._try(state, claim, self._fit.fit)
        if not isinstance(placed, Reservation):
            return placed
        beside = self._try(state, claim, lambda claim: self._beside(state, claim))
        if isinstance(beside, dict):
            return beside
        if (overruled := self._overrule(state, claim)) is not None:
            return overruled
        if self._timetable.of(state.id) is None:
            self._held[claim.want] = self._until(state), placed
        return placed

    def of(self, gang: GangId) -> Reservation | None:
        return self._timetable.of(gang)

    def _in_the_way(self, state: GangState) -> Reservation | None:
        """Some reservation that begins while this gang would still be there."""
        until = self._until(state)
        return next((each for each in self._timetable if each.at < until and each.gang != state.id), None)

    def _pass(self, state: GangState, claim: Claim) -> _Placed:
        """It is gone before any reservation begins, and delays nobody."""
        placed = self._fit.fit(claim)
        if isinstance(placed, dict):
            self._kept = None  # that was found without him who starts now
            self._timetable.drop(state.id)
        return placed

    def _try(self, state: GangState, claim: Claim, fit: Callable[[Claim], _Placed]) -> _Placed | Reservation:
        saved = None
        if self._timetable.of(state.id) is not None:
            saved = self._timetable.save()
            self._timetable.drop(state.id)  # nobody is in his own way
        mark, before = self._ledger.mark(), self._nodes.used.copy()
        placed = fit(claim)
        delayed = self._start(state, placed, before) if isinstance(placed, dict) and placed else None
        if delayed is None:
            self._ledger.commit(mark)
        else:
            self._ledger.rollback(mark)
        if saved is not None and (delayed is not None or isinstance(placed, Verdict)):
            self._timetable.restore(saved)
        return placed if delayed is None else delayed

    def _start(self, state: GangState, placed: Mapping[Place, int], before: Amounts) -> Reservation | None:
        """Note who starts; whom he would delay, if he does. `before`: what was in use before."""
        columns = np.unique(np.fromiter(placed.values(), np.intp, len(placed)))
        use = self._nodes.used[: len(before), columns] - before[:, columns]
        until = self._until(state)
        delayed = self._timetable.spares(columns, use, until)
        if delayed is None:
            self._timetable.start(columns, use, until)
        return delayed

    def _beside(self, state: GangState, claim: Claim) -> _Placed:
        """Placed on what reservations leave."""
        mark = self._ledger.mark()
        charged = self._timetable.withhold(self._now, self._until(state))
        placed = self._fit.fit(claim)
        if isinstance(placed, Verdict):
            self._ledger.rollback(mark)
        else:
            self._timetable.return_(charged)
            self._ledger.commit(mark)
        return placed

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
        """Who has a reservation from an earlier cycle and has not had his turn in this one."""
        if self._timetable.of(state.id) is not None or len(self._timetable) == len(self.made):
            return []
        made = {each.gang for each in self.made}
        return [each.gang for each in self._timetable if each.gang not in made]

    def _standing(self, state: GangState, claim: Claim) -> Reservation | None:
        """The reservation that it has, if that still serves."""
        kept, self._kept = self._kept, None
        if kept is not None and (kept.gang, kept.want) == (state.id, claim.want):
            self._timetable.put_back(kept)
            return kept
        known = self._timetable.of(state.id)
        if known is not None and (known.want is not claim.want or known.at <= self._now):
            self._timetable.drop(state.id)
            known = None
        return known

    def _reserve(self, state: GangState, claim: Claim) -> Reservation | None:
        gang = state.gang
        assert gang is not None
        duration = self._ends.duration(gang) if self._backfill is Backfill.CONSERVATIVE else inf
        start = self._search(claim, duration)
        later = self._later(state)
        if later and (start is None or start.at > self._now):
            saved = self._timetable.save()
            for other in later:
                self._timetable.drop(other)
            sooner = self._search(claim, duration)
            if sooner is not None and (start is None or sooner.at < start.at):
                start = sooner
            else:
                self._timetable.restore(saved)
        if start is None and self._now - gang.submitted >= self._drain_after:
            start = self._search(claim, duration, endless=True)
        if start is None:
            self._never.add(claim.want)
            return None
        names = self._nodes.names
        reservation = Reservation(
            state.id,
            claim.want,
            start.at,
            start.known,
            start.known + duration,
            {place: names[column] for place, column in sorted(start.placed.items())},
            start.columns,
            start.use,
            start.use + start.others,
            start.basis,
            self._now,
        )
        self._timetable.add(reservation)
        return reservation

    def _search(self, claim: Claim, duration: float, endless: bool = False) -> Start | None:
        """Try one instant after the other; `endless`: also what others leave at no time that is known."""
        short = self._shortage(claim.want)
        basis: list[GangId] = []
        room = Room(self._ledger)
        tried, next_trial, known = 0, 0, self._now
        instants: list[tuple[float, GangState | None]] = [
            (end, state) for end, state in self._ends.after(self._now) if end < inf or endless
        ]
        if len(self._timetable):
            over = [(each.until, None) for each in self._timetable if self._now < each.until < inf]
            instants = sorted([*instants, *over], key=lambda instant: instant[0])
        mark = self._ledger.mark()
        found = None
        for i, (end, state) in enumerate(instants):
            if end < inf:
                known = end
            if state is not None:
                basis.append(state.id)
                room.add(self._ends.taken(state))
                for resource in short:
                    short[resource] -= state.usage[resource]
            last = i + 1 == len(instants)
            if not last and (instants[i + 1][0] == end < inf or i < next_trial):
                continue
            if any(amount > 0 for amount in short.values()):
                continue
            room.give()
            found = self._at(claim, _Instant(end, known, tuple(basis)), duration)
            if found is not None:
                break
            tried += 1
            next_trial = i + 1 + max(0, tried - TRIALS)
        self._ledger.rollback(mark)
        return found

    def _at(self, claim: Claim, instant: "_Instant", duration: float) -> Start | None:
        """Whether it fits on the ledger as it is at this instant, beside the reservations."""
        mark = self._ledger.mark()
        others = self._nodes.used.copy()
        charged = self._timetable.withhold(instant.known, instant.known + duration)
        placed = self._fit.fit(claim)
        found = None
        if isinstance(placed, dict) and placed:
            self._timetable.return_(charged)
            columns = np.unique(np.fromiter(placed.values(), np.intp, len(placed)))
            others = others[:, columns]
            use = self._nodes.used[: len(others), columns] - others
            found = Start(instant.at, instant.known, instant.basis, placed, columns, use, others)
        self._ledger.rollback(mark)
        return found

    def _shortage(self, want: Want) -> dict[str, int]:
        """By resource how much more has to be free, all nodes together, before anything can fit."""
        nodes = self._nodes
        short: dict[str, int] = {}
        amounts = [nodes.demand(part.shape.requests) for part in want.parts]
        for row in {row for demand in amounts for row, _ in demand}:
            asked = [dict(demand).get(row, 0) for demand in amounts]
            least = sum(part.need * a for part, a in zip(want.parts, asked, strict=True))
            rest = want.need - sum(part.need for part in want.parts)
            least += rest * min(
                (a for p, a in zip(want.parts, asked, strict=True) if p.count > p.need), default=0
            )
            free = int(np.maximum(nodes.free(row), 0).sum(dtype=np.int64))
            if least > free:
                short[nodes.resource(row)] = least - free
        return short

    def _until(self, state: GangState) -> float:
        """When this gang is gone if it starts now."""
        return inf if state.gang is None else self._now + self._ends.duration(state.gang)


@dataclass(frozen=True, slots=True)
class _Instant:
    at: float
    #: the last end so far that is known
    known: float
    basis: tuple[GangId, ...]
