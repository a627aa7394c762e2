"""Natural numbers as people, and others, write them on objects."""

import pytest

from muster.api.natural import natural


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("17", 17),
        ("007", 7),
        ("2147483647", 2**31 - 1),
        ("2147483648", None),
        ("9" * 5000, None),
        ("0" * 5000, None),
        ("", None),
        (None, None),
        ("-1", None),
        ("+1", None),
        (" 1", None),
        ("1_0", None),
        ("²", None),
        ("٣", None),
        ("x", None),
    ],
)
def test_decimal_digits_write_a_number(text: str | None, number: int | None) -> None:
    assert natural(text) == number


def test_a_bound_can_be_another() -> None:
    assert (natural("255", 255), natural("256", 255)) == (255, None)
