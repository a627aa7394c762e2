"""Slots: how many more pods of a shape each node takes now, and in which order nodes are filled.

A vector is computed once per shape and then follows the log of changed nodes: it catches up when it is
next asked for, so a placement costs the shapes that are in use, not the number of nodes. At any time it
equals a fresh computation. The sum is kept too, so that a gang that cannot fit is refused by one
comparison.

The packing order (`key`, lowest first, ties to the smallest name) is:

1. nodes without free devices that the pod does not ask for: a CPU pod stays off free GPUs;
2. then nodes that whole pods fill exactly, by what would be left over of the scarce resource;
3. then the tightest node, by fewest slots: large holes stay whole for those who need them.

The scarce resource of a shape is the one of which it asks the largest part of all capacity. This is
dominant-resource best fit with the remainder first; it looks at no other shape, unlike FGD
(fragmentation gradient descent), and is therefore a vector operation.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from muster.core.eligibility import Eligibility
from muster.core.gang import Shape
from muster.core.nodes import UNLIMITED, Bools, Columns, Demand, Ints, Nodes

#: The key of a node without a slot.
NO_SLOT: Final = UNLIMITED
#: Shapes kept; the one unused for longest goes first. At 10,000 nodes one takes 80 kB.
_KEPT: Final = 1024
#: Up to this many changed nodes are caught up one by one; more are recomputed as a vector.
_FEW: Final = 16

_FIELD: Final = 15
_FIELD_MAX: Final = 2**_FIELD - 1
#: one less, so that no key equals NO_SLOT
_LEFT_MAX: Final = _FIELD_MAX - 1


@dataclass(slots=True)
class Vector:
    """Slots of one shape. `slots` and `key` have one int32 per node; `total` is the sum of slots."""

    shape: Shape
    demand: Demand
    #: thousandths of one GPU
    share: int
    #: row of the scarce resource
    scarce: int
    slots: Ints
    key: Ints
    total: int = 0
    layout: int = -1
    position: int = 0
    capacity_revision: int = -1
    #: the part of all capacity that one pod takes of the scarce resource
    size: float = 0.0
    devices: list[int] = field(default_factory=list)


class Slots:
    def __init__(self, nodes: Nodes, eligibility: Eligibility) -> None:
        self._nodes = nodes
        self._eligibility = eligibility
        self._vectors: dict[Shape, Vector] = {}

    def of(self, shape: Shape) -> Vector:
        """The vector of this shape as of now. Read it before the ledger changes again."""
        vector = self._vectors.pop(shape, None) or self._new(shape)
        self._vectors[shape] = vector
        self._refresh(vector)
        if len(self._vectors) > _KEPT:
            del self._vectors[next(iter(self._vectors))]
        return vector

    def _refresh(self, vector: Vector) -> None:
        """Catch up with what changed since the vector was last read."""
        nodes = self._nodes
        if vector.layout == nodes.layout and vector.position == nodes.changes.end:
            return
        changed = nodes.changes.since(vector.position) if vector.layout == nodes.layout else None
        if vector.capacity_revision != nodes.capacity_revision:
            scarce, vector.size = scarcest(nodes, vector.demand)
            devices = nodes.device_rows(vector.demand)
            if (scarce, devices) != (vector.scarce, vector.devices):
                vector.scarce, vector.devices, changed = scarce, devices, None
            vector.capacity_revision = nodes.capacity_revision
        if changed is None:
            self._compute(vector)
        else:
            self._catch_up(vector, changed)
        vector.layout, vector.position = nodes.layout, nodes.changes.end

    def _catch_up(self, vector: Vector, changed: list[int | Columns]) -> None:
        together = [columns for columns in changed if not isinstance(columns, int)]
        singly = [column for column in changed if isinstance(column, int)]
        number = len(singly) + sum(map(len, together))
        if number <= _FEW:
            eligible = self._eligibility.of(vector.shape).eligible
            for column in singly + [column for columns in together for column in columns.tolist()]:
                self._update(vector, column, bool(eligible[column]))
        elif number >= len(self._nodes):
            self._compute(vector)
        elif len(together) == 1 and not singly:
            self._compute(vector, together[0])
        else:
            once = np.zeros(len(self._nodes), np.bool_)
            once[singly] = True
            for columns in together:
                once[columns] = True
            self._compute(vector, np.flatnonzero(once))

    def when_empty(self, shape: Shape, mask: Bools) -> Ints:
        """How many pods of this shape each node of the mask would take if nothing ran there."""
        nodes = self._nodes
        slots = np.where(mask, UNLIMITED, 0).astype(np.int32)
        demand = nodes.demand(shape.requests)
        for row, amount in demand:
            np.minimum(slots, nodes.capacity(row) // amount if amount <= UNLIMITED else 0, out=slots)
        if share := nodes.share(demand):
            np.minimum(slots, nodes.devices.slots_when_empty(share), out=slots)
        return slots

    def _new(self, shape: Shape) -> Vector:
        none = np.zeros(0, np.int32)
        demand = self._nodes.demand(shape.requests)
        return Vector(shape, demand, self._nodes.share(demand), -1, none, none)

    def _compute(self, vector: Vector, columns: Columns | None = None) -> None:
        """All columns, or only these."""
        nodes = self._nodes
        some = slice(None) if columns is None else columns
        eligible = self._eligibility.of(vector.shape).eligible[some]
        slots = np.full(len(eligible), UNLIMITED, np.int32)
        quotient = np.empty_like(slots)
        for row, amount in vector.demand:
            if amount > UNLIMITED:
                slots[:] = 0
                continue
            np.floor_divide(nodes.free(row)[some], amount, out=quotient)
            np.minimum(slots, quotient, out=slots)
        if vector.share:
            np.minimum(slots, nodes.devices.slots(vector.share, columns), out=slots)
        np.maximum(slots, 0, out=slots)
        np.multiply(slots, eligible, out=slots)
        scarce = dict(vector.demand)[vector.scarce]
        left = nodes.free(vector.scarce)[some] - slots * np.int32(min(scarce, UNLIMITED))
        key = np.minimum(left >> _coarse(scarce), _LEFT_MAX)
        key <<= _FIELD
        key |= np.minimum(slots, _FIELD_MAX)
        for row in vector.devices:
            key |= (nodes.free(row)[some] > 0).astype(np.int32) << (2 * _FIELD)
        key[slots == 0] = NO_SLOT
        if columns is None:
            vector.slots, vector.key, vector.total = slots, key, int(slots.sum(dtype=np.int64))
        else:
            vector.total += int(slots.sum(dtype=np.int64)) - int(vector.slots[columns].sum(dtype=np.int64))
            vector.slots[columns], vector.key[columns] = slots, key

    def _update(self, vector: Vector, column: int, eligible: bool) -> None:
        """The same for one column, without the fixed cost of array operations."""
        nodes = self._nodes
        slots = 0
        if eligible:
            slots = max(0, min(nodes.free_at(row, column) // amount for row, amount in vector.demand))
            if slots and vector.share:
                slots = min(slots, nodes.devices.slots_at(vector.share, column))
        vector.total += slots - vector.slots.item(column)
        vector.slots[column] = slots
        if not slots:
            vector.key[column] = NO_SLOT
            return
        scarce = next(amount for row, amount in vector.demand if row == vector.scarce)
        left = nodes.free_at(vector.scarce, column) - slots * scarce
        key = min(left >> _coarse(scarce), _LEFT_MAX) << _FIELD | min(slots, _FIELD_MAX)
        for row in vector.devices:
            if nodes.free_at(row, column) > 0:
                key |= 1 << (2 * _FIELD)
        vector.key[column] = key


def scarcest(nodes: Nodes, demand: Demand) -> tuple[int, float]:
    """The row of which the demand asks the largest part of all capacity, and that part.

    `pods` counts only if nothing else is asked; of equal parts the smallest name wins.
    """

    def part(row: int, amount: int) -> float:
        total = int(nodes.capacity(row).sum(dtype=np.int64))
        return amount / total if total else float("inf")

    parts = {row: part(row, amount) for row, amount in demand[1:] or demand}
    scarce = min(parts, key=lambda row: (-parts[row], nodes.resource(row)))
    return scarce, parts[scarce]


def _coarse(amount: int) -> int:
    """Bits dropped from a remainder so that it fits its field: steps below 1/1000 of one pod's request."""
    return max(0, amount.bit_length() - 11)
