"""A queue of keys to reconcile: each waits at most once, and is never with two workers at a time.

Adding a key that already waits changes nothing; a key that is added while a worker has it returns to the
queue when that worker is done. So however many changes a key sees, one reconcile handles all of them, and
its worker always has it alone.
"""

import asyncio
from collections import deque
from typing import Generic, TypeVar

K = TypeVar("K")


class WorkQueue(Generic[K]):
    def __init__(self) -> None:
        self._line: deque[K] = deque()
        self._waiting: set[K] = set()
        self._taken: set[K] = set()
        self._again: dict[K, None] = {}  # a set in order
        self._idle_workers: deque[asyncio.Future[None]] = deque()

    def add(self, key: K) -> None:
        if key in self._taken:
            self._again[key] = None
        elif key not in self._waiting:
            self._waiting.add(key)
            self._line.append(key)
            self._wake()

    async def take(self) -> K:
        """Returns the next key; the caller must hand it back with `done`."""
        while not self._line:
            turn = asyncio.get_running_loop().create_future()
            self._idle_workers.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done():  # woken and cancelled at once: another worker takes the key
                    self._wake()
                raise
        key = self._line.popleft()
        self._waiting.remove(key)
        self._taken.add(key)
        return key

    def done(self, key: K) -> None:
        self._taken.remove(key)
        if key in self._again:
            del self._again[key]
            self.add(key)

    def _wake(self) -> None:
        while self._idle_workers:
            turn = self._idle_workers.popleft()
            if not turn.done():
                turn.set_result(None)
                return
