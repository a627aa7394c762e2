"""Maximal patterns against plain enumeration, classes, and bounds."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.placement.exact import patterns
from muster.core.placement.exact.patterns import Asked, Catalogue, Classes, maximal
from muster.core.placement.packing import Pack
from muster.core.placement.slots import Slots
from muster.core.words.gang import NodeName, Shape
from muster.core.world.eligibility import Eligibility
from muster.core.world.ledger import Ledger
from muster.core.world.nodes import Ints, Longs, Nodes
from tests.core.words import node, shape
from tests.tiers import examples


def naive(free: list[int], caps: list[int], asked: list[list[int]]) -> list[tuple[int, ...]]:
    def fits(pattern: tuple[int, ...]) -> bool:
        return all(
            sum(n * group[r] for n, group in zip(pattern, asked, strict=True)) <= free[r]
            for r in range(len(free))
        )

    feasible = {p for p in itertools.product(*(range(cap + 1) for cap in caps)) if fits(p)}

    def more(pattern: tuple[int, ...]) -> list[tuple[int, ...]]:
        return [tuple(n + (g == i) for i, n in enumerate(pattern)) for g in range(len(pattern))]

    return sorted(p for p in feasible if not feasible.intersection(more(p)))


small = st.integers(0, 4)


@given(
    st.integers(1, 3).flatmap(
        lambda groups: st.tuples(
            st.lists(st.lists(small, min_size=2, max_size=2), min_size=groups, max_size=groups),
            st.lists(
                st.tuples(
                    st.lists(st.integers(0, 9), min_size=2, max_size=2),
                    st.lists(small, min_size=groups, max_size=groups),
                ),
                min_size=1,
                max_size=4,
            ),
        )
    )
)
@settings(max_examples=examples(200), deadline=None)
def test_maximal_patterns_equal_plain_enumeration(
    case: tuple[list[list[int]], list[tuple[list[int], list[int]]]],
) -> None:
    asked, nodes = case
    free, caps = ([n[i] for n in nodes] for i in (0, 1))
    listed = maximal(as_longs(free), as_longs(caps), as_longs(asked))
    assert listed is not None
    assert [[tuple(p) for p in one.tolist()] for one in listed] == [
        naive(f, c, asked) for f, c in zip(free, caps, strict=True)
    ]


def as_longs(rows: list[list[int]]) -> Longs:
    return np.array(rows, np.int64)


def asked(nodes: Nodes, shapes: list[Shape]) -> list[Asked]:
    return [(nodes.row_amounts(each.requests), each.claims) for each in shapes]


def classes(nodes: Nodes, shapes: list[Shape], count: int) -> Classes | None:
    slots = Slots(Pack(nodes, Eligibility(nodes)))
    caps: Ints = np.array([np.minimum(slots.of(s).slots, count) for s in shapes], np.int32)
    return Catalogue(nodes, asked(nodes, shapes)).classes(caps)


def cluster(*free: tuple[int, int]) -> Nodes:
    nodes = Nodes()
    for i, (gpu, cpu) in enumerate(free):
        nodes.change(node(f"n{i}", gpu=gpu, cpu=cpu))
    nodes.settle()
    return nodes


def test_nodes_that_take_the_same_pods_are_one_class() -> None:
    nodes = cluster((4, 9_000), (0, 500), (4, 8_100), (1, 64_000), (4, 8_000))
    found = classes(nodes, [shape(gpu=2, cpu=4_000), shape(gpu=1, cpu=2_000)], 10)
    assert found is not None
    assert [columns.tolist() for columns in found.columns] == [[0, 2, 4], [3]]
    assert [p.tolist() for p in found.patterns] == [[[0, 4], [1, 2], [2, 0]], [[0, 1]]]


def test_too_many_patterns_are_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = cluster((8, 64_000), (7, 64_000))
    shapes = [shape(gpu=2), shape(gpu=1)]
    assert classes(nodes, shapes, 10) is not None
    monkeypatch.setattr(patterns, "PATTERNS", 8)
    assert classes(nodes, shapes, 10) is None
    monkeypatch.undo()
    monkeypatch.setattr(patterns, "_ROWS", 8)
    assert classes(nodes, shapes, 10) is None


def test_what_is_remembered_is_bounded_and_not_mistaken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "_KINDS", 2)
    nodes = cluster(*((gpu, 64_000) for gpu in range(6)))
    slots, kept = Slots(Pack(nodes, Eligibility(nodes))), dict[int, Catalogue]()
    for large in (2, 3, 4, 2):
        shapes = [shape(gpu=large), shape(gpu=1)]
        caps = np.array([slots.of(s).slots for s in shapes], np.int32)
        catalogue = kept.setdefault(large, Catalogue(nodes, asked(nodes, shapes)))
        for column in range(6):
            columns = np.array([column])
            found = catalogue.of(catalogue.reduced(caps[:, columns], columns))
            assert found is not None
            expected = naive([column], caps[:, column].tolist(), [[large], [1]])
            assert [tuple(p) for p in found[0].tolist()] == expected


def test_patterns_of_shares_fit_the_devices_and_not_only_their_sum() -> None:
    nodes = Nodes()
    nodes.change(node("a", gpu=2))
    nodes.change(node("b", gpu=2))
    nodes.settle()
    Ledger(nodes).take(NodeName("b"), shape(share=350).requests)
    shapes = [shape(share=600), shape(share=700), shape(gpu=1)]
    slots = Slots(Pack(nodes, Eligibility(nodes)))
    caps = np.array([np.minimum(slots.of(s).slots, 2) for s in shapes], np.int32)
    catalogue = Catalogue(nodes, asked(nodes, shapes))
    found = catalogue.of(catalogue.reduced(caps, np.arange(2)))
    assert found is not None
    assert [[tuple(pattern) for pattern in each.tolist()] for each in found] == [
        [(0, 0, 2), (0, 1, 1), (0, 2, 0), (1, 0, 1), (1, 1, 0), (2, 0, 0)],
        [(1, 0, 1), (1, 1, 0), (2, 0, 0)],
    ]
