"""The budget of refreshes: the API writes of a scheduler that only update what is shown of waiting gangs.

Each change of capacity can change the reasons of ten thousand waiting gangs, the conditions of their pods,
the statuses of queues and of the topology, and Events. The first reason of a gang is written at once. Each
later write is a refresh. All refreshes of a scheduler share one token bucket, so the API server receives at
most `RATE` of them a second after a burst of `BURST`. Writers take turns: a writer gets a token only if one
remains for each writer that was refused before it.
"""

from enum import Enum
from typing import Final

#: Refreshes a second, and the size of the bucket: how many may follow each other at once after a pause.
RATE: Final = 4.0
BURST: Final = 20.0
#: A token this complete counts as one: rounding must not refuse a timer that fires exactly when `next` said.
_ALMOST: Final = 1.0 - 1e-6


class Writer(Enum):
    """The writers that share the budget."""

    GANGS = "gangs"
    CONDITIONS = "conditions"
    QUEUES = "queues"
    TOPOLOGY = "topology"
    EVENTS = "events"


class WriteBudget:
    """A token bucket. Times are Unix seconds."""

    def __init__(self) -> None:
        self._left, self._at = BURST, 0.0
        #: the writers refused since their last token, in that order; a dict as an ordered set
        self._waiting: dict[Writer, None] = {}

    def take(self, writer: Writer, now: float) -> bool:
        """Takes a token. Returns False, and takes none, if the writer may not make a refresh now."""
        self._left = min(BURST, self._left + max(now - self._at, 0.0) * RATE)
        self._at = now
        if self._left < self._ahead(writer) + _ALMOST:
            self._waiting.setdefault(writer)
            return False
        self._waiting.pop(writer, None)
        self._left -= 1.0
        return True

    def next(self, writer: Writer) -> float:
        """Returns the earliest time at which `take` may succeed, as far as is known now."""
        return self._at + max(self._ahead(writer) + 1.0 - self._left, 0.0) / RATE

    def _ahead(self, writer: Writer) -> int:
        """Returns how many writers were refused before this one; one token is left for each."""
        waiting = list(self._waiting)
        return waiting.index(writer) if writer in self._waiting else len(waiting)
