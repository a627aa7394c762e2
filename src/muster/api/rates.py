"""Prices of GPUs, CPUs and memory, which an administrator writes into a ConfigMap, and exact sums of money.

The ConfigMap is `muster-rates` in muster's own namespace. A key is a GPU's product as the node label
`nvidia.com/gpu.product` has it, `gpu` for all other GPUs, `cpu` for a CPU, or `memory` for a GiB. A value is
the price of one hour, a decimal number. An entry that cannot be read is ignored and reported. Prices and sums
are Decimals, never floats.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

from muster.api.core_v1 import ConfigMap
from muster.names import NAMESPACE

NAME: Final = "muster-rates"
#: Key of the ConfigMap unless muster's Lease is in another namespace.
KEY: Final = f"{NAMESPACE}/{NAME}"
#: Keys for GPUs without a rate of their own, for CPUs, and for GiB of memory.
GPU: Final = "gpu"
CPU: Final = "cpu"
MEMORY: Final = "memory"
_NO_GPU: Final = (CPU, MEMORY)
#: Most entries that are read, the first by name.
MOST: Final = 200
_PRICE: Final = re.compile(r"[0-9]{1,7}(\.[0-9]{1,6})?", re.ASCII)
_AMOUNT: Final = re.compile(r"[0-9]{1,15}(\.[0-9]{1,6})?", re.ASCII)
_CENT: Final = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class Rates:
    """Prices per hour by product; without entries nothing has a price."""

    prices: Mapping[str, Decimal] = field(default_factory=dict)
    #: what is wrong with the entries that were ignored
    faults: tuple[str, ...] = ()

    def price(self, product: str) -> Decimal | None:
        """Returns the price of one hour of a GPU of this product ("" = not known), of `CPU` or `MEMORY`."""
        found = self.prices.get(product)
        return found if found is not None or product in _NO_GPU else self.prices.get(GPU)

    def product(self, asked: str | None) -> str:
        """Returns the product that pods request; if they request none, the most expensive one with a rate."""
        if asked is not None:
            return asked
        priced = sorted((price, name) for name, price in self.prices.items() if name not in _NO_GPU)
        return priced[-1][1] if priced else ""

    def cost(self, seconds: Mapping[str, Decimal]) -> Decimal | None:
        """Returns the price of this many seconds by product, to the cent; None if a price is not known."""
        total = Decimal(0)
        for product, amount in seconds.items():
            price = self.price(product)
            if price is None:
                return None
            total += amount * price
        return (total / 3600).quantize(_CENT, ROUND_HALF_UP) if seconds else None


def read(config_map: ConfigMap | None) -> Rates:
    """Returns the rates of the ConfigMap; no rates if there is no ConfigMap."""
    if config_map is None:
        return Rates()
    prices, faults = dict[str, Decimal](), list[str]()
    for product, text in sorted(config_map.data.items())[:MOST]:
        if _PRICE.fullmatch(text.strip()):
            prices[product] = Decimal(text.strip())
        else:
            faults.append(f"{product}: {text[:40]!r} is not a price; write a number such as 3.50")
    if len(config_map.data) > MOST:
        faults.append(f"only the first {MOST} of {len(config_map.data)} entries are used")
    return Rates(prices, tuple(faults))


def amount(text: str) -> Decimal | None:
    """Parses GPU-hours or money of a record; None if muster does not write such a number."""
    return Decimal(text) if _AMOUNT.fullmatch(text) else None


def gpu_seconds(seconds: Mapping[str, Decimal]) -> Decimal:
    """Returns the GPU-seconds of all products."""
    return sum((amount for product, amount in seconds.items() if product != CPU), Decimal(0))


def hours(seconds: Decimal) -> str:
    """Returns seconds as hours with at most three decimals: `20`, `0.5`."""
    text = f"{(seconds / 3600).quantize(Decimal('0.001'), ROUND_HALF_UP):f}"
    return text.rstrip("0").rstrip(".")


def money(amount: Decimal) -> str:
    """Returns an amount as people read it: `$70.00`."""
    return f"${amount:,.2f}"
