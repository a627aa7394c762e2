"""The scheduler's own packing orders (`slots.Order`): `Pack` and `Spread`.

docs/internals/scheduling.md ("How a gang is placed") says in which order `Pack` fills nodes. It is
dominant-resource best fit with the remainder first, and a key per node: nodes with free devices that the pod
does not ask for, what the pod strands of the GPUs, what is left over of the scarce resource, and the slots.
For a pod that takes GPUs, the node's contention (`Contention`) is added to what it strands. A share of a GPU
has one sum in thousandths instead.

Unlike FGD (fragmentation gradient descent, `muster.sim.policies.fgd`), `Pack` considers of other shapes only
how many GPUs they ask for and which nodes they may use; how much CPU they need is guessed from how the node
was built. It is therefore a vector operation.

`Spread` is its opposite, least of the scarce resource in use first, for clusters where even load matters more
than room for large pods.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import Final

import numpy as np

from muster.core.placement.slots import Fixed, Order, Vector
from muster.core.words.amounts import Sums
from muster.core.words.gang import Gang, GangId, Shape
from muster.core.world.devices import WHOLE
from muster.core.world.eligibility import Eligibility
from muster.core.world.gangs import GangState
from muster.core.world.nodes import UNLIMITED, Columns, Ints, Longs, Nodes, Row
from muster.names import GPU, GPU_SHARE

#: Fields of a key, from the lowest bits: slots, what is left over, what is stranded, devices kept off.
_SLOTS: Final = 11
_SLOTS_MAX: Final = 2**_SLOTS - 1
_LEFT: Final = 13
#: one less than the field holds, so that no key equals NO_SLOT
_LEFT_MAX: Final = 2**_LEFT - 2
_STRANDED: Final = _SLOTS + _LEFT
_TOP: Final = 30
_STRANDED_MAX: Final = 2 ** (_TOP - _STRANDED) - 1
#: What is stranded is counted in parts of a node's GPUs.
_PARTS: Final = 32
#: A GPU has enough CPU with 4/5 of the CPU per GPU that the node was built with.
_SERVES: Final = (5, 4)
#: GPUs of one node that are counted, at most.
_MOST_GPUS: Final = 1000
#: Costs in thousandths of a GPU: to open a GPU, and to use an empty node of eight GPUs, not a full one.
_OPENING: Final = 400
_EMPTINESS: Final = 300
#: The key of a share of cost zero; costs below zero occur.
_NOTHING: Final = 2**28
#: Steps between an empty and a full node.
_STEPS: Final = 10_000


class Pack(Order):
    fills = True

    def __init__(self, nodes: Nodes, eligibility: Eligibility) -> None:
        super().__init__(nodes, eligibility)
        self._cpu, self._gpu = self.looks_at = nodes.row("cpu"), nodes.devices.row
        self._contention = Contention(nodes, eligibility)

    def gangs_changed(self, changed: Iterable[GangState]) -> None:
        self._contention.gangs_changed(changed)

    def settle(self) -> None:
        self._contention.settle()

    def keys(self, vector: Vector, columns: Columns | None) -> Ints:
        some = slice(None) if columns is None else columns
        fixed = self.fixed(columns, (vector,))

        def free(row: int) -> Row:
            return self.nodes.free(row)[some]

        if vector.share:
            return self._keep_off(vector, free, self._of_share(vector, columns, fixed, free))
        return self.keys_of(vector, fixed, vector.slots[some], free)

    def fixed(self, columns: Columns | None, vectors: Sequence[Vector]) -> Fixed | None:
        nodes, contention = self.nodes, self._contention.parts
        if contention is None and not any(vector.may_strand for vector in vectors):
            return None
        some = slice(None) if columns is None else columns
        gpus = np.minimum(nodes.capacity(self._gpu)[some], _MOST_GPUS).astype(np.int64) * WHOLE
        cores = np.maximum(np.minimum(nodes.capacity(self._cpu)[some], UNLIMITED), 1).astype(np.int64)
        open_ = nodes.devices.left(columns).sum(axis=0, dtype=np.int64)
        contended = None if contention is None else contention[some]
        return Fixed(gpus, cores * _SERVES[1], gpus * _SERVES[0], open_, contended)

    def keys_of(
        self, vector: Vector, fixed: Fixed | None, slots: Ints | Longs, free: Callable[[int], Row]
    ) -> Ints:
        scarce = free(vector.scarce)
        # an amount that is too large for its row fits nowhere: all slots are zero
        amount = vector.amount if scarce.itemsize > 4 else min(vector.amount, UNLIMITED)
        left = scarce - np.multiply(slots, amount, dtype=scarce.dtype)
        if coarse := _coarse(vector.amount):
            left >>= coarse
        key: Ints = np.minimum(left, _LEFT_MAX, out=left).astype(np.int32, copy=False)
        key <<= _SLOTS
        key |= np.minimum(slots, _SLOTS_MAX)
        if fixed is not None and vector.may_strand:
            strands = self._strands(vector, fixed, free)
            capacity = np.maximum(fixed.gpus, WHOLE)
            strands *= 2 * _PARTS
            strands += (2 * _PARTS + 1) * capacity
            parts = strands // (capacity * 2)
            if fixed.contended is not None and self._takes(vector):
                parts += fixed.contended
            parts = np.minimum(np.maximum(parts, 0), _STRANDED_MAX)
            key |= parts.astype(np.int32) << _STRANDED
        elif fixed is not None and fixed.contended is not None and self._takes(vector):
            key |= fixed.contended << _STRANDED
        return self._keep_off(vector, free, key)

    def update(self, vector: Vector, columns: list[int]) -> None:
        """Update keys one by one, without the fixed cost of array operations; shares still use arrays."""
        if vector.share:
            super().update(vector, columns)
            return
        nodes, scarce, amount = self.nodes, vector.scarce, vector.amount
        asked = dict(vector.row_amounts) if vector.may_strand else {}
        contention = self._contention.parts
        if contention is not None and not self._takes(vector):
            contention = None
        coarse = _coarse(amount)
        for column in columns:
            slots = vector.slots.item(column)
            if not slots:
                continue
            left = nodes.free_at(scarce, column) - slots * amount
            key = min(left >> coarse, _LEFT_MAX) << _SLOTS | min(slots, _SLOTS_MAX)
            parts = 0 if contention is None else contention.item(column)
            if vector.may_strand:
                capacity = min(max(nodes.capacity_at(self._gpu, column), 1), _MOST_GPUS) * WHOLE
                strands = self._strands_at(column, asked)
                parts += (strands * _PARTS * 2 + capacity) // (capacity * 2) + _PARTS
            if parts > 0:
                key |= min(parts, _STRANDED_MAX) << _STRANDED
            for row in vector.devices:
                if nodes.free_at(row, column) > 0:
                    key |= 1 << _TOP
            vector.key[column] = key

    def may_strand(self, vector: Vector) -> bool:
        """Whether a pod asks for more than 4/5 of the CPU per GPU of some node.

        Other pods strand nothing. They may put stranded GPUs to use, but that counts only for pods that share
        a GPU, so the many other pods cost no computation here.
        """
        nodes, asked = self.nodes, dict(vector.row_amounts)
        gpus = nodes.capacity(self._gpu) * (_SERVES[0] / _SERVES[1])
        # the most GPUs that one milli-CPU serves on any node
        served = float((gpus / np.maximum(nodes.capacity(self._cpu), 1)).max(initial=0.0))
        if not served:
            return False
        return vector.share > 0 or asked.get(self._cpu, 0) * served > asked.get(self._gpu, 0)

    def _of_share(
        self, vector: Vector, columns: Columns | None, fixed: Fixed | None, free: Callable[[int], Row]
    ) -> Ints:
        """Keys for a share of a GPU: its cost in thousandths of a GPU (docs/internals/scheduling.md)."""
        devices, share = self.nodes.devices, vector.share
        left = devices.left(columns)
        least = np.where(left >= share, left - share, UNLIMITED).min(axis=0, initial=UNLIMITED)
        cost = np.where(least < UNLIMITED, least, WHOLE - share + _OPENING).astype(np.int64)
        cost += np.maximum(self.nodes.thousandths(columns) - share, 0) * _EMPTINESS // (8 * WHOLE)
        if fixed is not None and vector.may_strand:
            cost += self._strands(vector, fixed, free)
        if fixed is not None and fixed.contended is not None:
            cost += fixed.contended * share // PARTS
        return np.clip(cost + _NOTHING, 0, 2 * _NOTHING).astype(np.int32)

    def _keep_off(self, vector: Vector, free: Callable[[int], Row], key: Ints) -> Ints:
        """Put nodes with free devices that the pod does not ask for behind all others."""
        for row in vector.devices:
            key |= (free(row) > 0).astype(np.int32) << _TOP
        return key

    def _takes(self, vector: Vector) -> bool:
        """Whether the pod takes whole GPUs of its node."""
        return any(row == self._gpu for row, _ in vector.row_amounts)

    def _strands(self, vector: Vector, fixed: Fixed, free: Callable[[int], Row]) -> Longs:
        """Thousandths of GPUs that a pod leaves without CPU on each node; below zero: puts to use."""
        asked = dict(vector.row_amounts)
        idle = np.maximum(np.minimum(free(self._cpu), UNLIMITED), 0)
        left = fixed.open + np.maximum(free(self._gpu), 0) * np.int64(WHOLE)
        before = np.maximum(left - idle * fixed.serves // fixed.cpu, 0)
        idle = np.maximum(idle - min(asked.get(self._cpu, 0), UNLIMITED), 0)
        left -= vector.share or WHOLE * asked.get(self._gpu, 0)
        strands: Longs = np.maximum(left - idle * fixed.serves // fixed.cpu, 0)
        strands -= before
        return strands

    def _strands_at(self, column: int, asked: Mapping[int, int]) -> int:
        """As `_strands`, for one node and a pod that takes `asked` by row, and no share."""
        nodes = self.nodes
        cores = min(nodes.capacity_at(self._cpu, column), UNLIMITED) or 1
        gpus = min(nodes.capacity_at(self._gpu, column), _MOST_GPUS) * WHOLE

        def stranded(free: int, idle: int) -> int:
            return max(free - max(idle, 0) * gpus * _SERVES[0] // (cores * _SERVES[1]), 0)

        free = nodes.thousandths_at(column)
        idle = min(max(nodes.free_at(self._cpu, column), 0), UNLIMITED)
        taken = WHOLE * asked.get(self._gpu, 0)
        return stranded(free - taken, idle - asked.get(self._cpu, 0)) - stranded(free, idle)


class Spread(Order):
    """Least part of the scarce resource in use first, in steps of 1/10,000."""

    def keys(self, vector: Vector, columns: Columns | None) -> Ints:
        some = slice(None) if columns is None else columns
        free = self.nodes.free(vector.scarce)[some].astype(np.int64)
        capacity = np.maximum(self.nodes.capacity(vector.scarce)[some], 1)
        return (_STEPS - np.maximum(free, 0) * _STEPS // capacity).astype(np.int32)


def _coarse(amount: int) -> int:
    """Bits dropped from a remainder so that it fits its field: steps below 1/1000 of one pod's request."""
    return max(0, amount.bit_length() - 11)


