"""A few nodes, reckoned apart: would these pods go into this domain together?

Greedy placement on the ledger (`placement.Trial`) charges each part at once, and every shape's slots catch up
with what was charged, over all nodes. A gang of several shapes that looks for a domain asks that question
for many small domains and is told no by most of them. A bay copies what is free on the domain's nodes, a
few dozen numbers per resource, and fills the copy in the same order and with the same choices; the ledger
learns of it only if all has gone in.

Only for pods without constraints besides room, and for packing orders whose keys depend on a node's free
amounts alone (`Order.keys_of`).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from muster.core.nodes import UNLIMITED, Columns, Ints, Nodes
from muster.core.packing import NO_SLOT, Order
from muster.core.placement import Part
from muster.core.slots import Vector

#: Columns of `Bay.columns` by their position, and pods for each.
Filled = tuple[Columns, npt.NDArray[np.int64]]


class Bay:
    """`vectors` are those of the parts' shapes, up to date; `columns` ascend."""

    def __init__(self, nodes: Nodes, order: Order, vectors: Sequence[Vector], columns: Columns) -> None:
        self.columns = columns
        self._order = order
        self._vectors = vectors
        rows = {row for vector in vectors for row in (*dict(vector.demand), *vector.devices, *order.looks_at)}
        self._free: dict[int, Ints] = {row: nodes.free(row)[columns] for row in rows}
        #: by part: no limit where its pods may go, else no slot
        self._open = [np.where(v.slots[columns] > 0, _MANY, _NONE) for v in vectors]

    def fill(self, parts: Sequence[Part], need: int, order: Sequence[int]) -> list[list[Filled]] | None:
        """As `Trial.fill_minimum`, and then as many more as fit: by part what was put where, in columns.

        `order` is that of the parts; None if the minimum does not fit.
        """
        filled: list[list[Filled]] = [[] for _ in parts]
        placed = [0] * len(parts)

        def put(p: int, count: int) -> None:
            count = min(count, parts[p].count - placed[p])
            if count > 0:
                columns, times = self._put(p, count)
                if len(columns):
                    filled[p].append((self.columns[columns], times))
                    placed[p] += int(times.sum())

        for p in order:
            put(p, parts[p].need)
            if placed[p] < parts[p].need:
                return None
        for p in reversed(order):
            put(p, need - sum(placed))
        if sum(placed) < need:
            return None
        for p in order:
            put(p, parts[p].count)
        return filled

    def _put(self, p: int, count: int) -> Filled:
        vector, free = self._vectors[p], self._free
        slots = self._open[p]
        if not slots.any():
            return np.zeros(0, np.intp), np.zeros(0, np.int64)
        for row, amount in vector.demand:
            slots = np.minimum(slots, free[row] // amount)
        key = self._order.keys_of(vector, self.columns, slots, free.__getitem__)
        key[slots <= 0] = NO_SLOT
        if vector.rank is None:
            order = key.argsort(kind="stable")
        else:
            order = np.lexsort((key, vector.rank[self.columns]))
        times = np.maximum(slots[order], 0)
        filled = times.cumsum(dtype=np.int64)
        cut = int(filled.searchsorted(count)) + 1
        order, times = order[:cut], times[:cut]
        if cut <= len(filled) and filled[cut - 1] > count:
            times[-1] -= filled[cut - 1] - count
        for row, amount in vector.demand:
            free[row][order] -= times * np.int32(amount)
        used = times > 0
        return order[used], times[used].astype(np.int64)


_MANY, _NONE = np.int32(UNLIMITED), np.int32(0)
