"""Prices are read exactly, and nothing that an administrator or a user writes breaks them."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.core_v1 import ConfigMap
from muster.api.rates import MOST, Rates, gpu_seconds, hours, money, read

H100 = "NVIDIA-H100-80GB-HBM3"
RATES = read(ConfigMap(data={H100: "3.50", "gpu": "1.10", "cpu": "0.04"}))

COSTS = {
    "4 GPUs for 5 hours": ({H100: 72_000}, "70.00"),
    "half an hour of 4 GPUs": ({H100: 7_200}, "7.00"),
    "8 GPUs for 6 hours": ({H100: 172_800}, "168.00"),
    "a product without a rate of its own": ({"other": 3600}, "1.10"),
    "a product that is not known": ({"": 3600}, "1.10"),
    "two products": ({H100: 3600, "other": 3600}, "4.60"),
    "CPUs": ({"cpu": 360_000}, "4.00"),
    "half a cent is rounded up": ({"cpu": 450}, "0.01"),
    "nothing": ({}, None),
}


@pytest.mark.parametrize(("seconds", "cost"), COSTS.values(), ids=COSTS)
def test_a_cost_is_time_by_product_at_the_products_price(seconds: dict[str, int], cost: str | None) -> None:
    found = RATES.cost({product: Decimal(amount) for product, amount in seconds.items()})
    assert (None if found is None else str(found)) == cost


def test_without_a_rate_there_is_no_cost() -> None:
    some = read(ConfigMap(data={H100: "3.50"}))
    assert some.cost({H100: Decimal(1), "other": Decimal(1)}) is None
    assert Rates().cost({H100: Decimal(1)}) is None
    assert read(None) == Rates()
    assert some.price("cpu") is None


@pytest.mark.parametrize(
    "text", ["", "-1", "NaN", "Infinity", "1e9", "3,50", "$3.50", "1.2.3", "9" * 8, "0.1234567", "٣", "1\n2"]
)
def test_an_entry_that_is_not_a_price_is_ignored_and_reported(text: str) -> None:
    found = read(ConfigMap(data={"a": text, "b": "1"}))
    assert found.prices == {"b": Decimal(1)}
    [fault] = found.faults
    assert fault.startswith("a: ")


def test_a_huge_map_is_cut() -> None:
    found = read(ConfigMap(data={f"p{i:05}": "1" for i in range(MOST + 5)}))
    assert len(found.prices) == MOST
    assert len(found.faults) == 1


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=50), max_size=5))
def test_any_map_is_read(data: dict[str, str]) -> None:
    found = read(ConfigMap(data=data))
    assert len(found.prices) + len(found.faults) == len(data)
    assert all(price.is_finite() and price >= 0 for price in found.prices.values())


def test_hours_and_money() -> None:
    assert [hours(Decimal(s)) for s in (72_000, 7_200, 1800, 1, 0, 360_000)] == [
        "20",
        "2",
        "0.5",
        "0",
        "0",
        "100",
    ]
    assert money(Decimal("1234.5")) == "$1,234.50"
    assert gpu_seconds({H100: Decimal(2), "cpu": Decimal(5)}) == 2
