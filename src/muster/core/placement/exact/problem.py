"""The problem that is solved exactly: a minimum, as groups of pods of one shape across pod sets.

It is solved as a program over patterns, whose solutions are pods on nodes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from muster.core.demand import Demand
from muster.core.placement.exact import solver
from muster.core.placement.exact.patterns import Classes
from muster.core.placement.slots import Slots
from muster.core.words.gang import Shape
from muster.core.world.nodes import Columns, Ints, Longs, Nodes, RowAmounts


@dataclass(frozen=True, slots=True)
class Group:
    """Pods of one shape: at least `need`, at most `count`.

    Parts that share a minimum, or that are of one subgroup with rules, have groups of their own.
    """

    shape: Shape
    row_amounts: RowAmounts
    need: int
    count: int
    parts: tuple[int, ...]
    size: float


@dataclass(frozen=True, slots=True)
class Problem:
    """A minimum: the `need` of each group, and more pods of any of several groups together."""

    groups: tuple[Group, ...]
    #: which groups, ascending, and how many more pods of them; those of any group are last, and are all that
    #: is needed beyond the groups' own needs
    rests: tuple[tuple[tuple[int, ...], int], ...]
    #: by part that still takes pods: how many it still needs, and how many more it may have
    parts: Mapping[int, tuple[int, int]]

    @staticmethod
    def of(demand: Demand, placed: Sequence[int], slots: Slots) -> "Problem":
        """Return what is left of the demand's minimum once so many pods of each part are placed."""
        needs = [max(part.need - n, 0) for part, n in zip(demand.parts, placed, strict=True)]
        more = [
            (members, max(need - sum(placed[p] + needs[p] for p in members), 0))
            for members, need in demand.joint
        ]
        own = {p: i for i, (members, _) in enumerate(more[:-1]) for p in members}
        anywhere = more[-1][1] > sum(n for _, n in more[:-1])
        parts = {}
        by_shape: dict[tuple[Shape, int, str], list[int]] = {}
        ruled = dict(demand.rules.subgroups) if demand.rules is not None else {}
        for p, part in enumerate(demand.parts):
            joint = own.get(p, -1)
            wanted = anywhere or (joint >= 0 and more[joint][1] > 0)
            spare = max(part.count - placed[p] - needs[p], 0) if wanted else 0
            if needs[p] or spare:
                parts[p] = (needs[p], spare)
                apart = part.subgroup if part.subgroup in ruled else ""
                by_shape.setdefault((part.shape, joint, apart), []).append(p)
        groups = []
        for (shape, *_), members in by_shape.items():
            vector = slots.of(shape)
            need = sum(needs[p] for p in members)
            count = sum(sum(parts[p]) for p in members)
            groups.append(Group(shape, vector.row_amounts, need, count, tuple(members), vector.size))
        # The order does not depend on pod sets' names, so that equal lists of shapes share their patterns.
        groups.sort(key=lambda group: (group.row_amounts, group.parts))
        rests = [
            (tuple(g for g, group in enumerate(groups) if own.get(group.parts[0], -1) == i), n)
            for i, (_, n) in enumerate(more[:-1])
        ]
        return Problem(tuple(groups), _rests(rests, len(groups), more[-1][1]), parts)

    @property
    def size(self) -> int:
        return sum(group.need for group in self.groups) + self.rests[-1][1]

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
        able = [min(fits, g.count) - g.need for fits, g in zip(fitting, self.groups, strict=True)]
        if any(sum(able[g] for g in members) < rest for members, rest in self.rests):
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
        groups, over = [], []
        for group, n in zip(self.groups, placed, strict=True):
            need, count = max(group.need - n, 0), max(group.count - n, 0)
            over.append(min(max(n - group.need, 0), group.count - group.need))
            groups.append(replace(group, need=need, count=count))
        left = [(members, max(rest - sum(over[g] for g in members), 0)) for members, rest in self.rests]
        return replace(self, groups=tuple(groups), rests=_rests(left[:-1], len(groups), left[-1][1]))

    @property
    def group_of(self) -> dict[int, int]:
        return {p: g for g, group in enumerate(self.groups) for p in group.parts}

    def least(self, worth: Sequence[int]) -> int:
        """Return the least that a minimum can be worth if a pod of group g is worth `worth[g]`."""
        total = sum(n * g.need for n, g in zip(worth, self.groups, strict=True))
        over = [0] * len(self.groups)
        for members, rest in self.rests:
            rest -= sum(over[g] for g in members)
            for g in sorted(members, key=worth.__getitem__):
                more = min(rest, self.groups[g].count - self.groups[g].need - over[g])
                total += worth[g] * more
                over[g] += more
                rest -= more
        return total

    def targets(self, have: Sequence[int]) -> dict[int, int] | None:
        """Return how many pods of each part make up the minimum, given so many pods of each group.

        The rest is made up of the smallest pods. None if there are not enough pods.
        """
        targets = {p: need for p, (need, _) in self.parts.items()}
        left = [n - group.need for n, group in zip(have, self.groups, strict=True)]
        if min(left, default=0) < 0:
            return None
        over = [0] * len(self.groups)
        for members, rest in self.rests:
            rest -= sum(over[g] for g in members)
            for g in sorted(members, key=lambda g: self.groups[g].size):
                for p in self.groups[g].parts:
                    need, spare = self.parts[p]
                    extra = min(rest, left[g] - over[g], need + spare - targets[p])
                    targets[p] += extra
                    over[g] += extra
                    rest -= extra
            if rest > 0:
                return None
        return targets


