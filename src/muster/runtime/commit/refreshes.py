"""Which gangs may write their reason again, within the budget of all refreshes (`runtime.budget`).

The first reason of a gang is written at once, as is a new phase. Whatever changes after that waits for its
turn. Namespaces take turns, so that the gangs of one tenant, however many, hold up no other. Of one namespace
reasons of another code come before those that only have other figures, and of each those that have waited
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
        #: by namespace of gangs that wait, the next one first; the inner dicts are sets that keep their order
        self._waiting: dict[str, dict[Refresh, dict[GangId, None]]] = {}
        self._granted: set[GangId] = set()

    def want(self, gang: GangId, refresh: Refresh) -> None:
        """Queues a gang, which keeps its turn; one that waits for less moves up."""
        mine = self._waiting.setdefault(_namespace(gang), {each: {} for each in Refresh})
        if refresh is Refresh.REASON:
            mine[Refresh.FIGURES].pop(gang, None)
        elif gang in mine[Refresh.REASON]:
            return
        mine[refresh].setdefault(gang)

    def due(self, now: float) -> Iterator[GangId]:
        """Yields the gangs whose turn it is now."""
        while self._waiting and self._budget.take(Writer.GANGS, now):
            namespace = next(iter(self._waiting))
            mine = self._waiting.pop(namespace)
            waiting = next(each for each in mine.values() if each)
            gang = next(iter(waiting))
            del waiting[gang]
            if any(mine.values()):
                self._waiting[namespace] = mine
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
        namespace = _namespace(gang)
        mine = self._waiting.get(namespace, {})
        for waiting in mine.values():
            waiting.pop(gang, None)
        if not any(mine.values()):
            self._waiting.pop(namespace, None)

    def next(self) -> float | None:
        """Returns when the next turn is, if a gang waits for one."""
        return self._budget.next(Writer.GANGS) if self._waiting else None


def _namespace(gang: GangId) -> str:
    return gang.partition("/")[0] if "/" in gang else ""
