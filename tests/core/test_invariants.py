"""The core under arbitrary events, checked after every cycle.

A rule machine plays cluster, controllers and runtime: nodes come, change and go, gangs are submitted,
gated, resized and removed, what is assigned is bound (or bound elsewhere, lost, failed), pods end, time
passes. Checked, numbered as in the list of docs/scheduling.md:

1. nothing is oversubscribed by a decision, no resource and no shared device, and the ledger equals the sum
   of pods and held places;
2. an Assign always completes the gang's minimum;
3. every event told twice decides the same;
4. no waiting gang of one shape would fit (greedy is exact there);
5. caches equal a fresh computation;
6. a fresh scheduler that is told the same decides the same.
"""

from collections import Counter
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from muster.core.decisions import Assign, Decision
from muster.core.eligibility import Eligibility, obstacle
from muster.core.events import (
    CommitFailed,
    Event,
    GangRemoved,
    GangSubmitted,
    NodeRemoved,
    PlacesLost,
    PlacesRetired,
    PlanFound,
    PodBound,
    PodEnded,
)
from muster.core.gang import Code, Effect, Gang, GangId, Gate, NodeName, Place, PodId, PodSet, Taint
from muster.core.scheduler import Config, Scheduler
from muster.core.slots import Slots
from muster.names import GPU_SHARE
from tests.core.words import GPU, amounts, node, shape

