"""Settings of a scheduler."""

from collections.abc import Callable
from dataclasses import dataclass

from muster.core.placement.packing import Pack
from muster.core.placement.slots import Order
from muster.core.reservations import Backfill
from muster.core.world.eligibility import Eligibility
from muster.core.world.nodes import Nodes


@dataclass(frozen=True, slots=True)
class Config:
    """Settings of a scheduler, fixed for its life. A policy of the simulator is one of these."""

    #: seconds a vacated place of a standing gang stays held for its replacement
    hold: float = 300.0
    #: seconds until the next cycle if exact searches had to be put off
    turn: float = 1.0
    #: say why gangs wait (`Wait`); False for a replay whose explanations are not read
    explain: bool = True
    #: which gangs may start ahead of a gang that waits
    backfill: Backfill = Backfill.EASY
    #: under `conservative`: how many waiting gangs have a reservation
    depth: int = 64
    #: seconds after which nodes are kept free for a gang whose start cannot be estimated; None: never
    drain_after: float | None = 3600.0
    #: whether gangs that may backfill are served by rising duration, not in queue order
    shortest_first: bool = False
    #: the order in which nodes are filled
    order: Callable[[Nodes, Eligibility], Order] = Pack
    #: gangs of each queue for which a cycle finds what would start them, and placements that it tries for it
    remedies: int = 3
    trials: int = 100
    #: steps per cycle for demands that take long, and for explanations (`core/work.py`); None: without limit,
    #: as without `explain`
    steps: int | None = 1000
