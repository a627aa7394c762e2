"""Bars: what is drawn for which spans."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.app.views.timeline import Phase, Row, Span
from muster.cli.bars import clock, draw

W, R = Phase.WAITING, Phase.RUNNING


def test_waiting_running_and_a_restart_are_distinguished() -> None:
    rows = [
        Row("worker 0", [Span(W, 0, 2), Span(R, 2, 10)]),
        Row("worker 1", [Span(W, 0, 2), Span(R, 2, 5, failed=True), Span(R, 7, 10)], "restarted once"),
    ]
    assert draw(rows, 0, 10, 46) == [
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


@given(
    st.lists(st.lists(spans, max_size=6), max_size=5),
    st.integers(1, 200),
    st.floats(0, 2000),
    st.sampled_from(["row ", "a-rather-long-name-of-a-job "]),
    st.sampled_from(["", "exit 3 on node-0 "]),
)
def test_no_line_is_wider_than_asked(
    rows: list[list[Span]], width: int, end: float, label: str, note: str
) -> None:
    lines = draw([Row(label * (i + 1), row, note * i) for i, row in enumerate(rows)], 0, end, width)
    assert all(len(line) <= max(width, 24) for line in lines)
    assert len(lines) == len(rows) + 1


@given(st.floats(1e-6, 1e9), st.integers(40, 120))
def test_the_axis_has_labels_that_do_not_touch(span: float, width: int) -> None:
    (*_, axis) = draw([Row("a", [Span(R, 0, span)])], 0, span, width)
    assert len(axis) <= width
    labels = axis.split("  ")
    assert all(label.strip().count(" ") == 0 for label in labels)
    assert axis.split()[0] in ("0:00", "0:00.0")
    assert len(axis.split()) >= 2 or span < 0.2
