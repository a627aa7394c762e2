"""Completions: when running gangs are expected to end, and what they free then.

docs/concepts/backfill.md says how long a gang runs: `expected` and `promised` (there the guaranteed end). A
gang's time counts from its first bound pod, or from its `Assign` while no pod is known to be bound.

A gang that outlives its time ends *any moment*: its end is the time of each cycle, and the head of the queue
waits for that. All of a gang's places are assumed to be free at its end, none before. Victims that are
leaving count as used until the end of the gang for which they leave: it may fill their places at any time.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from math import inf
from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from muster.core.words.amounts import Sums
from muster.core.words.events import NOTHING, Footprint, PodsBound
from muster.core.words.gang import Gang, GangId, PodId
from muster.core.world.gangs import GangState
from muster.core.world.ledger import Charged, Ledger
from muster.core.world.nodes import Columns, RowAmounts
from muster.core.world.pending_evictions import PendingEvictions

#: Amounts in use, rows of the ledger × columns.
Used = npt.NDArray[np.int64]

_Record = TypeVar("_Record")

_NOTHING_LIFTED: Final[Mapping[Charged, int]] = {}


class Taken(NamedTuple):
    """What a gang's pods and promises take."""

    #: equal pods on nodes that have a column: their number in all, and on each of these distinct columns
    alike: list[tuple[tuple[RowAmounts, Footprint], int, Columns, npt.NDArray[np.int64]]]
    #: pods that share a GPU, one by one
    shares: list[Charged]
    #: `Nodes.layout` and the stamp of the gang for which this is valid
    layout: int
    stamp: int


class Left(NamedTuple):
    """What gangs that end by some time use."""

    #: rows of the ledger × columns
    amounts: Used
    #: by row, on all nodes together: the part of it that gangs which end earlier use
    before: list[int]


def expected(gang: Gang) -> float:
    """Seconds that a gang is expected to run; infinite if it has neither limit nor estimate."""
    estimate, limit = gang.estimate, gang.limit
    if estimate is None:
        return inf if limit is None else limit
    return estimate if limit is None else min(estimate, limit)


def promised(gang: Gang) -> float:
    """Seconds after which a gang has surely ended: its limit, or else its estimate; infinite: neither."""
    return gang.limit if gang.limit is not None else expected(gang)


