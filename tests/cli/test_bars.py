"""Bars: what is drawn for which spans."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.app.timeline import Phase, Row, Span
from muster.cli.bars import clock, draw

W, R = Phase.WAITING, Phase.RUNNING


def test_waiting_running_and_a_restart_are_told_apart() -> None:
    rows = [
        Row("worker 0", [Span(W, 0, 2), Span(R, 2, 10)]),
        Row("worker 1", [Span(W, 0, 2), Span(R, 2, 5, failed=True), Span(R, 7, 10)], "restarted once"),
    ]
    assert draw(rows, 0, 10, 30) == [
        "worker 0  ░░░░████████████████",
        "worker 1  ░░░░██████✗   ██████  restarted once",
        "          0:00      0:05      0:10",
    ]


def test_half_characters() -> None:
    (line, _) = draw([Row("a", [Span(W, 0, 1), Span(R, 1, 4), Span(R, 5, 6)])], 0, 20, 13)
    assert line == "a  ▐█▐"


def test_a_run_too_short_to_see_is_seen() -> None:
    (line, _) = draw([Row("a", [Span(R, 5, 5.0001)])], 0, 10, 13)
    assert "▌" in line or "▐" in line


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (7.9, "0:07"), (750, "12:30"), (11100, "3:05:00")]
)
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


spans = st.builds(
    lambda phase, begin, length, failed: Span(phase, begin, begin + length, failed),
    st.sampled_from(Phase),
    st.floats(0, 1000),
    st.floats(0, 1000),
    st.booleans(),
)


@given(st.lists(st.lists(spans, max_size=6), max_size=5), st.integers(1, 200), st.floats(0, 2000))
def test_no_row_is_wider_than_asked(rows: list[list[Span]], width: int, end: float) -> None:
    lines = draw([Row(f"row {i}", row) for i, row in enumerate(rows)], 0, end, width)
    gutter = len("row 0") + 2 if rows else 2
    assert all(len(line) <= max(width, gutter + 10) for line in lines[:-1])
    assert len(lines) == len(rows) + 1
