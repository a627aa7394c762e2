"""The problem as a program over patterns, and its solutions as pods on nodes."""

from typing import Final

import numpy as np

from muster.core.placement.exact import solver
from muster.core.placement.exact.patterns import Classes
from muster.core.placement.exact.problem import Problem
from muster.core.world.nodes import Longs

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
    Rows: nodes of each class; pods of each group; the rest.
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
    if problem.rest:
        more = width + np.arange(len(groups))
        columns += [more, more]
        rows += [of_group, np.full(len(groups), first + len(groups))]
        values += [np.full(len(groups), -1.0), np.ones(len(groups))]
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
    infinite = np.full(len(groups) + bool(problem.rest), np.inf)
    least = [group.need for group in groups] + [problem.rest] * bool(problem.rest)
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