class Completions:
    """All gangs that use nodes, in order of their ends."""

    def __init__(
        self,
        gangs: Mapping[GangId, GangState],
        pods: Mapping[PodId, PodsBound],
        ledger: Ledger,
        pending_evictions: PendingEvictions,
        duration: Callable[[Gang], float] = expected,
    ) -> None:
        """`duration`: `expected` or `promised`."""
        self.duration = duration
        self._gangs, self._pods, self._ledger, self._nodes = gangs, pods, ledger, ledger.nodes
        self._pending_evictions = pending_evictions
        #: end, start, id; gangs without a known end are last, the oldest first
        self._ordered: list[tuple[float, float, GangId]] = []
        self._known: dict[GangId, tuple[float, float, GangId]] = {}
        self._taken: dict[GangId, Taken] = {}
        #: counts ends that have moved
        self.moved = 0

    def note(self, state: GangState) -> None:
        """Update the end of a gang that has changed."""
        started, key = state.started, None
        if started is not None:
            duration = self.duration(state.gang) if state.gang is not None else inf
            key = (started + duration, started, state.id)
        known = self._known.get(state.id)
        if key == known:
            return
        if known is not None:
            del self._ordered[bisect_left(self._ordered, known)]
            self.moved += key is not None
        if key is None:
            del self._known[state.id]
            self._taken.pop(state.id, None)
        else:
            insort(self._ordered, key)
            self._known[state.id] = key

    def after(self, now: float, *, but: GangId | None = None) -> Iterator[tuple[float, GangState]]:
        """When each gang ends, in order; `now` for overdue gangs, infinite for gangs without a known end.

        `but`: a gang to leave out, which waits for more places and so not for its own end.
        """
        gangs, ordered = self._gangs, iter(self._ordered)
        if but in self._known:
            ordered = (each for each in self._ordered if each[2] != but)
        return ((end if end > now else now, gangs[gang]) for end, _, gang in ordered)

    def usage_ending_by(self, at: float) -> Left | None:
        """What gangs that end by `at` use. None: shares of GPUs are among it, or victims are leaving."""
        if self._pending_evictions:
            return None
        left = Left(np.zeros(self._nodes.used.shape, np.int64), [0] * len(self._nodes.used))
        for end, _, gang in self._ordered[: bisect_left(self._ordered, (at, inf))]:
            taken = self._of(self._gangs[gang])
            if taken.shares:
                return None
            self._sum(taken, left.amounts, 1)
            for (row_amounts, _), pods, _, _ in taken.alike if end < at else ():
                for row, amount in row_amounts:
                    left.before[row] += amount * pods
        return left

    def give(self, states: Iterable[GangState]) -> None:
        """Give back to the ledger what these gangs use, for a trial."""
        together: dict[tuple[RowAmounts, Footprint], list[tuple[Columns, npt.NDArray[np.int64]]]] = {}
        ledger = self._ledger
        for state in states:
            taken = self._of(state)
            for kind, _, columns, times in taken.alike:
                together.setdefault(kind, []).append((columns, times))
            for share in taken.shares:
                ledger.give(share)
        for (row_amounts, footprint), some in together.items():
            columns, times = some[0]
            if len(some) > 1:
                columns = np.concatenate([columns for columns, _ in some])
                sums = np.bincount(columns, np.concatenate([times for _, times in some]))
                columns = sums.nonzero()[0]
                times = sums[columns].astype(np.int64)
            ledger.take_at(columns, row_amounts, -times, footprint)

    def leave(self, state: GangState, used: Used) -> None:
        """Subtract what this gang uses from these amounts, rows of the ledger × columns, in a trial."""
        taken = self._of(state)
        self._sum(taken, used, -1)
        for share in taken.shares:
            # What it takes besides its share depends on the other pods on the device: the ledger knows.
            if (column := self._nodes.column.get(share.node)) is not None:
                before = self._nodes.used[:, column].copy()
                self._ledger.give(share)
                used[:, column] += self._nodes.used[:, column] - before

    def _sum(self, taken: Taken, amounts: Used, sign: int) -> None:
        for (row_amounts, _), pods, columns, times in taken.alike:
            where, many = (columns.item(), pods) if len(columns) == 1 else (columns, times)
            for row, amount in row_amounts:
                amounts[row, where] += sign * amount * many

    def _of(self, state: GangState) -> Taken:
        if (lifted := self._ledger.lifted.get(state.id)) is not None:
            return self._take(state, lifted)
        taken = self._taken.get(state.id)
        if taken is None or (taken.layout, taken.stamp) != (self._nodes.layout, state.stamp):
            taken = self._taken[state.id] = self._take(state)
        return taken

    def _take(self, state: GangState, lifted: Mapping[Charged, int] = _NOTHING_LIFTED) -> Taken:
        """What a gang takes, less what a trial has lifted already."""
        nodes, column = self._nodes, self._nodes.column
        alike: dict[tuple[RowAmounts, Footprint], Sums[int]] = {}
        shares: list[Charged] = []
        leaving = self._pending_evictions.leaving
        pods = [pod for pod in state.pods if pod not in leaving] if leaving else state.pods
        bound = map(self._pods.__getitem__, pods)
        departing, shared = self._pending_evictions.charged_to(state.id)
        taken = [(Charged.of(one), number) for one, number in _runs(bound)]
        taken += ((one.charged, number) for one, number in _runs(state.holds.values()))
        taken += ((one, 1) for one in departing)
        off = dict(lifted)
        for one, number in taken:
            if gone := off.get(one, 0):
                off[one] = max(gone - number, 0)
                number = max(number - gone, 0)
            if number and one.device is not None:
                shares += [one] * number
            elif number and (at := column.get(one.node)) is not None:
                kind = nodes.taken(one.requests).row_amounts, one.footprint
                alike.setdefault(kind, Sums()).count(at, number)
        for node, common in shared.items() if not lifted else ():
            if (at := column.get(node)) is not None:
                alike.setdefault((nodes.by_row(common).row_amounts, NOTHING), Sums()).count(at, -1)
        return Taken(
            [
                (
                    kind,
                    sum(times.values()),
                    np.array([*times], np.intp),
                    np.array([*times.values()], np.int64),
                )
                for kind, times in alike.items()
            ],
            shares,
            self._nodes.layout,
            state.stamp,
        )


def _runs(records: Iterable[_Record]) -> Iterator[tuple[_Record, int]]:
    """Each record, and how often it repeats in a row: equal pods share one object."""
    for _, run in groupby(records, key=id):
        same = [*run]
        yield same[0], len(same)
