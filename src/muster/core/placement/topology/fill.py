"""Divides pods of one shape over a domain, down the tree, over as few smaller domains and nodes as possible.

Of the next layer's domains, the roomiest are filled whole until one domain holds the rest; of those that do,
the tightest is taken. Inside it the same is done for the next layer down, and finally for nodes. For pods of
one shape, taking domains by falling room is optimal if only the number of domains matters. Nodes that the
pods prefer less, or that have free devices that the pods do not request, are used after all others. Of nodes
with equal room the first in packing order (`packing.py`) is taken.

Pods in multiples (in any one domain of a layer, the gang's pods must be a multiple of N) are a matter of
counting, too. In a domain without pods of the gang, the possible numbers are the multiples, up to its room,
of the least common multiple of all rules from its layer downwards; its room is the sum of its parts' rooms,
rounded down. That takes a few passes over arrays. In a domain that has pods of the gang, an incomplete
multiple may have to be completed, so the possible numbers are a set: the sums of the parts' numbers, less
those that break the domain's own rule. A set is stored as the bits of an integer, and the sums of two sets
take a few shifts. Rooms and sets are computed up the tree, and the shares are then decided down the tree,
largest first. This is exact. A domain that is given no pods is not checked: if a pod was lost and the others
there are no multiple any more, pods can still be placed elsewhere.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import lcm
from typing import NamedTuple

import numpy as np

from muster.core.placement.greedy import Filled
from muster.core.placement.slots import Vector
from muster.core.world.nodes import Columns, Ints, Longs, Nodes
from muster.core.world.topology import Topology


class Pods(NamedTuple):
    """Pods of one shape, at most `most`, and where they may go."""

    nodes: Nodes
    topology: Topology
    #: of the shape, with keys up to date
    vector: Vector
    #: by column, how many of them the node may take
    free: Ints
    most: int


def fill(pods: Pods, level: int, number: int, least: int) -> Filled | None:
    """Place pods inside a domain: as many as fit; None if fewer than `least` fit."""
    inside = Inside(pods, level, number)
    size = min(pods.most, inside.rooms[0].item(0))
    return together(inside.divide(0, 0, size)) if size >= least else None


class Inside:
    """A domain, the smaller domains inside it and their nodes, and the room for pods of one shape in each.

    They are addressed by depth (0: the domain itself, the last: nodes) and by index, in order of path.
    """

    def __init__(self, pods: Pods, level: int, number: int, steps: Sequence[int] = ()) -> None:
        """`steps`: by level of the topology, the number of which a domain's pods are a multiple; () = 1."""
        topology, most = pods.topology, pods.most
        self._pods, self.steps = pods, steps
        #: by depth above the nodes: the index of each domain's first part; one more entry
        self.parts: list[Columns] = []
        self.columns: Columns = np.array([number], np.intp)
        if level < len(topology.levels) - 1:
            cells = topology.levels[level].starts[number : number + 2]
            for inner in topology.levels[level + 1 : -1]:
                begins = inner.starts.searchsorted(cells)
                cells = inner.starts[begins[0] : begins[-1] + 1]
                self.parts.append(begins - begins[0])
            begins = topology.starts[cells]
            self.parts.append(begins - begins[0])
            self.columns = topology.order[begins[0] : begins[-1]]
        #: by node, up to `most`
        self.free: Longs = np.minimum(pods.free[self.columns], most).astype(np.int64)
        #: by depth: the room of each, a multiple of its level's step
        self.rooms: list[Longs] = []
        room = self.free
        for depth in range(len(self.parts), -1, -1):
            if self.rooms:
                room = np.add.reduceat(room, self.parts[depth][:-1])
                if steps:
                    room = np.minimum(room, most)
            if steps and (step := steps[level + depth]) > 1:
                room = room // step * step
            self.rooms.insert(0, room)

    def divide(self, depth: int, index: int, size: int) -> Iterator[Filled]:
        """Divide `size` pods, for which there is room, over the fewest parts of each depth."""
        if not self.steps and size == self.rooms[depth][index]:
            first, end = index, index + 1
            for parts in self.parts[depth:]:
                first, end = parts.item(first), parts.item(end)
            yield self.columns[first:end], self.rooms[-1][first:end]
            return
        if depth == len(self.parts):
            yield self.columns[index : index + 1], np.array([size], np.int64)
            return
        first, end = self.parts[depth][index : index + 2].tolist()
        room = self.rooms[depth + 1][first:end]
        if depth + 1 == len(self.parts) and not self.steps:
            yield from _on_nodes(self._pods, self.columns[first:end], room, size)
            return
        chosen, shares = fewest(room, size)
        if depth + 1 == len(self.parts):
            yield self.columns[first + chosen], shares
            return
        for part, share in zip((first + chosen).tolist(), shares.tolist(), strict=True):
            yield from self.divide(depth + 1, part, share)


