"""For each shape of pods: how many more of them each node takes (its slots), and in which order nodes are
filled (their keys).

`Slots.of(shape)` returns both as a `Vector`, one number per node. A vector is computed once per shape and
then follows the log of changed nodes: it catches up when it is next read, so the cost of a placement depends
on the shapes in use, not on the number of nodes. The sum of slots is kept too, so that a gang that cannot
fit is refused by one comparison.

An `Order` computes the keys. The node of the lowest key is filled first, and of equal keys the smallest name.
It also says which of a node's GPUs a share is put on. The scheduler's own orders are in `packing.py`, the
published orders that muster is compared with in `muster.sim.policies`.
"""

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from muster.core.words.gang import Amounts, Shape
from muster.core.world.devices import whole_slots
from muster.core.world.eligibility import Eligibility, forget
from muster.core.world.gangs import GangState
from muster.core.world.nodes import (
    ABSENT,
    UNLIMITED,
    Bools,
    Columns,
    Ints,
    Longs,
    Nodes,
    Row,
    RowAmounts,
    quotient,
    recent,
)

#: Shapes kept; the least recently used is dropped first. At 10,000 nodes one takes 80 kB.
_KEPT: Final = 1024


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
    #: the scarce resource, its row, how much of it one pod takes, and the part of all capacity that this is
    resource: str = ""
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


