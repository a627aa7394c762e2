"""Preemption: which gangs are victims of which, and the decisions about it."""

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.cycle import Config, Scheduler
from muster.core.preemption import candidates
from muster.core.reservations import Backfill
from muster.core.words.decisions import Decision, Evict, ExpectedStart, Victim
from muster.core.words.events import (
    BudgetChanged,
    CommitFailed,
    Footprint,
    GangRemoved,
    GangSubmitted,
    LayersChanged,
    NodeRemoved,
    PlanFound,
    PodsBound,
    PodsEnded,
    QueueChanged,
)
from muster.core.words.gang import (
    Code,
    Gang,
    GangId,
    Gather,
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
    Strategy,
)
from muster.core.world import budgets
from muster.core.world.labels import satisfied as labels_satisfied
from muster.names import GPU_SHARE
from tests.core.words import (
    GPU,
    amounts,
    assigns,
    bind,
    foreign,
    gang,
    node,
    places,
    pod,
    scheduler,
    shape,
    started,
    waits,
)
from tests.tiers import examples


def running(made: Scheduler, *gangs: Gang, at: float = 1.0) -> None:
    """These run since `at`, each as soon as it is submitted."""
    for one in gangs:
        made.apply(GangSubmitted(one))
        for assign in assigns(made.decide(at)):
            for event in bind(made, assign):
                made.apply(replace(event, at=at))
    assert made.decide(at) == []


def evicts(decisions: list[Decision]) -> list[Evict]:
    return [d for d in decisions if isinstance(d, Evict)]


def ended(decisions: list[Decision]) -> list[str]:
    return [str(victim.gang) for evict in evicts(decisions) for victim in evict.victims]


def end(made: Scheduler, name: str, count: int, at: float = 1.0) -> None:
    for i in range(count):
        made.apply(PodsEnded((pod(name, Place("main", i)),), at))


def test_a_full_cluster_and_a_gang_that_ranks_higher() -> None:
    made = scheduler([node("a"), node("b")])
    running(made, gang("low", count=16))
    made.apply(GangSubmitted(gang("high", count=4, priority=1)))
    decisions = made.decide(10.0)
    assert [type(d).__name__ for d in decisions] == ["Evict", "Assign", "Wait"]
    (evict,) = evicts(decisions)
    assert (evict.beneficiary, evict.victims) == ("high", (Victim(GangId("low"), frozenset(), 144.0),))
    assert evict.work_lost == 144.0
    assert started(decisions) == ["high"]
    (wait,) = waits(decisions)
    assert wait.explanation.code is Code.WAITING_FOR_VICTIMS
    assert wait.explanation.message == "its places are held until low have made room for it"
    assert made.decide(11.0) == []


def test_room_of_victims_is_neither_free_for_others_nor_counted_twice() -> None:
    made = scheduler([node("a")])
    running(made, gang("low", count=8))
    made.apply(GangSubmitted(gang("high", count=4, priority=1)))
    (assign,) = assigns(made.decide(1.0))
    assert made.world.nodes.used[made.world.nodes.resources[GPU], 0] == 8
    made.apply(GangSubmitted(gang("other", count=1)))
    assert started(made.decide(2.0)) == []
    end(made, "low", 3)  # 5 are there still, and 4 are to come: 3 are left over whatever happens
    assert started(made.decide(3.0)) == ["other"]
    assert made.world.nodes.used[made.world.nodes.resources[GPU], 0] == 6
    end(made, "low", 7)
    made.decide(4.0)
    assert made.world.nodes.used[made.world.nodes.resources[GPU], 0] == 5
    end(made, "low", 8)
    bind(made, assign)
    made.decide(5.0)
    assert made.world.nodes.used[made.world.nodes.resources[GPU], 0] == 5


def test_a_victim_waits_again_with_its_age_and_without_a_held_place() -> None:
    made = scheduler([node("a")])
    running(made, gang("low", count=8))
    made.apply(GangSubmitted(gang("high", count=8, priority=1)))
    (assign,) = assigns(made.decide(1.0))
    end(made, "low", 4)
    (wait,) = waits(made.decide(2.0))
    assert (wait.gang, wait.explanation.code) == ("low", Code.WAITING_FOR_VICTIMS)
    assert wait.explanation.message == "its own pods are still leaving: they make room for high"
    end(made, "low", 8)
    bind(made, assign)
    (wait,) = waits(made.decide(3.0))
    assert (wait.gang, wait.explanation.code) == ("low", Code.INSUFFICIENT_CAPACITY)
    made.apply(GangSubmitted(gang("younger", count=8, submitted=1.0)))
    made.apply(GangRemoved(GangId("high")))
    end(made, "high", 8)
    assert started(made.decide(4.0)) == ["low"]


@pytest.mark.parametrize(
    ("victim", "preemptor"),
    [
        (gang("low", count=8, priority=1), gang("high", count=4, priority=1)),
        (gang("low", count=8, priority=2), gang("high", count=4, priority=1)),
        (replace(gang("low", count=8), preemptible=False), gang("high", count=4, priority=1)),
        (replace(gang("low", count=8), min_run_time=60.0), gang("high", count=4, priority=1)),
        (gang("low", count=8), replace(gang("high", count=4, priority=1), preempts=False)),
        # it would not fit with all gangs gone
        (gang("low", count=8), gang("high", count=9, priority=1)),
        (gang("low", count=8), gang("high", count=1, of=shape(gpu=9), priority=1)),
    ],
)
def test_no_gang_is_preempted(victim: Gang, preemptor: Gang) -> None:
    made = scheduler([node("a")])
    running(made, victim)
    made.apply(GangSubmitted(preemptor))
    assert ended(made.decide(1.0)) == []


def test_the_minimum_run_time_ends() -> None:
    made = scheduler([node("a")])
    running(made, replace(gang("low", count=8), min_run_time=60.0))
    made.apply(GangSubmitted(gang("high", count=4, priority=1)))
    assert ended(made.decide(1.0)) == []
    assert made.wake_at() == 61.0
    assert ended(made.decide(60.0)) == []
    assert ended(made.decide(61.0)) == ["low"]


