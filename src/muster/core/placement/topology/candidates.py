"""Lists the domains of a level that could hold a gang, in the order in which they are tried.

A domain qualifies if it has slots enough for the minimum of each shape, and enough of every resource for all
of them together. For pods of one shape that is sufficient; for several it is only necessary, and the caller
finds out whether the pods fit. The fullest domain is first, by the slots of the gang's largest pod; ties go
to the domain whose surroundings are fullest, from the next wider layer outwards, then to the first by path.
(Best fit with the parents' fullness: koordinator, its proposal of "parent binpack".)
"""

from collections import Counter
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from muster.core.demand import Demand, Request
from muster.core.placement.slots import Slots, Vector
from muster.core.placement.topology.rules import Levels
from muster.core.words.gang import Shape
from muster.core.world.eligibility import forget
from muster.core.world.nodes import Bools, Columns, Ints, Longs, Nodes, RowAmounts, recent
from muster.core.world.topology import Topology


@dataclass(frozen=True, slots=True)
class Group:
    """All pods of one shape, across the demand's parts."""

    shape: Shape
    need: int
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class Grouped:
    """A demand with its pods by shape. `least`: what its minimum takes at least of each resource."""

    demand: Demand
    groups: tuple[Group, ...]
    least: RowAmounts
    #: minima over several groups: how many pods of which groups count, and how many are needed; the one over
    #: all is last
    joint: tuple[tuple[tuple[tuple[int, int], ...], int], ...]

    @staticmethod
    def of(demand: Demand, nodes: Nodes) -> "Grouped":
        groups: dict[Shape, Group] = {}
        for part in demand.parts:
            found = groups.get(part.shape, Group(part.shape, 0, 0))
            groups[part.shape] = Group(part.shape, found.need + part.need, found.count + part.count)
        taken = [dict(nodes.row_amounts(part.shape.requests)) for part in demand.parts]
        rows = sorted({row for amounts in taken for row in amounts})
        least = [(row, demand.at_least([amounts.get(row, 0) for amounts in taken])) for row in rows]
        number, joint = {shape: g for g, shape in enumerate(groups)}, []
        for members, need in demand.joint:
            counts: dict[int, int] = {}
            for p in members:
                g = number[demand.parts[p].shape]
                counts[g] = counts.get(g, 0) + demand.parts[p].count
            joint.append((tuple(counts.items()), need))
        return Grouped(demand, tuple(groups.values()), tuple(least), tuple(joint))

    @property
    def size(self) -> int:
        return sum(group.count for group in self.groups)


