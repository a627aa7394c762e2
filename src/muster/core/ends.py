"""When what runs is expected to end, and what it leaves then.

A gang counts from its first bound pod, or from its `Assign` as long as no pod is known to be bound. Two
durations say how long it may last: its `limit`, after which it is ended by force, and its `estimate`, what
its owner thinks. What is *expected* is the lesser of the two; what can be *promised* to others is the
limit, and the estimate only where there is no limit. A gang with neither, and a pod of nobody's, ends at no
time that could be counted on.

A gang that outlives its time ends *any moment*: at each cycle's own time, which is what the head of the
queue waits for then. All of a gang's places are taken to be free at its end, none before.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import inf

from muster.core.events import NOTHING, PodBound, Presence
from muster.core.gang import Amounts, Gang, GangId, NodeName, PodId
from muster.core.gangs import GangState
from muster.core.ledger import Ledger
from muster.core.nodes import Demand

#: A pod that is taken off alone: it is on a device, or others mind that it is there.
Pod = tuple[NodeName, Amounts, int | None, Presence]


@dataclass(frozen=True, slots=True)
class Taken:
    """What a gang's pods and promises take: by node, all that are mere amounts together, and the others."""

    amounts: list[tuple[NodeName, Demand]]
    others: list[Pod]


def expected(gang: Gang) -> float:
    """Seconds that it is thought to run; infinite if nothing is said."""
    return min(_or_inf(gang.estimate), _or_inf(gang.limit))


def promised(gang: Gang) -> float:
    """Seconds after which it is gone for certain, as far as its estimate is: infinite if nothing is said."""
    return gang.limit if gang.limit is not None else _or_inf(gang.estimate)


class Ends:
    """All gangs that use nodes, in order of their ends."""

    def __init__(
        self,
        pods: Mapping[PodId, PodBound],
        demand: Callable[[Amounts], Demand],
        duration: Callable[[Gang], float] = expected,
    ) -> None:
        """`demand`: of `Nodes`. `duration`: whether to go by what is expected or by what can be promised."""
        self.duration = duration
        self._pods, self._demand = pods, demand
        #: end, start, id; those without an end come last, the oldest first
        self._ordered: list[tuple[float, float, GangId]] = []
        self._known: dict[GangId, tuple[float, float, GangId]] = {}
        self._states: dict[GangId, GangState] = {}
        self._taken: dict[GangId, Taken] = {}
        #: counts ends that have moved
        self.moved = 0

    def note(self, state: GangState) -> None:
        """A gang has changed."""
        self._taken.pop(state.id, None)
        key = None
        if state.started is not None:
            duration = self.duration(state.gang) if state.gang is not None else inf
            key = (state.started + duration, state.started, state.id)
        known = self._known.get(state.id)
        if key == known:
            return
        if known is not None:
            del self._ordered[bisect_left(self._ordered, known)]
            self.moved += key is not None
        if key is None:
            self._known.pop(state.id)
            del self._states[state.id]
        else:
            insort(self._ordered, key)
            self._known[state.id] = key
            self._states[state.id] = state

    def after(self, now: float) -> Iterator[tuple[float, GangState]]:
        """When each gang ends, those that are overdue now; infinite for those of which nothing is known."""
        for end, _, gang in self._ordered:
            yield max(end, now), self._states[gang]

    def taken(self, state: GangState) -> Taken:
        """What is free once this gang has ended."""
        taken = self._taken.get(state.id)
        if taken is None:
            pods: list[Pod] = []
            for pod in state.pods:
                bound = self._pods[pod]
                pods.append((bound.node, bound.requests, bound.presence.device, bound.presence))
            pods += [(held.node, held.requests, held.device, held.presence) for held in state.holds.values()]
            sums: dict[NodeName, dict[int, int]] = {}
            others = []
            for node, requests, device, presence in pods:
                if device is None and presence is NOTHING:
                    add(sums, node, self._demand(requests))
                else:
                    others.append((node, requests, device, presence))
            amounts = [(node, tuple(sum_.items())) for node, sum_ in sums.items()]
            taken = self._taken[state.id] = Taken(amounts, others)
        return taken


class Room:
    """What ended gangs leave, summed up by node until the ledger is told."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._sums: dict[NodeName, dict[int, int]] = {}
        self._others: list[Pod] = []

    def add(self, taken: Taken) -> None:
        for node, amounts in taken.amounts:
            add(self._sums, node, amounts)
        self._others += taken.others

    def give(self) -> None:
        """Take it off the ledger, for a trial."""
        for node, sums in self._sums.items():
            self._ledger.charge(node, tuple(sums.items()), -1)
        for pod in self._others:
            self._ledger.give(*pod)
        self._sums.clear()
        self._others.clear()


def add(sums: dict[NodeName, dict[int, int]], node: NodeName, amounts: Demand) -> None:
    known = sums.get(node)
    if known is None:
        sums[node] = dict(amounts)
    else:
        for row, amount in amounts:
            known[row] = known.get(row, 0) + amount


def _or_inf(seconds: float | None) -> float:
    return inf if seconds is None else seconds
