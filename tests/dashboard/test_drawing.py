"""Positions of what is drawn."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.app.views.nodes import NodeView
from muster.app.views.timeline import Phase, Row, Span, Timeline
from muster.dashboard import drawing
from muster.dashboard.drawing import WIDTH, Fill
from muster.dashboard.pages import HERE
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


def luminance(colour: str) -> float:
    """WCAG 2.2's relative luminance of `#rrggbb`."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]
    return sum(weight * each for weight, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


CSS = (HERE / "static/style.css").read_text()
_SET = r"--([a-z]+\d?): (#[0-9a-f]{6});"
#: The variables of the light theme, and of the dark one; and those of charts.
THEMES = [dict(re.findall(_SET, block)) for block in re.findall(r":root {(.*?)}", CSS, re.DOTALL)]
CHARTS = [dict(re.findall(_SET, block)) for block in re.findall(r"\.chart { (--dim.*?|--c0.*?)}", CSS)]


def test_the_hue_of_any_job_stands_out_from_the_page_in_both_themes() -> None:
    """WCAG AA, 1.4.11: graphics have a contrast of 3 to 1 (axe does not look at what is drawn)."""
    hues = dict(re.findall(r"i\.h(\d+), rect\.h\1 {\s*background: (#[0-9a-f]{6})", CSS))
    drawn = dict(re.findall(r"rect\.h(\d+) {[^}]*fill: (#[0-9a-f]{6})", CSS))
    assert hues == drawn
    used = {str(drawing.hue(f"job-{number}")) for number in range(1_000)}
    assert used == hues.keys()
    assert len({*hues.values()}) == len(hues)
    assert len(THEMES) == 2
    for theme in THEMES:
        for ground in ("page", "panel"):
            low = {each: ratio for each in hues.values() if (ratio := contrast(each, theme[ground])) < 3}
            assert low == {}


def test_what_is_written_and_drawn_in_a_colour_of_the_theme_is_seen() -> None:
    """Text 4.5 to 1, also states, links and messages; charts 3 to 1."""
    assert [len(each) for each in CHARTS] == [8, 8]
    for theme, chart in zip(THEMES, CHARTS, strict=True):
        for name in ("ink", "quiet", "accent", "good", "wait", "bad"):
            for ground in ("page", "panel"):
                assert contrast(theme[name], theme[ground]) >= 4.5, (name, ground, theme[ground])
        for name, colour in chart.items():
            assert contrast(colour, theme["page"]) >= 3, (name, colour)
