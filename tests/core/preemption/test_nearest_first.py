"""Which queues give way first: those over their share, the nearest in the tree; a gang's own queue last."""

from muster.core.cycle import Scheduler
from muster.core.words.decisions import Evict
from muster.core.words.events import GangSubmitted
from tests.core.queueing.test_queues import cluster, queue, submit
from tests.core.words import assigns, bind


def victims(muster: Scheduler) -> list[str]:
    return [victim.gang for each in muster.decide(9.0) if isinstance(each, Evict) for victim in each.victims]


def run(muster: Scheduler, *gangs: GangSubmitted) -> None:
    for each in gangs:
        muster.apply(each)
        for assign in assigns(muster.decide(0.0)):
            bind(muster, assign)


def test_a_team_below_its_share_keeps_its_own_gangs_while_others_are_over_theirs() -> None:
    muster = cluster(queue("a"), queue("b"), nodes=2)
    run(muster, submit("low", "a", 4), submit("old", "b", 4), submit("new", "b", 8, priority=9))
    muster.apply(submit("high", "a", 4, priority=5))
    assert victims(muster) == ["old"]


def test_its_own_gangs_are_taken_if_no_other_queue_is_over_its_share() -> None:
    muster = cluster(queue("a"), queue("b"), nodes=2)
    run(muster, submit("low", "a", 8), submit("fair", "b", 8))
    muster.apply(submit("high", "a", 4, priority=5))
    assert victims(muster) == ["low"]


def test_siblings_give_way_before_queues_that_are_farther_away() -> None:
    muster = cluster(
        queue("p"), queue("a", parent="p"), queue("b", parent="p"), queue("far"), queue("idle"), nodes=3
    )
    run(muster, submit("sibling", "b", 8, priority=9), submit("more", "b", 4, priority=9))
    run(muster, submit("farther", "far", 12))
    muster.apply(submit("mine", "a", 4))
    assert victims(muster) == ["more"]
