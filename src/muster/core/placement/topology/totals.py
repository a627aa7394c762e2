"""Totals of room in every domain of the topology: slots by shape, amounts by resource.

Summing ten thousand nodes over their domains takes longer than all the rest of a placement, and a gang of six
shapes needs six such sums. So the sums are cached by cell, with the values that they were made of, and follow
the log of changed nodes: a node's difference is added to its cell.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from muster.core.placement.order import Vector
from muster.core.words.gang import Shape
from muster.core.world.nodes import Columns, Ints, Longs, Nodes
from muster.core.world.topology import Topology

#: Sums that are kept; the least recently used is dropped first. At 10,000 nodes one takes 45 kB.
_KEPT: Final = 256


@dataclass(slots=True)
class _Kept:
    #: by column, as of `position` in the log of changes
    values: Ints
    #: by cell
    sums: Longs
    position: int
    #: of the topology
    version: int


class Totals:
    """Sums over the cells of the topology as of now: read them before the ledger changes again."""

    def __init__(self, nodes: Nodes, topology: Topology) -> None:
        self._nodes = nodes
        self._topology = topology
        self._kept: dict[Shape | int, _Kept] = {}

    def slots(self, vector: Vector) -> Longs:
        """Return by cell the slots of a vector, which must be up to date."""
        return self._sums(vector.shape, lambda columns: vector.slots[columns])

    def free(self, row: int) -> Longs:
        """Return by cell what is free of a resource."""
        free = self._nodes.free(row)
        return self._sums(row, lambda columns: np.maximum(free[columns], 0))

    def _sums(self, key: Shape | int, read: Callable[[Columns | list[int] | slice], Ints]) -> Longs:
        nodes, topology = self._nodes, self._topology
        kept, changed = self._kept.pop(key, None), None
        if kept is not None and kept.version == topology.version:
            changed = nodes.changed(kept.position)
        if kept is None or changed is None:
            values = read(slice(None)).copy()
            kept = _Kept(values, topology.sums(values), 0, topology.version)
        else:
            values = read(changed)
            more = np.subtract(values, kept.values[changed], dtype=np.int64)
            if more.any():
                kept.values[changed] = values
                np.add.at(kept.sums, topology.cells[changed], more)
        kept.position = nodes.changes.end
        self._kept[key] = kept
        if len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]
        return kept.sums
