"""Patterns: all the ways in which one node can be filled with pods of a gang, and nodes grouped by them.

A pattern says how many pods of each group (pods of one shape) a node takes together. Only maximal patterns
matter, those to which no further pod can be added: any other filling of a node is part of one of
them. Nodes with the same set of maximal patterns are one class and need not be distinguished, so an exact
question about 10,000 nodes has a few hundred unknowns: how many nodes of each class use each pattern.
It is the cutting-stock model of Gilmore and Gomory (1961) with several kinds of rolls; without it, equal
nodes would be permuted in vain.

A node's free amounts are first reduced to what can matter: amounts beyond what the gang could use there are
cut off, and amounts are counted in the greatest common divisor of the pods' requests. That makes most
nodes equal before a single pattern is listed, and patterns are remembered by the reduced form.

The sum of what is left on several GPUs may be room that no single share of a GPU fits in, and devices may be
enough by number but not for the claims of pods. Patterns are listed by such sums; `devices.py` then replaces
those that devices do not allow by the largest parts of them that they do. Packing shares is bin packing
(`Sharing`), decided by a search within a budget.

Small pods on large nodes have very many patterns. Both the listing (`_ROWS`) and the result
(`PATTERNS`) are bounded; beyond, `Catalogue.classes` answers None and there is no exact answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import Final

import numpy as np

from muster.core.placement.exact.devices import CHECKED, Claiming, largest_parts
from muster.core.world.allocation import Claims
from muster.core.world.devices import WHOLE
from muster.core.world.nodes import Columns, Ints, Longs, Nodes, RowAmounts

#: Patterns of one problem, all classes together.
PATTERNS: Final = 5_000
#: Partial patterns listed at a time, all new kinds of nodes together.
_ROWS: Final = 200_000
#: Kinds of nodes remembered for one list of demands; beyond, all are forgotten.
_KINDS: Final = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """Classes of nodes. `columns[c]`: class c's nodes, ascending; `patterns[c]`: its patterns × groups."""

    columns: list[Columns]
    patterns: list[Longs]

    def __len__(self) -> int:
        """The number of patterns of all classes together."""
        return sum(map(len, self.patterns))


#: What a pod of a group takes of each resource, and its claims on devices.
Asked = tuple[RowAmounts, Claims]


