"""Fills a batch of domains on copies of their free amounts, to find the first that holds all these pods.

Greedy placement on the ledger (`placement.Trial`) charges each part at once, and then every shape's slots are
updated over all nodes. A gang of several shapes has to try many small domains, most of which do not hold it.
`Bays` copies what is free on the domains' nodes, a few dozen numbers per resource, and fills the copies in
the same order and with the same choices. The ledger is charged only once all pods fit.

Several domains are filled at once, one per row, as a row of twenty numbers takes NumPy hardly less time than
fifty such rows. Rows of smaller domains are padded with nodes that take nothing.

It handles only pods without constraints besides room, and packing orders whose keys depend on a node's free
amounts alone (`Order.keys_of`).
"""

from collections.abc import Sequence

import numpy as np

from muster.core.demand import Part
from muster.core.placement.greedy import Filled
from muster.core.placement.order import Order, Vector
from muster.core.world.nodes import Bools, Columns, Ints, Longs, Nodes


class Bays:
    """A batch of domains. `vectors`: of the parts' shapes, slots up to date; each domain's columns ascend."""

    def __init__(
        self, nodes: Nodes, order: Order, vectors: Sequence[Vector], domains: Sequence[Columns]
    ) -> None:
        self._order = order
        self._vectors = vectors
        #: domains × nodes, as all arrays here
        self._columns, there = _side_by_side(domains)
        self._fixed = order.fixed(self._columns, vectors)
        #: rows of resources that are kept
        self._kept = sorted(
            {row for v in vectors for row in (*dict(v.row_amounts), *v.devices, *(order.looks_at or ()))}
        )
        #: resources × domains × nodes
        self._free: Longs = np.array([nodes.free(row).take(self._columns) for row in self._kept], np.int64)
        #: by part: which resources its pods take, and amounts of all that are kept
        self._takes = [_positions(vector, self._kept) for vector in vectors]
        self._amounts = _amounts(vectors, self._kept)
        #: by part: slots if the other parts took nothing, so the most there can be
        self._most: list[Ints] = [vector.slots.take(self._columns) * there for vector in vectors]
        #: parts × domains × nodes: pods for each node
        self._given: Longs = np.zeros((len(vectors), *self._columns.shape), np.int64)
        #: parts × domains
        self._placed: Longs = np.zeros((len(vectors), len(domains)), np.int64)
        #: of each domain's first node, in a flat array of domains × nodes
        self._starts = (np.arange(len(domains)) * self._columns.shape[1])[:, None]

    def fill(self, parts: Sequence[Part], need: int, order: Sequence[int]) -> tuple[int, list[Filled]] | None:
        """Return the first row that holds the minimum, and by part what was put where; None if no row does.

        Fills as `Trial.fill_minimum` does, and then as many more pods as fit. `order`: of the parts.
        """
        able: Bools = np.ones(len(self._columns), np.bool_)
        for p in order:
            self._put(p, parts[p].need)
            able &= self._placed[p] >= parts[p].need
            if not able.any():
                return None
        if need > sum(part.need for part in parts):
            for p in reversed(order):
                self._put(p, np.minimum(need - self._placed.sum(axis=0), parts[p].count - self._placed[p]))
            able &= self._placed.sum(axis=0) >= need
            if not able.any():
                return None
        first = int(able.argmax())
        for p in order:
            if parts[p].count > parts[p].need:
                self._put(p, (parts[p].count - self._placed[p]) * (np.arange(len(able)) == first))
        columns, filled = self._columns[first], []
        for given in self._given:
            used = given[first].nonzero()[0]
            filled.append((columns[used], given[first][used]))
        return first, filled

    def _put(self, p: int, count: int | Longs) -> None:
        """Put up to so many more pods of a part into each domain, as far as they fit."""
        vector = self._vectors[p]
        takes, amounts = self._takes[p], self._amounts[p]
        fit = np.minimum.reduce(self._free[takes] // amounts[takes])
        slots = np.maximum(np.minimum(fit, self._most[p]), 0)
        key = self._order.keys_of(vector, self._fixed, slots, self._free_of)
        if vector.rank is None:
            order = key.argsort(axis=1, kind="stable")
        else:
            order = np.lexsort((key, vector.rank[self._columns]))
        order += self._starts
        if not isinstance(count, int):
            count = np.maximum(count, 0)[:, None]
        filled = np.minimum(slots.take(order).cumsum(axis=1), count)
        self._placed[p] += filled[:, -1]
        filled[:, 1:] -= filled[:, :-1]
        times = np.empty_like(slots)
        times.put(order, filled)
        self._given[p] += times
        self._free -= times * amounts

    def _free_of(self, row: int) -> Longs:
        free: Longs = self._free[self._kept.index(row)]
        return free


def _side_by_side(domains: Sequence[Columns]) -> tuple[Columns, Bools]:
    """Return the domains' columns, one domain per row, and which entries are nodes rather than padding."""
    widths = [len(columns) for columns in domains]
    widest: Columns = np.zeros((len(domains), max(1, *widths)), np.intp)
    for row, columns in enumerate(domains):
        widest[row, : widths[row]] = columns
    there: Bools = np.arange(widest.shape[1]) < np.array(widths)[:, None]
    return widest, there


def _positions(vector: Vector, kept: Sequence[int]) -> slice | list[int]:
    """Return a pod's positions among all kept rows; as a slice if possible, which copies nothing."""
    found = [kept.index(row) for row, _ in vector.row_amounts]
    first, end = found[0], found[-1] + 1
    return slice(first, end) if end - first == len(found) else found


def _amounts(vectors: Sequence[Vector], kept: Sequence[int]) -> Longs:
    """Return by part and row what a pod takes, to be broadcast over domains and nodes."""
    row_amounts_of = [dict(vector.row_amounts) for vector in vectors]
    amounts: Longs = np.array(
        [[row_amounts.get(row, 0) for row in kept] for row_amounts in row_amounts_of], np.int64
    )
    return amounts[:, :, None, None]
