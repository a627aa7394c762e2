"""GpuClustering: pods that ask for GPUs alike go to the same nodes, those with least free first.

A pod's class is a share of a GPU, or its number of whole GPUs. 25 parts of 100 are for how much of its GPUs
a node has in use; to that come 75 if it holds pods of this class only, 50 if it holds them among others, 25
if it holds none with GPUs, 0 if it holds others only. For pods without GPUs all nodes are alike. After Xiao
et al., "Gandiva" (OSDI'18), in the form of Weng et al. (ATC'23).
"""

from collections import Counter
from dataclasses import replace
from typing import Final

import numpy as np

from muster.core.cycle import Config, Scheduler
from muster.core.placement.slots import Vector
from muster.core.words.events import Event, PodsBound, PodsEnded
from muster.core.words.gang import NodeName, PodId
from muster.core.world.eligibility import Eligibility
from muster.core.world.nodes import Columns, Ints, Nodes
from muster.names import GPU, GPU_SHARE
from muster.sim.policies.score import HIGHEST, MOST_GPU, Score
from muster.sim.trace import Trace

#: The class of a pod: so many whole GPUs, a share of one, or none at all.
Class = int
SHARE: Final[Class] = -1
NONE: Final[Class] = 0


def make(config: Config, trace: Trace | None, seed: int) -> Scheduler:
    return _Watched(config)


class _Watched(Scheduler):
    """Tells its order which pods are where."""

    def __init__(self, config: Config) -> None:
        held = Held()
        super().__init__(
            replace(config, order=lambda nodes, eligibility: GpuClustering(nodes, eligibility, held))
        )
        self._held = held

    def apply(self, event: Event) -> None:
        self._held.observe(event)
        super().apply(event)


class Held:
    """Pods on each node, by class; those without GPUs do not count."""

    def __init__(self) -> None:
        self.on: dict[NodeName, Counter[Class]] = {}
        self._pods: dict[PodId, tuple[NodeName, Class]] = {}

    def observe(self, event: Event) -> None:
        if isinstance(event, PodsEnded):
            for pod in event.pods:
                self._forget(pod)
        elif isinstance(event, PodsBound):
            amounts = dict(event.requests)
            kind = SHARE if amounts.get(GPU_SHARE) else amounts.get(GPU, NONE)
            for pod in event.pods:
                self._forget(pod)
                if kind != NONE:
                    self._pods[pod] = (event.node, kind)
                    self.on.setdefault(event.node, Counter())[kind] += 1

    def _forget(self, pod: PodId) -> None:
        before = self._pods.pop(pod, None)
        if before is not None:
            node, kind = before
            self.on[node][kind] -= 1
            self.on[node] += Counter()  # keeps what is above zero


class GpuClustering(Score):
    def __init__(self, nodes: Nodes, eligibility: Eligibility, held: Held) -> None:
        super().__init__(nodes, eligibility)
        self._held = held

    def scores(self, vector: Vector, columns: Columns | None) -> Ints:
        _, _, count = self.asked(vector.row_amounts)
        kind = SHARE if vector.share else count
        some = range(len(self.nodes)) if columns is None else columns.tolist()
        if kind == NONE:
            return np.zeros(len(some), np.int32)
        on, names = self._held.on, self.nodes.names
        company = np.array([_company(on.get(names[column]), kind) for column in some], np.int32)
        used: Ints = HIGHEST // 4 * (MOST_GPU - self.gpu(columns)) // MOST_GPU
        return used + company


def _company(held: Counter[Class] | None, kind: Class) -> int:
    if not held:
        return HIGHEST // 4
    if kind not in held:
        return 0
    return HIGHEST * 3 // 4 if len(held) == 1 else HIGHEST // 2
