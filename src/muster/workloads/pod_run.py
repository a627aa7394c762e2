"""One pod's run, from its creation to its end: what the history keeps, and what a timeline shows.

`run_of` reads it from a pod as the API server has it, on the embedded cluster and on a real one.
"""

from datetime import UTC, datetime, timedelta

import msgspec

from muster.api.base import condition, is_true
from muster.api.batch_v1 import COMPLETION_INDEX, JOB_NAME
from muster.api.core_v1 import Pod
from muster.api.jobset_v1alpha2 import (
    JOB_GLOBAL_INDEX,
    JOB_INDEX,
    JOBSET_NAME,
    JOBSET_UID,
    REPLICATED_JOB_NAME,
    RESTART_ATTEMPT,
)
from muster.api.natural import natural
from muster.names import PREEMPTED


class PodRun(msgspec.Struct, frozen=True, gc=False):
    """One pod from its creation to its end. Times are in seconds since 1970; None means not (yet)."""

    uid: str
    namespace: str
    name: str
    #: names and indexes of the pod's owners; "" or None if it has none
    jobset: str
    jobset_uid: str
    replicated_job: str
    job: str
    job_index: int | None
    completion_index: int | None
    attempt: int
    node: str
    created: float
    bound: float | None
    started: float | None
    ended: float | None
    #: Pending, Running, Succeeded, Failed; "Deleted" if it was removed before it ended
    phase: str
    #: exit code of the first container that failed, else 0 once all have ended, else None
    exit_code: int | None
    reason: str
    #: restarts of containers within the pod
    restarts: int
    #: whether muster itself decided to end the pod, which is no failure
    preempted: bool
    #: whether the run ended because the pod was deleted, whatever its exit code
    deleted: bool
    #: index of the pod's job among all jobs of the JobSet, in the order of the file
    job_global_index: int | None = None

    @property
    def failed_by_itself(self) -> bool:
        """Whether the pod failed, and was not stopped, whatever its exit code."""
        return self.phase == "Failed" and not self.preempted and not self.deleted


def run_of(pod: Pod, now: float | None = None) -> PodRun:
    """The run that a pod records. `now` stands for times that its status leaves out; None: unknown."""
    meta, status = pod.metadata, pod.status
    labels = meta.labels
    states = [container.state for container in status.container_statuses]
    ends = [state.terminated for state in states if state.terminated]
    failures = [end for end in ends if end.exit_code]
    first = min(failures, key=lambda end: _seconds(end.finished_at) or 0.0, default=None)
    parts = [
        part
        for container in status.container_statuses
        for state in (container.state, container.last_state)
        for part in (state.running, state.terminated)
    ]
    starts = [part.started_at for part in parts if part is not None and part.started_at is not None]
    started = _seconds(min(starts, default=None))
    ended = max((end.finished_at for end in ends if end.finished_at), default=None)
    if ended is None and now is not None:
        ended = datetime.fromtimestamp(now, UTC)
    bound = condition(status.conditions, "PodScheduled")
    created = _seconds(meta.creation_timestamp)
    return PodRun(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        jobset=labels.get(JOBSET_NAME, ""),
        jobset_uid=labels.get(JOBSET_UID, ""),
        replicated_job=labels.get(REPLICATED_JOB_NAME, ""),
        job=labels.get(JOB_NAME, ""),
        job_index=natural(labels.get(JOB_INDEX)),
        completion_index=natural(labels.get(COMPLETION_INDEX) or meta.annotations.get(COMPLETION_INDEX)),
        attempt=natural(labels.get(RESTART_ATTEMPT)) or 0,
        node=pod.spec.node_name,
        created=created if created is not None else now or 0.0,
        bound=_seconds(bound.last_transition_time if bound and bound.status == "True" else None),
        started=now if started is None and status.phase == "Running" else started,
        ended=_seconds(ended) if pod.terminal else None,
        phase=status.phase or "Pending",
        exit_code=first.exit_code if first is not None else 0 if ends and len(ends) == len(states) else None,
        reason=status.reason or (first.reason if first is not None else ""),
        restarts=sum(container.restart_count for container in status.container_statuses),
        preempted=is_true(status.conditions, PREEMPTED),
        deleted=pod.terminal and ended is not None and told_to_end(pod, ended),
        job_global_index=natural(labels.get(JOB_GLOBAL_INDEX)),
    )


def told_to_end(pod: Pod, ended: datetime) -> bool:
    """Whether the pod was being deleted when it ended.

    Its deletion timestamp is the end of its grace period.
    """
    meta = pod.metadata
    if meta.deletion_timestamp is None:
        return False
    return ended >= meta.deletion_timestamp - timedelta(seconds=meta.deletion_grace_period_seconds or 0)


def _seconds(time: datetime | None) -> float | None:
    return time.timestamp() if time else None
