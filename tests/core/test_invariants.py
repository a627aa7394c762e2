"""The core under arbitrary events, checked after every cycle.

A rule machine plays cluster, controllers and runtime: nodes come, change and go, gangs are submitted,
gated, resized and removed, what is assigned is bound (or bound elsewhere, lost, failed), pods end, time
passes, and the scheduler is restarted from the facts. `Checker` keeps an account of its own, from which
most of this is checked (the list is that of docs/internals/proofs.md):

1. nothing is oversubscribed by a decision, no resource and no shared device, and the ledger equals the sum
   of pods and held places;
2. an Assign always completes the gang's minimum, in its domains and with its affinity satisfied;
3. no start exceeds a cap, a number of gangs or a ResourceQuota; evictions keep to ranks, budgets and shares;
4. no gang waits for room that there is: an exact oracle finds no placement of its minimum; a gang
   that waits for its queue is told the truth; and no queue borrows what another waits for within its share;
5. a gang with a reservation starts by then if no gang is submitted;
6. every waiting gang has a reason;
7. caches equal a fresh computation;
8. every event told twice decides the same, so does a fresh scheduler that is told the same, and one that is
   saved and restored, and another scheduler that is told the facts comes to the same state.
"""

import os
from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import replace
from math import inf

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from muster.core.cycle import Config, Scheduler
from muster.core.demand import Demand
from muster.core.placement.packing import Pack
from muster.core.placement.slots import Slots
from muster.core.reservations import Backfill
from muster.core.saved import restored, saved
from muster.core.words.decisions import Assign, Decision, Evict, Release
from muster.core.words.events import (
    BudgetChanged,
    BudgetRemoved,
    CommitFailed,
    Event,
    Footprint,
    GangRemoved,
    GangSubmitted,
    LayersChanged,
    NodeRemoved,
    PlacesLost,
    PlacesRetired,
    PlanFound,
    PodsBound,
    PodsEnded,
    QueueChanged,
    QueueRemoved,
    QuotaChanged,
    QuotaRemoved,
)
from muster.core.words.gang import (
    Amounts,
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
    QueueOrder,
    Requirement,
    Shape,
    Spread,
    Strategy,
    Taint,
)
from muster.core.world.eligibility import Eligibility
from muster.names import GPU_SHARE
from tests.core.checker import NO_ROOM, Checker
from tests.core.words import GPU, amounts, node, shape
from tests.tiers import examples

NODES = [NodeName(f"n{i}") for i in range(5)]
GANGS = [GangId(f"ns/g{i}") for i in range(5)]
LAYERS = (Layer("zone", ("zone",)), Layer("rack", ("rack",)))
APP, OTHER = (("app", "x"),), (("app", "y"),)
IS_APP = (Requirement("app", Operator.IN, ("x",)),)
SHAPES = [
    *[shape(gpu=1), shape(gpu=2), shape(gpu=3, cpu=2000), shape(cpu=1000)] * 2,
    shape(gpu=1, selector={"zone": "a"}),
    shape(share=300),
    shape(share=550, cpu=1000),
]
CONSTRAINED = [
    Shape(amounts({GPU: 1}), ports=(HostPort(80),)),
    Shape(amounts({GPU: 1}), pod_anti_affinity=(PodTerm("rack", IS_APP, ("ns",)),)),
    Shape(amounts({GPU: 1}), pod_affinity=(PodTerm("zone", IS_APP, ("ns",)),)),
    Shape(amounts({GPU: 1}), spread=(Spread("rack", 1, IS_APP),)),
]
#: (shape, count, minimum, how many pods are still to be created)
SETS = st.lists(
    st.tuples(
        st.sampled_from([*SHAPES * 4, *CONSTRAINED * 2]),
        st.integers(0, 4),
        st.integers(0, 4),
        st.sampled_from([0, 0, 0, 4]),
    ),
    min_size=1,
    max_size=2,
)
#: what a ResourceQuota charges for each pod that is still to be created
CHARGES: Amounts = (("pods", 1), ("requests.cpu", 500))
GATHERS = st.sampled_from(
    [
        *[()] * 6,
        (Gather("zone", Strategy.MUST_GATHER),),
        (Gather("rack", Strategy.MUST_GATHER),),
        (Gather("zone", Strategy.PREFER_GATHER),),
        (Gather("zone", Strategy.MUST_GATHER), Gather("rack", None, 2)),
    ]
)


