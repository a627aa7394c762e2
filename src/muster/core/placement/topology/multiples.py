"""Pods in multiples: in any one domain of a layer, the gang's pods must be a multiple of N.

For pods of one shape this is counting. In a domain without pods of the gang, the possible numbers are the
multiples, up to its room, of the least common multiple of all rules from its layer downwards; its room is the
sum of its parts' rooms, rounded down. That takes a few passes over arrays. In a domain that has pods of the
gang, an incomplete multiple may have to be completed, so the possible numbers are a set: the sums of the
parts' numbers, less those that break the domain's own rule. A set is stored as the bits of an integer, and
the sums of two sets take a few shifts. Rooms and sets are computed up the tree, and the shares are then
decided down the tree, largest first. This is exact.

A domain that is given no pods is not checked: if a pod was lost and the others there are no multiple any
more, pods can still be placed elsewhere.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import lcm

import numpy as np

from muster.core.placement.greedy import Filled
from muster.core.placement.topology.fill import fewest
from muster.core.world.nodes import Columns, Longs
from muster.core.world.topology import Topology


@dataclass(frozen=True, slots=True)
class Multiples:
    #: level of the topology → N, above one
    by_level: Mapping[int, int]

    @staticmethod
    def of(rules: Iterable[tuple[int, int]]) -> "Multiples":
        """Build from (level, multiple) rules; several rules for one level all hold (their lcm)."""
        by_level: dict[int, int] = {}
        for level, multiple in rules:
            if multiple > 1:
                by_level[level] = lcm(multiple, by_level.get(level, 1))
        return Multiples(by_level)

    def __bool__(self) -> bool:
        return bool(self.by_level)

    def hold(self, topology: Topology, new: Columns, there: Columns) -> bool:
        """Whether new pods (one column each) and those already there make multiples in each domain used.

        Pods in no domain are not counted.
        """
        for level, multiple in self.by_level.items():
            domains = topology.levels[level].domains
            given = np.unique(domains[new])
            counts = np.bincount(domains[np.concatenate((new, there))] + 1, minlength=1)[1:]
            if (counts[given[given >= 0]] % multiple).any():
                return False
        return True


@dataclass(slots=True)
class _Part:
    """A node or a domain, and the numbers of pods that it can be given."""

    level: int
    number: int
    #: bit x is set if it can be given x pods
    able: int
    #: the domains or nodes inside, if the gang has pods there; otherwise empty, and it is filled by capacity
    parts: "list[_Part]" = field(default_factory=list)
    #: sums[i]: the set of numbers that parts[i:] can be given together
    sums: list[int] = field(default_factory=list)


class Counting:
    """Computes how pods of one shape can be divided over domains in multiples.

    `free`: slots by column; `there`: the columns of the gang's other pods, one for each. At most `most` pods
    are placed.
    """

    def __init__(
        self, topology: Topology, multiples: Multiples, free: Longs, there: Columns, most: int
    ) -> None:
        self._topology = topology
        self._multiples = multiples.by_level
        self._most = most
        self._node = len(topology.levels) - 1
        self._free = np.minimum(free, most)
        #: by level: the lcm of the rules from there downwards, for domains without pods of the gang
        self._steps = [
            lcm(*(n for of, n in self._multiples.items() if of >= level)) for level in range(self._node + 1)
        ]
        #: by level: the most that each domain can be given, if the gang has no pods there
        self._room = self._rooms()
        #: by level: the gang's pods by domain
        self._taken = [
            Counter((there if level == self._node else topology.above(there, self._node, level)).tolist())
            for level in range(self._node + 1)
        ]

    def fill(self, level: int, number: int, least: int) -> Filled | None:
        """Place as many pods as can be given to a domain; None if fewer than `least` can."""
        part = self._part(level, number)
        able = part.able
        for wider in range(level):
            above = self._topology.above(np.array([number]), level, wider).item()
            able &= self._allowed(wider, self._taken[wider][above])
        size = able.bit_length() - 1
        if size < least:
            return None
        filled = [(np.zeros(0, np.intp), np.zeros(0, np.int64)), *self._deal(part, size)]
        return np.concatenate([columns for columns, _ in filled]), np.concatenate([n for _, n in filled])

    def _rooms(self) -> list[Longs]:
        """Compute the rooms of empty domains by level, from the nodes upwards."""
        step = self._steps[self._node]
        rooms = [self._free // step * step]
        for level in range(self._node - 1, -1, -1):
            below, step = rooms[0], self._steps[level]
            if level + 1 == self._node:
                sums = self._topology.sums(below)
            else:
                sums = np.add.reduceat(below, self._children(level))
            rooms.insert(0, sums // step * step)
        return rooms

    def _children(self, level: int) -> Columns:
        """Return the first number of the next level for each domain of a level."""
        levels = self._topology.levels
        return levels[level + 1].starts.searchsorted(levels[level].starts[:-1])

    def _inside(self, level: int, number: int) -> Columns:
        """Return the numbers of the next level inside a domain."""
        levels = self._topology.levels
        if level + 1 == self._node:
            return self._topology.columns(level, number)
        first, end = levels[level + 1].starts.searchsorted(levels[level].starts[number : number + 2]).tolist()
        return np.arange(first, end)

    def _part(self, level: int, number: int) -> _Part:
        taken = self._taken[level][number]
        if not taken:
            able = _multiples(self._steps[level], self._room[level].item(number), self._most)
            return _Part(level, number, able)
        if level == self._node:
            able = _multiples(1, self._free.item(number), self._most)
            return _Part(level, number, able & self._allowed(level, taken))
        parts = [self._part(level + 1, child) for child in self._inside(level, number).tolist()]
        parts.sort(key=lambda part: -part.able.bit_length())  # those that can be given most go first
        sums = [1]
        every = (1 << (self._most + 1)) - 1
        for part in reversed(parts):
            sums.append(every & _sums(sums[-1], part.able))
        able = sums[-1]
        if self._topology.levels[level].labelled[number]:
            able &= self._allowed(level, taken)
        return _Part(level, number, able, parts, sums[::-1])

    def _allowed(self, level: int, taken: int) -> int:
        """Return the numbers that a layer's rule allows a domain with `taken` pods; 0 is always allowed."""
        multiple = self._multiples.get(level, 1)
        lowest = -taken % multiple
        return 1 | _multiples(multiple, self._most - lowest, self._most) << lowest

    def _deal(self, part: _Part, size: int) -> Iterator[Filled]:
        """Divide `size` pods, which the part can be given, over it: as many as possible to the first."""
        if not part.parts:
            yield from self._pour(part.level, part.number, size)
            return
        for i, one in enumerate(part.parts):
            rest = part.sums[i + 1]
            share = next(
                n
                for n in range(min(size, one.able.bit_length() - 1), -1, -1)
                if one.able >> n & 1 and rest >> (size - n) & 1
            )
            if share:
                yield from self._deal(one, share)
            size -= share

    def _pour(self, level: int, number: int, size: int) -> Iterator[Filled]:
        """Divide `size` pods over a domain without pods of the gang: over the fewest parts (`descent.py`)."""
        if level == self._node:
            yield np.array([number], np.intp), np.array([size], np.int64)
            return
        inside, step = self._inside(level, number), self._steps[level + 1]
        chosen, shares = fewest(np.minimum(self._room[level + 1][inside], self._most // step * step), size)
        inside = inside[chosen]
        if level + 1 == self._node:
            yield inside, shares
            return
        for child, share in zip(inside.tolist(), shares.tolist(), strict=True):
            yield from self._pour(level + 1, child, share)


def _multiples(step: int, room: int, most: int) -> int:
    """Return the multiples of a step from 0 up to the room, as a set."""
    count = min(room, most) // step + 1
    return 1 if count == 1 else ((1 << (step * count)) - 1) // ((1 << step) - 1)


def _sums(left: int, right: int) -> int:
    """Return all sums of a number of one set and a number of the other."""
    if left.bit_count() > right.bit_count():
        left, right = right, left
    found = 0
    while left:
        lowest = left & -left
        found |= right << (lowest.bit_length() - 1)
        left ^= lowest
    return found
