"""A gang that can no longer fit is no head of its queue, and blocks no gang behind it."""

from dataclasses import replace

import pytest

from muster.core.cycle import Config, Scheduler
from muster.core.words.events import GangSubmitted, QueueChanged
from muster.core.words.gang import GangId, Queue
from tests.core.words import GPU, gang, node, started


@pytest.mark.parametrize("explain", [False, True])
@pytest.mark.parametrize("parents", [{}, {"x": "p"}, {"x": "p", "y": "q"}, {"x": "p", "y": "p", "z": "p"}])
def test_a_gang_behind_one_that_can_no_longer_fit_starts(explain: bool, parents: dict[str, str]) -> None:
    made = Scheduler(Config(explain=explain))
    made.apply(node("n", gpu=12))
    for name in set(parents.values()):
        made.apply(QueueChanged(Queue(name, deserved=((GPU, 1),))))
    for name in "xyz":
        made.apply(QueueChanged(Queue(name, parents.get(name, "root"), deserved=((GPU, 1),))))
    for queue, name, count, priority in [
        ("x", "huge", 11, 5),
        ("x", "behind", 3, 0),
        ("y", "other", 9, 0),
        ("z", "first", 2, 0),
    ]:
        made.apply(GangSubmitted(replace(gang(name, count=count, priority=priority), queue=queue)))
    assert started(made.decide(0.0)) == ["first", "behind"]
    assert made.gangs[GangId("huge")].demand is not None
