"""Orders by score, as Kubernetes' plugins have them: whole numbers from 0 to 100, the highest first."""

from typing import Final

import numpy as np

from muster.core.placement.slots import Order, Vector
from muster.core.world.devices import WHOLE
from muster.core.world.eligibility import Eligibility
from muster.core.world.nodes import UNLIMITED, Columns, Ints, Nodes, RowAmounts

HIGHEST: Final = 100
#: What the largest node is taken to have: milli-CPU, thousandths of GPUs.
MOST_CPU: Final = 128_000
MOST_GPU: Final = 8 * WHOLE


class Score(Order):
    def __init__(self, nodes: Nodes, eligibility: Eligibility) -> None:
        super().__init__(nodes, eligibility)
        self._cpu = nodes.row("cpu")

    def scores(self, vector: Vector, columns: Columns | None) -> Ints:
        """Of these columns, or of all, in order; nodes without a slot do not count."""
        raise NotImplementedError

    def keys(self, vector: Vector, columns: Columns | None) -> Ints:
        return HIGHEST - self.scores(vector, columns)

    def cpu(self, columns: Columns | None) -> Ints:
        """Milli-CPU that are free."""
        free = self.nodes.free(self._cpu) if columns is None else self.nodes.free(self._cpu)[columns]
        return np.minimum(free, UNLIMITED).astype(np.int32, copy=False)

    def gpu(self, columns: Columns | None) -> Ints:
        """Thousandths of GPUs that are free."""
        return self.nodes.thousandths(columns)

    def asked(self, row_amounts: RowAmounts) -> tuple[int, int, int]:
        """Milli-CPU, thousandths of one GPU (a share, or all), and how many GPUs, 0 to n."""
        amounts = dict(row_amounts)
        share = self.nodes.share(row_amounts)
        count = 1 if share else amounts.get(self.nodes.devices.row, 0)
        return amounts.get(self._cpu, 0), share or (WHOLE if count else 0), count


def floor(values: "np.typing.NDArray[np.float64]") -> Ints:
    whole: Ints = np.floor(values).astype(np.int32)
    return whole