def test_pods_of_no_gang_are_no_victims() -> None:
    made = scheduler([node("a")])
    made.apply(PodsBound({PodId("foreign"): None}, NodeName("a"), amounts({GPU: 8})))
    made.apply(GangSubmitted(gang("high", count=4, priority=1)))
    assert ended(made.decide(1.0)) == []


def test_of_several_the_lowest_priority_then_the_least_work() -> None:
    made = scheduler([node("a"), node("b"), node("c")])
    running(made, gang("worthy", count=8, priority=1), at=90.0)
    running(made, gang("old", count=8), at=1.0)
    running(made, gang("young", count=8), at=50.0)
    made.apply(GangSubmitted(gang("high", count=4, priority=2)))
    assert ended(made.decide(100.0)) == ["young"]
    made.apply(GangSubmitted(gang("next", count=8, priority=2)))
    assert ended(made.decide(100.0)) == ["old"]
    made.apply(GangSubmitted(gang("last", count=8, priority=2)))
    assert ended(made.decide(100.0)) == ["worthy"]


def test_checkpoints_and_the_cost_of_a_restart() -> None:
    made = scheduler([node("a"), node("b"), node("c")])
    running(made, gang("plain", count=8), at=50.0)
    running(made, replace(gang("saves", count=8), checkpoint_every=30.0), at=5.0)  # 5 s since the last
    running(made, replace(gang("slow", count=8), checkpointed=99.0, restart_cost=60.0), at=1.0)
    made.apply(GangSubmitted(gang("high", count=1, priority=2)))
    (evict,) = evicts(made.decide(100.0))
    assert evict.victims == (Victim(GangId("saves"), frozenset(), 40.0),)
    made.apply(GangSubmitted(gang("next", count=8, priority=2)))
    (evict,) = evicts(made.decide(100.0))
    assert evict.victims == (Victim(GangId("plain"), frozenset(), 400.0),)
    made.apply(GangSubmitted(gang("last", count=8, priority=2)))
    (evict,) = evicts(made.decide(100.0))
    assert evict.victims == (Victim(GangId("slow"), frozenset(), 8 * 61.0),)


def test_places_promised_to_a_victim_are_free_for_others_in_the_same_cycle() -> None:
    """Though pods of it are still there: all that could come of it has."""
    made = scheduler([node("a", gpu=2), node("b", gpu=6)], gang("low", count=8, minimum=2))
    (assign,) = assigns(made.decide(0.0))
    bind(made, assign, only=[place for place, name in assign.nodes.items() if name == "a"])
    made.apply(GangSubmitted(gang("high", count=7, submitted=1.0, priority=1)))
    made.apply(GangSubmitted(gang("next", submitted=2.0)))
    decisions = made.decide(2.0)
    assert ended(decisions) == ["low"]
    assert started(decisions) == ["high"]
    bind(made, assigns(decisions)[0])
    assert started(made.decide(3.0)) == ["next"]


def test_places_promised_to_a_victim_are_free_once_a_place_of_the_preemptor_is_filled() -> None:
    made = scheduler([node("a")])
    made.apply(GangSubmitted(gang("low", count=4, minimum=2)))
    (assign,) = assigns(made.decide(1.0))
    bind(made, assign, only=places(0, 1))
    made.apply(GangSubmitted(gang("high", count=8, priority=1)))
    decisions = made.decide(2.0)
    assert ended(decisions) == ["low"]
    made.apply(GangRemoved(GangId("low")))
    end(made, "low", 2, at=3.0)
    (assign,) = assigns(decisions)
    bind(made, assign, only=places(0))
    assert made.decide(3.0) == []  # no bind of a victim is on its way any more
    bind(made, assign, only=places(*range(1, 8)))
    made.apply(GangRemoved(GangId("high")))
    end(made, "high", 8, at=4.0)
    made.apply(GangSubmitted(gang("next", count=8)))
    assert started(made.decide(4.0)) == ["next"]


def test_surplus_goes_first_the_highest_index_first() -> None:
    made = scheduler([node("a"), node("b")])
    running(made, gang("elastic", count=8, minimum=4), gang("rigid", count=8), at=1.0)
    made.apply(GangSubmitted(gang("high", count=2, priority=1)))
    (evict,) = evicts(made.decide(10.0))
    pods = frozenset(pod("elastic", Place("main", i)) for i in (6, 7))
    assert evict.victims == (Victim(GangId("elastic"), pods, 18.0),)


def test_below_its_minimum_a_gang_goes_as_a_whole() -> None:
    made = scheduler([node("a")])
    running(made, gang("elastic", count=8, minimum=4), at=1.0)
    made.apply(GangSubmitted(gang("high", count=5, priority=1)))
    (evict,) = evicts(made.decide(10.0))
    assert evict.victims == (Victim(GangId("elastic"), frozenset(), 72.0),)


def test_a_minimum_over_all_pod_sets_counts_as_well() -> None:
    made = scheduler([node("a")])
    sets = (PodSet("x", shape(gpu=1), 4, 1), PodSet("y", shape(gpu=1), 4, 1))
    running(made, gang("elastic", *sets, minimum=6), at=1.0)
    made.apply(GangSubmitted(gang("two", count=2, priority=1)))
    (evict,) = evicts(made.decide(10.0))
    assert evict.victims[0].pods == {pod("elastic", Place(name, 3)) for name in "xy"}
    made.apply(GangSubmitted(gang("more", count=1, priority=1)))
    assert ended(made.decide(11.0)) == [], "what is left is leaving, or needed"


def test_no_pod_goes_that_the_minimum_over_all_pod_sets_needs() -> None:
    made = scheduler([node("a")])
    sets = (PodSet("x", shape(gpu=1), 4, 1), PodSet("y", shape(gpu=1), 4, 1))
    running(made, gang("elastic", *sets, minimum=6), at=1.0)
    made.apply(GangSubmitted(gang("three", count=3, priority=1)))
    (evict,) = evicts(made.decide(10.0))
    assert evict.victims[0].pods == frozenset(), "two of eight can be done without, not three"


def test_surplus_never_preempts() -> None:
    made = scheduler([node("a")])
    running(made, gang("low", count=4))
    made.apply(GangSubmitted(gang("high", count=8, minimum=4, priority=1)))
    decisions = made.decide(1.0)
    assert started(decisions) == ["high"]
    assert ended(decisions) == []