def asked(
    sets: list[tuple[Shape, int, int, int]],
    overall: int,
    priority: int,
    gated: bool,
    queue: str,
    gather: tuple[Gather, ...],
    exclusive: str,
    limit: float | None,
    preemptible: bool,
) -> Gang:
    """A gang; name and time are the machine's to give."""
    pod_sets = tuple(
        PodSet(
            f"s{i}",
            of,
            n,
            min(n, least),
            APP if of in CONSTRAINED else OTHER,
            uncreated=min(n, uncreated),
            quotas=(("compute", CHARGES),) if uncreated else (),
        )
        for i, (of, n, least, uncreated) in enumerate(sets)
    )
    return Gang(
        GANGS[0],
        pod_sets,
        min(overall, sum(p.count for p in pod_sets)),
        0.0,
        priority,
        queue,
        Gate(Code.GATED, "held") if gated else None,
        "ns",
        gather=gather,
        exclusive=exclusive,
        limit=limit,
        min_run_time=30.0 if limit else 0.0,
        preemptible=preemptible,
    )


ASKED = st.builds(
    asked,
    sets=SETS,
    overall=st.integers(0, 6),
    priority=st.integers(0, 2),
    gated=st.sampled_from([False, False, False, True]),
    queue=st.sampled_from(["default", "default", "p", "q"]),
    gather=GATHERS,
    exclusive=st.sampled_from(["", "", "", "", "rack"]),
    limit=st.sampled_from([None, None, 10.0, 50.0]),
    preemptible=st.sampled_from([True, True, False]),
)
#: Guarantees and caps that agree, whichever queue is the parent.
QUEUES = st.builds(
    Queue,
    st.sampled_from(["p", "q"]),
    parent=st.sampled_from(["root", "root", "p"]),
    weight=st.integers(1, 3),
    guarantee=st.sampled_from([(), amounts({GPU: 1})]),
    deserved=st.sampled_from([None, None, amounts({GPU: 2})]),
    capability=st.sampled_from([(), (), amounts({GPU: 4}), amounts({GPU: 8, "cpu": 4000})]),
    order=st.sampled_from(QueueOrder),
    reclaimable=st.sampled_from([True, True, False]),
    closed=st.sampled_from([False, False, False, True]),
    max_gangs=st.sampled_from([None, None, 1, 2]),
)
#: seconds that pass until a cycle follows; None: none does
THEN = st.sampled_from([None, 0.0, 1.0, 15.0, 40.0])
#: seconds for which a place is held
HOLD = 20.0


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 1.0  # a pod that has been there since 0 is one of which it is not known since when
        self.config = Config(hold=HOLD)
        self.muster, self.twice = self.fresh(), self.fresh()
        self.checker = Checker(HOLD, could_run=self.could_run)
        #: by gang, what it lacked at the beginning of the cycle
        self.demands: dict[GangId, Demand | None] = {}
        #: events, and the times of cycles, since the scheduler was started last
        self.log: list[Event | float] = []
        self.decided: list[list[Decision]] = []
        self.serial = 0
        #: what was ever assigned and may still be bound: node and device
        self.assigned: dict[tuple[GangId, Place], tuple[NodeName, int | None]] = {}

    def fresh(self) -> Scheduler:
        return Scheduler(self.config)

    def tell(self, event: Event) -> None:
        self.log.append(event)
        self.checker.told(event)
        self.muster.apply(event)
        self.twice.apply(event)
        self.twice.apply(event)

    # The cluster

    @initialize(
        sizes=st.lists(st.integers(0, 6), min_size=2, max_size=5),
        backfill=st.sampled_from([Backfill.EASY, Backfill.EASY, Backfill.CONSERVATIVE, Backfill.NONE]),
        queues=st.lists(QUEUES, max_size=2),
    )
    def cluster_comes(self, sizes: list[int], backfill: Backfill, queues: list[Queue]) -> None:
        self.config = Config(hold=HOLD, backfill=backfill)
        self.muster, self.twice = self.fresh(), self.fresh()
        self.tell(LayersChanged(LAYERS))
        for i, gpu in enumerate(sizes):
            self.tell(node(NODES[i], gpu, 6000, 0, 110, {"zone": "ab"[i % 2], "rack": f"r{i % 3}"}))
        for queue in queues:
            self.queue_changes(queue, None)

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
        self.tell(PodsBound({PodId(f"foreign-{self.serial}"): None}, name, amounts({GPU: gpu})))

    @rule(queue=QUEUES, then=THEN)
    def queue_changes(self, queue: Queue, then: float | None) -> None:
        if queue.parent != queue.name:
            self.tell(QueueChanged(queue))
            self.cycle(then)

    @rule(name=st.sampled_from(["p", "q"]))
    def queue_goes(self, name: str) -> None:
        self.tell(QueueRemoved(name))

    @rule(pods=st.sampled_from([None, 0, 1, 3, 6]), cpu=st.sampled_from([1000, 9000]))
    def quota_changes(self, pods: int | None, cpu: int) -> None:
        """What is left of it, whatever has been promised before."""
        if pods is None:
            self.tell(QuotaRemoved("ns", "compute"))
        else:
            self.tell(QuotaChanged("ns", "compute", (("pods", pods), ("requests.cpu", cpu))))

    @rule(
        name=st.sampled_from(["one", "other"]),
        apps=st.sampled_from([("x",), ("y",), ("x", "y")]),
        allowed=st.sampled_from([None, None, 0, 1, 3]),
    )
    def budget_changes(self, name: str, apps: tuple[str, ...], allowed: int | None) -> None:
        if allowed is None:
            self.tell(BudgetRemoved("ns", name))
        else:
            self.tell(BudgetChanged("ns", name, (Requirement("app", Operator.IN, apps),), allowed))

    # Gangs

    @rule(name=st.sampled_from(GANGS), gang=ASKED, then=THEN)
    def gang_submitted(self, name: GangId, gang: Gang, then: float | None) -> None:
        self.tell(GangSubmitted(replace(gang, id=name, submitted=self.now)))
        self.cycle(then)

    @rule(gangs=st.lists(ASKED, min_size=3, max_size=5), then=THEN)
    def many_come(self, gangs: list[Gang], then: float | None) -> None:
        """All of a sudden, where others have just gone; those that start are bound."""
        for name, gang in zip(GANGS, gangs, strict=False):
            self.finish(name)
            self.tell(GangSubmitted(replace(gang, id=name, submitted=self.now)))
        self.cycle(0.0)
        self.all_bind(then)

    @rule(name=st.sampled_from(GANGS), count=st.integers(0, 4), least=st.integers(0, 4), then=THEN)
    def gang_resized(self, name: GangId, count: int, least: int, then: float | None) -> None:
        """Its first pod set; and its pods that were to be created have been."""
        if (known := self.checker.gangs.get(name)) is not None:
            first, *others = known.pod_sets
            sets = (replace(first, count=count, min_count=min(least, count), uncreated=0), *others)
            most = sum(s.count for s in sets)
            self.tell(GangSubmitted(replace(known, pod_sets=sets, min_count=min(known.min_count, most))))
            self.cycle(then)

    @rule(name=st.sampled_from(GANGS), queue=st.sampled_from(["default", "p", "q"]), then=THEN)
    def gang_changes_queue(self, name: GangId, queue: str, then: float | None) -> None:
        if (known := self.checker.gangs.get(name)) is not None:
            self.tell(GangSubmitted(replace(known, queue=queue)))
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
            self.submit(name, of, count, 1 if elastic else count)
        self.cycle(0.0)
        self.all_bind(1.0)
        self.submit(GANGS[-1], *urgent, urgent[1], priority=2)
        self.cycle(1.0)

    @rule(
        borrowers=st.lists(st.tuples(st.sampled_from(SHAPES), st.integers(2, 4)), min_size=2, max_size=4),
        owner=st.tuples(st.sampled_from(SHAPES), st.integers(1, 4)),
        elastic=st.booleans(),
    )
    def lend_and_take_back(
        self, borrowers: list[tuple[Shape, int]], owner: tuple[Shape, int], elastic: bool
    ) -> None:
        """One queue uses all there is while no other wants any, and then the other one does."""
        for name, (of, count) in zip(GANGS, borrowers, strict=False):
            self.submit(name, of, count, 1 if elastic else count, queue="p")
        self.cycle(0.0)
        self.all_bind(1.0)
        self.submit(GANGS[-1], *owner, owner[1], queue="q")
        self.cycle(1.0)

    @rule(
        line=st.lists(
            st.tuples(st.sampled_from(SHAPES), st.integers(1, 4), st.sampled_from("ppq")),
            min_size=4,
            max_size=5,
        ),
        weight=st.integers(1, 3),
    )
    def queues_compete(self, line: list[tuple[Shape, int, str]], weight: int) -> None:
        """Nothing runs, and gangs of two queues come at once."""
        self.tell(QueueChanged(Queue("p")))
        self.tell(QueueChanged(Queue("q", weight=weight)))
        for name in GANGS:
            self.finish(name)
        for name, (of, count, queue) in zip(GANGS, line, strict=False):
            self.submit(name, of, count, count, queue=queue)
        self.cycle(0.0)

    @rule(
        left=st.integers(0, 6),
        line=st.lists(
            st.tuples(st.sampled_from(SHAPES), st.integers(1, 4), st.integers(0, 4)), min_size=2, max_size=3
        ),
    )
    def namespace_is_short(self, left: int, line: list[tuple[Shape, int, int]]) -> None:
        """Nothing runs, and gangs whose pods are still to be created come to what is left of a quota."""
        self.tell(QuotaChanged("ns", "compute", (("pods", left), ("requests.cpu", 9000))))
        for name in GANGS:
            self.finish(name)
        for name, (of, count, least) in zip(GANGS, line, strict=False):
            self.submit(name, of, count, min(least, count), uncreated=True)
        self.cycle(0.0)

    def submit(
        self,
        name: GangId,
        of: Shape,
        count: int,
        least: int,
        *,
        priority: int = 0,
        queue: str = "default",
        limit: float | None = None,
        uncreated: bool = False,
    ) -> None:
        pods = PodSet("s0", of, count, least, APP if of in CONSTRAINED else OTHER)
        sets = (replace(pods, uncreated=count, quotas=(("compute", CHARGES),)) if uncreated else pods,)
        gang = Gang(name, sets, least, self.now, priority, queue, namespace="ns", limit=limit)
        self.tell(GangSubmitted(gang))

    @rule(
        line=st.lists(
            st.tuples(st.sampled_from(SHAPES), st.integers(1, 4), st.sampled_from([10.0, 30.0])),
            min_size=5,
            max_size=5,
        )
    )
    def no_more_gangs(self, line: list[tuple[Shape, int, float]]) -> None:
        """In one queue gangs with limits wait, and no more come: a reserved gang starts by its time."""
        for queue in ("p", "q"):
            self.tell(QueueRemoved(queue))
        for name in GANGS:
            self.finish(name)
        for name, (of, count, limit) in zip(GANGS, line, strict=True):
            self.submit(name, of, count, count, limit=limit)
        promised: dict[GangId, float] = {}
        for _ in range(3 * len(GANGS)):
            self.cycle(0.0)
            if self.muster.wake_at() is not None:
                self.cycle(0.0)  # the core asks for another cycle, for the newcomers
            if not self.clear:
                return
            for gang, start in promised.items():
                assert start > self.now or not self.checker.waits(gang), f"{gang} was to start by {start}"
            for reserved in self.muster.reservations.made:
                promised[reserved.gang] = min(reserved.at, promised.get(reserved.gang, reserved.at))
            self.all_bind(None)
            ends = {
                name: at + (self.checker.gangs[name].limit or 0) for name, at in self.checker.bound.items()
            }
            if not ends:
                return
            self.now = min(ends.values())
            for name in sorted(name for name, end in ends.items() if end <= self.now):
                self.finish(name)

    def finish(self, name: GangId) -> None:
        """It has run to its end."""
        for pod in sorted(p for p, bound in self.checker.pods.items() if bound.gang == name):
            self.tell(PodsEnded((pod,), self.now))
        self.tell(GangRemoved(name))

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

    @rule(data=st.data(), elsewhere=st.sampled_from([None, None, None, *NODES]), together=st.booleans())
    def some_bind(self, data: st.DataObject, elsewhere: NodeName | None, *, together: bool) -> None:
        held = sorted(self.assigned)
        if not held:
            return
        bound = []
        for gang, place in data.draw(st.lists(st.sampled_from(held), unique=True, max_size=6)):
            node, device = self.assigned[gang, place]
            device = device if elsewhere in (None, node) else None
            bound += self.bind(gang, place, elsewhere or node, device)
        self.tell_bound(bound, together=together)

    @rule(then=THEN, together=st.booleans())
    def all_bind(self, then: float | None, *, together: bool = False) -> None:
        promised = sorted(self.checker.promised.items())
        bound = [
            event for (gang, place), at in promised for event in self.bind(gang, place, at.node, at.device)
        ]
        self.tell_bound(bound, together=together)
        self.cycle(then)

    def bind(self, gang: GangId, place: Place, node: NodeName, device: int | None) -> list[PodsBound]:
        self.assigned.pop((gang, place), None)
        known = self.checker.gangs.get(gang)
        of = next((s for s in known.pod_sets if s.name == place.pod_set), None) if known else None
        if of is None:
            return []
        self.serial += 1
        footprint = Footprint("ns", of.labels, of.shape.ports, of.shape.pod_anti_affinity, device)
        pod = PodId(f"p{self.serial}")
        return [PodsBound({pod: place}, node, of.shape.requests, gang, footprint, self.now)]

    def tell_bound(self, bound: list[PodsBound], *, together: bool) -> None:
        """Those that are the same in one fact, if they are told `together`."""
        facts: list[PodsBound] = []
        for event in bound:
            same = next((i for i, fact in enumerate(facts) if replace(fact, pods=event.pods) == event), None)
            if together and same is not None:
                facts[same] = replace(event, pods={**facts[same].pods, **event.pods})
            else:
                facts.append(event)
        for fact in facts:
            self.tell(fact)

    @rule(data=st.data(), late=st.integers(0, 30), then=THEN)
    def pods_end(self, data: st.DataObject, late: int, then: float | None) -> None:
        if self.muster.world.pods:
            pods = st.lists(st.sampled_from(sorted(self.muster.world.pods)), unique=True, max_size=4)
            for pod in data.draw(pods):
                self.tell(PodsEnded((pod,), self.now - late))
            self.cycle(then)

    @rule(name=st.sampled_from(GANGS), then=THEN)
    def all_pods_end(self, name: GangId, then: float | None) -> None:
        """As when a gang restarts."""
        for pod in sorted(p for p, bound in self.checker.pods.items() if bound.gang == name):
            self.tell(PodsEnded((pod,), self.now))
        self.cycle(then)

    @rule(then=THEN)
    def victims_leave(self, then: float | None) -> None:
        for pod in sorted(self.checker.leaving):
            self.tell(PodsEnded((pod,), self.now))
        self.cycle(then)

    @rule(data=st.data())
    def attempt_ends(self, data: st.DataObject) -> None:
        """Pods of an earlier attempt are still there, but fill no place."""
        if members := sorted(p for p, bound in self.muster.world.pods.items() if bound.pods[p] is not None):
            for pod in data.draw(st.lists(st.sampled_from(members), unique=True, max_size=4)):
                bound = self.muster.world.pods[pod]
                self.tell(
                    PodsBound({pod: None}, bound.node, bound.requests, bound.gang, footprint=bound.footprint)
                )

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
        begun = {gang for gang in self.checker.gangs if self.checker.has_begun(gang)}
        self.demands = {gang: state.demand for gang, state in self.muster.world.gangs.items()}
        decisions = self.muster.decide(self.now)
        self.decided.append(decisions)
        assert self.twice.decide(self.now) == decisions
        self.checker.decided(decisions, self.now, clear=clear)
        for decision in decisions:
            if isinstance(decision, Assign):
                for place, node in decision.nodes.items():
                    self.assigned[decision.gang, place] = (node, decision.devices.get(place))
        stirred = any(isinstance(decision, Evict) for decision in decisions)
        started = any(isinstance(decision, Assign) for decision in decisions)
        self.check_waiting(stirred, started)
        if self.clear and not stirred:
            self.check_lent([decision for decision in decisions if isinstance(decision, Assign)], begun)
        self.check_queues()
        wake = self.muster.wake_at()
        assert wake is None or wake > self.now

    @rule()
    def saved_and_restored(self) -> None:
        """A scheduler goes on from a saved state as if it had never been saved."""
        self.twice = restored(saved(self.twice))

    @rule()
    def restart(self) -> None:
        """Another scheduler takes over: it knows the facts, and open plans."""
        for _ in range(2):  # entitlements see in the second cycle what the first has started and ended
            self.cycle(0.0)
        before = self.state() if self.calm else None
        self.check_determinism()
        self.log, self.decided = [], []
        self.muster, self.twice = self.fresh(), self.fresh()
        facts = list(self.checker.facts())
        self.checker.restarted()
        for event in facts:
            self.tell(event)
        for _ in range(2):
            self.cycle(0.0)
        if before is not None:
            after = self.state()
            differs = {what: (before[what], after[what]) for what in before if after[what] != before[what]}
            assert not differs, f"after a restart: {differs}"

    # What holds

    @property
    def clear(self) -> bool:
        """All that the core reckons with is what it has told: nothing held, planned, put off or leaving."""
        states = self.muster.world.gangs.values()
        if any(s.back_off or s.avoided or s.planned or s.lapsed for s in states):
            return False
        if any(not promise.announced for state in states for promise in state.holds.values()):
            return False
        # what victims had been promised is charged until no bind of it can be on its way
        leaving = self.checker.leaving or any(self.muster.world.pending_evictions)
        return not (leaving or self.muster.fit.exact.budget.behind)

    @property
    def calm(self) -> bool:
        """Nothing happens any more by itself, and all promises could be made again as they are."""
        stirred = any(isinstance(decision, Assign | Evict | Release) for decision in self.decided[-1])
        return self.clear and not stirred and self.checker.renewable

    def state(self) -> dict[str, object]:
        """Places of pods and holds, usage of nodes, and usage and entitlement of queues."""
        nodes, queues = self.muster.world.nodes, self.muster.world.queues
        resources = sorted(nodes.resources.items())
        return {
            "filled": sorted((p, b.gang, b.pods[p], b.node) for p, b in self.muster.world.pods.items()),
            "held": sorted(
                (gang, place, promise.node)
                for gang, state in self.muster.world.gangs.items()
                for place, promise in state.holds.items()
            ),
            "used": {
                (name, resource): nodes.used.item(row, column)
                for resource, row in resources
                for name, column in sorted(nodes.column.items())
                if name in nodes.facts and nodes.used.item(row, column)
            },
            "queues": {
                name: (account.used, +Counter(account.entitled), account.waiting, account.standing)
                for name, account in sorted(queues.accounts.items())
            },
        }

    def could_run(self, gang: GangId) -> Mapping[str, int] | None:
        state, queues = self.muster.world.gangs.get(gang), self.muster.world.queues
        if state is None or state.demand is None or queues.attainable is None or queues.undivided:
            return None
        if state.back_off is not None and state.back_off.until == inf:
            return {}
        known = {place for each, place in self.checker.promised if each == gang}
        demand = state.demand if state.holds.keys() <= known else self.demands.get(gang)  # not checked so far
        if demand is None:
            return None
        if queues.attainable.by_pods(demand) and not queues._charges[gang].wanted:
            return {}  # pods that it needs beside its own were not there when shares were divided
        return queues.attainable.of(demand)

    def check_waiting(self, stirred: bool, started: bool) -> None:
        """A waiting gang has a reason; if that is capacity, there is none indeed.

        `stirred`: gangs were evicted in this cycle, and others may have been refused before that. `started`:
        so were gangs, and with their pods others may have become able to run, of which shares knew nothing.
        """
        attainable, states = self.muster.world.queues.attainable, self.muster.world.gangs.values()
        redivided = started and any(
            demand is not None and attainable is not None and attainable.by_pods(demand)
            for demand in (*self.demands.values(), *(state.demand for state in states))
        )
        current = not self.muster._explainer.postponed  # else some are told what an earlier cycle has found
        clear = self.clear and current
        reserved = bool(self.muster.reservations.made)
        codes = NO_ROOM if reserved else {*NO_ROOM, Code.OVER_SHARE}
        rooms = {name: self.checker.room(name) for name in self.checker.nodes}
        shares = self.checker.shares()
        for gang in self.checker.gangs:
            if self.checker.waits(gang):
                code = self.checker.reasons[gang].code
                assert code is not Code.HELD_FOR_RESERVATION or reserved or not current
                if clear and code in codes:
                    assert self.checker.fits(gang, rooms) is not True, f"{gang} waits ({code}) and fits"
                if clear and not stirred and not (redivided and code is Code.OVER_SHARE):
                    assert self.checker.refused_rightly(gang, shares), (
                        f"{gang} is told {code}, and it is not so"
                    )

    def check_lent(self, starts: list[Assign], begun: Set[GangId]) -> None:
        """No queue borrowed what another could have used within its entitlement."""
        shares = self.checker.shares()
        for number, start in enumerate(starts):
            if start.gang not in begun:
                wronged = self.checker.wronged(starts[number:], shares)
                assert wronged is None, f"{start.gang} was lent what {wronged} waits for"

    @invariant()
    def ledger_equals_pods_and_holds(self) -> None:
        assert self.muster.world.ledger.log.depth == 0  # every trial has ended
        expected: Counter[tuple[str, str]] = Counter()
        devices: Counter[tuple[str, int | None]] = Counter()
        taken = [(pod.node, pod.requests, pod.footprint.device) for pod in self.muster.world.pods.values()]
        for state in self.muster.world.gangs.values():
            taken += [(promise.node, promise.requests, promise.device) for promise in state.holds.values()]
        departures = self.muster.world.pending_evictions.values()
        taken += [charged[:3] for departure in departures for charged in departure.promised]
        for departure in departures:
            for name, common in departure.shared.items():
                for resource, amount in common:
                    expected[name, resource] -= amount
        for name, requests, device in taken:
            for resource, amount in (*requests, ("pods", 1)):
                expected[name, resource] += amount
                if resource == GPU_SHARE:
                    expected[name, GPU] += not devices[name, device]
                    devices[name, device] += amount
        nodes = self.muster.world.nodes
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
        if self.muster.world.nodes.facts.keys() - self.muster.world.nodes.column.keys():  # not settled
            return
        eligibility = Eligibility(self.muster.world.nodes)
        order = Pack(self.muster.world.nodes, eligibility)
        gangs = self.muster.world.gangs
        order.gangs_changed(gangs.values())
        order.settle()
        fresh = Slots(order)
        # The next cycle would tell it of these; of all other gangs it has been told.
        self.muster.fit.slots.order.gangs_changed([gangs[gang] for gang in gangs.touched | gangs.kept])
        self.muster.fit.slots.order.settle()
        for of in SHAPES:
            cached, computed = self.muster.fit.slots.of(of), fresh.of(of)
            assert cached.slots.tolist() == computed.slots.tolist()
            assert cached.key.tolist() == computed.key.tolist()
            assert cached.total == computed.total

    def check_queues(self) -> None:
        """What a queue uses is what the gangs of its own and of all queues below it are charged with."""
        if self.muster.world.pending_evictions.leaving:
            return  # departing pods are charged to their beneficiary
        for name, account in self.muster.world.queues.accounts.items():
            used, charged = Counter[str](), Counter[str]()
            for state in self.muster.world.gangs.values():
                if state.gang and name in self.checker.tree.path(state.gang.queue):
                    used.update(state.usage)
                    charged.update(self.muster.world.exclusive_domains.surcharges.get(state.id, {}))
            used[GPU_SHARE] += 1000 * used.pop(GPU, 0)  # queues count GPUs in thousandths
            assert +(used + charged) == Counter({r: n for r, n in account.used.items() if n}), name

    def check_determinism(self) -> None:
        again = self.fresh()
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
    max_examples=examples(100),
    stateful_step_count=40,
    deadline=None,
    phases=(*_PHASES, *_SHRINK),
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestEverything = pytest.mark.timeout(1500)(Machine.TestCase)