class Catalogue:
    """The patterns of one list of demands (what a pod of each group takes), by the reduced form of a node."""

    def __init__(self, nodes: Nodes, asked_of: Sequence[Asked]) -> None:
        row_amounts_of = [row_amounts for row_amounts, _ in asked_of]
        self._nodes, self._sharing = nodes, Sharing.of(row_amounts_of, nodes)
        self._claiming = Claiming.of([claims for _, claims in asked_of], nodes.claims)
        self._rows = sorted({row for row_amounts in row_amounts_of for row, _ in row_amounts})
        asked = [dict(row_amounts) for row_amounts in row_amounts_of]
        amounts = [[a.get(row, 0) for row in self._rows] for a in asked]
        self._units = np.array([gcd(*column) for column in zip(*amounts, strict=True)], np.int64)
        #: groups × resources, in units
        self._asked: Longs = np.array(amounts, np.int64) // self._units
        self._known: dict[bytes, Longs] = {}

    def classes(self, caps: Ints) -> Classes | None:
        """Return the classes of nodes that take any pod; None if there are too many patterns.

        `caps[g]` is per node how many pods of group g could matter there: its slots, at most the size of
        the group, zero where the group must not go.
        """
        columns = np.flatnonzero(caps.any(axis=0))
        found = self.of(self.reduced(caps[:, columns], columns))
        if found is None:
            return None
        members: dict[bytes, tuple[Longs, list[int]]] = {}
        by_identity: dict[int, list[int]] = {}
        for column, patterns in zip(columns.tolist(), found, strict=True):
            listed = by_identity.get(id(patterns))
            if listed is None:
                listed = by_identity[id(patterns)] = members.setdefault(patterns.tobytes(), (patterns, []))[1]
            listed.append(column)
        if sum(len(patterns) for patterns, _ in members.values()) > PATTERNS:
            return None
        ordered = list(members.values())
        return Classes(
            [np.array(sorted(listed), np.intp) for _, listed in ordered],
            [patterns for patterns, _ in ordered],
        )

    def reduced(self, caps: Ints, columns: Columns) -> Longs:
        """Return the reduced form of each of these nodes, for each of which `caps` has a column.

        It is what is free of each resource in units, as far as usable, the caps, and what there is of
        devices, if pods share them, and if they have claims on them.
        """
        nodes = self._nodes
        kinds = np.empty((len(columns), len(self._rows) + len(caps)), np.int64)
        limits = caps.astype(np.int64)
        for r, row in enumerate(self._rows):
            useful = self._asked[:, r] @ limits
            np.minimum(nodes.free(row)[columns] // self._units[r], useful, out=kinds[:, r])
        # No pod that requests a resource can use a node that is overdrawn in it.
        np.maximum(kinds, 0, out=kinds)
        kinds[:, len(self._rows) :] = limits.T
        if self._sharing is not None:
            kinds = np.hstack((kinds, self._sharing.room(nodes, limits, columns)))
        if self._claiming is not None:
            kinds = np.hstack((kinds, self._claiming.room(limits, columns)))
        return np.ascontiguousarray(kinds)

    def of(self, kinds: Longs) -> list[Longs] | None:
        """Return the patterns of each of these reduced forms; None if there are too many."""
        raw, width = kinds.tobytes(), kinds.itemsize * kinds.shape[1]
        keys = [raw[at : at + width] for at in range(0, len(raw), width)]
        new = {key: i for i, key in enumerate(keys) if key not in self._known}
        if new:
            if len(self._known) + len(new) > _KINDS:
                self._known.clear()
                new = {key: i for i, key in enumerate(keys)}
            groups, resources = self._asked.shape
            free, caps, rooms = np.split(kinds[list(new.values())], [resources, resources + groups], axis=1)
            listed = maximal(free, caps, self._asked)
            if listed is None:
                return None
            if self._claiming is not None:
                listed = self._claiming.all_within(listed, rooms[:, -2:])
            if self._sharing is not None:
                listed = self._sharing.all_within(listed, rooms[:, :-2] if self._claiming else rooms)
            self._known.update(zip(new, listed, strict=True))
        return [self._known[key] for key in keys]


def maximal(free: Longs, caps: Longs, asked: Longs) -> list[Longs] | None:
    """Return the maximal patterns of each node (row of `free` and `caps`), in ascending order of numbers.

    All nodes are processed at once, one group after the other: each partial pattern branches into one for
    each number of the group's pods that still fits. A branch that leaves room for one more pod of the group,
    whatever the later groups take, is cut at once. None if more than `_ROWS` partial patterns arise.
    """
    nodes, groups = caps.shape
    order = np.argsort(caps.max(axis=0, initial=0), kind="stable").tolist()
    owner: Longs = np.arange(nodes)
    left = free
    taken = np.zeros((nodes, groups), np.int64)
    for position, group in enumerate(order):
        fits = _fits(left, caps[owner, group], asked[group])
        later = order[position + 1 :]
        if later:
            branches = fits + 1
            if int(branches.sum()) > _ROWS:
                return None
            parent = np.repeat(np.arange(len(owner)), branches)
            number = np.arange(len(parent)) - np.repeat(np.cumsum(branches) - branches, branches)
        else:
            parent, number = np.arange(len(owner)), fits
        owner, taken = owner[parent], taken[parent]
        left = left[parent] - number[:, None] * asked[group]
        taken[:, group] = number
        usable_later = caps[owner][:, later] @ asked[later]
        room = ((left - usable_later >= asked[group]) | (asked[group] == 0)).all(axis=1)
        kept = ~(room & (number < caps[owner, group]))
        owner, left, taken = owner[kept], left[kept], taken[kept]
    for group in range(groups):
        full = _fits(left, caps[owner, group] - taken[:, group], asked[group]) == 0
        owner, left, taken = owner[full], left[full], taken[full]
    ends = np.searchsorted(owner, np.arange(1, nodes + 1)).tolist()
    starts = [0, *ends[:-1]]
    return [_ordered(taken[start:end]) for start, end in zip(starts, ends, strict=True)]


def _fits(left: Longs, caps: Longs, asked: Longs) -> Longs:
    """Return how many more pods of one group each partial pattern takes."""
    fits = caps.copy()
    for r in np.flatnonzero(asked).tolist():
        np.minimum(fits, left[:, r] // asked[r], out=fits)
    return fits


def _ordered(patterns: Longs) -> Longs:
    return np.ascontiguousarray(patterns[np.lexsort(patterns.T[::-1])])


#: Steps of one packing.
STEPS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Sharing:
    """GPU shares among the pods of a node: which of them its devices take together, and on which device.

    By group, the devices that each pod takes, by group: thousandths of one device, and whole devices."""

    shares: tuple[int, ...]
    wholes: tuple[int, ...]

    @staticmethod
    def of(row_amounts_of: Sequence[RowAmounts], nodes: Nodes) -> "Sharing | None":
        """Build from demands; None if no pod requests a share."""
        shares = tuple(nodes.share(row_amounts) for row_amounts in row_amounts_of)
        wholes = tuple(dict(row_amounts).get(nodes.devices.row, 0) for row_amounts in row_amounts_of)
        return Sharing(shares, wholes) if any(shares) else None

    def room(self, nodes: Nodes, caps: Longs, columns: Columns) -> Longs:
        """Return nodes × (empty devices, then the open ones' rest, falling), as far as it can matter."""
        least = min(share for share in self.shares if share)
        users = (np.array(self.shares) > 0) + np.array(self.wholes)
        empty = np.minimum(np.maximum(nodes.free(nodes.devices.row)[columns], 0), users @ caps)
        left = np.sort(nodes.devices.left(columns).astype(np.int64), axis=0)[::-1]
        left[left < least] = 0
        return np.vstack((empty, left)).T

    def all_within(self, listed: list[Longs], rooms: Longs) -> list[Longs]:
        """Return those patterns of each kind of node that fit its devices."""
        left, found = CHECKED, []
        for patterns, room in zip(listed, rooms.tolist(), strict=True):
            fitting, checked = self.within(patterns, room, left)
            left -= checked
            found.append(fitting)
        return found

    def within(self, patterns: Longs, room: Sequence[int], budget: int) -> tuple[Longs, int]:
        """Return the maximal sub-patterns of these that fit the devices, and how many were checked; all of
        these, if it takes more checks than the budget."""
        users = [g for g, share in enumerate(self.shares) if share or self.wholes[g]]
        return largest_parts(patterns, users, lambda pattern: self.places(pattern, room).fits, budget)

    def places(self, pattern: Sequence[int], room: Sequence[int]) -> "Packing":
        """Return devices for a pattern's shares, largest first, by position in `room`; then new ones."""
        empty, left = room[0], room[1:]
        empty -= sum(n * whole for n, whole in zip(pattern, self.wholes, strict=True))
        if empty < 0:
            return Packing(None, fits=False)
        sizes = self.sizes(pattern)
        return pack(sizes, [*left, *[WHOLE] * min(empty, len(sizes))])

    def sizes(self, pattern: Sequence[int]) -> list[int]:
        """Return a pattern's shares, largest first."""
        asked = zip(pattern, self.shares, strict=True)
        return sorted((share for n, share in asked for _ in range(n) if share), reverse=True)


@dataclass(frozen=True, slots=True)
class Packing:
    """The bin of each item. None: there is no packing, or (`fits`) none was found within the budget."""

    bins: list[int] | None
    fits: bool


def pack(sizes: Sequence[int], bins: Sequence[int]) -> Packing:
    """Pack items, given by falling size, into bins: each first where least is left, then elsewhere."""
    left, chosen, steps = list(bins), [], STEPS
    failed: set[tuple[int, ...]] = set()

    def go(i: int, rest: int) -> bool:
        nonlocal steps
        if i == len(sizes):
            return True
        steps -= 1
        state = (i, *sorted(left))
        if steps < 0 or rest > sum(left) or state in failed:
            return False
        for room in sorted({room for room in left if room >= sizes[i]}):
            b = left.index(room)
            left[b] -= sizes[i]
            chosen.append(b)
            if go(i + 1, rest - sizes[i]):
                return True
            chosen.pop()
            left[b] += sizes[i]
        failed.add(state)
        return False

    if go(0, sum(sizes)):
        return Packing(chosen, fits=True)
    return Packing(None, fits=steps < 0)
