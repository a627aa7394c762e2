"""Places a whole gang at once, or nothing of it (docs/internals/scheduling.md, "How a gang is placed").

Each pod set is one vector operation whatever its size: nodes in packing order (`slots.py`), each filled with
whole slots, until the set is placed. Vector bin packing is NP-hard. This greedy method is exact for gangs of
one shape. For several shapes it may miss a placement that exists; larger pods are placed first, which keeps
misses rare.

Parts with constraints besides room (`constraints.py`) are placed the same way, with their own choice of
nodes. For them the greedy method proves nothing in either direction, so several ways are tried: other orders
of the parts (a part may have affinity towards another part, which must be placed first), and other domains to
gather in. If no way succeeds, `search` tries the minimum's placements pod by pod, within a budget.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice, permutations
from typing import Final

import numpy as np
import numpy.typing as npt

from muster.core.demand import Demand, Request
from muster.core.placement.answer import Placed, Reason
from muster.core.placement.constraints import Constraints
from muster.core.placement.slots import Slots, tightest_group
from muster.core.words.gang import Place, places
from muster.core.world.ledger import Ledger
from muster.core.world.nodes import Bools, Columns
from muster.core.world.trial import Trial

#: Ways in which a demand with constraints is tried greedily.
ATTEMPTS: Final = 12
#: Orders of parts among them.
_ORDERS: Final = 6
#: Distinct columns, and the pods for each.
Filled = tuple[Columns, npt.NDArray[np.int64]]


def place(request: Request, ledger: Ledger, slots: Slots) -> Placed | None:
    """Place at least the minimum, and as many more pods as fit, and charge them to the ledger.

    Returns None and leaves the ledger as it was if the minimum does not fit.
    """
    demand = request.demand
    if short_of_slots(demand, slots):
        return None
    draft = Draft(request, ledger, slots)
    filled = fill_in_some_way(draft, request.preferred) if draft.constrained else _fill(draft, ledger)
    if not filled and demand.sharing and len(demand.parts) > 1 and not draft.constrained:
        # Large shares first: once small ones are placed, no device may have room left for them.
        draft = Draft(request, ledger, slots)
        draft.order.sort(key=lambda p: -demand.parts[p].shape.gpu_share)
        filled = _fill(draft, ledger)
    if not filled:
        return None
    draft.fill_up()
    return draft.places()


def short_of_slots(demand: Demand, slots: Slots) -> bool:
    """Whether the minimum takes more slots than there are, and so cannot be placed."""
    fits = []
    for part in demand.parts:
        total = slots.room(part.shape).total
        if total < part.need:
            return True
        fits.append(total)
    return demand.short(fits) > 0


def _fill(draft: "Draft", ledger: Ledger) -> bool:
    """Place the minimum of a demand without constraints. False: it does not fit; drop the draft."""
    request = draft.request
    if request.demand.fits_by_slots and request.excluded is None and not request.preferred:
        return draft.fill_minimum()  # there are enough slots, so nothing has to be undone
    with ledger.log.trial() as trial:
        for place, column in sorted(request.preferred.items()):
            draft.prefer(place, column)
        if draft.fill_minimum():
            trial.keep()
            return True
    return False


def fill_in_some_way(draft: "Draft", preferred: Mapping[Place, int]) -> bool:
    """Place the minimum of a demand with constraints, in one of up to `ATTEMPTS` ways. False: none succeeds.

    Ways that leave all places on their own nodes are tried first: an open plan was made in one of them.
    """
    order = list(draft.order)
    for unmoved in (True, False) if preferred else (False,):
        draft.order, draft.strict = order, False
        for _ in islice(_ways(draft, strictly=bool(preferred)), ATTEMPTS):
            with draft.trial() as trial:
                stay = draft.prefer_all(preferred)
                if (stay or not unmoved) and draft.fill_minimum() and draft.even():
                    trial.keep()
                    return True
    return False


def _ways(draft: "Draft", *, strictly: bool) -> Iterator[None]:
    """Set the draft up in one way after another; the caller takes the next once the last has failed."""
    for order in islice(permutations(draft.order), _ORDERS):
        draft.order = list(order)
        draft.bar_none()
        yield
        while draft.bar_opened():
            yield
    if strictly:
        draft.strict = True
        draft.bar_none()
        yield


class Draft:
    """A placement in the making: pods are put on nodes part by part, and charged to the ledger at once.

    A trial of a draft that is undone takes them off again, here as on the ledger.
    """

    def __init__(self, request: Request, ledger: Ledger, slots: Slots, within: Columns | None = None) -> None:
        parts = request.demand.parts
        ledger.nodes.steps += 2 * len(parts)
        self.request, self.parts = request, parts
        #: the only columns to use, ascending; None = all. A caller may widen it between two steps.
        self.within = within
        self._ledger, self._slots = ledger, slots
        self._footprints = [request.footprints.get(part.pod_set) or part.footprint for part in parts]
        #: some part has constraints besides room
        self.constrained = request.demand.constrained
        self._constraints = [
            Constraints(part.shape, part.affinity, ledger, slots.eligibility)
            if self.constrained and part.constrained
            else None
            for part in parts
        ]
        #: the places on their own nodes
        self._fixed: dict[Place, int] = {}
        #: by part, the columns of all other pods
        self._columns: list[list[int]] = [[] for _ in parts]
        #: pods placed so far, by part
        self.placed = [0] * len(parts)
        #: whether a place gets its own node only if spreads allow it at that moment
        self.strict = False
        self._vectors = vectors = [slots.room(part.shape) for part in parts]
        #: parts in the order in which their minima are filled: larger pods first
        self.order = sorted(range(len(parts)), key=lambda p: -vectors[p].size)

    @contextmanager
    def trial(self) -> Iterator[Trial]:
        """A trial of what is placed from here on: if it is undone, so is the draft."""
        placed, fixed = list(self.placed), dict(self._fixed)
        lengths = [len(columns) for columns in self._columns]
        with self._ledger.log.trial() as trial:
            yield trial
        if not trial.kept:
            self.placed, self._fixed = placed, fixed
            for columns, length in zip(self._columns, lengths, strict=True):
                del columns[length:]

    def places(self) -> Placed:
        """The places: neighbouring indices share nodes, lowest indices first, nodes by name."""
        placed = dict(self._fixed)
        for p, part in enumerate(self.parts):
            free = places(part.pod_set, self.request.vacant[p])
            if self._fixed:
                free = (place for place in free if place not in self._fixed)
            placed.update(zip(free, sorted(self._columns[p]), strict=False))
        return Placed(placed)

    @property
    def columns(self) -> list[int]:
        """The columns of all pods placed so far, one entry for each pod."""
        return [*self._fixed.values(), *(column for columns in self._columns for column in columns)]

    @property
    def terms(self) -> int:
        """How many vectors are read before a pod is placed, at most."""
        return max((own.terms for own in self._constraints if own is not None), default=0)

    @property
    def nodes(self) -> int:
        """The number of nodes in the cluster."""
        return len(self._ledger.nodes)

    # Whole steps

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
                slots, excluded = self._slots.of(part.shape).slots, self.request.excluded
                barred = excluded is not None and column in excluded
                outside = self.within is not None and column not in self.within
                kept_off = any(blocked.item(column) for _, blocked in self.obstacles(p, skew=self.strict))
                if slots.item(column) and not (barred or outside or kept_off):
                    self._charge(p, column, 1)
                    self._fixed[place] = column
                    return True
        return False

    def fill_minimum(self) -> bool:
        """Place each part's minimum, larger pods first, then the smallest pods up to each joint minimum.

        False: some of it does not fit.
        """
        demand, placed = self.request.demand, self.placed
        if len(placed) == 1:
            self.fill(0, demand.need - placed[0])
            return placed[0] >= demand.need
        for p in self.order:
            self.fill(p, self.parts[p].need - placed[p])
        for members, need in demand.joint:
            for p in reversed(self.order):
                if (missing := need - sum(placed[q] for q in members)) <= 0:
                    break
                if p in members:
                    self.fill(p, missing)
        return not demand.short(placed)

    def fill_up(self) -> None:
        """Place as many more pods as fit. A part whose further pods break a required spread gets none."""
        for p in self.order:
            more = self.parts[p].count - self.placed[p]
            if more and self.constrained:
                with self.trial() as trial:
                    self.fill(p, more)
                    if self.even():
                        trial.keep()
            elif more:
                self.fill(p, more)

    def fill(self, p: int, count: int) -> None:
        """Place up to `count` more pods of a part in packing order, as far as they fit."""
        part, own = self.parts[p], self._constraints[p]
        count = min(count, part.count - self.placed[p])
        if count <= 0:
            return
        self._ledger.nodes.steps += 2 if own is None else 4 + 2 * own.terms
        if own is not None:
            vector = self._slots.of(part.shape)
            self.take(p, own.choose(vector, count, part.count - self.placed[p], self._usable()))
            return
        group = count if self._slots.order.fills else 1
        for _ in range(0, count, group):
            vector = self._slots.of(part.shape)
            columns, times = tightest_group(vector, group, self.request.excluded, self.within)
            if not len(columns):
                return
            self.take(p, (columns, times))

    # Single steps

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

    def put_on(self, p: int, column: int, count: int = 1) -> None:
        """Place `count` more pods of a part on a column that has room for them."""
        self._charge(p, column, count)
        self._columns[p] += [column] * count

    def _charge(self, p: int, columns: int | Columns, times: int | npt.NDArray[np.int64]) -> None:
        self._ledger.take_at(columns, self._vectors[p].row_amounts, times, self._footprints[p])
        if claims := self.parts[p].shape.claims:
            self._ledger.wait(columns, claims, times)
        self.placed[p] += times if isinstance(times, int) else int(times.sum())

    # Which nodes

    def obstacles(self, p: int, *, skew: bool = True) -> Iterator[tuple[str, Bools]]:
        """Which constraint keeps the next pod of a part off which nodes, with what this draft has placed."""
        own = self._constraints[p]
        return iter(()) if own is None else own.obstacles(skew=skew)

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
        excluded = self.request.excluded
        if excluded is None and self.within is None:
            return None
        usable = np.full(len(self._ledger.nodes), self.within is None)
        if self.within is not None:
            usable[self.within] = True
        if excluded is not None:
            usable[excluded] = False
        return usable

    # Constraints of the whole

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


#: Limits of one search: placements of one pod that are tried, and nodes that are examined for them in total.
STEPS: Final = 400
WORK: Final = 400_000
#: Limit of a search in vectors that its constraints read.
VECTORS: Final = 1_500


def search(draft: Draft) -> Reason | None:
    """Place the minimum of a demand with constraints pod by pod, then as many more pods as fit.

    Pods of a part are interchangeable, so while a part is being placed its pods take columns in ascending
    order. Ports, anti-affinity and affinity prune as they do for a draft. If some part has affinity, the
    search also varies which part is placed next. Spreads are checked at the end, on all pods together. The
    search is exhaustive for small gangs on small clusters; for larger ones it uses up its steps, and the
    answer stays open. If nothing is placed, return the reason, with the ledger unchanged.
    """
    walk = _Walk(draft, min(STEPS, WORK // max(draft.nodes, 1), VECTORS // max(draft.terms, 1)))
    if walk.steps < draft.request.demand.need:
        return Reason.BUDGET
    with draft.trial() as trial:
        if walk.go(None, 0):
            draft.fill_up()
            trial.keep()
            return None
    return Reason.BUDGET if walk.steps < 0 else Reason.EXHAUSTED


class _Walk:
    def __init__(self, draft: Draft, steps: int) -> None:
        self._draft, self.steps = draft, steps
        self._by_affinity = any(part.shape.pod_affinity for part in draft.parts)

    def go(self, last: int | None, first: int) -> bool:
        """Place what is still needed, and return whether that succeeded.

        The part placed last continues from column `first`.
        """
        draft = self._draft
        nexts = self._nexts()
        if not nexts:
            return draft.even()
        for p in nexts:
            columns = draft.free(p)
            for column in columns[np.searchsorted(columns, first if p == last else 0) :].tolist():
                self.steps -= 1
                if self.steps < 0:
                    return False
                with draft.trial() as trial:
                    draft.put_on(p, column)
                    if self.go(p, column):
                        trial.keep()
                        return True
        return False

    def _nexts(self) -> list[int]:
        """Return the next pod's possible parts: those that need one, then any for the gang's minimum."""
        draft = self._draft
        lacking = [p for p in draft.order if draft.placed[p] < draft.parts[p].need]
        if lacking:
            return lacking if self._by_affinity else lacking[:1]
        for members, need in draft.request.demand.joint:
            if sum(draft.placed[p] for p in members) < need:
                return [p for p in draft.order if p in members and draft.placed[p] < draft.parts[p].count]
        return []