def test_a_gang_whose_victims_are_leaving_is_no_victim_itself() -> None:
    made = scheduler([node("a")])
    running(made, gang("low", count=8))
    made.apply(GangSubmitted(gang("high", count=8, priority=1)))
    (assign,) = assigns(made.decide(1.0))
    made.apply(GangSubmitted(gang("highest", count=8, priority=2)))
    assert ended(made.decide(2.0)) == []
    end(made, "low", 8)
    bind(made, assign)
    assert ended(made.decide(3.0)) == ["high"]


@pytest.mark.parametrize("how", ["removed", "failed"])
def test_if_the_preemptor_gives_up_its_victims_stay(how: str) -> None:
    made = scheduler([node("a")])
    running(made, gang("low", count=8))
    made.apply(GangSubmitted(gang("high", count=8, priority=1)))
    assert ended(made.decide(1.0)) == ["low"]
    if how == "removed":
        made.apply(GangRemoved(GangId("high")))
    else:
        made.apply(CommitFailed(GangId("high"), 100.0, "refused"))
    made.decide(2.0)
    assert made.world.nodes.used[made.world.nodes.resources[GPU], 0] == 8
    assert made.world.gangs[GangId("low")].demand is None
    if how == "failed":
        assert ended(made.decide(100.0)) == ["low"]


def test_a_gang_that_shrank_in_vain_may_be_preempted_for_the_rest() -> None:
    made = scheduler([node("a", gpu=2), node("b", gpu=2)])
    running(made, gang("low", count=2, minimum=1, of=shape(gpu=2)))
    made.apply(GangSubmitted(gang("high", count=1, of=shape(gpu=2), priority=1)))
    (assign,) = assigns(made.decide(2.0))
    made.apply(NodeRemoved(assign.nodes[Place("main", 0)]))
    assert ended(made.decide(3.0)) == []  # of what it leaves nothing more is taken
    assert made.wake_at() == 4.0
    assert ended(made.decide(4.0)) == ["low"]


def test_victims_of_an_open_plan_leave_still() -> None:
    made = scheduler([node("a")])
    running(made, gang("low", count=8))
    made.apply(GangSubmitted(gang("high", count=4, priority=1)))
    nodes = {Place("main", i): NodeName("a") for i in range(4)}
    made.apply(PlanFound(GangId("high"), nodes, (Victim(GangId("low")),)))
    decisions = made.decide(1.0)
    assert ended(decisions) == []
    assert started(decisions) == ["high"]
    assert made.world.nodes.used[made.world.nodes.resources[GPU], 0] == 8


def test_several_shapes() -> None:
    sets = (PodSet("big", shape(gpu=5), 2, 2), PodSet("small", shape(gpu=3), 2, 2))
    made = scheduler([node("a"), node("b"), node("c")])
    running(made, gang("one", count=8), gang("two", count=8, of=shape(gpu=1), priority=1), at=1.0)
    running(made, gang("three", count=8), at=5.0)
    made.apply(GangSubmitted(gang("high", *sets, priority=2)))
    assert sorted(ended(made.decide(10.0))) == ["one", "three"]


def test_a_gang_spares_possible_victims_that_its_affinity_needs() -> None:
    made = scheduler([node("a", gpu=4, labels={"host": "a"})])
    running(made, gang("friend", of=shape(gpu=1)), gang("other", of=shape(gpu=3)))
    there = made.world.pods[pod("friend", Place("main", 0))]
    made.apply(replace(there, footprint=replace(there.footprint, namespace="ns", labels=(("app", "x"),))))
    near = (PodTerm("host", (Requirement("app", Operator.IN, ("x",)),), None),)
    high = gang("high", count=1, of=replace(shape(gpu=2), pod_affinity=near), priority=1)
    made.apply(GangSubmitted(replace(high, preempts=False)))
    (wait,) = waits(made.decide(10.0))
    helps = {remedy.change for remedy in wait.explanation.remedies}
    assert "when other ends" in helps
    asked = made.asked(GangId("high"))
    assert asked is not None
    assert asked.expected_start == ExpectedStart(None, "other gives no run time")
    made.apply(GangSubmitted(high))
    assert ended(made.decide(11.0)) == ["other"]


def test_pods_on_nodes_that_are_not_known_yet_may_be_victims() -> None:
    """Nodes may come after the pods that are bound to them, and the first search before any node."""
    told = scheduler([node("a", gpu=4)])
    made = scheduler([])
    low = gang("low", of=shape(gpu=4))
    told.apply(GangSubmitted(low))
    (assign,) = assigns(told.decide(0.0))
    made.apply(GangSubmitted(low))
    for event in bind(told, assign):
        made.apply(event)
    near = (PodTerm("host", (Requirement("app", Operator.IN, ("x",)),), None),)
    made.apply(GangSubmitted(gang("high", count=1, of=replace(shape(gpu=2), pod_affinity=near), priority=1)))
    (wait,) = waits(made.decide(10.0))
    assert wait.explanation.code is Code.NOTHING_MATCHES


def with_affinity(name: str, app: str, gpu: int, where: str = "host") -> PodSet:
    near = (PodTerm(where, (Requirement("app", Operator.IN, (app,)),), None),)
    return PodSet(name, replace(shape(gpu=gpu), pod_affinity=near), 1, 1)


def tagged(made: Scheduler, name: str, app: str) -> None:
    there = made.world.pods[pod(name, Place("main", 0))]
    made.apply(replace(there, footprint=Footprint(namespace="ns", labels=(("app", app),))))


def test_the_cheapest_victim_is_spared_if_the_affinity_of_several_shapes_needs_it() -> None:
    made = scheduler(node(name, gpu=8, labels={"host": name, "rack": "r"}) for name in "ab")
    friend, *others = (gang(name, of=shape(gpu=4)) for name in ("friend", "one", "two"))
    foreign(made, "b", 4)
    running(made, *others, at=1.0)
    running(made, friend, at=9.0)
    tagged(made, "friend", "x")
    sets = with_affinity("large", "x", 4, "rack"), with_affinity("small", "x", 3, "rack")
    made.apply(GangSubmitted(gang("high", *sets, priority=1)))
    assert ended(made.decide(10.0)) == ["one", "two"]


