"""Candidates' cuts as arrays, on which a search for victims computes.

A set of victims is a mask over cuts. Of each gang it contains all cuts, or as much surplus as the gang can
spare (`Table.holds`). A mask with more surplus than that is an upper bound of what can be freed.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate, combinations
from math import comb

import numpy as np
import numpy.typing as npt

from muster.core.preemption.candidates import Candidate
from muster.core.words.decisions import Victim
from muster.core.world.nodes import Bools, Columns, Longs, RowAmounts

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
        self._limit(candidates)
        self.priority: Longs = np.array([c.gang.priority for c in candidates], np.int64)[self.gang]
        self.lost: Floats = np.array([lost for c in candidates for lost in c.lost], np.float64)
        self.pods: Longs = np.array([len(cut.pods) for cut in self.cuts], np.int64)
        #: per kind of demand: cut, column, how many
        self.groups: list[tuple[RowAmounts, Longs, Columns, Longs]] = []
        self._collect()

    def _limit(self, candidates: Sequence[Candidate]) -> None:
        #: how many surplus cuts each gang can spare, and each of their pod sets
        self._spare: Longs = np.array([candidate.spare.get("", 0) for candidate in candidates], np.int64)
        numbers: dict[tuple[int, str], int] = {}
        keys = zip(self.gang.tolist(), (cut.pod_set for cut in self.cuts), strict=True)
        self._set: Longs = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
        self._of_set: Longs = np.array(
            [candidates[gang].spare.get(name, 0) if name else 1 for gang, name in numbers], np.int64
        )
        self._in_set, self._in_gang = _Ranks(self._set), _Ranks(self.gang)
        #: how many cuts of its gang come before each
        self._place: Longs = self._in_gang.of(np.ones(len(self.gang), np.bool_))
        #: each gang is evicted as a whole or not at all
        self.whole = bool(self.first.all()) and bool(self.core.all())

    def __len__(self) -> int:
        return len(self.gang)

    def holds(self, chosen: Bools) -> bool:
        """Whether each gang keeps its minimum or is evicted as a whole."""
        return self.whole or bool((self.kept(chosen) == chosen).all())

    def kept(self, chosen: Bools) -> Bools:
        """Of these cuts, the first that each gang can spare, and all cuts of gangs evicted as a whole."""
        if self.whole:
            return chosen
        gone = np.zeros(len(self.candidates), np.bool_)
        gone[self.gang[chosen & self.core]] = True
        kept: Bools = chosen & ~self.core
        kept &= self._in_set.of(kept) < self._of_set[self._set]
        kept &= self._in_gang.of(kept) < self._spare[self.gang]
        kept |= chosen & gone[self.gang]
        return kept

    def most(self, usable: Bools, worth: Longs) -> int:
        """An upper bound of what these cuts are worth together, of which gangs give up no more than they can.

        Without its last cut a gang gives up as many as it can spare, at best those that are worth most.
        """
        surplus = usable & ~self.whole_of(usable)
        order = np.flatnonzero(surplus)
        order = order[np.lexsort((-worth[order], self.gang[order]))]
        gang = self.gang[order]
        best = np.arange(len(order)) - np.searchsorted(gang, gang) < self._spare[gang]
        return int(worth[order][best].sum() + worth[usable & ~surplus].sum())

    def whole_of(self, cuts: Bools) -> Bools:
        """All cuts of the gangs whose last cut is among these."""
        whole = np.zeros(len(self.candidates), np.bool_)
        whole[self.gang[cuts & self.core]] = True
        return np.asarray(whole[self.gang])

    def next(self, left: Bools, taken: Bools) -> tuple[Bools, Bools]:
        """Of the cuts that are left, each that can be taken next, and all that a gang can give up at once."""
        surplus = taken & ~self.core
        of_set = (self._of_set - np.bincount(self._set[surplus], minlength=len(self._of_set)))[self._set]
        of_gang = (self._spare - np.bincount(self.gang[surplus], minlength=len(self._spare)))[self.gang]
        others = np.bincount(self.gang[~taken], minlength=len(self._spare))[self.gang]
        ready: Bools = left & np.where(self.core, others == 1, (of_set > 0) & (of_gang > 0))
        rest = left & ~self.core
        rest &= self._in_set.of(rest) < of_set
        rest &= self._in_gang.of(rest) < of_gang
        whole = np.zeros(len(self._spare), np.bool_)
        whole[self.gang[left & self.core]] = True
        rest |= left & whole[self.gang]
        return ready, rest

    def _collect(self) -> None:
        collected: dict[RowAmounts, tuple[list[int], list[Columns], list[Longs]]] = {}
        for number, cut in enumerate(self.cuts):
            for row_amounts, columns, times in cut.taken:
                numbers, all_columns, all_times = collected.setdefault(row_amounts, ([], [], []))
                numbers.append(number)
                all_columns.append(columns)
                all_times.append(times)
        for row_amounts, (numbers, all_columns, all_times) in sorted(collected.items()):
            repeats = [len(columns) for columns in all_columns]
            self.groups.append(
                (
                    row_amounts,
                    np.repeat(np.array(numbers, np.int64), repeats),
                    np.concatenate(all_columns),
                    np.concatenate(all_times),
                )
            )

    def cost(self, chosen: Bools) -> tuple[float, int, int]:
        """Work, gangs and pods that are lost: less is better."""
        gangs = len(self.gangs(chosen))
        return round(float(self.lost[chosen].sum()), 6), gangs, int(self.pods[chosen].sum())

    def order(self, chosen: Bools) -> int:
        """The tie-break between sets of equal cost: lower if the surplus pods have higher indices."""
        return int(self._place[chosen & ~self.core].sum())

    def gangs(self, chosen: Bools) -> list[int]:
        """The gangs of which something is chosen."""
        return np.flatnonzero(np.bincount(self.gang[chosen])).tolist()

    def sets(self, usable: Bools, most: int) -> Bools | None:
        """All sets of these cuts but the empty one, one a row, the cheapest first; None: more than `most`."""
        sets = np.zeros((1, len(self)), np.bool_)
        for gang in self.gangs(usable):
            mine = np.flatnonzero(usable & (self.gang == gang))
            some = self._subsets(mine, most // len(sets))
            if some is None:
                return None
            size = len(sets)
            sets = np.repeat(sets, len(some), axis=0)
            sets[:, mine] = np.tile(some, (size, 1))
        gangs = np.logical_or.reduceat(sets, np.flatnonzero(self.first), axis=1).sum(axis=1)
        costs = sets @ self.pods, gangs, np.round(sets @ self.lost, 6)
        return sets[np.lexsort(costs)][1:]

    def _subsets(self, mine: Columns, most: int) -> Bools | None:
        """The sets of these cuts of one gang, one a row, the first cuts first; None: more than `most`."""
        surplus, whole = mine[~self.core[mine]], int(self.core[mine].any())
        spare = min(int(self._spare[self.gang[mine[0]]]), len(surplus))
        sizes = accumulate((comb(len(surplus), number) for number in range(spare + 1)), initial=whole)
        if any(size > most for size in sizes):
            return None
        chosen = np.zeros(len(self), np.bool_)
        rows = []
        for number in range(spare + 1):
            for some in combinations(surplus.tolist(), number):
                chosen[:] = False
                chosen[list(some)] = True
                if self.holds(chosen):
                    rows.append(chosen[mine])
        return np.array([*rows, *[np.ones(len(mine), np.bool_)] * whole])

    def dearest(self, chosen: Bools) -> list[int]:
        """Gangs of which something is chosen, those that lose most first, ties to the last name."""
        lost = np.bincount(self.gang[chosen], self.lost[chosen], len(self.candidates))
        return sorted(self.gangs(chosen), key=lambda gang: (-lost[gang], -gang))

    def bans(self, chosen: Bools) -> Iterator[Bools]:
        """What to exclude in an exchange: each gang of which something is chosen, or its last chosen cut.

        A gang of which a cut is excluded is not evicted as a whole.
        """
        for gang in self.dearest(chosen):
            mine = self.gang == gang
            yield mine
            last = np.zeros(len(self), np.bool_)
            last[np.flatnonzero(mine & chosen)[-1]] = True
            banned: Bools = last | (mine & self.core)
            if (banned != mine).any():
                yield banned

    def victim(self, cut: int) -> Victim:
        """The pods of a cut."""
        return Victim(self.candidates[self.gang[cut]].gang.id, frozenset(self.cuts[cut].pods))

    def from_on(self, cuts: Bools) -> Bools:
        """These cuts, and those that cannot be taken without them: the last cuts of their gangs."""
        gangs = np.zeros(len(self.candidates), np.bool_)
        gangs[self.gang[cuts]] = True
        without: Bools = cuts | (self.core & gangs[self.gang])
        return without

    def prefixes(self, cuts: Bools) -> Iterator[Bools]:
        """For each of these cuts, what must be taken with it: the cut alone, or all cuts of its gang."""
        for cut in np.flatnonzero(cuts).tolist():
            prefix: Bools = self.gang == self.gang[cut]
            if not self.core[cut]:
                prefix[:] = False
                prefix[cut] = True
            yield prefix


class _Ranks:
    """Counts, for each chosen cut, the chosen cuts of the same group before it."""

    def __init__(self, group: Longs | Columns) -> None:
        self._order = np.argsort(group, kind="stable")
        begin = np.flatnonzero(np.diff(group[self._order], prepend=-1))
        #: of each cut in this order, where its group begins
        self._begin = np.repeat(begin, np.diff(begin, append=len(group)))

    def of(self, chosen: Bools) -> Longs:
        mine = chosen[self._order]
        before: Longs = np.cumsum(mine) - mine
        rank = np.empty_like(before)
        rank[self._order] = before - before[self._begin]
        return rank
