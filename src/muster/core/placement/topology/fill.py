"""Divides pods of one shape over a domain, down the tree, over as few smaller domains and nodes as possible.

Of the next layer's domains, the roomiest are filled whole until one domain holds the rest; of those that do,
the tightest is taken. Inside it the same is done for the next layer down, and finally for nodes. For pods of
one shape, taking domains by falling room is optimal if only the number of domains matters. Nodes that the
pods prefer less, or that have free devices that the pods do not request, are used after all others. Of nodes
with equal room the first in packing order (`packing.py`) is taken.

If pods must come in multiples, `multiples.py` decides how many each domain takes.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from muster.core.placement.greedy import Filled
from muster.core.placement.order import Vector
from muster.core.world.nodes import Columns, Ints, Longs, Nodes
from muster.core.world.topology import Topology


def fill(
    nodes: Nodes,
    topology: Topology,
    vector: Vector,
    free: Ints,
    level: int,
    number: int,
    least: int,
    most: int,
) -> Filled | None:
    """Place pods of a shape inside a domain: as many as fit up to `most`; None if fewer than `least` fit."""
    inside = Inside(nodes, topology, vector, free, level, number, most)
    size = min(most, inside.rooms[0].item(0))
    return together(inside.divide(0, 0, size)) if size >= least else None


class Inside:
    """A domain, the smaller domains inside it and their nodes, and the room for pods of one shape in each.

    They are addressed by depth (0: the domain itself, the last: nodes) and by index, in order of path.
    """

    def __init__(
        self,
        nodes: Nodes,
        topology: Topology,
        vector: Vector,
        free: Ints,
        level: int,
        number: int,
        most: int,
        steps: Sequence[int] = (),
    ) -> None:
        """Compute the rooms, of at most `most` pods on a node.

        `vector`: of the shape, with keys up to date; `free`: by column, how many pods the node may take;
        `steps`: by level of the topology, the number of which a domain's pods are a multiple; () = 1.
        """
        self._nodes, self._vector, self.most, self.steps = nodes, vector, most, steps
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
        self.free: Longs = np.minimum(free[self.columns], most).astype(np.int64)
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
            yield from _on_nodes(self._nodes, self._vector, self.columns[first:end], room, size)
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


def _on_nodes(nodes: Nodes, vector: Vector, columns: Columns, room: Longs, size: int) -> Iterator[Filled]:
    """Yield `size` pods on these nodes: on preferred nodes first."""
    kept_off = np.zeros(len(columns), np.int64)
    for row in vector.devices:
        kept_off |= nodes.free(row)[columns] > 0
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