def _rests(
    some: Iterable[tuple[tuple[int, ...], int]], groups: int, rest: int
) -> tuple[tuple[tuple[int, ...], int], ...]:
    """Return the rests of several groups that are left, and that of all groups, which includes them."""
    left = [(members, n) for members, n in some if n]
    return (*left, (tuple(range(groups)), max(rest, sum(n for _, n in left))))


#: Nodes of the search tree per problem.
SEARCH: Final = 100
#: A relaxation that lacks less than this part of a pod counts as one that fits.
LACKING: Final = 1e-6


def rounded(problem: Problem, classes: Classes, x: solver.Floats, shape: tuple[int, ...]) -> Longs | None:
    """Return the relaxation's solution rounded down, completed by a search for the rest; None if that fails.

    A corner of the relaxation has few fractions, so the rest is a small problem, and nearly always solvable.
    """
    uses = np.floor(x[: len(classes)] + LACKING).astype(np.int64)
    sizes = [len(patterns) for patterns in classes.patterns]
    by_class = np.split(uses, np.cumsum(sizes)[:-1])
    left = [len(c) - int(used.sum()) for c, used in zip(classes.columns, by_class, strict=True)]
    remaining = problem.without((uses @ np.concatenate(classes.patterns)).tolist())
    if remaining.size:
        some = Classes(
            [columns[:n] for columns, n in zip(classes.columns, left, strict=True) if n > 0],
            [patterns for patterns, n in zip(classes.patterns, left, strict=True) if n > 0],
        )
        found, _ = search(remaining, some) if some.columns else (None, True)
        if found is None:
            return None
        uses[np.repeat(np.array(left) > 0, sizes)] += found
    counts = on_nodes(classes, uses, shape)
    if counts is None or problem.targets(counts.sum(axis=1).tolist()) is None:
        return None
    return counts


def search(problem: Problem, classes: Classes) -> tuple[Longs | None, bool]:
    """Return how many nodes use each pattern (None if not found), and whether the search was exhaustive."""
    found = solver.integral(program(problem, classes, relaxed=False), len(classes), SEARCH)
    uses = None if found.x is None else np.rint(found.x[: len(classes)]).astype(np.int64)
    return uses, found.exhausted


def program(problem: Problem, classes: Classes, relaxed: bool) -> solver.Program:
    """Build the program for a problem.

    Unknowns: nodes of each class per pattern; per group its part of the rest; per group the missing pods. The
    last only if `relaxed`: then there always is a solution, and its cost is the number of missing pods.
    Rows: nodes of each class; pods of each group; each rest.
    """
    groups = problem.groups
    first, kinds = len(classes.columns), len(classes)
    class_of = np.repeat(np.arange(first), [len(patterns) for patterns in classes.patterns])
    pods = np.concatenate(classes.patterns)
    pattern, group = np.nonzero(pods)
    of_group = first + np.arange(len(groups))
    columns = [np.arange(kinds), pattern]
    rows = [class_of, first + group]
    values = [np.ones(kinds), pods[pattern, group]]
    upper = [np.array([len(members) for members in classes.columns])[class_of]]
    cost = [np.zeros(kinds)]
    width = kinds
    rests = [(np.array(members), rest) for members, rest in problem.rests if rest]
    if rests:
        more = width + np.arange(len(groups))
        columns.append(more)
        rows.append(of_group)
        values.append(np.full(len(groups), -1.0))
        for r, (members, _) in enumerate(rests):
            columns.append(more[members])
            rows.append(np.full(len(members), first + len(groups) + r))
            values.append(np.ones(len(members)))
        upper.append(np.array([g.count - g.need for g in groups]))
        cost.append(np.zeros(len(groups)))
        width += len(groups)
    if relaxed:
        columns.append(width + np.arange(len(groups)))
        rows.append(of_group)
        values.append(np.ones(len(groups)))
        upper.append(np.full(len(groups), np.inf))
        cost.append(np.ones(len(groups)))
        width += len(groups)
    column, row = np.concatenate(columns), np.concatenate(rows)
    order = np.lexsort((row, column))
    infinite = np.full(len(groups) + len(rests), np.inf)
    least = [group.need for group in groups] + [rest for _, rest in rests]
    return solver.Program(
        cost=np.concatenate(cost),
        upper=np.concatenate(upper).astype(np.float64),
        rows_lower=np.concatenate((np.full(first, -np.inf), np.array(least, np.float64))),
        rows_upper=np.concatenate(([float(len(members)) for members in classes.columns], infinite)),
        starts=np.searchsorted(column[order], np.arange(width + 1)).astype(np.int32),
        rows=row[order].astype(np.int32),
        values=np.concatenate(values).astype(np.float64)[order],
    )


def on_nodes(classes: Classes, uses: Longs, shape: tuple[int, ...]) -> Longs | None:
    """Return pods by groups × nodes: nodes of a class in order of name, its patterns in their order.

    None if more nodes of a class are used than there are.
    """
    counts = np.zeros(shape, np.int64)
    start = 0
    for columns, patterns in zip(classes.columns, classes.patterns, strict=True):
        used = np.maximum(uses[start : start + len(patterns)], 0)
        start += len(patterns)
        chosen = np.repeat(patterns, used, axis=0)
        if len(chosen) > len(columns):
            return None
        counts[:, columns[: len(chosen)]] = chosen.T
    return counts
