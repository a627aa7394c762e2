"""Finds the earliest time at which a gang fits, if nothing else starts: instants are tried in order.

Instants are the times at which a gang ends, or a reservation is over. Gangs that end by then are taken off
the ledger, what reservations need is charged to it, and `Fit` says whether the gang fits. Fragmentation,
topology and constraints are therefore part of the answer.

Greedy placement is not monotone: more room may fit less. The instants are therefore tried one after the
other, without bisection. Before the first trial the sums of what is free must suffice, which skips most of
them. After `TRIALS` trials the steps grow; the time that is then found is one at which the gang fits, but
perhaps not the first.
"""

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import chain, pairwise, takewhile
from math import inf
from operator import itemgetter
from typing import Final

import numpy as np

from muster.core.demand import Demand, Request
from muster.core.placement import Fit
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

#: Instants that are tried one by one before the steps grow.
TRIALS: Final = 256
#: Problems that may be solved exactly in a cycle for all searches together; further trials are greedy.
PROBLEMS: Final = 20

#: A time, and the gang that ends then; None: a reservation is over.
_Instant = tuple[float, GangState | None]
#: After the last one.
_NONE: Final[_Instant] = (inf, None)


class StartSearch:
    def __init__(self, world: World, fit: Fit, calendar: Calendar) -> None:
        self._nodes, self._ledger, self._fit = world.nodes, world.ledger, fit
        self._gangs, self._completions = world.gangs, world.completions
        self._calendar, self._guard = calendar, AffinityGuard(world, fit)
        self._problems = PROBLEMS

    def next_cycle(self) -> None:
        self._problems = PROBLEMS

    def find(
        self, gang: GangId, request: Request, duration: float, now: float, *, endless: bool = False
    ) -> Reservation | None:
        """The earliest reservation for this request, if it is for `duration`; None: it fits at no known time.

        `endless`: gangs whose end is unknown count, too, as if they ended last.
        """
        short, ended = self._shortage(request.demand), list[GangState]()
        given = tried = next_trial = 0
        known, instants = now, chain(self._instants(gang, now, endless), [_NONE])
        with self._ledger.trial():
            for i, ((end, state), following) in enumerate(pairwise(instants), 1):
                known = end if end < inf else known
                if state is not None:
                    ended.append(state)
                    for resource in short:
                        short[resource] -= _left_by(state, resource)
                if following is not _NONE and (following[0] == end < inf or i <= next_trial):
                    continue
                if any(amount > 0 for amount in short.values()):
                    continue
                short.clear()
                self._completions.give(ended[given:])
                given = len(ended)
                standing = self._calendar.standing(known, known + duration)
                found = self._at(gang, request, known, known + duration, standing, ended, now)
                if found is not None:
                    found.start = end
                    return found
                tried += 1
                next_trial = i + max(0, tried - TRIALS)
        return None

    def at(self, gang: GangId, request: Request, time: float, until: float, now: float) -> Reservation | None:
        """A reservation for this request from `time` to `until`; None: it does not fit then.

        A delayed reservation counts as over when it was first to be over: it will delay this one as well.
        """
        ends = self._completions.after(now, but=gang)
        ended = [state for _, state in takewhile(lambda end: end[0] <= time, ends)]
        with self._ledger.trial():
            self._completions.give(ended)
            standing = self._calendar.standing(time, until, as_promised=True)
            return self._at(gang, request, time, until, standing, ended, now)

    def _instants(self, gang: GangId, now: float, endless: bool) -> Iterator[_Instant]:
        """The times at which another gang ends (with that gang) or a reservation is over, in order."""
        ends = self._completions.after(now, but=gang)
        if not endless:
            ends = takewhile(lambda instant: instant[0] < inf, ends)
        over = sorted(each.until for each in self._calendar if now < each.until < inf)
        return merge(ends, ((until, None) for until in over), key=itemgetter(0)) if over else ends

    def _at(
        self,
        gang: GangId,
        request: Request,
        at: float,
        until: float,
        standing: Sequence[Reservation],
        ended: Sequence[GangState],
        now: float,
    ) -> Reservation | None:
        """A reservation beside these, on the ledger as it is at this time; None: the gang does not fit."""
        with self._ledger.trial() as trial:
            charged = self._calendar.withhold(standing, at, sharing=request.demand.sharing)
            beside = self._guard.beside_reserved(request, standing, at)._replace(
                search=request.search and self._problems > 0
            )
            self._fit.exclusive_domains.leave([Victim(state.id) for state in ended])
            with self._fit.exact.budget.lending(self._problems):
                placed = self._fit.fit(beside)
                self._problems = self._fit.exact.budget.lent
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
            since=self._gangs.arrivals,
            gone=until,
        )

    def _shortage(self, demand: Demand) -> dict[str, int]:
        """By resource how much more has to be free, all nodes together, before anything can fit."""
        nodes = self._nodes
        short: dict[str, int] = {}
        amounts = [dict(nodes.row_amounts(part.shape.requests)) for part in demand.parts]
        rest = demand.need - sum(part.need for part in demand.parts)
        for row in {row for asked in amounts for row in asked}:
            least = 0
            for part, asked in zip(demand.parts, amounts, strict=True):
                least += part.need * asked.get(row, 0)
            if rest:
                least += rest * min(
                    (a.get(row, 0) for p, a in zip(demand.parts, amounts, strict=True) if p.count > p.need),
                    default=0,
                )
            if least > (free := nodes.all_free(row)):
                short[nodes.resource(row)] = least - free
        return short


def _left_by(state: GangState, resource: str) -> int:
    """At most so much more of a resource is free once it has ended: each share may have kept a GPU open."""
    use = state.usage.get
    if resource == GPU:
        return use(GPU, 0) + (use(PODS, 0) if use(GPU_SHARE, 0) else 0)
    if resource == GPU_SHARE:
        return use(GPU_SHARE, 0) + WHOLE * use(GPU, 0)
    return use(resource, 0)
