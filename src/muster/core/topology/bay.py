"""Domains, reckoned apart: which is the first of them into which these pods go together?

Greedy placement on the ledger (`placement.Trial`) charges each part at once, and every shape's slots catch up
with what was charged, over all nodes. A gang of several shapes that looks for a domain asks that question
for many small domains and is told no by most of them. Bays are copies of what is free on the domains'
nodes, a few dozen numbers per resource; they are filled in the same order and with the same choices, and
the ledger learns of it only when all has gone in.

Several domains are filled at once, one per row, as a row of twenty numbers takes NumPy hardly less time than
fifty such rows. Rows of smaller domains end in nodes that take nothing.

Only for pods without constraints besides room, and for packing orders whose keys depend on a node's free
amounts alone (`Order.keys_of`).
"""

from collections.abc import Sequence

import numpy as np

from muster.core.nodes import Bools, Columns, Ints, Longs, Nodes, Row
from muster.core.packing import Order
from muster.core.placement import Filled, Part
from muster.core.slots import Vector


class Bays:
    """`vectors` are those of the parts' shapes, slots up to date; the columns of each domain ascend."""

    def __init__(
        self, nodes: Nodes, order: Order, vectors: Sequence[Vector], domains: Sequence[Columns]
    ) -> None:
        self._order = order
        self._vectors = vectors
        #: domains × nodes, as everything here
        self._columns, there = _side_by_side(domains)
        self._ground = order.ground(self._columns, vectors)
        #: rows of resources that are kept
        self._kept = sorted({row for v in vectors for row in (*dict(v.demand), *v.devices, *order.looks_at)})
        #: resources × domains × nodes
        self._free: Row = np.array([nodes.free(row)[self._columns] for row in self._kept])
        #: by part: which resources its pods take, and amounts of all that are kept
        self._takes = [_positions(vector, self._kept) for vector in vectors]
        self._amounts = _amounts(vectors, self._kept, self._free)
        #: by part: slots if there were no others, which are as many as there can be
        self._most: list[Ints] = [vector.slots[self._columns] * there for vector in vectors]
        #: by part: pods for each node
        self._given: list[Ints] = [np.zeros(self._columns.shape, np.int32)] * len(vectors)
        #: parts × domains
        self._placed: Longs = np.zeros((len(vectors), len(domains)), np.int64)

    def fill(self, parts: Sequence[Part], need: int, order: Sequence[int]) -> tuple[int, list[Filled]] | None:
        """As `Trial.fill_minimum`, and then as many more as fit: the first row that holds the minimum, and by
        part what was put where. None if no domain does.

        `order` is that of the parts.
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
            filled.append((columns[used], given[first][used].astype(np.int64)))
        return first, filled

    def _put(self, p: int, count: int | Longs) -> None:
        """Put up to so many more pods of a part into each domain, as far as they fit."""
        vector = self._vectors[p]
        takes, amounts = self._takes[p], self._amounts[p]
        free = (self._free[takes] // amounts[takes]).min(axis=0)
        slots: Ints = np.minimum(free, self._most[p]).astype(np.int32, copy=False)
        np.maximum(slots, 0, out=slots)
        key = self._order.keys_of(vector, self._ground, slots, self._free_of)
        if vector.rank is None:
            order = key.argsort(axis=1, kind="stable")
        else:
            order = np.lexsort((key, vector.rank[self._columns]))
        domains = np.arange(len(order))[:, None]
        if not isinstance(count, int):
            count = np.maximum(count, 0)[:, None]
        filled = np.minimum(slots[domains, order].cumsum(axis=1, dtype=np.int64), count).astype(np.int32)
        self._placed[p] += filled[:, -1]
        filled[:, 1:] -= filled[:, :-1].copy()
        times = np.empty_like(slots)
        times[domains, order] = filled
        self._given[p] = self._given[p] + times
        self._free -= times * amounts

    def _free_of(self, row: int) -> Row:
        free: Row = self._free[self._kept.index(row)]
        return free


def _side_by_side(domains: Sequence[Columns]) -> tuple[Columns, Bools]:
    """Their columns, a domain per row, and which cells are nodes of it: of a domain to be kept off, none."""
    widths = [len(columns) for columns in domains]
    widest: Columns = np.zeros((len(domains), max(1, *widths)), np.intp)
    for row, columns in enumerate(domains):
        widest[row, : widths[row]] = columns
    there: Bools = np.arange(widest.shape[1]) < np.array(widths)[:, None]
    return widest, there


def _positions(vector: Vector, kept: Sequence[int]) -> slice | list[int]:
    """Where among all that are kept a pod's rows are; a slice, if it can be, as that copies nothing."""
    found = [kept.index(row) for row, _ in vector.demand]
    first, end = found[0], found[-1] + 1
    return slice(first, end) if end - first == len(found) else found


def _amounts(vectors: Sequence[Vector], kept: Sequence[int], like: Row) -> Row:
    """By part and row what a pod takes, to be broadcast over domains and nodes."""
    most = np.iinfo(like.dtype).max
    demands = [{row: min(amount, most) for row, amount in vector.demand} for vector in vectors]
    amounts = np.array([[demand.get(row, 0) for row in kept] for demand in demands], np.int64)
    wide = like.dtype == np.int64
    return (amounts if wide else amounts.astype(np.int32))[:, :, None, None]