def test_among_many_possible_victims_those_that_affinity_needs_are_spared() -> None:
    made = scheduler([node("a", gpu=8, labels={"host": "a"})])
    made.apply(node("b", gpu=102, labels={"host": "b"}))
    running(made, *(gang(f"other-{i:03}", of=shape(gpu=1)) for i in range(102)), at=1.0)
    running(made, gang("friend", of=shape(gpu=1)), gang("beside", of=shape(gpu=7)), at=9.0)
    tagged(made, "friend", "x")
    made.apply(GangSubmitted(gang("high", with_affinity("main", "x", 2), priority=1)))
    assert ended(made.decide(10.0)) == ["beside"]


def test_a_gang_on_a_node_that_is_gone_is_no_victim() -> None:
    made = scheduler([node("a", gpu=4), node("b", gpu=1)])
    running(made, gang("low", count=4))
    made.apply(NodeRemoved(NodeName("a")))
    made.apply(node("c", gpu=0))
    made.apply(GangSubmitted(gang("high", count=2, priority=1)))
    decisions = made.decide(2.0)
    assert ended(decisions) == []
    assert [wait.explanation.code for wait in waits(decisions)] == [Code.INSUFFICIENT_CAPACITY]


def test_gangs_of_equal_priority_are_spared_even_if_a_lower_one_runs_as_well() -> None:
    made = scheduler([node("a", gpu=4)])
    running(made, gang("low", count=1), gang("equal", count=3, priority=1))
    made.apply(GangSubmitted(gang("high", count=2, priority=1)))
    assert ended(made.decide(2.0)) == []


def test_surplus_that_may_stay_counts_for_its_queue_again() -> None:
    made = scheduler([node("a", gpu=4)])
    running(made, gang("low", count=4, minimum=1))
    made.apply(GangSubmitted(gang("high", count=2, priority=1)))
    (assign,) = assigns(made.decide(2.0))
    bind(made, assign)  # before anybody has left
    made.decide(3.0)
    assert made.world.queues.accounts["default"].used[GPU_SHARE] == 6000


def test_searches_take_turns() -> None:
    """No eviction could satisfy the six demands: four are searched in one cycle, the others in the next."""
    made = scheduler([node("a")])
    running(made, gang("low", count=8))
    for i in range(6):
        made.apply(GangSubmitted(gang(f"high-{i}", count=9 + i, priority=1)))
        made.apply(GangSubmitted(gang(f"same-{i}", count=9 + i, priority=1)))
    assert ended(made.decide(10.0)) == []
    assert (made.preemption.behind, made.wake_at()) == (True, 11.0)
    assert ended(made.decide(11.0)) == []
    assert (made.preemption.behind, made.wake_at()) == (False, None)


# Disruption budgets


def budgeted(made: Scheduler, *allowed: int) -> None:
    """Budgets that all select app=x."""
    for i, n in enumerate(allowed):
        where = (Requirement("app", Operator.IN, ("x",)),)
        made.apply(BudgetChanged("ns", f"budget-{i}", where, n))


def labelled(made: Scheduler, *gangs: Gang, at: float = 1.0) -> None:
    """As `running`, with pods of app=x in namespace ns."""
    for one in gangs:
        made.apply(GangSubmitted(one))
        for assign in assigns(made.decide(at)):
            for event in bind(made, assign):
                made.apply(replace(event, at=at, footprint=Footprint("ns", (("app", "x"),))))
    made.decide(at)


@pytest.mark.parametrize(
    ("allowed", "expected"), [([0], []), ([3], []), ([4], ["low"]), ([9, 3], []), ([9, 4], ["low"])]
)
def test_budgets_must_allow_all_the_pods_of_a_victim(allowed: list[int], expected: list[str]) -> None:
    made = scheduler([node("a", gpu=4)])
    labelled(made, gang("low", count=4))
    budgeted(made, *allowed)
    made.apply(GangSubmitted(gang("high", count=4, priority=1)))
    assert ended(made.decide(2.0)) == expected


def test_a_budget_counts_the_whole_set_and_departing_pods() -> None:
    made = scheduler([node("a", gpu=4), node("b", gpu=4)])
    labelled(made, gang("one", count=4), gang("two", count=4))
    budgeted(made, 7)
    made.apply(GangSubmitted(gang("high", count=8, priority=1)))
    assert ended(made.decide(2.0)) == []
    made.apply(GangSubmitted(gang("half", count=4, priority=1)))
    assert len(ended(made.decide(3.0))) == 1
    made.apply(GangSubmitted(gang("other", count=4, priority=1)))
    assert ended(made.decide(4.0)) == []
    budgeted(made, 8)
    assert len(ended(made.decide(5.0))) == 1


def test_only_the_budgets_of_its_namespace_are_compared_with_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    made, compared = scheduler([node("a", gpu=4)]), list[object]()

    def satisfied(wanted: tuple[Requirement, ...], labels: Mapping[str, str]) -> bool:
        compared.append(labels)
        return labels_satisfied(wanted, labels)

    monkeypatch.setattr(budgets, "satisfied", satisfied)
    labelled(made, gang("low", count=4))
    budgeted(made, 9)
    for i in range(50):
        made.apply(BudgetChanged("elsewhere", f"budget-{i}", (), 0))
    made.apply(GangSubmitted(gang("high", count=4, priority=1)))
    assert ended(made.decide(2.0)) == ["low"]
    assert 4 <= len(compared) < 50


def test_surplus_goes_as_far_as_the_budget_allows() -> None:
    made = scheduler([node("a", gpu=8)])
    labelled(made, gang("elastic", count=8, minimum=2))
    budgeted(made, 2)
    made.apply(GangSubmitted(gang("three", count=3, priority=1)))
    assert ended(made.decide(2.0)) == []
    made.apply(GangSubmitted(gang("two", count=2, priority=1)))
    (evict,) = evicts(made.decide(3.0))
    assert len(evict.victims[0].pods) == 2


# Reclaim


def queue(name: str, **rules: Any) -> QueueChanged:  # Any: whatever a queue's rules are
    return QueueChanged(Queue(name, **rules))


def of(name: str, one: Gang) -> Gang:
    return replace(one, queue=name)


