"""Placing a whole gang at once: all that it needs, or nothing.

Each pod set is one vector operation whatever its size: nodes in packing order (`slots.py`), each filled with
whole slots, until the set is placed. Vector bin packing is NP-hard. This greedy method is exact for gangs of
one shape (the slots of a node do not depend on the order). For several shapes it may miss a placement that
exists, but never finds one that does not; larger pods are placed first, which keeps misses rare.

Parts with constraints besides room (`constraints.py`) are placed the same way, with their own choice of
nodes. For them the greedy method proves nothing in either direction, so several ways are tried: other orders
of the parts (a part may have affinity towards another part, which must be placed first), and other domains to
gather in.

Order of claims: places with their own node (a replacement's held node, an open plan's node), then each pod
set's own minimum, then the gang's minimum, then whatever else fits.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, permutations
from typing import Final

import numpy as np
import numpy.typing as npt

from muster.core.demand import NOBODY, Demand, Part
from muster.core.placement.answer import Placed
from muster.core.placement.constraints import Constraints
from muster.core.placement.order import NO_SLOT, Vector
from muster.core.placement.slots import Slots
from muster.core.words.events import Presence
from muster.core.words.gang import Place, places
from muster.core.world import trial as log
from muster.core.world.ledger import Ledger
from muster.core.world.nodes import Bools, Columns

#: Ways in which a demand with constraints is tried greedily.
ATTEMPTS: Final = 12
#: Orders of parts among them.
_ORDERS: Final = 6
#: Distinct columns, and the pods for each.
Filled = tuple[Columns, npt.NDArray[np.int64]]


def place(
    demand: Demand,
    vacant: Sequence[Sequence[int]],
    preferred: Mapping[Place, int],
    excluded: Columns | None,
    ledger: Ledger,
    slots: Slots,
    presences: Mapping[str, Presence] = NOBODY,
) -> Placed | None:
    """Place at least the minimum, and as many more pods as fit, and charge them to the ledger.

    `vacant` lists the indices of each part's places, ascending; `presences` are what other pods see of
    each pod set's pods. Returns None and leaves the ledger as it was if the minimum does not fit.
    """
    if short_of_slots(demand, slots):
        return None
    trial = Trial(demand.parts, excluded, ledger, slots, presences=presences)
    if trial.constrained:
        if not fill_in_some_way(trial, demand, preferred):
            return None
        trial.fill_up()
        return trial.places(vacant)
    if _fill(trial, demand, preferred, ledger):
        return trial.places(vacant)
    if demand.sharing and len(demand.parts) > 1:
        # Large shares first: once small ones are placed, no device may have room left for them.
        trial = Trial(demand.parts, excluded, ledger, slots, presences=presences)
        trial.order.sort(key=lambda p: -demand.parts[p].shape.gpu_share)
        if _fill(trial, demand, preferred, ledger):
            return trial.places(vacant)
    return None


def _fill(trial: "Trial", demand: Demand, preferred: Mapping[Place, int], ledger: Ledger) -> bool:
    """Place the minimum of a demand without constraints, and as many more as fit. False: nothing placed."""
    tried = ledger.trial()
    for place_, column in sorted(preferred.items()):
        trial.prefer(place_, column)
    if not trial.fill_minimum(demand.need):
        tried.undo()
        return False
    trial.fill_up()
    tried.keep()
    return True


def short_of_slots(demand: Demand, slots: Slots) -> bool:
    """Whether the minimum takes more slots than there are, and so cannot be placed."""
    fitting = 0
    for part in demand.parts:
        total = slots.room(part.shape).total
        if total < part.need:
            return True
        fitting += min(part.count, total)
    return fitting < demand.need


def fill_in_some_way(trial: "Trial", demand: Demand, preferred: Mapping[Place, int]) -> bool:
    """Place the minimum of a demand with constraints, in one of up to `ATTEMPTS` ways. False: none succeeds.

    Ways that leave all places on their own nodes are tried first: an open plan was made in one of them.
    """
    order = list(trial.order)
    for unmoved in (True, False) if preferred else (False,):
        trial.order, trial.strict = order, False
        for _ in islice(_ways(trial, preferred), ATTEMPTS):
            begin = trial.begin()
            stay = trial.prefer_all(preferred)
            if (stay or not unmoved) and trial.fill_minimum(demand.need) and trial.even():
                trial.keep(begin)
                return True
            trial.undo(begin)
    return False


def _ways(trial: "Trial", preferred: Mapping[Place, int]) -> Iterator[None]:
    """Set the trial up in one way after another; the caller takes the next once the last has failed."""
    for order in islice(permutations(trial.order), _ORDERS):
        trial.order = list(order)
        trial.bar_none()
        yield
        while trial.bar_opened():
            yield
    if preferred:
        trial.strict = True
        trial.bar_none()
        yield


class Trial:
    """Pods placed on nodes one part at a time; every step is charged to the ledger at once."""

    def __init__(
        self,
        parts: Sequence[Part],
        excluded: Columns | None,
        ledger: Ledger,
        slots: Slots,
        within: Columns | None = None,
        presences: Mapping[str, Presence] = NOBODY,
    ) -> None:
        self.parts = parts
        self.excluded = excluded
        #: the only columns to use, ascending; None = all. A caller may widen it between two steps.
        self.within = within
        self._ledger = ledger
        self._slots = slots
        self._presences = [presences.get(part.pod_set) or part.presence for part in parts]
        self._constraints = [
            Constraints(part.shape, part.concern, ledger, slots.eligibility) if part.constrained else None
            for part in parts
        ]
        #: some part has constraints besides room
        self.constrained = any(self._constraints)
        self._fixed: dict[Place, int] = {}
        self._columns: list[list[int]] = [[] for _ in parts]
        #: pods placed so far, by part
        self.placed = [0] * len(parts)
        #: whether a place gets its own node only if spreads allow it at that moment
        self.strict = False
        vectors = [slots.room(part.shape) for part in parts]
        self._row_amounts = [vector.row_amounts for vector in vectors]
        #: parts in the order in which their minima are filled: larger pods first
        self.order = sorted(range(len(parts)), key=lambda p: -vectors[p].size)

    def prefer_all(self, preferred: Mapping[Place, int]) -> bool:
        """Put places on their own nodes where they fit. Return whether all of them fit.

        Parts are placed in the order of `order`. With constraints, a place may fit only after others have
        been placed, so it is retried.
        """
        turn = {self.parts[p].pod_set: i for i, p in enumerate(self.order)}
        left = sorted(preferred.items(), key=lambda own: (turn.get(own[0].pod_set, len(turn)), own))
        while left:
            still = [(place, column) for place, column in left if not self.prefer(place, column)]
            if len(still) == len(left) or not self.constrained:
                return not still
            left = still
        return True

    def prefer(self, place: Place, column: int) -> bool:
        """Put this place on its own node if it still fits there. Return whether it does."""
        for p, part in enumerate(self.parts):
            if part.pod_set == place.pod_set and self.placed[p] < part.count:
                vector = self._slots.of(part.shape)
                barred = self.excluded is not None and column in self.excluded
                outside = self.within is not None and column not in self.within
                kept_off = any(blocked.item(column) for _, blocked in self.obstacles(p, skew=self.strict))
                if vector.slots.item(column) and not (barred or outside or kept_off):
                    self._charge(p, column, 1)
                    self._fixed[place] = column
                    return True
        return False

    def obstacles(self, p: int, *, skew: bool = True) -> Iterator[tuple[str, Bools]]:
        """Which constraint keeps the next pod of a part off which nodes, with what this trial has placed."""
        own = self._constraints[p]
        return iter(()) if own is None else own.obstacles(skew=skew)

    def fill_minimum(self, need: int) -> bool:
        """Place each part's minimum, larger pods first, then the smallest pods up to `need`. False: short."""
        for p in self.order:
            self.fill(p, self.parts[p].need - self.placed[p])
        for p in reversed(self.order):
            self.fill(p, need - sum(self.placed))
        enough = all(self.placed[p] >= self.parts[p].need for p in self.order)
        return enough and sum(self.placed) >= need

    def fill(self, p: int, count: int) -> None:
        """Place up to `count` more pods of a part in packing order, as far as they fit."""
        part = self.parts[p]
        count = min(count, part.count - self.placed[p])
        if count <= 0:
            return
        vector = self._slots.of(part.shape)
        own = self._constraints[p]
        if own is not None:
            columns, times = own.choose(vector, count, part.count - self.placed[p], self._usable())
        elif not self._slots.order.fills:
            self._fill_singly(p, count)
            return
        else:
            columns, times = tightest_group(vector, count, self.excluded, self.within)
        self.take(p, (columns, times))

    def _fill_singly(self, p: int, count: int) -> None:
        for _ in range(count):
            vector = self._slots.of(self.parts[p].shape)
            column = tightest(vector, self.excluded, self.within)
            if column is None:
                return
            self.put_on(p, column)

    @property
    def columns(self) -> list[int]:
        """The columns of all pods placed so far, one entry for each pod."""
        return [*self._fixed.values(), *(column for columns in self._columns for column in columns)]

    def take(self, p: int, filled: Filled) -> None:
        """Place pods of a part on columns where they are known to fit."""
        columns, times = filled
        if len(columns) == 1:
            self.put_on(p, columns.item(), times.item())
        elif len(columns):
            self._charge(p, columns, times)
            self._columns[p].extend(np.repeat(columns, times).tolist())

    def put(self, p: int, columns: Columns) -> bool:
        """Place a pod of a part on each of these columns, which may repeat. False, none placed: no room."""
        vector = self._slots.of(self.parts[p].shape)
        distinct, times = np.unique(columns, return_counts=True)
        if (vector.slots[distinct] < times).any():
            return False
        self.take(p, (distinct, times.astype(np.int64)))
        return True

    def free(self, p: int) -> Columns:
        """Columns that take one more pod of a part, whatever skew of its spreads results."""
        slots: Bools = self._slots.of(self.parts[p].shape).slots > 0
        if (usable := self._usable()) is not None:
            slots &= usable
        for _, blocked in self.obstacles(p, skew=False):
            slots &= ~blocked
        return np.flatnonzero(slots)

    def _usable(self) -> Bools | None:
        """Which columns may be used at all; None: all of them."""
        if self.excluded is None and self.within is None:
            return None
        usable = np.full(len(self._ledger.nodes), self.within is None)
        if self.within is not None:
            usable[self.within] = True
        if self.excluded is not None:
            usable[self.excluded] = False
        return usable

    @property
    def nodes(self) -> int:
        """The number of columns."""
        return len(self._ledger.nodes)

    def put_on(self, p: int, column: int, count: int = 1) -> None:
        """Place `count` more pods of a part on a column that has room for them."""
        self._charge(p, column, count)
        self._columns[p] += [column] * count

    def fill_up(self) -> None:
        """Place as many more pods as fit. A part whose further pods break a required spread gets none."""
        for p in self.order:
            if not self.constrained:
                self.fill(p, self.parts[p].count)
                continue
            begin = self.begin()
            self.fill(p, self.parts[p].count)
            if self.even():
                self.keep(begin)
            else:
                self.undo(begin)

    def even(self) -> bool:
        """Whether the required spreads hold with what has been placed."""
        for part, own, columns in zip(self.parts, self._constraints, self._columns, strict=True):
            if own is not None:
                fixed = [column for place, column in self._fixed.items() if place.pod_set == part.pod_set]
                if not own.even([*columns, *fixed]):
                    return False
        return True

    def bar_opened(self) -> bool:
        """Bar the domain that a part opened, so that it opens another next time. False: none was opened."""
        for own in self._constraints:
            if own is not None and own.opened is not None:
                own.barred.add(own.opened)
                own.opened = None
                return True
        return False

    def bar_none(self) -> None:
        for own in self._constraints:
            if own is not None:
                own.barred.clear()
                own.opened = None

    def begin(self) -> "Begin":
        """The state now, for `undo` or `keep` of what is placed from here on. One of the two must follow."""
        return Begin(
            self._ledger.trial(),
            list(self.placed),
            [len(columns) for columns in self._columns],
            dict(self._fixed),
        )

    def undo(self, begin: "Begin") -> None:
        begin.charges.undo()
        self.placed, self._fixed = list(begin.placed), dict(begin.fixed)
        self._columns = [columns[:n] for columns, n in zip(self._columns, begin.columns, strict=True)]

    def keep(self, begin: "Begin") -> None:
        begin.charges.keep()

    def _charge(self, p: int, columns: int | Columns, times: int | npt.NDArray[np.int64]) -> None:
        self._ledger.take_at(columns, self._row_amounts[p], times, self._presences[p])
        self.placed[p] += times if isinstance(times, int) else int(times.sum())

    def places(self, vacant: Sequence[Sequence[int]]) -> Placed:
        """Neighbouring indices share nodes, lowest indices first, nodes by name."""
        placed = dict(self._fixed)
        for p, part in enumerate(self.parts):
            free = places(part.pod_set, vacant[p])
            if self._fixed:
                free = (place for place in free if place not in self._fixed)
            placed.update(zip(free, sorted(self._columns[p]), strict=False))
        return Placed(placed)


@dataclass(frozen=True, slots=True)
class Begin:
    """The state of a trial at `Trial.begin`."""

    charges: log.Trial
    placed: list[int]
    columns: list[int]
    fixed: dict[Place, int]


def tightest(vector: Vector, excluded: Columns | None = None, within: Columns | None = None) -> int | None:
    """The column for one more pod: the one of the lowest key. None: no column has a slot."""
    key, none = _keys(vector, excluded, within)
    if not len(key):
        return None
    column = int(key.argmin())
    if key.item(column) == none:
        return None
    return column if within is None else within.item(column)


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
