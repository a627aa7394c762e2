"""The budget of writes that only bring statuses up to date: one for all that a scheduler tells of what waits.

While capacity changes, so do the reasons of waiting gangs, the conditions of their pods, the statuses of
queues, and Events, some times a second and for ten thousand gangs. The first reason of each is written at
once. Everything after that is a refresh, and all refreshes share this budget, so that the API server has at
most `RATE` of them a second. The writers take turns: what one of them may take leaves enough for those that
asked before it.
"""

from enum import Enum
from typing import Final

#: Refreshes a second, and those that may be made at once after a quiet time.
RATE: Final = 4.0
BURST: Final = 20.0
#: A bucket this full is full: a timer that is due to the last bit must not come early.
_ALMOST: Final = 1.0 - 1e-6


class Writer(Enum):
    """What the refreshes are of."""

    GANGS = "gangs"
    CONDITIONS = "conditions"
    QUEUES = "queues"
    TOPOLOGY = "topology"
    EVENTS = "events"


class WriteBudget:
    """A token bucket. Times are Unix seconds."""

    def __init__(self) -> None:
        self._left, self._at = BURST, 0.0
        #: the writers that have asked in vain since they last got something, in that order; a dict as a set
        self._waiting: dict[Writer, None] = {}

    def take(self, writer: Writer, now: float) -> bool:
        """Returns whether the writer may make one refresh now, which is then counted."""
        self._left = min(BURST, self._left + max(now - self._at, 0.0) * RATE)
        self._at = now
        if self._left < self._ahead(writer) + _ALMOST:
            self._waiting.setdefault(writer)
            return False
        self._waiting.pop(writer, None)
        self._left -= 1.0
        return True

    def next(self, writer: Writer) -> float:
        """Returns when the writer may take something, as far as is known now."""
        return self._at + max(self._ahead(writer) + 1.0 - self._left, 0.0) / RATE

    def _ahead(self, writer: Writer) -> int:
        """How many others have asked before this writer; it leaves them one each."""
        waiting = list(self._waiting)
        return waiting.index(writer) if writer in self._waiting else len(waiting)
