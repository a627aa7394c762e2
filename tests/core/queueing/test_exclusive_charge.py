"""A gang that has a domain to itself is charged with all of it."""

from dataclasses import replace
from typing import Any

import pytest

from muster.core.cycle import Scheduler
from muster.core.words.decisions import Assign, Evict
from muster.core.words.events import (
    Event,
    GangRemoved,
    GangSubmitted,
    LayersChanged,
    PlanFound,
    PodsBound,
    QueueChanged,
    QuotaChanged,
)
from muster.core.words.gang import Code, Gang, GangId, Layer, NodeName, Place, PodId, PodSet, Queue
from muster.names import GPU, GPU_SHARE
from tests.core.queueing.test_queues import queue
from tests.core.words import amounts, gang, node, shape

RACKS: list[Event] = [
    LayersChanged((Layer("Rack", ("rack",)),)),
    *[node(f"n{i}", labels={"rack": f"r{i // 2}"}) for i in range(4)],
]


def cluster(*queues: Event) -> Scheduler:
    made = Scheduler()
    for event in (*RACKS, *queues):
        made.apply(event)
    return made


def alone(name: str, queue: str = "default", **fields: Any) -> Gang:  # Any: fields of a gang
    return replace(gang(name, count=1), exclusive="Rack", queue=queue, **fields)


def started(made: Scheduler, now: float) -> list[str]:
    return [str(each.gang) for each in made.decide(now) if isinstance(each, Assign)]


def gpus(made: Scheduler, name: str) -> int:
    account = made.world.queues.find(name)
    assert account is not None
    return account.used[GPU_SHARE] // 1000


def reason(made: Scheduler, name: str) -> tuple[Code, str]:
    found = made.world.gangs[GangId(name)].explanation
    assert found is not None
    return found.code, found.message


def test_its_queue_uses_the_whole_domain_while_it_is_held() -> None:
    made = cluster(queue("a"), queue("b"))
    made.apply(GangSubmitted(alone("it", "a")))
    assert started(made, 0.0) == ["it"]
    assert (gpus(made, "a"), gpus(made, "b")) == (16, 0)
    made.apply(node("n1", gpu=4, labels={"rack": "r0"}))
    made.decide(1.0)
    assert gpus(made, "a") in (12, 16)  # it may be in the other rack
    made.apply(GangRemoved(GangId("it")))
    made.decide(1000.0)
    assert gpus(made, "a") == 0
    assert made.world.exclusive_domains.surcharges == {}


@pytest.mark.parametrize(("cap", "starts"), [(16, True), (15, False)])
def test_a_cap_refuses_the_domain_before_it_is_taken(cap: int, starts: bool) -> None:
    made = cluster(queue("a", capability=amounts({GPU: cap})), queue("b"))
    made.apply(GangSubmitted(alone("it", "a")))
    assert started(made, 0.0) == ["it"] * starts
    if not starts:
        code, message = reason(made, "it")
        assert code is Code.QUOTA_EXCEEDED
        assert message == "queue a uses 0 of its 15 GPUs; 16 more would be 16"


def test_a_second_domain_is_beyond_the_share() -> None:
    """Both queues want everything: A is entitled to one rack, and does not get the other."""
    made = cluster(queue("a"), queue("b"))
    for i in range(2):
        made.apply(GangSubmitted(alone(f"a{i}", "a")))
    made.apply(GangSubmitted(replace(gang("b0", count=16), queue="b")))
    assert sorted(started(made, 0.0)) == ["a0", "b0"]
    assert gpus(made, "a") == 16


def test_what_a_domain_borrows_is_reclaimed() -> None:
    made = cluster(queue("a"), queue("b"))
    for i in range(2):
        made.apply(GangSubmitted(alone(f"a{i}", "a", preemptible=False)))
    for each in [each for each in made.decide(0.0) if isinstance(each, Assign)]:
        ((place, there),) = each.nodes.items()
        bound = PodsBound({PodId(f"{each.gang}-0"): place}, there, amounts({GPU: 1}), each.gang, at=0.0)
        made.apply(bound)
    assert gpus(made, "a") == 32
    made.apply(GangSubmitted(replace(gang("b0", count=16), queue="b")))
    decisions = made.decide(1.0)
    assert [len(each.victims) for each in decisions if isinstance(each, Evict)] == [1]


