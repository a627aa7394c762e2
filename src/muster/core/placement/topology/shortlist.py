"""Lists the domains of a level that could hold a gang, in the order in which they are tried.

A domain qualifies if it has slots enough for the minimum of each shape, and enough of every resource for all
of them together. For pods of one shape that is sufficient; for several it is only necessary, and the caller
finds out whether the pods fit. The fullest domain is first, by the slots of the gang's largest pod; ties go
to the domain whose surroundings are fullest, from the next wider layer outwards, then to the first by path.
(Best fit with the parents' fullness: koordinator, its proposal of "parent binpack".)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from muster.core.demand import Demand
from muster.core.placement.order import Vector
from muster.core.placement.slots import Slots
from muster.core.placement.topology.totals import Survey
from muster.core.words.gang import Shape
from muster.core.world.nodes import Bools, Columns, Ints, Longs, Nodes
from muster.core.world.topology import Topology


@dataclass(frozen=True, slots=True)
class Group:
    """All pods of one shape, across the demand's parts."""

    shape: Shape
    parts: tuple[int, ...]
    need: int
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A demand with its pods by shape. `least`: what its minimum takes at least of each resource, by row."""

    demand: Demand
    groups: tuple[Group, ...]
    least: tuple[tuple[int, int], ...]

    @staticmethod
    def of(demand: Demand, nodes: Nodes) -> "Asked":
        by_shape: dict[Shape, list[int]] = {}
        for p, part in enumerate(demand.parts):
            by_shape.setdefault(part.shape, []).append(p)
        parts = demand.parts
        groups = tuple(
            Group(shape, tuple(ps), sum(parts[p].need for p in ps), sum(parts[p].count for p in ps))
            for shape, ps in by_shape.items()
        )
        row_amounts_of = [dict(nodes.row_amounts(group.shape.requests)) for group in groups]
        rest = demand.need - sum(group.need for group in groups)
        least = []
        for row in sorted({row for row_amounts in row_amounts_of for row in row_amounts}):
            each = [row_amounts.get(row, 0) for row_amounts in row_amounts_of]
            needed = sum(group.need * amount for group, amount in zip(groups, each, strict=True))
            least.append((row, needed + rest * min(each)))
        return Asked(demand, groups, tuple(least))

    @property
    def size(self) -> int:
        return sum(group.count for group in self.groups)


class Shortlist:
    """The domains that one request could use. `barred`: columns that it must not use."""

    def __init__(
        self,
        nodes: Nodes,
        slots: Slots,
        topology: Topology,
        survey: Survey,
        groups: Sequence[Group],
        barred: Bools | None,
    ) -> None:
        self._nodes = nodes
        self._slots = slots
        self._topology = topology
        self._survey = survey
        self._groups = groups
        self._barred = barred
        self._node = len(topology.levels) - 1
        self._as_of = -1

    def of(self, level: int, asked: Asked, home: int | None = None, most_first: bool = False) -> Columns:
        """Return the numbers of the domains that could hold the minimum; at most `home` if it is given.

        `most_first`: sort the domains that take most of the pods to the front.
        """
        topology, nodes, need = self._topology, self._nodes, asked.demand.need
        if level == self._node and any(n > nodes.free(row).max(initial=0) for row, n in asked.least):
            return np.zeros(0, np.intp)
        able: Bools = topology.levels[level].labelled.copy()
        for slots, group in zip(self.totals(level), asked.groups, strict=True):
            able &= slots >= group.need
        if need > sum(group.need for group in asked.groups):
            able &= self.useful(level) >= need
        if home is not None:
            able[:home] = able[home + 1 :] = False
        numbers = np.flatnonzero(able)
        if len(asked.groups) > 1:
            for row, amount in asked.least:
                numbers = numbers[self._free(level, row)[numbers] >= amount]
        return self._ordered(level, numbers, most_first) if len(numbers) > 1 else numbers

    def totals(self, level: int) -> Sequence[Ints | Longs]:
        """Return by group the slots of each domain of a level."""
        return [self._total(level, g) for g in range(len(self._groups))]

    def useful(self, level: int) -> Longs:
        """Return how many of the gang's pods each domain could take, each group counted for itself."""
        totals = zip(self.totals(level), self._groups, strict=True)
        found: Longs = np.sum([np.minimum(row, group.count) for row, group in totals], axis=0, dtype=np.int64)
        return found

    def _total(self, level: int, group: int) -> Ints | Longs:
        self._refresh()
        if level == self._node:
            return self._columns[group]
        return self._topology.totals(level, self._sums[group])

    def _free(self, level: int, row: int) -> Ints | Longs:
        if level == self._node:
            return self._nodes.free(row)
        return self._topology.totals(level, self._survey.free(row))

    @property
    def vectors(self) -> Sequence[Vector]:
        """Return the groups' vectors; their keys may be out of date."""
        self._refresh()
        return self._vectors

    def _refresh(self) -> None:
        """Update all vectors: trials on the ledger, even those that were undone, make them out of date."""
        if self._as_of == self._nodes.changes.end:
            return
        self._as_of = self._nodes.changes.end
        self._vectors = [self._slots.room(group.shape) for group in self._groups]
        if self._barred is None:
            self._columns = [vector.slots for vector in self._vectors]
            self._sums = [self._survey.slots(vector) for vector in self._vectors]
        else:
            self._columns = [np.where(self._barred, 0, vector.slots) for vector in self._vectors]
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
