"""When what runs is expected to end, and what it leaves then.

A gang counts from its first bound pod, or from its `Assign` as long as no pod is known to be bound. Two
durations say how long it may last: its `limit`, after which it is ended by force, and its `estimate`, what
its owner thinks. What is *expected* is the lesser of the two; what can be *promised* to others is the
limit, and the estimate only where there is no limit. A gang with neither, and a pod of nobody's, ends at no
time that could be counted on.

A gang that outlives its time ends *any moment*: at each cycle's own time, which is what the head of the
queue waits for then. All of a gang's places are taken to be free at its end, none before.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from math import inf

import numpy as np
import numpy.typing as npt

from muster.core.events import PodsBound, Presence
from muster.core.gang import Amounts, Gang, GangId, NodeName, PodId
from muster.core.gangs import GangState
from muster.core.ledger import Ledger
from muster.core.nodes import Columns
from muster.names import GPU_SHARE

#: Amounts in use, rows of the ledger × columns.
Used = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Taken:
    """What a gang's pods and promises take."""

    #: equal pods on nodes that have a column: how many on each of these distinct columns
    alike: list[tuple[tuple[Amounts, Presence], Columns, npt.NDArray[np.int64]]]
    #: those that share a GPU, one by one
    shares: list[tuple[NodeName, Amounts, int, Presence]]
    #: of `Nodes`
    layout: int


def expected(gang: Gang) -> float:
    """Seconds that it is thought to run; infinite if nothing is said."""
    return min(_or_inf(gang.estimate), _or_inf(gang.limit))


def promised(gang: Gang) -> float:
    """Seconds after which it is gone for certain, as far as its estimate is: infinite if nothing is said."""
    return gang.limit if gang.limit is not None else _or_inf(gang.estimate)


