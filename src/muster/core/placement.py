"""Placing a whole gang at once: all that it needs, or nothing.

Each pod set is one vector operation whatever its size: nodes in packing order (`slots.py`), each filled with
whole slots, until the set is placed. Vector bin packing is NP-hard; this greedy is exact for gangs of
one shape (the slots of a node do not depend on the order), and for several shapes it may say no where a
yes exists, never the other way round. Larger pods go first, which is what keeps that rare.

Order of claims: places with a node of their own (a replacement's held node, an open plan's node), then
each pod set's own minimum, then the gang's minimum, then whatever else fits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from muster.core.gang import GangId, Gather, Place, Shape
from muster.core.ledger import Ledger
from muster.core.nodes import Bools, Columns, Ints
from muster.core.slots import NO_SLOT, Slots, Vector


@dataclass(frozen=True, slots=True)
class Part:
    """What one pod set still wants: up to `count` places, of which `need` are its minimum."""

    pod_set: str
    shape: Shape
    count: int
    need: int


@dataclass(frozen=True, slots=True)
class Rules:
    """What a gang asks of the network topology."""

    gather: tuple[Gather, ...] = ()
    #: the layer of which no other gang may share its domains; "" = none
    exclusive: str = ""
    #: the gang, once some of its places are filled or held, which is what its others are bound by
    begun: GangId | None = None


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Want:
    """What a gang still wants; `need` is its minimum over all parts, at least the sum of theirs.

    Equal wants are one object (`gangs.py` sees to it), so that what was found out about one holds for
    all: ten thousand identical pods are tried once per cycle.
    """

    parts: tuple[Part, ...]
    need: int
    rules: Rules | None = None

    @property
    def bound(self) -> bool:
        """Where it may go depends on where the gang's other places are."""
        return self.rules is not None and self.rules.begun is not None

    @property
    def sociable(self) -> bool:
        """A pod that comes can make room for it: by affinity towards it, or by evening out a spread."""
        return any(part.shape.near or part.shape.spread for part in self.parts)


@dataclass(frozen=True, slots=True)
class Claim:
    """What is to be placed now, for whom. Columns are those of `Nodes`, good for this cycle."""

    want: Want
    #: indices of each part's vacant places, ascending
    vacant: Sequence[Sequence[int]]
    #: places that have a node of their own, and keep it if they can: held since they were vacated, or planned
    preferred: Mapping[Place, int] = field(default_factory=dict)
    #: where the gang's other places are, that stay there: bound, or held
    settled: Mapping[Place, int] = field(default_factory=dict)
    #: columns to keep off
    excluded: Columns | None = None
    #: whether to search where greedy placement finds none; without it, a no is no proof
    search: bool = True
    #: by pod set, the rank of each index in the gang's own order; without any, one set after the other
    ranks: Mapping[str, Sequence[int]] = field(default_factory=dict)


def place(
    want: Want,
    vacant: Sequence[Sequence[int]],
    preferred: Mapping[Place, int],
    excluded: Columns | None,
    ledger: Ledger,
    slots: Slots,
) -> dict[Place, int] | None:
    """Places → columns, at least the minimum and as many more as fit, charged to the ledger.

    `vacant` lists the indices of each part's places, ascending. None if the minimum does not fit; then the
    ledger is as it was.
    """
    vectors = [slots.of(part.shape) for part in want.parts]
    fitting = [min(part.count, vector.total) for part, vector in zip(want.parts, vectors, strict=True)]
    if sum(fitting) < want.need or any(n < part.need for n, part in zip(fitting, want.parts, strict=True)):
        return None
    mark = ledger.mark()
    trial = Trial(want.parts, excluded, ledger, slots)
    for place_, column in sorted(preferred.items()):
        trial.prefer(place_, column)
    if not trial.fill_minimum(want.need):
        ledger.rollback(mark)
        return None
    for p in trial.larger_first:
        trial.fill(p, want.parts[p].count)
    ledger.commit(mark)
    return trial.places(vacant)


