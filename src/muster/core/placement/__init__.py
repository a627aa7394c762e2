"""Does a gang fit, and where: `Fit.fit` answers a `Request` with `Placed` or `Infeasible`.

A cycle that starts gangs, a search for victims, a reservation and a remedy all use `Fit`, on the one
ledger. A caller that must not change the ledger asks within a trial.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from muster.core.demand import Demand, Request
from muster.core.placement.answer import Infeasible, Placed, Reason
from muster.core.placement.exact import Exact
from muster.core.placement.greedy import Draft, place, search, short_of_slots
from muster.core.placement.slots import Order, Slots
from muster.core.placement.subgroups import SubgroupPlacement
from muster.core.placement.topology import Nearest, TopologyPlacement
from muster.core.words.devices import Allocation
from muster.core.words.gang import Place
from muster.core.world import World
from muster.core.world.eligibility import SPARE
from muster.core.world.gangs import GangState
from muster.core.world.nodes import Ints
from muster.core.world.trial import Trial

__all__ = ["Fit", "Infeasible", "Placed", "Reason"]


class Fit:
    """Places requests on the ledger: greedily, then exactly or, with constraints besides room, by search.

    Requests with rules about the topology are placed domain by domain, those of subgroups one by one.
    """

    def __init__(self, world: World, order: Order) -> None:
        """`order`: in which nodes are filled."""
        nodes, ledger, topology = world.nodes, world.ledger, world.topology
        self.slots = Slots(order)
        self.exact = Exact(ledger, self.slots)
        self.exclusive_domains = world.exclusive_domains
        self.topology_placement = TopologyPlacement(nodes, topology, ledger, self.slots, self.exact)
        self._subgroups = SubgroupPlacement(ledger, self.topology_placement, self.exact, self.anywhere)
        self._nodes, self._ledger, self._gangs, self._pods = nodes, ledger, world.gangs, world.pods
        #: how many gangs have left since what was cached for them was last dropped
        self._left = 0

    def gangs_changed(self, changed: Iterable[GangState]) -> None:
        """Record gangs that have arrived, changed or left since the last cycle.

        What is cached by shape goes with the gangs. Finding it takes a visit to each gang that there is, so
        that waits until as many have left.
        """
        self.slots.order.gangs_changed(changed)
        self._left += sum([state.gang is None for state in changed])
        if self._left >= max(SPARE, len(self._gangs)):
            self._left = 0
            gangs = [state.gang for state in self._gangs.values() if state.gang is not None]
            shapes = {pod_set.shape for gang in gangs for pod_set in gang.pod_sets}
            self.slots.forget(shapes)
            self.topology_placement.totals.forget(shapes)
            self._ledger.footprints.drop_gone(len(self._pods))

    def fit(self, request: Request) -> Placed | Infeasible:
        """Place at least the minimum, and as many more pods as fit, and charge them to the ledger."""
        if request.demand.rules is None and not self.exclusive_domains.holders:
            return self.anywhere(request)
        barred = self.exclusive_domains.barred(request.demand)
        if barred is not None and request.planned:
            barred = np.setdiff1d(barred, request.planned)
        if barred is not None and len(barred):
            request = request.keeping_off(barred)
        if request.demand.rules is None:
            return self.anywhere(request)
        if request.demand.rules.subgroups:
            return self._subgroups.place(request)
        return self.topology_placement.place(request)

    def anywhere(self, request: Request) -> Placed | Infeasible:
        """As `fit`, for a request without topology rules; other gangs' exclusive domains are not barred."""
        placed = place(request, self._ledger, self.slots)
        if placed is not None:
            return placed
        if not request.search:
            return Infeasible(Reason.UNSEARCHED)
        if request.demand.constrained:
            return self._search(request)
        return self.exact.place(request)

    def grounds(self, request: Request) -> list[Ints]:
        """Where to make room for a request: by column the number of a domain that must hold its minimum, or
        -1.

        The tightest layer that the gang prefers is first, then what it requires. Empty if it fits nowhere,
        whatever pods leave.
        """
        if request.demand.rules is not None:
            search = self.topology_placement.search(request)
            return [] if search is None else search.grounds()
        everywhere = np.zeros(len(self._nodes), np.int32)
        if request.excluded is not None:
            everywhere[request.excluded] = -1
        return [everywhere]

    def by_slots(self, demand: Demand) -> bool:
        """Whether a demand fits into one of its `grounds` if, and only if, that has enough slots."""
        shapes = {part.shape for part in demand.parts}
        rules = demand.rules
        if demand.constrained or demand.sharing or demand.claiming or len(shapes) > 1:
            return False
        if rules is not None and (rules.in_multiples or rules.subgroups):
            return False
        return not self.bars(demand)

    def bars(self, demand: Demand) -> bool:
        """Whether some nodes may be barred for a demand, whatever room they have."""
        return self.exclusive_domains.barred(demand) is not None

    def nearest(self, demand: Demand, infeasible: Infeasible | None) -> Nearest | None:
        """The domain of the required layer that takes most of the minimum of a demand that does not fit."""
        barred, places = self.exclusive_domains.barred(demand), [range(part.count) for part in demand.parts]
        search = self.topology_placement.search(Request(demand, places, excluded=barred))
        return None if search is None else search.nearest(infeasible.home if infeasible is not None else None)

    def refutes(self, demand: Demand) -> Infeasible | None:
        """Refute a demand without a trial: too few slots, or an earlier proof. None: the demand may fit."""
        if demand.fits_by_slots:
            (part,) = demand.parts
            fits = part.count >= demand.need <= self.slots.room(part.shape).total
            return None if fits else _TOO_FEW
        if demand.rules is None and short_of_slots(demand, self.slots):
            return _TOO_FEW
        return self.exact.refutes(demand)

    def devices(self, demand: Demand, placed: Mapping[Place, int], trial: Trial) -> dict[Place, int]:
        """The device of each of these places that shares a GPU, as charged in the trial."""
        taken, names = self._ledger.devices(trial), self._nodes.names
        if not taken:
            return {}
        shares = {part.pod_set: part.shape.gpu_share for part in demand.parts}
        return {
            place: taken[names[column], share].pop(0)
            for place, column in sorted(placed.items())
            if (share := shares[place.pod_set])
        }

    def claims(
        self, demand: Demand, placed: Mapping[Place, int]
    ) -> dict[Place, tuple[Allocation, ...]] | None:
        """The devices for the claims of each of these places, as charged in a trial.

        None if the steps do not suffice to find them.
        """
        claims = {part.pod_set: part.shape.claims for part in demand.parts}
        by_column: dict[int, list[Place]] = {}
        for each, column in sorted(placed.items()):
            if claims[each.pod_set]:
                by_column.setdefault(column, []).append(each)
        found: dict[Place, tuple[Allocation, ...]] = {}
        for column, some in by_column.items():
            named = self._nodes.claims.named(column)
            if named is None:
                return None
            found |= {each: named[claims[each.pod_set]].pop(0) for each in some}
        return found

    def _search(self, request: Request) -> Placed | Infeasible:
        """Place a request with constraints besides room: disproved by room alone, or searched pod by pod."""
        if not self.exact.grants(request.namespace, request.demand):
            return Infeasible(Reason.UNSEARCHED)
        proof = self.exact.lacks_room(request)
        if proof is not None:
            return proof
        draft = Draft(request, self._ledger, self.slots)
        failure = search(draft)
        return draft.places() if failure is None else Infeasible(failure)


#: There are fewer slots than the minimum takes.
_TOO_FEW: Final = Infeasible(Reason.TOTALS)
