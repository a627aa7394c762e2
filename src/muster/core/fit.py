"""Whether a gang fits, and where: the one way from what it wants to a placement or a verdict.

Everybody who has that question asks it here, on the one ledger: a cycle that starts gangs, a search for
victims, a reservation, a remedy. Who only wants to know takes a mark of the ledger first and rolls back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from muster.core.exact import Answer, Exact, Rung, Verdict
from muster.core.gang import Place
from muster.core.ledger import Ledger
from muster.core.nodes import Columns, Nodes
from muster.core.placement import Want, place
from muster.core.slots import Slots


@dataclass(frozen=True, slots=True)
class Claim:
    """What is to be placed now, for whom. Columns are those of `Nodes`, good for this cycle."""

    want: Want
    #: indices of each part's vacant places, ascending
    vacant: Sequence[Sequence[int]]
    #: places that have a node of their own, and keep it if they can: held since they were vacated, or planned
    preferred: Mapping[Place, int] = field(default_factory=dict)
    #: where the gang's other places are, that stay there: bound, or held
    settled: Mapping[Place, int] = field(default_factory=dict)
    #: columns to keep off
    excluded: Columns | None = None
    #: whether to search where greedy placement finds none; without it, a no is no proof
    search: bool = True


class Fit:
    """Places claims on the ledger: greedily, then exactly."""

    def __init__(self, nodes: Nodes, ledger: Ledger, slots: Slots) -> None:
        self.exact = Exact(nodes, ledger, slots)
        self._ledger = ledger
        self._slots = slots

    def fit(self, claim: Claim) -> dict[Place, int] | Verdict:
        """Places → columns, charged to the ledger: at least the minimum, and as many more as fit.

        A verdict, and the ledger as it was, if the minimum does not fit.
        """
        placed = place(claim.want, claim.vacant, claim.preferred, claim.excluded, self._ledger, self._slots)
        if placed is not None:
            return placed
        if not claim.search:
            return Verdict(Rung.GREEDY, Answer.NONE_FOUND)
        return self.exact.place(claim.want, claim.vacant, claim.preferred, claim.excluded)
