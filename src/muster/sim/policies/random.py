"""Random: any node that takes the pod, and any of its GPUs that fit; each as likely as any other."""

from dataclasses import replace

import numpy as np

from muster.core.cycle import Config, Scheduler
from muster.core.placement.slots import NO_SLOT, Order, Vector
from muster.core.world.devices import WHOLE
from muster.core.world.eligibility import Eligibility
from muster.core.world.nodes import Columns, Ints, Nodes, RowAmounts
from muster.sim.trace import Trace


def make(config: Config, trace: Trace | None, seed: int) -> Scheduler:
    return Scheduler(replace(config, order=lambda nodes, eligibility: Random(nodes, eligibility, seed)))


class Random(Order):
    local = False  # each reading draws new values

    def __init__(self, nodes: Nodes, eligibility: Eligibility, seed: int) -> None:
        super().__init__(nodes, eligibility)
        self._generator = np.random.default_rng(seed)

    def keys(self, vector: Vector, columns: Columns | None) -> Ints:
        number = len(self.nodes) if columns is None else len(columns)
        return self._generator.integers(0, NO_SLOT, number, dtype=np.int32)

    def device(self, column: int, row_amounts: RowAmounts, share: int) -> int:
        devices, node = self.nodes.devices, self.nodes.names[column]
        fitting = [i for i, used in enumerate(devices.used(node)) if 0 < used <= WHOLE - share]
        empty = self.nodes.free_at(devices.row, column)
        chosen = int(self._generator.integers(len(fitting) + max(empty, 0)))
        return fitting[chosen] if chosen < len(fitting) else devices.unopened(node)
