"""Bounds of a search for victims by arithmetic: whether some units make room, and at which least loss.

A node has a *slot* for each more pod of a shape that it could take. A *unit* is what is evicted in one piece:
a surplus pod, or all that is left of a gang (`candidates.py`). A *ground* is a division of the nodes into
domains, in one of which the gang has to fit; without a topology, one domain has all nodes.

    node-0: 1 GPU free    units on it: a (2 GPUs, loses 3 h), b (1 GPU, loses 1 h)
    node-1: 0 GPUs free   units on it: c (4 GPUs, loses 1 h)

Without c, these nodes have 1 + 4 slots for pods of one GPU, and without a and c 3 + 4. That the slots suffice
is a necessary condition that is cheap to check; for pods of one shape without further constraints it is also
sufficient. The same sums say what a unit is worth: the slots that it would add on its nodes, and a fraction
for its part of the next slot.

A lower bound of the loss of clearing a domain is the fractional knapsack of the resource for which it is
highest: units in the order of what they free there relative to what they lose, the last of them in part. No
set of victims loses less. For a gang that needs exclusive domains the bound is what is lost with all gangs
there.

What must be freed below hard caps (`Quota`) is counted beside the slots: both have to suffice. A unit is
worth its part of the missing slots, and of the missing quota.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import Final

import numpy as np

from muster.core.demand import Request
from muster.core.placement.topology.candidates import Grouped
from muster.core.preemption.affinity_dependents import AffinityDependents, sums
from muster.core.preemption.eviction_units import Floats, Quota, UnitTable
from muster.core.words.gang import Shape
from muster.core.world.devices import WHOLE
from muster.core.world.eligibility import Eligibility
from muster.core.world.nodes import Bools, Columns, Ints, Longs, Nodes, RowAmounts
from muster.names import GPU_SHARE

#: Steps (`core/work.py`) of one pick for each shape; and how many sets of units, times nodes, make a step.
PICK: Final = 3
SETS: Final = 100


class SlotBounds:
    """Arrays over the nodes for one request, and over the entries of a table: a unit on a node.

    `grounds`: by node the number of a domain, or -1. The gang has to fit in one domain of the last ground;
    the domains of the others are tighter. Nodes are numbered as columns, or, in bounds `within` some of
    them, by position. `alone`: as `ExclusiveDomains.alone` returns it, for a gang that needs a domain of
    its own.
    """

    def __init__(
        self,
        request: Request,
        nodes: Nodes,
        eligibility: Eligibility,
        table: UnitTable,
        quota: Quota,
        grounds: Sequence[Ints],
        alone: tuple[Ints, Longs] | None,
    ) -> None:
        self.grounds = grounds
        self._nodes, self._alone = nodes, alone
        #: units that free something here, or must be taken before one that does
        self.reach: Bools = np.ones(len(table), np.bool_)
        #: pods of one shape, of whichever pod sets
        grouped = Grouped.of(request.demand, nodes)
        self._parts = grouped.groups
        self._joint = grouped.joint
        self._table = table
        self._quota = quota
        rows = [row for row, _ in grouped.least]
        self._asked = [
            [(rows.index(row), amount) for row, amount in nodes.row_amounts(pods.shape.requests)]
            for pods in self._parts
        ]
        #: of each row what the minimum takes at least
        self._least = [least for _, least in grouped.least]
        #: nodes that each part may use
        self._open: list[Bools] = []
        for pods in self._parts:
            mask = eligibility.of(pods.shape).eligible.copy()
            if request.excluded is not None:
                mask[request.excluded] = False
            self._open.append(mask)
        #: rows of whole GPUs and of shares of them, if any pod asks for shares
        self._gpu = (nodes.devices.row, nodes.resources.get(GPU_SHARE))
        #: rows × nodes; below zero where a node is overdrawn
        self._free: Longs = np.array([_free(nodes, row, self._gpu[1]) for row in rows])
        self._enter(rows)

    @property
    def shapes(self) -> list[Shape]:
        return [pods.shape for pods in self._parts]

    def _enter(self, rows: list[int]) -> None:
        """Compute, per unit and node, what taking the unit frees there of the resources that count."""
        table = self._table
        freed = [self._at_most(row_amounts) for row_amounts, *_ in table.groups]
        keys = np.concatenate([units * table.columns + columns for _, units, columns, _ in table.groups])
        distinct, inverse = np.unique(keys, return_inverse=True)
        self._unit: Longs = distinct // table.columns
        self._column: Longs = distinct % table.columns
        self._amount: Longs = np.zeros((len(rows), len(distinct)), np.int64)
        for i, row in enumerate(rows):
            amounts = [n * f.get(row, 0) for (*_, n), f in zip(table.groups, freed, strict=True)]
            self._amount[i] = np.bincount(inverse, np.concatenate(amounts), len(distinct))

    def _at_most(self, row_amounts: RowAmounts) -> Mapping[int, int]:
        """What can be free once a pod of this demand has left: of a shared GPU, perhaps all."""
        freed, (whole, share) = Counter(dict(row_amounts)), self._gpu
        if share is not None:
            freed += Counter({share: freed[whole] * WHOLE, whole: int(share in freed)})
        return freed

    def within(self, columns: Columns) -> "SlotBounds":
        """The same bounds for these columns only: one domain."""
        inside = copy(self)
        position = np.full(self._free.shape[1], -1)
        position[columns] = np.arange(len(columns))
        entries = np.flatnonzero(position[self._column] >= 0)
        inside.grounds = [np.zeros(len(columns), np.int32)]
        inside._free = self._free[:, columns]
        inside._open = [mask[columns] for mask in self._open]
        inside._unit, inside._amount = self._unit[entries], self._amount[:, entries]
        inside._column = position[self._column[entries]]
        if not len(self._quota.lacking):
            here = np.zeros(len(self._table), np.bool_)
            here[inside._unit] = True
            spared = self._table.kept(here & ~self._table.core)
            inside.reach = here | self._table.beside(here & ~spared)
        return inside

    def enough(self, taken: Bools) -> bool:
        """Whether the slots suffice once these units are taken."""
        if self._owed(taken).any():
            return False
        return bool(self._able(self.grounds[-1], self._without(taken)).any())

    def attainable(self, usable: Bools) -> bool:
        """Whether the slots may suffice once the gangs have given up as many of these units as they can.

        Of each resource, a slot on a node takes at least what is missing there for it. So there are no more
        slots than the units can pay for together, the cheapest first. All nodes count as one domain.
        """
        if self._table.holds(usable):
            return True
        free, most = self._without(usable), []
        for p, asked in enumerate(self._asked):
            slots, now = self._slots(p, free), self._slots(p, self._free)
            more = slots > now
            paid = [self._paid_slots(i, amount, slots[more], now[more], more, usable) for i, amount in asked]
            most.append(np.array([now.sum() + min(paid, default=0)]))
        return bool(self._suffices(most).all())

    def _paid_slots(self, i: int, amount: int, slots: Longs, now: Longs, more: Bools, usable: Bools) -> int:
        """How many slots beyond `now`, on the nodes `more`, one resource allows without these units."""
        here = more[self._column]
        freed = np.bincount(self._unit[here], self._amount[i, here], len(self._table)).astype(np.int64)
        budget = self._table.most(usable, freed)
        free = self._free[i, more]
        unpaid = np.clip(free // amount, now, slots)  # these take nothing of this resource
        partly = np.sort(np.minimum((unpaid + 1) * amount - free, amount)[unpaid < slots]).cumsum()
        begun = int(np.searchsorted(partly, budget, side="right"))
        rest = budget - int(partly[begun - 1] if begun else 0)
        full = int((slots - unpaid).sum()) - len(partly)
        return int((unpaid - now).sum()) + begun + min(full, rest // amount)

    def enough_each(self, sets: Bools, dependents: AffinityDependents) -> Bools:
        """For many sets of units, one a row, whether the slots suffice beside the pods that stay."""
        self._nodes.steps += sets.shape[0] * self._free.shape[1] // SETS
        freed = np.zeros((len(self._free), len(self._table), self._free.shape[1]))
        freed[:, self._unit, self._column] = self._amount
        free = self._free[:, None, :] + sets @ freed
        slots = [np.full(free.shape[1:], np.inf) for _ in self._parts]
        for p, some in enumerate(slots):
            for i, amount in self._asked[p]:
                np.minimum(some, free[i] // amount, out=some)
            slots[p] = np.maximum(some, 0.0) * self._open[p]
        able = self._suffices([sums(some, self.grounds[-1]) for some in dependents.limit(slots, sets)])
        paid = sets @ self._quota.freed.T >= self._quota.lacking
        enough: Bools = np.logical_and(able.any(axis=1), paid.all(axis=1))
        return enough

    def least_losses(self, rank: int, usable: Bools) -> list[tuple[int, float]]:
        """The domains of a ground that these units could clear, each with a lower bound of the loss."""
        of = self.grounds[rank]
        able = self._able(of, self._without(usable))
        numbers = np.flatnonzero(able)
        least = np.zeros(len(able))
        if len(numbers) > 1 or len(self.grounds) > 1:
            reach = np.any(self._open, axis=0)
            here = np.flatnonzero(usable[self._unit] & (of[self._column] >= 0) & reach[self._column])
            for i, amount in enumerate(self._least):
                lacking = amount - _sums(of, np.maximum(self._free[i], 0) * reach)
                if (lacking[numbers] > 0).any():
                    np.maximum(least, self._knapsacks(of, here, i, lacking), out=least)
            if self._alone is not None:
                np.maximum(least, self._clearing(of, *self._alone, usable), out=least)
                numbers = numbers[least[numbers] < np.inf]
        return list(zip(numbers.tolist(), least[numbers].tolist(), strict=True))

    def _knapsacks(self, of: Ints, entries: Longs, row: int, lacking: Floats) -> Floats:
        """By domain, a lower bound of the loss for what is missing: units count as divisible."""
        units = len(self._table)
        keys = of[self._column[entries]].astype(np.int64) * units + self._unit[entries]
        pairs, inverse = np.unique(keys, return_inverse=True)
        freed = np.bincount(inverse, self._amount[row, entries], len(pairs))
        pairs, freed = pairs[freed > 0], freed[freed > 0]
        domain, lost = pairs // units, self._table.lost[pairs % units]
        order = np.lexsort((lost / freed, domain))
        domain, lost, freed = domain[order], lost[order], freed[order]
        before = np.cumsum(freed) - freed
        before -= before[np.searchsorted(domain, domain)]
        part = np.clip(lacking[domain] - before, 0.0, freed) / freed
        return np.bincount(domain, lost * part, len(lacking)).astype(np.float64)

    def _clearing(self, of: Ints, alone: Ints, others: Longs, usable: Bools) -> Floats:
        """By domain, a lower bound of the loss until a domain that the gang can have exclusively is empty.

        Infinite where a pod stays that cannot be evicted.
        """
        table, gangs = self._table, len(self._table.candidates)
        here = np.flatnonzero(usable[self._unit] & (alone[self._column] >= 0))
        keys = alone[self._column[here]].astype(np.int64) * gangs + table.gang[self._unit[here]]
        domains = int(alone.max(initial=-1)) + 1
        # Of each gang there the units that are there: so much is lost at the least.
        units = np.unique(keys * len(table) + self._unit[here])
        lost = np.bincount(units // (gangs * len(table)), table.lost[units % len(table)], domains)
        left = others.copy()
        for _, units, columns, times in table.groups:
            left -= np.bincount(columns, times * usable[units], len(left)).astype(np.int64)
        lost[_sums(alone, left) > 0] = np.inf
        cheapest = np.full(int(of.max(initial=-1)) + 1, np.inf)
        inside = np.flatnonzero((of >= 0) & (alone >= 0))
        np.minimum.at(cheapest, of[inside], lost[alone[inside]])
        return cheapest

    def _able(self, of: Ints, free: Longs) -> Bools:
        """By domain whether the slots suffice there."""
        return self._suffices([_sums(of, self._slots(p, free)) for p in range(len(self._parts))])

    def picks(
        self, usable: Bools, start: Bools, fraction: float, lost: Floats, allow: Callable[[Bools], bool]
    ) -> Iterator[Bools]:
        """Grow `start` by one pick after the other, and yield the units taken whenever the slots suffice.

        Each pick is the one of `usable` that frees most relative to what is `lost`, as far as `allow`
        permits: a unit of a gang, or all of its units that are left and may be taken. Ends when no pick
        helps. `fraction`: what a whole slot's worth of fractions counts.
        """
        table, parts = self._table, range(len(self._parts))
        taken, left = start.copy(), usable & ~start
        free = self._without(taken)
        slots = [self._slots(p, free) for p in parts]
        values = [self._value(p, free, fraction) for p in parts]
        gains = np.zeros(len(self._unit))
        touched = np.arange(len(self._unit))
        # Of equal losses: fewer gangs, then fewer pods. Even a loss of nothing costs a little.
        tiny = 1e-9 * (1.0 + float(lost.sum()))
        cost = lost + tiny * (1 + table.pods / 1e6)
        ready = rest = left
        if not table.whole:
            _, ready, rest = table.next(left, taken)
        allowed = True
        while True:
            self._nodes.steps += PICK * len(self._parts)
            owed, lacks = self._owed(taken), self._lacks([int(s.sum()) for s in slots])
            if allowed and not lacks and not owed.any():
                yield taken
            columns = self._column[touched]
            after = free[:, columns] + self._amount[:, touched]
            gains[touched] = sum(self._value(p, after, fraction, columns) - values[p][columns] for p in parts)
            gain: Floats = np.bincount(self._unit, gains, len(table)).astype(np.float64)
            np.minimum(gain, max(lacks, 1), out=gain)  # more is of no use
            if owed.any():
                gain = self._paid(owed) + (gain / lacks if lacks else 0.0)
            picked = self._best(gain, cost, ready, rest)
            if picked is None:
                return
            allowed = allow(taken | picked)
            if allowed:
                taken = taken | picked
                left &= ~picked
                entries = np.flatnonzero(picked[self._unit])
                changed = np.zeros(free.shape[1], np.bool_)
                changed[self._column[entries]] = True
                where = np.flatnonzero(changed)
                for row, amount in zip(free, self._amount, strict=True):
                    np.add.at(row, self._column[entries], amount[entries])
                for p in parts:
                    values[p][where] = self._value(p, free[:, where], fraction, where)
                    slots[p][where] = self._slots(p, free[:, where], where)
                touched = np.flatnonzero(changed[self._column])
            else:
                left &= ~(picked if picked.sum() > 1 else table.from_on(picked))
                touched = touched[:0]
            if not table.whole:
                gang = int(table.gang[picked.argmax()])
                mine, ready[mine], rest[mine] = table.next(left, taken, gang)

    def _best(self, gain: Floats, cost: Floats, ready: Bools, rest: Bools) -> Bools | None:
        """A unit of some gang, or all that is left of it. None: nothing frees anything."""
        table = self._table
        picked = np.zeros(len(table), np.bool_)
        one = np.where(ready, gain / cost, 0.0)
        best, most = int(one.argmax()), 0.0
        if not table.whole:
            gangs = len(table.candidates)
            rest_gain = np.bincount(table.gang, np.where(rest, gain, 0.0), gangs)
            rest_cost = np.bincount(table.gang, np.where(rest, cost, 0.0), gangs)
            together = np.where(rest, (rest_gain / np.maximum(rest_cost, cost.min()))[table.gang], 0.0)
            most = float(together.max())
        if max(float(one[best]), most) <= 0:
            return None
        if most > one[best]:
            all_left: Bools = rest & (table.gang == table.gang[together.argmax()])
            return all_left
        picked[best] = True
        return picked

    def _without(self, taken: Bools) -> Longs:
        free = self._free.copy()
        mine = taken[self._unit]
        columns = self._column[mine]
        for row, amount in zip(free, self._amount, strict=True):
            row += np.bincount(columns, amount[mine], len(row)).astype(np.int64)
        return free

    def _suffices(self, slots: Sequence[Longs | Floats]) -> Bools:
        """By domain, whether these slots suffice for the minimum; `slots`: by shape."""
        enough: Bools = np.ones(slots[0].shape, np.bool_)
        for n, part in zip(slots, self._parts, strict=True):
            enough &= n >= part.need
        for counts, need in self._joint:
            enough &= sum(np.minimum(slots[p], count) for p, count in counts) >= need
        return enough

    def _lacks(self, slots: list[int]) -> int:
        """How many pods do not fit yet."""
        lacking = sum(max(part.need - n, 0) for n, part in zip(slots, self._parts, strict=True))
        jointly = (need - sum(min(slots[p], count) for p, count in counts) for counts, need in self._joint)
        return max(lacking, *jointly)

    def _owed(self, taken: Bools) -> Longs:
        """What is still to be freed below each cap."""
        if not len(self._quota.lacking):
            return self._quota.lacking
        owed: Longs = np.maximum(self._quota.lacking - self._quota.freed[:, taken].sum(axis=1), 0)
        return owed

    def _paid(self, owed: Longs) -> Floats:
        """Which part of what is still to be freed each unit frees, over all caps."""
        some = owed > 0
        paid: Floats = (np.minimum(self._quota.freed[some], owed[some, None]) / owed[some, None]).sum(axis=0)
        return paid

    def _slots(self, p: int, free: Longs, columns: Longs | None = None) -> Longs:
        slots = np.full(free.shape[1], 2**40, np.int64)
        for i, amount in self._asked[p]:
            np.minimum(slots, free[i] // amount, out=slots)
        np.maximum(slots, 0, out=slots)
        return slots * (self._open[p] if columns is None else self._open[p][columns])

    def _value(self, p: int, free: Longs, fraction: float, columns: Longs | None = None) -> Floats:
        """By node, the slots plus `fraction` times the part of the next slot that is free."""
        whole = np.full(free.shape[1], 2.0**40)
        for i, amount in self._asked[p]:
            np.minimum(whole, free[i] / amount, out=whole)
        value: Floats = np.maximum(np.floor(whole), 0.0) * (1 - fraction) + whole * fraction
        return value * (self._open[p] if columns is None else self._open[p][columns])


def _sums(of: Ints, values: Longs | Floats) -> Floats:
    """The sum of the values over each domain."""
    return np.bincount(of + 1, values, int(of.max(initial=-1)) + 2)[1:].astype(np.float64)


def _free(nodes: Nodes, row: int, share: int | None) -> Longs:
    if row == share:
        return nodes.free(row).astype(np.int64)
    return np.asarray(nodes.capacity(row).astype(np.int64) - nodes.used[row, : len(nodes)])
