"""Sums of amounts, as queues and quotas count them, and amounts in words: "16 GPUs", "2 GiB memory"."""

from collections.abc import Iterable, Mapping
from typing import Final, Self, TypeVar

from muster.core.words.devices import DEVICE_CLASS
from muster.names import GPU, GPU_SHARE, is_gpu

#: The resource of which each pod takes one.
PODS: Final = "pods"

Key = TypeVar("Key")


class Sums(dict[Key, int]):
    """Amounts by key. A key that is absent counts as 0."""

    __slots__ = ()

    def __missing__(self, key: Key) -> int:
        return 0

    def add(self, amounts: Mapping[Key, int], times: int = 1) -> None:
        """Add so many times these amounts, in place. A sum that becomes zero is removed."""
        for key, amount in amounts.items():  # as `count`, without a call for each: all accounts add here
            if total := self.get(key, 0) + times * amount:
                self[key] = total
            else:
                self.pop(key, None)

    def count(self, key: Key, more: int) -> None:
        """Add so much to one sum, in place. A sum that becomes zero is removed."""
        if total := self.get(key, 0) + more:
            self[key] = total
        else:
            self.pop(key, None)

    def copy(self) -> Self:
        return type(self)(self)

    def plus(self, amounts: Mapping[Key, int]) -> Self:
        total = type(self)(self)
        total.add(amounts)
        return total

    def minus(self, amounts: Mapping[Key, int]) -> Self:
        """Return what exceeds these amounts; nothing below zero."""
        return type(self)(
            {key: more for key, amount in self.items() if (more := amount - amounts.get(key, 0)) > 0}
        )

    def fits_in(self, room: Mapping[Key, int]) -> bool:
        """Whether there is room for all of it. What `room` does not name is not limited."""
        return all(amount <= room[key] for key, amount in self.items() if key in room)


class Usage(Sums[str]):
    """What pods use of each resource, `pods` included.

    Whole GPUs and shares of GPUs are one resource, in thousandths, under `muster.dev/gpu-share`: nodes and
    pods say `nvidia.com/gpu`.
    """

    __slots__ = ()

    @classmethod
    def of(cls, amounts: Iterable[tuple[str, int]]) -> Self:
        """Return these amounts of nodes, pods or rules. Zeros stay: a cap may be 0."""
        usage = cls(amounts)
        if GPU in usage:
            usage[GPU_SHARE] = 1000 * usage.pop(GPU) + usage.get(GPU_SHARE, 0)
        return usage

    @classmethod
    def of_pod(cls, requests: Iterable[tuple[str, int]]) -> Self:
        """Return what one pod with these requests uses."""
        usage = cls.of(requests)
        usage[PODS] = 1
        return usage


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
    if resource.startswith(DEVICE_CLASS):
        noun = "device" if amount == 1 else "devices"
        return f"{number} {noun} of class {resource.removeprefix(DEVICE_CLASS)}"
    if is_gpu(resource) or resource == GPU_SHARE:
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
