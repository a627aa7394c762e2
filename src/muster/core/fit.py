"""Whether a gang fits, and where: the one way from what it wants to a placement or a verdict.

A cycle that starts gangs, a search for victims, a reservation and a remedy all use this module, on the one
ledger. A caller that must not change the ledger takes a mark first and rolls back to it.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from muster.core.constraints.search import search
from muster.core.events import PodsBound
from muster.core.exact import Answer, Exact, Rung, Verdict
from muster.core.gang import GangId, Place, PodId
from muster.core.gangs import GangState
from muster.core.ledger import Ledger, Mark
from muster.core.nodes import Ints, Nodes
from muster.core.placement import Claim, Trial, Want, place, short_of_slots
from muster.core.slots import Slots
from muster.core.topology import Topology
from muster.core.topology.exclusion import Exclusion
from muster.core.topology.gather import Gathering, Nearest

__all__ = ["Claim", "Fit"]


class Fit:
    """Places claims on the ledger: greedily, then exactly or, with constraints besides room, by search.

    Claims with rules about the topology are placed domain by domain.
    """

    def __init__(
        self,
        nodes: Nodes,
        ledger: Ledger,
        slots: Slots,
        topology: Topology,
        gangs: Mapping[GangId, GangState],
        pods: Mapping[PodId, PodsBound],
    ) -> None:
        self.exact = Exact(nodes, ledger, slots)
        self.exclusion = Exclusion(nodes, topology, gangs, pods)
        self.gathering = Gathering(nodes, topology, ledger, slots, self.exact)
        self._nodes = nodes
        self._ledger = ledger
        self.slots = slots

    def fit(self, claim: Claim) -> dict[Place, int] | Verdict:
        """Places → columns, charged to the ledger: at least the minimum, and as many more as fit.

        If the minimum does not fit, returns a verdict and leaves the ledger as it was.
        """
        barred = self.exclusion.barred(claim.want)
        if barred is not None and claim.planned:
            barred = np.setdiff1d(barred, claim.planned)
        if barred is not None and len(barred):
            excluded = barred if claim.excluded is None else np.union1d(barred, claim.excluded)
            claim = claim._replace(excluded=excluded)
        if claim.want.rules is not None:
            return self.gathering.place(claim)
        return self.anywhere(claim)

    def anywhere(self, claim: Claim) -> dict[Place, int] | Verdict:
        """As `fit`, for a claim without topology rules; other gangs' exclusive domains are not barred."""
        placed = place(
            claim.want,
            claim.vacant,
            claim.preferred,
            claim.excluded,
            self._ledger,
            self.slots,
            claim.presences,
        )
        if placed is not None:
            return placed
        if not claim.search:
            return Verdict(Rung.GREEDY, Answer.NONE_FOUND)
        if claim.want.constrained:
            return self._search(claim)
        return self.exact.place(claim.want, claim.vacant, claim.preferred, claim.excluded)

    def grounds(self, claim: Claim) -> list[Ints]:
        """Where to make room for a claim: by column the number of a domain that must hold its minimum, or -1.

        The tightest layer that the gang prefers is first, then what it requires. Empty if it fits nowhere,
        whatever pods leave.
        """
        if claim.want.rules is not None:
            return self.gathering.grounds(claim)
        everywhere = np.zeros(len(self._nodes), np.int32)
        if claim.excluded is not None:
            everywhere[claim.excluded] = -1
        return [everywhere]

    def by_slots(self, want: Want) -> bool:
        """Whether a want fits into one of its `grounds` if, and only if, that has enough slots."""
        shapes = {part.shape for part in want.parts}
        if want.constrained or want.sharing or len(shapes) > 1:
            return False
        return not self.gathering.multiplies(want) and not self.bars(want)

    def bars(self, want: Want) -> bool:
        """Whether some nodes may be barred for a want, whatever room they have."""
        return self.exclusion.barred(want) is not None

    def nearest(self, want: Want, verdict: Verdict | None) -> Nearest | None:
        """The domain of the required layer that takes most of the minimum of a want that does not fit."""
        return self.gathering.nearest(want, verdict, self.exclusion.barred(want))

    def refutes(self, want: Want) -> Verdict | None:
        """A verdict that needs no trial: too few slots, or an earlier proof. None: the want may fit."""
        if want.fits_by_slots:
            (part,) = want.parts
            return _TOO_FEW if min(part.count, self.slots.room(part.shape).total) < want.need else None
        if want.rules is None and short_of_slots(want, self.slots):
            return _TOO_FEW
        return self.exact.refutes(want)

    def devices(self, want: Want, placed: Mapping[Place, int], mark: Mark) -> dict[Place, int]:
        """The device of each of these places that shares a GPU, as charged since the mark."""
        taken, names = self._ledger.devices(mark), self._nodes.names
        if not taken:
            return {}
        shares = {part.pod_set: part.shape.gpu_share for part in want.parts}
        return {
            place: taken[names[column], share].pop(0)
            for place, column in sorted(placed.items())
            if (share := shares[place.pod_set])
        }

    def _search(self, claim: Claim) -> dict[Place, int] | Verdict:
        """Place a claim with constraints besides room: disprove it by room alone, else search pod by pod."""
        if not self.exact.turn(claim.want):
            return Verdict(Rung.GREEDY, Answer.NONE_FOUND)
        if proof := self.exact.lacks_room(claim.want, claim.excluded):
            return proof
        trial = Trial(claim.want.parts, claim.excluded, self._ledger, self.slots, presences=claim.presences)
        answer = search(trial, claim.want)
        return trial.places(claim.vacant) if answer is None else Verdict(Rung.SEARCH, answer)


#: There are fewer slots than the minimum takes.
_TOO_FEW: Final = Verdict(Rung.TOTALS, Answer.NONE_EXISTS)
