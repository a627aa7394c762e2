"""What the scheduler decides, one behaviour each."""

from dataclasses import replace
from math import inf
from typing import Any

import pytest

from muster.core.cycle import Scheduler
from muster.core.words.decisions import Assign, Release
from muster.core.words.events import (
    CommitFailed,
    GangRemoved,
    GangSubmitted,
    NodeRemoved,
    PlacesLost,
    PlacesRetired,
    PlanFound,
    PodsBound,
    PodsEnded,
    QueueChanged,
)
from muster.core.words.gang import Code, GangId, Gate, NodeName, Place, PodId, PodSet, Queue
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
    releases,
    scheduler,
    shape,
    started,
    waits,
    where,
)

X = GangId("x")


def standing(*nodes: str, count: int, minimum: int | None = None, gpu: int = 4) -> Scheduler:
    """Gang x of one-GPU pods, all bound on nodes of `gpu` GPUs."""
    made = scheduler([node(n, gpu=gpu) for n in nodes], gang("x", count=count, minimum=minimum))
    (assign,) = assigns(made.decide(0.0))
    bind(made, assign)
    assert made.decide(0.0) == []
    return made


def end(made: Scheduler, *indices: int, at: float, of: str = "x") -> None:
    for index in indices:
        made.apply(PodsEnded((pod(of, Place("main", index)),), at))


# Whole gangs, in order


def test_all_or_nothing_and_the_reason() -> None:
    made = scheduler(
        [node("a", gpu=4), node("b", gpu=4)], gang("x", count=6), gang("y", count=6, submitted=1)
    )
    decisions = made.decide(0.0)
    assert started(decisions) == ["x"]
    (wait,) = waits(decisions)
    assert (wait.gang, wait.explanation.code) == ("y", Code.INSUFFICIENT_CAPACITY)
    assert wait.explanation.message == "6 GPUs asked as 6 × 1; 2 are free"
    assert wait.explanation.blockers == ("x",)


def test_a_gang_that_does_not_fit_blocks_nothing_behind_it() -> None:
    made = scheduler([node("a", gpu=4)], gang("large", count=5), gang("small", count=4, submitted=1))
    assert started(made.decide(0.0)) == ["small"]


def test_priority_then_age_then_name() -> None:
    made = scheduler(
        [node("a", gpu=4)],
        gang("late", submitted=2),
        gang("b", submitted=1),
        gang("a", submitted=1),
        gang("urgent", submitted=3, priority=1),
    )
    assert started(made.decide(0.0)) == ["urgent", "a", "b", "late"]


def test_decisions_are_reported_once() -> None:
    made = scheduler([node("a", gpu=4)], gang("x", count=4), gang("y", submitted=1))
    assert len(made.decide(0.0)) == 2
    assert made.decide(0.0) == []
    made.apply(GangSubmitted(gang("y", submitted=1)))
    assert made.decide(1.0) == []


def test_a_changed_reason_is_reported_again() -> None:
    made = scheduler([node("a", gpu=4)], gang("y", count=5))
    assert "4 are free" in waits(made.decide(0.0))[0].explanation.message
    foreign(made, "a", 1)
    assert "3 are free" in waits(made.decide(0.0))[0].explanation.message


def test_pod_sets_start_together() -> None:
    sets = (PodSet("driver", shape(cpu=1000), 1, 1), PodSet("worker", shape(gpu=4), 2, 2))
    made = scheduler([node("a", gpu=4)], gang("x", *sets))
    (wait,) = waits(made.decide(0.0))
    assert [(p.name, p.wanted, p.fits) for p in wait.explanation.pod_sets] == [
        ("driver", 1, 1),
        ("worker", 2, 1),
    ]
    made.apply(node("b", gpu=4))
    (assign,) = assigns(made.decide(0.0))
    assert len(assign.nodes) == 3


def test_a_gang_without_places_decides_nothing() -> None:
    assert scheduler([node("a")], gang("x", count=0)).decide(0.0) == []