#: Contention is counted in parts of a node's GPUs.
PARTS: Final = 16
_PRECISE: Final = 2**12
#: Significant bits of a demand.
_BITS: Final = 3
#: Constraints that are considered: those that ask for most.
_MOST: Final = 64
#: Thousandths of a GPU that one of each takes.
_WORTH: Final = {GPU: WHOLE, GPU_SHARE: 1}
#: Shapes whose constraint is kept.
_KEPT: Final = 1024


class Contention:
    """How much of each node's GPUs is demanded by pods that cannot run on all nodes.

    Each kind of constraint (selector, affinity, tolerations, volumes) spreads the GPUs that its gangs ask
    for, waiting or running, evenly over the GPUs of the nodes that it may use. A node's contention is the sum
    of these parts, beyond that of the node with the least, up to all of its GPUs. Nodes with a GPU product
    that many pods name have a high contention, so that pods which could run elsewhere are better kept off
    them.

    Contention depends only on the present gangs and nodes. Demands are rounded down to three significant
    bits, so that small changes change no node. Nodes whose contention changes are logged as changed.
    """

    def __init__(self, nodes: Nodes, eligibility: Eligibility) -> None:
        self._nodes, self._eligibility = nodes, eligibility
        #: thousandths of GPUs by constraint, that is, a shape that asks for nothing; no zeros
        self._asked = Sums[Shape]()
        #: by shape
        self._constraints: dict[Shape, Shape] = {}
        #: the gangs that are counted, as they were then
        self._counted: dict[GangId, Gang] = {}
        self._changed = False
        self._as_of = (-1, -1, -1)
        #: by column, in PARTS; None if it is the same everywhere. As of the last `settle`
        self.parts: Ints | None = None

    def gangs_changed(self, changed: Iterable[GangState]) -> None:
        """Record gangs that have arrived, changed or left. A gated gang asks for nothing yet."""
        counted = self._counted
        for state in changed:
            known, gang = counted.get(state.id), state.gang
            if gang is known or (known is None and gang is not None and gang.gate is not None):
                continue
            if gang is not None and gang.gate is not None:
                gang = None
            if known is not None:
                self._count(known, -1)
                del self._counted[state.id]
            if gang is not None:
                self._count(gang, 1)
                self._counted[state.id] = gang

    def _count(self, gang: Gang, times: int) -> None:
        for pod_set in gang.pod_sets:
            shape = pod_set.shape
            gpus = sum(
                [_WORTH[resource] * amount for resource, amount in shape.requests if resource in _WORTH]
            )
            if more := gpus * pod_set.count * times:
                if (constraint := self._constraints.get(shape)) is None:
                    if len(self._constraints) >= _KEPT:
                        self._constraints.clear()
                    constraint = Shape((), shape.selector, shape.affinity, shape.tolerations, shape.volumes)
                    self._constraints[shape] = constraint
                before = self._asked[constraint]
                self._asked.count(constraint, more)
                self._changed |= _rounded(before) != _rounded(before + more)

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
