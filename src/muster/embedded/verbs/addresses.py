"""Loopback addresses for pods: each pod has its own from its binding until its object is removed.

All of 127.0.0.0/8 reaches this machine without any set-up. 127.0.0.x is left to the machine (localhost,
its resolver), and so is 127.0.1.x (its own name, on Debian). Addresses are allotted in turn, so that a freed
address rests as long as possible before another pod gets it.
"""

from collections.abc import Iterable
from typing import Final

from muster.kube.errors import ServerError

_FIRST: Final = 1 << 16  # 127.1.0.0
_END: Final = 1 << 24


class Addresses:
    """The set of addresses in use. The pods' `status.podIP` is the only place where they are stored."""

    def __init__(self, in_use: Iterable[str] = ()) -> None:
        self._used = {number for address in in_use if (number := _number(address)) is not None}
        self._last = max(self._used, default=_FIRST)

    def allot(self) -> str:
        for _ in range(_FIRST, _END):
            self._last = self._last + 1 if self._last + 1 < _END else _FIRST
            if self._last not in self._used and self._last & 255 not in (0, 255):
                self._used.add(self._last)
                return _text(self._last)
        raise ServerError("no loopback address is free")

    def free(self, address: str) -> None:
        number = _number(address)
        if number is not None:
            self._used.discard(number)


def _text(number: int) -> str:
    return f"127.{number >> 16}.{number >> 8 & 255}.{number & 255}"


def _number(address: str) -> int | None:
    """The number of an address; None if the address is not one for pods."""
    parts = address.split(".")
    if len(parts) != 4 or parts[0] != "127" or not all(part.isdigit() for part in parts):
        return None
    number = int(parts[1]) << 16 | int(parts[2]) << 8 | int(parts[3])
    return number if _FIRST <= number < _END else None
