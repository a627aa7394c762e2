"""When gangs would start, as far as it is known when others end: the scheduler itself, a little further on.

Nothing arrives any more and nothing fails. Gangs end when they are expected to, by their limit or their
estimate; one of which neither is known never does. After the ends of one time the scheduler decides, and what
it assigns is taken to run from then on. The scheduler is used up by it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from math import inf
from operator import itemgetter
from typing import Final

from muster.core.decisions import Assign, Decision, Evict
from muster.core.events import GangRemoved, GangSubmitted, PodsEnded
from muster.core.gang import GangId
from muster.core.scheduler import Scheduler

#: Times of ends that are looked at.
MOST_ENDS: Final = 1000
#: Cycles at one time.
CYCLES: Final = 100


def cycles(core: Scheduler, now: float) -> Iterator[list[Decision]]:
    """The decisions of each cycle at one time, until one changes nothing and leaves nothing to the next."""
    for _ in range(CYCLES):
        decisions = core.decide(now)
        yield decisions
        if not (core.behind or any(isinstance(decision, Assign | Evict) for decision in decisions)):
            break


def starts(
    core: Scheduler, decided: Iterable[Decision], now: float, wanted: set[GangId]
) -> dict[GangId, float]:
    """When those of `wanted` start that do, in seconds since the epoch. `decided`: what is done at `now`."""
    core.config = replace(core.config, explain=False)
    left = set(wanted)
    found: dict[GangId, float] = {}
    for _ in range(MOST_ENDS):
        for decision in decided:
            match decision:
                case Assign(gang=gang) if gang in left:
                    left.remove(gang)
                    found[gang] = now
                case Evict():
                    _leave(core, decision, now)
        core.settle()
        now, ending = next(groupby(core.ends.after(now), key=itemgetter(0)), (inf, ()))
        if now == inf or not left:
            break
        for gang in [state.id for _, state in ending]:
            _end(core, gang, now)
        decided = [decision for cycle in cycles(core, now) for decision in cycle]
    return found


def _end(core: Scheduler, gang: GangId, now: float) -> None:
    pods = tuple(core.gangs[gang].pods)
    core.apply(GangRemoved(gang))
    core.apply(PodsEnded(pods, now))


def _leave(core: Scheduler, evict: Evict, now: float) -> None:
    """Victims are gone at once; whole gangs wait again."""
    for victim in evict.victims:
        state = core.gangs.get(victim.gang)
        if state is None or state.gang is None:
            continue
        if victim.pods:
            core.apply(PodsEnded(tuple(sorted(victim.pods)), now))
        else:
            gang = state.gang
            _end(core, victim.gang, now)
            core.apply(GangSubmitted(gang))
