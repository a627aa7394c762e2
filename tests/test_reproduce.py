"""`make reproduce`: a published figure beside ours, and whether it is near enough."""

import pytest
from bench.reproduce.figure import HEADINGS, Figure, row


@pytest.mark.parametrize(
    ("figure", "cells", "missed"),
    [
        (
            Figure("t", "fgd", 95.39, [95.5, 95.3], 0.6),
            ("fgd", "95.39", "95.40", "0.14", "+0.01", "±0.6 met"),
            False,
        ),
        (
            Figure("t", "fgd", 95.39, [94.0], 0.6),
            ("fgd", "95.39", "94.00", "", "-1.39", "±0.6 missed"),
            True,
        ),
        (
            Figure("t", "pack", None, [95.8], least=95.39),
            ("pack", "", "95.80", "", "", "> 95.39 met"),
            False,
        ),
        (
            Figure("t", "pack", None, [95.0], least=95.39),
            ("pack", "", "95.00", "", "", "> 95.39 missed"),
            True,
        ),
        (Figure("t", "x", 1.0, [3.0]), ("x", "1.00", "3.00", "", "+2.00", ""), False),
    ],
)
def test_a_figure_beside_what_was_published(figure: Figure, cells: tuple[str, ...], missed: bool) -> None:
    assert row(figure) == cells
    assert len(cells) == len(HEADINGS)
    assert figure.missed is missed