def together(pieces: Iterable[Filled]) -> Filled:
    """Return several pieces as one."""
    columns, times = zip((np.zeros(0, np.intp), np.zeros(0, np.int64)), *pieces, strict=True)
    return np.concatenate(columns), np.concatenate(times)


def deal(filled: Filled, counts: Sequence[int]) -> list[Filled]:
    """Split what was filled into consecutive portions of `counts` pods."""
    columns, times = filled
    ends = times.cumsum()
    dealt, low = [], 0
    for high in np.cumsum(counts).tolist():
        own = np.minimum(ends, high) - np.maximum(ends - times, low)
        dealt.append((columns[own > 0], own[own > 0]))
        low = high
    return dealt


def fewest(room: Longs, size: int, order: Longs | None = None) -> Filled:
    """Return the fewest indices of `room` that hold `size`, and the share of each.

    The roomiest are filled whole until one holds the rest; of those that do, the tightest is taken. Of equals
    the first in `order` is taken (by default: in the order given). Together they must have room for `size`.
    """
    falling = np.argsort(-room, kind="stable") if order is None else np.lexsort((order, -room))
    filled = room[falling].cumsum()
    whole = int(filled.searchsorted(size, side="right"))
    chosen, shares = falling[:whole], room[falling[:whole]]
    if rest := size - (int(filled[whole - 1]) if whole else 0):
        able = falling[whole:][room[falling[whole:]] >= rest]
        last = able[room[able] == room[able[-1]]][:1]
        chosen, shares = np.append(chosen, last), np.append(shares, rest)
    return chosen[shares > 0], shares[shares > 0]


def _on_nodes(pods: Pods, columns: Columns, room: Longs, size: int) -> Iterator[Filled]:
    """Yield `size` pods on these nodes: on preferred nodes first."""
    vector = pods.vector
    kept_off = np.zeros(len(columns), np.int64)
    for row in vector.devices:
        kept_off |= pods.nodes.free(row)[columns] > 0
    if vector.rank is not None:
        kept_off += vector.rank[columns].astype(np.int64) << 1
    tiers = np.sort(kept_off[room > 0])
    # not np.unique: its first call would import numpy.ma in the middle of a cycle
    for tier in tiers[np.diff(tiers, prepend=-1) > 0].tolist():
        some = np.flatnonzero((kept_off == tier) & (room > 0))
        share = min(size, int(room[some].sum()))
        if not share:
            return
        chosen, shares = fewest(room[some], share, vector.key[columns[some]].astype(np.int64))
        yield columns[some[chosen]], shares
        size -= share


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

    `multiples`: level → N; `there`: the columns of the gang's other pods, one for each.
    """

    def __init__(self, pods: Pods, multiples: Mapping[int, int], there: Columns) -> None:
        topology = pods.topology
        self._topology, self._rules, self._most = topology, multiples, pods.most
        self._node = len(topology.levels) - 1
        levels = range(self._node + 1)
        #: by level: the lcm of the rules from there downwards, for domains without pods of the gang
        self._steps = [lcm(*(n for of, n in multiples.items() if of >= level)) for level in levels]
        self._cluster = Inside(pods, 0, 0, self._steps)
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
