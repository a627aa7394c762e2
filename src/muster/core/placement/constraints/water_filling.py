"""Divides groups of pods over domains by water filling: how many each domain may, must and does get.

Bisection finds the lowest level to which domains have to be filled so that all pods find room. Columns are
then filled in their order as far as their domains allow.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from muster.core.words.gang import Spread
from muster.core.world.domains import Domain
from muster.core.world.nodes import Bools, Columns, Ints, Longs


@dataclass(slots=True)
class Limit:
    """How many more pods each domain takes: `room`, by number of the domain."""

    index: Ints
    room: Longs


def pour(
    order: Columns,
    caps: Longs,
    limits: Sequence[Limit],
    needs: Sequence[Limit],
    shares: Sequence[Limit],
    count: int,
) -> tuple[Columns, Longs]:
    """Fill columns in order: first what domains need, then equal shares, then any column with room."""
    given = np.zeros(len(order), np.int64)
    rounds = [[*needs], *([need] for need in needs if len(needs) > 1)] if needs else []
    for further in [*rounds, *([[*shares]] if shares else []), []]:
        some = [*limits, *further]
        left = count - int(given.sum())
        if left <= 0:
            break
        more = _fill(order, caps - given, some, left)
        given += more
        for limit in {id(limit): limit for limit in (*limits, *needs, *shares)}.values():
            index = limit.index[order]
            taken = np.bincount(index[index >= 0], weights=more[index >= 0], minlength=len(limit.room))
            limit.room = np.maximum(limit.room - taken.astype(np.int64), 0)
    chosen = given > 0
    return order[chosen], given[chosen]


def _fill(order: Columns, caps: Longs, limits: Sequence[Limit], count: int) -> Longs:
    """Return per column of the order as many pods as it and its domains take, up to `count` in total."""
    rooms: dict[int, tuple[Ints, Longs]] = {}
    for limit in limits:
        known = rooms.get(id(limit.index))
        room = limit.room if known is None else np.minimum(known[1], limit.room)
        rooms[id(limit.index)] = (limit.index[order], room)
    if len(rooms) > 1:
        return _fill_one_by_one(caps, list(rooms.values()), count)
    for index, room in rooms.values():
        by_domain = np.argsort(index, kind="stable")
        grouped = index[by_domain]
        filled = np.cumsum(caps[by_domain])
        start = np.searchsorted(grouped, grouped)
        before = filled - caps[by_domain]
        before -= before[start]
        allowed = np.empty_like(caps)
        limited = np.where(grouped >= 0, np.append(room, 0)[grouped], 0)
        allowed[by_domain] = np.clip(limited - before, 0, caps[by_domain])
        caps = allowed
    filled = np.cumsum(caps)
    given: Longs = np.clip(count - (filled - caps), 0, caps)
    return given


def _fill_one_by_one(caps: Longs, rooms: Sequence[tuple[Ints, Longs]], count: int) -> Longs:
    given = np.zeros(len(caps), np.int64)
    indices = [index.tolist() for index, _ in rooms]
    left = [room.tolist() for _, room in rooms]
    for i, cap in enumerate(caps.tolist()):
        times = min(cap, count)
        for index, room in zip(indices, left, strict=True):
            times = min(times, room[index[i]]) if index[i] >= 0 else 0
        if times > 0:
            given[i] = times
            count -= times
            for index, room in zip(indices, left, strict=True):
                room[index[i]] -= times
            if not count:
                break
    return given


def level(spread: Spread, counts: Longs, counted: Bools, most: Longs, count: int) -> tuple[Longs, Longs]:
    """Return per domain the room for `count` pods within the skew, and the pods needed to make this room.

    The lowest level L with Σ min(most, L + skew - counts) ≥ count; domains below L must be filled up to it.
    If there is none, the highest level that domains can be filled to: then not all pods find room.
    """

    def room(level: int) -> Longs:
        return np.where(counted, np.clip(level + spread.max_skew - counts, 0, most), 0)

    def need(level: int) -> Longs:
        return np.where(counted, np.maximum(level - counts, 0), 0)

    low = fewest(spread, counts, counted)
    fixed = int(np.count_nonzero(counted)) < spread.min_domains or not counted.any()
    high = low if fixed else max(low, min(low + count, int((counts + most)[counted].min())))
    while low < high:
        middle = (low + high) // 2
        if int(room(middle).sum()) >= count:
            high = middle
        else:
            low = middle + 1
    if int(need(low).sum()) > count:
        low -= 1
    return room(low), need(low)


def fewest(spread: Spread, counts: Longs, counted: Bools) -> int:
    """Return the pods of the domain with the fewest; 0 if there are fewer than `minDomains` domains."""
    there = counts[counted]
    return int(there.min()) if len(there) >= max(spread.min_domains, 1) else 0


def share(domain: Domain, counts: Longs, left: Ints, count: int) -> Limit:
    """Return per domain an equal share of `count` pods; pods already there count towards it."""
    most = domain.sums(left)
    counted = most > 0
    low, high = 0, int(counts.max(initial=0)) + count
    while low < high:
        middle = (low + high) // 2
        if int(np.where(counted, np.clip(middle - counts, 0, most), 0).sum()) >= count:
            high = middle
        else:
            low = middle + 1
    return Limit(domain.index, np.where(counted, np.clip(low - counts, 0, most), 0))
