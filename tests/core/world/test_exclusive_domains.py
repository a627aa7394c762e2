"""One gang per domain: exclusive gangs, those that are there before them, and those that come after."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from muster.core.cycle import Scheduler
from muster.core.demand import Request
from muster.core.placement import Placed
from muster.core.words.decisions import Assign, Decision, Evict, Victim
from muster.core.words.events import (
    GangRemoved,
    GangSubmitted,
    LayersChanged,
    NodeChanged,
    PlacesLost,
    PlanFound,
    PodsBound,
    PodsEnded,
)
from muster.core.words.gang import Gang, GangId, Gather, Layer, NodeName, Place, PodId, PodSet, Strategy
from muster.core.world.ledger import Charged
from tests.core.words import assigns, bind, gang, node, pod, scheduler, shape, started, waits, where


def tree(*names: str) -> Scheduler:
    """Nodes of eight GPUs called <rack>_<n>; racks that begin with x have no label."""
    made = scheduler(map(rack_node, names))
    made.apply(LayersChanged((Layer("Rack", ("rack",)),)))
    return made


def rack_node(name: str) -> NodeChanged:
    rack = name.split("_")[0]
    return node(name, labels={} if rack.startswith("x") else {"rack": rack})


def alone(name: str, count: int = 1, layer: str = "Rack") -> Gang:
    return replace(gang(name, count=count), exclusive=layer)


def submit(made: Scheduler, *gangs: Gang) -> dict[str, list[str]]:
    """Where each of them starts."""
    for one in gangs:
        made.apply(GangSubmitted(one))
    return {found.gang: where(found) for found in assigns(made.decide(0.0))}


def test_each_has_a_domain_to_itself() -> None:
    made = tree("a_1", "a_2", "b_1", "x_1")
    assert submit(made, alone("one")) == {"one": ["b_1"]}
    assert submit(made, alone("two")) == {"two": ["a_1"]}
    made.apply(GangSubmitted(alone("three")))
    (told,) = waits(made.decide(1.0))
    assert f"{told.explanation.code.value}: {told.explanation.message}" == (
        "TopologyUnsatisfied: 1 pod must be alone in every Rack; other gangs are in the domains of 4 nodes, "
        "or they have no label of it; without that they fit"
    )


def test_no_gang_enters_and_all_may_when_it_has_gone() -> None:
    made = tree("a_1", "a_2", "b_1")
    assert submit(made, alone("one")) == {"one": ["b_1"]}
    assert submit(made, gang("other", count=10)) == {"other": ["a_1"] * 8 + ["a_2"] * 2}
    made.apply(GangSubmitted(gang("more", count=10)))
    (told,) = waits(made.decide(1.0))
    assert told.explanation.message == (
        "10 pods; other gangs have the domains of 1 node to themselves; without that they fit"
    )
    made.apply(GangRemoved(GangId("one")))
    assert started(made.decide(2.0)) == ["more"]


def test_it_grows_and_is_replaced_where_it_is() -> None:
    made = tree("a_1", "b_1")
    made.apply(GangSubmitted(alone("one", 2)))
    (assign,) = assigns(made.decide(0.0))
    bind(made, assign)
    made.apply(PodsEnded((pod("one", Place("main", 0)),), 1.0))
    assert [where(found) for found in assigns(made.decide(2.0))] == [["a_1"]]


@pytest.mark.parametrize("of", [{"one": 1}, {"one": 1, "two": 2}], ids=["one shape", "two shapes"])
def test_an_exclusive_gang_does_not_grow_if_every_node_is_excluded(of: dict[str, int]) -> None:
    made = tree("a_1")
    sets = [PodSet(name, shape(gpu=gpu), 2, 0) for name, gpu in of.items()]
    made.apply(GangSubmitted(replace(gang("it", *sets, minimum=1), exclusive="Rack")))
    (assign,) = assigns(made.decide(0.0))
    assert {*where(assign)} == {"a_1"}
    lost = frozenset(Place(name, 1) for name in of)
    bind(made, assign, only=assign.nodes.keys() - lost)
    made.apply(PlacesLost(GangId("it"), lost, frozenset({NodeName("a_1")}), 30.0))
    assert started(made.decide(1.0)) == []
    (assign,) = assigns(made.decide(31.0))
    assert assign.nodes.keys() == lost


def test_a_gang_that_becomes_exclusive_beside_another_is_replaced_elsewhere() -> None:
    made = tree("a_1", "b_1")
    for one in (gang("one"), gang("other")):
        made.apply(GangSubmitted(one))
    for assign in assigns(made.decide(0.0)):
        bind(made, assign)
    made.apply(GangSubmitted(alone("one")))
    assert not assigns(made.decide(1.0))
    made.apply(PodsEnded((pod("one", Place("main", 0)),), 2.0))
    assert [where(found) for found in assigns(made.decide(2.0))] == [["b_1"]]


def test_to_enter_beside_others_only_the_exclusive_one_is_ended() -> None:
    made = tree("a_1")
    for one in (gang("one"), gang("other")):
        made.apply(GangSubmitted(one))
    for assign in assigns(made.decide(0.0)):
        bind(made, assign)
    made.apply(GangSubmitted(alone("one")))
    made.apply(GangSubmitted(gang("urgent", priority=1)))
    assert [victim.gang for victim in victims(made)] == ["one"]


def test_to_enter_a_domain_that_surplus_has_beside_others_the_surplus_is_ended() -> None:
    made = tree("a_1", "b_1")
    elastic = gang("one", count=2, minimum=1)
    for one in (elastic, gang("other")):
        made.apply(GangSubmitted(one))
    for name, index, on in (("one", 0, "b_1"), ("one", 1, "a_1"), ("other", 0, "a_1")):
        place = Place("main", index)
        made.apply(PodsBound({pod(name, place): place}, NodeName(on), shape(gpu=1).requests, GangId(name)))
    made.apply(GangSubmitted(replace(elastic, exclusive="Rack")))
    made.apply(GangSubmitted(gang("urgent", priority=1)))
    assert [victim.pods for victim in victims(made)] == [{pod("one", Place("main", 1))}]


def test_to_gather_in_a_domain_a_gang_with_an_exclusive_wider_one_is_preempted() -> None:
    nodes = {"a_1": "a", "a_2": "a", "b_1": "b"}
    made = scheduler(node(name, labels={"spine": "s", "rack": rack}) for name, rack in nodes.items())
    made.apply(LayersChanged((Layer("Spine", ("spine",)), Layer("Rack", ("rack",)))))
    place = Place("main", 0)
    made.apply(GangSubmitted(alone("one", layer="Spine")))
    made.apply(PodsBound({pod("one", place): place}, NodeName("b_1"), shape(gpu=1).requests, GangId("one")))
    urgent = gang("urgent", count=2, of=shape(gpu=8), priority=1)
    made.apply(GangSubmitted(replace(urgent, gather=(Gather("Rack", Strategy.MUST_GATHER),))))
    assert [victim.gang for victim in victims(made)] == ["one"]


def victims(made: Scheduler) -> Sequence[Victim]:
    evict, *_ = made.decide(1.0)
    assert isinstance(evict, Evict)
    return evict.victims


def test_what_is_planned_beside_it_before_stays_planned() -> None:
    made = tree("a_1")
    for name in ("one", "other"):
        made.apply(GangSubmitted(gang(name)))
        made.apply(
            PodsBound({PodId(name): Place("main", 0)}, NodeName("a_1"), shape(gpu=1).requests, GangId(name))
        )
    made.apply(GangSubmitted(alone("one")))
    made.apply(GangSubmitted(gang("third", priority=1)))
    made.apply(PlanFound(GangId("third"), {Place("main", 0): NodeName("a_1")}))
    (assign,) = made.decide(0.0)
    assert isinstance(assign, Assign)
    assert where(assign) == ["a_1"]


def test_pods_of_no_gang_do_not_count() -> None:
    made = tree("a_1")
    made.apply(PodsBound({PodId("daemon"): None}, NodeName("a_1"), (("cpu", 100),)))
    assert submit(made, alone("one")) == {"one": ["a_1"]}


def test_the_nodes_of_pods_are_known_after_nodes_were_added() -> None:
    made = tree("b_1", "d_1")
    made.apply(PodsBound({PodId("daemon"): None}, NodeName("b_1"), ()))
    assert submit(made, alone("one")) == {"one": ["b_1"]}
    made.apply(rack_node("a_1"))  # columns move
    assert submit(made, alone("two"), gang("other", count=8)) == {"other": ["a_1"] * 8, "two": ["d_1"]}
    made.apply(PodsEnded((PodId("daemon"),), 1.0))
    made.apply(rack_node("c_1"))
    made.apply(GangRemoved(GangId("one")))
    assert submit(made, alone("three")) == {"three": ["b_1"]}


def test_a_node_of_its_own() -> None:
    made = tree("a_1", "a_2")
    assert submit(made, alone("one", layer="nodetopologylayer"), gang("two")) == {
        "one": ["a_1"],
        "two": ["a_2"],
    }


def test_trials_that_take_it_away_see_its_domain_free() -> None:
    made = tree("a_1")
    submit(made, alone("one"))
    made.apply(GangSubmitted(alone("two")))
    made.decide(1.0)
    state = made.world.gangs[GangId("two")]
    assert state.demand is not None
    request = Request(state.demand, state.vacant)
    tried = made.world.ledger.log.trial()
    for promise in made.world.gangs[GangId("one")].holds.values():
        made.world.ledger.give(Charged(promise.node, promise.requests))
    assert made.fit.fit(request) == Placed({Place("main", 0): 0})
    tried.undo()
    assert not made.fit.fit(request)


def test_preemption_clears_one_domain_and_no_more() -> None:
    """A gang that must gather ends what is in the way in one block; an exclusive one ends all in its own."""
    made = scheduler()
    made.apply(LayersChanged((Layer("Block", ("block",)),)))
    for name in ("a_1", "a_2", "b_1", "b_2"):
        made.apply(node(name, gpu=4, labels={"block": name[0]}))
    whole = shape(gpu=4)
    for name in ("low-a1", "low-a2", "low-b1"):
        made.apply(GangSubmitted(gang(name, of=whole)))
    for assign in assigns(made.decide(0.0)):
        bind(made, assign)
    near = (Gather("Block", Strategy.MUST_GATHER),)
    made.apply(GangSubmitted(replace(gang("near", count=2, of=whole, priority=5), gather=near)))
    decisions = made.decide(1.0)
    assert _ended(decisions) == {"near": ["low-b1"]}
    assert [where(found) for found in assigns(decisions)] == [["b_1", "b_2"]]
    made.apply(GangSubmitted(replace(alone("alone", layer="Block"), priority=9)))
    assert _ended(made.decide(2.0)) == {"alone": ["low-a1", "low-a2"]}


def _ended(decisions: list[Decision]) -> dict[str, list[str]]:
    return {d.beneficiary: [victim.gang for victim in d.victims] for d in decisions if isinstance(d, Evict)}


def test_a_domain_that_is_exclusive_no_more_is_open_to_waiting_gangs() -> None:
    made = tree("a_1")
    assert submit(made, alone("one")) == {"one": ["a_1"]}
    assert submit(made, gang("two")) == {}
    made.apply(GangSubmitted(gang("one")))
    assert started(made.decide(1.0)) == ["two"]
