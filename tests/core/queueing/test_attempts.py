"""The order that is kept is the order that sorting would make."""

import random
from collections.abc import Container

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.demand import Demand
from muster.core.queueing import Admission, Attempts, Tier
from muster.core.queueing.pending import PendingQueues, first_claim
from muster.core.words.gang import Code, GangId, Gate
from muster.core.world.claims import NodeClaims
from muster.core.world.eligibility import Eligibility
from muster.core.world.failed_starts import FailedStarts
from muster.core.world.footprints import Footprints
from muster.core.world.gangs import BackOff, GangState
from muster.core.world.lacking import Demands
from muster.core.world.nodes import Nodes
from muster.core.world.queues import Queues
from muster.core.world.quotas import Quotas
from muster.core.world.trial import UndoLog
from tests.core.words import gang
from tests.tiers import examples


class Cluster:
    """Pending queues of a cluster with one queue, and the gangs that one walk along them visits."""

    def __init__(self) -> None:
        self.demands = Demands(Footprints(Nodes()), FailedStarts(), NodeClaims(lambda steps: None))
        nodes = Nodes()
        self._queues = Queues(nodes, Eligibility(nodes), UndoLog())
        self._admission = Admission(self._queues, Quotas(UndoLog()), self.demands)
        self.pending = PendingQueues(self._queues)

    def put(self, state: GangState) -> None:
        self.demands.settle(state)
        self._queues.settle(state)
        self.pending.put(state)

    def attempts(self, lapsed: set[GangId], infeasible: Container[Demand]) -> Attempts:
        self._queues.entitle()

        def is_infeasible(state: GangState, demand: Demand, tier: Tier, cap_exceeded: bool) -> bool:
            return state.plain and demand in infeasible

        made = Attempts(self.pending, self._queues, self._admission, is_infeasible, lambda _: True)
        return made.begin(lapsed)

    def serve(self, lapsed: set[GangId], infeasible: Container[Demand] = ()) -> list[GangState]:
        attempts = self.attempts(lapsed, infeasible)
        served = [attempt.state for attempt in attempts]
        return [*served, *(state for state in attempts.served.values() if state.demand is None)]


def ordered(states: list[GangState], lapsed: set[GangId]) -> list[GangState]:
    def key(state: GangState) -> tuple[int, tuple[int, float, GangId]]:
        if state.demand is None:
            return (3, state.rank)
        return (2 if state.id in lapsed else 0 if first_claim(state) else 1, state.rank)

    return sorted(states, key=key)


@given(st.integers(0, 10_000))
@settings(max_examples=examples(50), deadline=None)
def test_gangs_that_arrive_change_or_leave_keep_the_order(seed: int) -> None:
    rng = random.Random(seed)
    order = Cluster()
    states: dict[GangId, GangState] = {}
    for _ in range(40):
        name = GangId(f"g{rng.randint(0, 12)}")
        if rng.random() < 0.2:
            states.pop(name, None)
            order.pending.drop(name)
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
    infeasible = {s.demand for s in states.values() if s.demand is not None and rng.random() < 0.5}
    served = order.serve(set(), infeasible)
    left = [s for s in states.values() if s.demand is None or not (s.plain and s.demand in infeasible)]
    assert served == ordered(left, set())


def test_one_refusal_skips_all_gangs_that_lack_the_same() -> None:
    order = Cluster()
    for name, count in [("a", 2), ("b", 1), ("c", 2), ("d", 2), ("e", 1)]:
        state = GangState(GangId(name), gang(name, count=count))
        order.put(state)
    refused: set[Demand] = set()
    visited = []
    for attempt in order.attempts(set(), refused):
        visited.append(attempt.state.id)
        if attempt.state.id == "a":
            refused.add(attempt.demand)
    assert visited == ["a", "b", "e"]
