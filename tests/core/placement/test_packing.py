"""Orders of nodes: the same gangs, packed or spread."""

import pytest

from muster.core.cycle import Config, Scheduler
from muster.core.placement.packing import Pack, Spread
from muster.core.placement.slots import Order, Slots
from muster.core.words.events import Footprint, GangSubmitted, PodsBound
from muster.core.words.gang import NodeName, PodId, Shape
from muster.core.world.eligibility import Eligibility
from muster.core.world.ledger import Ledger
from muster.core.world.nodes import Nodes
from tests.core.words import amounts, assigns, gang, node, shape, where


def placed(order: type[Order], count: int, of: Shape) -> list[str]:
    muster = Scheduler(Config(order=order))
    for name, gpu in (("a", 8), ("b", 4), ("c", 8)):
        muster.apply(node(name, gpu=gpu))
    muster.apply(GangSubmitted(gang("first", count=3, of=shape(gpu=1))))
    muster.apply(GangSubmitted(gang("second", count=count, of=of)))
    return where(assigns(muster.decide(0.0))[1])


@pytest.mark.parametrize(
    ("order", "count", "of", "nodes"),
    [
        (Pack, 4, shape(gpu=1), ["a", "a", "a", "b"]),
        (Spread, 4, shape(gpu=1), ["a", "a", "b", "c"]),
        (Pack, 2, shape(share=500), ["b", "b"]),
        (Spread, 3, shape(share=500), ["a", "a", "c"]),
    ],
)
def test_packed_or_spread(order: type[Order], count: int, of: Shape, nodes: list[str]) -> None:
    assert placed(order, count, of) == nodes


@pytest.mark.parametrize("changes", [1, 5, 25])
def test_a_spread_order_follows_changes(changes: int) -> None:
    nodes = Nodes()
    for i in range(30):
        nodes.change(node(f"n{i:02}", gpu=8))
    nodes.settle()
    ledger, eligibility = Ledger(nodes), Eligibility(nodes)
    slots = Slots(Spread(nodes, eligibility))
    of = shape(gpu=1)
    assert set(slots.of(of).key.tolist()) == {0}
    for i in range(changes):
        ledger.take(NodeName(f"n{i:02}"), amounts({"nvidia.com/gpu": 1 + i % 8}))
    fresh = Slots(Spread(nodes, eligibility))
    assert slots.of(of).key.tolist() == fresh.of(of).key.tolist()
    assert slots.of(of).key.tolist()[0] == 1250


def muster_of(*nodes: tuple[str, int, int]) -> Scheduler:
    """Nodes by name, GPUs and CPUs."""
    muster = Scheduler()
    for name, gpu, cpu in nodes:
        muster.apply(node(name, gpu=gpu, cpu=1000 * cpu))
    return muster


def goes_to(muster: Scheduler, of: Shape) -> str:
    muster.apply(GangSubmitted(gang("ns/pod", of=of)))
    [assign] = assigns(muster.decide(0.0))
    return where(assign)[0]


def test_gpus_are_not_left_without_cpu() -> None:
    """On the tighter node the pod would leave three GPUs with two CPUs."""
    nodes = (("a", 4, 32), ("b", 8, 64))
    modest, greedy = shape(gpu=1, cpu=6_000), shape(gpu=1, cpu=30_000)
    assert goes_to(muster_of(*nodes), modest) == "a"
    assert goes_to(muster_of(*nodes), greedy) == "b"
    assert goes_to(muster_of(*nodes), shape(cpu=30_000)) == "b"
    assert goes_to(muster_of(*nodes), shape(share=500, cpu=30_000)) == "b"


def test_a_share_goes_where_it_fits_best() -> None:
    muster = muster_of(("a", 4, 64), ("b", 4, 64))
    for name, share, device in (("a", 300, 0), ("b", 500, 0), ("b", 400, 1)):
        of = shape(share=share)
        pod = PodId(f"{name}/{device}")
        muster.apply(PodsBound({pod: None}, NodeName(name), of.requests, footprint=Footprint(device=device)))
    muster.apply(GangSubmitted(gang("ns/pod", of=shape(share=500))))
    [assign] = assigns(muster.decide(0.0))
    assert (where(assign), [*assign.devices.values()]) == (["b"], [0])


def test_modest_pods_cost_no_look_at_what_is_stranded() -> None:
    muster = muster_of(("a", 8, 64))
    muster.decide(0.0)
    assert not muster.fit.slots.of(shape(gpu=1, cpu=6_400)).may_strand
    assert muster.fit.slots.of(shape(gpu=1, cpu=6_401)).may_strand
    assert muster.fit.slots.of(shape(cpu=1)).may_strand
    assert not muster.fit.slots.of(shape(gpu=1)).may_strand


def test_one_node_with_little_cpu_makes_all_keys_new() -> None:
    muster = muster_of(("a", 8, 64), ("b", 8, 64), ("c", 8, 64))
    muster.decide(0.0)
    of = shape(gpu=1, cpu=6_000)
    assert not muster.fit.slots.of(of).may_strand
    muster.apply(node("c", gpu=8, cpu=8_000))
    fresh = Slots(Pack(muster.world.nodes, Eligibility(muster.world.nodes)))
    assert muster.fit.slots.of(of).may_strand
    assert muster.fit.slots.of(of).key.tolist() == fresh.of(of).key.tolist()
