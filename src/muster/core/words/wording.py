"""Amounts of resources in words: "16 GPUs", "1.5 CPUs", "2 GiB memory"."""

from typing import Final

from muster.core.words.amounts import PODS
from muster.names import GPU_SHARE

#: Counted in thousandths.
_THOUSANDTHS: Final = ("cpu", GPU_SHARE)
_BYTES: Final = ("memory", "ephemeral-storage", "storage")


def show(resource: str, amount: int) -> str:
    """An amount with its unit."""
    number = bare(resource, amount)
    if resource == "cpu":
        return f"{number} {'CPU' if amount == 1000 else 'CPUs'}"
    if resource == PODS:
        return f"{number} {'pod' if amount == 1 else 'pods'}"
    if resource.endswith("/gpu") or resource == GPU_SHARE:
        return f"{number} {'GPU' if number == '1' else 'GPUs'}"
    return f"{number} {resource}"


def bare(resource: str, amount: int) -> str:
    """The number alone, for text that has just named the resource."""
    if resource in _THOUSANDTHS:
        return f"{amount / 1000:g}"
    if resource in _BYTES or resource.startswith("hugepages-"):
        for unit, size in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
            if amount >= size:
                return (
                    f"{amount / size:.4g} {unit}" if amount < 1000 * size else f"{amount / size:.0f} {unit}"
                )
        return f"{amount} B"
    return str(amount)


def are(resource: str, amount: int) -> str:
    """ "1 is", "19 are": the number with its verb."""
    single = resource not in _BYTES and amount == (1000 if resource in _THOUSANDTHS else 1)
    return f"{bare(resource, amount)} {'is' if single else 'are'}"


def nodes_(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
