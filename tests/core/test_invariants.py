"""The core under arbitrary events, checked after every cycle.

A rule machine plays cluster, controllers and runtime: nodes come, change and go, gangs are submitted,
gated, resized and removed, what is assigned is bound (or bound elsewhere, lost, failed), pods end, time
passes, and the scheduler is started anew from the facts. `Witness` keeps an account of its own, from which
most of this is checked (the list is that of docs/proofs.md):

1. nothing is oversubscribed by a decision, no resource and no shared device, and the ledger equals the sum
   of pods and held places;
2. an Assign always completes the gang's minimum;
3. no gang waits for room that there is: an exact oracle finds no placement of its minimum;
4. every waiting gang has a reason;
5. caches equal a fresh computation;
6. every event told twice decides the same, and so does a fresh scheduler that is told the same.
"""

import os
from collections import Counter

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from muster.core.decisions import Assign, Decision
from muster.core.eligibility import Eligibility
from muster.core.events import (
    CommitFailed,
    Event,
    GangRemoved,
    GangSubmitted,
    LayersChanged,
    NodeRemoved,
    PlacesLost,
    PlacesRetired,
    PlanFound,
    PodBound,
    PodsEnded,
    Presence,
    QueueChanged,
    QueueRemoved,
)
from muster.core.gang import (
    Code,
    Effect,
    Gang,
    GangId,
    Gate,
    Gather,
    HostPort,
    Layer,
    NodeName,
    Operator,
    Place,
    PodId,
    PodSet,
    PodTerm,
    Queue,
    Requirement,
    Shape,
    Strategy,
    Taint,
)
from muster.core.scheduler import Config, Scheduler
from muster.core.slots import Slots
from muster.names import GPU_SHARE
from tests.core.witness import NO_ROOM, Witness
from tests.core.words import GPU, amounts, node, shape

NODES = [NodeName(f"n{i}") for i in range(5)]
GANGS = [GangId(f"ns/g{i}") for i in range(5)]
LAYERS = (Layer("zone", ("zone",)), Layer("rack", ("rack",)))
APP = (("app", "x"),)
SHAPES = [
    *[shape(gpu=1), shape(gpu=2), shape(gpu=3, cpu=2000), shape(cpu=1000)] * 2,
    shape(gpu=1, selector={"zone": "a"}),
    shape(share=300),
    shape(share=550, cpu=1000),
]
CONSTRAINED = [
    Shape(amounts({GPU: 1}), ports=(HostPort(80),)),
    Shape(amounts({GPU: 1}), apart=(PodTerm("rack", (Requirement("app", Operator.IN, ("x",)),), ("ns",)),)),
]
#: (shape, count, minimum)
SETS = st.lists(
    st.tuples(st.sampled_from([*SHAPES * 2, *CONSTRAINED]), st.integers(0, 4), st.integers(0, 4)),
    min_size=1,
    max_size=2,
)
GATHERS = st.sampled_from(
    [
        *[()] * 6,
        (Gather("zone", Strategy.MUST_GATHER),),
        (Gather("rack", Strategy.MUST_GATHER),),
        (Gather("zone", Strategy.PREFER_GATHER),),
        (Gather("zone", Strategy.MUST_GATHER), Gather("rack", None, 2)),
    ]
)
QUEUES = st.builds(
    Queue,
    st.sampled_from(["p", "q"]),
    parent=st.sampled_from(["root", "root", "p"]),
    weight=st.integers(1, 3),
    capability=st.sampled_from([(), (), amounts({GPU: 4}), amounts({GPU: 8, "cpu": 4000})]),
    closed=st.sampled_from([False, False, False, True]),
)
#: seconds that pass until a cycle follows; None: none does
THEN = st.sampled_from([None, 0.0, 1.0, 15.0, 40.0])


