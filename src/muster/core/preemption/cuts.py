"""Candidates' cuts as arrays, on which a search for victims computes.

A set of victims is a mask over cuts. Of each gang it contains the first cuts, up to some cut.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from muster.core.decisions import Victim
from muster.core.nodes import Bools, Columns, Demand, Longs
from muster.core.preemption.candidates import Candidate

Floats = npt.NDArray[np.float64]


class Table:
    """Arrays with one cell per cut; the cuts of one gang are adjacent, in order."""

    def __init__(self, candidates: Sequence[Candidate], columns: int) -> None:
        """`columns`: how many nodes there are."""
        self.candidates = candidates
        self.columns = columns
        sizes = [len(candidate.cuts) for candidate in candidates]
        self.cuts = [cut for candidate in candidates for cut in candidate.cuts]
        self.gang: npt.NDArray[np.intp] = np.repeat(np.arange(len(candidates)), sizes)
        #: all that is left of its gang
        self.core: Bools = np.array([cut.core for cut in self.cuts], np.bool_)
        #: part of it is a share of a GPU
        self.shares: Bools = np.array([cut.shares for cut in self.cuts], np.bool_)
        self.first: Bools = np.diff(self.gang, prepend=-1) > 0
        self.priority: Longs = np.array([c.gang.priority for c in candidates], np.int64)[self.gang]
        self.lost: Floats = np.array([lost for c in candidates for lost in c.lost], np.float64)
        #: what is lost by the cut and by the cuts of its gang before it
        begin = np.maximum.accumulate(np.where(self.first, np.arange(len(self.gang)), 0))
        total = np.cumsum(self.lost)
        self.lost_by: Floats = total - (total - self.lost)[begin]
        self.pods: Longs = np.array([len(cut.pods) for cut in self.cuts], np.int64)
        #: per kind of demand: cut, column, how many
        self.groups: list[tuple[Demand, Longs, Columns, Longs]] = []
        self._collect()

    def __len__(self) -> int:
        return len(self.gang)

    def _collect(self) -> None:
        collected: dict[Demand, tuple[list[int], list[Columns], list[Longs]]] = {}
        for number, cut in enumerate(self.cuts):
            for demand, columns, times in cut.taken:
                numbers, all_columns, all_times = collected.setdefault(demand, ([], [], []))
                numbers.append(number)
                all_columns.append(columns)
                all_times.append(times)
        for demand, (numbers, all_columns, all_times) in sorted(collected.items()):
            repeats = [len(columns) for columns in all_columns]
            self.groups.append(
                (
                    demand,
                    np.repeat(np.array(numbers, np.int64), repeats),
                    np.concatenate(all_columns),
                    np.concatenate(all_times),
                )
            )

    def cost(self, chosen: Bools) -> tuple[float, int, int]:
        """Work, gangs and pods that are lost: less is better."""
        gangs = len(self.gangs(chosen))
        return round(float(self.lost[chosen].sum()), 6), gangs, int(self.pods[chosen].sum())

    def gangs(self, chosen: Bools) -> list[int]:
        """The gangs of which something is chosen."""
        return np.flatnonzero(np.bincount(self.gang[chosen])).tolist()

    def sets(self, usable: Bools, most: int) -> Bools | None:
        """All sets of these cuts but the empty one, one a row, the cheapest first; None: more than `most`."""
        sets = np.zeros((1, len(self)), np.bool_)
        for gang in self.gangs(usable):
            mine = np.flatnonzero(usable & (self.gang == gang))
            if len(sets) * (len(mine) + 1) > most:
                return None
            prefixes = np.tri(len(mine) + 1, len(mine), -1, np.bool_)
            size = len(sets)
            sets = np.repeat(sets, len(prefixes), axis=0)
            sets[:, mine] = np.tile(prefixes, (size, 1))
        costs = sets @ self.pods, sets @ self.first.astype(np.int64), np.round(sets @ self.lost, 6)
        return sets[np.lexsort(costs)][1:]

    def dearest(self, chosen: Bools) -> list[int]:
        """Gangs of which something is chosen, those that lose most first, ties to the last name."""
        lost = np.bincount(self.gang[chosen], self.lost[chosen], len(self.candidates))
        return sorted(self.gangs(chosen), key=lambda gang: (-lost[gang], -gang))

    def bans(self, chosen: Bools) -> Iterator[Bools]:
        """What to exclude in an exchange: each gang of which something is chosen, or its last chosen cut."""
        for gang in self.dearest(chosen):
            mine = np.flatnonzero(self.gang == gang)
            taken = int(chosen[mine].sum())
            for first in {0, taken - 1}:
                banned = np.zeros(len(self), np.bool_)
                banned[mine[first:]] = True
                yield banned

    def victim(self, cut: int) -> Victim:
        """The pods of a cut."""
        return Victim(self.candidates[self.gang[cut]].gang.id, frozenset(self.cuts[cut].pods))

    def from_on(self, cuts: Bools) -> Bools:
        """These cuts, and those of their gangs that come after them."""
        begin = np.maximum.accumulate(np.where(self.first, np.arange(len(self)), 0))
        seen = np.cumsum(cuts)
        after: Bools = seen > (seen - cuts)[begin]
        return after

    def prefixes(self, cuts: Bools) -> Iterator[Bools]:
        """For each of these cuts, the cut itself and those of its gang that must be taken before it."""
        for cut in np.flatnonzero(cuts).tolist():
            prefix: Bools = self.gang == self.gang[cut]
            prefix[cut + 1 :] = False
            yield prefix
