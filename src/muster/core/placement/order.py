"""The order in which nodes are filled with pods of a shape: the one place where packing orders plug in.

An order gives each node that takes the pod a key; the node of the lowest key is filled first, and of equal
keys the smallest name. Keys are kept per shape and updated for the nodes that have changed (`slots.py`), so
an order computes few keys at a time. An order also says which of a node's GPUs a share is put on.

The scheduler's own orders are in `packing.py`, the published orders that muster is compared with in
`muster.sim.policies`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from muster.core.words.gang import Shape
from muster.core.world.eligibility import Eligibility
from muster.core.world.gangs import GangState
from muster.core.world.nodes import UNLIMITED, Bools, Columns, Ints, Longs, Nodes, Row, RowAmounts

#: The key of a node without a slot.
NO_SLOT: Final = UNLIMITED


@dataclass(slots=True)
class Vector:
    """Slots of one shape. `slots` and `key` have one int32 per node; `total` is the sum of slots."""

    shape: Shape
    row_amounts: RowAmounts
    #: thousandths of one GPU
    share: int
    slots: Ints
    key: Ints
    #: nodes that the pod may use at all, as long as capacities and facts stay as they are
    eligible: Bools
    #: row of the scarce resource, how much of it one pod takes, and the part of all capacity that this is
    scarce: int = -1
    amount: int = 0
    size: float = 0.0
    #: orders nodes before the key; None if it is the same for all
    rank: Ints | None = None
    total: int = 0
    layout: int = -1
    #: positions in the log of changes up to which slots, and keys, are updated
    position: int = -1
    keyed: int = -1
    capacity_revision: int = -1
    #: rows of devices that the pod does not ask for
    devices: list[int] = field(default_factory=list)
    #: the last answer of `Order.may_strand`
    may_strand: bool = False


@dataclass(frozen=True, slots=True)
class Fixed:
    """What keys read of some nodes that stays as it is while pods are put on them."""

    #: thousandths of GPUs that the nodes were built with
    gpus: Longs
    #: `cpu` milli-CPU are enough for `serves` thousandths of GPUs
    cpu: Longs
    serves: Longs
    #: thousandths that are free on open GPUs, besides the GPUs that are free as a whole
    open: Longs
    #: as in `Contention.parts`
    contended: Ints | None


class Order:
    """An order by keys; subclasses say what the keys are."""

    #: Whether the first node is filled with as many pods of a group as it takes; else each pod of a group is
    #: placed by the order as it is then.
    fills = False
    #: Whether the key of a node depends on that node alone; else all keys are computed at each reading.
    local = True
    #: The rows that `keys_of` reads besides those of the demand; None: `keys_of` is not implemented.
    looks_at: tuple[int, ...] | None = None

    def __init__(self, nodes: Nodes, eligibility: Eligibility) -> None:
        self.nodes = nodes
        self.eligibility = eligibility

    def keys(self, vector: Vector, columns: Columns | None) -> Ints:
        """The keys of these columns, or of all, in their order: int32 from 0 to below NO_SLOT.

        `vector.slots` is up to date; keys of nodes without a slot do not count.
        """
        raise NotImplementedError

    def update(self, vector: Vector, columns: list[int]) -> None:
        """Bring the keys of a few columns up to date; those without a slot are NO_SLOT already."""
        some = np.array([column for column in columns if vector.slots.item(column)], np.intp)
        if len(some):
            vector.key[some] = self.keys(vector, some)

    def fixed(self, columns: Columns | None, vectors: Sequence[Vector]) -> Fixed | None:
        """The `Fixed` of these columns, or of all, for `keys_of` these shapes; None if no shape needs it."""
        raise NotImplementedError

    def keys_of(
        self, vector: Vector, fixed: Fixed | None, slots: Ints | Longs, free: Callable[[int], Row]
    ) -> Ints:
        """The keys that some nodes would have with these `slots`, and with `free(row)` of each resource free.

        Not for shares of GPUs.
        """
        raise NotImplementedError

    def may_strand(self, vector: Vector) -> bool:
        """Whether keys of this shape depend on capacities; asked when those have changed.

        When the answer changes, all keys are computed again.
        """
        return False

    def device(self, column: int, row_amounts: RowAmounts, share: int) -> int:
        """Which of a node's GPUs a share is put on: the one with least left that still fits.

        The rest of the pod's demand is not charged to the node yet.
        """
        return self.nodes.devices.best_fit(self.nodes.names[column], share)

    def gangs_changed(self, changed: Iterable[GangState]) -> None:
        """Record gangs that have arrived, changed or left since the last cycle."""
        return

    def settle(self) -> None:
        """Prepare for a new cycle, in which nodes and gangs stay as they are now."""
        return