def fresh() -> Scheduler:
    return Scheduler(Config(hold=20.0))


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.muster, self.twice = fresh(), fresh()
        self.witness = Witness()
        #: events, and the times of cycles, since the scheduler was started last
        self.log: list[Event | float] = []
        self.decided: list[list[Decision]] = []
        self.serial = 0
        #: what was ever assigned and may still be bound: node and device
        self.assigned: dict[tuple[GangId, Place], tuple[NodeName, int | None]] = {}
        self.tell(LayersChanged(LAYERS))

    def tell(self, event: Event) -> None:
        self.log.append(event)
        self.witness.told(event)
        self.muster.apply(event)
        self.twice.apply(event)
        self.twice.apply(event)

    # The cluster

    @initialize(sizes=st.lists(st.integers(0, 6), min_size=2, max_size=5))
    def nodes_come(self, sizes: list[int]) -> None:
        for i, gpu in enumerate(sizes):
            self.tell(node(NODES[i], gpu, 6000, 0, 110, {"zone": "ab"[i % 2], "rack": f"r{i % 3}"}))

    @rule(
        name=st.sampled_from(NODES),
        gpu=st.integers(0, 6),
        cpu=st.integers(0, 6),
        pods=st.sampled_from([2, 110, None]),
        zone=st.sampled_from("ab"),
        rack=st.sampled_from(["r0", "r1", None]),
        state=st.sampled_from(["", "", "", "cordoned", "unready", "tainted"]),
        then=THEN,
    )
    def node_changes(
        self,
        name: NodeName,
        gpu: int,
        cpu: int,
        pods: int | None,
        zone: str,
        rack: str | None,
        state: str,
        then: float | None,
    ) -> None:
        taints = (Taint("k", "v", Effect.NO_SCHEDULE),) if state == "tainted" else ()
        labels = {"zone": zone} if rack is None else {"zone": zone, "rack": rack}
        fact = node(name, gpu, 1000 * cpu, 0, pods, labels, taints, state == "cordoned")
        self.tell(fact if state != "unready" else node(name, gpu, 1000 * cpu, 0, pods, ready=False))
        self.cycle(then)

    @rule(name=st.sampled_from(NODES))
    def node_goes(self, name: NodeName) -> None:
        self.tell(NodeRemoved(name))

    @rule(name=st.sampled_from(NODES), gpu=st.integers(1, 3))
    def foreign_pod(self, name: NodeName, gpu: int) -> None:
        self.serial += 1
        self.tell(PodBound(PodId(f"foreign-{self.serial}"), name, amounts({GPU: gpu})))

    @rule(queue=QUEUES, then=THEN)
    def queue_changes(self, queue: Queue, then: float | None) -> None:
        if queue.parent != queue.name:
            self.tell(QueueChanged(queue))
            self.cycle(then)

    @rule(name=st.sampled_from(["p", "q"]))
    def queue_goes(self, name: str) -> None:
        self.tell(QueueRemoved(name))

    # Gangs

    @rule(
        name=st.sampled_from(GANGS),
        sets=SETS,
        overall=st.integers(0, 6),
        priority=st.integers(0, 2),
        gated=st.sampled_from([False, False, False, True]),
        queue=st.sampled_from(["default", "default", "p", "q"]),
        gather=GATHERS,
        limit=st.sampled_from([None, None, 10.0, 50.0]),
        preemptible=st.sampled_from([True, True, False]),
        then=THEN,
    )
    def gang_submitted(
        self,
        name: GangId,
        sets: list[tuple[Shape, int, int]],
        overall: int,
        priority: int,
        gated: bool,
        queue: str,
        gather: tuple[Gather, ...],
        limit: float | None,
        preemptible: bool,
        then: float | None,
    ) -> None:
        pod_sets = tuple(
            PodSet(f"s{i}", of, n, min(n, least), APP if of.apart else ())
            for i, (of, n, least) in enumerate(sets)
        )
        gang = Gang(
            name,
            pod_sets,
            min(overall, sum(p.count for p in pod_sets)),
            self.now,
            priority,
            queue,
            Gate(Code.GATED, "held") if gated else None,
            "ns",
            gather=gather,
            limit=limit,
            preemptible=preemptible,
        )
        self.tell(GangSubmitted(gang))
        self.cycle(then)

    @rule(
        crowd=st.lists(st.tuples(st.sampled_from(SHAPES), st.integers(1, 4)), min_size=2, max_size=4),
        urgent=st.tuples(st.sampled_from(SHAPES), st.integers(1, 4)),
        elastic=st.booleans(),
    )
    def crowd_and_urgent(
        self, crowd: list[tuple[Shape, int]], urgent: tuple[Shape, int], elastic: bool
    ) -> None:
        """Many small gangs run, and one comes that ranks above them."""
        for name, (of, count) in zip(GANGS, crowd, strict=False):
            least = 1 if elastic else count
            self.tell(GangSubmitted(Gang(name, (PodSet("s0", of, count, least),), least, self.now, 0)))
        self.cycle(0.0)
        self.all_bind(1.0)
        of, count = urgent
        self.tell(GangSubmitted(Gang(GANGS[-1], (PodSet("s0", of, count, count),), count, self.now, 2)))
        self.cycle(1.0)

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
    def some_bind(self, data: st.DataObject, elsewhere: NodeName | None) -> None:
        held = sorted(self.assigned)
        if not held:
            return
        for gang, place in data.draw(st.lists(st.sampled_from(held), unique=True, max_size=6)):
            node, device = self.assigned[gang, place]
            self.bind(gang, place, elsewhere or node, device if elsewhere in (None, node) else None)

    @rule(then=THEN)
    def all_bind(self, then: float | None) -> None:
        for (gang, place), promise in sorted(self.witness.promised.items()):
            self.bind(gang, place, promise.node, promise.device)
        self.cycle(then)

    def bind(self, gang: GangId, place: Place, node: NodeName, device: int | None) -> None:
        self.assigned.pop((gang, place), None)
        known = self.witness.gangs.get(gang)
        of = next((s for s in known.pod_sets if s.name == place.pod_set), None) if known else None
        if of is not None:
            self.serial += 1
            presence = Presence("ns", of.labels, of.shape.ports, of.shape.apart, device)
            pod = PodId(f"p{self.serial}")
            self.tell(PodBound(pod, node, of.shape.requests, gang, place, presence, self.now))

    @rule(data=st.data(), late=st.integers(0, 30), then=THEN)
    def pods_end(self, data: st.DataObject, late: int, then: float | None) -> None:
        if self.muster.pods:
            pods = st.lists(st.sampled_from(sorted(self.muster.pods)), unique=True, max_size=4)
            for pod in data.draw(pods):
                self.tell(PodsEnded((pod,), self.now - late))
            self.cycle(then)

    @rule(name=st.sampled_from(GANGS), then=THEN)
    def all_pods_end(self, name: GangId, then: float | None) -> None:
        """As when a gang starts anew."""
        for pod in sorted(p for p, bound in self.witness.pods.items() if bound.gang == name):
            self.tell(PodsEnded((pod,), self.now))
        self.cycle(then)

    @rule(then=THEN)
    def victims_leave(self, then: float | None) -> None:
        for pod in sorted(self.witness.leaving):
            self.tell(PodsEnded((pod,), self.now))
        self.cycle(then)

    @rule(data=st.data())
    def attempt_ends(self, data: st.DataObject) -> None:
        """Pods of an earlier attempt are still there, but fill no place."""
        if members := sorted(p for p, bound in self.muster.pods.items() if bound.place is not None):
            for pod in data.draw(st.lists(st.sampled_from(members), unique=True, max_size=4)):
                bound = self.muster.pods[pod]
                self.tell(PodBound(pod, bound.node, bound.requests, bound.gang, presence=bound.presence))

    @rule(data=st.data(), node=st.sampled_from(NODES))
    def place_lost(self, data: st.DataObject, node: NodeName) -> None:
        if self.assigned:
            gang, place = data.draw(st.sampled_from(sorted(self.assigned)))
            self.tell(PlacesLost(gang, frozenset({place}), frozenset({node}), self.now + 10))

    @rule(name=st.sampled_from(GANGS), wait=st.sampled_from([5.0, float("inf")]))
    def commit_failed(self, name: GangId, wait: float) -> None:
        self.tell(CommitFailed(name, self.now + wait, "refused"))

    @rule(then=THEN)
    def cycle(self, then: float | None) -> None:
        if then is None:
            return
        self.now += then
        self.log.append(self.now)
        clear = self.clear
        decisions = self.muster.decide(self.now)
        self.decided.append(decisions)
        assert self.twice.decide(self.now) == decisions
        self.witness.decided(decisions, clear=clear)
        for decision in decisions:
            if isinstance(decision, Assign):
                for place, node in decision.nodes.items():
                    self.assigned[decision.gang, place] = (node, decision.devices.get(place))
        self.check_waiting()
        self.check_queues()
        wake = self.muster.wake_at()
        assert wake is None or wake > self.now

    @rule()
    def restart(self) -> None:
        """Another scheduler takes over: it knows the facts, and open plans."""
        self.check_determinism()
        self.log, self.decided = [], []
        self.muster, self.twice = fresh(), fresh()
        facts = list(self.witness.facts())
        self.witness.promised.clear()
        self.witness.called = dict(self.witness.leaving)  # open plans name no others
        for event in facts:
            self.tell(event)
        self.cycle(0.0)

    # What holds

    @property
    def clear(self) -> bool:
        """Everything that is held is promised, nobody backs off or leaves, and all has been searched."""
        waiting = any(
            state.back_off or any(not promise.told for promise in state.holds.values())
            for state in self.muster.gangs.values()
        )
        # what victims had been promised is charged until no bind of it can be on its way
        leaving = self.witness.leaving or any(self.muster.preemption.departures.beneficiaries)
        return not (waiting or leaving or self.muster.fit.exact.behind)

    def check_waiting(self) -> None:
        """Who waits has a reason; and if it is room that is lacking, there is none indeed."""
        clear = self.clear
        rooms = {name: self.witness.room(name) for name in self.witness.nodes}
        for gang in self.witness.gangs:
            if self.witness.waits(gang):
                code = self.witness.reasons[gang].code
                if clear and code in NO_ROOM:
                    assert self.witness.fits(gang, rooms) is not True, f"{gang} waits ({code}) and fits"

    @invariant()
    def ledger_equals_pods_and_holds(self) -> None:
        expected: Counter[tuple[str, str]] = Counter()
        devices: Counter[tuple[str, int | None]] = Counter()
        taken = [(pod.node, pod.requests, pod.presence.device) for pod in self.muster.pods.values()]
        for state in self.muster.gangs.values():
            taken += [(promise.node, promise.requests, promise.device) for promise in state.holds.values()]
        departures = self.muster.preemption.departures._departures.values()
        taken += [charged[:3] for departure in departures for charged in departure.promised]
        for departure in departures:
            for name, common in departure.shared.items():
                for row, amount in common:
                    expected[name, self.muster.nodes.resource(row)] -= amount
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

    def check_queues(self) -> None:
        """What a queue uses is what the gangs of its own and of all queues below it use."""
        if self.muster.preemption.departures.leaving:
            return  # what leaves for somebody is charged to him
        for name, account in self.muster.queues.accounts.items():
            used: Counter[str] = Counter()
            for state in self.muster.gangs.values():
                if name == "root" or (state.gang and self.witness.is_below(state.gang.queue, name)):
                    used.update(state.usage)
            used[GPU_SHARE] += 1000 * used.pop(GPU, 0)  # queues count GPUs in thousandths
            assert +used == Counter({r: n for r, n in account.used.items() if n}), (
                name,
                used,
                account.used,
                self.log[-3:],
            )

    def check_determinism(self) -> None:
        again = fresh()
        decided = []
        for told in self.log:
            if isinstance(told, float):
                decided.append(again.decide(told))
            else:
                again.apply(told)
        assert decided == self.decided

    def teardown(self) -> None:
        self.check_determinism()


# A failing run of 40 steps takes minutes to shrink, longer than a test may: it is told as it is, with what
# reproduces it. MUSTER_TESTS_SHRINK=yes (and --timeout=0) makes it small.
_PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
_SHRINK = (Phase.shrink,) if os.environ.get("MUSTER_TESTS_SHRINK") == "yes" else ()
Machine.TestCase.settings = settings(
    max_examples=100,
    stateful_step_count=40,
    deadline=None,
    phases=(*_PHASES, *_SHRINK),
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestEverything = Machine.TestCase
