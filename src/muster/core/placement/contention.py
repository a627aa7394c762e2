"""Contention: how much of each node's GPUs is demanded by pods that cannot run on all nodes.

Each kind of constraint (selector, affinity, tolerations, volumes) spreads the GPUs that its gangs ask for,
waiting or running, evenly over the GPUs of the nodes that it may use. A node's contention is the sum of
these parts, beyond that of the node with the least, up to all of its GPUs. If all pods may use the same
nodes it is zero everywhere: pods without constraints load all nodes equally. Nodes with a GPU product that
many pods name have a high contention, so that pods which could run elsewhere are better kept off them.

Contention depends only on the present gangs and nodes. Demands are rounded down to three significant bits,
so that small changes change no node. Nodes whose contention changes are logged as changed.
"""

from collections.abc import Iterable
from heapq import nsmallest
from typing import Final

import numpy as np

from muster.core.words.gang import Gang, GangId, Shape
from muster.core.world.devices import WHOLE
from muster.core.world.eligibility import Eligibility
from muster.core.world.gangs import GangState
from muster.core.world.nodes import Ints, Nodes
from muster.names import GPU, GPU_SHARE

#: Contention is counted in parts of a node's GPUs.
PARTS: Final = 16
_PRECISE: Final = 2**12
#: Significant bits of a demand.
_BITS: Final = 3
#: Constraints that are considered: those that ask for most.
_MOST: Final = 64


class Contention:
    def __init__(self, nodes: Nodes, eligibility: Eligibility) -> None:
        self._nodes, self._eligibility = nodes, eligibility
        #: thousandths of GPUs by constraint, that is, a shape that asks for nothing; no zeros
        self._asked: dict[Shape, int] = {}
        #: the gangs that are counted, as they were then
        self._counted: dict[GangId, Gang] = {}
        self._changed = False
        self._as_of = (-1, -1, -1)
        #: by column, in PARTS; None if it is the same everywhere. As of the last `settle`
        self.parts: Ints | None = None

    def gangs_changed(self, changed: Iterable[GangState]) -> None:
        """Record gangs that have arrived, changed or left. A gated gang asks for nothing yet."""
        for state in changed:
            known, gang = self._counted.get(state.id), state.gang
            if gang is not None and gang.gate is not None:
                gang = None
            if gang is known:
                continue
            if known is not None:
                self._count(known, -1)
                del self._counted[state.id]
            if gang is not None:
                self._count(gang, 1)
                self._counted[state.id] = gang

    def _count(self, gang: Gang, times: int) -> None:
        for pod_set in gang.pod_sets:
            shape = pod_set.shape
            amounts = dict(shape.requests)
            if more := (WHOLE * amounts.get(GPU, 0) + amounts.get(GPU_SHARE, 0)) * pod_set.count * times:
                constraint = Shape((), shape.selector, shape.affinity, shape.tolerations, shape.volumes)
                before = self._asked.pop(constraint, 0)
                if after := before + more:
                    self._asked[constraint] = after
                self._changed |= _rounded(before) != _rounded(after)

    def settle(self) -> None:
        """Bring `parts` up to date with gangs and nodes, which have settled."""
        nodes = self._nodes
        as_of = nodes.layout, nodes.capacity_revision, nodes.fact_changes.end
        if not self._changed and as_of == self._as_of:
            return
        before, moved = self.parts, self._as_of[0] != nodes.layout
        self._changed, self._as_of = False, as_of
        self.parts = after = self._measure()
        if moved or (before is None and after is None):
            return  # readers of the log recompute everything, or there is nothing to log
        none = np.zeros(len(nodes), np.int32)
        columns = np.flatnonzero((none if before is None else before) != (none if after is None else after))
        if len(columns):
            nodes.changes.append(columns, len(columns))

    def _measure(self) -> Ints | None:
        if len(self._asked) < 2:
            return None
        nodes = self._nodes
        gpus = nodes.capacity(nodes.devices.row)
        asked = np.zeros(len(nodes), np.int64)
        for constraint in self._largest():
            eligible = self._eligibility.of(constraint).eligible
            there = int(gpus[eligible].sum(dtype=np.int64)) * WHOLE
            if there:
                asked[eligible] += min(_rounded(self._asked[constraint]), there) * _PRECISE // there
        wanted = asked[(asked > 0) & (gpus > 0)]
        if not len(wanted) or wanted.max() == (least := wanted.min()):
            return None
        beyond = np.clip(asked - least, 0, _PRECISE) * PARTS + _PRECISE // 2
        parts = (beyond // _PRECISE).astype(np.int32)
        parts[gpus <= 0] = 0
        return parts if parts.any() else None

    def _largest(self) -> list[Shape]:
        if len(self._asked) <= _MOST:
            return list(self._asked)
        return nsmallest(_MOST, self._asked, key=lambda shape: (-self._asked[shape], repr(shape)))


def _rounded(asked: int) -> int:
    less = max(asked.bit_length() - _BITS, 0)
    return asked >> less << less
