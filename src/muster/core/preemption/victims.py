"""Finds the victims without which a gang fits, at the least loss.

First of all the preemptor must fit afterwards, with everything that `Fit` checks, and the victims must keep
their limits (`limits.py`) as a whole; every returned set has been tried. Among such sets the best is, in this
order, the one

1. whose highest victim priority is lowest,
2. of surplus pods only, if surplus of that priority and below suffices,
3. that loses the least work (`candidates.py`), then evicts the fewest gangs, then the fewest pods,
4. that makes room in the tightest domain that the gang prefers,
5. that evicts surplus pods of the highest index.

To find the very best is set covering, which is hard; so, after Dobson's greedy for covering integer
programs and the reprieve of kube-scheduler's preemption:

- *level*: how many pods would fit if all candidates up to a priority left is a sum of slots, which only
  grows with the priority: bisection finds the lowest that could do, and `Fit` confirms it or goes on.
- *affinity*: a gang with required affinity or a spread may fit only if some pods stay. If there are few sets
  of victims, those that leave it room and the pods it needs (`companions.py`) are tried one by one, the
  cheapest first. If there are more, the search continues, with all cuts or with those whose pods it does not
  need.
- *ground*: a gang that must gather needs room in one domain; for one that prefers to gather, room there is
  better. A lower bound of the cost of clearing a domain is computed for all of them at once (`Count.bounds`).
  They are tried in that order, `DOMAINS` at most, until the next bound exceeds the best cost found.
- *greedy*: take the cut that frees most slots relative to the work that it loses, until the slots suffice. A
  fraction of a slot counts a little, or jobs that share a node would never look worth taking; two weights are
  tried. If that violates the limits, take what frees most for the fewest pods.
- *reprieve*: spare victims, the most costly first, as long as the preemptor still fits. What is left is
  irreducible: no single victim can be spared.
- *exchange*: for each victim, the most costly first, look for others that do the same for less; then begin
  with each of those that were not chosen. Only if there are few candidates.

The sums of slots (`counting.py`) are a necessary condition that costs microseconds; `Fit` is asked only where
it holds.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import numpy as np

from muster.core.demand import Request
from muster.core.placement import Fit
from muster.core.preemption.affinity_dependents import Companions
from muster.core.preemption.candidates import Candidate
from muster.core.preemption.eviction_units import Table
from muster.core.preemption.limits import Limits, Quota
from muster.core.preemption.slot_bounds import Count
from muster.core.preemption.trials import FEW, Trial, Trials
from muster.core.words.decisions import Victim
from muster.core.words.gang import Place
from muster.core.world.eligibility import Eligibility
from muster.core.world.ledger import Charged, Ledger
from muster.core.world.nodes import Bools, Nodes

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
#: Exchanges, or other beginnings, tried in one search, and all of them times the cuts there are.
EXCHANGES: Final = 60
EFFORT: Final = 500
#: What a whole slot's worth of fractions counts, in slots.
FRACTIONS: Final = (0.25, 1.0)


@dataclass(frozen=True, slots=True)
class Victims:
    """Gangs that are evicted, wholly or in part, and where the preemptor fits without them."""

    gangs: tuple[Victim, ...]
    #: places → columns
    placed: dict[Place, int]


@dataclass(frozen=True, slots=True)
class _Way:
    """Cuts that make room on some ground, and the cuts from which they were chosen."""

    trial: Trial
    usable: Bools
    chosen: Bools
    #: the tightest ground first
    rank: int

    @property
    def cost(self) -> tuple[float, int, int, int, int]:
        table = self.trial.table
        return *table.cost(self.chosen), self.rank, table.order(self.chosen)


class Search:
    """Looks for victims on the ledger."""

    def __init__(self, nodes: Nodes, ledger: Ledger, eligibility: Eligibility, fit: Fit) -> None:
        self._nodes = nodes
        self._ledger = ledger
        self._eligibility = eligibility
        self._fit = fit

    def find(
        self,
        request: Request,
        candidates: Sequence[Candidate],
        limit: Callable[[Table], Limits],
        quota: Callable[[Table], Quota],
        charged: Callable[[Victim], Iterable[Charged]],
    ) -> Victims | None:
        """None if no set of these victims makes room. The ledger stays as it is.

        `candidates` are all gangs that the preemptor may evict. `charged` says what the ledger is charged
        with for a victim.
        """
        table = Table(candidates, len(self._nodes))
        grounds = self._fit.grounds(request)
        if not table.groups or not grounds:
            return None  # no candidate is on any node, or the gang fits on none
        alone = self._fit.exclusive_domains.alone(request.demand)
        count = Count(request, self._nodes, self._eligibility, table, quota(table), grounds, alone)
        company, problems = None, PROBLEMS
        if request.demand.sociable:
            problems = max(PROBLEMS, SMALL // len(self._nodes))
            company = Companions(request, count.shapes, table, charged, self._ledger, self._eligibility)
        trials = Trials(
            table, limit(table), charged, self._nodes, self._ledger, self._fit, request.demand, company
        )
        whole = Trial(trials, count, request)
        with self._fit.exact.lending(problems):
            for usable in _levels(table, count):
                if (best := self._best(whole, usable)) is not None:
                    return self._found(whole, best)
        return None

    def _found(self, whole: Trial, best: _Way) -> Victims | None:
        """Spare victims that are not needed after all, as the gang fits elsewhere without them."""
        chosen = best.chosen if best.trial is whole else whole.reprieve(best.chosen)
        placed = whole.placed(chosen) or best.trial.placed(best.chosen)
        return None if placed is None else Victims(tuple(whole.victims(chosen)), placed)

    def _best(self, whole: Trial, usable: Bools) -> _Way | None:
        sets = whole.sets(usable, SETS)
        if sets is not None:
            chosen = next(filter(whole.fits, sets[:ASKED]), None)
            if chosen is not None or len(sets) <= ASKED:
                return None if chosen is None else _Way(whole, usable, chosen, 0)
        if whole.choice(usable) is None:
            return None
        ways: list[_Way] = []
        for trial, rank, bound in self._grounds(whole, usable):
            if ways and bound > min(way.cost for way in ways)[0]:
                break
            some = trial.choice(usable)
            if some is not None and (chosen := self._chosen(trial, some)) is not None:
                ways.append(_Way(trial, some, chosen, rank))
        left = _exchanges(whole.table) if len(whole.table) <= FEW else 0
        for way in sorted(ways, key=lambda way: way.cost):
            chosen, left = self._exchange(way, left)
            ways.append(replace(way, chosen=chosen))
        return min(ways, key=lambda way: way.cost, default=None)

    def _grounds(self, whole: Trial, usable: Bools) -> Iterator[tuple[Trial, int, float]]:
        """The domains to try, by their lower bound of the cost, ties to the tighter."""
        found = [
            (bound, rank, number)
            for rank in range(len(whole.count.grounds))
            for number, bound in whole.count.bounds(rank, usable)
        ]
        for bound, rank, number in sorted(found)[:DOMAINS]:
            yield whole.inside(rank, number), rank, bound

    def _chosen(self, trial: Trial, usable: Bools) -> Bools | None:
        best: Bools | None = None
        none = np.zeros(len(trial.table), np.bool_)
        for fraction in FRACTIONS:
            chosen = trial.greedy(usable, none, fraction)
            if chosen is not None:
                best = trial.better(trial.reprieve(chosen), best)
        if best is None:  # what loses least has used up what the limits allow
            starts = islice(trial.table.prefixes(usable), _exchanges(trial.table))
            tries = (trial.greedy(usable, start, FRACTIONS[0], fewest=True) for start in (none, *starts))
            chosen = next((taken for taken in tries if taken is not None), None)
            chosen = trial.least(usable) if chosen is None else chosen
            best = None if chosen is None else trial.reprieve(chosen)
        return best

    def _exchange(self, way: _Way, left: int) -> tuple[Bools, int]:
        """Exclude one victim, or include another gang, and see whether the rest costs less.

        At most `left` exchanges are tried; returns how many are left, too.
        """
        trial, usable, best = way.trial, way.usable, way.chosen
        improved = True
        while improved and left > 0:
            improved = False
            for others, start in _variants(trial.table, usable, best):
                chosen = trial.greedy(others, start, FRACTIONS[0])
                left -= 1
                if chosen is not None and trial.better(chosen := trial.reprieve(chosen), best) is chosen:
                    best, improved = chosen, True
                if improved or left <= 0:
                    break
        return best, left


def _exchanges(table: Table) -> int:
    return min(EXCHANGES, EFFORT // len(table))


def _levels(table: Table, count: Count) -> Iterator[Bools]:
    """The cuts to choose from, lowest priority first: surplus alone, then all."""
    priorities = sorted({candidate.gang.priority for candidate in table.candidates})
    low, high = 0, len(priorities)
    while low < high:
        middle = (low + high) // 2
        if count.enough(table.priority <= priorities[middle]):
            high = middle
        else:
            low = middle + 1
    for priority in priorities[low:]:
        usable: Bools = table.priority <= priority
        surplus: Bools = usable & ~table.core
        if surplus.any():
            yield surplus
        yield usable


def _variants(table: Table, usable: Bools, best: Bools) -> Iterator[tuple[Bools, Bools]]:
    """For each exchange, the cuts to choose from and those to begin with."""
    none = np.zeros(len(table), np.bool_)
    for banned in table.bans(best):
        others: Bools = usable & ~banned
        yield others, table.kept(best & others)
        yield others, none
    for first in table.prefixes(usable & ~best):
        yield usable, first
