"""Computes when gangs would start, as far as the ends of others are known, by simulation.

Nothing arrives and nothing fails. Gangs end when they are expected to, by their limit or their estimate; a
gang that has neither never ends. After the ends of one instant the scheduler decides, and the gangs that it
assigns count as running from then on. The simulation uses the scheduler up.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from math import inf
from operator import itemgetter
from typing import Final

from muster.core.cycle import Scheduler
from muster.core.words.decisions import Assign, Decision, Evict
from muster.core.words.events import GangRemoved, GangSubmitted, PodsEnded
from muster.core.words.gang import GangId

#: Instants at which gangs end that are simulated at most.
MOST_ENDS: Final = 1000
#: Cycles at one instant at most.
CYCLES: Final = 100


def cycles(core: Scheduler, now: float) -> Iterator[list[Decision]]:
    """The decisions of each cycle at one instant, until one changes nothing and leaves the next nothing."""
    for _ in range(CYCLES):
        decisions = core.decide(now)
        yield decisions
        if not (core.behind or any(isinstance(decision, Assign | Evict) for decision in decisions)):
            break


def starts(
    core: Scheduler, decided: Iterable[Decision], now: float, wanted: set[GangId]
) -> dict[GangId, float]:
    """The start times of the gangs of `wanted` that start, in seconds since the epoch.

    `decided`: the decisions that are carried out at `now`.
    """
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
        now, ending = next(groupby(core.world.completions.after(now), key=itemgetter(0)), (inf, ()))
        if now == inf or not left:
            break
        for gang in [state.id for _, state in ending]:
            _end(core, gang, now)
        decided = [decision for cycle in cycles(core, now) for decision in cycle]
    return found


def _end(core: Scheduler, gang: GangId, now: float) -> None:
    pods = tuple(core.world.gangs[gang].pods)
    core.apply(GangRemoved(gang))
    core.apply(PodsEnded(pods, now))


def _leave(core: Scheduler, evict: Evict, now: float) -> None:
    """Removes victims immediately; whole gangs are requeued."""
    for victim in evict.victims:
        state = core.world.gangs.get(victim.gang)
        if state is None or state.gang is None:
            continue
        if victim.pods:
            core.apply(PodsEnded(tuple(sorted(victim.pods)), now))
        else:
            gang = state.gang
            _end(core, victim.gang, now)
            core.apply(GangSubmitted(gang))
