"""The time of the event loop as a clock, which looptime makes virtual."""

import asyncio
from datetime import datetime, timedelta

from tests.controllers.memory import START


class LoopClock:
    """Begins at `START`."""

    def now(self) -> datetime:
        return START + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
