"""The order in which nodes are filled with pods of a shape: the one place where packing orders plug in.

An order gives each node that takes the pod a key; the node of the lowest key is filled first, and of equal
keys the smallest name. Keys are kept per shape and updated for the nodes that have changed (`slots.py`), so
an order computes few keys at a time. An order also says which of a node's GPUs a share is put on.

`Pack` is the scheduler's own:

1. nodes without free devices that the pod does not ask for: a CPU pod stays off free GPUs;
2. then nodes on which the pod strands the least part of the GPUs, that is, leaves them without the CPU to use
   them. A GPU has enough with 4/5 of the CPU per GPU that its node was built with;
3. then nodes that whole pods fill exactly, by what would be left over of the scarce resource;
4. then the tightest node, by fewest slots: large holes stay whole for pods that need them.

For a pod that takes GPUs, the node's contention (`contention.py`) is added to what the pod strands: how much
of the node's GPUs is demanded by pods that cannot run on all nodes. In step 2 a contention of all of a node's
GPUs counts as much as half of them stranded. Contention is zero where all pods may use the same nodes.

The scarce resource of a shape is the one of which it asks the largest part of all capacity. For a share of
a GPU, steps 2 to 4 are one sum in thousandths of a GPU: what is stranded, what is left on the GPU that it
fits best (an empty one counts for 400 more), up to 300 for how empty the node is, and the share's part of the
contention.

This is dominant-resource best fit with the remainder first. Unlike FGD (fragmentation gradient descent,
`muster.sim.policies.fgd`), it considers of other shapes only how many GPUs they ask for and which nodes they
may use; how much CPU they need is guessed from how the node was built. It is therefore a vector operation,
and on the trace of FGD's own evaluation it leaves fewer GPUs idle (docs/performance.md).

`Spread` is its opposite, least of the scarce resource in use first, for clusters where even load matters more
than room for large pods. The published orders that muster is compared with are in `muster.sim.policies`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from muster.core.placement.contention import PARTS, Contention
from muster.core.world.devices import WHOLE
from muster.core.world.eligibility import Eligibility
from muster.core.world.gangs import GangState
from muster.core.world.nodes import UNLIMITED, Columns, Ints, Longs, Nodes, Row, RowAmounts

if TYPE_CHECKING:
    from muster.core.placement.slots import Vector


#: The key of a node without a slot.
NO_SLOT: Final = UNLIMITED

#: Fields of a key, from the lowest bits: slots, what is left over, what is stranded, devices kept off.
_SLOTS: Final = 11
_SLOTS_MAX: Final = 2**_SLOTS - 1
_LEFT: Final = 13
#: one less than the field holds, so that no key equals NO_SLOT
_LEFT_MAX: Final = 2**_LEFT - 2
_TOP: Final = 30
_STRANDS_MAX: Final = 2 ** (_TOP - _SLOTS - _LEFT) - 1
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


class Order:
    """An order by keys; subclasses say what the keys are."""

    #: Whether the first node is filled with as many pods of a group as it takes; else each pod of a group is
    #: placed by the order as it is then.
    fills = False
    #: Whether the key of a node depends on that node alone; else all keys are computed at each reading.
    local = True

    def __init__(self, nodes: Nodes, eligibility: Eligibility) -> None:
        self.nodes = nodes
        self.eligibility = eligibility

    def keys(self, vector: "Vector", columns: Columns | None) -> Ints:
        """The keys of these columns, or of all, in their order: int32 from 0 to below NO_SLOT.

        `vector.slots` is up to date; keys of nodes without a slot do not count.
        """
        raise NotImplementedError

    #: Whether `keys_of` is implemented, and the rows that it reads besides those of the demand.
    free_alone = False
    looks_at: tuple[int, ...] = ()

    def gangs_changed(self, changed: Iterable[GangState]) -> None:
        """Record gangs that have changed."""
        return

    def settle(self) -> None:
        """Prepare for a new cycle, in which nodes and gangs stay as they are now."""
        return

    def ground(self, columns: Columns | None, vectors: "Sequence[Vector]") -> "Ground | None":
        """The `Ground` of these columns, or of all, for `keys_of` these shapes; None if no shape needs it."""
        raise NotImplementedError

    def keys_of(
        self, vector: "Vector", ground: "Ground | None", slots: Ints, free: Callable[[int], Row]
    ) -> Ints:
        """The keys that some nodes would have with these `slots`, and with `free(row)` of each resource free.

        Not for shares of GPUs.
        """
        raise NotImplementedError

    def basis(self, vector: "Vector") -> bool:
        """What keys of this shape depend on besides their node; evaluated when capacities have changed.

        When it changes, all keys are computed again. `vector.basis` has its last value.
        """
        return False

    def update(self, vector: "Vector", columns: list[int]) -> None:
        """Bring the keys of a few columns up to date; those without a slot are NO_SLOT already."""
        some = np.array([column for column in columns if vector.slots.item(column)], np.intp)
        if len(some):
            vector.key[some] = self.keys(vector, some)

    def device(self, column: int, row_amounts: RowAmounts, share: int) -> int:
        """Which of a node's GPUs a share is put on: the one with least left that still fits.

        The rest of the pod's demand is not charged to the node yet.
        """
        return self.nodes.devices.best_fit(self.nodes.names[column], share)


class Pack(Order):
    fills = True
    free_alone = True

    def __init__(self, nodes: Nodes, eligibility: Eligibility) -> None:
        super().__init__(nodes, eligibility)
        self._cpu, self._gpu = self.looks_at = nodes.row("cpu"), nodes.devices.row
        self._contention = Contention(nodes, eligibility)

    def gangs_changed(self, changed: Iterable[GangState]) -> None:
        self._contention.gangs_changed(changed)

    def settle(self) -> None:
        self._contention.settle()

    def keys(self, vector: "Vector", columns: Columns | None) -> Ints:
        nodes = self.nodes
        some = slice(None) if columns is None else columns
        ground = self.ground(columns, (vector,))

        def free(row: int) -> Row:
            return nodes.free(row)[some]

        if not vector.share:
            return self.keys_of(vector, ground, vector.slots[some], free)
        key = self._of_share(vector, columns, ground, free)
        for row in vector.devices:
            key |= (free(row) > 0).astype(np.int32) << _TOP
        return key

    def ground(self, columns: Columns | None, vectors: "Sequence[Vector]") -> "Ground | None":
        nodes, contention = self.nodes, self._contention.parts
        if contention is None and not any(vector.basis for vector in vectors):
            return None
        some = slice(None) if columns is None else columns
        gpus = np.minimum(nodes.capacity(self._gpu)[some], _MOST_GPUS).astype(np.int64) * WHOLE
        cores = np.maximum(np.minimum(nodes.capacity(self._cpu)[some], UNLIMITED), 1).astype(np.int64)
        open_ = nodes.devices.left(columns).sum(axis=0, dtype=np.int64)
        contended = None if contention is None else contention[some]
        return Ground(gpus, cores * _SERVES[1], gpus * _SERVES[0], open_, contended)

    def keys_of(
        self, vector: "Vector", ground: "Ground | None", slots: Ints, free: Callable[[int], Row]
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
        if vector.basis:
            assert ground is not None
            strands = ground.strands(vector, self._cpu, self._gpu, free)
            capacity = np.maximum(ground.gpus, WHOLE)
            strands *= 2 * _PARTS
            strands += (2 * _PARTS + 1) * capacity
            parts = strands // (capacity * 2)
            if ground.contended is not None and self._takes(vector):
                parts += ground.contended
            parts = np.minimum(np.maximum(parts, 0), _STRANDS_MAX)
            key |= parts.astype(np.int32) << _SLOTS + _LEFT
        elif ground is not None and ground.contended is not None and self._takes(vector):
            key |= ground.contended << _SLOTS + _LEFT
        for row in vector.devices:
            key |= (free(row) > 0).astype(np.int32) << _TOP
        return key

    def update(self, vector: "Vector", columns: list[int]) -> None:
        """Update keys one by one, without the fixed cost of array operations; shares still use arrays."""
        if vector.share:
            super().update(vector, columns)
            return
        nodes, scarce, amount = self.nodes, vector.scarce, vector.amount
        coarse = _coarse(amount)
        for column in columns:
            slots = vector.slots.item(column)
            if not slots:
                continue
            left = nodes.free_at(scarce, column) - slots * amount
            key = min(left >> coarse, _LEFT_MAX) << _SLOTS | min(slots, _SLOTS_MAX)
            if vector.basis:
                capacity = min(max(nodes.capacity_at(self._gpu, column), 1), _MOST_GPUS) * WHOLE
                strands = self._strands_at(column, dict(vector.row_amounts))
                parts = (strands * _PARTS * 2 + capacity) // (capacity * 2) + _PARTS
                key |= min(max(parts, 0), _STRANDS_MAX) << _SLOTS + _LEFT
            for row in vector.devices:
                if nodes.free_at(row, column) > 0:
                    key |= 1 << _TOP
            vector.key[column] = key
        contention = self._contention.parts
        if contention is not None and self._takes(vector):
            for column in columns:
                if vector.slots.item(column):
                    key = vector.key.item(column)
                    most = _STRANDS_MAX - (key >> _SLOTS + _LEFT & _STRANDS_MAX)
                    vector.key[column] = key + (min(contention.item(column), most) << _SLOTS + _LEFT)

    def _takes(self, vector: "Vector") -> bool:
        """Whether the pod takes whole GPUs of its node."""
        return any(row == self._gpu for row, _ in vector.row_amounts)

    def _of_share(
        self, vector: "Vector", columns: Columns | None, ground: "Ground | None", free: Callable[[int], Row]
    ) -> Ints:
        """Keys for a share of a GPU: its cost in thousandths of a GPU, as the module says."""
        devices, share = self.nodes.devices, vector.share
        left = devices.left(columns)
        least = np.where(left >= share, left - share, UNLIMITED).min(axis=0, initial=UNLIMITED)
        cost = np.where(least < UNLIMITED, least, WHOLE - share + _OPENING).astype(np.int64)
        cost += np.maximum(devices.thousandths(columns) - share, 0) * _EMPTINESS // (8 * WHOLE)
        if ground is not None and vector.basis:
            cost += ground.strands(vector, self._cpu, self._gpu, free)
        if ground is not None and ground.contended is not None:
            cost += ground.contended * share // PARTS
        return np.clip(cost + _NOTHING, 0, 2 * _NOTHING).astype(np.int32)

    def basis(self, vector: "Vector") -> bool:
        """Whether a pod may strand GPUs: it asks for more than 4/5 of the CPU per GPU of some node.

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

    def _strands_at(self, column: int, asked: Mapping[int, int]) -> int:
        nodes = self.nodes
        cpu, taken = asked.get(self._cpu, 0), WHOLE * asked.get(self._gpu, 0)
        cores = min(nodes.capacity_at(self._cpu, column), UNLIMITED) or 1
        gpus = min(nodes.capacity_at(self._gpu, column), _MOST_GPUS) * WHOLE
        free = nodes.devices.thousandths_at(column)
        idle = min(max(nodes.free_at(self._cpu, column), 0), UNLIMITED)
        before = max(free - _served(idle, gpus, cores), 0)
        return max(free - taken - _served(max(idle - cpu, 0), gpus, cores), 0) - before


