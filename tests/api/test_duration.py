"""Durations as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.duration import parse, show


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("6h", 21600),
        ("1d", 86400),
        ("4m", 240),
        ("90s", 90),
        ("45", 45),
        (45, 45),
        ("1h30m", 5400),
        ("2d12h", 216000),
    ],
)
def test_parse(text: str | int, seconds: int) -> None:
    assert parse(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "h", "soon", "6 hours", "-1h", "1.5h", "30m1h", "1h1h", True, "999999999d", -5, "٣h"]
)
def test_text_that_is_not_a_duration_is_refused(text: str | int) -> None:
    with pytest.raises(ValueError, match=r"not a duration|longer than"):
        parse(text)


@given(st.integers(0, 10**9))
def test_show_is_read_back(seconds: int) -> None:
    assert parse(show(seconds)) == seconds