def test_the_age_of_a_gang_is_the_earliest_ever_seen() -> None:
    made = scheduler([node("a", gpu=1)], gang("x", submitted=5), gang("y", submitted=6))
    made.apply(GangSubmitted(gang("y", submitted=1)))
    made.apply(GangSubmitted(gang("y", submitted=9)))
    assert started(made.decide(0.0)) == ["y"]


# Facts in any order


def test_pods_bound_before_their_gang_and_node_are_known_count() -> None:
    made = scheduler()
    bound = PodsBound({PodId("p"): Place("main", 0)}, NodeName("a"), amounts({GPU: 1}), X)
    made.apply(bound)
    made.decide(0.0)
    made.apply(GangSubmitted(gang("x", count=2)))
    made.apply(node("a", gpu=2))
    (assign,) = assigns(made.decide(0.0))
    assert set(assign.nodes) == places(1)
    assert made.world.nodes.free(made.world.nodes.resources[GPU]).tolist() == [0]


def test_a_pod_counts_where_it_really_is() -> None:
    made = scheduler([node("a", gpu=2), node("b", gpu=2)], gang("x"))
    (assign,) = assigns(made.decide(0.0))
    assert where(assign) == ["a"]
    made.apply(PodsBound({PodId("p"): Place("main", 0)}, NodeName("b"), amounts({GPU: 1}), X))
    assert made.world.nodes.free(made.world.nodes.resources[GPU]).tolist() == [2, 1]
    assert made.decide(0.0) == []


def test_a_pod_that_is_reported_on_another_node_moves() -> None:
    made = standing("a", "b", count=1)
    made.apply(PodsBound({pod("x", Place("main", 0)): Place("main", 0)}, NodeName("b"), amounts({GPU: 1}), X))
    assert made.world.nodes.free(made.world.nodes.resources[GPU]).tolist() == [4, 3]


@pytest.mark.parametrize(
    "indices",
    [[0, 1, 2], [0, 1, 9], [0, 1, 1], [0, 1, None], [0]],
    ids=["as promised", "one that was not requested", "two at one place", "one without a place", "one"],
)
@pytest.mark.parametrize("on", ["a", "b"])
@pytest.mark.parametrize("share", [0, 300])
def test_pods_that_are_reported_together_count_as_if_reported_one_by_one(
    indices: list[int | None], on: str, share: int
) -> None:
    of = shape(share=share) if share else shape(gpu=1)
    pods = {
        PodId(f"p{n}"): None if index is None else Place("main", index) for n, index in enumerate(indices)
    }
    together, singly = (
        scheduler([node("a", gpu=4), node("b", gpu=2)], gang("x", count=4, of=of)) for _ in range(2)
    )
    one_by_one = [PodsBound({p: place}, NodeName(on), of.requests, X, at=1.0) for p, place in pods.items()]
    for made, facts in (
        (together, [PodsBound(pods, NodeName(on), of.requests, X, at=1.0)] * 2),
        (singly, one_by_one * 2),
    ):
        assert started(made.decide(0.0)) == ["x"]
        for fact in facts:
            made.apply(fact)
        made.decide(1.0)
    for pod_ in (None, *pods):
        for made in (together, singly):
            if pod_ is not None:
                made.apply(PodsEnded((pod_,), 2.0))
        one, other = together.world.gangs[X], singly.world.gangs[X]
        assert (one.pods, one.filled, one.holds, one.bound) == (
            other.pods,
            other.filled,
            other.holds,
            other.bound,
        )
        assert (one.usage, one.nodes) == (other.usage, other.nodes)
        assert together.world.nodes.used.tolist() == singly.world.nodes.used.tolist()
        assert together.world.nodes.devices.used(NodeName(on)) == singly.world.nodes.devices.used(
            NodeName(on)
        )
        assert {p: (b.node, b.footprint) for p, b in together.world.pods.items()} == {
            p: (b.node, b.footprint) for p, b in singly.world.pods.items()
        }
        assert together.decide(3.0) == singly.decide(3.0)