NODES = [NodeName(f"n{i}") for i in range(5)]
GANGS = [GangId(f"ns/g{i}") for i in range(5)]
SHAPES = [
    shape(gpu=1),
    shape(gpu=2),
    shape(gpu=3, cpu=2000),
    shape(cpu=1000),
    shape(gpu=1, selector={"zone": "a"}),
    shape(share=300),
    shape(share=550, cpu=1000),
]
SETS = st.lists(
    st.tuples(st.sampled_from(SHAPES), st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=2
)


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.muster = Scheduler(Config(hold=20.0))
        self.twice = Scheduler(Config(hold=20.0))
        self.log: list[Event | float] = []
        self.decided: list[list[Decision]] = []
        self.serial = 0
        self.assigned: dict[tuple[GangId, Place], NodeName] = {}

    def tell(self, event: Event) -> None:
        self.log.append(event)
        self.muster.apply(event)
        self.twice.apply(event)
        self.twice.apply(event)

    # The cluster

    @rule(
        name=st.sampled_from(NODES),
        gpu=st.integers(0, 6),
        cpu=st.integers(0, 6),
        pods=st.sampled_from([2, 110, None]),
        zone=st.sampled_from("ab"),
        state=st.sampled_from(["", "", "", "cordoned", "unready", "tainted"]),
    )
    def node_changes(
        self, name: NodeName, gpu: int, cpu: int, pods: int | None, zone: str, state: str
    ) -> None:
        taints = (Taint("k", "v", Effect.NO_SCHEDULE),) if state == "tainted" else ()
        fact = node(name, gpu, 1000 * cpu, 0, pods, {"zone": zone}, taints, state == "cordoned")
        self.tell(fact if state != "unready" else node(name, gpu, 1000 * cpu, 0, pods, ready=False))

    @rule(name=st.sampled_from(NODES))
    def node_goes(self, name: NodeName) -> None:
        self.tell(NodeRemoved(name))

    @rule(name=st.sampled_from(NODES), gpu=st.integers(1, 3))
    def foreign_pod(self, name: NodeName, gpu: int) -> None:
        self.serial += 1
        self.tell(PodBound(PodId(f"foreign-{self.serial}"), name, amounts({GPU: gpu})))

    # Gangs

    @rule(
        name=st.sampled_from(GANGS),
        sets=SETS,
        overall=st.integers(0, 6),
        priority=st.integers(0, 1),
        gated=st.sampled_from([False, False, False, True]),
    )
    def gang_submitted(
        self, name: GangId, sets: list[tuple[Any, int, int]], overall: int, priority: int, gated: bool
    ) -> None:
        pod_sets = tuple(PodSet(f"s{i}", of, n, min(n, least)) for i, (of, n, least) in enumerate(sets))
        gate = Gate(Code.GATED, "held") if gated else None
        least = min(overall, sum(p.count for p in pod_sets))
        self.tell(GangSubmitted(Gang(name, pod_sets, least, self.now, priority, gate=gate)))

    @rule(name=st.sampled_from(GANGS))
    def gang_removed(self, name: GangId) -> None:
        self.tell(GangRemoved(name))

    @rule(name=st.sampled_from(GANGS), indices=st.frozensets(st.integers(0, 2), max_size=2))
    def places_retire(self, name: GangId, indices: frozenset[int]) -> None:
        self.tell(PlacesRetired(name, frozenset(Place("s0", i) for i in indices)))

    @rule(
        name=st.sampled_from(GANGS),
        nodes=st.dictionaries(st.integers(0, 3), st.sampled_from(NODES), min_size=1, max_size=3),
    )
    def plan_found(self, name: GangId, nodes: dict[int, NodeName]) -> None:
        self.tell(PlanFound(name, {Place("s0", i): n for i, n in nodes.items()}))

    # The runtime

    @rule(data=st.data(), elsewhere=st.sampled_from([None, None, None, *NODES]))
    def bind(self, data: st.DataObject, elsewhere: NodeName | None) -> None:
        held = sorted(self.assigned)
        if not held:
            return
        for gang, place in data.draw(st.lists(st.sampled_from(held), unique=True, max_size=6)):
            target = self.assigned.pop((gang, place))
            state = self.muster.gangs.get(gang)
            sets = {p.name: p.shape for p in state.gang.pod_sets} if state and state.gang else {}
            if place.pod_set in sets:
                self.serial += 1
                requests = sets[place.pod_set].requests
                self.tell(PodBound(PodId(f"p{self.serial}"), elsewhere or target, requests, gang, place))

    @rule(data=st.data(), late=st.integers(0, 30))
    def pods_end(self, data: st.DataObject, late: int) -> None:
        if self.muster.pods:
            pods = st.lists(st.sampled_from(sorted(self.muster.pods)), unique=True, max_size=4)
            for pod in data.draw(pods):
                self.tell(PodEnded(pod, self.now - late))

    @rule(data=st.data())
    def attempt_ends(self, data: st.DataObject) -> None:
        """Pods of an earlier attempt are still there, but fill no place."""
        if members := sorted(p for p, bound in self.muster.pods.items() if bound.place is not None):
            for pod in data.draw(st.lists(st.sampled_from(members), unique=True, max_size=4)):
                bound = self.muster.pods[pod]
                self.tell(PodBound(pod, bound.node, bound.requests, bound.gang))

    @rule(data=st.data(), node=st.sampled_from(NODES))
    def place_lost(self, data: st.DataObject, node: NodeName) -> None:
        if self.assigned:
            gang, place = data.draw(st.sampled_from(sorted(self.assigned)))
            self.tell(PlacesLost(gang, frozenset({place}), frozenset({node}), self.now + 10))

    @rule(name=st.sampled_from(GANGS), wait=st.sampled_from([5.0, float("inf")]))
    def commit_failed(self, name: GangId, wait: float) -> None:
        self.tell(CommitFailed(name, self.now + wait, "refused"))

    @rule(passed=st.sampled_from([0.0, 1.0, 15.0, 40.0]))
    def decide(self, passed: float) -> None:
        self.now += passed
        self.log.append(self.now)
        decisions = self.muster.decide(self.now)
        self.decided.append(decisions)
        assert self.twice.decide(self.now) == decisions
        for decision in decisions:
            if isinstance(decision, Assign):
                self.check_assign(decision)
                self.assigned.update({(decision.gang, p): n for p, n in decision.nodes.items()})
        self.check_work_conservation()
        wake = self.muster.wake_at()
        assert wake is None or wake > self.now

    # What holds

    def check_assign(self, assign: Assign) -> None:
        state = self.muster.gangs[assign.gang]
        assert state.gang is not None
        assert state.gang.gate is None
        sets = {p.name: p for p in state.gang.pod_sets}
        for place, name in assign.nodes.items():
            assert obstacle(sets[place.pod_set].shape, self.muster.nodes.facts[name]) == 0
            assert place not in state.filled
            assert place not in state.retired
            assert place.index < sets[place.pod_set].count
            asked = {"pods", *dict(sets[place.pod_set].shape.requests)}
            assert asked.isdisjoint(self.overdrawn(name))
            if sets[place.pod_set].shape.gpu_share:
                assert GPU not in self.overdrawn(name)
                assert self.muster.nodes.devices.used(name)[assign.devices[place]] <= 1000
        promised = {*state.filled, *state.retired, *(p for p, h in state.holds.items() if h.told)}
        done = Counter(p.pod_set for p in promised if p.pod_set in sets and p.index < sets[p.pod_set].count)
        assert sum(done.values()) >= state.gang.min_count
        assert all(done[p.name] >= p.min_count for p in state.gang.pod_sets)

    def overdrawn(self, name: NodeName) -> set[str]:
        """Resources of which more is used on a node than it has."""
        nodes, column = self.muster.nodes, self.muster.nodes.column[name]
        return {
            resource
            for resource, row in nodes.resources.items()
            if nodes.used.item(row, column) > nodes.capacity(row).item(column)
        }

    def check_work_conservation(self) -> None:
        fresh = Slots(self.muster.nodes, Eligibility(self.muster.nodes))
        for state in self.muster.gangs.values():
            want = state.want
            if want is None or not state.waits or state.back_off or len(want.parts) != 1 or state.holds:
                continue
            least = max(want.need, want.parts[0].need)
            if least <= want.parts[0].count:
                assert fresh.of(want.parts[0].shape).total < least

    @invariant()
    def ledger_equals_pods_and_holds(self) -> None:
        expected: Counter[tuple[str, str]] = Counter()
        devices: Counter[tuple[str, int | None]] = Counter()
        taken = [(pod.node, pod.requests, pod.presence.device) for pod in self.muster.pods.values()]
        for state in self.muster.gangs.values():
            taken += [(promise.node, promise.requests, promise.device) for promise in state.holds.values()]
        for name, requests, device in taken:
            for resource, amount in (*requests, ("pods", 1)):
                expected[name, resource] += amount
                if resource == GPU_SHARE:
                    expected[name, GPU] += not devices[name, device]
                    devices[name, device] += amount
        nodes = self.muster.nodes
        for name in nodes.column:
            shared = {(name, i): amount for i, amount in enumerate(nodes.devices.used(name)) if amount}
            assert shared == {key: amount for key, amount in devices.items() if key[0] == name}
        for resource, row in nodes.resources.items():
            for name, column in nodes.column.items():
                used = nodes.used.item(row, column)
                assert used == expected[name, resource]
                if resource == GPU_SHARE:
                    continue
                free = max(nodes.capacity(row).item(column) - used, -1)
                assert nodes.free_at(row, column) == free

    @invariant()
    def caches_equal_a_fresh_computation(self) -> None:
        if self.muster.nodes.unsettled:
            return
        fresh = Slots(self.muster.nodes, Eligibility(self.muster.nodes))
        for of in SHAPES:
            cached, computed = self.muster.slots.of(of), fresh.of(of)
            assert cached.slots.tolist() == computed.slots.tolist()
            assert cached.key.tolist() == computed.key.tolist()
            assert cached.total == computed.total

    def teardown(self) -> None:
        again = Scheduler(Config(hold=20.0))
        decided = []
        for told in self.log:
            if isinstance(told, float):
                decided.append(again.decide(told))
            else:
                again.apply(told)
        assert decided == self.decided


Machine.TestCase.settings = settings(
    max_examples=120,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestEverything = Machine.TestCase
