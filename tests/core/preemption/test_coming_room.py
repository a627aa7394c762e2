"""Muster never preempts for capacity that pods under deletion are about to free."""

from dataclasses import replace

import pytest

from muster.core.cycle import Scheduler
from muster.core.preemption import COMING
from muster.core.words.events import GangRemoved, GangSubmitted, PodsEnded
from muster.core.words.gang import GangId, Place
from tests.core.preemption.test_preemption import ended, running
from tests.core.words import gang, node, pod, scheduler, started

PODS = [pod("deleted", Place("main", index)) for index in range(8)]


def leaving(made: Scheduler, pods: int) -> None:
    """So many pods of the job are being deleted."""
    for name in PODS[:pods]:
        known = made.world.pods[name]
        there = replace(known, pods={name: None}, footprint=replace(known.footprint, leaving=True))
        made.apply(there)


@pytest.fixture(params=[False, True], ids=["job stays", "job is gone"])
def made(request: pytest.FixtureRequest) -> Scheduler:
    """Two nodes; what runs on one of them is being deleted."""
    made = scheduler([node("a"), node("b")])
    running(made, gang("deleted", count=8), gang("low", count=8))
    if request.param:
        made.apply(GangRemoved(GangId("deleted")))
    leaving(made, 8)
    return made


def test_no_gang_is_preempted_for_capacity_that_departing_pods_free(made: Scheduler) -> None:
    made.apply(GangSubmitted(gang("high", count=8, priority=1)))
    assert ended(made.decide(10.0)) == []
    assert ended(made.decide(11.0)) == []
    made.apply(GangRemoved(GangId("deleted")))
    made.apply(PodsEnded(tuple(PODS), 12.0))
    decisions = made.decide(12.0)
    assert ended(decisions) == []
    assert started(decisions) == ["high"]


def test_a_gang_that_needs_more_than_departing_pods_free_preempts_once_they_are_gone(made: Scheduler) -> None:
    made.apply(GangSubmitted(gang("high", count=9, priority=1)))
    assert ended(made.decide(10.0)) == []
    made.apply(GangRemoved(GangId("deleted")))
    made.apply(PodsEnded(tuple(PODS), 12.0))
    assert ended(made.decide(12.0)) == ["low"]


def test_a_pod_that_is_stuck_is_not_waited_for(made: Scheduler) -> None:
    made.decide(5.0)
    made.apply(GangSubmitted(gang("high", count=8, priority=1)))
    assert ended(made.decide(10.0)) == []
    assert made.wake_at() == 5.0 + COMING
    assert ended(made.decide(4.9 + COMING)) == []
    assert "low" in ended(made.decide(5.0 + COMING))


def test_the_room_that_some_pods_leave_may_be_enough() -> None:
    made = scheduler([node("a"), node("b")])
    running(made, gang("deleted", count=8), gang("low", count=8))
    leaving(made, 3)
    made.apply(GangSubmitted(gang("fits", count=3, priority=1)))
    assert ended(made.decide(10.0)) == []
    made.apply(GangSubmitted(gang("high", count=4, priority=2)))
    assert ended(made.decide(11.0)) == ["low"]
