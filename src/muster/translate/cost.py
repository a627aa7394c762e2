"""Computes what an hour of a job costs, from what its pods request and the administrator's prices."""

from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

from muster.api.base import Object
from muster.api.core_v1 import Pod
from muster.api.fields import InvalidObject, convert
from muster.api.rates import CPU, GPU, MEMORY, Rates
from muster.core.words.gang import Operator, Shape, gpus
from muster.names import GPU_PRODUCT
from muster.translate.pods import asked

_EXACT: Final = Decimal("0.0001")
#: Shares of GPUs as Volcano has them; they have no price.
_VGPU: Final = "volcano.sh/vgpu"


def hourly(pods: Iterable[tuple[int, Object]], prices: Rates) -> Object | None:
    """Returns `hourlyCost` and its `breakdown` by resource, in decimal numbers with four decimals.

    `pods`: numbers of pods with their templates. CPUs and memory without a price cost nothing. None if
    nothing has a price, if GPUs are requested whose price is not known, or if a template is invalid.
    """
    parts = dict[str, Decimal]()
    for number, template in pods:
        try:
            shape = asked(convert(template, Pod)).shape
        except InvalidObject:
            return None  # a server refuses such pods, and says why
        amounts = dict(shape.requests)
        if any(name.startswith(_VGPU) for name in amounts):
            return None
        product = prices.product(product_asked(shape))
        for part, key, amount in (
            (CPU, CPU, Decimal(amounts.get("cpu", 0)) / 1000),
            (MEMORY, MEMORY, Decimal(amounts.get("memory", 0)) / 2**30),
            (GPU, product, Decimal(str(gpus(shape.requests)))),
        ):
            price = prices.price(key)
            if price is None and part == GPU and amount:
                return None
            if price is not None and amount:
                parts[part] = parts.get(part, Decimal(0)) + price * amount * number
    if not parts:
        return None
    rounded = {part: amount.quantize(_EXACT, ROUND_HALF_UP) for part, amount in parts.items()}
    told = {part: str(amount) for part, amount in rounded.items()}
    return {"hourlyCost": str(sum(rounded.values(), Decimal(0))), "breakdown": told}


def product_asked(shape: Shape) -> str | None:
    """Returns the product of GPUs that the pods request; None if they request none."""
    asked = dict(shape.selector).get(GPU_PRODUCT)
    if asked is None:
        terms = (each for term in (shape.affinity or ())[:1] for each in term.labels)
        values = (each.values for each in terms if each.key == GPU_PRODUCT and each.operator is Operator.IN)
        return next((value for group in values for value in group), None)
    return asked