def test_the_owner_takes_back_what_was_lent() -> None:
    """16 GPUs, weights 3:1. Alone, A is entitled to all of them; when B comes, to 12."""
    made = scheduler([node("n0"), node("n1")])
    made.apply(queue("a", weight=3))
    made.apply(queue("b"))
    running(made, of("a", gang("large", count=16, priority=9)))
    made.apply(GangSubmitted(of("b", gang("small", count=4))))
    decisions = made.decide(2.0)
    (evict,) = evicts(decisions)
    assert evict.victims == (Victim(GangId("large"), frozenset(), 16.0, reclaimed=True),)
    assert started(decisions) == ["small"]


def test_surplus_is_taken_back_first() -> None:
    made = scheduler([node("n0"), node("n1")])
    made.apply(queue("a", weight=3))
    made.apply(queue("b"))
    running(made, of("a", gang("large", count=16, minimum=12)))
    made.apply(GangSubmitted(of("b", gang("small", count=4))))
    (evict,) = evicts(made.decide(2.0))
    assert len(evict.victims[0].pods) == 4


KEEPS = {"protect_borrowed": True}
SAYS_NO = [{"preemptible": False}, {"min_run_time": 60.0}]


@pytest.mark.parametrize("mark", SAYS_NO)
def test_what_a_queue_borrows_is_reclaimed_whatever_its_gangs_say(mark: dict[str, Any]) -> None:
    made = scheduler([node("n0"), node("n1")])
    made.apply(queue("a", weight=3))
    made.apply(queue("b"))
    running(made, of("a", replace(gang("large", count=16), **mark)))
    made.apply(GangSubmitted(of("b", gang("small", count=4))))
    assert ended(made.decide(2.0)) == ["large"]


def lent(allowed: int, one: Gang, *others: Gang, **rules: Any) -> Scheduler:
    """Queue a has these gangs on 12 GPUs of its own and 4 of b's, one under a budget that allows so many."""
    made = scheduler([node("n0"), node("n1")])
    made.apply(queue("a", weight=3, **rules))
    made.apply(queue("b"))
    labelled(made, of("a", one))
    running(made, *(of("a", other) for other in others))
    budgeted(made, allowed)
    made.apply(GangSubmitted(of("b", gang("small", count=4))))
    return made


@pytest.mark.parametrize("minimum", [16, 12])
@pytest.mark.parametrize("allowed", [0, 3])
def test_what_a_queue_borrows_is_reclaimed_whatever_its_budgets_say(allowed: int, minimum: int) -> None:
    assert ended(lent(allowed, gang("large", count=16, minimum=minimum)).decide(2.0)) == ["large"]


def test_a_budget_counts_for_what_is_borrowed_if_the_queue_protects_it() -> None:
    made = lent(3, gang("large", count=16), **KEEPS)
    assert ended(made.decide(2.0)) == []
    budgeted(made, 16)
    assert ended(made.decide(3.0)) == ["large"]


def test_gangs_whose_budgets_allow_it_are_reclaimed_first() -> None:
    """A is over by 4. Its small gang loses less work, but a budget forbids its eviction."""
    made = lent(0, gang("a0", count=4), gang("a1", count=12))
    assert ended(made.decide(2.0)) == ["a1"]


def test_budgets_count_within_a_queue_while_it_borrows() -> None:
    made = lent(0, gang("large", count=16))
    made.apply(GangSubmitted(replace(of("a", gang("high", count=4)), priority=9)))
    (evict,) = evicts(made.decide(2.0))
    assert evict.beneficiary == GangId("small")


def raised(least: int, **rules: Any) -> Scheduler:
    """Queue a borrows 4 of its 16 GPUs for a gang, whose minimum is raised then."""
    made = scheduler([node("n0"), node("n1")])
    made.apply(queue("a", weight=3, **rules))
    made.apply(queue("b"))
    running(made, of("a", gang("large", count=16)))
    made.apply(GangSubmitted(of("a", gang("large", count=least))))
    return made


@pytest.mark.parametrize("least", [17, 20, 100])
def test_what_a_queue_borrows_is_reclaimed_from_a_gang_that_raises_its_minimum(least: int) -> None:
    made = raised(least)
    made.apply(GangSubmitted(of("b", gang("small", count=4))))
    assert ended(made.decide(2.0)) == ["large"]


def test_a_gang_that_raises_its_minimum_after_a_search_failed_is_reclaimed_too() -> None:
    made = raised(16, protect_borrowed=True)
    made.apply(GangSubmitted(of("a", gang("large", count=20))))
    made.apply(GangSubmitted(of("b", gang("small", count=4))))
    assert ended(made.decide(2.0)) == []
    made.apply(queue("a", weight=3))
    assert ended(made.decide(3.0)) == ["large"]


def test_within_a_queue_a_gang_below_its_minimum_is_no_victim() -> None:
    made = raised(20)
    made.apply(GangSubmitted(of("a", gang("high", count=4, priority=9))))
    assert ended(made.decide(2.0)) == []


@pytest.mark.parametrize("mark", SAYS_NO)
def test_gangs_that_say_nothing_are_reclaimed_first(mark: dict[str, Any]) -> None:
    """A is over by 4. Its small gang loses less work, but says something against its eviction."""
    made = scheduler([node("n0"), node("n1")])
    made.apply(queue("a", weight=3))
    made.apply(queue("b"))
    running(made, of("a", replace(gang("a0", count=4), **mark)), of("a", gang("a1", count=12)))
    made.apply(GangSubmitted(of("b", gang("small", count=4))))
    assert ended(made.decide(2.0)) == ["a1"]


@pytest.mark.parametrize(
    ("rules", "victim", "claimant"),
    [
        ({"reclaimable": False}, gang("large", count=16), gang("small", count=4)),
        (KEEPS, replace(gang("large", count=16), preemptible=False), gang("small", count=4)),
        (KEEPS, replace(gang("large", count=16), min_run_time=60.0), gang("small", count=4)),
        ({}, replace(gang("large", count=16), of_node=True), gang("small", count=4)),
        ({}, gang("large", count=16), replace(gang("small", count=4), preempts=False)),
        # 5 are more than its own
        ({}, gang("large", count=16), gang("small", count=5, priority=9)),
        # a queue within its own entitlement loses no gang, whatever the priorities
        ({}, gang("large", count=12), gang("small", count=5, priority=9)),
    ],
)
def test_a_queue_does_not_reclaim_protected_gangs(
    rules: dict[str, Any], victim: Gang, claimant: Gang
) -> None:
    made = scheduler([node("n0"), node("n1")])
    made.apply(queue("a", weight=3, **rules))
    made.apply(queue("b"))
    running(made, of("a", victim))
    made.apply(GangSubmitted(of("b", claimant)))
    assert ended(made.decide(2.0)) == []


