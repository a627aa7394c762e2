"""Candidates' units as arrays, on which a search for victims computes.

A set of victims is a mask over units. Of each gang it contains all units, or as much surplus as the gang can
spare (`UnitTable.holds`). A mask with more surplus than that is an upper bound of what can be freed. As a
whole a set must keep the `limits`:

- *budgets*: of the pods that a PodDisruptionBudget selects, no more than it allows. A pod may be selected by
  several, and pods that are leaving already count. Pods of gangs that are not heeded do not: what a queue
  borrows is reclaimed whatever budgets its tenant has made.
- *reclaim*: what another queue uses may be taken only while that queue is over its entitlement, from the
  first unit to the last: the units before the last one must not have brought it down already. The smallest
  gangs are taken first, which is the order that allows most. A queue is brought down by surplus, unit by
  unit, or by the rest of whole gangs, which may leave it below its entitlement.

A set that keeps these limits still does when victims are spared. The opposite holds for the `Quota`: what the
victims free below the hard caps of the preemptor's queues, which must be enough.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations
from math import comb

import numpy as np
import numpy.typing as npt

from muster.core.preemption.candidates import Candidate, Test
from muster.core.words.amounts import Usage
from muster.core.words.decisions import Victim
from muster.core.words.gang import FOREIGN, Gang
from muster.core.world import World
from muster.core.world.nodes import Bools, Columns, Longs, RowAmounts
from muster.core.world.queues import Queues
from muster.core.world.queues.reclaim import may_reclaim

Floats = npt.NDArray[np.float64]


class UnitTable:
    """Arrays with one cell per unit; the units of one gang are adjacent, in order."""

    def __init__(self, candidates: Sequence[Candidate], columns: int) -> None:
        """`columns`: how many nodes there are."""
        self.candidates = candidates
        self.columns = columns
        sizes = [len(candidate.units) for candidate in candidates]
        self.units = [unit for candidate in candidates for unit in candidate.units]
        self.gang: npt.NDArray[np.intp] = np.repeat(np.arange(len(candidates)), sizes)
        #: all that is left of its gang
        self.core: Bools = np.array([unit.core for unit in self.units], np.bool_)
        #: part of it is a share of a GPU
        self.shares: Bools = np.array([unit.shares for unit in self.units], np.bool_)
        self.first: Bools = np.diff(self.gang, prepend=-1) > 0
        self._limit(candidates)
        self.priority: Longs = np.array([c.gang.priority for c in candidates], np.int64)[self.gang]
        self.lost: Floats = np.array([lost for c in candidates for lost in c.lost], np.float64)
        self.pods: Longs = np.array([len(unit.pods) for unit in self.units], np.int64)
        #: per kind of demand: unit, column, how many
        self.groups: list[tuple[RowAmounts, Longs, Columns, Longs]] = []
        self._collect()

    def _limit(self, candidates: Sequence[Candidate]) -> None:
        #: how many surplus units each gang can spare, and each of their pod sets
        self._spare: Longs = np.array([candidate.spare.get("", 0) for candidate in candidates], np.int64)
        numbers: dict[tuple[int, str], int] = {}
        keys = zip(self.gang.tolist(), (unit.pod_set for unit in self.units), strict=True)
        self._set: Longs = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
        self._of_set: Longs = np.array(
            [candidates[gang].spare.get(name, 0) if name else 1 for gang, name in numbers], np.int64
        )
        self._in_set, self._in_gang = _Ranks(self._set), _Ranks(self.gang)
        self._gangs: dict[int, tuple[slice, _Ranks, _Ranks]] = {}
        #: how many units of its gang come before each
        self._place: Longs = self._in_gang.of(np.ones(len(self.gang), np.bool_))
        #: each gang is evicted as a whole or not at all
        self.whole = bool(self.first.all()) and bool(self.core.all())

    def __len__(self) -> int:
        return len(self.gang)

    def gang_of(self, unit: int) -> Gang:
        gang: Gang = self.candidates[self.gang[unit]].gang
        return gang

    def holds(self, chosen: Bools) -> bool:
        """Whether each gang keeps its minimum or is evicted as a whole."""
        return self.whole or bool((self.kept(chosen) == chosen).all())

    def kept(self, chosen: Bools) -> Bools:
        """Of these units, the first that each gang can spare, and all units of gangs evicted as a whole."""
        if self.whole:
            return chosen
        kept: Bools = chosen & ~self.core
        kept &= self._in_set.of(kept) < self._of_set[self._set]
        kept &= self._in_gang.of(kept) < self._spare[self.gang]
        kept |= chosen & self.whole_of(chosen)
        return kept

    def most(self, usable: Bools, worth: Longs) -> int:
        """An upper bound of what these units are worth together, of which gangs give up what they can spare.

        Without its last unit a gang gives up as many as it can spare, at best those that are worth most.
        """
        surplus = usable & ~self.whole_of(usable)
        order = np.flatnonzero(surplus)
        order = order[np.lexsort((-worth[order], self.gang[order]))]
        gang = self.gang[order]
        best = np.arange(len(order)) - np.searchsorted(gang, gang) < self._spare[gang]
        return int(worth[order][best].sum() + worth[usable & ~surplus].sum())

    def whole_of(self, units: Bools) -> Bools:
        """All units of the gangs whose last unit is among these."""
        return self.beside(units & self.core)

    def beside(self, units: Bools) -> Bools:
        """All units of the gangs that have one of these."""
        gangs = np.zeros(len(self.candidates), np.bool_)
        gangs[self.gang[units]] = True
        return np.asarray(gangs[self.gang])

    def next(self, left: Bools, taken: Bools, gang: int | None = None) -> tuple[slice, Bools, Bools]:
        """Of the units left, each that can be taken next, and all that a gang can give up at once.

        Of all gangs, or of one: the answer is for the units of this slice.
        """
        some, in_set, in_gang = (slice(None), self._in_set, self._in_gang) if gang is None else self._of(gang)
        left, taken, core = left[some], taken[some], self.core[some]
        gangs, sets = self.gang[some], self._set[some]
        surplus = taken & ~core
        of_set = (self._of_set - np.bincount(sets[surplus], minlength=len(self._of_set)))[sets]
        of_gang = (self._spare - np.bincount(gangs[surplus], minlength=len(self._spare)))[gangs]
        others = np.bincount(gangs[~taken], minlength=len(self._spare))[gangs]
        ready: Bools = left & np.where(core, others == 1, (of_set > 0) & (of_gang > 0))
        rest = left & ~core
        rest &= in_set.of(rest) < of_set
        rest &= in_gang.of(rest) < of_gang
        whole = np.zeros(len(self.candidates), np.bool_)
        whole[gangs[left & core]] = True
        rest |= left & whole[gangs]
        return some, ready, rest

    def _of(self, gang: int) -> "tuple[slice, _Ranks, _Ranks]":
        """The units of one gang, and the ranks among them."""
        known = self._gangs.get(gang)
        if known is None:
            some = slice(*np.searchsorted(self.gang, [gang, gang + 1]).tolist())
            known = self._gangs[gang] = some, _Ranks(self._set[some]), _Ranks(self.gang[some])
        return known

    def _collect(self) -> None:
        collected: dict[RowAmounts, tuple[list[int], list[Columns], list[Longs]]] = {}
        for number, unit in enumerate(self.units):
            for row_amounts, columns, times in unit.taken:
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
        """All sets of these units but the empty one, a row each, the cheapest first; None: over `most`."""
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
        """The sets of these units of one gang, one a row, the first units first; None: more than `most`."""
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
        """What to exclude in an exchange: each gang of which something is chosen, or its last chosen unit.

        A gang of which a unit is excluded is not evicted as a whole.
        """
        for gang in self.dearest(chosen):
            mine = self.gang == gang
            yield mine
            last = np.zeros(len(self), np.bool_)
            last[np.flatnonzero(mine & chosen)[-1]] = True
            banned: Bools = last | (mine & self.core)
            if (banned != mine).any():
                yield banned

    def victims(self, chosen: Bools) -> Iterator[Victim]:
        """The gangs of which something is chosen, and what, in order of name."""
        for gang in self.gangs(chosen):
            mine = np.flatnonzero(chosen & (self.gang == gang))
            whole = bool(self.core[mine].any())
            pods = frozenset(pod for unit in mine for pod in self.units[unit].pods)
            lost = float(self.lost[mine].sum())
            yield Victim(self.candidates[gang].gang.id, frozenset() if whole else pods, lost)

    def from_on(self, units: Bools) -> Bools:
        """These units, and those that cannot be taken without them: the last units of their gangs."""
        return units | (self.core & self.beside(units))

    def prefixes(self, units: Bools) -> Iterator[Bools]:
        """For each of these units, what must be taken with it: the unit alone, or all units of its gang."""
        for unit in np.flatnonzero(units).tolist():
            prefix: Bools = self.gang == self.gang[unit]
            if not self.core[unit]:
                prefix[:] = False
                prefix[unit] = True
            yield prefix


class _Ranks:
    """Counts, for each chosen unit, the chosen units of the same group before it."""

    def __init__(self, group: Longs | Columns) -> None:
        self._order = np.argsort(group, kind="stable")
        begin = np.flatnonzero(np.diff(group[self._order], prepend=-1))
        #: of each unit in this order, where its group begins
        self._begin = np.repeat(begin, np.diff(begin, append=len(group)))

    def of(self, chosen: Bools) -> Longs:
        mine = chosen[self._order]
        before: Longs = np.cumsum(mine) - mine
        rank = np.empty_like(before)
        rank[self._order] = before - before[self._begin]
        return rank


#: Whether a set of victims keeps the limits.
Limits = Callable[[Bools], bool]
#: By budget and unit, a number of pods.
Budgeted = Mapping[tuple[str, str], Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class Quota:
    """What has to be freed below hard caps."""

    #: by cap, what is missing below it
    lacking: Longs
    #: caps × units: what each frees of it
    freed: Longs


def limits(
    table: UnitTable, queue: str, asked: Usage, world: World, counted: Budgeted, heeds: Test
) -> Limits:
    """The limits for a preemptor of this queue, which takes at least `asked`.

    `counted`: as `budgeted` returns it; `heeds`: the gangs for which budgets count.
    """
    checks: list[Limits] = []
    heeded = {
        name: {unit: number for unit, number in units.items() if heeds(table.gang_of(unit))}
        for name, units in counted.items()
    }
    if selected := {name: units for name, units in heeded.items() if units}:
        names, needs = sorted(selected), np.zeros((len(table), len(selected)), np.int64)
        for column, name in enumerate(names):
            needs[[*selected[name]], column] = [*selected[name].values()]
        left = world.budgets.left(names, world.pods, world.pending_evictions.leaving)
        most = np.array([left[name] for name in names], np.int64)
        checks.append(lambda taken: bool((needs[taken].sum(axis=0) <= np.maximum(most, 0)).all()))
    mine = queue, FOREIGN
    others = np.array([candidate.gang.queue not in mine for candidate in table.candidates], np.bool_)
    if others.any():
        reclaimed: Bools = others[table.gang]
        checks.append(lambda taken: _may_reclaim(table, taken & reclaimed, queue, asked, world))
    return lambda taken: all(check(taken) for check in checks)


def caps(table: UnitTable, queue: str, asked: Usage, new: bool, queues: Queues) -> Quota:
    """What must be freed for a preemptor of this queue that takes `asked`; `new`: it is one more gang."""
    account = queues.find(queue)
    over = [*account.over_caps(asked, new=new)] if account is not None else []
    paths = [queues.path(candidate.gang.queue) for candidate in table.candidates]
    freed = np.zeros((len(over), len(table)), np.int64)
    for i, (above, resource, _) in enumerate(over):
        below = np.array([above in path for path in paths], np.bool_)[table.gang]
        freed[i] = [unit.freed[resource] if resource else unit.core for unit in table.units]
        freed[i] *= below
    return Quota(np.array([amount for *_, amount in over], np.int64), freed)


def budgeted(table: UnitTable, world: World) -> Budgeted:
    """Returns how many pods of each unit a budget selects, for the budgets that select any."""
    found: dict[tuple[str, str], Counter[int]] = {}
    if not world.budgets:
        return found
    for unit, one in enumerate(table.units):
        for pod in one.pods:
            for name in world.budgets.of(world.pods[pod]):
                found.setdefault(name, Counter())[unit] += 1
    return found


def _may_reclaim(table: UnitTable, taken: Bools, queue: str, asked: Usage, world: World) -> bool:
    """Whether each of these units may be reclaimed once those before it are gone."""
    spared = table.kept(taken & ~table.core)
    # Surplus that frees nothing by itself, as its gang has domains to itself, goes with the whole gang.
    whole = np.isin(table.gang, table.gang[taken & table.core])
    spared &= ~whole | np.array([bool(unit.freed) for unit in table.units], np.bool_)
    units = np.flatnonzero(spared | (taken & table.core)).tolist()
    sizes = np.bincount(table.gang[taken], table.pods[taken], len(table.candidates))
    with world.trial():
        for unit in sorted(units, key=lambda unit: (sizes[table.gang[unit]], unit)):
            theirs, freed = table.candidates[table.gang[unit]].gang.queue, table.units[unit].freed
            if table.core[unit]:  # with all that could not be spared
                freed = Usage()
                for rest in np.flatnonzero(taken & ~spared & (table.gang == table.gang[unit])):
                    freed.add(table.units[rest].freed)
            if not may_reclaim(world.queues, queue, asked, theirs, freed):
                return False
            world.queues.give(theirs, freed)
    return True
