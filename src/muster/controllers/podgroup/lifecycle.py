"""What becomes of a running group of which a pod has ended: the mark `muster.dev/below-minimum`.

kube-batch's proposal leaves the pods to their controllers, unless the group asks for a restart of the whole.
Muster does the same, in all dialects. `leave`, the default: the controllers of the pods decide. `restart`: if
fewer pods than the minimum are left of those that were there as one failed, was refused by its node or was
deleted, muster deletes the others, too. Their controllers re-create them.

Pods that have been created since, or in the same second, are of the next life, and stay. What muster evicts
by its own decision begins no restart. So a restart ends, however late it is seen. A pod that was deleted is
seen only while it ends. A pod without a controller would be lost, so a group with such a pod is not
restarted, and an Event says so.

Only pods that muster schedules are counted and deleted.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from muster.api.base import condition, controller_of, deletion_asked, involved, is_true
from muster.api.core_v1 import Pod
from muster.api.marks import BELOW_MINIMUM, RESTART
from muster.controllers.podgroup.observed import Observed
from muster.effects import Effect, Evict, RecordEvent
from muster.names import PREEMPTED, PREEMPTION

#: The reasons of the Events.
RESTARTED: Final = "Restarted"
NOT_RESTARTED: Final = "NotRestarted"


def restart(observed: Observed) -> Iterator[Effect]:
    """Yields what restarts the group, if it asks for that and is below its minimum."""
    group = observed.group
    if BELOW_MINIMUM.get(group.metadata) != RESTART:
        return
    pods = observed.scheduled
    ends = [end for pod in pods if (end := _end(pod)) is not None and not _evicted(pod)]
    if not ends:
        return
    last = max(ends)
    left = [pod for pod in pods if _end(pod) is None and _created(pod) < last]
    running = [pod for pod in left if pod.spec.node_name and not pod.terminal]
    if not running or len(left) >= observed.least:
        return
    about, occasion = involved(group, observed.dialect.kind), f"below its minimum since {last}"
    few = f"{len(left)} of {observed.least} pods that must run together are left"
    alone = sorted(pod.metadata.name for pod in running if controller_of(pod) is None)
    if alone:
        told = f"{few}, but pod {alone[0]} has no controller, so nothing would re-create it"
        yield RecordEvent(about, "Warning", NOT_RESTARTED, told, occasion)
        return
    yield RecordEvent(about, "Warning", RESTARTED, f"{few}; all of them restart", occasion)
    for pod in running:
        yield Evict(pod, f"PodGroup {group.metadata.name} restarts: {few}")


def _end(pod: Pod) -> datetime | None:
    """Returns when a pod failed, or when its deletion was asked for; None: neither."""
    asked = deletion_asked(pod.metadata)
    if asked is not None or pod.status.phase != "Failed":
        return asked
    states = (each.state.terminated for each in pod.status.container_statuses)
    ends = [state.finished_at for state in states if state is not None and state.finished_at is not None]
    return max(ends, default=pod.status.start_time or _created(pod))


def _evicted(pod: Pod) -> bool:
    """Whether muster ended it by its own decision. A pod that it deletes with its node was lost before."""
    why = condition(pod.status.conditions, "DisruptionTarget")
    return why is not None and why.reason == PREEMPTION and is_true(pod.status.conditions, PREEMPTED)


def _created(pod: Pod) -> datetime:
    created = pod.metadata.creation_timestamp
    assert created is not None, "an object of an API server has a time of creation"
    return created
