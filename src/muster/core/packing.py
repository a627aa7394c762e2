"""In which order nodes are filled with pods of a shape: the one place where packing orders plug in.

An order gives each node that takes the pod a key; the lowest goes first, and of equal keys the smallest name.
Keys are kept per shape and brought up to date for the nodes that have changed (`slots.py`), so an order is
asked about few nodes at a time. It also says which of a node's GPUs a share is put on.

`Pack` is the scheduler's own:

1. nodes without free devices that the pod does not ask for: a CPU pod stays off free GPUs;
2. then nodes that whole pods fill exactly, by what would be left over of the scarce resource;
3. then the tightest node, by fewest slots: large holes stay whole for those who need them.

The scarce resource of a shape is the one of which it asks the largest part of all capacity. This is
dominant-resource best fit with the remainder first; it looks at no other shape, unlike FGD (fragmentation
gradient descent, `muster.sim.policies.fgd`), and is therefore a vector operation.

`Spread` is its opposite, least of the scarce resource in use first, for those who want load even more
than room for large pods. The published orders that muster is compared with are in `muster.sim.policies`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from muster.core.eligibility import Eligibility
from muster.core.nodes import UNLIMITED, Columns, Demand, Ints, Nodes

if TYPE_CHECKING:
    from muster.core.slots import Vector

#: The key of a node without a slot.
NO_SLOT: Final = UNLIMITED

_FIELD: Final = 15
_FIELD_MAX: Final = 2**_FIELD - 1
#: one less, so that no key equals NO_SLOT
_LEFT_MAX: Final = _FIELD_MAX - 1
#: Steps between an empty and a full node.
_STEPS: Final = 10_000


class Order:
    """An order by keys; subclasses say what the keys are."""

    #: Whether a node is filled with as many pods of a group as it takes, once it is its turn; else each pod
    #: of a group goes where the order then says.
    fills = False
    #: Whether the key of a node depends on that node alone; else all are asked for at each reading.
    local = True

    def __init__(self, nodes: Nodes, eligibility: Eligibility) -> None:
        self.nodes = nodes
        self.eligibility = eligibility

    def keys(self, vector: "Vector", columns: Columns | None) -> Ints:
        """Of these columns, or of all, in order: int32 from 0 to below NO_SLOT.

        `vector.slots` is up to date; keys of nodes without a slot do not count.
        """
        raise NotImplementedError

    #: Whether `keys_of` is there.
    free_alone = False

    def keys_of(self, vector: "Vector", slots: Ints, free: Callable[[int], Ints]) -> Ints:
        """The keys of some nodes, from their slots and what is free there of a row's resource."""
        raise NotImplementedError

    def update(self, vector: "Vector", columns: list[int]) -> None:
        """Bring the keys of a few columns up to date; those without a slot are NO_SLOT already."""
        some = np.array([column for column in columns if vector.slots.item(column)], np.intp)
        if len(some):
            vector.key[some] = self.keys(vector, some)

    def device(self, column: int, demand: Demand, share: int) -> int:
        """Which of a node's GPUs a share is put on: of those that fit the one with least left.

        The rest of the pod's demand is not charged to the node yet.
        """
        return self.nodes.devices.best_fit(self.nodes.names[column], share)


class Pack(Order):
    fills = True
    free_alone = True

    def keys(self, vector: "Vector", columns: Columns | None) -> Ints:
        some = slice(None) if columns is None else columns
        return self.keys_of(vector, vector.slots[some], lambda row: self.nodes.free(row)[some])

    def keys_of(self, vector: "Vector", slots: Ints, free: Callable[[int], Ints]) -> Ints:
        amount = dict(vector.demand)[vector.scarce]
        left = free(vector.scarce) - slots * np.int32(min(amount, UNLIMITED))
        key: Ints = np.minimum(left >> _coarse(amount), _LEFT_MAX)
        key <<= _FIELD
        key |= np.minimum(slots, _FIELD_MAX)
        for row in vector.devices:
            key |= (free(row) > 0).astype(np.int32) << (2 * _FIELD)
        return key

    def update(self, vector: "Vector", columns: list[int]) -> None:
        """One by one, without the fixed cost of array operations."""
        nodes = self.nodes
        amount = next(amount for row, amount in vector.demand if row == vector.scarce)
        for column in columns:
            slots = vector.slots.item(column)
            if not slots:
                continue
            left = nodes.free_at(vector.scarce, column) - slots * amount
            key = min(left >> _coarse(amount), _LEFT_MAX) << _FIELD | min(slots, _FIELD_MAX)
            for row in vector.devices:
                if nodes.free_at(row, column) > 0:
                    key |= 1 << (2 * _FIELD)
            vector.key[column] = key


class Spread(Order):
    """By the part of the scarce resource that is in use, in steps of 1/10,000."""

    def keys(self, vector: "Vector", columns: Columns | None) -> Ints:
        some = slice(None) if columns is None else columns
        free = self.nodes.free(vector.scarce)[some].astype(np.int64)
        capacity = np.maximum(self.nodes.capacity(vector.scarce)[some], 1)
        return (_STEPS - np.maximum(free, 0) * _STEPS // capacity).astype(np.int32)


def _coarse(amount: int) -> int:
    """Bits dropped from a remainder so that it fits its field: steps below 1/1000 of one pod's request."""
    return max(0, amount.bit_length() - 11)
