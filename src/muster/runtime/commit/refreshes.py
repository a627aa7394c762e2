"""Which gangs may write their reason again, within the budget of all refreshes (`runtime.budget`).

The first reason of a gang is written at once, as is a new phase. Whatever changes after that waits for its
turn: reasons of another code before those that only have other figures, and of each those that have waited
longest.
"""

from collections.abc import Iterator
from enum import Enum

from muster.core.words.gang import GangId
from muster.runtime.budget import WriteBudget, Writer


class Refresh(Enum):
    """What is to be written again."""

    #: the reason has another code
    REASON = "reason"
    #: the same reason has other figures
    FIGURES = "figures"


class Refreshes:
    """The gangs that wait for their turn, and those whose turn it is."""

    def __init__(self, budget: WriteBudget) -> None:
        self._budget = budget
        #: dicts as sets that keep their order
        self._waiting: dict[Refresh, dict[GangId, None]] = {each: {} for each in Refresh}
        self._granted: set[GangId] = set()

    def want(self, gang: GangId, refresh: Refresh) -> None:
        """Queues a gang, which keeps its turn; one that waits for less moves up."""
        if refresh is Refresh.REASON:
            self._waiting[Refresh.FIGURES].pop(gang, None)
        elif gang in self._waiting[Refresh.REASON]:
            return
        self._waiting[refresh].setdefault(gang)

    def due(self, now: float) -> Iterator[GangId]:
        """Yields the gangs whose turn it is now."""
        for waiting in self._waiting.values():
            while waiting and self._budget.take(Writer.GANGS, now):
                gang = next(iter(waiting))
                del waiting[gang]
                self._granted.add(gang)
                yield gang

    def take(self, gang: GangId) -> bool:
        """Returns whether it is the gang's turn, which is over with that."""
        if gang not in self._granted:
            return False
        self._granted.discard(gang)
        return True

    def forget(self, gang: GangId) -> None:
        self._granted.discard(gang)
        for waiting in self._waiting.values():
            waiting.pop(gang, None)

    def next(self) -> float | None:
        """Returns when the next turn is, if a gang waits for one."""
        return self._budget.next(Writer.GANGS) if any(self._waiting.values()) else None
