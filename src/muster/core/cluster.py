"""The shared state: everything that the parts of the scheduler have in common, each piece with one owner.

Facts change it; a cycle reads it and charges its decisions to it. Every part that works on the state gets it
as a whole. The parts that decide (queues' admission, victims, reservations, turns) do not belong to it.
"""

from collections.abc import Callable

from muster.core.eligibility import Eligibility
from muster.core.ends import Ends
from muster.core.events import PodsBound
from muster.core.fit import Fit
from muster.core.gang import Gang, PodId
from muster.core.gangs import Gangs
from muster.core.ledger import Ledger
from muster.core.nodes import Nodes
from muster.core.packing import Order
from muster.core.queues import Queues
from muster.core.quotas import Quotas
from muster.core.slots import Slots
from muster.core.topology import Topology
from muster.core.wants import Wants


class Cluster:
    """Nodes and what is charged to them, gangs and their pods, queues and quotas, and where things fit."""

    def __init__(
        self, order: Callable[[Nodes, Eligibility], Order], duration: Callable[[Gang], float]
    ) -> None:
        """Empty. `order` and `duration`: as in `Config` and `Ends`."""
        self.gangs, self.pods = Gangs(), dict[PodId, PodsBound]()
        self.nodes = Nodes()
        self.eligibility = Eligibility(self.nodes)
        filling = order(self.nodes, self.eligibility)
        self.ledger = Ledger(self.nodes, filling.device)
        self.slots = Slots(self.nodes, self.eligibility, filling)
        self.topology = Topology(self.nodes)
        self.queues, self.quotas = Queues(self.nodes, self.eligibility), Quotas()
        self.ends = Ends(self.pods, self.ledger, duration)
        self.wants = Wants(self.ledger.presences)
        self.fit = Fit(self.nodes, self.ledger, self.slots, self.topology, self.gangs, self.pods)
