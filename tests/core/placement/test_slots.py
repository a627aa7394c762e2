"""Cached slots follow the log of changes, whichever way they catch up."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.cycle import Config, Scheduler
from muster.core.placement.packing import Pack
from muster.core.placement.slots import NO_SLOT, Slots, scarcest
from muster.core.words.events import GangSubmitted, NodeChanged
from muster.core.words.gang import NodeName, PodSet
from muster.core.world.eligibility import Eligibility
from muster.core.world.ledger import Ledger
from muster.core.world.nodes import LARGEST, UNLIMITED, Nodes
from tests.core.words import GPU, amounts, assigns, gang, node, scheduler, shape
from tests.tiers import examples

SHAPES = [
    shape(),
    shape(gpu=1),
    shape(gpu=3, cpu=1000),
    shape(cpu=700),
    shape(memory=100),
    shape(memory=3 * 10**9),
    shape(memory=10**9, gpu=1),
    shape(cpu=1000, memory=2**47),
    shape(share=300),
    shape(share=1000, cpu=500),
]


def made(count: int) -> tuple[Nodes, Ledger, Slots]:
    nodes = Nodes()
    for i in range(count):
        nodes.change(node(f"n{i:02}", gpu=i % 9, cpu=1000 * (i % 5), memory=10**9 * i + 99))
    nodes.settle()
    return nodes, Ledger(nodes), Slots(Pack(nodes, Eligibility(nodes)))


#: (column, GPUs, CPUs, share) charged between two readings: few, many and more than there are nodes
changes = st.lists(
    st.tuples(st.integers(0, 39), st.integers(0, 3), st.integers(0, 2), st.sampled_from([0, 200, 700])),
    max_size=60,
)


@given(st.lists(changes, max_size=3), st.lists(st.tuples(st.integers(0, 39), st.integers(0, 8)), max_size=3))
@settings(max_examples=examples(60), deadline=None)
def test_a_cached_vector_equals_a_fresh_one(
    rounds: list[list[tuple[int, int, int, int]]], resized: list[tuple[int, int]]
) -> None:
    nodes, ledger, slots = made(40)
    for i, charges in enumerate([*rounds, []]):
        for column, gpu, cpu, share in charges:
            ledger.take(nodes.names[column], shape(gpu=gpu, cpu=1000 * cpu, share=share).requests)
        for column, gpu in resized[i : i + 1]:
            nodes.change(node(nodes.names[column], gpu=gpu, ready=gpu > 2))
        fresh = Slots(Pack(nodes, Eligibility(nodes)))
        for of in SHAPES:
            cached, computed = slots.of(of), fresh.of(of)
            assert cached.slots.tolist() == computed.slots.tolist()
            assert cached.key.tolist() == computed.key.tolist()
            assert cached.total == computed.total == sum(computed.slots.tolist())


@given(st.integers(2**31, LARGEST), st.one_of(st.integers(1, 2**20), st.integers(2**20, LARGEST)))
@settings(max_examples=examples(60), deadline=None)
def test_bytes_are_counted_exactly(capacity: int, request: int) -> None:
    nodes = Nodes()
    for name, memory in (("a", capacity), ("b", 2**20), ("c", 0)):
        nodes.change(node(name, memory=memory, pods=None))
    nodes.settle()
    slots = Slots(Pack(nodes, Eligibility(nodes)))
    vector = slots.of(shape(memory=request))
    assert vector.slots.tolist() == [min(n // request, UNLIMITED) for n in (capacity, 2**20, 0)]
    assert vector.total == sum(vector.slots.tolist())
    if pods := min(vector.slots.item(0), 5):
        Ledger(nodes).take_at(0, nodes.row_amounts((("memory", request),)), pods)
        assert nodes.free_at(nodes.row("memory"), 0) == capacity - pods * request


def test_three_pods_of_1_g_fill_a_node_of_3_g() -> None:
    made = scheduler([node("n", memory=3 * 10**9)], gang("x", count=3, of=shape(memory=10**9)))
    assert len(assigns(made.decide(0.0))) == 1
    made = scheduler([node("n", memory=3 * 10**9 - 1)], gang("x", count=3, of=shape(memory=10**9)))
    assert assigns(made.decide(0.0)) == []


def test_sums_and_products_of_the_largest_amounts_do_not_overflow() -> None:
    """100,000 of the largest nodes, and gangs that ask for all of them, or for a byte more on each."""
    largest = (("cpu", LARGEST), ("memory", LARGEST), (GPU, LARGEST))
    made = Scheduler(Config(explain=False))
    for i in range(200):
        made.apply(NodeChanged(NodeName(f"n{i:03}"), largest))
    made.world.nodes.settle()
    row = made.world.nodes.row("memory")
    assert made.world.nodes.all_free(row) == 200 * LARGEST
    assert 100_000 * LARGEST < 2**63
    whole = PodSet("whole", shape(cpu=LARGEST, memory=LARGEST), 100, 100)
    small = PodSet("small", shape(cpu=1, memory=1), 1000, 1000)
    shares = PodSet("share", shape(cpu=LARGEST // 3, share=500), 3, 3)
    made.apply(GangSubmitted(gang("x", whole, small, shares)))
    assert len(assigns(made.decide(0.0))) == 1
    made.apply(GangSubmitted(gang("y", of=shape(memory=LARGEST + 1))))
    assert assigns(made.decide(1.0)) == []


@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 4)), min_size=1, max_size=20),
    st.integers(0, 3),
    st.integers(1, 3),
)
@settings(max_examples=examples(60), deadline=None)
def test_slots_are_what_plain_arithmetic_says(free: list[tuple[int, int]], gpu: int, cpu: int) -> None:
    nodes = Nodes()
    for i, (g, c) in enumerate(free):
        nodes.change(node(f"n{i:02}", gpu=g, cpu=1000 * c, pods=3))
    nodes.settle()
    vector = Slots(Pack(nodes, Eligibility(nodes))).of(shape(gpu=gpu, cpu=1000 * cpu))
    expected = [min(3, c // cpu, g // gpu if gpu else 3) for g, c in free]
    assert vector.slots.tolist() == expected
    assert [key == NO_SLOT for key in vector.key.tolist()] == [n == 0 for n in expected]


def test_the_shape_unused_for_longest_is_forgotten_and_computed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("muster.core.placement.slots._KEPT", 2)
    _, ledger, slots = made(10)
    first = slots.of(SHAPES[1])
    slots.of(SHAPES[2])
    slots.of(SHAPES[3])
    ledger.take(NodeName("n08"), amounts({GPU: 8}))
    again = slots.of(SHAPES[1])
    assert again is not first
    assert again.slots.item(8) == 0


def test_empty_nodes_are_judged_by_capacity() -> None:
    nodes, ledger, slots = made(4)
    ledger.take(NodeName("n03"), amounts({GPU: 3}))
    mask = Eligibility(nodes).of(SHAPES[1]).matching
    assert slots.when_empty(SHAPES[1], mask).tolist() == [0, 1, 2, 3]


def test_the_scarce_resource_is_the_one_of_which_most_is_asked() -> None:
    nodes, _, _ = made(9)

    def scarce(gpu: int = 0, cpu: int = 0) -> str:
        return scarcest(nodes, shape(gpu=gpu, cpu=cpu).requests)[0]

    assert scarce(gpu=1, cpu=100) == GPU
    assert scarce(gpu=1, cpu=4000) == "cpu"
    assert scarce() == "pods"
