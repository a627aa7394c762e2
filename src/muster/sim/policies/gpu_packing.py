"""GpuPacking: GPUs that are shared already, then empty ones of nodes in use, then nodes with all GPUs empty.

For a pod without GPUs all nodes are alike. Otherwise

- all GPUs of the node are empty: 33 less their number;
- else those that fit with least left would be taken: 50 less the empty ones among them, at least 33;
- if none of them is empty: 100 less a tenth of the percentages that they have left, at least 50.

The baseline of that name in Weng et al. (ATC'23).
"""

from typing import Final

import numpy as np

from muster.core.placement.slots import Vector
from muster.core.world.devices import WHOLE
from muster.core.world.nodes import UNLIMITED, Columns, Ints
from muster.sim.policies.score import HIGHEST, Score

_IN_USE: Final = HIGHEST // 2
_UNUSED: Final = HIGHEST // 3


class GpuPacking(Score):
    def scores(self, vector: Vector, columns: Columns | None) -> Ints:
        _, thousandths, count = self.asked(vector.row_amounts)
        devices, row = self.nodes.devices, self.nodes.devices.row
        empty = self.nodes.free(row) if columns is None else self.nodes.free(row)[columns]
        if not count:
            return np.zeros_like(empty)
        capacity = self.nodes.capacity(row) if columns is None else self.nodes.capacity(row)[columns]
        if thousandths == WHOLE:
            scores = np.full_like(empty, max(_IN_USE - count, _UNUSED))
        else:
            left = devices.left(columns)
            least = np.where(left >= thousandths, left, UNLIMITED).min(axis=0, initial=UNLIMITED)
            shared = np.maximum(HIGHEST - (least * np.int64(HIGHEST) // WHOLE) // 10, _IN_USE)
            scores = np.where(least < UNLIMITED, shared, _IN_USE - 1).astype(np.int32)
        return np.where(empty == capacity, np.maximum(_UNUSED - empty, empty), scores)
