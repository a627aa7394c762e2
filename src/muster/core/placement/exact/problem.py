"""The problem that is solved exactly: a minimum, as groups of pods of one shape across pod sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from muster.core.demand import Demand
from muster.core.placement.slots import Slots
from muster.core.words.gang import Shape
from muster.core.world.nodes import Columns, Ints, Nodes, RowAmounts


@dataclass(frozen=True, slots=True)
class Group:
    """Pods of one shape across parts: at least `need`, at most `count`."""

    shape: Shape
    row_amounts: RowAmounts
    need: int
    count: int
    parts: tuple[int, ...]
    size: float


@dataclass(frozen=True, slots=True)
class Problem:
    """A minimum: the `need` of each group, and `rest` more pods of any group."""

    groups: tuple[Group, ...]
    rest: int
    #: by part that still takes pods: how many it still needs, and how many more it may have
    parts: Mapping[int, tuple[int, int]]

    @staticmethod
    def of(demand: Demand, placed: Sequence[int], slots: Slots) -> "Problem":
        """Return what is left of the demand's minimum once so many pods of each part are placed."""
        needs = [max(part.need - n, 0) for part, n in zip(demand.parts, placed, strict=True)]
        rest = max(demand.need - sum(placed) - sum(needs), 0)
        parts = {}
        by_shape: dict[Shape, list[int]] = {}
        for p, part in enumerate(demand.parts):
            spare = max(part.count - placed[p] - needs[p], 0) if rest else 0
            if needs[p] or spare:
                parts[p] = (needs[p], spare)
                by_shape.setdefault(part.shape, []).append(p)
        groups = []
        for shape, members in by_shape.items():
            vector = slots.of(shape)
            need = sum(needs[p] for p in members)
            count = sum(sum(parts[p]) for p in members)
            groups.append(Group(shape, vector.row_amounts, need, count, tuple(members), vector.size))
        # The order does not depend on pod sets' names, so that equal lists of shapes share their patterns.
        groups.sort(key=lambda group: (group.row_amounts, group.parts))
        return Problem(tuple(groups), rest, parts)

    @property
    def size(self) -> int:
        return sum(group.need for group in self.groups) + self.rest

    def caps(self, slots: Slots, excluded: Columns | None, columns: Columns | None = None) -> Ints:
        """Return groups × nodes (all, or `columns`), int32: how many pods of each could matter there."""
        some = slice(None) if columns is None else columns
        caps = np.array([np.minimum(slots.of(g.shape).slots[some], g.count) for g in self.groups], np.int32)
        if excluded is not None:
            caps[:, excluded] = 0
        return caps

    def exceeds(self, nodes: Nodes, caps: Ints) -> bool:
        """Whether a total rules the minimum out: slots of a group, slots of all, or the sum of a resource."""
        fitting = caps.sum(axis=1, dtype=np.int64).tolist()
        if any(fits < group.need for fits, group in zip(fitting, self.groups, strict=True)):
            return True
        if sum(min(fits, g.count) for fits, g in zip(fitting, self.groups, strict=True)) < self.size:
            return True
        asked = [dict(group.row_amounts) for group in self.groups]
        for row in {row for amounts in asked for row in amounts}:
            least = self.least([amounts.get(row, 0) for amounts in asked])
            asking = [g for g, amounts in enumerate(asked) if row in amounts]
            usable = caps[asking].any(axis=0)
            if least > int(nodes.free(row)[usable].sum(dtype=np.int64)):
                return True
        return False

    def without(self, placed: Sequence[int]) -> "Problem":
        """Return the rest once so many pods of each group are placed: usable to solve, not to carry out."""
        groups, rest = [], self.rest
        for group, n in zip(self.groups, placed, strict=True):
            need, count = max(group.need - n, 0), max(group.count - n, 0)
            rest -= min(max(n - group.need, 0), group.count - group.need)
            groups.append(replace(group, need=need, count=count))
        return replace(self, groups=tuple(groups), rest=max(rest, 0))

    @property
    def group_of(self) -> dict[int, int]:
        return {p: g for g, group in enumerate(self.groups) for p in group.parts}

    def least(self, worth: Sequence[int]) -> int:
        """Return the least that a minimum can be worth if a pod of group g is worth `worth[g]`."""
        total, rest = sum(n * g.need for n, g in zip(worth, self.groups, strict=True)), self.rest
        for n, group in sorted(zip(worth, self.groups, strict=True), key=lambda item: item[0]):
            more = min(rest, group.count - group.need)
            total += n * more
            rest -= more
        return total

    def targets(self, have: Sequence[int]) -> dict[int, int] | None:
        """Return how many pods of each part make up the minimum, given so many pods of each group.

        The rest is made up of the smallest pods. None if there are not enough pods.
        """
        targets = {p: need for p, (need, _) in self.parts.items()}
        rest = self.rest
        by_size = sorted(range(len(self.groups)), key=lambda g: self.groups[g].size)
        for g in by_size:
            group = self.groups[g]
            if have[g] < group.need:
                return None
            more = min(rest, have[g] - group.need)
            for p in group.parts:
                extra = min(more, self.parts[p][1])
                targets[p] += extra
                more -= extra
                rest -= extra
        return targets if not rest else None
