"""Makes reservations, and keeps them.

A reservation is made by finding places and a time (`start_search.py`) and putting both into the calendar. It
is kept as long as possible, in its places or in others at the same time, and is not given up for a gang of
lower rank. Two things may endanger it from one cycle to the next:

- A gang whose anti-affinity excludes the reserved gang has started or ended. The reserved gang's demand then
  differs, but only in that respect (`equal_but_for_anti_affinity`). It is tried again at its time.
- A gang ends late. Where that shows in amounts, the calendar delays the reservations after it (`recompute`).
  But a gang that is still there may be in the way for other reasons; then the next few ends are tried. A
  reservation after this one counts only from when this one was to be over: it will be late as well.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from muster.core.demand import Request
from muster.core.placement import Fit
from muster.core.reservations.answer import Reservation
from muster.core.reservations.calendar import Calendar
from muster.core.reservations.start_search import StartSearch
from muster.core.words.gang import GangId
from muster.core.world import World

#: How many ends are tried for a gang whose time has come and that still waits.
LATE: Final = 16


class ReservationKeeper:
    def __init__(self, world: World, fit: Fit, calendar: Calendar) -> None:
        self._nodes, self._completions = world.nodes, world.completions
        self._ledger, self._calendar = world.ledger, calendar
        self._search = StartSearch(world, fit, calendar)

    def next_cycle(self) -> None:
        self._search.next_cycle()

    def make(
        self,
        gang: GangId,
        request: Request,
        duration: float,
        now: float,
        *,
        before: Sequence[GangId],
        drains: bool,
    ) -> Reservation | None:
        """Make the earliest reservation; None: it fits at no known time, and muster does not drain for it.

        `before`: gangs that lose their reservations if that makes this one earlier.
        """
        found = self._search.find(gang, request, duration, now)
        if before and (found is None or found.start > now):
            with self._ledger.trial() as trial:
                for other in before:
                    self._calendar.drop(other)
                sooner = self._search.find(gang, request, duration, now)
                if sooner is not None and (found is None or sooner.start < found.start):
                    found = sooner
                    trial.keep()
        if found is None and drains:
            found = self._search.find(gang, request, duration, now, endless=True)
        if found is not None:
            self._calendar.add(found)
        return found

    def keep(self, known: Reservation, request: Request, now: float, *, moved: bool) -> None:
        """Keep a reservation of an earlier cycle, in its places or others, or drop it.

        `moved`: it begins later than it did in that cycle.
        """
        if known.demand is request.demand and known.at > now:
            if moved:
                self._advance(known, request, now)
            return
        same = known.demand.equal_but_for_anti_affinity(request.demand)
        ends = (end for end, _ in self._completions.after(now) if end >= known.at)
        # A gang with required affinity may wait for other pods; no other gang then waits for it.
        times = [known.at] * (known.at > now) + [
            *islice(ends, 0 if request.demand.helped_by_arrivals else LATE)
        ]
        if not (same and any(self.confirm(known, request, now, at) for at in dict.fromkeys(times))):
            self._calendar.drop(known.gang)

    def confirm(self, each: Reservation, request: Request, now: float, at: float | None = None) -> bool:
        """Whether it holds on the ledger as it is, for this request, in its places or others, at its time.

        `at`: a later time instead, if a gang ends late. False: it is dropped.
        """
        at, column = each.at if at is None else at, self._nodes.column
        there = {place: column[node] for place, node in each.nodes.items() if node in column}
        self._calendar.drop(each.gang)
        if at >= each.gone:
            return False
        again = self._search.at(each.gang, request._replace(preferred=there), at, each.gone, now)
        if again is None:
            return False
        until, made, since = at + (each.until - each.at), each.made, each.since
        self._calendar.add(replace(again, request=request, until=until, made=made, since=since))
        return True

    def _advance(self, known: Reservation, request: Request, now: float) -> None:
        """Look for other places at an earlier time, as the reservation begins later than it did."""
        duration = known.until - known.at
        with self._ledger.trial() as trial:
            self._calendar.drop(known.gang)
            again = self._search.find(known.gang, request, duration, now)
            if again is not None and again.start < known.at:
                self._calendar.add(replace(again, made=known.made, since=known.since))
                trial.keep()
