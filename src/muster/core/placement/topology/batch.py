"""Fills a batch of domains on copies of their free amounts, to find the first that holds all these pods.

A draft charges each part to the ledger at once, and then every shape's slots are updated over all nodes. A
gang of several shapes has to try many small domains, most of which do not hold it. A batch copies what is
free on the domains' nodes, a few dozen numbers per resource, and fills the copies in the same order and with
the same choices. Several domains are filled at once, one per row, as a row of twenty numbers takes NumPy
hardly less time than fifty such rows. Rows of smaller domains are padded with nodes that take nothing.

It handles only pods without constraints besides room, and packing orders whose keys depend on a node's free
amounts alone (`Order.keys_of`).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from muster.core.demand import Demand
from muster.core.placement.greedy import Filled
from muster.core.placement.slots import Order, Vector
from muster.core.world.nodes import Bools, Columns, Ints, Longs, Nodes

#: How many nodes the domains of one batch may have together: in the first batch, which likely suffices, and
#: later.
_FEW: Final = 100
_MANY: Final = 2048


def first_that_holds(
    nodes: Nodes, order: Order, vectors: Sequence[Vector], demand: Demand, domains: Iterable[Columns]
) -> tuple[int, list[Filled]] | None:
    """Return the index of the first domain that holds the minimum, and by part what goes where in it.

    `vectors`: of the parts' shapes, slots up to date; each domain's columns ascend. None: no domain does.
    """
    tried = 0
    for some in _batches(domains):
        if (found := _Batch(nodes, order, vectors, some).fill(demand)) is not None:
            return tried + found[0], found[1]
        tried += len(some)
    return None


def _batches(domains: Iterable[Columns]) -> Iterator[list[Columns]]:
    batch: list[Columns] = []
    most = _FEW
    for columns in domains:
        if batch and (len(batch) + 1) * len(columns) > most:
            yield batch
            batch, most = [], _MANY
        batch.append(columns)
    if batch:
        yield batch


class _Batch:
    """Arrays of domains × nodes; those of all resources or all parts have these as another, first axis."""

    def __init__(
        self, nodes: Nodes, order: Order, vectors: Sequence[Vector], domains: Sequence[Columns]
    ) -> None:
        self._order = order
        self._vectors = vectors
        widths = np.array([len(columns) for columns in domains])
        self._columns: Columns = np.zeros((len(domains), max(1, int(widths.max()))), np.intp)
        for row, columns in enumerate(domains):
            self._columns[row, : len(columns)] = columns
        there = np.arange(self._columns.shape[1]) < widths[:, None]
        self._fixed = order.fixed(self._columns, vectors)
        #: rows of resources that are kept
        self._kept = sorted(
            {row for v in vectors for row in (*dict(v.row_amounts), *v.devices, *(order.looks_at or ()))}
        )
        self._free: Longs = np.array([nodes.free(row).take(self._columns) for row in self._kept], np.int64)
        #: by part: which of these resources its pods take
        self._takes = [_positions(vector, self._kept) for vector in vectors]
        #: by part: what a pod takes of all of them
        self._amounts = [_amounts(vector, self._kept) for vector in vectors]
        #: by part: slots if the other parts took nothing, so the most there can be
        self._most: list[Ints] = [vector.slots.take(self._columns) * there for vector in vectors]
        #: by part: pods for each node
        self._given: Longs = np.zeros((len(vectors), *self._columns.shape), np.int64)
        #: parts × domains
        self._placed: Longs = np.zeros((len(vectors), len(domains)), np.int64)
        #: of each domain's first node, in a flat array of domains × nodes
        self._starts = (np.arange(len(domains)) * self._columns.shape[1])[:, None]

    def fill(self, demand: Demand) -> tuple[int, list[Filled]] | None:
        """Fill as `Draft.fill_minimum` does, and then the first domain that holds it as far as it goes."""
        parts = demand.parts
        order = sorted(range(len(parts)), key=lambda p: -self._vectors[p].size)
        able: Bools = np.ones(len(self._columns), np.bool_)
        for p in order:
            self._put(p, parts[p].need)
            able &= self._placed[p] >= parts[p].need
            if not able.any():
                return None
        for members, need in demand.joint if demand.need > sum(part.need for part in parts) else ():
            some = [*members]
            for p in reversed(order):
                if p in members:
                    more = need - self._placed[some].sum(axis=0)
                    self._put(p, np.minimum(more, parts[p].count - self._placed[p]))
            able &= self._placed[some].sum(axis=0) >= need
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


def _positions(vector: Vector, kept: Sequence[int]) -> slice | list[int]:
    """Return a pod's positions among all kept rows; as a slice if possible, which copies nothing."""
    found = [kept.index(row) for row, _ in vector.row_amounts]
    first, end = found[0], found[-1] + 1
    return slice(first, end) if end - first == len(found) else found


def _amounts(vector: Vector, kept: Sequence[int]) -> Longs:
    """Return by kept row what a pod takes, to be broadcast over domains and nodes."""
    taken = dict(vector.row_amounts)
    return np.array([taken.get(row, 0) for row in kept], np.int64)[:, None, None]
