"""Makes reservations, and keeps them: the earliest time at which a gang fits, if nothing else starts.

Instants are the times at which a gang ends, or a reservation is over. Gangs that end by then are taken off
the ledger, what reservations need is charged to it, and `Fit` says whether the gang fits. Fragmentation,
topology and constraints are therefore part of the answer.

Greedy placement is not monotone: more room may fit less. The instants are therefore tried one after the
other, without bisection. Before the first trial the sums of what is free must suffice, which skips most of
them. After `TRIALS` trials instants are left out, more and more. Once a search has used up its steps
(`core/work.py`), each further trial is twice as far from the beginning as the one before, and greedy; after
twice as many steps only the last instant is tried. The time that is then found is one at which the gang fits,
but perhaps not the first.

A reservation is kept as long as possible, in its places or in others at the same time, and is not given up
for a gang of lower rank. Two things may endanger it from one cycle to the next:

- A gang whose anti-affinity excludes the reserved gang has started or ended. The reserved gang's demand then
  differs, but only in that respect (`equal_but_for_anti_affinity`). It is tried again at its time.
- A gang ends late. Where that shows in amounts, the calendar delays the reservations after it (`recompute`).
  But a gang that is still there may be in the way for other reasons; then the next few ends are tried. A
  reservation after this one counts only from when this one was to be over: it will be late as well.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import merge
from itertools import chain, islice, pairwise, takewhile
from math import inf
from operator import itemgetter
from typing import Final

import numpy as np

from muster.core.demand import Demand, Request
from muster.core.placement import Fit
from muster.core.placement.topology.candidates import Grouped
from muster.core.reservations.affinity_guard import AffinityGuard
from muster.core.reservations.answer import Reservation
from muster.core.reservations.calendar import Calendar
from muster.core.words.amounts import PODS
from muster.core.words.decisions import Victim
from muster.core.words.gang import GangId
from muster.core.world import World
from muster.core.world.devices import NO_SHARES, WHOLE
from muster.core.world.gangs import GangState
from muster.names import GPU, GPU_SHARE

#: Instants that are tried one by one before some are left out.
TRIALS: Final = 256
#: Steps (`core/work.py`) of one search, if cycles are not limited.
STEPS: Final = 8_000
#: Problems that may be solved exactly in a cycle for all searches of a namespace; further trials are greedy.
PROBLEMS: Final = 20
#: How many ends are tried for a gang whose time has come and that still waits.
LATE: Final = 16

#: A time, and the gang that ends then; None: a reservation is over.
_Instant = tuple[float, GangState | None]
#: After the last one.
_NONE: Final[_Instant] = (inf, None)


class StartSearch:
    def __init__(self, world: World, fit: Fit, calendar: Calendar, steps: int | None = None) -> None:
        """`steps`: of one search, as in `Config`."""
        self._nodes, self._ledger, self._log, self._fit = world.nodes, world.ledger, world.log, fit
        self._gangs, self._completions = world.gangs, world.completions
        self._calendar, self._guard = calendar, AffinityGuard(world, fit)
        self._steps = steps or STEPS
        #: problems that were solved in this cycle, by namespace
        self.problems = Counter[str]()

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
        found = self.find(gang, request, duration, now)
        if before and (found is None or found.start > now):
            with self._log.trial() as trial:
                for other in before:
                    self._calendar.drop(other)
                sooner = self.find(gang, request, duration, now)
                if sooner is not None and (found is None or sooner.start < found.start):
                    found = sooner
                    trial.keep()
        if found is None and drains:
            found = self.find(gang, request, duration, now, endless=True)
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
        again = self.at(each.gang, request._replace(preferred=there), at, each.gone, now)
        if again is None:
            return False
        until, made, arrivals = at + (each.until - each.at), each.made, each.arrivals
        self._calendar.add(replace(again, request=request, until=until, made=made, arrivals=arrivals))
        return True

    def _advance(self, known: Reservation, request: Request, now: float) -> None:
        """Look for other places at an earlier time, as the reservation begins later than it did."""
        duration = known.until - known.at
        with self._log.trial() as trial:
            self._calendar.drop(known.gang)
            again = self.find(known.gang, request, duration, now)
            if again is not None and again.start < known.at:
                self._calendar.add(replace(again, made=known.made, arrivals=known.arrivals))
                trial.keep()

    def find(
        self, gang: GangId, request: Request, duration: float, now: float, *, endless: bool = False
    ) -> Reservation | None:
        """The earliest reservation for this request, if it is for `duration`; None: it fits at no known time.

        `endless`: gangs whose end is unknown count, too, as if they ended last.
        """
        short, begun = self._shortage(request.demand), self._nodes.steps
        ended: list[GangState] = []
        given = tried = spent = 0
        next_trial: float = 0
        known, instants = now, chain(self._instants(gang, now, endless), [_NONE])
        with self._log.trial():
            for i, ((end, state), following) in enumerate(pairwise(instants), 1):
                known = end if end < inf else known
                if state is not None:
                    ended.append(state)
                    for resource in short:
                        short[resource] -= _left_by(state, resource)
                if following is not _NONE and (following[0] == end < inf or i < next_trial):
                    continue
                if any(amount > 0 for amount in short.values()):
                    continue
                short.clear()
                self._completions.give(ended[given:])
                given = len(ended)
                standing = self._calendar.standing(known, known + duration)
                greedy = spent > self._steps
                found = self._beside(gang, request, known, known + duration, standing, ended, now, greedy)
                if found is not None:
                    found.start = end
                    return found
                tried, spent = tried + 1, self._nodes.steps - begun
                next_trial = i + 1 + max(0, tried - TRIALS)
                if spent > self._steps:
                    next_trial = 2 * i if spent <= 2 * self._steps else inf
        return None

    def at(self, gang: GangId, request: Request, time: float, until: float, now: float) -> Reservation | None:
        """A reservation for this request from `time` to `until`; None: it does not fit then.

        A delayed reservation counts as over when it was first to be over: it will delay this one as well.
        """
        ends = self._completions.after(now, but=gang)
        ended = [state for _, state in takewhile(lambda end: end[0] <= time, ends)]
        with self._log.trial():
            self._completions.give(ended)
            standing = self._calendar.standing(time, until, as_promised=True)
            return self._beside(gang, request, time, until, standing, ended, now)

    def _instants(self, gang: GangId, now: float, endless: bool) -> Iterator[_Instant]:
        """The times at which another gang ends (with that gang) or a reservation is over, in order."""
        ends = self._completions.after(now, but=gang)
        if not endless:
            ends = takewhile(lambda instant: instant[0] < inf, ends)
        over = sorted(each.until for each in self._calendar.values() if now < each.until < inf)
        return merge(ends, ((until, None) for until in over), key=itemgetter(0)) if over else ends

    def _beside(
        self,
        gang: GangId,
        request: Request,
        at: float,
        until: float,
        standing: Sequence[Reservation],
        ended: Sequence[GangState],
        now: float,
        greedy: bool = False,
    ) -> Reservation | None:
        """A reservation beside these, on the ledger as it is at this time; None: the gang does not fit."""
        with self._log.trial() as trial:
            charged = self._calendar.withhold(standing, at, sharing=request.demand.sharing)
            beside = self._guard.beside_reserved(request, standing, at)._replace(
                search=request.search and not greedy and self.problems[request.namespace] < PROBLEMS
            )
            self._fit.exclusive_domains.leave([Victim(state.id) for state in ended])
            left = PROBLEMS - self.problems[request.namespace]
            with self._fit.exact.lending(left):
                placed = self._fit.fit(beside)
                self.problems[request.namespace] += left - self._fit.exact.lent
            if not placed or not placed.columns:
                return None
            self._calendar.give_back(charged)
            columns = np.array(sorted({*placed.columns.values()}), np.intp)
            together = self._nodes.used.take(columns, axis=1)
            gpus, devices = self._nodes.devices, self._ledger.devices(trial)
            shares = self._ledger.shared(trial) if request.demand.sharing else NO_SHARES
            shared, opened = gpus.shared(columns), gpus.opened(shares)
        use = together - self._nodes.used.take(columns, axis=1)
        for column in opened:
            use[gpus.row, columns.searchsorted(column)] -= 1
        return Reservation(
            gang,
            request,
            start=at,
            at=at,
            until=until,
            nodes={place: self._nodes.names[column] for place, column in sorted(placed.columns.items())},
            columns=columns,
            use=use,
            devices=devices,
            shares=shares,
            spare=self._nodes.capacities(columns) - together,
            shared=shared,
            basis=tuple(state.id for state in ended),
            made=now,
            arrivals=self._gangs.arrivals,
            gone=until,
        )

    def _shortage(self, demand: Demand) -> dict[str, int]:
        """By resource how much more has to be free, all nodes together, before anything can fit."""
        nodes = self._nodes
        least = Grouped.of(demand, nodes).least
        return {nodes.resource(row): n - free for row, n in least if (free := nodes.all_free(row)) < n}


def _left_by(state: GangState, resource: str) -> int:
    """At most so much more of a resource is free once it has ended: each share may have kept a GPU open."""
    use = state.usage.get
    if resource == GPU:
        return use(GPU, 0) + (use(PODS, 0) if use(GPU_SHARE, 0) else 0)
    if resource == GPU_SHARE:
        return use(GPU_SHARE, 0) + WHOLE * use(GPU, 0)
    return use(resource, 0)
