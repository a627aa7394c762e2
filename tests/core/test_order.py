"""The order that is kept is the order that sorting would make."""

import random
from collections.abc import Container

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.demand import Demand
from muster.core.queueing.admission import Admission, Tier
from muster.core.queueing.attempts import Attempts
from muster.core.queueing.pending import PendingQueues, first_claim
from muster.core.words.gang import Code, GangId, Gate
from muster.core.world.eligibility import Eligibility
from muster.core.world.footprints import Presences
from muster.core.world.gangs import BackOff, GangState
from muster.core.world.lacking import Demands
from muster.core.world.nodes import Nodes
from muster.core.world.queues import Queues
from muster.core.world.quotas import Quotas
from muster.core.world.trial import UndoLog
from tests.core.words import gang


class Order:
    """PendingQueues of a cluster with one queue, and who is looked at in one walk along them."""

    def __init__(self) -> None:
        self.demands = Demands(Presences(Nodes()))
        nodes = Nodes()
        self._queues = Queues(nodes, Eligibility(nodes), UndoLog())
        self._admission = Admission(self._queues, Quotas(UndoLog()), self.demands)
        self.lines = PendingQueues(self._queues)

    def put(self, state: GangState) -> None:
        self.demands.settle(state)
        self._queues.settle(state)
        self.lines.put(state)

    def attempts(self, lapsed: set[GangId], hopeless: Container[Demand]) -> Attempts:
        self._queues.entitle()

        def is_hopeless(state: GangState, demand: Demand, tier: Tier, cap_exceeded: bool) -> bool:
            return state.plain and demand in hopeless

        return Attempts(
            self.lines, self._queues, self._admission, lapsed, is_hopeless, lambda _: True, seen=False
        )

    def serve(self, lapsed: set[GangId], hopeless: Container[Demand] = ()) -> list[GangState]:
        attempts = self.attempts(lapsed, hopeless)
        served = [attempt.state for attempt in attempts]
        return [*served, *(state for state in attempts.served.values() if state.demand is None)]


def ordered(states: list[GangState], lapsed: set[GangId]) -> list[GangState]:
    def key(state: GangState) -> tuple[int, tuple[int, float, GangId]]:
        if state.demand is None:
            return (3, state.rank)
        return (2 if state.id in lapsed else 0 if first_claim(state) else 1, state.rank)

    return sorted(states, key=key)


@given(st.integers(0, 10_000))
@settings(max_examples=50, deadline=None)
def test_whoever_comes_changes_or_goes(seed: int) -> None:
    rng = random.Random(seed)
    order = Order()
    states: dict[GangId, GangState] = {}
    for _ in range(40):
        name = GangId(f"g{rng.randint(0, 12)}")
        if rng.random() < 0.2:
            states.pop(name, None)
            order.lines.drop(name)
        else:
            state = states.setdefault(name, GangState(name))
            gate = Gate(Code.GATED, "") if rng.random() < 0.2 else None
            state.gang = gang(
                name,
                count=rng.randint(1, 3),
                submitted=float(rng.randint(0, 3)),
                priority=rng.randint(0, 2),
                gate=gate,
            )
            state.back_off = BackOff(9.0, "") if rng.random() < 0.2 else None
            order.put(state)
        lapsed = {gone for gone, state in states.items() if state.demand is not None and rng.random() < 0.1}
        assert order.serve(lapsed) == ordered(list(states.values()), lapsed)
    hopeless = {s.demand for s in states.values() if s.demand is not None and rng.random() < 0.5}
    served = order.serve(set(), hopeless)
    left = [s for s in states.values() if s.demand is None or not (s.plain and s.demand in hopeless)]
    assert served == ordered(left, set())


def test_one_refusal_passes_over_all_who_want_the_same() -> None:
    order = Order()
    for name, count in [("a", 2), ("b", 1), ("c", 2), ("d", 2), ("e", 1)]:
        state = GangState(GangId(name), gang(name, count=count))
        order.put(state)
    refused: set[Demand] = set()
    looked_at = []
    for attempt in order.attempts(set(), refused):
        looked_at.append(attempt.state.id)
        if attempt.state.id == "a":
            refused.add(attempt.demand)
    assert looked_at == ["a", "b", "e"]
