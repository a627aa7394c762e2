"""Core outcomes → what people read: Gang records, and the PodScheduled condition of a gang of one.

Everything here is bounded, because it is written into objects: a message, a blocker list or a reason
that grew with the cluster would make the API server refuse the very thing that explains the trouble.
"""

from datetime import datetime
from enum import Enum

from muster.api.base import Object
from muster.api.core_v1 import Pod
from muster.core.decisions import Explanation
from muster.translate.group import Group


class Phase(Enum):
    """Where a gang stands (docs/architecture.md, "Words")."""

    WAITING = "Waiting"
    HELD = "Held"
    STARTING = "Starting"
    STANDING = "Standing"
    FINISHED = "Finished"
    DEGRADED = "Degraded"


def gang_record(group: Group) -> Object:
    """The body that creates the Gang record: with finalizer, owned by its group object."""
    raise NotImplementedError


def gang_spec(group: Group) -> Object:
    """`spec` of the Gang record; also the body of a merge patch, under "spec", when it has changed."""
    raise NotImplementedError


def gang_status(
    phase: Phase, explanation: Explanation | None = None, *, epoch: int = 0, attempt: int = 0
) -> Object:
    """Merge patch for `gangs/status`: phase, reason, explanation, expectedStart, epoch, attempt, no more.

    Without an explanation, the one that is there is taken away.
    """
    raise NotImplementedError


def unschedulable(pod: Pod, explanation: Explanation, now: datetime) -> Object | None:
    """Merge patch for `pods/status`: PodScheduled=False; None where the pod says so already.

    It is conditional on the pod's resourceVersion, as lists are replaced as a whole.
    """
    raise NotImplementedError
