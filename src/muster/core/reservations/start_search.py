"""Finds the earliest time at which a gang fits, if nothing else starts: instants are tried in order.

Instants are the times at which a gang ends, or a reservation is over. Gangs that end by then are taken off
the ledger, what reservations need is charged to it, and `Fit` says whether the gang fits. Fragmentation,
topology and constraints are therefore part of the answer.

Greedy placement is not monotone: more room may fit less. The instants are therefore tried one after the
other, without bisection. Before the first trial the sums of what is free must suffice, which skips most of
them. After `TRIALS` trials the steps grow; the time that is then found is one at which the gang fits, but
perhaps not the first.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import takewhile
from math import inf
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np

from muster.core.demand import Demand, Request
from muster.core.placement import Fit
from muster.core.reservations.calendar import Amounts, Reservation, Timetable
from muster.core.words.amounts import PODS
from muster.core.words.decisions import Victim
from muster.core.words.gang import GangId, NodeName, Place
from muster.core.world.completions import Ends
from muster.core.world.devices import NO_SHARES, WHOLE, Device
from muster.core.world.gangs import GangState
from muster.core.world.ledger import Ledger
from muster.core.world.nodes import Columns
from muster.names import GPU, GPU_SHARE

#: Instants that are tried one by one before the steps grow.
TRIALS: Final = 256
#: Problems that may be solved exactly in a cycle for all searches together; further trials are greedy.
PROBLEMS: Final = 20


class Start(NamedTuple):
    """When a gang fits at the earliest, where, and which gangs have to end for it."""

    #: infinite: the end of some of them is unknown
    at: float
    #: the last of the ends that are known
    known: float
    basis: tuple[GangId, ...]
    placed: Mapping[Place, int]
    columns: Columns
    #: as those of a `Reservation`
    use: Amounts
    devices: Mapping[tuple[NodeName, int], Sequence[int]]
    shares: Mapping[Device, int]
    spare: Amounts
    shared: dict[Device, int]


class Earliest:
    def __init__(
        self,
        ledger: Ledger,
        fit: Fit,
        ends: Ends,
        timetable: Timetable,
        meet: Callable[[Request, Sequence[Reservation], float], Request],
    ) -> None:
        """`meet`: puts the pods of other reservations on the ledger (`company.py`)."""
        self._nodes, self._ledger, self._fit = ledger.nodes, ledger, fit
        self._ends, self._timetable, self._meet = ends, timetable, meet
        self._problems = PROBLEMS

    def next_cycle(self) -> None:
        self._problems = PROBLEMS

    def find(
        self, gang: GangId, request: Request, duration: float, now: float, *, endless: bool = False
    ) -> Start | None:
        """When and where this request of a gang fits for `duration`; None: at no known time.

        `endless`: gangs whose end is unknown count, too, as if they ended last.
        """
        short = self._shortage(request.demand)
        ended: list[GangState] = []
        i, given, tried, next_trial, known, found = 0, 0, 0, 0, now, None
        trial = self._ledger.trial()
        instants = self._instants(gang, now, endless)
        coming = next(instants, None)
        while coming is not None:
            (end, state), coming = coming, next(instants, None)
            i += 1
            if end < inf:
                known = end
            if state is not None:
                ended.append(state)
                if short:
                    for resource in short:
                        short[resource] -= _left_by(state, resource)
            if coming is not None and (coming[0] == end < inf or i <= next_trial):
                continue
            if short:
                if any(amount > 0 for amount in short.values()):
                    continue
                short.clear()
            self._ends.give(ended[given:])
            given = len(ended)
            standing = self._timetable.standing(known, known + duration)
            found = self._at(request, end, known, standing, ended)
            if found is not None:
                break
            tried += 1
            next_trial = i + max(0, tried - TRIALS)
        trial.undo()
        return found

    def at(self, gang: GangId, request: Request, time: float, until: float, now: float) -> Start | None:
        """Where this request of a gang fits from `time` to `until`; None: it does not.

        A delayed reservation counts as over when it was first to be over: it will delay this one as well.
        """
        trial = self._ledger.trial()
        ends = self._ends.after(now, but=gang)
        ended = [state for _, state in takewhile(lambda end: end[0] <= time, ends)]
        self._ends.give(ended)
        standing = self._timetable.standing(time, until, as_promised=True)
        found = self._at(request, time, time, standing, ended)
        trial.undo()
        return found

    def _instants(self, gang: GangId, now: float, endless: bool) -> Iterator[tuple[float, GangState | None]]:
        """The times at which another gang ends (with that gang) or a reservation is over, in order."""
        ends = self._ends.after(now, but=gang)
        if not endless:
            ends = takewhile(lambda instant: instant[0] < inf, ends)
        over = sorted(each.until for each in self._timetable if now < each.until < inf)
        return merge(ends, ((until, None) for until in over), key=itemgetter(0)) if over else ends

    def _at(
        self,
        request: Request,
        end: float,
        known: float,
        standing: Sequence[Reservation],
        ended: Sequence[GangState],
    ) -> Start | None:
        """Where it fits on the ledger as it is at this instant, beside these reservations; None: nowhere."""
        trial = self._ledger.trial()
        charged = self._timetable.withhold(standing, known, sharing=request.demand.sharing)
        beside = self._meet(request, standing, known)._replace(search=request.search and self._problems > 0)
        self._fit.exclusive_domains.leave([Victim(state.id) for state in ended])
        with self._fit.exact.lending(self._problems):
            placed = self._fit.fit(beside)
            self._problems = self._fit.exact.lent
        if not placed or not placed.columns:
            trial.undo()
            return None
        self._timetable.return_(charged)
        columns = np.array(sorted({*placed.columns.values()}), np.intp)
        together = self._nodes.used.take(columns, axis=1)
        gpus, taken = self._nodes.devices, self._ledger.devices(trial)
        shares = self._ledger.shared(trial) if request.demand.sharing else NO_SHARES
        shared, opened = gpus.shared(columns), gpus.opened(shares)
        trial.undo()
        use = together - self._nodes.used.take(columns, axis=1)
        for column in opened:
            use[gpus.row, columns.searchsorted(column)] -= 1
        spare = self._nodes.capacities(columns) - together
        ids = tuple(state.id for state in ended)
        return Start(end, known, ids, placed.columns, columns, use, taken, shares, spare, shared)

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
