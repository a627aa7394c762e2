"""Grounds: all nodes that a gang may use, or one domain. Does the gang fit there once some units are gone?

Slots are checked first, which is arithmetic (`slot_bounds.py`). For pods of one shape that need nothing but
capacity they are sufficient. Otherwise `Fit` decides, on the ledger, in a trial that is undone. Answers are
cached, and all grounds of a search together ask `Fit` at most `CHECKS` times.
"""

from typing import Final

import numpy as np

from muster.core.demand import Request
from muster.core.placement import Fit
from muster.core.preemption.affinity_dependents import AffinityDependents
from muster.core.preemption.eviction_units import UnitTable
from muster.core.preemption.limits import Limits
from muster.core.preemption.slot_bounds import SlotBounds
from muster.core.words.gang import Place
from muster.core.world import World
from muster.core.world.nodes import Bools

#: How often one search asks `Fit`.
CHECKS: Final = 150
#: The same for a gang that may need some pods to stay: sets of victims are tried one by one.
CHECKS_WITH_DEPENDENTS: Final = 400
#: Exchanges are tried only among at most so many units: among more they rarely gain a hundredth. The same
#: limit holds for choosing victims of a gang that does not fit with all gone.
FEW: Final = 100


class Checks:
    """Asks `Fit` on behalf of all grounds of one search."""

    def __init__(
        self,
        request: Request,
        table: UnitTable,
        allow: Limits,
        world: World,
        fit: Fit,
        dependents: AffinityDependents | None,
    ) -> None:
        """`dependents`: for a gang that may need some pods to stay."""
        self.table, self.allow, self.dependents = table, allow, dependents
        self._world, self._fit = world, fit
        self._left = CHECKS if dependents is None else CHECKS_WITH_DEPENDENTS
        #: slots are sufficient
        self.by_slots = fit.by_slots(request.demand)
        #: pods elsewhere may keep it off
        self.far = request.demand.constrained or fit.bars(request.demand)

    def place(self, request: Request, taken: Bools) -> dict[Place, int] | None:
        """Where the gang goes without these units; None, too, once there have been too many checks."""
        if not self._left:
            return None
        self._left -= 1
        with self._world.ledger.trial():
            self._lift(request, taken)
            self._world.exclusive_domains.leave(self.table.victims(taken))
            placed = self._fit.fit(request)
        return placed.columns if placed else None

    def _lift(self, request: Request, taken: Bools) -> None:
        ledger, table = self._world.ledger, self.table
        # One by one where devices matter, or what others see of the victims; the rest by kinds of pods.
        single = taken if request.demand.constrained else taken & table.shares
        for victim in table.victims(single):
            for charged in self._world.pending_evictions.charged(victim):
                ledger.give(charged)
        for row_amounts, units, columns, times in table.groups:
            mine = (taken & ~single)[units]
            if mine.any():
                freed = np.bincount(columns[mine], times[mine], table.columns).astype(np.int64)
                where = np.flatnonzero(freed)
                ledger.take_at(where, row_amounts, -freed[where])


class Ground:
    """One ground, and the units whose end makes room there."""

    def __init__(self, checks: Checks, bounds: SlotBounds, request: Request) -> None:
        self.bounds = bounds
        self.table, self.allow = checks.table, checks.allow
        self._checks, self._request = checks, request
        self._known: dict[bytes, dict[Place, int] | None] = {}

    def inside(self, rank: int, number: int) -> "Ground":
        """One domain of this ground."""
        columns = np.flatnonzero(self.bounds.grounds[rank] == number)
        if len(columns) == self.table.columns:
            return self
        outside = np.ones(self.table.columns, np.bool_)
        outside[columns] = False
        if self._request.excluded is not None:
            outside[self._request.excluded] = True
        request = self._request._replace(excluded=np.flatnonzero(outside))
        return Ground(self._checks, self.bounds.within(columns), request)

    def fits(self, taken: Bools) -> bool:
        """Whether the preemptor fits once these units are gone. Also False after too many checks."""
        return self.bounds.enough(taken) and self.fits_given_slots(taken)

    def fits_given_slots(self, taken: Bools) -> bool:
        """Whether it fits, given that the slots suffice."""
        return self._checks.by_slots or self.placed(taken) is not None

    def placed(self, taken: Bools) -> dict[Place, int] | None:
        """Where it is placed once these units are gone."""
        key = taken.tobytes()
        if key not in self._known:
            self._known[key] = self._checks.place(self._request, taken)
        return self._known[key]

    def choice(self, usable: Bools) -> Bools | None:
        """Which of these units to choose from; None: nothing shows that it fits, whichever are taken.

        The units that free something here, of which some may have to stay if there are few; or all, as pods
        elsewhere may keep the gang off; or those on which its affinity and spread do not depend.
        """
        here: Bools = usable & self.bounds.reach
        if not self.bounds.attainable(here):
            return None
        dependents = self._checks.dependents
        few = dependents is not None and len(self.table) <= FEW
        if self.fits(here) or (few and self.bounds.enough(here)):
            return here
        if self._checks.far and self.fits(usable):
            return usable
        if dependents is not None:
            independent = usable & ~self.table.from_on(dependents.needed)
            return independent if self.fits(independent) else None
        return None

    def sets(self, usable: Bools, most: int) -> list[Bools] | None:
        """All sets of these units without which the gang has room and its affinity holds, cheapest first.

        None: for gangs that need no pod to stay, and if sets times nodes are more than `most`.
        """
        dependents = self._checks.dependents
        sets = self.table.sets(usable, most // self.table.columns) if dependents is not None else None
        if dependents is None or sets is None:
            return None
        return list(filter(self.allow, sets[self.bounds.enough_each(sets, dependents)]))