@dataclass(frozen=True, slots=True)
class Ground:
    """The values of some nodes that stay as they are while pods are put on them."""

    #: thousandths of GPUs that the nodes were built with
    gpus: Longs
    #: `cpu` milli-CPU are enough for `serves` thousandths of GPUs
    cpu: Longs
    serves: Longs
    #: thousandths that are free on open GPUs, besides the GPUs that are free as a whole
    open: Longs
    #: as in `Contention.parts`
    contended: Ints | None

    def strands(self, vector: "Vector", cpu: int, gpu: int, free: Callable[[int], Row]) -> Longs:
        """Thousandths of GPUs that a pod leaves without CPU on each node; below zero: puts to use.

        `cpu`, `gpu`: the rows of the two resources.
        """
        asked = dict(vector.row_amounts)
        idle = np.maximum(np.minimum(free(cpu), UNLIMITED), 0)
        left = self.open + np.maximum(free(gpu), 0) * np.int64(WHOLE)
        before = np.maximum(left - idle * self.serves // self.cpu, 0)
        idle = np.maximum(idle - min(asked.get(cpu, 0), UNLIMITED), 0)
        left -= vector.share or WHOLE * asked.get(gpu, 0)
        strands: Longs = np.maximum(left - idle * self.serves // self.cpu, 0)
        strands -= before
        return strands


class Spread(Order):
    """Least part of the scarce resource in use first, in steps of 1/10,000."""

    def keys(self, vector: "Vector", columns: Columns | None) -> Ints:
        some = slice(None) if columns is None else columns
        free = self.nodes.free(vector.scarce)[some].astype(np.int64)
        capacity = np.maximum(self.nodes.capacity(vector.scarce)[some], 1)
        return (_STEPS - np.maximum(free, 0) * _STEPS // capacity).astype(np.int32)


def _served(cpu: int, gpus: int, cores: int) -> int:
    """Thousandths of GPUs that so much CPU is enough for, on a node that was built with these."""
    return cpu * gpus * _SERVES[0] // (cores * _SERVES[1])


def _coarse(amount: int) -> int:
    """Bits dropped from a remainder so that it fits its field: steps below 1/1000 of one pod's request."""
    return max(0, amount.bit_length() - 11)
