"""The answers: a `Reservation`, which says when and where a gang can start, and `WouldDelay`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import inf
from typing import Literal

import numpy as np
import numpy.typing as npt

from muster.core.demand import Demand, Request
from muster.core.words.decisions import Explanation, Reserve
from muster.core.words.gang import Code, GangId, NodeName, Place, Shape
from muster.core.world.devices import Device
from muster.core.world.nodes import Columns

#: Amounts, rows of the ledger × columns.
Amounts = npt.NDArray[np.int64]


@dataclass(slots=True, eq=False)
class Reservation:
    """Places that are kept for a gang.

        made ────────── at ────────────── gone ──────── until
        it was found    it takes its      it has ended  the same, after
                        places            as first      the delays of
                                          planned       `at` since then

    All are in seconds since the epoch. `start` is what is announced of `at`: the same time, or infinite for a
    gang that fits at no known time, for which nodes are kept free at once.
    """

    gang: GangId
    request: Request
    start: float
    #: a gang that has ended by then does not matter to it
    at: float
    #: infinite if the end is unknown, or does not matter
    until: float
    nodes: Mapping[Place, NodeName]
    #: ascending
    columns: Columns
    #: what the gang will use of them: of GPUs, whole ones; devices for shares, by node and thousandths; and
    #: how much of each
    use: Amounts
    devices: Mapping[tuple[NodeName, int], Sequence[int]]
    shares: Mapping[Device, int]
    #: what they can spare once it has begun, and what is in use of their shared GPUs then
    spare: Amounts
    shared: dict[Device, int]
    #: the gangs that have to end for it; None: to be computed
    basis: tuple[GangId, ...] | None
    made: float
    #: how many gangs had arrived by `made`: a gang that arrived later and ranks higher has precedence
    arrivals: int
    #: what overlaps with it only after `gone` is delayed in turn
    gone: float
    #: how many pods of a shape fit beside it on all nodes, as of a position in the log of changes
    beside: dict[Shape, tuple[int, int]] = field(default_factory=dict)
    _refusal: Explanation | None = None

    @property
    def demand(self) -> Demand:
        return self.request.demand

    @property
    def refusal(self) -> Explanation:
        """The reason of gangs that would delay it."""
        if self._refusal is None:
            self._refusal = held(f"would fit, but {self.gang} {self._waits}", self.gang)
        return self._refusal

    def delayed(self, at: float) -> "Reservation":
        """The same places, from this time on."""
        start = self.start if self.start == inf else at
        until = self.until + (at - self.at)
        gone = self.gone if at < self.gone else until
        return replace(self, start=start, at=at, until=until, gone=gone, basis=None, beside={}, _refusal=None)

    def is_announced(self, known: Reserve, now: float) -> bool:
        """Whether `known` says this already. If it is overdue it begins any moment, now as before."""
        if known.start != self.start and max(known.start, self.at) > now:
            return False
        return known.nodes is self.nodes or known.nodes == self.nodes

    def set_spare(self, spare: Amounts, shared: dict[Device, int]) -> None:
        """Set what it can spare from now on."""
        self.spare, self.shared = spare, shared
        self.beside.clear()

    @property
    def _waits(self) -> str:
        if self.start == inf:
            return "has waited for so long that nodes are kept free for it until others end"
        if self.start <= self.made:
            return "waits for longer and is expected to start any moment"
        when = f"{datetime.fromtimestamp(self.start, UTC):%Y-%m-%d %H:%M:%S} UTC"
        return f"waits for longer and is expected to start at {when}"


@dataclass(frozen=True, slots=True)
class WouldDelay:
    """The answer to a placement request that would fit but for a reservation; false, as `Infeasible`."""

    reservation: Reservation
    #: a search that was not made might place it beside the reservations
    postponed: bool = False

    def __bool__(self) -> Literal[False]:
        return False


def held(message: str, gang: GangId) -> Explanation:
    """The reason of a gang that waits for this gang's reservation."""
    return Explanation(Code.HELD_FOR_RESERVATION, "reservation", message, blockers=(gang,))
