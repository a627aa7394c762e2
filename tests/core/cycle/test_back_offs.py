"""A gang whose start failed backs off; a gang that lost places keeps its pods off some nodes."""

from dataclasses import replace
from math import inf

import pytest

from muster.core.cycle import Scheduler
from muster.core.words.events import CommitFailed, Event, GangSubmitted, PlacesLost
from muster.core.words.gang import Code, GangId, Gate, NodeName
from tests.core.words import assigns, bind, gang, node, places, scheduler, started, waits, where

X = GangId("x")


def assigned(*nodes: str, count: int = 2, minimum: int | None = None) -> Scheduler:
    made = scheduler([node(name, gpu=2) for name in nodes], gang("x", count=count, minimum=minimum))
    assert started(made.decide(0.0)) == ["x"]
    return made


def lost(index: int, until: float, *nodes: str) -> PlacesLost:
    return PlacesLost(X, places(index), frozenset(map(NodeName, nodes)), until)


def test_a_gang_whose_gate_is_lifted_is_no_longer_told_of_it_even_while_reasons_are_postponed() -> None:
    held = replace(gang("x"), gate=Gate(Code.GATED, "held"))
    made = scheduler([], held)
    assert [wait.explanation.code for wait in waits(made.decide(0.0))] == [Code.GATED]
    made.apply(GangSubmitted(held))
    assert made.world.gangs[X].explanation is not None
    made.apply(GangSubmitted(gang("x")))
    assert made.world.gangs[X].explanation is None
    assert [wait.explanation.code for wait in waits(made.decide(1.0))] != [Code.GATED]


@pytest.mark.parametrize("change", [node("b"), GangSubmitted(gang("x", count=1))], ids=["node", "gang"])
def test_a_change_before_the_next_cycle_ends_an_endless_back_off(change: Event) -> None:
    made = assigned("a")
    made.apply(CommitFailed(X, inf, "three attempts failed"))
    made.apply(change)
    assert started(made.decide(1.0)) == ["x"]


@pytest.mark.parametrize("until", [5.0, 50.0])
@pytest.mark.parametrize("cycle_between", [False, True])
def test_places_that_are_lost_do_not_end_a_back_off(until: float, cycle_between: bool) -> None:
    made = assigned("a", "b")
    made.apply(CommitFailed(X, 20.0, "binding x-1 was refused"))
    if cycle_between:
        made.decide(1.0)
    made.apply(lost(0, until, "a"))
    made.decide(1.0)
    told = made.world.gangs[X].explanation
    assert told is not None
    assert (told.code, told.message) == (Code.COMMIT_FAILED, "binding x-1 was refused")
    assert started(made.decide(19.9)) == []
    (again,) = assigns(made.decide(20.0))
    assert set(where(again)) == ({"b"} if until > 20.0 else {"a"})


def test_a_back_off_does_not_end_where_pods_keep_off_a_node() -> None:
    made = assigned("a", "b")
    made.apply(lost(0, 50.0, "a"))
    made.apply(CommitFailed(X, 20.0, "binding x-1 was refused"))
    assert started(made.decide(1.0)) == []
    (again,) = assigns(made.decide(20.0))
    assert where(again) == ["b", "b"]


def test_pods_keep_off_each_node_for_its_own_time() -> None:
    made = assigned("a", "b", count=4, minimum=1)
    made.apply(lost(0, 10.0, "a"))
    made.apply(lost(2, 30.0, "b"))
    assert started(made.decide(1.0)) == []
    assert made.wake_at() == 10.0
    (again,) = assigns(made.decide(10.0))
    assert where(again) == ["a"]
    assert made.wake_at() == 30.0
    (last,) = assigns(made.decide(30.0))
    assert where(last) == ["b"]


def test_no_node_is_avoided_for_ever() -> None:
    made = assigned("a")
    made.apply(lost(0, 10.0, "a"))
    made.apply(lost(1, 10.0, "a"))
    made.decide(1.0)
    (again,) = assigns(made.decide(10.0))
    bind(made, again)
    made.decide(10.0)
    assert made.wake_at() is None
