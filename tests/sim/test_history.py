"""What a replay looked like: exact means per slice, in as much memory for a year as for a minute."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.sim.history import OTHERS, QUEUES, SLICES, History
from tests.tiers import examples

spans = st.lists(
    st.tuples(st.floats(0.001, 5000), st.integers(0, 9000), st.integers(0, 9000), st.integers(0, 9000)),
    min_size=1,
    max_size=40,
)


@given(st.floats(0, 1e9), spans)
@settings(max_examples=examples(80), deadline=None)
def test_integrals_are_kept_however_often_slices_are_joined(
    start: float, spans: list[tuple[float, int, int, int]]
) -> None:
    history, now = History(), start
    sums = [0.0, 0.0, 0.0]
    for seconds, *amounts in spans:
        history.advance(now, now + seconds, *amounts)
        sums = [total + amount * (now + seconds - now) for total, amount in zip(sums, amounts, strict=True)]
        now += seconds
    for row, total in zip((history.capacity, history.allocated, history.row_amounts), sums, strict=True):
        assert len(row) == SLICES
        assert row.sum() == pytest.approx(total, rel=1e-6, abs=1e-3)
    series = history.series
    assert all(len(row) == len(series["capacity"]) <= SLICES for row in series.values())
    assert series["capacity"].max(initial=0) <= 9 + 1e-6


def test_means_by_slice() -> None:
    history = History()
    history.hold("a", 2000)
    history.advance(100, 101, 8000, 2000, 4000)
    history.hold("a", -1000)
    history.hold("b", 4000)
    history.advance(101, 103.5, 8000, 5000, 9000)
    found = {name: row.round(9).tolist() for name, row in history.series.items()}
    assert found == {
        "capacity": [8, 8, 8, 8],
        "allocated": [2, 5, 5, 5],
        "demand": [4, 9, 9, 9],
        "queue a": [2, 1, 1, 1],
        "queue b": [0, 4, 4, 4],
    }


def test_slices_double() -> None:
    history = History()
    for second in range(SLICES * 3):
        history.advance(second, second + 1, 1000 * (second % 2), 0, 0)
    assert history.width == 4
    assert np.allclose(history.series["capacity"], 0.5)
    assert len(history.series["capacity"]) == SLICES * 3 / 4


def test_too_many_queues_share_a_row() -> None:
    history = History()
    for number in range(QUEUES + 10):
        history.hold(f"q{number:03}", 1000)
    history.advance(0, 1, 0, 0, 0)
    assert len(history.queues) == QUEUES + 1
    assert history.queues[OTHERS][0] == 10_000


def test_waits_by_size() -> None:
    history = History()
    for size, wait in ((250, 0), (1000, 0), (1500, 3), (4000, 100), (7999, 300), (8000, 1e9)):
        history.waited(size, wait)
    found = {power: waits.tolist() for power, waits in sorted(history.waits.items())}
    assert found == {-1: [0], 0: [0, 3], 2: [100, 300], 3: [1e9]}
