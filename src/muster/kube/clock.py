"""The clock as an argument: it tells the time and waits; and how long to wait, and for which of several."""

import asyncio
import time
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, Final, Protocol, TypeVar

T = TypeVar("T")

#: Pauses double at most this often: the power stays a number that a float can be multiplied by.
_DOUBLED: Final = 30


class Clock(Protocol):
    def now(self) -> datetime:
        """The wall-clock time in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def back_off(pace: tuple[float, float], earlier: int) -> float:
    """Returns the seconds to wait before the next try.

    The first pause of `pace` is doubled for each of the `earlier` pauses, up to the longest pause of `pace`.
    `earlier` may be any integer; below 0 it counts as 0.
    """
    shortest, longest = pace
    return min(longest, shortest * 2.0 ** min(max(earlier, 0), _DOUBLED))


async def first(*parts: Coroutine[Any, Any, T]) -> T:
    """Runs these until one is done and returns its result; the earlier one's, if several are done.

    The others are cancelled, and have ended when this returns. Raises what one of them has raised.
    """
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        winner = next(task for task in tasks if task.done())
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    result = winner.result()
    for task in tasks:
        if not task.cancelled():
            task.result()  # raises its error
    return result
