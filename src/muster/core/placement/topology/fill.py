"""Places pods of one shape inside a domain, down the tree, on as few smaller domains and nodes as possible.

Of the next layer's domains, the roomiest are filled whole until one domain holds the rest; of those that do,
the tightest is taken. Inside it the same is done for the next layer down, and finally for nodes. For pods of
one shape, taking domains by falling room is optimal if only the number of domains matters. Nodes that the
pods prefer less, or that have free devices that the pods do not request, are used after all others. Of nodes
with equal room the first in packing order (`packing.py`) is taken.

If pods must be placed in multiples, `multiples.py` decides how many each domain takes.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from muster.core.placement.greedy import Filled
from muster.core.placement.order import Vector
from muster.core.world.nodes import Bools, Columns, Longs, Nodes
from muster.core.world.topology import Topology


def descend(
    nodes: Nodes,
    topology: Topology,
    vector: Vector,
    barred: Bools | None,
    level: int,
    number: int,
    least: int,
    most: int,
) -> Filled | None:
    """Place pods of this shape inside a domain: as many as fit up to `most`; None if fewer than `least` fit.

    `barred`: columns that must not be used.
    """
    if level == len(topology.levels) - 1:
        room = 0 if barred is not None and barred[number] else min(vector.slots.item(number), most)
        return (np.array([number], np.intp), np.array([room], np.int64)) if room >= least else None
    begin, end = topology.levels[level].starts[number : number + 2].tolist()
    starts = topology.starts[begin : end + 1]
    inside = topology.order[starts[0] : starts[-1]]
    free = np.minimum(vector.slots[inside], most).astype(np.int64)
    if barred is not None:
        free[barred[inside]] = 0
    rooms = np.concatenate(([0], np.cumsum(np.add.reduceat(free, starts[:-1] - starts[0]))))
    size = min(most, int(rooms[-1]))
    if size < least:
        return None
    pieces: list[Filled] = [(np.zeros(0, np.intp), np.zeros(0, np.int64))]
    bounds = [level.starts - begin for level in topology.levels[level + 1 : -1]]
    for low, high, share in _shares(bounds, rooms, 0, end - begin, size):
        some = slice(int(starts[low] - starts[0]), int(starts[high] - starts[0]))
        columns, times = inside[some], free[some]
        if share == rooms[high] - rooms[low]:
            pieces.append((columns, times))
        else:
            pieces += _on_nodes(nodes, vector, columns, times, share)
    return np.concatenate([columns for columns, _ in pieces]), np.concatenate([times for _, times in pieces])


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


def fewest(room: Longs, size: int, order: Longs | None = None) -> tuple[Columns, Longs]:
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
    """Yield `size` pods on these nodes, which have so much `room`: on preferred nodes first."""
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


def _shares(
    levels: Sequence[Columns], rooms: Longs, low: int, high: int, size: int
) -> Iterator[tuple[int, int, int]]:
    """Yield (first cell, end, pods): `size` pods over cells low…high, in the fewest domains of each level.

    `levels` are the first cells of the domains, level by level; `rooms` are running sums over the cells.
    """
    if high - low == 1 or size == rooms[high] - rooms[low]:
        yield low, high, size
        return
    starts = levels[0]
    first, end = np.searchsorted(starts, (low, high)).tolist()
    bounds = rooms[starts[first : end + 1]]
    chosen, shares = fewest(np.diff(bounds), size)
    for i, share in zip((first + chosen).tolist(), shares.tolist(), strict=True):
        yield from _shares(levels[1:], rooms, int(starts[i]), int(starts[i + 1]), share)
