"""A search for victims that failed is made again when what it rests on changes."""

from dataclasses import replace

import pytest

from muster.core.cycle import Config, Scheduler
from muster.core.words.events import Event, Footprint, GangSubmitted, LayersChanged, NodeChanged, PodsBound
from muster.core.words.gang import Gang, GangId, Gather, Layer, NodeName, Place, PodId, PodSet, Strategy
from tests.core.preemption.test_preemption import ended, running
from tests.core.words import GPU, amounts, assigns, bind, gang, node, places, shape

SMALL, LARGE = gang("small", count=2), gang("large", count=6, priority=5)
WANTS = gang("wants", count=8, priority=1)


def full(explain: bool, *gangs: Gang) -> Scheduler:
    made = Scheduler(Config(explain=explain))
    made.apply(node("n"))
    running(made, *gangs)
    return made


@pytest.mark.parametrize("explain", [False, True])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (LARGE, replace(LARGE, priority=0)),
        (replace(LARGE, priority=0, preemptible=False), replace(LARGE, priority=0)),
        (replace(LARGE, priority=0, min_run_time=1e6), replace(LARGE, priority=0)),
    ],
    ids=["priority", "preemptible", "minimum run time"],
)
def test_a_running_gang_may_be_ended_now(explain: bool, before: Gang, after: Gang) -> None:
    made = full(explain, SMALL, before)
    made.apply(GangSubmitted(WANTS))
    assert ended(made.decide(10.0)) == []
    made.apply(GangSubmitted(after))
    assert ended(made.decide(11.0)) == ["large", "small"]


@pytest.mark.parametrize("explain", [False, True])
def test_a_gang_that_was_being_started_stands(explain: bool) -> None:
    made = full(explain, SMALL)
    made.apply(GangSubmitted(gang("large", count=6)))
    (assign,) = assigns(made.decide(2.0))
    made.apply(GangSubmitted(WANTS))
    assert ended(made.decide(3.0)) == []
    bind(made, assign, places(0, 1, 2))
    assert ended(made.decide(4.0)) == []
    bind(made, assign, places(3, 4, 5))
    assert ended(made.decide(5.0)) == ["large", "small"]


def test_a_gang_that_stops_at_fewer_places_stands() -> None:
    pods = PodSet("main", shape(gpu=1), 7, 7)
    made = full(True, SMALL)
    made.apply(GangSubmitted(gang("large", pods, minimum=7)))
    for index in range(6):
        bound = {PodId(f"large-{index}"): Place("main", index)}
        made.apply(PodsBound(bound, NodeName("n"), amounts({GPU: 1}), GangId("large"), at=1.0))
    made.apply(GangSubmitted(WANTS))
    assert ended(made.decide(3.0)) == []
    made.apply(GangSubmitted(gang("large", pods, minimum=6)))
    made.apply(GangSubmitted(gang("large", replace(pods, min_count=6), minimum=6)))
    assert ended(made.decide(4.0)) == ["large", "small"]


LABELS = {"rack": "r", "other": "o"}


@pytest.mark.parametrize(
    ("before", "change"),
    [
        (LayersChanged((Layer("rack", ("elsewhere",)),)), LayersChanged((Layer("rack", ("rack",)),))),
        (LayersChanged((Layer("rack", ("rack",)),)), node("n", labels=LABELS)),
    ],
    ids=["layers", "labels"],
)
def test_the_topology_changes(before: Event, change: NodeChanged | LayersChanged) -> None:
    made = full(True, gang("low", count=8))
    made.apply(before)
    made.apply(node("n", labels=LABELS if isinstance(change, LayersChanged) else {}))
    gather = (Gather("rack", Strategy.MUST_GATHER),)
    made.apply(GangSubmitted(replace(WANTS, gather=gather)))
    assert ended(made.decide(10.0)) == []
    made.apply(change)
    assert ended(made.decide(11.0)) == ["low"]


def test_nothing_is_looked_for_again_while_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    made = full(True, SMALL, LARGE)
    made.apply(GangSubmitted(WANTS))
    made.decide(10.0)
    monkeypatch.setattr(made.preemption, "victims", lambda *_: pytest.fail("a second search"))
    made.apply(GangSubmitted(gang("other", count=20)))
    made.decide(11.0)
    made.apply(
        PodsBound(
            {PodId("small:main/0"): Place("main", 0)},
            NodeName("n"),
            amounts({GPU: 1}),
            GangId("small"),
            Footprint(labels=()),
            at=1.0,
        )
    )
    made.decide(12.0)
