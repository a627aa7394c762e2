"""The answer to a placement request: `Placed`, or `Infeasible` with the reason.

An answer is true if the request fits, so that a caller reads `if placed := fit.fit(request)`. An optional
`Infeasible` is therefore compared with None, never tested for truth.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Literal, final

from muster.core.words.gang import Place


@final
@dataclass(frozen=True, slots=True)
class Placed:
    """The request fits: the node's column of each place, charged to the ledger."""

    columns: dict[Place, int]


class Reason(Enum):
    """Why a minimum does not fit: the last step that was tried, and what it shows."""

    #: less is free of some resource, or of some pods' slots, than the minimum takes; a proof
    TOTALS = "totals"
    #: a linear program over patterns does not hold the minimum; a proof, checked in integers
    RELAXATION = "relaxation"
    #: the search ended without a placement; it computes in floating point, so this is no proof
    EXHAUSTED = "exhausted"
    #: the search used up its budget
    BUDGET = "budget"
    #: the nodes can be filled in too many ways for a search
    PATTERNS = "too many patterns"
    #: only greedy placement was tried: the search budget went to other demands, or a search is not possible
    UNSEARCHED = "not searched"


_PROOFS = (Reason.TOTALS, Reason.RELAXATION)
_FINAL = (*_PROOFS, Reason.EXHAUSTED)


@dataclass(frozen=True, slots=True)
class Infeasible:
    """The request does not fit, as far as the reason shows; the ledger is as it was."""

    reason: Reason
    #: level and number of the one topology domain in which the gang has to stay
    home: tuple[int, int] | None = None

    def __bool__(self) -> Literal[False]:
        return False

    @property
    def proven(self) -> bool:
        return self.reason in _PROOFS

    @property
    def open(self) -> bool:
        """Whether a placement may exist, so that a later attempt may find it, even with less free."""
        return self.reason not in _FINAL

    @property
    def postponed(self) -> bool:
        """Whether a search is still to be made, once the search budget serves this demand."""
        return self.reason is Reason.UNSEARCHED
