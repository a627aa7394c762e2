"""In which order gangs are served.

1. Gangs that have begun (pods on nodes, held places, an open plan) and lack something of it: what is
   half there is finished before anything new starts.
2. All others by rank: priority (higher first), then age, then id. A standing gang that could grow above
   its minimum is among them, at its own rank.
3. Gangs whose hold has just run out: everyone else has had the chance to use it first.

A gang that does not fit holds nothing and is passed over; it blocks nobody behind it.

The order is kept, not made: a gang is put in its place when its state changes, and a cycle walks along.
Gangs that want the same stand in one file, each file in order of rank, and the walk merges the files. So
one refusal passes over all who want the same, and a cycle costs as much as there are different wants,
however many wait.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Hashable, Iterator
from heapq import heapify, heappop, heapreplace

from muster.core.gang import GangId
from muster.core.gangs import GangState

#: Whether it has begun (0) or not (1), then its rank; no two are equal.
_Key = tuple[int, tuple[int, float, GangId]]


class Line:
    """Gangs that lack something, in the order in which they are served."""

    def __init__(self) -> None:
        self._files: dict[Hashable, list[tuple[_Key, GangState]]] = {}
        self._standing: dict[GangId, tuple[Hashable, _Key]] = {}

    def __len__(self) -> int:
        return len(self._standing)

    def put(self, state: GangState) -> None:
        """Where it belongs as it is now, wherever it stood."""
        begun = first_claim(state)
        kind = kind_of(state, begun)
        key = (0 if begun else 1, state.rank)
        if self._standing.get(state.id) == (kind, key):
            return
        self.drop(state.id)
        self._standing[state.id] = kind, key
        insort(self._files.setdefault(kind, []), (key, state))

    def drop(self, gang: GangId) -> None:
        kind, key = self._standing.pop(gang, (None, None))
        if key is None:
            return
        file = self._files[kind]
        del file[bisect_left(file, (key,))]
        if not file:
            del self._files[kind]

    def serve(self, lapsed: Collection[GangId], hopeless: Callable[[GangState], bool]) -> Iterator[GangState]:
        """All of them. Who is `hopeless` when his turn comes is left out, and so is all his kind behind him.

        `put` and `drop` are for when the walk is over.
        """
        heads = [(file[0], 0, file) for file in self._files.values() if not hopeless(file[0][1])]
        heapify(heads)
        last = []
        while heads:
            (key, state), position, file = heads[0]
            if hopeless(state):
                heappop(heads)
                continue
            if state.id in lapsed:
                last.append((key[1], state))
            else:
                yield state
            position += 1
            if position < len(file):
                heapreplace(heads, (file[position], position, file))
            else:
                heappop(heads)
        yield from (state for _, state in sorted(last))


def kind_of(state: GangState, begun: bool) -> Hashable:
    """Gangs of one kind get one answer: if one does not fit, nor does any that ranks below it.

    Whether it fits depends on what it wants alone; whether victims can be found, on its queue and rank too.
    """
    gang = state.gang
    if not state.plain or gang is None:
        return state.id
    return state.want, gang.queue, gang.preempts, begun


def first_claim(state: GangState) -> bool:
    untold = any(not hold.told for hold in state.holds.values())
    return state.begun and (state.waits or untold or bool(state.planned))
