"""Shares are divided among what can run: capacity and usage count the same nodes."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.core.cycle import Scheduler
from muster.core.words.decisions import Evict
from muster.core.words.events import Event, GangRemoved, GangSubmitted, NodeRemoved, PodsEnded
from muster.core.words.gang import GangId, NodeName
from muster.names import GPU_SHARE
from tests.core.queueing.test_closed_queues import entitled
from tests.core.queueing.test_queues import cluster, gpus, queue, started, submit
from tests.core.words import GPU, assigns, bind, node

AWAY: dict[str, Callable[[str], Event]] = {
    "cordoned": lambda name: node(name, cordoned=True),
    "not ready": lambda name: node(name, ready=False),
    "deleted": lambda name: NodeRemoved(NodeName(name)),
}


def run(muster: Scheduler, *submitted: GangSubmitted) -> None:
    for event in submitted:
        muster.apply(event)
    for assign in assigns(muster.decide(0.0)):
        bind(muster, assign)


@pytest.mark.parametrize("away", AWAY)
def test_what_runs_on_a_node_that_takes_no_pods_counts_on_both_sides(away: str) -> None:
    muster = cluster(queue("a"), queue("b"))
    run(muster, submit("a1", "a", 8))
    run(muster, submit("a2", "a", 8))
    (name,) = muster.world.gangs[GangId("a1")].nodes
    muster.apply(AWAY[away](name))
    muster.apply(submit("b1", "b", 8))
    assert entitled(muster) == {"a": 8, "b": 8, "default": 0}
    assert started(muster) == {"b1": 8}, "the gang on the other node is reclaimed"


@given(st.integers(0, 8), st.sampled_from(sorted(AWAY)), st.integers(0, 7))
def test_root_is_what_ready_nodes_have_and_others_use(used: int, away: str, share: int) -> None:
    muster = cluster(queue("a"), queue("b"), nodes=1)
    if used:
        run(muster, submit("a1", "a", used))
    muster.apply(node("n1", gpu=share))
    muster.apply(AWAY[away]("n0"))
    muster.settle()
    assert muster.world.queues.root.entitled[GPU_SHARE] == 1000 * (used + share)


@pytest.mark.parametrize(("deserve", "expected"), [((4, 4), (8, 8)), ((6, 2), (12, 4)), ((0, 0), (8, 8))])
def test_what_a_parent_has_borrowed_is_divided_as_its_children_deserve(
    deserve: tuple[int, int], expected: tuple[int, int]
) -> None:
    one, other = (gpus(amount) or ((GPU, 0),) for amount in deserve)
    muster = cluster(
        queue("shared", deserved=((GPU, 0),)),
        queue("crit", deserved=gpus(16)),
        queue("alice", parent="shared", deserved=one),
        queue("bob", parent="shared", deserved=other),
    )
    for name in range(16):
        run(muster, submit(f"alice{name}", "alice", 1))
    for name in range(16):
        muster.apply(submit(f"bob{name}", "bob", 1))
    found = entitled(muster)
    assert (found["alice"], found["bob"]) == expected
    for _ in range(10):
        decisions = muster.decide(1.0)
        for evict in (each for each in decisions if isinstance(each, Evict)):
            for victim in evict.victims:
                state = muster.world.gangs[victim.gang]
                muster.apply(PodsEnded(tuple(state.pods), 1.0))
                muster.apply(GangRemoved(victim.gang))
        for assign in assigns(decisions):
            bind(muster, assign)
    used = {name: account.used[GPU_SHARE] // 1000 for name, account in muster.world.queues.accounts.items()}
    assert (used["alice"], used["bob"]) == expected