def test_no_more_is_taken_back_than_is_lent() -> None:
    """A has three gangs of 5, so it is over its 12 by 3: one of them goes, then it is over no more."""
    made = scheduler([node("n0"), node("n1")])
    made.apply(queue("a", weight=3))
    made.apply(queue("b"))
    running(made, *(of("a", gang(f"a{i}", count=5)) for i in range(3)))
    made.apply(GangSubmitted(of("b", gang("b0", count=3))))
    assert len(ended(made.decide(2.0))) == 1
    made.apply(GangSubmitted(of("b", gang("b1", count=1))))
    assert ended(made.decide(3.0)) == []


def test_of_several_victims_each_is_taken_as_if_those_before_it_had_gone() -> None:
    """A uses 13, one more than its 12. On the one node that B can use two gangs of A would have to go."""
    made = scheduler([node("n0", labels={"zone": "a"}), node("n1", labels={"zone": "b"})])
    made.apply(queue("a", weight=3))
    made.apply(queue("b"))
    zone = {name: shape(gpu=1, selector={"zone": name}) for name in "ab"}
    pairs = [of("a", gang(f"a{i}", count=2, of=zone["a"])) for i in range(4)]
    running(made, *pairs, of("a", gang("a4", count=5, of=zone["b"])))
    made.apply(GangSubmitted(of("b", gang("b0", count=4, of=zone["a"]))))
    assert ended(made.decide(2.0)) == []
    made.apply(GangRemoved(GangId("b0")))
    either = [PodSet(name, one, 2, 2) for name, one in zone.items()]
    made.apply(GangSubmitted(of("b", gang("b1", *either))))
    assert len(ended(made.decide(3.0))) == 1


def test_two_queues_do_not_take_from_each_other_in_turn() -> None:
    """Every queue wants the whole cluster, for a hundred cycles: what is settled stays settled."""
    made = scheduler([node("n0"), node("n1")])
    made.apply(queue("a", weight=3))
    made.apply(queue("b"))
    for i in range(4):
        made.apply(GangSubmitted(of("a", gang(f"a{i}", count=5, priority=i % 2, submitted=float(i)))))
        made.apply(GangSubmitted(of("b", gang(f"b{i}", count=3, priority=i % 2, submitted=float(i)))))
    evictions = 0
    for cycle in range(1, 101):
        decisions = made.decide(float(cycle))
        leaving = ended(decisions)
        evictions += len(leaving)
        for name in leaving:
            size = 5 if name.startswith("a") else 3
            end(made, name, size, float(cycle))
        for assign in assigns(decisions):
            bind(made, assign)
    assert evictions <= 4
    running_now = sorted(str(state.id) for state in made.world.gangs.values() if state.pods)
    assert sum(name.startswith("b") for name in running_now) >= 1
    assert sum(name.startswith("a") for name in running_now) >= 2


def capped(name: str, cap: int | None = None, **rules: Any) -> Queue:
    """With a hard cap of so many GPUs."""
    return Queue(name, capability=() if cap is None else amounts({GPU: cap}), **rules)


def tree(made: Scheduler, *queues: Queue) -> Scheduler:
    for one in queues:
        made.apply(QueueChanged(one))
    return made


def in_queue(name: str, one: Gang) -> Gang:
    return replace(one, queue=name)


@pytest.mark.parametrize("rules", [capped("q", 8), capped("q", max_gangs=2)], ids=["capability", "maxGangs"])
def test_a_full_queue_is_preempted_in_though_nodes_are_free(rules: Queue) -> None:
    made = tree(scheduler([node("a"), node("b")]), rules)
    running(made, in_queue("q", gang("old", count=4)))
    running(made, in_queue("q", gang("young", count=4)), at=5.0)
    made.apply(GangSubmitted(in_queue("q", gang("equal", count=4))))
    (wait,) = waits(made.decide(10.0))
    assert wait.explanation.code is Code.QUOTA_EXCEEDED
    made.apply(GangSubmitted(in_queue("q", gang("high", count=4, priority=1))))
    decisions = made.decide(10.0)
    assert ended(decisions) == ["young"]
    assert started(decisions) == ["high"]
    account = made.world.queues.accounts["q"]
    assert (account.used[GPU_SHARE], account.standing) == (8000, 2)
    assert made.decide(11.0) == []


def test_below_a_full_ancestor_what_rules_allow_is_taken() -> None:
    made = scheduler([node("a"), node("b")])
    tree(made, capped("p", 8), capped("mine", parent="p"), capped("theirs", parent="p"), capped("other"))
    running(made, in_queue("theirs", gang("long", count=4)), in_queue("other", gang("foreign", count=2)))
    running(made, in_queue("theirs", gang("short", count=4, priority=5)), at=5.0)
    made.apply(GangSubmitted(in_queue("mine", gang("owner", count=5))))
    assert ended(made.decide(6.0)) == []  # it would be over its own entitlement
    made.apply(GangRemoved(GangId("owner")))
    made.apply(GangSubmitted(in_queue("mine", gang("owner", count=4))))
    decisions = made.decide(10.0)
    assert (ended(decisions), started(decisions)) == (["long"], ["owner"])


def test_surplus_below_the_cap_suffices_and_no_gang_is_preempted_for_pods_above_the_minimum() -> None:
    made = tree(scheduler([node("a"), node("b")]), capped("q", 8))
    running(made, in_queue("q", gang("elastic", count=6, minimum=2)), in_queue("q", gang("small", count=2)))
    made.apply(GangSubmitted(in_queue("q", gang("high", count=8, minimum=3, priority=1))))
    decisions = made.decide(10.0)
    (evict,) = evicts(decisions)
    assert [(v.gang, len(v.pods)) for v in evict.victims] == [("elastic", 3)]
    (assign,) = assigns(decisions)
    assert len(assign.nodes) == 3