def test_an_unknown_pod_that_ends_is_nothing() -> None:
    made = scheduler([node("a")])
    made.apply(PodsEnded((PodId("ghost"),), 0.0))
    assert made.decide(0.0) == []


def test_a_removed_gang_gives_everything_back() -> None:
    made = scheduler([node("a", gpu=2)], gang("x", count=2), gang("y", count=2, submitted=1))
    assert started(made.decide(0.0)) == ["x"]
    made.apply(GangRemoved(X))
    assert started(made.decide(0.0)) == ["y"]
    assert X not in made.world.gangs


def test_pods_of_a_removed_gang_count_until_they_end() -> None:
    made = standing("a", count=4)
    made.apply(GangRemoved(X))
    made.apply(GangSubmitted(gang("y", count=1)))
    assert started(made.decide(0.0)) == []
    end(made, 0, at=1.0)
    assert started(made.decide(1.0)) == ["y"]


# Gates and failed starts


def test_a_gate_keeps_a_gang_waiting_with_its_own_reason() -> None:
    gate = Gate(Code.MEMBERS_MISSING, "3 of 4 pods are there")
    made = scheduler([node("a")], gang("x", count=4, gate=gate))
    (wait,) = waits(made.decide(0.0))
    assert (wait.explanation.code, wait.explanation.message) == (gate.code, gate.message)
    made.apply(GangSubmitted(gang("x", count=4)))
    assert started(made.decide(0.0)) == ["x"]


def test_a_gate_that_appears_takes_promises_back() -> None:
    made = scheduler([node("a", gpu=2)], gang("x", count=2), gang("y", submitted=1))
    made.decide(0.0)
    made.apply(GangSubmitted(gang("x", count=2, gate=Gate(Code.GATED, "held"))))
    decisions = made.decide(0.0)
    assert releases(decisions) == [Release(X, places(0, 1))]
    assert started(decisions) == ["y"]


def test_a_failed_start_backs_off_and_says_so() -> None:
    made = scheduler([node("a"), node("b")], gang("x", count=2))
    made.decide(0.0)
    made.apply(CommitFailed(X, 10.0, "binding x-1 was refused", frozenset({NodeName("a")})))
    (wait,) = waits(made.decide(0.0))
    assert (wait.explanation.code, wait.explanation.message) == (
        Code.COMMIT_FAILED,
        "binding x-1 was refused",
    )
    assert made.wake_at() == 10.0
    assert made.decide(9.9) == []
    assert started(made.decide(10.0)) == ["x"]


@pytest.mark.parametrize("seen_leaving", [False, True])
def test_pods_that_end_after_a_failed_start_hold_nothing(seen_leaving: bool) -> None:
    made = scheduler([node("a", gpu=2)], gang("x", count=2), gang("y", count=2, submitted=1))
    (assign,) = assigns(made.decide(0.0))
    bind(made, assign, only=places(0))
    made.apply(CommitFailed(X, 10.0, "binding x-1 was refused"))
    if seen_leaving:
        first = pod("x", Place("main", 0))
        made.apply(replace(made.world.pods[first], pods={first: None}))
    end(made, 0, at=1.0)
    assert started(made.decide(1.0)) == ["y"]


def test_a_running_gang_keeps_lost_places_though_its_surplus_failed() -> None:
    made = standing("a", count=3, minimum=1)
    made.apply(CommitFailed(X, 10.0, "binding x-3 was refused"))
    made.apply(GangSubmitted(gang("y", count=2, submitted=1)))
    end(made, 1, at=1.0)
    assert started(made.decide(1.0)) == []


