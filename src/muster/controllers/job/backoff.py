"""Computes how long a Job waits before it replaces a failed pod: 10 s, doubled per failure, at most 6 min.

Only failures since the last success count: of the whole Job, or with `backoffLimitPerIndex` of the index.
Nothing is stored. The delay follows from the pods that exist, so deleting a pod removes its share of
the delay, and a Job that was resumed starts without a delay. Source: KEP-3850.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from muster.api.base import condition, deletion_asked
from muster.api.core_v1 import Pod
from muster.kube.clock import back_off

#: Seconds: the first delay and the longest.
BACK_OFF: Final = (10.0, 360.0)

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def delay(failures: int) -> timedelta:
    """Returns the delay after this many failures in a row."""
    return timedelta(seconds=back_off(BACK_OFF, failures - 1) if failures > 0 else 0)


def finish_time(pod: Pod) -> datetime:
    """Returns when the pod ended: the best estimate, and never one that changes."""
    ends = [
        status.state.terminated.finished_at
        for status in pod.status.container_statuses
        if status.state.terminated is not None and status.state.terminated.finished_at is not None
    ]
    if ends and len(ends) == len(pod.status.container_statuses):
        return max(ends)
    ready = condition(pod.status.conditions, "Ready")
    if ready is not None and ready.status == "False" and ready.last_transition_time is not None:
        return ready.last_transition_time
    return deletion_asked(pod.metadata) or pod.metadata.creation_timestamp or EPOCH
