"""Since when a gang runs, and what depends on it: its minimum run time, and the work that its end loses."""

from dataclasses import replace

import pytest

from muster.core.cycle import Scheduler
from muster.core.words.events import GangSubmitted, PodsBound
from muster.core.words.gang import Gang, Place
from muster.core.world.gangs import GangState, fill
from tests.core.preemption.test_preemption import ended, evicts
from tests.core.words import assigns, gang, node, pod, scheduler, shape

LOW = gang("low", count=4)


def bound(victim: Gang, *times: float | None) -> Scheduler:
    """Its pods are bound at these times, in order of place; a gang that ranks higher waits for their room."""
    made = scheduler([node("a", gpu=len(times))], victim)
    (assign,) = assigns(made.decide(0.0))
    for (place, name), at in zip(sorted(assign.nodes.items()), times, strict=True):
        requests = shape(gpu=1).requests
        made.apply(PodsBound({pod("low", place): place}, name, requests, victim.id, at=at))
    assert made.decide(0.0) == []
    made.apply(GangSubmitted(gang("high", count=len(times), priority=1)))
    return made


@pytest.mark.parametrize(
    ("times", "ends"),
    [
        ((0.0, 0.0, 0.0, 0.0), 60.0),
        ((5.0, 5.0, 5.0, 5.0), 65.0),
        ((5.0, 9.0, 20.0, 50.0), 65.0),
        ((50.0, 0.0, 9.0, 20.0), 60.0),
        ((None, 5.0, 9.0, None), 65.0),
    ],
)
def test_the_minimum_run_time_counts_from_the_first_pod(times: tuple[float, ...], ends: float) -> None:
    made = bound(replace(LOW, min_run_time=60.0), *times)
    assert ended(made.decide(50.0)) == []
    assert made.wake_at() == ends
    assert ended(made.decide(ends - 0.1)) == []
    assert ended(made.decide(ends)) == ["low"]


@pytest.mark.parametrize(
    ("times", "lost"),
    [
        ((0.0, 0.0, 0.0, 0.0), 400.0),
        ((0.0, 40.0, 90.0, 100.0), 100.0 + 60.0 + 10.0),
        ((None, 0.0, 50.0, None), 150.0),
        ((None, None, None, None), 0.0),
    ],
)
def test_the_work_of_each_pod_counts_from_its_own_bind(times: tuple[float, ...], lost: float) -> None:
    (evict,) = evicts(bound(LOW, *times).decide(100.0))
    assert evict.work_lost == lost


@pytest.mark.parametrize("times", [(0.0, 7.0), (7.0, 0.0), (None, 0.0), (0.0, None)])
def test_a_gang_is_bound_since_the_first_time_that_is_known(times: tuple[float | None, ...]) -> None:
    state = GangState(LOW.id)
    for index, at in enumerate(times):
        fill(state, {pod("low", Place("main", index)): Place("main", index)}, at)
    assert state.bound == 0.0
