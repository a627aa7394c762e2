"""Amounts as queues count them: whole GPUs and shares of GPUs are one resource.

`nvidia.com/gpu` of nodes and pods becomes thousandths, under `muster.dev/gpu-share`.
"""

from typing import Final

from muster.core.words.gang import Amounts
from muster.names import GPU, GPU_SHARE

#: The resource of which each pod takes one.
PODS: Final = "pods"


def counted(amounts: Amounts) -> Amounts:
    """Return the amounts with GPUs and shares of GPUs summed, in thousandths. Zeros stay: a cap may be 0."""
    gpus = None
    for resource, amount in amounts:
        if resource == GPU:
            gpus = (gpus or 0) + 1000 * amount
        elif resource == GPU_SHARE:
            gpus = (gpus or 0) + amount
    if gpus is None:
        return amounts
    others = [(r, amount) for r, amount in amounts if r not in (GPU, GPU_SHARE)]
    return tuple(sorted([*others, (GPU_SHARE, gpus)]))


def add(sums: dict[str, int], amounts: Amounts, sign: int) -> None:
    """Add (1) or subtract (-1) amounts in place; an entry that becomes zero is removed."""
    for resource, amount in amounts:
        total = sums.get(resource, 0) + sign * amount
        if total:
            sums[resource] = total
        else:
            sums.pop(resource, None)
