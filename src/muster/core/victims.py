"""Victims: whom to end so that a gang fits, at the least loss, or nobody.

First of all the preemptor must fit afterwards, with everything that `Fit` looks at, and the victims must keep
to their limits (`limits.py`) as a whole; every set that comes out of here has been tried on the ledger. Among
those sets the best is, in this order, the one

1. whose highest victim priority is lowest,
2. of surplus pods only, if surplus of that priority and below suffices,
3. that loses the least work (`candidates.py`), then ends the fewest gangs, then the fewest pods.

To find the very best is set covering, which is hard; so, after Dobson's greedy for covering integer
programs and the reprieve of kube-scheduler's preemption:

- *level*: how many pods would fit if all candidates up to a priority left is a sum of slots, which only
  grows with the priority: bisection finds the lowest that could do, and `Fit` confirms it or goes on.
- *greedy*: take whatever frees most slots for the work that it loses, again and again, until enough are
  there. A fraction of a slot counts a little, or jobs that share a node would never look worth taking;
  how much is tried twice.
- *reprieve*: spare victims, the dearest first, as long as the preemptor still fits. What is left is
  irreducible: it fits without none of them.
- *exchange*: for each victim, the dearest first, look for others that do the same for less; then begin
  with each of those that were not chosen. Only where there are few candidates.

The sums of slots (`counting.py`) are a necessary condition that costs microseconds; `Fit` is asked only where
it holds.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np

from muster.core.candidates import Candidate
from muster.core.counting import Count
from muster.core.cuts import Table
from muster.core.decisions import Victim
from muster.core.departures import Charged
from muster.core.eligibility import Eligibility
from muster.core.exact import Answer, Rung, Verdict
from muster.core.fit import Claim, Fit
from muster.core.gang import Place
from muster.core.ledger import Ledger
from muster.core.limits import Limits, Quota
from muster.core.nodes import Bools, Nodes

#: Times that `Fit` is asked in one search.
TRIALS: Final = 150
#: Problems that one search may have solved exactly, for gangs of several shapes.
PROBLEMS: Final = 20
#: Exchanges tried in one search, and all of them times the cuts there are: among many they are left out.
EXCHANGES: Final = 60
EFFORT: Final = 500
#: What a whole slot's worth of fractions counts, in slots.
FRACTIONS: Final = (0.25, 1.0)


@dataclass(frozen=True, slots=True)
class Found:
    """Victims, and where the preemptor fits without them (places → columns)."""

    victims: tuple[Victim, ...]
    placed: dict[Place, int]


class Search:
    """Looks for victims on the ledger."""

    def __init__(self, nodes: Nodes, ledger: Ledger, eligibility: Eligibility, fit: Fit) -> None:
        self._nodes = nodes
        self._ledger = ledger
        self._eligibility = eligibility
        self._fit = fit

    def find(
        self,
        claim: Claim,
        candidates: Sequence[Candidate],
        limit: Callable[[Table], Limits],
        quota: Callable[[Table], Quota],
        charged: Callable[[Victim], Iterable[Charged]],
    ) -> Found | None:
        """None if no set of these victims makes room. The ledger stays as it is.

        `candidates` are all that the preemptor may end; which of them is what is looked for here. `charged`
        tells what the ledger is charged with for a victim.
        """
        if not candidates:
            return None
        self._fit.exact.lent = PROBLEMS
        try:
            return self._find(claim, candidates, limit, quota, charged)
        finally:
            self._fit.exact.lent = 0

    def _find(
        self,
        claim: Claim,
        candidates: Sequence[Candidate],
        limit: Callable[[Table], Limits],
        quota: Callable[[Table], Quota],
        charged: Callable[[Victim], Iterable[Charged]],
    ) -> Found | None:
        table = Table(candidates, len(self._nodes))
        if not table.groups:
            return None  # all they have is on nodes that are gone
        count = Count(claim, self._nodes, self._eligibility, table, quota(table))
        trial = _Trial(table, count, limit(table), claim, charged, self._nodes, self._ledger, self._fit)
        for usable in trial.levels():
            best = self._best(trial, usable)
            if best is not None and (found := trial.found(best)) is not None:
                return found
        return None

    def _best(self, trial: "_Trial", usable: Bools) -> Bools | None:
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
            best = None if chosen is None else trial.reprieve(chosen)
        return None if best is None else self._exchange(trial, usable, best)

    def _exchange(self, trial: "_Trial", usable: Bools, best: Bools) -> Bools:
        """Without one victim, or with somebody else in any case: what would have to go, and is that less?"""
        left = _exchanges(trial.table)
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
        return best


def _exchanges(table: Table) -> int:
    return min(EXCHANGES, EFFORT // len(table))


def _variants(table: Table, usable: Bools, best: Bools) -> Iterator[tuple[Bools, Bools]]:
    """What to choose from, and what to begin with."""
    none = np.zeros(len(table), np.bool_)
    for banned in table.bans(best):
        others: Bools = usable & ~banned
        yield others, best & others
        yield others, none
    for first in table.prefixes(usable & ~best):
        yield usable, first


class _Trial:
    """Asks `Fit` with some cuts taken, where slots and limits allow it; answers are remembered."""

    def __init__(
        self,
        table: Table,
        count: Count,
        limits: Limits,
        claim: Claim,
        charged: Callable[[Victim], Iterable[Charged]],
        nodes: Nodes,
        ledger: Ledger,
        fit: Fit,
    ) -> None:
        self.table = table
        self._charged = charged
        self._count = count
        self._allow = limits
        self._claim = claim
        self._nodes = nodes
        self._ledger = ledger
        self._fit = fit
        #: slots are the whole truth: `Fit` need not be asked each time
        self._plain = _plain(claim, fit)
        self._left = TRIALS
        self._known: dict[bytes, dict[Place, int] | Verdict] = {}

    def levels(self) -> Iterator[Bools]:
        """The cuts to choose from, lowest priority first: surplus alone, then all."""
        table = self.table
        priorities = np.unique(table.priority)
        low, high = 0, len(priorities)
        while low < high:
            middle = (low + high) // 2
            if self._count.enough(table.priority <= priorities[middle]):
                high = middle
            else:
                low = middle + 1
        for priority in priorities[low:]:
            usable: Bools = table.priority <= priority
            if not self._fits(usable):
                continue
            surplus: Bools = usable & ~table.core
            if surplus.any() and self.fits(surplus):
                yield surplus
            yield usable

    def greedy(self, usable: Bools, start: Bools, fraction: float, *, fewest: bool = False) -> Bools | None:
        """Cuts taken one after the other until the preemptor fits; all of them, if nothing else does.

        `fewest`: what counts is how many pods go, not what is lost.
        """
        if not self._allow(start):
            return None
        lost = self.table.pods.astype(np.float64) if fewest else self.table.lost
        picks = enumerate(self._count.picks(usable, start, fraction, lost, self._allow))
        for number, taken in picks:
            # Where slots are not all that matters more has to go: it is asked at growing distances.
            if number & (number - 1) == 0 and self._fits(taken):
                return taken
        if self._allow(usable) and self.fits(usable):
            return usable
        return None

    def reprieve(self, chosen: Bools) -> Bools:
        """Spare gangs, the dearest first: all of its cuts, else from its last one on as many as can be."""
        for gang in self.table.dearest(chosen):
            mine = np.flatnonzero(chosen & (self.table.gang == gang))
            for first in range(len(mine)):
                fewer = chosen.copy()
                fewer[mine[first:]] = False
                if self.fits(fewer):
                    chosen = fewer
                    break
        return chosen

    def better(self, one: Bools, other: Bools | None) -> Bools:
        """The one that costs less; of equals the other."""
        return one if other is None or self.table.cost(one) < self.table.cost(other) else other

    def fits(self, taken: Bools) -> bool:
        """Whether the preemptor fits once these are gone. False, too, when the trials are used up."""
        return self._count.enough(taken) and self._fits(taken)

    def found(self, taken: Bools) -> Found | None:
        """The victims in order of name, once `Fit` has said where the preemptor goes without them."""
        placed = self._try(taken)
        return None if isinstance(placed, Verdict) else Found(tuple(self._victims(taken)), placed)

    def _fits(self, taken: Bools) -> bool:
        """Where the slots suffice."""
        return self._plain or not isinstance(self._try(taken), Verdict)

    def _try(self, taken: Bools) -> dict[Place, int] | Verdict:
        key = taken.tobytes()
        known = self._known.get(key)
        if known is None:
            if not self._left:
                return Verdict(Rung.GREEDY, Answer.NONE_FOUND)
            self._left -= 1
            mark = self._ledger.mark()
            known = self._known[key] = self._placed(taken)
            self._ledger.rollback(mark)
        return known

    def _placed(self, taken: Bools) -> dict[Place, int] | Verdict:
        shared = taken & self.table.shares
        whole = taken & ~shared
        if self._claim.want.constrained:  # what others see of the victims counts as well
            shared, whole = taken, shared & ~taken
        for victim in self._victims(shared):
            for charged in self._charged(victim):
                self._ledger.give(*charged)
        for demand, cuts, columns, times in self.table.groups:
            mine = whole[cuts]
            if mine.any():
                freed = np.bincount(columns[mine], times[mine], self.table.columns).astype(np.int64)
                where = np.flatnonzero(freed)
                self._ledger.take_at(where, demand, -freed[where])
        return self._fit.fit(self._claim)

    def _victims(self, taken: Bools) -> Iterator[Victim]:
        table = self.table
        for gang in np.unique(table.gang[taken]).tolist():
            mine = np.flatnonzero(taken & (table.gang == gang))
            lost = float(table.lost[mine].sum())
            whole = bool(table.core[mine].any())
            pods = frozenset(pod for cut in mine for pod in table.cuts[cut].pods)
            yield Victim(table.candidates[gang].gang.id, frozenset() if whole else pods, lost)


def _plain(claim: Claim, fit: Fit) -> bool:
    want = claim.want
    shapes = {part.shape for part in want.parts}
    if (
        want.constrained
        or want.rules is not None
        or len(shapes) > 1
        or fit.exclusion.barred(want) is not None
    ):
        return False
    return not any(shape.gpu_share for shape in shapes)
