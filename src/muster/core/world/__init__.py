"""The world: everything that is known of the cluster, each fact with one owner (`state.py`).

`apply` records an event. `settle` begins a cycle: it updates what follows from the events. A cycle then reads
the world and charges its decisions to it (`started`, `evicted`, `account`). What the scheduler concludes from
the world (whose turn it is, where a gang fits, which gangs are victims) belongs to the packages above. They
read the gangs that `settle` says have changed, and compare version counters.
"""

from collections.abc import Callable
from typing import NamedTuple

from muster.core.words.decisions import Release
from muster.core.words.events import Event
from muster.core.words.gang import Gang, GangId
from muster.core.world.accounting import Accounting
from muster.core.world.devices import Choose
from muster.core.world.eligibility import Eligibility
from muster.core.world.gangs import GangState
from muster.core.world.handlers import Handlers
from muster.core.world.nodes import Nodes
from muster.core.world.state import State
from muster.core.world.trial import Trial


class Settled(NamedTuple):
    #: gangs whose hold has just run out
    lapsed: set[GangId]
    #: what is released, a decision per gang
    releases: list[Release]
    #: gangs whose accounts have changed
    changed: list[GangState]


class World(State):
    def __init__(
        self,
        hold: float,
        nodes: Nodes,
        eligibility: Eligibility,
        device: Choose,
        duration: Callable[[Gang], float],
    ) -> None:
        """`hold`: as in `Config`; else as in `State`."""
        super().__init__(nodes, eligibility, device, duration)
        self.accounting = Accounting(hold, self)
        self._handlers = Handlers(hold, self)

    def settle(self, now: float) -> Settled:
        """Begin a cycle: update what follows from the events, and release holds that end now."""
        self.nodes.settle()
        lapsed, releases = self.accounting.release(now)
        self.pending_evictions.settle_deleted(now)
        self.accounting.touch_concerned()
        return Settled(lapsed, releases, self.accounting.settle())

    def account(self) -> list[GangState]:
        """Update the accounts of all gangs that have changed, and return these gangs."""
        self.nodes.settle()
        return self.accounting.settle()

    def trial(self) -> Trial:
        """Begin a trial: what is changed in it can be undone (`trial.py`)."""
        return Trial(self.log)

    def end_forsaken(self) -> bool:
        """End pending evictions whose beneficiary gave up. Returns whether there were any."""
        over = self.pending_evictions.end_forsaken()
        self.gangs.touched |= over & self.gangs.keys()
        return bool(over)

    def apply(self, event: Event) -> None:
        """Record one event. A repeated event changes nothing."""
        self._handlers.apply(event)
