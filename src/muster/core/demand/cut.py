"""A demand cut to what is left, of a queue's entitlement or of a ResourceQuota."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from muster.core.demand import Demand, Part
from muster.core.words.amounts import Key


def cut(demand: Demand, room: Mapping[Key, int], costs: Sequence[Mapping[Key, int]]) -> tuple[Part, ...]:
    """As many places of each part as there is room for, but at least the minimum.

    Parts without any are left out. `costs`: what a place of each part takes. What `room` does not name is not
    limited. A minimum over all parts is filled with the smallest pods; the rest of the room goes to the parts
    in their order.
    """
    left = dict(room)
    counts = [0] * len(demand.parts)
    limited = [{key: n for key, n in cost.items() if n > 0 and key in left} for cost in costs]

    def add(p: int, count: int) -> None:
        counts[p] += count
        for key, amount in limited[p].items():
            left[key] -= count * amount

    def size(p: int) -> float:
        return max((amount / max(room[key], 1) for key, amount in limited[p].items()), default=0.0)

    for p, part in enumerate(demand.parts):
        add(p, part.need)
    rest = demand.need - sum(counts)
    for p in sorted(range(len(demand.parts)), key=size):
        more = max(min(rest, demand.parts[p].count - counts[p]), 0)
        add(p, more)
        rest -= more
    for p, part in enumerate(demand.parts):
        fitting = [max(left[key], 0) // amount for key, amount in limited[p].items()]
        add(p, min([part.count - counts[p], *fitting]))
    return tuple(
        replace(part, count=count) for part, count in zip(demand.parts, counts, strict=True) if count
    )
