"""Orders of nodes: the same gangs, packed or spread."""

import pytest

from muster.core.eligibility import Eligibility
from muster.core.events import GangSubmitted
from muster.core.gang import NodeName, Shape
from muster.core.ledger import Ledger
from muster.core.nodes import Nodes
from muster.core.packing import Order, Pack, Spread
from muster.core.scheduler import Config, Scheduler
from muster.core.slots import Slots
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
    slots = Slots(nodes, eligibility, Spread(nodes, eligibility))
    of = shape(gpu=1)
    assert set(slots.of(of).key.tolist()) == {0}
    for i in range(changes):
        ledger.take(NodeName(f"n{i:02}"), amounts({"nvidia.com/gpu": 1 + i % 8}))
    fresh = Slots(nodes, eligibility, Spread(nodes, eligibility))
    assert slots.of(of).key.tolist() == fresh.of(of).key.tolist()
    assert slots.of(of).key.tolist()[0] == 1250
