"""The search budget: which demands are served, where a cycle does some work for a few demands only."""

from collections.abc import Iterator
from contextlib import contextmanager

from muster.core.demand import Demand


class SearchBudget:
    """Decides which demands are served in this cycle: waiting ones by arrival, then the first to ask.

    Of n demands that ask in every cycle, each is served at least every ⌈n / turns⌉ cycles. A demand that
    does not ask for a whole cycle loses its position. So the order depends only on which demands asked, and
    in particular not on when an unreferenced object is freed.
    """

    def __init__(self, turns: int) -> None:
        self._turns = self._left = turns
        #: how many cycles have begun
        self.cycle = 0
        #: turns outside the budget (`lending`)
        self.lent = 0
        self._now: set[Demand] = set()
        #: waiting demands in order of arrival, and whether each has asked in this cycle
        self._waiting: dict[Demand, bool] = {}

    def next_cycle(self) -> None:
        self.cycle += 1
        if self._left == self._turns:
            return  # nothing has asked
        waiting = [demand for demand, asked in self._waiting.items() if asked]
        self._now = set(waiting[: self._turns])
        self._waiting = dict.fromkeys(waiting[self._turns :], False)
        self._left = self._turns - len(self._now)

    def take(self, demand: Demand) -> bool:
        """Whether this demand is served now. Call it once per demand and cycle."""
        if self.lent > 0:
            self.lent -= 1
            return True
        if demand in self._now:
            self._now.remove(demand)
            return True
        if demand in self._waiting or not self._left:
            self._waiting[demand] = True
            return False
        self._left -= 1
        return True

    @contextmanager
    def lending(self, turns: int) -> Iterator[None]:
        """Lend turns to a caller that asks several times about one demand (for victims, or a time)."""
        before, self.lent = self.lent, turns
        try:
            yield
        finally:
            self.lent = before

    @property
    def behind(self) -> bool:
        """Whether demands wait for a later cycle."""
        return not self._left and bool(self._waiting)  # nothing waits as long as there are turns left
