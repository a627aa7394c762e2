"""How far a search for victims has come, as it may be interrupted and go on in a later cycle.

A search among thousands of gangs for one with constraints can take seconds, and each cycle has other gangs
to serve. So a search has a number of steps (`core/work.py`) in a cycle. Tables of candidates, and priorities
up to which they are considered, that were searched in vain are left out by the next cycle. It repeats the
arithmetic of the one that it was at, but asks `Fit` nothing twice: so it comes to where it was, and goes on
from there. That holds even if the world has changed since: a search that began anew after each change might
never end. Only where the gang goes without the victims that are returned is asked again.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field


class Interrupted(Exception):
    """The steps of a search in this cycle are used up."""


@dataclass(slots=True)
class Progress:
    #: all is to be found at once: what there are no steps for is left out
    at_once: bool = False
    #: tables of candidates that were searched in vain, and levels of the next one
    tables: int = 0
    levels: int = 0
    #: of the next table, by ground and set of victims, whether the gang fits there without them
    known: dict[tuple[int, int], bool] = field(default_factory=dict)
    #: of the next level, the grounds on which no way was found
    vain: set[int] = field(default_factory=set)
    #: some gang is protected against eviction that the preemptor's queue need not heed
    differs: bool = False
    #: the versions of all that decides about victims, as it began
    since: Hashable = None
    #: the cycle in which it was interrupted last
    cycle: int = 0
    #: it was interrupted
    unfinished: bool = False
    #: one of `known` or `vain` is of this cycle, so that each cycle comes farther
    _learned: bool = False
    #: `Nodes.steps` after which nothing new is tried, and after which `Fit` is not asked any more
    _until: int = 0
    _most: int = 0

    def go_on(self, now: int, steps: int) -> None:
        """Begin, or go on: so many steps until nothing new is tried, and as many to complete what was."""
        self.unfinished, self._learned = False, False
        self._until, self._most = now + steps, now + 2 * steps

    def next_table(self, number: int) -> None:
        """Leave out so many tables from now on."""
        self.tables, self.levels = number, 0
        self.known.clear()
        self.vain.clear()

    def next_level(self) -> None:
        self.levels += 1
        self.vain.clear()

    def learn(self, key: tuple[int, int], fits: bool) -> None:
        self.known[key] = fits
        self._learned = True

    def give_up(self, ground: int) -> None:
        self.vain.add(ground)
        self._learned = True

    def over(self, now: int) -> bool:
        return now > self._until

    def asks(self, now: int) -> bool:
        """Whether `Fit` is asked once more. Raises `Interrupted` if that is for a later cycle."""
        return now <= self._most or self._presses_on()

    def tries(self, now: int) -> bool:
        """Whether more is tried where nothing was found. Raises `Interrupted` like `asks`."""
        return now <= self._until or (self._presses_on() and now <= self._most)

    def rest(self, now: int) -> None:
        """Raise `Interrupted` if nothing new is tried in this cycle."""
        if now > self._until:
            self._presses_on()

    def _presses_on(self) -> bool:
        """Whether the search goes on though its steps are used up, as nothing has come of them yet."""
        if self._learned and not self.at_once:
            raise Interrupted
        return not self._learned