@pytest.mark.parametrize("change", [node("b"), GangSubmitted(gang("x", count=1))], ids=["node", "gang"])
def test_an_endless_back_off_ends_with_a_change(change: GangSubmitted) -> None:
    made = scheduler([node("a")], gang("x", count=2))
    made.decide(0.0)
    made.apply(CommitFailed(X, inf, "three attempts failed"))
    made.apply(node("a"))
    made.apply(GangSubmitted(gang("x", count=2)))
    assert started(made.decide(1e9)) == []
    assert made.wake_at() is None
    made.apply(change)
    assert started(made.decide(1e9)) == ["x"]


def test_lost_places_are_assigned_again_elsewhere() -> None:
    made = scheduler([node("a", gpu=2), node("b", gpu=2)], gang("x", count=2))
    (assign,) = assigns(made.decide(0.0))
    assert where(assign) == ["a", "a"]
    bind(made, assign, only=places(0))
    made.apply(PlacesLost(X, places(1), frozenset({NodeName("a")}), 30.0))
    (again,) = assigns(made.decide(1.0))
    assert dict(again.nodes) == {Place("main", 1): "b"}


def test_lost_places_without_another_node_wait_until_the_node_may_be_tried_again() -> None:
    made = scheduler([node("a", gpu=2)], gang("x", count=2))
    (assign,) = assigns(made.decide(0.0))
    bind(made, assign, only=places(0))
    made.apply(PlacesLost(X, places(1), frozenset({NodeName("a")}), 30.0))
    (wait,) = waits(made.decide(1.0))
    assert wait.explanation.code is Code.COMMIT_FAILED
    assert wait.explanation.message == "a failed and must wait; nothing else fits"
    (again,) = assigns(made.decide(30.0))
    assert where(again) == ["a"]


# Replacements


def test_a_replacement_pod_gets_the_held_node_before_any_other_gang() -> None:
    made = standing("a", "b", count=8)
    made.apply(GangSubmitted(gang("urgent", priority=9)))
    end(made, 5, at=1.0)
    decisions = made.decide(1.0)
    assert [(a.gang, dict(a.nodes)) for a in assigns(decisions)] == [("x", {Place("main", 5): "b"})]
    assert [w.gang for w in waits(decisions)] == ["urgent"]


def test_a_replacement_that_asks_for_more_is_asked_about_caps_first() -> None:
    made = standing("a", count=1)
    made.apply(QueueChanged(Queue("default", capability=amounts({GPU: 2}))))
    made.apply(GangSubmitted(gang("x", count=1, of=shape(gpu=3))))
    end(made, 0, at=1.0)
    decisions = made.decide(1.0)
    assert not assigns(decisions)
    assert [w.explanation.code for w in waits(decisions)] == [Code.QUOTA_EXCEEDED]


def test_a_replacement_goes_elsewhere_if_its_node_is_cordoned() -> None:
    made = standing("a", "b", count=4)
    end(made, 2, at=1.0)
    made.apply(node("a", gpu=4, cordoned=True))
    (assign,) = assigns(made.decide(1.0))
    assert where(assign) == ["b"]
    assert made.world.nodes.free(made.world.nodes.resources[GPU]).tolist() == [1, 3]


def test_a_place_is_vacant_only_when_its_last_pod_is_gone() -> None:
    made = standing("a", count=1)
    made.apply(PodsBound({PodId("new"): Place("main", 0)}, NodeName("a"), amounts({GPU: 1}), X))
    end(made, 0, at=1.0)
    assert made.decide(1.0) == []


def test_a_hold_that_runs_out_goes_to_a_waiting_gang() -> None:
    made = standing("a", count=4)
    made.apply(GangSubmitted(gang("y", submitted=1)))
    end(made, 3, at=1.0)
    assert started(made.decide(1.0)) == ["x"]
    assert made.wake_at() == 301.0
    decisions = made.decide(301.0)
    assert releases(decisions) == [Release(X, places(3))]
    assert started(decisions) == ["y"]
    assert [w.gang for w in waits(decisions)] == ["x"]