class Trial:
    """Pods put on nodes one part at a time; every step is charged to the ledger at once."""

    def __init__(
        self,
        parts: Sequence[Part],
        excluded: Columns | None,
        ledger: Ledger,
        slots: Slots,
        within: Columns | None = None,
    ) -> None:
        self.parts = parts
        self._excluded = excluded
        #: the only columns to use, ascending; None = all. May be widened between two steps.
        self.within = within
        self._ledger = ledger
        self._slots = slots
        self._fixed: dict[Place, int] = {}
        self._columns: list[list[int]] = [[] for _ in parts]
        #: pods placed so far, by part
        self.placed = [0] * len(parts)
        sizes = [slots.of(part.shape).size for part in parts]
        self.larger_first = sorted(range(len(parts)), key=lambda p: -sizes[p])

    def prefer(self, place: Place, column: int) -> bool:
        """Put this place on its own node, if it still fits there."""
        for p, part in enumerate(self.parts):
            if part.pod_set == place.pod_set and self.placed[p] < part.count:
                vector = self._slots.of(part.shape)
                barred = self._excluded is not None and column in self._excluded
                outside = self.within is not None and column not in self.within
                if vector.slots.item(column) and not (barred or outside):
                    self._ledger.take_at(column, vector.demand)
                    self._fixed[place] = column
                    self.placed[p] += 1
                    return True
        return False

    def fill_minimum(self, need: int) -> bool:
        """Put each part's own minimum, larger pods first, then the cheapest pods up to `need` in all."""
        for p in self.larger_first:
            self.fill(p, self.parts[p].need - self.placed[p])
        for p in reversed(self.larger_first):
            self.fill(p, need - sum(self.placed))
        return sum(self.placed) >= need and all(
            placed >= part.need for placed, part in zip(self.placed, self.parts, strict=True)
        )

    def fill(self, p: int, count: int) -> None:
        """Put up to `count` more pods of a part where packing order says, as far as they fit."""
        part = self.parts[p]
        count = min(count, part.count - self.placed[p])
        if count <= 0:
            return
        vector = self._slots.of(part.shape)
        if count == 1 or not self._slots.order.fills:
            self._fill_singly(p, count)
            return
        columns, times = tightest_group(vector, count, self._excluded, self.within)
        if len(columns):
            self._ledger.take_at(columns, vector.demand, times)
            self._columns[p].extend(np.repeat(columns, times).tolist())
            self.placed[p] += int(times.sum())

    def _fill_singly(self, p: int, count: int) -> None:
        for _ in range(count):
            vector = self._slots.of(self.parts[p].shape)
            column = tightest(vector, self._excluded, self.within)
            if column is None:
                return
            self._ledger.take_at(column, vector.demand)
            self._columns[p].append(column)
            self.placed[p] += 1

    @property
    def columns(self) -> list[int]:
        """Where all pods placed so far are, one entry for each."""
        return [*self._fixed.values(), *(column for columns in self._columns for column in columns)]

    def put(self, p: int, columns: Columns) -> bool:
        """Put one more pod of a part on each of these columns, which may repeat. False: one does not fit."""
        vector = self._slots.of(self.parts[p].shape)
        distinct, times = np.unique(columns, return_counts=True)
        if (vector.slots[distinct] < times).any():
            return False
        if len(distinct):
            self._ledger.take_at(distinct, vector.demand, times.astype(np.int64))
            self._columns[p].extend(columns.tolist())
            self.placed[p] += len(columns)
        return True

    def places(self, vacant: Sequence[Sequence[int]]) -> dict[Place, int]:
        """Neighbouring indices share a node, lowest indices first, nodes in order of name."""
        places = dict(self._fixed)
        for part, indices, columns in zip(self.parts, vacant, self._columns, strict=True):
            free = (place for i in indices if (place := Place(part.pod_set, i)) not in self._fixed)
            places.update(zip(free, sorted(columns), strict=False))
        return places


def tightest(vector: Vector, excluded: Columns | None = None, within: Columns | None = None) -> int | None:
    """The column for one more pod."""
    key = _allowed(vector.key, excluded, within)
    if not len(key):
        return None
    column = int(key.argmin())
    if key.item(column) == NO_SLOT:
        return None
    return column if within is None else within.item(column)


def tightest_group(
    vector: Vector, count: int, excluded: Columns | None = None, within: Columns | None = None
) -> tuple[Columns, npt.NDArray[np.int64]]:
    """Distinct columns, and the pods for each, that hold `count` pods or as many as fit.

    A node has at least one slot, so the `count` smallest keys suffice: they are selected, not sorted,
    and only they are put in order.
    """
    key = _allowed(vector.key, excluded, within)
    threshold = np.partition(key, count - 1)[count - 1] if count <= len(key) else NO_SLOT
    candidates = np.flatnonzero(key < threshold)
    if threshold != NO_SLOT:
        # Of the nodes at the threshold those with the smallest names, as argpartition would not.
        at_threshold = _first(key == threshold, count - len(candidates))
        candidates = np.concatenate((candidates, at_threshold)) if len(candidates) else at_threshold
    ordered = np.sort(key[candidates].astype(np.int64) << 32 | candidates) & 0xFFFF_FFFF
    if within is not None:
        ordered = within[ordered]
    times = vector.slots[ordered].astype(np.int64)
    filled = np.cumsum(times)
    cut = int(np.searchsorted(filled, count)) + 1
    ordered, times = ordered[:cut], times[:cut]
    if cut <= len(filled) and filled[cut - 1] > count:
        times[-1] -= filled[cut - 1] - count
    return ordered, times


def _first(mask: Bools, count: int) -> Columns:
    """The first `count` columns of a mask that has so many."""
    head = mask[: _HEAD * count]
    found = np.flatnonzero(head)
    return (found if len(found) >= count else np.flatnonzero(mask))[:count]


#: To find the first n of many, so many times n are looked at before all are.
_HEAD: Final = 16


def _allowed(key: Ints, excluded: Columns | None, within: Columns | None) -> Ints:
    """The keys to choose from: of the columns `within` (None = all), the `excluded` ones without a slot."""
    if excluded is not None:
        key = key.copy()
        key[excluded] = NO_SLOT
    return key if within is None else key[within]