class Ends:
    """All gangs that use nodes, in order of their ends."""

    def __init__(
        self,
        pods: Mapping[PodId, PodsBound],
        ledger: Ledger,
        duration: Callable[[Gang], float] = expected,
    ) -> None:
        """`duration`: whether to go by what is expected or by what can be promised."""
        self.duration = duration
        self._pods, self._ledger, self._nodes = pods, ledger, ledger.nodes
        #: end, start, id; those without an end come last, the oldest first
        self._ordered: list[tuple[float, float, GangId]] = []
        self._known: dict[GangId, tuple[float, float, GangId]] = {}
        self._states: dict[GangId, GangState] = {}
        self._taken: dict[GangId, Taken] = {}
        #: counts ends that have moved
        self.moved = 0
        #: what `left_by` was asked for, its answer, what each leaves of that, and who has changed since
        self._asked: tuple[float, int, tuple[int, ...]] | None = None
        self._left = np.zeros((0, 0), np.int64)
        self._leave: dict[GangId, Taken] = {}
        self._changed: set[GangId] = set()

    def note(self, state: GangState) -> None:
        """A gang has changed."""
        self._taken.pop(state.id, None)
        if self._asked is not None:
            self._changed.add(state.id)
        key = None
        if state.started is not None:
            duration = self.duration(state.gang) if state.gang is not None else inf
            key = (state.started + duration, state.started, state.id)
        known = self._known.get(state.id)
        if key == known:
            return
        if known is not None:
            del self._ordered[bisect_left(self._ordered, known)]
            self.moved += key is not None
        if key is None:
            self._known.pop(state.id)
            del self._states[state.id]
        else:
            insort(self._ordered, key)
            self._known[state.id] = key
            self._states[state.id] = state

    def after(self, now: float) -> list[tuple[float, GangState]]:
        """When each gang ends, those that are overdue now; infinite for those of which nothing is known."""
        states = self._states
        return [(end if end > now else now, states[gang]) for end, _, gang in self._ordered]

    def left_by(self, at: float) -> Used | None:
        """Rows of the ledger × columns: what those use who end by then. Not to be written to.

        It is kept up to date for the time that was asked for last. None: shares of GPUs are among it.
        """
        asked = at, self._nodes.layout, self._nodes.used.shape
        if asked != self._asked:
            self._asked, self._left = asked, np.zeros(self._nodes.used.shape, np.int64)
            self._leave.clear()
            self._changed = {gang for _, _, gang in self._ordered[: bisect_left(self._ordered, (at, inf))]}
        for gang in self._changed:
            if (gone := self._leave.pop(gang, None)) is not None:
                self._sum(gone, self._left, -1)
            if gang in self._known and self._known[gang][0] <= at:
                leaves = self._leave[gang] = self._of(self._states[gang])
                self._sum(leaves, self._left, 1)
        self._changed.clear()
        return None if any(taken.shares for taken in self._leave.values()) else self._left

    def forget_left(self) -> None:
        """Nobody asks `left_by` for now."""
        self._asked = None
        self._leave.clear()
        self._changed.clear()

    def left_at(self, at: float, row: int) -> int:
        """How much of a resource those use, on all nodes together, who end just then."""
        first, last = bisect_left(self._ordered, (at,)), bisect_left(self._ordered, (at, inf))
        kinds = [
            kind for _, _, gang in self._ordered[first:last] for kind in self._of(self._states[gang]).alike
        ]
        return sum(
            dict(self._nodes.demand(requests)).get(row, 0) * int(times.sum())
            for (requests, _), _, times in kinds
        )

    def give(self, states: Iterable[GangState]) -> None:
        """Take what these gangs use off the ledger, for a trial."""
        together: dict[tuple[Amounts, Presence], list[tuple[Columns, npt.NDArray[np.int64]]]] = {}
        ledger, nodes = self._ledger, self._nodes
        for state in states:
            taken = self._of(state)
            for kind, columns, times in taken.alike:
                together.setdefault(kind, []).append((columns, times))
            for share in taken.shares:
                ledger.give(*share)
        for (requests, presence), some in together.items():
            columns, times = some[0]
            if len(some) > 1:
                columns = np.concatenate([columns for columns, _ in some])
                sums = np.bincount(columns, np.concatenate([times for _, times in some]))
                columns = sums.nonzero()[0]
                times = sums[columns].astype(np.int64)
            ledger.take_at(columns, nodes.demand(requests), -times, presence)

    def left_on(self, at: float, nodes: Collection[NodeName]) -> Counter[tuple[NodeName, int]]:
        """By device of these nodes: thousandths that those use who end by then."""
        left = Counter[tuple[NodeName, int]]()
        for _, _, gang in self._ordered[: bisect_left(self._ordered, (at, inf))]:
            state = self._states[gang]
            if not state.nodes.keys().isdisjoint(nodes):
                for node, requests, device, _ in self._of(state).shares:
                    left[node, device] += dict(requests)[GPU_SHARE]
        return left

    def leave(self, state: GangState, used: Used) -> None:
        """Take what this gang uses off these amounts, rows of the ledger × columns, in a trial."""
        taken = self._of(state)
        self._sum(taken, used, -1)
        for share in taken.shares:
            # What it takes besides its share depends on who else is on the device: the ledger knows.
            if (column := self._nodes.column.get(share[0])) is not None:
                before = self._nodes.used[:, column].copy()
                self._ledger.give(*share)
                used[:, column] += self._nodes.used[:, column] - before

    def _sum(self, taken: Taken, amounts: Used, sign: int) -> None:
        for (requests, _), columns, times in taken.alike:
            for row, amount in self._nodes.demand(requests):
                amounts[row, columns] += sign * amount * times

    def _of(self, state: GangState) -> Taken:
        taken = self._taken.get(state.id)
        if taken is None or taken.layout != self._nodes.layout:
            taken = self._taken[state.id] = self._take(state)
        return taken

    def _take(self, state: GangState) -> Taken:
        column = self._nodes.column
        alike: dict[tuple[Amounts, Presence], dict[int, int]] = {}
        shares = []
        bound = (self._pods[pod] for pod in state.pods)
        pods = [(pod.node, pod.requests, pod.presence.device, pod.presence) for pod in bound]
        pods += [(held.node, held.requests, held.device, held.presence) for held in state.holds.values()]
        for node, requests, device, presence in pods:
            if device is not None:
                shares.append((node, requests, device, presence))
            elif node in column:
                times = alike.setdefault((requests, presence), {})
                times[column[node]] = times.get(column[node], 0) + 1
        return Taken(
            [
                (kind, np.array([*times], np.intp), np.array([*times.values()], np.int64))
                for kind, times in alike.items()
            ],
            shares,
            self._nodes.layout,
        )


def _or_inf(seconds: float | None) -> float:
    return inf if seconds is None else seconds
