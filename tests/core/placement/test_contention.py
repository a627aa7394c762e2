"""Pods that could run anywhere keep off the GPUs that others ask for by name."""

import pytest

from muster.core.cycle import Scheduler
from muster.core.placement.packing import PARTS, Contention, Pack
from muster.core.placement.slots import Slots
from muster.core.words.events import GangRemoved, GangSubmitted, PodsBound
from muster.core.words.gang import (
    Code,
    Effect,
    Gang,
    GangId,
    Gate,
    NodeName,
    Place,
    PodId,
    Shape,
    Taint,
    Toleration,
)
from muster.core.world.eligibility import Eligibility
from muster.core.world.gangs import GangState
from muster.core.world.nodes import Nodes
from tests.core.words import assigns, gang, node, shape, where

T4, G2 = {"gpu": "t4"}, {"gpu": "g2"}
DEDICATED = Taint("dedicated", "", Effect.NO_SCHEDULE)
TOLERATES = (Toleration("dedicated", None, None),)


# A demand of 8,000 thousandths is rounded down to 7,168: 7/16 of two nodes of 8 GPUs.


def contention_of(*gangs: Gang, taints: tuple[Taint, ...] = ()) -> tuple[Contention, Nodes]:
    """Of two nodes with T4s, one with G2s (tainted, if so) and one without GPUs, 8 GPUs each."""
    nodes = Nodes()
    for name, gpu, labels in (("a", 8, T4), ("b", 8, T4), ("c", 8, G2), ("d", 0, G2)):
        nodes.change(node(name, gpu=gpu, labels=labels, taints=taints if name == "c" else ()))
    nodes.settle()
    contention = Contention(nodes, Eligibility(nodes))
    for one in gangs:
        contention.gangs_changed([GangState(one.id, one)])
    contention.settle()
    return contention, nodes


def asking(count: int, of: Shape, gate: Gate | None = None) -> Gang:
    return gang(f"ns/{count}", count=count, of=of, gate=gate)


ANYWHERE, NAMED = asking(4, shape(gpu=1)), asking(8, shape(gpu=1, selector=T4))


@pytest.mark.parametrize(
    ("gangs", "parts"),
    [
        ([], None),
        ([ANYWHERE], None),
        ([NAMED], None),
        ([ANYWHERE, asking(16, shape(cpu=1, selector=T4))], None),
        ([ANYWHERE, asking(8, shape(gpu=1, selector=T4), Gate(Code.GATED, "suspended"))], None),
        ([ANYWHERE, NAMED], [7, 7, 0, 0]),
        ([NAMED, ANYWHERE], [7, 7, 0, 0]),
        ([ANYWHERE, asking(16, shape(share=500, selector=T4))], [7, 7, 0, 0]),
        ([ANYWHERE, asking(1000, shape(gpu=8, selector=T4))], [PARTS, PARTS, 0, 0]),
        ([NAMED, asking(4, shape(gpu=1, selector=G2))], None),
        ([NAMED, asking(6, shape(gpu=1, selector=G2))], [0, 0, 3, 0]),
        ([ANYWHERE, asking(8, shape(gpu=1, selector={"gpu": "none"}))], None),
    ],
)
def test_parts_of_gpus_asked_for_by_name(gangs: list[Gang], parts: list[int] | None) -> None:
    found, _ = contention_of(*gangs)
    assert (None if found.parts is None else found.parts.tolist()) == parts


def test_pods_that_tolerate_a_taint_leave_the_other_nodes_to_those_that_do_not() -> None:
    tolerant = asking(4, shape(gpu=1, tolerations=TOLERATES))
    found, _ = contention_of(asking(8, shape(gpu=1)), tolerant, taints=(DEDICATED,))
    assert found.parts is not None
    assert found.parts.tolist() == [7, 7, 0, 0]


def test_nodes_change_only_when_their_part_does() -> None:
    contention, nodes = contention_of(ANYWHERE, NAMED)
    before = nodes.changes.end
    contention.settle()
    few = asking(1, shape(share=1, selector=T4))
    contention.gangs_changed([GangState(few.id, few)])
    contention.settle()
    assert nodes.changes.end == before
    contention.gangs_changed([GangState(few.id), GangState(NAMED.id)])
    contention.settle()
    assert contention.parts is None
    [changed] = nodes.changes.since(before) or []
    assert not isinstance(changed, int)
    assert changed.tolist() == [0, 1]


def test_of_very_many_constraints_those_that_ask_for_most_count() -> None:
    pins = [asking(1, shape(gpu=1, selector={"host": str(i)})) for i in range(100)]
    found, _ = contention_of(*pins, ANYWHERE, NAMED)
    assert found.parts is not None
    assert found.parts.tolist() == [7, 7, 0, 0]


@pytest.mark.parametrize("of", [shape(gpu=1), shape(share=500), shape(gpu=1, cpu=20_000)])
def test_pods_keep_off_what_others_name_as_long_as_these_are_there(of: Shape) -> None:
    """On node a, half full of pods that name its GPUs, the pod would fit more tightly."""
    muster = Scheduler()
    muster.apply(node("a", labels=T4))
    muster.apply(node("b", labels=G2))
    named = GangSubmitted(gang("ns/named", count=4, of=shape(gpu=1, selector=T4)))
    muster.apply(named)
    pods: dict[PodId, Place | None] = {PodId(f"ns/{i}"): Place("main", i) for i in range(4)}
    muster.apply(PodsBound(pods, NodeName("a"), named.gang.pod_sets[0].shape.requests, GangId("ns/named")))
    muster.apply(GangSubmitted(gang("ns/free", of=of)))
    [assign] = assigns(muster.decide(0.0))
    assert where(assign) == ["b"]
    muster.apply(GangRemoved(GangId("ns/free")))
    muster.apply(GangRemoved(GangId("ns/named")))
    muster.apply(GangSubmitted(gang("ns/later", of=of)))
    [assign] = assigns(muster.decide(1.0))
    assert where(assign) == ["a"]


def test_where_all_pods_may_use_the_same_nodes_keys_are_as_without_gangs() -> None:
    muster = Scheduler()
    for name, gpu, labels in (("a", 4, T4), ("b", 8, T4), ("c", 8, G2)):
        muster.apply(node(name, gpu=gpu, labels=labels))
    shapes = [shape(gpu=g, cpu=c, selector=T4) for g in (1, 3) for c in (0, 20_000)]
    for i, of in enumerate([*shapes, shape(share=300, selector=T4)]):
        muster.apply(GangSubmitted(gang(f"ns/{i}", of=of)))
        muster.decide(float(i))
    eligibility = Eligibility(muster.world.nodes)
    fresh = Slots(Pack(muster.world.nodes, eligibility))
    for of in shapes:
        assert muster.fit.slots.of(of).key.tolist() == fresh.of(of).key.tolist()
