"""Quantities are read exactly, or not at all."""

from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from muster.api.quantity import LARGEST, about, billionths, capacity, most, parse, request, show
from muster.core.world import nodes

READ = {
    "0": 0,
    "-3": -3,
    "+1.5": Fraction(3, 2),
    ".5": Fraction(1, 2),
    "100m": Fraction(1, 10),
    "1e3": 1000,
    "1E": 10**18,
    "2E3": 2000,
    "1.5Gi": 3 * 2**29,
    "1n": Fraction(1, 10**9),
    "9223372036854775807": LARGEST,
    "7.999Ei": Fraction("7.999") * 2**60,
}


SCALES = {"": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000)}
SCALES |= {suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", 1)}
SCALES |= {f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", 1)}


@pytest.mark.parametrize(("text", "value"), READ.items())
def test_a_quantity_is_read_exactly(text: str, value: Fraction) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    "text", ["", "x", "1 Gi", "1g", "1KI", "0x10", "1e", "--1", "1_000", "NaN", "inf", True, "٣"]
)
def test_an_invalid_quantity_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity; write"):
        parse(text)


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ("64GB", "64Gi, or 64G for powers of 1000"),
        ("64gib", "64Gi"),
        ("1.5tb", "1.5Ti, or 1.5T for powers of 1000"),
        ("100 KB", "100Ki, or 100k for powers of 1000"),
        ("512mb", "512Mi, or 512M for powers of 1000"),
    ],
)
def test_amounts_as_people_write_them_are_answered_with_what_to_write(written: str, instead: str) -> None:
    with pytest.raises(ValueError, match=f"^'{written}' is not a quantity; write {instead}$"):
        parse(written)
    for each in instead.removesuffix(" for powers of 1000").split(", or "):
        parse(each)


@pytest.mark.parametrize("text", ["9223372036854775808", "8Ei", "-8.1Ei", "1e19", "1e999", 2**63])
def test_numbers_beyond_64_bits_are_not_truncated_in_silence(text: str | int) -> None:
    with pytest.raises(ValueError, match="is more than a quantity can be"):
        parse(text)


@given(
    st.sampled_from(["", "+", "-"]),
    st.from_regex(r"[0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20}", fullmatch=True),
    st.one_of(st.sampled_from([*SCALES]), st.integers(-20, 20)),
)
def test_billionths_are_exact_and_integers_wherever_they_can_be(
    sign: str, number: str, scale: str | int
) -> None:
    text = sign + number + (scale if isinstance(scale, str) else f"e{scale}")
    times = SCALES[scale] if isinstance(scale, str) else Fraction(10) ** scale
    exact = Fraction(sign + number) * times
    assume(abs(exact) <= LARGEST)
    assert parse(text) == exact
    assert billionths(text) == exact * 10**9
    assert isinstance(billionths(text), int) == ((exact * 10**9).denominator == 1)


def test_requests_are_rounded_up_and_capacity_down() -> None:
    assert (request("cpu", "0.1001"), capacity("cpu", "0.1009")) == (101, 100)
    assert (request("memory", "1"), capacity("memory", "1.9")) == (1, 1)
    assert (request("nvidia.com/gpu", "0.5"), capacity("nvidia.com/gpu", "1.5")) == (1, 1)


def test_bytes_are_counted_exactly() -> None:
    assert 3 * request("memory", "1G") == capacity("memory", "3G")
    assert (request("hugepages-2Mi", "4Mi"), request("ephemeral-storage", "0.1")) == (2**22, 1)


def test_no_amount_that_is_read_is_more_than_the_core_counts() -> None:
    assert (most("memory"), most("cpu")) == (nodes.LARGEST, nodes.UNLIMITED)


SHOWN = {
    0: ("0", "0"),
    1000: ("1k", "1k"),
    1024: ("1Ki", "1Ki"),
    3 * 10**9: ("3G", "3G"),
    1536 * 2**20: ("1536Mi", "1536Mi"),
    2**41: ("2Ti", "2Ti"),
    32_780_256 * 1024: ("32780256Ki", "31.26Gi"),
    2**30 - 1: ("1073741823", "1024Mi"),
    2**46: ("64Ti", "64Ti"),
}


@pytest.mark.parametrize(("amount", "shown"), SHOWN.items())
def test_bytes_are_shown_as_people_write_them(amount: int, shown: tuple[str, str]) -> None:
    assert (show("memory", amount), about("memory", amount)) == shown
    assert capacity("memory", show("memory", amount)) == amount


@given(st.integers(0, 2**46))
def test_a_shown_amount_is_read_back_as_the_same_amount(amount: int) -> None:
    assert capacity("memory", show("memory", amount)) == request("memory", show("memory", amount)) == amount
    assert abs(request("memory", about("memory", amount)) - amount) <= amount / 1000