class Candidates:
    """The domains that one request could use."""

    def __init__(
        self,
        nodes: Nodes,
        slots: Slots,
        topology: Topology,
        totals: "Totals",
        request: Request,
        levels: Levels,
        minimum: Grouped,
        settled: Columns,
    ) -> None:
        """`settled`: the columns of the gang's other places, one for each, ascending."""
        self._nodes, self._slots, self._topology, self._totals = nodes, slots, topology, totals
        self._minimum, self._limit, self._settled = minimum, levels.limit, settled
        self._node = len(topology.levels) - 1
        #: columns not to use: excluded ones, and those in no domain of a required layer
        self.barred: Bools | None = None
        if request.excluded is not None or levels.required:
            barred = np.zeros(len(nodes), np.bool_)
            if request.excluded is not None:
                barred[request.excluded] = True
            for level in levels.required:
                barred |= topology.levels[level].domains < 0
            self.barred = barred if barred.any() else None
        self._as_of = -1

    def of(self, level: int, asked: Grouped) -> Columns:
        """Return the domains that could hold the minimum of what is asked, in the order to try them.

        If the gang has other places, this is at most the domain in which most of them are.
        """
        need = asked.demand.need
        home = self.home(level) if level and len(self._settled) else None
        if home is None and level > self._limit and len(self._settled):
            return np.zeros(0, np.intp)
        able: Bools = self._topology.levels[level].labelled.copy()
        for g, group in enumerate(asked.groups):
            able &= self._total(level, g) >= group.need
        if need > sum(group.need for group in asked.groups):
            for counts, least in asked.joint:
                useful = [np.minimum(self._total(level, g), count) for g, count in counts]
                able &= np.sum(useful, axis=0, dtype=np.int64) >= least
        if home is not None:
            able[:home] = able[home + 1 :] = False
        numbers = np.flatnonzero(able)
        if len(asked.groups) > 1:
            for row, amount in asked.least:
                numbers = numbers[self._free(level, row)[numbers] >= amount]
        # in the required domain as many more pods as possible, if not all of them fit
        elastic = asked is self._minimum and level == self._limit and need < asked.size
        return self._ordered(level, numbers, most_first=elastic) if len(numbers) > 1 else numbers

    def columns(self, level: int, number: int) -> Columns:
        """Return the columns of a domain that may be used, ascending."""
        columns = self._topology.columns(level, number)
        return columns if self.barred is None else columns[~self.barred[columns]]

    def home(self, level: int) -> int | None:
        """Return the domain with most of the gang's settled places, inside that of the required layer."""
        settled = self._settled
        if level > self._limit > 0 and (home := self.most(self._limit, settled)) is not None:
            settled = settled[self._topology.levels[self._limit].domains[settled] == home]
        return self.most(level, settled)

    def most(self, level: int, columns: Columns) -> int | None:
        """Return the domain that contains most of these columns; None if none contains any."""
        domains = self._topology.levels[level].domains[columns]
        found = Counter(domains[domains >= 0].tolist())
        return min(found, key=lambda number: (-found[number], number), default=None)

    def useful(self, level: int) -> Longs:
        """Return how many of the gang's pods each domain could take, each group counted for itself."""
        useful = [
            np.minimum(self._total(level, g), group.count) for g, group in enumerate(self._minimum.groups)
        ]
        found: Longs = np.sum(useful, axis=0, dtype=np.int64)
        return found

    def slots(self, group: int) -> Ints:
        """Return by column how many pods of a group the request could put there."""
        self._refresh()
        return self._columns[group]

    @property
    def vectors(self) -> Sequence[Vector]:
        """Return the groups' vectors; their keys may be out of date."""
        self._refresh()
        return self._vectors

    def _total(self, level: int, group: int) -> Ints | Longs:
        self._refresh()
        if level == self._node:
            return self._columns[group]
        return self._topology.totals(level, self._sums[group])

    def _free(self, level: int, row: int) -> Ints | Longs:
        if level == self._node:
            return self._nodes.free(row)
        return self._topology.totals(level, self._totals.free(row))

    def _refresh(self) -> None:
        """Update all vectors: trials on the ledger, even those that were undone, make them out of date."""
        if self._as_of == self._nodes.changes.end:
            return
        self._as_of = self._nodes.changes.end
        self._vectors = [self._slots.room(group.shape) for group in self._minimum.groups]
        if self.barred is None:
            self._columns = [vector.slots for vector in self._vectors]
            self._sums = [self._totals.slots(vector) for vector in self._vectors]
        else:
            self._columns = [np.where(self.barred, 0, vector.slots) for vector in self._vectors]
            self._sums = [self._topology.sums(slots) for slots in self._columns]

    def _ordered(self, level: int, numbers: Columns, most_first: bool) -> Columns:
        sizes = [vector.size for vector in self.vectors]
        largest = sizes.index(max(sizes))
        keys: list[Ints | Longs] = []  # ties go to the first by path, as they stand
        for wider in range(1, level):
            keys.append(self._total(wider, largest)[self._topology.above(numbers, level, wider)])
        keys.append(self._total(level, largest)[numbers])
        if most_first:
            keys.append(-self.useful(level)[numbers])
        return numbers[np.lexsort(keys)]


#: Sums that are kept; the least recently used is dropped first. At 10,000 nodes one takes 45 kB.
_KEPT: Final = 256


@dataclass(slots=True)
class _Kept:
    #: by column, as of `position` in the log of changes
    values: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    #: by cell
    sums: Longs = field(default_factory=lambda: np.zeros(0, np.int64))
    position: int = 0
    #: of the topology
    version: int = -1


class Totals:
    """Sums over the cells of the topology as of now: read them before the ledger changes again.

    Summing ten thousand nodes over their domains takes longer than all the rest of a placement, and a gang of
    six shapes needs six such sums. So the sums are cached by cell, with the values that they were made of,
    and follow the log of changed nodes: a node's difference is added to its cell.
    """

    def __init__(self, nodes: Nodes, topology: Topology) -> None:
        self._nodes = nodes
        self._topology = topology
        self._kept: dict[Shape | int, _Kept] = {}

    def forget(self, shapes: Set[Shape]) -> None:
        """Drop the sums of other shapes than these, but for a few."""
        forget(self._kept, {key for key in self._kept if isinstance(key, int) or key in shapes})

    def slots(self, vector: Vector) -> Longs:
        """Return by cell the slots of a vector, which must be up to date."""
        return self._sums(vector.shape, lambda columns: vector.slots[columns])

    def free(self, row: int) -> Longs:
        """Return by cell what is free of a resource."""
        free = self._nodes.free(row)
        return self._sums(row, lambda columns: np.maximum(free[columns], 0))

    def _sums(self, key: Shape | int, read: Callable[[Columns | list[int] | slice], Ints]) -> Longs:
        nodes, topology = self._nodes, self._topology
        kept = recent(self._kept, key, lambda _: _Kept(), _KEPT)
        changed = nodes.changed(kept.position) if kept.version == topology.version else None
        if changed is None:
            kept.values, kept.version = read(slice(None)).copy(), topology.version
            kept.sums = topology.sums(kept.values)
        else:
            values = read(changed)
            more = np.subtract(values, kept.values[changed], dtype=np.int64)
            if more.any():
                kept.values[changed] = values
                np.add.at(kept.sums, topology.cells[changed], more)
        kept.position = nodes.changes.end
        return kept.sums
