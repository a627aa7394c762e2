"""Whose turn it is, where a cycle has work of some kind for a few wants only."""

from weakref import WeakKeyDictionary

from muster.core.placement import Want


class Rota:
    """Who may have problems solved in this cycle: those that have been waiting for it, then who asks first.

    Of n wants that all need it each has its turn at least every ⌈n / turns⌉ cycles.
    """

    def __init__(self, turns: int) -> None:
        self._turns = self._left = turns
        self._now: set[Want] = set()
        #: in order of arrival; wants that nobody remembers drop out
        self._waiting: WeakKeyDictionary[Want, None] = WeakKeyDictionary()

    def next_cycle(self) -> None:
        if self._left == self._turns:
            return  # nobody has asked
        self._now = set(list(self._waiting)[: self._turns]) if self._waiting else set()
        for want in self._now:
            del self._waiting[want]
        self._left = self._turns - len(self._now)

    def take(self, want: Want) -> bool:
        if want in self._now:
            self._now.remove(want)
            return True
        if want in self._waiting or not self._left:
            self._waiting.setdefault(want)
            return False
        self._left -= 1
        return True

    @property
    def behind(self) -> bool:
        return not self._left and bool(self._waiting)  # nobody waits as long as there are turns left
