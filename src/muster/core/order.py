"""In which order gangs are served.

1. Gangs that have begun (pods on nodes, held places, an open plan) and lack something of it: what is
   half there is finished before anything new starts.
2. All others by rank: priority (higher first), then age, then id. A standing gang that could grow above
   its minimum is among them, at its own rank.
3. Gangs whose hold has just run out: everyone else has had the chance to use it first.

A gang that does not fit holds nothing and is passed over; it blocks nobody behind it.
"""

from collections.abc import Collection, Iterable

from muster.core.gang import GangId
from muster.core.gangs import GangState


def serve(lacking: Iterable[GangState], lapsed: Collection[GangId]) -> list[GangState]:
    def key(state: GangState) -> tuple[int, tuple[int, float, GangId]]:
        if state.id in lapsed:
            return (2, state.rank)
        return (0 if first_claim(state) else 1, state.rank)

    return sorted(lacking, key=key)


def first_claim(state: GangState) -> bool:
    untold = any(not hold.told for hold in state.holds.values())
    return state.begun and (state.waits or untold or bool(state.planned))
