"""What is known of the cluster: each fact has one owner, and this is the list of them."""

from collections.abc import Callable

from muster.core.words.events import PodsBound
from muster.core.words.gang import Gang, NodeName, PodId
from muster.core.world.budgets import Budgets
from muster.core.world.completions import Completions
from muster.core.world.eligibility import Eligibility
from muster.core.world.exclusive_domains import ExclusiveDomains
from muster.core.world.gangs import Gangs
from muster.core.world.lacking import Demands
from muster.core.world.ledger import Choose, Ledger
from muster.core.world.nodes import Nodes
from muster.core.world.pending_evictions import PendingEvictions
from muster.core.world.queues import Queues
from muster.core.world.quotas import Quotas
from muster.core.world.topology import Topology
from muster.core.world.trial import UndoLog


class State:
    """Nodes and what is charged to them, gangs and their pods, queues and quotas."""

    def __init__(
        self,
        hold: float,
        nodes: Nodes,
        eligibility: Eligibility,
        device: Choose,
        duration: Callable[[Gang], float],
    ) -> None:
        """Empty, but for `nodes`. `hold`: as in `Config`; `device` and `duration`: as in `Ledger` and
        `Completions`.
        """
        self.hold, self.nodes, self.eligibility = hold, nodes, eligibility
        self.gangs, self.pods = Gangs(), dict[PodId, PodsBound]()
        self.log = UndoLog()
        self.ledger = Ledger(nodes, device, self.log)
        self.topology = Topology(nodes)
        self.exclusive_domains = ExclusiveDomains(nodes, self.topology, self.gangs, self.pods, self.log)
        self.queues, self.quotas, self.budgets = (
            Queues(nodes, eligibility, self.log),
            Quotas(self.log),
            Budgets(),
        )
        self.pending_evictions = PendingEvictions(
            self.ledger, self.exclusive_domains, self.pods, self.gangs, self.log
        )
        self.completions = Completions(self.gangs, self.pods, self.ledger, self.pending_evictions, duration)
        self.demands = Demands(self.ledger.footprints)
        #: nodes that may have less room than is promised there: they changed, or unplanned pods were bound
        #: there
        self.unexpected: set[NodeName] = set()
        #: nodes that were removed since the last cycle
        self.removed: set[NodeName] = set()
        #: `AntiAffinity.as_of` up to which gangs know the anti-affinity that keeps them off nodes
        self.carried = 0
        #: time of the last cycle, or of a dry run
        self.now = 0.0
        #: how often a gang was accounted for, or got promised pods, ever
        self.accounted = 0
