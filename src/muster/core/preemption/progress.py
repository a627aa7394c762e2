"""How far a search for victims has come, as it may be interrupted and go on in a later cycle.

A search among thousands of gangs for one with constraints can take seconds, and each cycle has other gangs
to serve. So a search has a number of steps (`core/work.py`) in a cycle, and is a sequence of parts, each of
which is made at once: for each table of candidates the priorities up to which they are considered, and for
each of these, where sets of victims are tried one by one, the sets. The next cycle goes on with the next
part, even if the world has changed since: a search that began anew after each change might never end.
"""

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(slots=True)
class Progress:
    #: tables of candidates that were searched in vain; levels of the next one; and sets of its next level
    tables: int = 0
    levels: int = 0
    sets: int = 0
    #: some gang is protected against eviction that the preemptor's queue need not heed
    differs: bool = False
    #: the versions of all that decides about victims, as it began
    since: Hashable = None
    #: the cycle in which it was interrupted last
    cycle: int = 0
    #: it was interrupted
    unfinished: bool = False
    #: `Nodes.steps` after which nothing new is tried, and after which `Fit` is not asked any more
    _until: int = 0
    _most: int = 0

    def go_on(self, now: int, steps: int) -> None:
        """Begin, or go on: so many steps until nothing new is tried, and as many to complete what was."""
        self.unfinished, self._until, self._most = False, now + steps, now + 2 * steps

    def over(self, now: int) -> bool:
        return now > self._until

    def spent(self, now: int) -> bool:
        return now > self._most
