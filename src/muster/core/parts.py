"""What a scheduler consists of, for the steps of a cycle and for explanations: both read all of it."""

from typing import NamedTuple

from muster.core.infeasible import InfeasibleDemands
from muster.core.placement import Fit
from muster.core.preemption import Preemption
from muster.core.queueing import Admission
from muster.core.queueing.pending import PendingQueues
from muster.core.reservations import Reservations
from muster.core.world import World


class Parts(NamedTuple):
    """The world, and the parts of a scheduler that answer questions about it."""

    world: World
    fit: Fit
    infeasible: InfeasibleDemands
    admission: Admission
    pending: PendingQueues
    preemption: Preemption
    reservations: Reservations
