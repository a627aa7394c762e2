"""Pods of one shape inside a domain: down the tree, into as few smaller domains as they go into.

Of the domains that a layer has inside, the roomiest are filled whole until one holds what is left: of those
the tightest that does; and in that the same is done for the next layer down. For pods of one shape it
is optimal to take domains by falling room when only their number matters. In the end nodes are filled in
packing order (`slots.py`).

Where pods must come in multiples, counting says how many go where (`multiples.py`).
"""

from collections.abc import Iterator, Sequence

import numpy as np

from muster.core.nodes import Bools, Columns, Longs
from muster.core.placement import Filled, tightest_group
from muster.core.slots import Vector
from muster.core.topology import Topology


def descend(
    topology: Topology, vector: Vector, barred: Bools | None, level: int, number: int, least: int, most: int
) -> Filled | None:
    """Where pods of this shape go inside a domain: as many as fit up to `most`, at least `least`, or None.

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
            pieces.append(tightest_group(vector, share, None, np.sort(columns[times > 0])))
    return np.concatenate([columns for columns, _ in pieces]), np.concatenate([times for _, times in pieces])


def deal(filled: Filled, counts: Sequence[int]) -> list[Filled]:
    """So many pods of what was filled to each, one after the other."""
    columns, times = filled
    ends = times.cumsum()
    dealt, low = [], 0
    for high in np.cumsum(counts).tolist():
        own = np.minimum(ends, high) - np.maximum(ends - times, low)
        dealt.append((columns[own > 0], own[own > 0]))
        low = high
    return dealt


def _shares(
    levels: Sequence[Columns], rooms: Longs, low: int, high: int, size: int
) -> Iterator[tuple[int, int, int]]:
    """(first cell, end, pods): `size` pods over cells low…high, in as few domains of each level as goes.

    `levels` are the first cells of the domains, level by level; `rooms` are running sums over the cells.
    """
    if high - low == 1 or size == rooms[high] - rooms[low]:
        yield low, high, size
        return
    starts = levels[0]
    first, end = np.searchsorted(starts, (low, high)).tolist()
    bounds = rooms[starts[first : end + 1]]
    room = np.diff(bounds)
    order = np.argsort(-room, kind="stable")
    filled = np.cumsum(room[order])
    whole = int(np.searchsorted(filled, size, side="right"))
    for i in order[:whole].tolist():
        if room[i]:
            yield int(starts[first + i]), int(starts[first + i + 1]), int(room[i])
    rest = size - (int(filled[whole - 1]) if whole else 0)
    if rest:
        able = order[whole:][room[order[whole:]] >= rest]
        i = first + int(able[np.lexsort((able, room[able]))[0]])
        yield from _shares(levels[1:], rooms, int(starts[i]), int(starts[i + 1]), rest)