@pytest.mark.parametrize(("room", "starts"), [(16, True), (15, False)])
def test_quotas_of_its_namespace_are_charged(room: int, starts: bool) -> None:
    key = f"requests.{GPU}"
    pods = PodSet("main", shape(gpu=1), 1, 1, uncreated=0, quotas=(("q", ((key, 1),)),))
    made = cluster()
    made.apply(QuotaChanged("ns", "q", ((key, room),)))
    made.apply(GangSubmitted(alone("it", namespace="ns", pod_sets=(pods,))))
    assert started(made, 0.0) == ["it"] * starts
    if not starts:
        assert "is charged as a whole: 16 more" in reason(made, "it")[1]
        return
    made.apply(QuotaChanged("ns", "q", ((key, room + 4),)))
    later = replace(pods, count=6, min_count=6, uncreated=6)
    made.apply(GangSubmitted(replace(gang("more", later), namespace="ns")))
    assert started(made, 1.0) == []  # 4 are left beside the domain


def test_a_queue_may_name_the_highest_layer() -> None:
    made = cluster(queue("a", max_exclusive_layer="NodeTopologyLayer"))
    made.apply(GangSubmitted(alone("it", "a")))
    made.apply(GangSubmitted(replace(alone("small", "a"), exclusive="NodeTopologyLayer")))
    assert started(made, 0.0) == ["small"]
    assert reason(made, "it") == (
        Code.INVALID,
        "queue a allows no Rack to be exclusive; write NodeTopologyLayer",
    )
    assert gpus(made, "a") == 8


def uneven(cap: int) -> Scheduler:
    """A rack of 16 GPUs, which has more room, and one of 8."""
    made = Scheduler()
    made.apply(LayersChanged((Layer("Rack", ("rack",)),)))
    for name, gpus, rack in (("n0", 8, "r0"), ("n1", 8, "r0"), ("n2", 4, "r1"), ("n3", 4, "r1")):
        made.apply(node(name, gpu=gpus, labels={"rack": rack}))
    made.apply(queue("a", capability=amounts({GPU: cap})))
    return made


@pytest.mark.parametrize(
    ("count", "minimum", "cap", "charged"),
    [
        (4, 4, 8, 8),
        (8, 8, 8, 8),
        (12, 12, 16, 16),
        (12, 12, 15, 0),
        (12, 6, 8, 8),  # only its minimum fits in what its queue may be charged with
        (12, 6, 7, 0),
        (20, 20, 16, 0),
    ],
)
def test_a_gang_has_cheaper_domains_rather_than_none(
    count: int, minimum: int, cap: int, charged: int
) -> None:
    made = uneven(cap)
    made.apply(GangSubmitted(replace(alone("it", "a"), **vars_of(gang("it", count=count, minimum=minimum)))))
    assert started(made, 0.0) == ["it"] * bool(charged)
    assert gpus(made, "a") == charged
    if not charged:
        assert reason(made, "it")[0] is Code.QUOTA_EXCEEDED


def vars_of(one: Gang) -> dict[str, Any]:
    return {"pod_sets": one.pod_sets, "min_count": one.min_count}


@pytest.mark.parametrize("rule", ["share", "cap"])
def test_a_domain_that_an_open_plan_promises_was_allowed_then(rule: str) -> None:
    """Another leader takes over: what the rules say since then takes nothing away."""
    cap = amounts({GPU: 4}) if rule == "cap" else ()
    made = cluster(queue("a", capability=cap), queue("b"))
    made.apply(GangSubmitted(alone("it", "a")))
    made.apply(PlanFound(GangId("it"), {Place("main", 0): NodeName("n1")}))
    if rule == "share":  # of one GPU of 32
        made.apply(QueueChanged(Queue("b", weight=31)))
        made.apply(GangSubmitted(replace(gang("b0", count=16, submitted=-1.0), queue="b")))
        made.apply(GangSubmitted(replace(gang("b1", count=16, submitted=-1.0), queue="b")))
    (assign, *_) = [each for each in made.decide(0.0) if isinstance(each, Assign)]
    assert (assign.gang, assign.nodes) == ("it", {Place("main", 0): "n1"})
