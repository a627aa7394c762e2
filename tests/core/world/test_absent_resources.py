"""Resources that no node has: pods may name any number of them, and only nodes make rows.

The reference is a scheduler in whose cluster a node on which no pod fits has a capacity of zero for every
name. So there all names have rows from the start.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from muster.core.cycle import Config, Scheduler
from muster.core.saved import restored, saved
from muster.core.words.decisions import Assign, Decision, Evict
from muster.core.words.events import (
    Event,
    GangRemoved,
    GangSubmitted,
    LayersChanged,
    NodeChanged,
    NodeRemoved,
    PodsBound,
    PodsEnded,
    QueueChanged,
)
from muster.core.words.gang import (
    Amounts,
    Gang,
    GangId,
    Gather,
    Layer,
    NodeName,
    Place,
    PodId,
    PodSet,
    Queue,
    Shape,
    Strategy,
)
from muster.core.world.ledger import Charged
from muster.core.world.nodes import ABSENT
from tests.core.words import GPU, amounts, assigns, bind, gang, node, shape, waits
from tests.core.world.test_nodes import made
from tests.tiers import examples

NAMES: Final = ("a.com/x", "mid", "z.com/y")
NODES: Final = tuple(map(NodeName, ("n0", "n1", "n2")))
GANGS: Final = tuple(map(GangId, ("g0", "g1", "g2", "g3")))
RACK: Final = Layer("Rack", ("rack",))

REQUESTS: Final = st.dictionaries(st.sampled_from((*NAMES, GPU)), st.integers(1, 2), max_size=3).map(
    lambda named: amounts({"cpu": 1000, **named})
)
SETS: Final = st.lists(
    st.builds(
        lambda requests, count, least: (requests, count, min(least, count)),
        REQUESTS,
        st.integers(1, 3),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=2,
)


def last(names: Sequence[str] = ()) -> NodeChanged:
    """A node on which no pod fits."""
    return NodeChanged(NodeName("zz"), (("pods", 0), *((name, 0) for name in sorted(names))), ready=False)


def used(core: Scheduler) -> dict[tuple[NodeName, str], int]:
    nodes = core.world.nodes
    cells = {
        (name, resource): nodes.used.item(row, column)
        for name, column in nodes.column.items()
        for resource, row in nodes.resources.items()
    }
    for name, elsewhere in nodes._elsewhere.items():
        for resource, amount in elsewhere.items():
            cells[name, resource] = cells.get((name, resource), 0) + amount
    return {key: amount for key, amount in cells.items() if amount}


class Named(RuleBasedStateMachine):
    """The same events to a scheduler that learns names from nodes, and to one that has a row for each."""

    @initialize(backfill=st.booleans())
    def begin(self, backfill: bool) -> None:
        self.now, self.number = 0.0, 0
        self.pods: dict[PodId, PodsBound] = {}
        self.plain, self.reference = Scheduler(Config(steps=None)), Scheduler(Config(steps=None))
        self.plain.apply(last())
        self.reference.apply(last(NAMES))
        self.tell(LayersChanged((RACK,)))
        self.tell(QueueChanged(Queue("capped", capability=amounts({NAMES[0]: 2}))))
        for name in NODES:
            self.node(name, {}, ready=True)
        self.cycle()

    def tell(self, event: Event) -> None:
        self.plain.apply(event)
        self.reference.apply(event)

    @rule(
        name=st.sampled_from(NODES),
        has=st.dictionaries(st.sampled_from(NAMES), st.integers(0, 4), max_size=2),
        ready=st.sampled_from([True, True, False]),
    )
    def node(self, name: NodeName, has: dict[str, int], ready: bool) -> None:
        fact = node(name, gpu=2, cpu=8000, pods=6, labels={"rack": f"r{name[-1] > '0'}"}, ready=ready)
        self.tell(replace(fact, capacity=tuple(sorted((*fact.capacity, *has.items())))))

    @rule(name=st.sampled_from(NODES))
    def node_leaves(self, name: NodeName) -> None:
        self.tell(NodeRemoved(name))

    @rule(
        name=st.sampled_from(GANGS),
        sets=SETS,
        least=st.integers(0, 5),
        priority=st.integers(0, 2),
        queue=st.sampled_from(["default", "default", "capped"]),
        near=st.booleans(),
        limit=st.sampled_from([None, 20.0]),
    )
    def submit(
        self,
        name: GangId,
        sets: list[tuple[Amounts, int, int]],
        least: int,
        priority: int,
        queue: str,
        near: bool,
        limit: float | None,
    ) -> None:
        pod_sets = [PodSet(f"s{i}", Shape(of), count, need) for i, (of, count, need) in enumerate(sets)]
        wanted = min(least, sum(count for _, count, _ in sets))
        one = gang(name, *pod_sets, minimum=max(wanted, sum(need for *_, need in sets)), submitted=self.now)
        gather = (Gather("Rack", Strategy.MUST_GATHER),) if near else ()
        self.tell(GangSubmitted(replace(one, priority=priority, queue=queue, gather=gather, limit=limit)))

    @rule(name=st.sampled_from(GANGS))
    def remove(self, name: GangId) -> None:
        self.tell(GangRemoved(name))

    @rule(
        of=REQUESTS,
        on=st.sampled_from((*NODES, NodeName("nowhere"))),
        gang=st.sampled_from((None, *GANGS)),
        place=st.none() | st.builds(Place, st.just("s0"), st.integers(0, 1)),
    )
    def bind_by_another(self, of: Amounts, on: NodeName, gang: GangId | None, place: Place | None) -> None:
        """Another scheduler, or a user, binds a pod, whatever the node has."""
        self.bound(PodsBound({self.pod(): place if gang else None}, on, of, gang, at=self.now))

    @rule(which=st.integers(0, 100))
    def end(self, which: int) -> None:
        if self.pods:
            pod = sorted(self.pods)[which % len(self.pods)]
            del self.pods[pod]
            self.tell(PodsEnded((pod,), self.now))

    @rule(promised=st.booleans())
    def cycle(self, promised: bool = True) -> None:
        self.now += 2.0
        decisions = self.plain.decide(self.now)
        assert decisions == self.reference.decide(self.now)
        for name in GANGS:
            assert self.plain.asked(name) == self.reference.asked(name)
        for decision in decisions:
            self.carry_out(decision, promised)

    @rule()
    def saved_and_restored(self) -> None:
        self.plain = restored(saved(self.plain))

    def carry_out(self, decision: Decision, promised: bool) -> None:
        if isinstance(decision, Evict):
            for victim in decision.victims:
                for pod in sorted(victim.pods or [p for p, b in self.pods.items() if b.gang == victim.gang]):
                    del self.pods[pod]
                    self.tell(PodsEnded((pod,), self.now))
        if isinstance(decision, Assign) and promised:
            of = self.plain.world.gangs[decision.gang].gang
            assert of is not None
            for place, name in decision.nodes.items():
                requests = next(p.shape.requests for p in of.pod_sets if p.name == place.pod_set)
                self.bound(PodsBound({self.pod(): place}, name, requests, decision.gang, at=self.now))

    def bound(self, event: PodsBound) -> None:
        self.pods.update(dict.fromkeys(event.pods, event))
        self.tell(event)

    def pod(self) -> PodId:
        self.number += 1
        return PodId(f"p{self.number:03}")

    @invariant()
    def the_same_is_used(self) -> None:
        assert used(self.plain) == used(self.reference)
        plain, reference = self.plain.world.nodes, self.reference.world.nodes
        if plain.names == reference.names:  # columns of removed nodes may be dropped later in one of them
            some = np.arange(0, len(plain), 2)
            assert plain.used_off(some) == reference.used_off(some)
        assert self.plain.world.queues.root.used == self.reference.world.queues.root.used

    @invariant()
    def nothing_is_free_or_used_of_what_no_node_has(self) -> None:
        nodes = self.plain.world.nodes
        assert not nodes.free(ABSENT).any()
        assert not nodes.used[ABSENT].any()

    @invariant()
    def only_nodes_make_rows(self) -> None:
        nodes, has = self.plain.world.nodes, {"cpu", "memory", "pods", GPU}
        assert nodes.resources.keys() - NAMES <= has
        assert len(nodes.used) == len(nodes.resources) + 1


Named.TestCase.settings = settings(
    max_examples=examples(60),
    stateful_step_count=30,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    print_blob=True,
)
TestNamed = Named.TestCase


def invented(number: int, names: int = 3) -> Amounts:
    return amounts({"cpu": 100, **{f"example.com/{number}-{i}": 1 for i in range(names)}})


def test_rows_are_as_many_as_nodes_have_resources_whatever_pods_request() -> None:
    core = Scheduler()
    core.apply(node("a"))
    core.apply(node("b", labels={"rack": "r"}))
    core.apply(LayersChanged((RACK,)))
    for number in range(1000):
        one = gang(f"g{number}", of=Shape(invented(number)))
        gather = (Gather("Rack", Strategy.MUST_GATHER),) if number % 2 else ()
        core.apply(GangSubmitted(replace(one, gather=gather)))
        if number % 3 == 0:
            pod = {PodId(f"p{number}"): Place("main", 0)}
            core.apply(PodsBound(pod, NodeName("a"), invented(number), GangId(f"g{number}")))
    core.decide(0.0)
    nodes = core.world.nodes
    assert {*nodes.resources} == {"cpu", "memory", "pods", GPU}
    assert len(nodes.used) == len(nodes.resources) + 1
    for number in range(1000):
        core.apply(PodsEnded((PodId(f"p{number}"),), 1.0))
        core.apply(GangRemoved(GangId(f"g{number}")))
    core.decide(2.0)
    assert not nodes.elsewhere
    assert not any("example.com" in name for requests in nodes._resolved for name, _ in requests)


def test_a_pod_that_was_bound_all_the_same_uses_what_its_node_gains_later() -> None:
    nodes, ledger = made(node("a"), node("b"))
    ledger.take(NodeName("a"), amounts({"x.com/y": 3, GPU: 1}))
    for name in "ab":
        nodes.change(replace(node(name), capacity=(*node(name).capacity, ("x.com/y", 4))))
    nodes.settle()
    assert nodes.free(nodes.resources["x.com/y"]).tolist() == [1, 4]
    ledger.give(Charged(NodeName("a"), amounts({"x.com/y": 3, GPU: 1})))
    assert nodes.free(nodes.resources["x.com/y"]).tolist() == [4, 4]


def test_a_trial_takes_back_use_of_what_no_node_has() -> None:
    nodes, ledger = made(node("a"))
    pod = Charged(NodeName("a"), amounts({"x.com/y": 3}))
    ledger.take(*pod)
    with ledger.log.trial():
        ledger.give(pod)
        assert not nodes.elsewhere
    assert nodes.overdrawn(NodeName("a")) == {"x.com/y": 3}


@pytest.mark.parametrize("gather", [(), (Gather("Rack", Strategy.MUST_GATHER),)])
@pytest.mark.parametrize("more", [(), (PodSet("more", shape(gpu=1), 1, 1),)])
def test_a_gang_starts_once_a_node_has_what_it_asks_for(
    gather: tuple[Gather, ...], more: tuple[PodSet, ...]
) -> None:
    def wanted(name: str) -> Gang:
        return replace(gang(name, PodSet("main", shape(gpu=1, fpga=2), 1, 1), *more), gather=gather)

    core = Scheduler()
    core.apply(LayersChanged((RACK,)))
    core.apply(node("a", labels={"rack": "r"}))
    core.apply(GangSubmitted(wanted("g")))
    [wait] = waits(core.decide(0.0))
    assert wait.explanation.message.endswith("a pod asks 2 fpga; the largest matching node has 0")
    has = node("a", labels={"rack": "r"})
    core.apply(replace(has, capacity=(*has.capacity, ("fpga", 2))))
    [assign] = assigns(core.decide(1.0))
    bind(core, assign)
    core.apply(GangSubmitted(wanted("h")))
    [wait] = waits(core.decide(2.0))
    assert wait.explanation.message.startswith("2 fpga asked as 1 × 2; 0 are free")


def test_a_cap_on_what_no_node_has_is_a_cap() -> None:
    core = Scheduler()
    core.apply(node("a"))
    core.apply(QueueChanged(Queue("q", capability=amounts({"fpga": 1}))))
    core.apply(GangSubmitted(replace(gang("g", of=shape(fpga=2)), queue="q")))
    [wait] = waits(core.decide(0.0))
    assert wait.explanation.message == "queue q uses 0 of its 1 fpga; 2 more would be 2"


@given(st.lists(REQUESTS, max_size=6), st.permutations(NAMES))
@settings(max_examples=50, deadline=None)
def test_use_is_the_same_by_whichever_way_it_came(taken: list[Amounts], order: list[str]) -> None:
    """Charged before the node has the resources, one after the other; or after."""
    has = dict.fromkeys(NAMES, 5)
    (late, charged), (early, at_once) = made(node("a")), made(replace(node("a"), capacity=(*has.items(),)))
    for requests in taken:
        charged.take(NodeName("a"), requests)
        at_once.take(NodeName("a"), requests)
    for known in range(len(order)):
        late.change(replace(node("a"), capacity=tuple((name, 5) for name in order[: known + 1])))
        late.settle()
    for name in NAMES:
        assert late.free(late.resources[name]).tolist() == early.free(early.resources[name]).tolist()
