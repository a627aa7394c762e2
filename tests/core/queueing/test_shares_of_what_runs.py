"""Shares are divided among what can run: capacity and usage count the same nodes."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.cycle import Scheduler
from muster.core.words.decisions import Evict
from muster.core.words.events import (
    Event,
    GangRemoved,
    GangSubmitted,
    LayersChanged,
    NodeRemoved,
    PodsEnded,
    QuotaChanged,
    QuotaRemoved,
)
from muster.core.words.gang import (
    Code,
    Gang,
    GangId,
    Gate,
    Gather,
    HostPort,
    Layer,
    NodeName,
    Operator,
    PodSet,
    PodTerm,
    Requirement,
    Shape,
    Spread,
    Strategy,
)
from muster.names import GPU_SHARE
from tests.core.queueing.test_closed_queues import entitled
from tests.core.queueing.test_queues import cluster, gpus, queue, started, submit
from tests.core.words import GPU, amounts, assigns, bind, gang, node, shape
from tests.tiers import examples

MUST = Strategy.MUST_GATHER

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


ROWS = (Layer("row", ("row",)),)
NEVER: dict[str, Gang] = {
    "a pod larger than any node": gang("never", of=shape(gpu=16)),
    "a gang larger than the cluster": gang("never", of=shape(gpu=1), count=17),
    "no node matches": gang("never", of=shape(gpu=1, selector={"no": "such"})),
    "in one row": replace(gang("never", of=shape(gpu=1), count=9), gather=(Gather("row", MUST),)),
    "no such layer": replace(gang("never", of=shape(gpu=1)), gather=(Gather("rack", MUST),)),
    "not a multiple": replace(gang("never", of=shape(gpu=1), count=5), gather=(Gather("row", None, 2),)),
    "two parts that fit only alone": gang(
        "never", PodSet("one", shape(gpu=8), 1, 1), PodSet("two", shape(gpu=3), 4, 4)
    ),
    "gated": gang("never", gate=Gate(Code.GATED, "held")),
}


@pytest.mark.parametrize("why", NEVER)
def test_what_can_never_run_lowers_no_share(why: str) -> None:
    muster = cluster(queue("a"), queue("b"), queue("c"), LayersChanged(ROWS), nodes=0)
    for i in range(2):
        muster.apply(node(f"n{i}", gpu=8, labels={"row": str(i)}))
    run(muster, *(submit(f"a{i}", "a", 1) for i in range(16)))
    muster.apply(GangSubmitted(replace(NEVER[why], queue="c")))
    muster.apply(submit("b1", "b", 8))
    assert entitled(muster) == {"a": 8, "b": 8, "c": 0, "default": 0}
    assert "b1" in started(muster)


def beside(key: str, app: str) -> tuple[PodTerm, ...]:
    return (PodTerm(key, (Requirement("app", Operator.IN, (app,)),), None),)


def spread(key: str, **fields: int) -> tuple[Spread, ...]:
    return (Spread(key, 1, (Requirement("app", Operator.IN, ("x",)),), **fields),)  # type: ignore[arg-type]


def pods(count: int, of: Shape, **fields: object) -> Gang:
    main = PodSet("main", of, count, count, (("app", "x"),))
    return replace(gang("never", replace(main, **fields)), namespace="ml", queue="c")  # type: ignore[arg-type]


def charged(count: int, quota: str, **amount: int) -> Gang:
    return pods(count, shape(gpu=1), uncreated=count, quotas=((quota, amounts(amount)),))


ONE = shape(gpu=1)
#: on two nodes of 8 GPUs, each in a row of its own, with at most 3 pods in the namespace
HOPELESS: dict[str, Gang] = {
    "more pods than a ResourceQuota ever has": charged(4, "few", pods=1),
    "a domain that a ResourceQuota never has": replace(
        charged(1, "gpus", **{"requests.nvidia.com/gpu": 1}), exclusive="row"
    ),
    "a domain above the queue's cap": replace(pods(1, ONE), exclusive="row", queue="small"),
    "beside a pod that is not there": pods(1, replace(ONE, pod_affinity=beside("host", "y"))),
    "beside each other on one node": pods(9, replace(ONE, pod_affinity=beside("host", "x"))),
    "beside each other, by a label that no node has": pods(2, replace(ONE, pod_affinity=beside("none", "x"))),
    "apart on more nodes than there are": pods(3, replace(ONE, pod_anti_affinity=beside("host", "x"))),
    "apart in more zones than there are": pods(2, replace(ONE, pod_anti_affinity=beside("zone", "x"))),
    "a host port on more nodes than there are": pods(3, replace(ONE, ports=(HostPort(80),))),
    "spread by a label that no node has": pods(2, replace(ONE, spread=(Spread("none", 1, ()),))),
    "spread over fewer rows than it must be": pods(3, replace(ONE, spread=spread("row", min_domains=3))),
    "one part beside a pod that is not there": gang(
        "never",
        PodSet("one", ONE, 2, 0),
        PodSet("two", replace(ONE, pod_affinity=beside("host", "y")), 2, 0),
        minimum=3,
    ),
}


@given(
    st.sampled_from([*HOPELESS, *NEVER]),
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9), st.booleans()), max_size=6),
)
@settings(max_examples=examples(200), deadline=None)
def test_a_gang_that_can_never_start_changes_no_entitlement(
    why: str, others: list[tuple[str, int, bool]]
) -> None:
    """`others`: queue, GPUs, and whether it comes before the first cycle."""
    never = HOPELESS[why] if why in HOPELESS else replace(NEVER[why], queue="c")
    muster, without = _two_rows(others), _two_rows(others)
    muster.apply(GangSubmitted(never))
    assert entitled(muster) == entitled(without)
    evicted, expected = (
        [each for each in made.decide(1.0) if isinstance(each, Evict)] for made in (muster, without)
    )
    assert (evicted, started(muster), entitled(muster)) == (expected, started(without), entitled(without))
    state = muster.world.gangs[never.id]
    assert not state.begun
    assert state.explanation is None or state.explanation.code is not Code.OVER_SHARE


def _two_rows(others: list[tuple[str, int, bool]]) -> Scheduler:
    muster = cluster(*map(queue, "abc"), queue("small", capability=gpus(4)), LayersChanged(ROWS), nodes=0)
    for i in range(2):
        labels = {"row": str(i), "host": str(i), "zone": "z"}
        muster.apply(node(f"n{i}", gpu=8, labels=labels))
    muster.apply(QuotaChanged("ml", "few", amounts({"pods": 3}), amounts({"pods": 3})))
    muster.apply(QuotaChanged("ml", "gpus", *[amounts({"requests.nvidia.com/gpu": 7})] * 2))
    run(muster, *(submit(f"g{i}", name, n) for i, (name, n, first) in enumerate(others) if first))
    for i, (name, n, first) in enumerate(others):
        if not first:
            muster.apply(submit(f"g{i}", name, n))
    return muster


def test_it_counts_once_its_quota_has_so_much_at_all_whoever_uses_it_now() -> None:
    muster = cluster(queue("a"), queue("c"))
    run(muster, submit("a1", "a", 16))
    muster.apply(QuotaChanged("ml", "few", amounts({"pods": 3}), amounts({"pods": 3})))
    muster.apply(GangSubmitted(charged(4, "few", pods=1)))
    assert entitled(muster) == {"a": 16, "c": 0, "default": 0}
    muster.apply(QuotaChanged("ml", "few", amounts({"pods": 1}), amounts({"pods": 4})))
    assert entitled(muster) == {"a": 12, "c": 4, "default": 0}
    muster.apply(QuotaRemoved("ml", "few"))
    assert entitled(muster) == {"a": 12, "c": 4, "default": 0}


def test_it_counts_while_the_pods_are_there_that_it_must_be_beside() -> None:
    muster = cluster(queue("a"), queue("c"), nodes=0)
    muster.apply(node("n0", gpu=8, labels={"host": "0"}))
    run(muster, submit("a1", "a", 8))
    muster.apply(GangSubmitted(pods(4, replace(ONE, pod_affinity=beside("host", "y")))))
    assert entitled(muster) == {"a": 8, "c": 0, "default": 0}
    server = PodSet("main", shape(cpu=1000), 1, 1, (("app", "y"),))
    run(muster, GangSubmitted(replace(gang("server", server), namespace="ml", queue="a")))
    assert entitled(muster) == {"a": 4, "c": 4, "default": 0}
    muster.apply(PodsEnded(tuple(muster.world.gangs[GangId("server")].pods), 1.0))
    muster.apply(GangRemoved(GangId("server")))
    assert entitled(muster) == {"a": 8, "c": 0, "default": 0}


def test_it_counts_while_pods_are_there_that_even_out_its_spread() -> None:
    """Row 1 has no GPUs, so three pods in row 0 need two pods of others in row 1."""
    muster = cluster(queue("a"), queue("c"), nodes=0)
    muster.apply(node("n0", gpu=8, labels={"row": "0"}))
    muster.apply(node("n1", gpu=0, labels={"row": "1"}))
    run(muster, submit("a1", "a", 8))
    muster.apply(GangSubmitted(pods(3, replace(ONE, spread=spread("row")))))
    assert entitled(muster) == {"a": 8, "c": 0, "default": 0}
    of = shape(cpu=1000, selector={"row": "1"})
    server = PodSet("main", of, 1, 1, (("app", "x"),))
    for i in range(2):
        assert entitled(muster) == {"a": 8, "c": 0, "default": 0}
        run(muster, GangSubmitted(replace(gang(f"s{i}", server), namespace="ml", queue="a")))
    assert entitled(muster) == {"a": 5, "c": 3, "default": 0}
    muster.apply(PodsEnded(tuple(muster.world.gangs[GangId("s0")].pods), 1.0))
    muster.apply(GangRemoved(GangId("s0")))
    assert entitled(muster) == {"a": 8, "c": 0, "default": 0}


def test_it_counts_if_another_of_its_parts_evens_out_its_spread() -> None:
    muster = cluster(queue("a"), queue("c"), nodes=0)
    muster.apply(node("n0", gpu=8, labels={"row": "0"}))
    muster.apply(node("n1", gpu=0, labels={"row": "1"}))
    run(muster, submit("a1", "a", 8))
    labels = (("app", "x"),)
    main = PodSet("main", replace(ONE, spread=spread("row")), 2, 2, labels)
    side = PodSet("side", shape(cpu=1000, selector={"row": "1"}), 1, 1, labels)
    muster.apply(GangSubmitted(replace(gang("both", main, side), namespace="ml", queue="c")))
    assert entitled(muster) == {"a": 6, "c": 2, "default": 0}


def test_it_counts_once_a_node_lets_its_spread_be_even() -> None:
    muster = cluster(queue("a"), queue("c"), nodes=0)
    muster.apply(node("n0", gpu=8, labels={"row": "0"}))
    muster.apply(node("n1", gpu=0, labels={"row": "1"}))
    run(muster, submit("a1", "a", 8))
    muster.apply(GangSubmitted(pods(3, replace(ONE, spread=spread("row")))))
    assert entitled(muster) == {"a": 8, "c": 0, "default": 0}
    muster.apply(node("n2", gpu=1, labels={"row": "1"}))
    assert entitled(muster) == {"a": 6, "c": 3, "default": 0}
    muster.apply(NodeRemoved(NodeName("n2")))
    assert entitled(muster) == {"a": 8, "c": 0, "default": 0}


def test_a_minimum_above_a_cap_lowers_no_share() -> None:
    muster = cluster(queue("a"), queue("c", capability=gpus(4)))
    run(muster, submit("a1", "a", 16))
    muster.apply(submit("never", "c", 8))
    assert entitled(muster)["a"] == 16
    muster.apply(queue("c", capability=gpus(8)))
    assert entitled(muster)["a"] == 8


def test_only_the_surplus_that_could_run_counts() -> None:
    muster = cluster(queue("a"), queue("b"))
    sets = PodSet("small", shape(gpu=1), 1, 1), PodSet("large", shape(gpu=9), 4, 0)
    run(muster, submit("a1", "a", 8), submit("a2", "a", 8))
    muster.apply(GangSubmitted(replace(gang("elastic", *sets, minimum=1), queue="b")))
    assert entitled(muster) == {"a": 15, "b": 1, "default": 0}


def test_it_counts_from_when_it_can_run_until_it_no_longer_can() -> None:
    muster = cluster(queue("a"), queue("b"))
    muster.apply(submit("a1", "a", 24))
    muster.apply(submit("b1", "b", 16))
    assert entitled(muster) == {"a": 0, "b": 16, "default": 0}
    muster.apply(node("n2"))
    assert entitled(muster) == {"a": 12, "b": 12, "default": 0}
    muster.apply(node("n2", cordoned=True))
    assert entitled(muster) == {"a": 0, "b": 16, "default": 0}
    muster.apply(GangRemoved(GangId("b1")))
    muster.apply(node("n2"))
    assert entitled(muster) == {"a": 24, "b": 0, "default": 0}


def test_the_queues_whose_waiting_gangs_lower_a_share_are_named() -> None:
    """Not one that waits in vain for more than any node has, nor one that only runs."""
    muster = cluster(*map(queue, "abcd"))
    run(muster, submit("d1", "d", 4))
    never = gang("never", PodSet("main", shape(gpu=16), 1, 1))
    muster.apply(GangSubmitted(replace(never, queue="c")))
    muster.apply(submit("a1", "a", 14))
    muster.apply(submit("b1", "b", 14))
    muster.decide(1.0)
    told = {name: muster.world.gangs[GangId(name)].explanation for name in ("a1", "b1")}
    assert {name: why and why.code for name, why in told.items()} == dict.fromkeys(told, Code.OVER_SHARE)
    assert [why.message.partition("; queue")[2] for why in told.values() if why is not None] == [
        " b waits for its share, too",
        " a waits for its share, too",
    ]