class Slots:
    def __init__(self, order: Order) -> None:
        self.order = order
        self._nodes, self.eligibility = order.nodes, order.eligibility
        self._vectors: dict[Shape, Vector] = {}
        #: the shape that was read last, and its vector
        self._asked: Shape | None = None
        self._last: Vector | None = None

    def of(self, shape: Shape) -> Vector:
        """The current vector of this shape. Read it before the ledger changes again."""
        vector = self.room(shape)
        if vector.keyed != vector.position:
            self._order_nodes(vector)
        return vector

    def room(self, shape: Shape) -> Vector:
        """As `of`, for callers that do not read the keys."""
        vector = self._last
        if vector is None or self._asked is not shape:
            vector = self._last = recent(self._vectors, shape, self._new, _KEPT)
            self._asked = shape
        nodes = self._nodes
        if nodes.claims.owed:
            nodes.claims.pay(shape.claims)
        if vector.position != nodes.changes.end or vector.layout != nodes.layout:
            self._refresh(vector)
        return vector

    def _refresh(self, vector: Vector) -> None:
        """Catch up with what changed since the slots were last read."""
        nodes = self._nodes
        changed = nodes.changed(vector.position) if vector.layout == nodes.layout else None
        if vector.capacity_revision != nodes.capacity_revision and self._reread(vector):
            changed = None
        if changed is None:
            self._compute(vector)
            vector.keyed = -1
        elif isinstance(changed, list):
            for column in changed:
                self._update(vector, column)
        else:
            self._compute(vector, changed)
        vector.layout, vector.position = nodes.layout, nodes.changes.end

    def _reread(self, vector: Vector) -> bool:
        """Update what depends on facts and capacities only. True: all slots and keys are void."""
        nodes = self._nodes
        mask = self.eligibility.of(vector.shape)
        vector.eligible, vector.rank = mask.eligible, mask.rank if mask.ranked else None
        before = vector.scarce, vector.devices, vector.may_strand
        vector.row_amounts = nodes.row_amounts(vector.shape.requests)
        vector.resource, vector.amount, vector.size = scarcest(nodes, vector.shape.requests)
        vector.scarce = nodes.resources.get(vector.resource, ABSENT)
        vector.devices, vector.may_strand = (
            nodes.device_rows(vector.row_amounts),
            self.order.may_strand(vector),
        )
        vector.capacity_revision = nodes.capacity_revision
        return before != (vector.scarce, vector.devices, vector.may_strand)

    def _order_nodes(self, vector: Vector) -> None:
        """Update the keys to the position of the slots, which are current."""
        changed = self._nodes.changed(vector.keyed) if vector.keyed >= 0 and self.order.local else None
        if changed is None:
            vector.key = self.order.keys(vector, None)
            vector.key[vector.slots == 0] = NO_SLOT
        elif isinstance(changed, list):
            for column in changed:
                if not vector.slots.item(column):
                    vector.key[column] = NO_SLOT
            self.order.update(vector, changed)
        else:
            key = self.order.keys(vector, changed)
            key[vector.slots[changed] == 0] = NO_SLOT
            vector.key[changed] = key
        vector.keyed = vector.position

    def forget(self, shapes: Set[Shape]) -> None:
        """Drop what is cached for other shapes than these, but for a few."""
        forget(self._vectors, shapes)
        self._asked = self._last = None
        self.eligibility.forget(shapes)

    def when_empty(self, shape: Shape, mask: Bools) -> Ints:
        """How many pods of this shape each node of the mask would take if nothing ran there."""
        nodes = self._nodes
        slots = np.where(mask, UNLIMITED, 0).astype(np.int32)
        row_amounts = nodes.row_amounts(shape.requests)
        for row, amount in row_amounts:
            np.minimum(slots, quotient(nodes.capacity(row), amount), out=slots)
        if share := nodes.share(row_amounts):
            np.minimum(slots, whole_slots(share, nodes.capacity(nodes.devices.row)), out=slots)
        if shape.claims:
            some = slots.nonzero()[0]
            slots[some] = np.minimum(slots[some], nodes.claims.when_empty(shape.claims, some))
        return slots

    def _new(self, shape: Shape) -> Vector:
        none = np.zeros(0, np.int32)
        row_amounts = self._nodes.row_amounts(shape.requests)
        return Vector(shape, row_amounts, self._nodes.share(row_amounts), none, none, none.astype(np.bool_))

    def _compute(self, vector: Vector, columns: Columns | None = None) -> None:
        """Compute the slots of all columns, or only of these."""
        pods, *others = vector.row_amounts
        fit = self._free(pods[0], columns)
        for row, amount in others:
            fit = np.minimum(fit, quotient(self._free(row, columns), amount))
        if vector.share:
            fit = np.minimum(
                fit,
                self._nodes.devices.slots(
                    vector.share, self._free(self._nodes.devices.row, columns), columns
                ),
            )
        if claims := vector.shape.claims:
            fit = np.minimum(fit, self._nodes.claims.slots(claims, columns))
        slots = np.maximum(fit, 0).astype(np.int32, copy=False)
        slots *= vector.eligible if columns is None else vector.eligible[columns]
        if columns is None:
            vector.slots, vector.total = slots, int(slots.sum(dtype=np.int64))
        else:
            vector.total += int((slots - vector.slots[columns]).sum(dtype=np.int64))
            vector.slots[columns] = slots

    def _free(self, row: int, columns: Columns | None) -> Row:
        free = self._nodes.free(row)
        return free if columns is None else free[columns]

    def _update(self, vector: Vector, column: int) -> None:
        """Compute the slots of one column, without the fixed cost of array operations."""
        nodes = self._nodes
        slots = UNLIMITED if vector.eligible.item(column) else 0
        for row, amount in vector.row_amounts:
            slots = min(slots, nodes.free_at(row, column) // amount)
        if vector.share and slots > 0:
            slots = min(
                slots, nodes.devices.slots_at(vector.share, nodes.free_at(nodes.devices.row, column), column)
            )
        if vector.shape.claims and slots > 0:
            slots = min(slots, nodes.claims.slots_at(vector.shape.claims, column))
        slots = max(slots, 0)
        vector.total += slots - vector.slots.item(column)
        vector.slots[column] = slots


def scarcest(nodes: Nodes, requests: Amounts) -> tuple[str, int, float]:
    """The scarce resource of a pod: the resource, the amount asked for, and the part of all capacity.

    It is the resource of which the pod asks for the largest part of all capacity.

    `pods` counts only if nothing else is asked; of equal parts the smallest name wins.
    """

    def part(row: int, amount: int) -> float:
        total = 0 if row == ABSENT else int(nodes.capacity(row).sum(dtype=np.int64))
        return amount / total if total else float("inf")

    pods, *others = nodes.asked(requests)
    parts = {resource: (part(row, amount), amount) for resource, row, amount in others or [pods]}
    scarce = min(parts, key=lambda resource: (-parts[resource][0], resource))
    largest, amount = parts[scarce]
    return scarce, amount, largest


def tightest_group(
    vector: Vector, count: int, excluded: Columns | None = None, within: Columns | None = None
) -> tuple[Columns, npt.NDArray[np.int64]]:
    """Distinct columns, and the pods for each, that hold `count` pods or as many as fit.

    Each candidate node has at least one slot, so the `count` smallest keys suffice: they are selected from
    all keys, and only they are sorted.
    """
    key, none = _keys(vector, excluded, within)
    if len(key) and (count <= _SMALL or count * len(key) <= vector.total):
        # Most groups are small, or nodes large: the first node holds the whole group.
        first = int(key.argmin())
        column = first if within is None else within.item(first)
        if key.item(first) != none and vector.slots.item(column) >= count:
            return np.array([column], np.intp), np.array([count], np.int64)
    threshold = np.partition(key, count - 1)[count - 1] if count <= len(key) else none
    candidates = (key < threshold).nonzero()[0]
    if threshold != none:
        # Of the nodes at the threshold take the smallest names; argpartition would take any.
        at_threshold = _first(key == threshold, count - len(candidates))
        candidates = np.concatenate((candidates, at_threshold)) if len(candidates) else at_threshold
    if vector.rank is None:
        ordered = np.sort(key[candidates].astype(np.int64) << 32 | candidates) & 0xFFFF_FFFF
    else:
        ordered = candidates[np.lexsort((candidates, key[candidates]))]
    if within is not None:
        ordered = within[ordered]
    times = vector.slots[ordered].astype(np.int64)
    filled = times.cumsum()
    cut = int(filled.searchsorted(count)) + 1
    ordered, times = ordered[:cut], times[:cut]
    if cut <= len(filled) and filled[cut - 1] > count:
        times[-1] -= filled[cut - 1] - count
    return ordered, times


def _first(mask: Bools, count: int) -> Columns:
    """The first `count` columns that a mask sets; it must set so many."""
    head = mask[: _HEAD * count]
    found = head.nonzero()[0]
    return (found if len(found) >= count else mask.nonzero()[0])[:count]


#: Groups of up to so many pods often fit on one node.
_SMALL: Final = 16
#: To find the first n of many set columns, so many times n columns are searched before all are.
_HEAD: Final = 16


def _keys(
    vector: Vector, excluded: Columns | None, within: Columns | None
) -> tuple[npt.NDArray[np.signedinteger], int]:
    """The keys to choose from, lowest first, and the key of a node without a slot.

    The keys are of the columns `within` (None = all); `excluded` columns count as without a slot. If there is
    a rank, it is compared before the key.
    """
    key: npt.NDArray[np.signedinteger] = vector.key
    none = NO_SLOT
    if vector.rank is not None:
        none = _RANKED_NO_SLOT
        key = vector.rank.astype(np.int64) << 32 | vector.key
        key[vector.key == NO_SLOT] = none
    elif excluded is not None:
        key = key.copy()
    if excluded is not None:
        key[excluded] = none
    return key if within is None else key[within], none


_RANKED_NO_SLOT: Final = 2**63 - 1