def test_room_on_the_nodes_and_below_the_cap_are_made_at_once() -> None:
    made = tree(scheduler([node("a"), node("b")]), capped("q", 12), capped("r"))
    running(made, in_queue("q", gang("wide", count=1, of=shape(gpu=4))))
    running(made, in_queue("q", gang("full", count=1, of=shape(gpu=8))))
    made.apply(GangSubmitted(in_queue("q", gang("high", count=1, of=shape(gpu=8), priority=1))))
    decisions = made.decide(10.0)
    assert ended(decisions) == ["full"]  # without `wide` the node would do, but not the cap


def test_a_started_gang_makes_room_below_the_cap_for_its_missing_pods() -> None:
    made = tree(scheduler([node("a"), node("b")]), capped("q", 8))
    running(made, in_queue("q", gang("high", count=4, priority=1)), in_queue("q", gang("low", count=4)))
    tree(made, capped("q", 7))
    made.apply(PodsEnded((pod("high", Place("main", 3)),), 2.0))
    decisions = made.decide(400.0)  # its place is held no longer
    assert (ended(decisions), started(decisions)) == (["low"], ["high"])


@pytest.mark.parametrize(
    "low",
    [
        gang("low", count=8, priority=1),
        replace(gang("low", count=8), preemptible=False),
        replace(gang("low", count=8), min_run_time=60.0),
    ],
)
def test_a_full_queue_protects_the_gangs_that_the_rules_protect(low: Gang) -> None:
    made = tree(scheduler([node("a"), node("b")]), capped("q", 8))
    running(made, in_queue("q", low))
    made.apply(GangSubmitted(in_queue("q", gang("high", count=4, priority=1))))
    decisions = made.decide(10.0)
    assert (ended(decisions), started(decisions)) == ([], [])
    (wait,) = waits(decisions)
    assert wait.explanation.code is Code.QUOTA_EXCEEDED


def test_victims_are_searched_again_after_a_cap_or_a_priority_has_changed() -> None:
    made = tree(scheduler([node("a"), node("b")]), capped("q", 4))
    running(made, in_queue("q", gang("low", count=4, priority=1)))
    made.apply(GangSubmitted(in_queue("q", gang("high", count=5, priority=1))))
    assert ended(made.decide(10.0)) == []
    made.apply(GangSubmitted(in_queue("q", gang("low", count=4))))
    assert ended(made.decide(11.0)) == []
    tree(made, capped("q", 5))
    assert ended(made.decide(12.0)) == ["low"]


def test_no_gang_is_preempted_for_room_that_earlier_victims_leave() -> None:
    made = scheduler([node("a"), node("b")])
    running(made, gang("old", count=8), gang("long", count=8), at=1.0)
    made.apply(GangSubmitted(gang("first", count=2, priority=1)))
    assert ended(made.decide(2.0)) == ["long"]
    made.apply(GangSubmitted(gang("second", count=6, priority=1)))
    assert (ended(made.decide(3.0)), started(made.decide(3.0))) == ([], [])
    made.apply(GangSubmitted(gang("third", count=7, priority=2)))  # for which that is too little
    assert ended(made.decide(4.0)) == ["old"]
    end(made, "long", 8)
    assert started(made.decide(5.0)) == ["second"]


def test_terminating_pods_count_against_a_hard_cap() -> None:
    made = tree(scheduler([node("a"), node("b")]), capped("q", 8))
    running(made, in_queue("q", gang("low", count=8)))
    made.apply(GangSubmitted(in_queue("q", gang("first", count=2, priority=1))))
    assert ended(made.decide(2.0)) == ["low"]
    made.apply(GangSubmitted(in_queue("q", gang("second", count=6, priority=1))))
    (wait,) = waits(made.decide(3.0))
    assert wait.explanation.code is Code.QUOTA_EXCEEDED
    assert wait.explanation.message == "queue q uses 8 of its 8 GPUs; 6 more would be 14"
    end(made, "low", 3)
    assert started(made.decide(4.0)) == []
    end(made, "low", 8)
    assert started(made.decide(5.0)) == ["second"]


@pytest.mark.parametrize("explain", [True, False])
def test_an_older_gang_of_lower_rank_does_not_keep_it_from_preempting(explain: bool) -> None:
    made = tree(Scheduler(Config(explain=explain, backfill=Backfill.NONE)), Queue("q", order=QueueOrder.FIFO))
    made.apply(node("a"))
    running(made, in_queue("q", gang("low", count=8)))
    made.apply(GangSubmitted(in_queue("q", gang("older", count=8))))
    assert ended(made.decide(1.0)) == []
    made.apply(GangSubmitted(in_queue("q", gang("high", count=8, submitted=1.0, priority=1))))
    decisions = made.decide(2.0)
    assert (ended(decisions), started(decisions)) == (["low"], ["high"])


@pytest.mark.parametrize("rules", [capped("p", 4), capped("p", max_gangs=1)], ids=["capability", "maxGangs"])
def test_a_queue_above_its_cap_shrinks_and_gets_nothing_more(rules: Queue) -> None:
    made = tree(scheduler([node("a"), node("b")]), capped("p"), capped("q", parent="p"))
    running(made, in_queue("q", gang("low", count=4)), in_queue("q", gang("lower", count=4)))
    tree(made, rules)
    made.apply(GangSubmitted(in_queue("q", gang("high", count=4, priority=1))))
    decisions = made.decide(2.0)
    assert (sorted(ended(decisions)), started(decisions)) == (["low", "lower"], ["high"])
    account = made.world.queues.accounts["p"]
    assert (account.used_below_cap(GPU_SHARE), account.gangs) == (8000, 2)  # both are there still: as before
    end(made, "low", 4)
    end(made, "lower", 4)
    made.decide(3.0)
    assert (account.used_below_cap(GPU_SHARE), account.gangs) == (4000, 1)


def racks(*sizes: int) -> Scheduler:
    """Racks of so many nodes of 8 GPUs."""
    names = [f"r{rack}-{i}" for rack, size in enumerate(sizes) for i in range(size)]
    made = scheduler(node(name, labels={"rack": name.split("-")[0]}) for name in names)
    made.apply(LayersChanged((Layer("rack", ("rack",)),)))
    return made


