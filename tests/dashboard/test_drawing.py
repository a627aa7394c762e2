"""Positions of what is drawn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.app.views.nodes import NodeView
from muster.app.views.timeline import Phase, Row, Span, Timeline
from muster.dashboard import drawing
from muster.dashboard.drawing import WIDTH, Fill
from muster.names import GPU

TIMES = st.floats(0, 1e6)


@given(st.lists(st.tuples(TIMES, TIMES), min_size=1, max_size=5))
def test_each_span_is_seen_and_within_the_picture(ends: list[tuple[float, float]]) -> None:
    spans = [(min(pair), max(pair)) for pair in ends]
    begin, end = min(a for a, _ in spans), max(b for _, b in spans)
    row = Row("w", [Span(Phase.RUNNING, a, b) for a, b in spans])
    [bar] = drawing.bars(Timeline((row,), begin, end))
    for mark in bar.marks:
        assert mark.width >= 1.0
        assert -0.1 <= mark.x <= WIDTH + 0.1
        assert mark.x + mark.width <= WIDTH + 1.1


@pytest.mark.parametrize("gpus", [0, 1, 2, 4, 5, 8, 16, 17])
def test_a_node_has_a_cell_for_each_gpu(gpus: int) -> None:
    node = NodeView("n", "ready", {GPU: gpus}, {}, "")
    a, b = Fill("a"), Fill("b")
    [box] = drawing.boxes([node], {"n": [a, a, b]})
    assert len(box.cells) == gpus
    assert [cell.fill for cell in box.cells] == ([a, a, b] + [Fill()] * gpus)[:gpus]
    assert len({(cell.x, cell.y) for cell in box.cells}) == gpus
    assert all(cell.x < box.columns and cell.y < box.rows for cell in box.cells)


def test_a_job_has_one_colour_and_nobody_has_none() -> None:
    assert drawing.hue("") == 0
    assert drawing.hue("train") == drawing.hue("train")
    assert drawing.hue("train") in range(1, 13)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-5, "0 s"), (59.9, "59 s"), (60, "1:00 min"), (3599, "59:59 min"), (7380, "2:03 h"), (1e6, "11 d")],
)
def test_durations(seconds: float, said: str) -> None:
    assert drawing.duration(seconds) == said


@pytest.mark.parametrize(("amount", "of", "width"), [(1, 2, 500), (3, 2, 1000), (-1, 2, 0), (1, 0, 0)])
def test_a_share_is_within_the_bar(amount: float, of: float, width: float) -> None:
    assert drawing.share(amount, of) == width