def test_missing_pods_have_first_claim_after_a_hold() -> None:
    made = standing("a", count=4)
    made.apply(GangSubmitted(gang("y", submitted=1)))
    end(made, 3, at=1.0)
    made.decide(1.0)
    (y,) = assigns(made.decide(301.0))
    (bound,) = bind(made, y)
    made.apply(GangSubmitted(gang("z", submitted=-1.0, priority=5)))
    made.apply(GangRemoved(GangId("y")))
    made.apply(PodsEnded(tuple(bound.pods), 302.0))
    assert started(made.decide(302.0)) == ["x"]


def test_a_gang_whose_pods_are_all_gone_waits_again_with_its_age() -> None:
    made = standing("a", count=4)
    end(made, 0, 1, 2, 3, at=1.0)
    assert len(assigns(made.decide(1.0))[0].nodes) == 4
    made.apply(GangSubmitted(gang("younger", count=4, submitted=1)))
    made.apply(GangSubmitted(gang("older", count=4, submitted=-1)))
    decisions = made.decide(301.0)
    assert releases(decisions) == [Release(X, places(0, 1, 2, 3))]
    assert started(decisions) == ["older"]
    made.apply(GangRemoved(GangId("older")))
    assert started(made.decide(302.0)) == ["x"]


def test_a_restart_below_the_minimum_is_whole_or_not_at_all() -> None:
    made = standing("a", "b", count=8)
    end(made, *range(8), at=1.0)
    made.apply(NodeRemoved(NodeName("b")))
    decisions = made.decide(1.0)
    assert assigns(decisions) == []
    assert [w.gang for w in waits(decisions)] == ["x"]
    made.apply(node("c", gpu=4))
    (assign,) = assigns(made.decide(2.0))
    assert where(assign) == ["a"] * 4 + ["c"] * 4


def of_an_earlier_attempt(made: Scheduler, *indices: int) -> None:
    """The controllers restart the gang: these pods are still there, but fill no place."""
    for index in indices:
        former = pod("x", Place("main", index))
        bound = made.world.pods[former]
        made.apply(PodsBound({former: None}, bound.node, bound.requests, X))


def test_a_restart_starts_elsewhere_while_its_old_pods_end() -> None:
    made = standing("a", count=4)
    of_an_earlier_attempt(made, 0, 1, 2, 3)
    assert started(made.decide(1.0)) == []
    made.apply(node("b", gpu=4))
    assert where(assigns(made.decide(1.0))[0]) == ["b"] * 4


def test_a_restart_keeps_what_its_old_pods_leave() -> None:
    made = standing("a", count=4)
    made.apply(GangSubmitted(gang("urgent", priority=9)))
    of_an_earlier_attempt(made, 0, 1, 2, 3)
    for index in range(4):
        assert started(made.decide(1.0)) == []
        end(made, index, at=1.0)
    assert where(assigns(made.decide(1.0))[0]) == ["a"] * 4


def test_retired_places_are_satisfied_and_hold_nothing() -> None:
    made = standing("a", count=4)
    end(made, 2, 3, at=1.0)
    made.apply(PlacesRetired(X, places(2)))
    (assign,) = assigns(made.decide(1.0))
    assert set(assign.nodes) == places(3)
    made.apply(PlacesRetired(X, places(2, 3)))
    assert made.decide(1.0) == [Release(X, places(3))]


def test_a_job_that_restarts_has_its_places_back() -> None:
    made = standing("a", count=2)
    end(made, 0, 1, at=1.0)
    made.apply(PlacesRetired(X, places(0, 1)))
    assert made.decide(1.0) == []
    made.apply(PlacesRetired(X, frozenset()))
    (assign,) = assigns(made.decide(2.0))
    assert set(assign.nodes) == places(0, 1)


def test_places_on_a_node_that_vanishes_before_they_are_bound_move() -> None:
    made = scheduler([node("a", gpu=2), node("b", gpu=2)], gang("x", count=2))
    made.decide(0.0)
    made.apply(NodeRemoved(NodeName("a")))
    decisions = made.decide(1.0)
    assert releases(decisions) == [Release(X, places(0, 1))]
    assert where(assigns(decisions)[0]) == ["b", "b"]