def fills(made: Scheduler, name: str, since: float, **gpus: int) -> None:
    """A gang with one pod on each of these nodes."""
    where = {n.replace("_", "-"): count for n, count in sorted(gpus.items())}
    sets = tuple(PodSet(n, shape(gpu=count), 1, 1) for n, count in where.items())
    made.apply(GangSubmitted(gang(name, *sets)))
    for n, count in where.items():
        bound = PodsBound(
            {PodId(f"{name}:{n}"): Place(n, 0)}, NodeName(n), amounts({GPU: count}), GangId(name)
        )
        made.apply(replace(bound, at=since))


def gathers(one: Gang, strategy: Strategy) -> Gang:
    return replace(one, gather=(Gather("rack", strategy),))


def test_room_is_made_in_the_domain_that_is_cheapest_to_clear() -> None:
    made = racks(2, 2, 2)
    # what is cheapest by itself is one half of each of the first two racks
    for rack in ("r0", "r1"):
        fills(made, f"cheap-{rack}", 90.0, **{f"{rack}_0": 8})
        fills(made, f"dear-{rack}", 10.0, **{f"{rack}_1": 8})
    fills(made, "middle", 60.0, r2_0=8, r2_1=8)
    high = gang("high", count=2, of=shape(gpu=8), priority=1)
    made.apply(GangSubmitted(gathers(high, Strategy.MUST_GATHER)))
    decisions = made.decide(100.0)
    assert ended(decisions) == ["middle"]
    assert [node for _, node in sorted(assigns(decisions)[0].nodes.items())] == ["r2-0", "r2-1"]


@pytest.mark.parametrize(("since", "expected"), [(50.0, ["b", "c"]), (51.0, ["a", "b"])])
def test_of_equal_losses_the_one_in_a_preferred_domain(since: float, expected: list[str]) -> None:
    made = racks(2, 2)
    fills(made, "a", since, r0_0=8)
    foreign(made, "r0-1", 8)
    fills(made, "b", 50.0, r1_0=8)
    fills(made, "c", 50.0, r1_1=8)
    high = gang("high", count=2, of=shape(gpu=8), priority=1)
    made.apply(GangSubmitted(gathers(high, Strategy.PREFER_GATHER)))
    assert ended(made.decide(100.0)) == expected


def test_a_domain_is_cleared_for_a_gang_that_has_it_to_itself() -> None:
    made = racks(2, 2)
    fills(made, "long", 10.0, r0_0=1)
    fills(made, "short", 90.0, r1_0=1)
    fills(made, "shorter", 95.0, r1_1=1)
    made.apply(GangSubmitted(replace(gang("high", priority=1), exclusive="rack")))
    assert ended(made.decide(100.0)) == ["short", "shorter"]


def test_of_many_domains_the_cheapest_is_cleared_of_those_that_can_be() -> None:
    made = racks(*[1] * 30)
    for i in range(30):
        fills(made, f"gang-{i}", 10.0 + i, **{f"r{i}_0": 1})
    youngest = made.world.gangs[GangId("gang-29")].gang
    assert youngest is not None
    made.apply(GangSubmitted(replace(youngest, preemptible=False)))
    made.apply(GangSubmitted(replace(gang("high", priority=1), exclusive="rack")))
    assert ended(made.decide(100.0)) == ["gang-28"]


def test_a_gang_that_has_places_in_a_domain_makes_room_there() -> None:
    made = racks(2, 2)
    fills(made, "here", 10.0, r0_1=8)
    fills(made, "there", 90.0, r1_0=8, r1_1=8)
    high = gathers(gang("high", count=2, of=shape(gpu=8), priority=1), Strategy.MUST_GATHER)
    made.apply(GangSubmitted(high))
    made.apply(
        PodsBound({PodId("p"): Place("main", 0)}, NodeName("r0-0"), amounts({GPU: 8}), high.id, at=50.0)
    )
    assert ended(made.decide(100.0)) == ["here"]


def test_a_gang_with_a_minimum_of_zero_preempts_no_gang_in_a_full_queue() -> None:
    made = tree(scheduler([node("a"), node("b")]), capped("q", 8, max_gangs=1))
    running(made, in_queue("q", gang("low", count=8)))
    made.apply(GangSubmitted(in_queue("q", gang("high", count=2, minimum=0, priority=1))))
    decisions = made.decide(10.0)
    assert (ended(decisions), started(decisions)) == ([], [])


@given(st.integers(0, 2**32))
@settings(max_examples=examples(80), deadline=None)
def test_gangs_of_higher_priority_than_needed_can_be_left_out_as_victims(seed: int) -> None:
    """Leaving such a gang out at first makes no gang of higher priority a victim, and loses no more work."""

    def found(ample: int) -> list[tuple[int, float, bool]]:
        rng, outcomes = random.Random(seed), []
        made = scheduler(node(f"n{i}", gpu=4) for i in range(rng.randint(2, 5)))
        for i in range(rng.randint(3, 9)):
            size, of = rng.randint(1, 4), shape(gpu=rng.randint(1, 2))
            one = gang(f"g{i}", count=size, of=of, minimum=rng.randint(1, size), priority=rng.randint(0, 3))
            made.apply(GangSubmitted(replace(one, preempts=False)))
            at = rng.uniform(1.0, 90.0)
            for assign in assigns(made.decide(1.0)):
                for event in bind(made, assign):
                    made.apply(replace(event, at=at))
        asked = gang("p", count=rng.randint(1, 6), of=shape(gpu=rng.randint(1, 3)), priority=9)
        made.apply(GangSubmitted(asked))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(candidates, "AMPLE", ample)
            decisions = made.decide(100.0)
        priority = {
            state.id: state.gang.priority for state in made.world.gangs.values() if state.gang is not None
        }
        for evict in evicts(decisions):
            highest = max(priority[victim.gang] for victim in evict.victims)
            outcomes.append((highest, evict.work_lost, bool(assigns(decisions))))
        return outcomes

    for (one, lost, starts), (highest, most, does) in zip(found(2), found(10**9), strict=True):
        assert (one, starts) == (highest, does)
        assert lost <= most + 1e-6
