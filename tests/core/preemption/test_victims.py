"""The search for victims against all sets of victims that there are (`crowded.py`)."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.core.preemption.crowded import (
    AFFINITY,
    BUDGETS,
    CONSTRAINTS,
    EXCLUSIVE,
    QUEUES,
    SETS,
    SHAPES,
    TOPOLOGY,
    compare,
    draw,
    sets_of,
)
from tests.tiers import examples, sample

MIXES: list[tuple[str, ...]] = [
    (),
    (SHAPES,),
    (TOPOLOGY,),
    (CONSTRAINTS,),
    (TOPOLOGY, CONSTRAINTS),
    (QUEUES, BUDGETS),
    (TOPOLOGY, QUEUES, BUDGETS),
    (TOPOLOGY, CONSTRAINTS, QUEUES, BUDGETS, SHAPES),
    (EXCLUSIVE,),
    (EXCLUSIVE, TOPOLOGY, SHAPES),
    (AFFINITY,),
    (AFFINITY, CONSTRAINTS),
    (AFFINITY, SHAPES),
    (AFFINITY, TOPOLOGY),
]


def campaign(seeds: range, *about: str) -> list[float]:
    """Sorted ratios of the work lost to the least possible, of cases that need a victim."""
    cases = (draw(seed, *about) for seed in seeds)
    ratios = [compare(case) for case in cases if sets_of(case) <= SETS]
    return sorted(ratio for ratio in ratios if ratio is not None)


@pytest.mark.parametrize("about", sample(MIXES[::-1], 6), ids=lambda about: "+".join(about) or "room")
def test_the_level_is_the_lowest_and_hardly_more_is_lost_than_need_be(about: tuple[str, ...]) -> None:
    seeds = range(examples(25))
    ratios = campaign(seeds, *about)
    assert len(ratios) >= max(len(seeds) // 5, 1), "so many of them need victims at all"
    assert ratios[-1] <= 1.25


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(MIXES))
def test_in_any_case(seed: int, about: tuple[str, ...]) -> None:
    assert all(ratio <= 1.25 for ratio in campaign(range(seed, seed + 1), *about))


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(MIXES), st.sampled_from([1, 100, 1000]))
@example(24, (AFFINITY,), 1000)
@example(24, (AFFINITY, SHAPES), 1000)
@example(66785997, (TOPOLOGY, QUEUES, BUDGETS), 1000)
def test_a_search_that_is_interrupted_finds_what_one_without_limits_finds(
    seed: int, about: tuple[str, ...], steps: int
) -> None:
    case = draw(seed, *about)
    case.made.preemption._steps = steps
    if sets_of(case) <= SETS:
        ratio = compare(case)
        assert ratio is None or ratio <= 1.25