# Minimum below the size


def test_a_start_takes_the_minimum_and_what_more_fits() -> None:
    made = scheduler([node("a", gpu=4)], gang("x", count=6, minimum=2))
    (assign,) = assigns(made.decide(0.0))
    assert set(assign.nodes) == places(0, 1, 2, 3)


def test_growth_comes_at_the_gangs_own_rank() -> None:
    made = scheduler([node("a", gpu=4)], gang("x", count=6, minimum=2))
    (assign,) = assigns(made.decide(0.0))
    bind(made, assign)
    made.apply(GangSubmitted(replace(gang("urgent", priority=1), preempts=False)))
    assert started(made.decide(1.0)) == []
    made.apply(node("b", gpu=2))
    decisions = made.decide(2.0)
    assert [(a.gang, len(a.nodes)) for a in assigns(decisions)] == [("urgent", 1), ("x", 1)]


def test_surplus_places_that_no_pod_fills_are_released_and_not_claimed_again() -> None:
    made = scheduler([node("a", gpu=4)], gang("x", count=4, minimum=2))
    (assign,) = assigns(made.decide(0.0))
    bind(made, assign, only=places(0, 1))
    assert made.decide(1.0) == []
    assert made.wake_at() == 301.0
    assert made.decide(301.0) == [Release(X, places(2, 3))]
    assert made.decide(302.0) == []
    end(made, 1, at=303.0)
    assert set(assigns(made.decide(303.0))[0].nodes) == places(1, 2, 3)


@pytest.mark.parametrize(
    ("change", "claimed"),
    [({"checkpointed": 301.0}, False), ({"estimate": 60.0}, False), ({"min_count": 1}, True)],
    ids=["a checkpoint", "an estimate", "a minimum"],
)
def test_released_surplus_is_claimed_again_when_the_demand_changes_and_not_otherwise(
    change: dict[str, float], claimed: bool
) -> None:
    asked = gang("x", count=4, minimum=2)
    made = scheduler([node("a", gpu=4)], asked)
    (assign,) = assigns(made.decide(0.0))
    bind(made, assign, only=places(0, 1))
    made.decide(1.0)
    assert made.decide(301.0) == [Release(X, places(2, 3))]
    changed: Any = change  # Any: fields of a Gang
    made.apply(GangSubmitted(replace(asked, **changed)))
    assert bool(made.decide(302.0)) == claimed


def test_surplus_is_claimed_again_when_another_promise_is_kept() -> None:
    made = scheduler([node("a", gpu=1)], gang("x", count=3, minimum=1))
    for at, name in enumerate("abc"):
        made.apply(node(name, gpu=1))
        (assign,) = assigns(made.decide(100.0 * at))
        bind(made, assign, only=places(0))
    assert made.decide(400.0) == [Release(X, places(1))]
    assert made.decide(450.0) == []
    bind(made, assign)
    (again,) = assigns(made.decide(460.0))
    assert dict(again.nodes) == {Place("main", 1): "b"}


def test_a_gang_that_shrinks_gives_its_promises_up() -> None:
    made = scheduler([node("a", gpu=4)], gang("x", count=4))
    made.decide(0.0)
    made.apply(GangSubmitted(gang("x", count=3)))
    assert made.decide(0.0) == [Release(X, places(3))]


def test_a_gang_that_requests_more_per_pod_is_placed_again() -> None:
    made = scheduler([node("a", gpu=4), node("b", gpu=4)], gang("x", count=2))
    made.decide(0.0)
    made.apply(GangSubmitted(gang("x", count=2, of=shape(gpu=4))))
    decisions = made.decide(0.0)
    assert releases(decisions) == [Release(X, places(0, 1))]
    assert where(assigns(decisions)[0]) == ["a", "b"]


# Recovery


