"""Whose turn it is, where a cycle has work of some kind for a few wants only."""

from muster.core.placement import Want


class Rota:
    """Which wants may have problems solved in this cycle: those that have been waiting for it, in order of
    arrival, then those that ask first.

    Of n wants that ask in every cycle each has its turn at least every ⌈n / turns⌉ cycles. A want that does
    not ask for a whole cycle loses its place in the order. So the order depends on what was asked and on
    nothing else, in particular not on when an object that nothing refers to is freed.
    """

    def __init__(self, turns: int) -> None:
        self._turns = self._left = turns
        self._now: set[Want] = set()
        #: in order of arrival, and whether each has asked in this cycle
        self._waiting: dict[Want, bool] = {}

    def next_cycle(self) -> None:
        if self._left == self._turns:
            return  # nothing has asked
        waiting = [want for want, asked in self._waiting.items() if asked]
        self._now = set(waiting[: self._turns])
        self._waiting = dict.fromkeys(waiting[self._turns :], False)
        self._left = self._turns - len(self._now)

    def take(self, want: Want) -> bool:
        if want in self._now:
            self._now.remove(want)
            return True
        if want in self._waiting or not self._left:
            self._waiting[want] = True
            return False
        self._left -= 1
        return True

    @property
    def behind(self) -> bool:
        return not self._left and bool(self._waiting)  # nothing waits as long as there are turns left
