"""The order of concurrent writes: what a start waits for goes first.

A busy API server divides its time among the requests under way. Therefore writes that only report have few
slots of their own, and the write that closes the plan of a bound gang waits until no other gang is being
bound, but for `LONGEST` at most. A plan that stays open for that long does no harm: if the leader dies, the
next one closes it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from muster.runtime.writes import Write, closes

#: Most writes under way at once: of those that only report, and of the others.
REPORTS: Final = 16
WRITES: Final = 64
#: Seconds for which a plan may stay open because other gangs are being bound.
LONGEST: Final = 1.0


class Lanes:
    def __init__(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._sleep = sleep
        self._slots, self._reports = asyncio.Semaphore(WRITES), asyncio.Semaphore(REPORTS)
        #: writes that starts wait for: how many are under way, or wait for a slot
        self._urgent = 0
        self._lull = asyncio.Event()

    @asynccontextmanager
    async def turn(self, write: Write, *, reports: bool = False) -> AsyncIterator[None]:
        """Waits until the write may be made; it is being made within the context."""
        if reports:
            async with self._reports:
                yield
            return
        if closes(write):
            if self._urgent:
                await self._until_lull()
            async with self._slots:
                yield
            return
        self._urgent += 1
        self._lull.clear()
        try:
            async with self._slots:
                yield
        finally:
            self._urgent -= 1
            if not self._urgent:
                self._lull.set()

    async def _until_lull(self) -> None:
        lull = asyncio.ensure_future(self._lull.wait())
        timer = asyncio.ensure_future(self._sleep(LONGEST))
        try:
            await asyncio.wait({lull, timer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            lull.cancel()
            timer.cancel()