def test_a_plan_that_is_found_is_continued_as_it_says() -> None:
    made = scheduler([node("a"), node("b")])
    made.apply(PlanFound(X, {Place("main", 0): NodeName("b"), Place("main", 1): NodeName("b")}))
    made.apply(PodsBound({PodId("p"): Place("main", 0)}, NodeName("b"), amounts({GPU: 1}), X))
    made.apply(GangSubmitted(gang("x", count=2)))
    made.apply(GangSubmitted(gang("urgent", count=8, of=shape(gpu=2), priority=3)))
    decisions = made.decide(0.0)
    assert [(a.gang, dict(a.nodes)) for a in assigns(decisions)] == [("x", {Place("main", 1): "b"})]
    made.apply(PlanFound(X, {Place("main", 0): NodeName("b"), Place("main", 1): NodeName("b")}))
    assert made.decide(0.0) == []


def test_planned_places_that_no_longer_fit_are_assigned_again() -> None:
    made = scheduler([node("a"), node("b")], gang("x", count=2))
    foreign(made, "b", 8)
    made.apply(PlanFound(X, {Place("main", 0): NodeName("a"), Place("main", 1): NodeName("b")}))
    (assign,) = assigns(made.decide(0.0))
    assert where(assign) == ["a", "a"]


def test_a_plan_that_cannot_be_completed_holds_nothing() -> None:
    made = scheduler([node("a", gpu=1), node("b", gpu=1)], gang("x", count=2), gang("y", submitted=1))
    foreign(made, "b", 1)
    made.apply(PlanFound(X, {Place("main", 0): NodeName("a"), Place("main", 1): NodeName("b")}))
    decisions = made.decide(0.0)
    assert started(decisions) == ["y"]
    assert [w.gang for w in waits(decisions)] == ["x"]


def test_promised_places_that_another_scheduler_fills_are_assigned_again() -> None:
    made = scheduler([node("a", gpu=2), node("b", gpu=2)], gang("x", count=2))
    (first,) = assigns(made.decide(0.0))
    assert where(first) == ["a", "a"]
    foreign(made, "a", 1)
    release, again = made.decide(1.0)
    assert release == Release(X, places(1))
    assert isinstance(again, Assign)
    assert where(again) == ["b"]
    assert made.decide(2.0) == []


def test_a_node_that_shrinks_under_promises_keeps_what_it_has_room_for_of_the_first_gang() -> None:
    made = scheduler([node("a", gpu=4)], gang("x", count=2), gang("y", count=2, submitted=1))
    assert started(made.decide(0.0)) == ["x", "y"]
    made.apply(node("a", gpu=2))
    decisions = made.decide(1.0)
    assert releases(decisions) == [Release(GangId("y"), places(0, 1))]
    assert assigns(decisions) == []


def test_a_promise_that_is_kept_changes_nothing_on_the_ledger() -> None:
    made = scheduler([node("a", gpu=2)], gang("x", count=2))
    (assign,) = assigns(made.decide(0.0))
    before = made.world.nodes.revision
    bind(made, assign)
    assert made.world.nodes.revision == before
    assert made.world.gangs[X].holds == {}
    assert made.world.gangs[X].usage[GPU] == 2
    end(made, 0, 1, at=1.0)
    made.apply(GangRemoved(X))
    assert made.world.nodes.used.sum() == 0


def test_a_gang_that_did_not_fit_is_tried_again_when_capacity_is_freed() -> None:
    made = scheduler([node("a", gpu=4), node("b", gpu=4)], gang("x", count=4), gang("y", count=6))
    (assign,) = assigns(made.decide(0.0))
    bind(made, assign)
    made.apply(PodsBound({PodId("other"): None}, NodeName("b"), amounts({GPU: 2})))
    assert started(made.decide(1.0)) == []
    made.apply(GangRemoved(X))
    end(made, 0, 1, 2, 3, at=2.0)
    assert started(made.decide(2.0)) == ["y"]
