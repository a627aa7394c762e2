"""What a search for victims asks `Fit`: whether the preemptor fits on a ground without a set of units.

What was asked in an earlier cycle is not asked again, unless to learn the places.
"""

from typing import Final

import numpy as np

from muster.core.demand import Request
from muster.core.placement import Fit
from muster.core.preemption.affinity_dependents import AffinityDependents
from muster.core.preemption.eviction_units import Limits, UnitTable
from muster.core.preemption.progress import Progress
from muster.core.words.gang import Place
from muster.core.world import World
from muster.core.world.nodes import Bools, Longs

#: How often one search asks `Fit`.
CHECKS: Final = 150
#: The same for a gang that may need some pods to stay: sets of victims are tried one by one.
CHECKS_WITH_DEPENDENTS: Final = 400


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
        progress: Progress,
    ) -> None:
        """`dependents`: for a gang that may need some pods to stay."""
        self.table, self.allow, self.dependents = table, allow, dependents
        self._world, self._fit = world, fit
        self._most = CHECKS if dependents is None else CHECKS_WITH_DEPENDENTS
        self._progress = progress
        #: by ground and set of units, as far as it was asked for in this cycle
        self._placed: dict[tuple[int, int], dict[Place, int] | None] = {}
        #: a set of units is known by the exclusive or of these, whichever table it is in
        self._hashes: Longs = np.array([hash(unit.pods) for unit in table.units], np.int64)
        #: slots are sufficient
        self.by_slots = fit.by_slots(request.demand)
        #: pods elsewhere may keep it off
        self.far = request.demand.constrained or fit.bars(request.demand)

    @property
    def over(self) -> bool:
        """Whether the steps of this search are used up."""
        return self._progress.over(self._world.nodes.steps)

    @property
    def tries(self) -> bool:
        """Whether more is tried where nothing was found. Raises `Interrupted` if that is for later."""
        return self._progress.tries(self._world.nodes.steps)

    def rest(self) -> None:
        """Raise `Interrupted` if the steps are used up and more can be tried later."""
        self._progress.rest(self._world.nodes.steps)

    def fits(self, ground: int, request: Request, taken: Bools) -> bool:
        """Whether the gang fits without these units, or did so in an earlier cycle."""
        known = self._progress.known.get(self._key(ground, taken))
        return self.place(ground, request, taken) is not None if known is None else known

    def place(self, ground: int, request: Request, taken: Bools) -> dict[Place, int] | None:
        """Where the gang goes without these units; None, too, once there have been too many checks.

        Raises `Interrupted` if it is to be asked in a later cycle.
        """
        key, progress = self._key(ground, taken), self._progress
        if key in self._placed:
            return self._placed[key]
        too_many = key not in progress.known and len(progress.known) >= self._most
        if too_many or progress.known.get(key) is False or not progress.asks(self._world.nodes.steps):
            return None
        with self._world.trial():
            self._lift(request, taken)
            self._world.exclusive_domains.leave(self.table.victims(taken))
            placed = self._fit.fit(request)
        self._placed[key] = placed.columns if placed else None
        progress.learn(key, bool(placed))
        return self._placed[key]

    def _key(self, ground: int, taken: Bools) -> tuple[int, int]:
        return ground, int(np.bitwise_xor.reduce(self._hashes[taken]))

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
