"""Finds the victims without which a gang fits, at the least loss.

docs/concepts/preemption.md ("How victims are chosen") says which set of victims is the best;
docs/internals/scheduling.md ("How victims are searched") says with which limits it is searched. Every
returned set has been checked: the preemptor fits afterwards, with all that `Fit` checks, and the victims keep
their limits (`eviction_units.py`) as a whole. To find the very best is set covering, which is hard; so, after
Dobson's greedy for covering integer programs and the reprieve of kube-scheduler's preemption:

- *level*: how many pods would fit if all candidates up to a priority left is a sum of slots, which only
  grows with the priority: bisection finds the lowest that could do, and `Fit` confirms it or goes on.
- *affinity*: if there are few sets of victims, those that leave a gang room and the pods it needs
  (`affinity_dependents.py`) are tried one by one, the cheapest first.
- *ground*: domains are tried in the order of a lower bound of what clearing them loses, `DOMAINS` at most,
  until the next bound exceeds the least loss found.
- *greedy*: take the unit that frees most slots relative to the work that it loses, until the slots suffice. A
  fraction of a slot counts a little, or jobs that share a node would never look worth taking; two weights are
  tried. If that violates the limits, take what frees most for the fewest pods.
- *reprieve*: spare victims, the most costly first, as long as the preemptor still fits.
- *fits*: slots are checked first, which is arithmetic (`slot_bounds.py`). For pods of one shape that need
  nothing but capacity they are sufficient. Otherwise `Fit` decides, in a trial, a limited number of times
  (`checks.py`).
- *exchange*: for each victim, the most costly first, look for others that do the same for less; then begin
  with each of those that were not chosen. Only if there are few candidates.

A search may take so many steps at once (`progress.py`). Then it tries no more alternatives to what it has
found. Before it has found anything, or spared what is not needed, it is interrupted, and goes on later.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice, takewhile
from typing import Final

import numpy as np

from muster.core.demand import Request
from muster.core.placement import Fit
from muster.core.preemption.affinity_dependents import AffinityDependents
from muster.core.preemption.checks import Checks
from muster.core.preemption.eviction_units import Limits, Quota, UnitTable
from muster.core.preemption.progress import Interrupted, Progress
from muster.core.preemption.slot_bounds import SlotBounds
from muster.core.words.decisions import Victim
from muster.core.words.gang import Place
from muster.core.world import World
from muster.core.world.nodes import Bools

#: Domains that one search tries to clear, for each priority.
DOMAINS: Final = 16
#: Problems that one search may have solved exactly, for gangs of several shapes or with constraints; for a
#: gang that may need some pods to stay, `SMALL` divided by the number of nodes, if that is more.
PROBLEMS: Final = 20
SMALL: Final = 2_400
#: Sets of victims, times nodes, that are examined for a gang that may need some pods to stay.
SETS: Final = 100_000
#: Of the sets that leave it room and the pods it needs, how many are tried.
ASKED: Final = 200
#: Exchanges, or other beginnings, tried in one search, and all of them times the units there are.
EXCHANGES: Final = 60
EFFORT: Final = 500
#: What a whole slot's worth of fractions counts, in slots.
FRACTIONS: Final = (0.25, 1.0)
#: Exchanges are tried only among at most so many units: among more they rarely gain a hundredth. The same
#: limit holds for choosing victims of a gang that does not fit with all gone.
FEW: Final = 100


@dataclass(frozen=True, slots=True)
class Victims:
    """Gangs that are evicted, wholly or in part, and where the preemptor fits without them."""

    gangs: tuple[Victim, ...]
    #: places → columns
    placed: dict[Place, int]


def find(
    request: Request,
    table: UnitTable,
    allow: Limits,
    quota: Quota,
    world: World,
    fit: Fit,
    progress: Progress,
) -> Victims | None:
    """The victims among these units; None if no set of them makes room, or if the search is interrupted.

    The ledger stays as it is.
    """
    grounds = fit.grounds(request)
    if not grounds:
        return None  # the gang fits on no node
    alone = world.exclusive_domains.alone(request.demand)
    bounds = SlotBounds(request, world.nodes, world.eligibility, table, quota, grounds, alone)
    dependents, problems = None, PROBLEMS
    if request.demand.helped_by_arrivals:
        problems = max(PROBLEMS, SMALL // max(1, len(world.nodes)))  # no node may be known yet
        dependents = AffinityDependents(request, bounds.shapes, table, world)
    whole = Ground(Checks(request, table, allow, world, fit, dependents, progress), bounds, request)
    try:
        with fit.exact.lending(problems):
            return _found(whole, islice(_levels(bounds, table), progress.levels, None), progress)
    except Interrupted:
        progress.unfinished = True
        return None


def _found(whole: "Ground", levels: Iterator[Bools], progress: Progress) -> Victims | None:
    best = _first(whole, levels, progress)
    if best is None:
        return None
    # Spare victims that are not needed after all, as the gang fits elsewhere without them.
    chosen = best.chosen if best.ground is whole else _reprieve(whole, best.chosen)
    placed = whole.placed(chosen)
    if placed is None:
        chosen, placed = best.chosen, best.ground.placed(best.chosen)
    if placed is None:  # it did fit in an earlier cycle
        progress.unfinished = not whole.checks.by_slots
        return None
    return Victims(tuple(whole.table.victims(chosen)), placed)


def _first(whole: "Ground", levels: Iterator[Bools], progress: Progress) -> "_Way | None":
    """The best way of the first of these levels that has any; None, too, if the search is interrupted."""
    for usable in levels:
        best = _best(whole, usable, progress)
        if best is not None or progress.unfinished:
            return best
        progress.next_level()
        if whole.checks.over:
            progress.unfinished = True
            return None
    return None


def _levels(bounds: SlotBounds, table: UnitTable) -> Iterator[Bools]:
    """The units to choose from, lowest priority first: surplus alone, then all."""
    priorities = sorted({candidate.gang.priority for candidate in table.candidates})
    low, high = 0, len(priorities)
    while low < high:
        middle = (low + high) // 2
        if bounds.enough(table.priority <= priorities[middle]):
            high = middle
        else:
            low = middle + 1
    for priority in priorities[low:]:
        usable: Bools = table.priority <= priority
        surplus: Bools = usable & ~table.core
        if surplus.any():
            yield surplus
        yield usable


class Ground:
    """One ground, and the units whose end makes room there."""

    def __init__(self, checks: Checks, bounds: SlotBounds, request: Request) -> None:
        self.bounds = bounds
        self.table, self.allow = checks.table, checks.allow
        self.checks, self._request = checks, request
        self.number = 0 if request.excluded is None else hash(request.excluded.tobytes())

    def inside(self, rank: int, number: int) -> "Ground":
        """One domain of this ground."""
        columns = np.flatnonzero(self.bounds.grounds[rank] == number)
        if len(columns) == self.table.columns:
            return self
        outside = np.ones(self.table.columns, np.bool_)
        outside[columns] = False
        request = self._request.keeping_off(np.flatnonzero(outside))
        return Ground(self.checks, self.bounds.within(columns), request)

    def fits(self, taken: Bools) -> bool:
        """Whether the preemptor fits once these units are gone. Also False after too many checks."""
        return self.bounds.enough(taken) and self.fits_given_slots(taken)

    def fits_given_slots(self, taken: Bools) -> bool:
        """Whether it fits, given that the slots suffice."""
        return self.checks.by_slots or self.checks.fits(self.number, self._request, taken)

    def placed(self, taken: Bools) -> dict[Place, int] | None:
        """Where it is placed once these units are gone."""
        return self.checks.place(self.number, self._request, taken)

    def choice(self, usable: Bools) -> Bools | None:
        """Which of these units to choose from; None: nothing shows that it fits, whichever are taken.

        The units that free something here, of which some may have to stay if there are few; or all, as pods
        elsewhere may keep the gang off; or those on which its affinity and spread do not depend.
        """
        here: Bools = usable & self.bounds.reach
        if not self.bounds.attainable(here):
            return None
        dependents = self.checks.dependents
        few = dependents is not None and len(self.table) <= FEW
        if self.fits(here) or (few and self.bounds.enough(here)):
            return here
        if self.checks.far and self.fits(usable):
            return usable
        if dependents is not None:
            independent = usable & ~self.table.from_on(dependents.needed)
            return independent if self.fits(independent) else None
        return None

    def sets(self, usable: Bools, most: int) -> list[Bools] | None:
        """All sets of these units without which the gang has room and its affinity holds, cheapest first.

        None: for gangs that need no pod to stay, and if sets times nodes are more than `most`.
        """
        dependents = self.checks.dependents
        sets = self.table.sets(usable, most // self.table.columns) if dependents is not None else None
        if dependents is None or sets is None:
            return None
        return list(filter(self.allow, sets[self.bounds.enough_each(sets, dependents)]))


@dataclass(frozen=True, slots=True)
class _Way:
    """Units whose end makes room on some ground, and the units from which they were chosen."""

    ground: Ground
    usable: Bools
    chosen: Bools
    #: the tightest ground first
    rank: int

    @property
    def cost(self) -> tuple[float, int, int, int, int]:
        table = self.ground.table
        return *table.cost(self.chosen), self.rank, table.order(self.chosen)


def _best(whole: Ground, usable: Bools, progress: Progress) -> _Way | None:
    sets = whole.sets(usable, SETS)
    if sets is not None:
        fitting = next(filter(whole.fits, sets[:ASKED]), None)
        if fitting is not None or len(sets) <= ASKED:
            return None if fitting is None else _Way(whole, usable, fitting, 0)
    if whole.choice(usable) is None:
        return None
    ways: list[_Way] = []
    for ground, rank, least in _grounds(whole, usable):
        if ways and (least > min(way.cost for way in ways)[0] or whole.checks.over):
            break
        if ground.number in progress.vain:
            continue
        try:
            some = ground.choice(usable)
            chosen = None if some is None else _chosen(ground, some)
        except Interrupted:
            if ways:
                break
            raise
        if some is not None and chosen is not None:
            ways.append(_Way(ground, some, chosen, rank))
            continue
        progress.give_up(ground.number)
        if not ways:
            whole.checks.rest()
    left = _exchanges(whole.table) if len(whole.table) <= FEW else 0
    for way in sorted(ways, key=lambda way: way.cost):
        chosen, left = _exchange(way, left if not whole.checks.over else 0)
        ways.append(replace(way, chosen=chosen))
    return min(ways, key=lambda way: way.cost, default=None)


def _grounds(whole: Ground, usable: Bools) -> Iterator[tuple[Ground, int, float]]:
    """The domains to try, by their lower bound of the loss, ties to the tighter."""
    found = [
        (least, rank, number)
        for rank in range(len(whole.bounds.grounds))
        for number, least in whole.bounds.least_losses(rank, usable)
    ]
    for least, rank, number in sorted(found)[:DOMAINS]:
        yield whole.inside(rank, number), rank, least


def _chosen(ground: Ground, usable: Bools) -> Bools | None:
    table, best = ground.table, None
    none = np.zeros(len(table), np.bool_)
    for fraction in FRACTIONS:
        if ground.checks.over and fraction != FRACTIONS[0]:
            break
        chosen = _greedy(ground, usable, none, fraction)
        if chosen is not None:
            best = _better(table, _reprieve(ground, chosen), best)
    if best is not None:
        return best
    # What loses least has used up what the limits allow.
    starts = chain([none], islice(table.prefixes(usable), _exchanges(table)))
    some = takewhile(lambda _: ground.checks.tries, starts)
    tries = (_greedy(ground, usable, start, FRACTIONS[0], fewest=True) for start in some)
    chosen = next((taken for taken in tries if taken is not None), None)
    if chosen is None:
        chosen = _least(ground, usable)
    return None if chosen is None else _reprieve(ground, chosen)


def _greedy(
    ground: Ground, usable: Bools, start: Bools, fraction: float, *, fewest: bool = False
) -> Bools | None:
    """Take units one after the other until the preemptor fits; all of them, if nothing less suffices.

    `fewest`: minimize the number of pods, not what is lost.
    """
    table, allow = ground.table, ground.allow
    if not allow(start):
        return None
    lost = table.pods.astype(np.float64) if fewest else table.lost
    for number, taken in enumerate(ground.bounds.picks(usable, start, fraction, lost, allow)):
        # Where slots are not sufficient more has to be taken, so `Fit` is asked at growing distances.
        if number & (number - 1) == 0 and ground.fits_given_slots(taken):
            return taken
    return usable if table.holds(usable) and allow(usable) and ground.fits(usable) else None


def _least(ground: Ground, usable: Bools) -> Bools | None:
    """Of more surplus than the gangs can spare, a part that suffices and that they can spare."""
    if ground.table.holds(usable) or not ground.fits(usable):
        return None
    some = _spare(ground, usable, usable & ~ground.table.core)
    return some if ground.table.holds(some) and ground.allow(some) else None


def _reprieve(ground: Ground, chosen: Bools) -> Bools:
    """Spare gangs, the most costly first: all units of one, else all units that are not needed.

    A gang that would be evicted as a whole gives up surplus instead if that suffices.
    """
    table = ground.table
    for gang in table.dearest(chosen):
        mine = chosen & (table.gang == gang)
        if ground.fits(fewer := chosen & ~mine):
            chosen = fewer
            continue
        surplus = mine & ~table.core
        if surplus.any() and ground.fits(fewer := chosen & ~(mine & table.core)):
            fewer = _spare(ground, fewer, surplus)
            if table.holds(fewer):
                chosen = fewer
    return chosen


def _spare(ground: Ground, chosen: Bools, some: Bools) -> Bools:
    """Spare those of some units that are not needed: the most costly first, then the lowest index.

    Many are tried at once, and by halves if they are not all spared.
    """
    units = np.flatnonzero(chosen & some)
    left = [units[np.lexsort((-units, -ground.table.lost[units]))]]
    while left:
        tried = left.pop()
        if not len(tried):
            continue
        fewer = chosen.copy()
        fewer[tried] = False
        if ground.fits(fewer):
            chosen = fewer
        elif len(tried) > 1:
            left += [tried[len(tried) // 2 :], tried[: len(tried) // 2]]
    return chosen


def _exchange(way: _Way, left: int) -> tuple[Bools, int]:
    """Exclude one victim, or include another gang, and see whether the rest costs less.

    At most `left` exchanges are tried; returns how many are left, too.
    """
    ground, best = way.ground, way.chosen
    improved = True
    while improved and left > 0 and not ground.checks.over:
        improved = False
        for others, start in _variants(ground.table, way.usable, best):
            left -= 1
            try:
                chosen = _greedy(ground, others, start, FRACTIONS[0])
                chosen = None if chosen is None else _reprieve(ground, chosen)
            except Interrupted:
                return best, 0
            if chosen is not None:
                improved = _better(ground.table, chosen, best) is chosen
                best = chosen if improved else best
            if improved or left <= 0 or ground.checks.over:
                break
    return best, left


def _exchanges(table: UnitTable) -> int:
    return min(EXCHANGES, EFFORT // len(table))


def _variants(table: UnitTable, usable: Bools, best: Bools) -> Iterator[tuple[Bools, Bools]]:
    """For each exchange, the units to choose from and those to begin with."""
    none = np.zeros(len(table), np.bool_)
    for banned in table.bans(best):
        others: Bools = usable & ~banned
        yield others, table.kept(best & others)
        yield others, none
    for first in table.prefixes(usable & ~best):
        yield usable, first


def _better(table: UnitTable, one: Bools, other: Bools | None) -> Bools:
    """The one that costs less, ties to the other."""
    if other is None:
        return one
    costs = [(*table.cost(some), table.order(some)) for some in (one, other)]
    return one if costs[0] < costs[1] else other
