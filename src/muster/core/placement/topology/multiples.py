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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import lcm

import numpy as np

from muster.core.placement.greedy import Filled
from muster.core.placement.order import Vector
from muster.core.placement.topology.fill import Inside, together
from muster.core.world.nodes import Columns, Ints, Nodes
from muster.core.world.topology import Topology


def hold(multiples: Mapping[int, int], topology: Topology, new: Columns, there: Columns) -> bool:
    """Whether new pods (one column each) and those already there make multiples in each domain used.

    Pods in no domain are not counted.
    """
    for level, multiple in multiples.items():
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
    #: of the domain within its level, or of the node in order of path
    index: int
    #: bit x is set if it can be given x pods
    able: int
    #: the domains or nodes inside, if the gang has pods there; otherwise empty, and it is filled by capacity
    parts: "list[_Part]" = field(default_factory=list)
    #: sums[i]: the set of numbers that parts[i:] can be given together
    sums: list[int] = field(default_factory=list)


class InMultiples:
    """Divides pods of one shape over domains in multiples.

    `vector`, `free`, `most`: as of `Inside`; `multiples`: level → N; `there`: the columns of the gang's other
    pods, one for each.
    """

    def __init__(
        self,
        nodes: Nodes,
        topology: Topology,
        vector: Vector,
        free: Ints,
        multiples: Mapping[int, int],
        there: Columns,
        most: int,
    ) -> None:
        self._topology, self._rules, self._most = topology, multiples, most
        self._node = len(topology.levels) - 1
        levels = range(self._node + 1)
        #: by level: the lcm of the rules from there downwards, for domains without pods of the gang
        self._steps = [lcm(*(n for of, n in self._rules.items() if of >= level)) for level in levels]
        self._cluster = Inside(nodes, topology, vector, free, 0, 0, most, self._steps)
        #: by level: the gang's pods by index
        self._taken = [Counter(topology.above(there, self._node, level).tolist()) for level in levels[:-1]]
        self._taken.append(Counter(topology.position[there].tolist()))

    def fill(self, level: int, number: int, least: int) -> Filled | None:
        """Place as many pods as can be given to a domain; None if fewer than `least` can."""
        index = number if level < self._node else self._topology.position.item(number)
        part = self._part(level, index)
        able = part.able
        for wider in range(level):
            able &= self._allowed(wider, self._topology.above(np.array([number]), level, wider).item())
        size = able.bit_length() - 1
        return together(self._deal(part, size)) if size >= least else None

    def _part(self, level: int, index: int) -> _Part:
        cluster, most = self._cluster, self._most
        if not self._taken[level][index]:
            able = _multiples(self._steps[level], cluster.rooms[level].item(index), most)
            return _Part(level, index, able)
        if level == self._node:
            able = _multiples(1, cluster.free.item(index), most)
            return _Part(level, index, able & self._allowed(level, index))
        first, end = cluster.parts[level][index : index + 2].tolist()
        parts = [self._part(level + 1, i) for i in range(first, end)]
        parts.sort(key=lambda part: -part.able.bit_length())  # those that can be given most go first
        sums = [1]
        every = (1 << (most + 1)) - 1
        for part in reversed(parts):
            sums.append(every & _sums(sums[-1], part.able))
        able = sums[-1]
        if self._topology.levels[level].labelled[index]:
            able &= self._allowed(level, index)
        return _Part(level, index, able, parts, sums[::-1])

    def _allowed(self, level: int, index: int) -> int:
        """Return the numbers of pods that a layer's rule allows a domain; 0 is always allowed."""
        multiple = self._rules.get(level, 1)
        lowest = -self._taken[level][index] % multiple
        return 1 | _multiples(multiple, self._most - lowest, self._most) << lowest

    def _deal(self, part: _Part, size: int) -> Iterator[Filled]:
        """Divide `size` pods, which the part can be given, over it: as many as possible to the first."""
        if not part.parts:
            yield from self._cluster.divide(part.level, part.index, size)
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
