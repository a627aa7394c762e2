"""The world: everything that is known of the cluster, each fact with one owner.

Facts change it; a cycle reads it and charges its decisions to it. What the scheduler concludes from it (whose
turn it is, where a gang fits, which gangs are victims) belongs to the packages above.
"""

from collections.abc import Callable

from muster.core.words.events import PodsBound
from muster.core.words.gang import Gang, PodId
from muster.core.world.completions import Ends
from muster.core.world.devices import Choose
from muster.core.world.eligibility import Eligibility
from muster.core.world.exclusive_domains import ExclusiveDomains
from muster.core.world.gangs import Gangs
from muster.core.world.lacking import Demands
from muster.core.world.ledger import Ledger
from muster.core.world.nodes import Nodes
from muster.core.world.queues import Queues
from muster.core.world.quotas import Quotas
from muster.core.world.topology import Topology


class World:
    """Nodes and what is charged to them, gangs and their pods, queues and quotas."""

    def __init__(
        self, nodes: Nodes, eligibility: Eligibility, device: Choose, duration: Callable[[Gang], float]
    ) -> None:
        """Empty, but for `nodes`. `device` and `duration`: as in `Ledger` and `Ends`."""
        self.gangs, self.pods = Gangs(), dict[PodId, PodsBound]()
        self.nodes, self.eligibility = nodes, eligibility
        self.ledger = Ledger(nodes, device)
        self.topology = Topology(nodes)
        self.exclusive_domains = ExclusiveDomains(nodes, self.topology, self.gangs, self.pods)
        self.queues, self.quotas = Queues(nodes, eligibility), Quotas()
        self.ends = Ends(self.pods, self.ledger, duration)
        self.demands = Demands(self.ledger.presences)
