"""Trials of a search for victims: does the gang fit once these cuts are gone?

Slots are checked first, which is arithmetic (`counting.py`). For pods of one shape that need nothing but
capacity they are sufficient. Otherwise `Fit` decides, on the ledger, in a trial that is undone. Answers
are cached, and one search makes at most `TRIALS` trials.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import numpy as np

from muster.core.demand import Demand, Request
from muster.core.placement import Fit
from muster.core.preemption.affinity_dependents import Companions
from muster.core.preemption.eviction_units import Table
from muster.core.preemption.limits import Limits
from muster.core.preemption.slot_bounds import Count
from muster.core.words.decisions import Victim
from muster.core.words.gang import Place
from muster.core.world.ledger import Charged, Ledger
from muster.core.world.nodes import Bools, Nodes

#: How often one search asks `Fit`.
TRIALS: Final = 150
#: The same for a gang that may need some pods to stay: sets of victims are tried one by one.
TRIALS_IN_COMPANY: Final = 400
#: Exchanges are tried only among at most so many cuts: among more they rarely gain a hundredth. The same
#: limit holds for choosing victims of a gang that does not fit with all gone.
FEW: Final = 100


class Trials:
    """What all trials of one search have in common."""

    def __init__(
        self,
        table: Table,
        limits: Limits,
        charged: Callable[[Victim], Iterable[Charged]],
        nodes: Nodes,
        ledger: Ledger,
        fit: Fit,
        demand: Demand,
        company: Companions | None,
    ) -> None:
        self.table = table
        self.allow = limits
        self.nodes = nodes
        self._charged = charged
        self._ledger = ledger
        self.fit = fit
        self._left = TRIALS if company is None else TRIALS_IN_COMPANY
        #: slots are sufficient
        self.plain = fit.by_slots(demand)
        #: for a gang that may need some pods to stay
        self.company = company
        #: pods elsewhere may keep it off
        self.far = demand.constrained or fit.bars(demand)

    def place(self, request: Request, taken: Bools) -> dict[Place, int] | None:
        """Where it goes without these; None, too, when the trials are used up."""
        if not self._left:
            return None
        self._left -= 1
        with self._ledger.trial():
            self._lift(request, taken)
            self.fit.exclusive_domains.leave(self.victims(taken))
            placed = self.fit.fit(request)
        return placed.columns if placed else None

    def victims(self, taken: Bools) -> Iterator[Victim]:
        """In order of name."""
        table = self.table
        for gang in table.gangs(taken):
            mine = np.flatnonzero(taken & (table.gang == gang))
            lost = float(table.lost[mine].sum())
            whole = bool(table.core[mine].any())
            pods = frozenset(pod for cut in mine for pod in table.cuts[cut].pods)
            yield Victim(table.candidates[gang].gang.id, frozenset() if whole else pods, lost)

    def _lift(self, request: Request, taken: Bools) -> None:
        shared = taken & self.table.shares
        whole = taken & ~shared
        if request.demand.constrained:  # what others see of the victims counts as well
            shared, whole = taken, shared & ~taken
        for victim in self.victims(shared):
            for charged in self._charged(victim):
                self._ledger.give(*charged)
        for row_amounts, cuts, columns, times in self.table.groups:
            mine = whole[cuts]
            if mine.any():
                freed = np.bincount(columns[mine], times[mine], self.table.columns).astype(np.int64)
                where = np.flatnonzero(freed)
                self._ledger.take_at(where, row_amounts, -freed[where])


class Trial:
    """The trials on one ground: all nodes that the gang may use, or one domain."""

    def __init__(self, trials: Trials, count: Count, request: Request) -> None:
        self.count = count
        self.table = trials.table
        self.victims = trials.victims
        self._trials = trials
        self._request = request
        self._known: dict[bytes, dict[Place, int] | None] = {}

    def inside(self, rank: int, number: int) -> "Trial":
        """The same trials in one domain of a ground."""
        columns = np.flatnonzero(self.count.grounds[rank] == number)
        if len(columns) == self.table.columns:
            return self
        outside = np.ones(self.table.columns, np.bool_)
        outside[columns] = False
        if self._request.excluded is not None:
            outside[self._request.excluded] = True
        request = self._request._replace(excluded=np.flatnonzero(outside))
        return Trial(self._trials, self.count.within(columns), request)

    def choice(self, usable: Bools) -> Bools | None:
        """Which of these cuts to choose from; None: nothing shows that it fits, whichever are taken.

        The cuts that free something here, of which some may have to stay if there are few; or all, as pods
        elsewhere may keep the gang off; or those on which its affinity and spread do not depend.
        """
        here: Bools = usable & self.count.reach
        company = self._trials.company
        few = company is not None and len(self.table) <= FEW
        if not self.count.attainable(here):
            return None
        if self.fits(here) or (few and self.count.enough(here)):
            return here
        if self._trials.far and self.fits(usable):
            return usable
        if company is not None and self.fits(apart := usable & ~self.table.from_on(company.wanted)):
            return apart
        return None

    def sets(self, usable: Bools, most: int) -> list[Bools] | None:
        """All sets of these cuts without which the gang has room and its affinity holds, cheapest first.

        None: for gangs that need no pod to stay, and if sets times nodes are more than `most`.
        """
        company = self._trials.company
        sets = self.table.sets(usable, most // self.table.columns) if company is not None else None
        if company is None or sets is None:
            return None
        return list(filter(self._trials.allow, sets[self.count.enough_each(sets, company)]))

    def greedy(self, usable: Bools, start: Bools, fraction: float, *, fewest: bool = False) -> Bools | None:
        """Take cuts one after the other until the preemptor fits; all of them, if nothing less suffices.

        `fewest`: minimize the number of pods, not what is lost.
        """
        allow = self._trials.allow
        if not allow(start):
            return None
        lost = self.table.pods.astype(np.float64) if fewest else self.table.lost
        picks = enumerate(self.count.picks(usable, start, fraction, lost, allow))
        for number, taken in picks:
            # Where slots are not sufficient more has to be taken, so `Fit` is asked at growing distances.
            if number & (number - 1) == 0 and self._fits(taken):
                return taken
        return usable if self.table.holds(usable) and allow(usable) and self.fits(usable) else None

    def least(self, usable: Bools) -> Bools | None:
        """Of more surplus than the gangs can spare, a part that suffices and that they can spare."""
        if self.table.holds(usable) or not self.fits(usable):
            return None
        some = self._spared(usable, usable & ~self.table.core)
        return some if self.table.holds(some) and self._trials.allow(some) else None

    def reprieve(self, chosen: Bools) -> Bools:
        """Spare gangs, the most costly first: all cuts of one, else all cuts that are not needed.

        A gang that would be evicted as a whole gives up surplus instead if that suffices.
        """
        table = self.table
        for gang in table.dearest(chosen):
            mine = chosen & (table.gang == gang)
            if self.fits(fewer := chosen & ~mine):
                chosen = fewer
                continue
            surplus = mine & ~table.core
            if surplus.any() and self.fits(fewer := chosen & ~(mine & table.core)):
                fewer = self._spared(fewer, surplus)
                if table.holds(fewer):
                    chosen = fewer
        return chosen

    def _spared(self, chosen: Bools, some: Bools) -> Bools:
        """Spare those of some cuts that are not needed: the most costly first, then the lowest index.

        Many are tried at once, and by halves if they are not all spared.
        """
        cuts = np.flatnonzero(chosen & some)
        left = [cuts[np.lexsort((-cuts, -self.table.lost[cuts]))]]
        while left:
            tried = left.pop()
            if not len(tried):
                continue
            fewer = chosen.copy()
            fewer[tried] = False
            if self.fits(fewer):
                chosen = fewer
            elif len(tried) > 1:
                left += [tried[len(tried) // 2 :], tried[: len(tried) // 2]]
        return chosen

    def better(self, one: Bools, other: Bools | None) -> Bools:
        """The one that costs less, ties to the other."""
        if other is None:
            return one
        costs = [(*self.table.cost(some), self.table.order(some)) for some in (one, other)]
        return one if costs[0] < costs[1] else other

    def fits(self, taken: Bools) -> bool:
        """Whether the preemptor fits once these cuts are gone. Also False when the trials are used up."""
        return self.count.enough(taken) and self._fits(taken)

    def placed(self, taken: Bools) -> dict[Place, int] | None:
        """Where it is placed once these cuts are gone."""
        key = taken.tobytes()
        if key not in self._known:
            self._known[key] = self._trials.place(self._request, taken)
        return self._known[key]

    def _fits(self, taken: Bools) -> bool:
        """Whether it fits, given that the slots suffice."""
        return self._trials.plain or self.placed(taken) is not None
