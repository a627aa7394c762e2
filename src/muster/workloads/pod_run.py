"""One pod's run, from its creation to its end: what the history keeps, and what a timeline shows.

`run_of` reads it from a pod as the API server has it, on the embedded cluster and on a real one;
`progress_of` reads only the part that changes.
"""

from datetime import UTC, datetime

import msgspec
from msgspec.structs import asdict

from muster.api.base import bounded, condition, deletion_asked, is_true
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
from muster.api.membership import pod_groups
from muster.api.natural import natural
from muster.names import PREEMPTED


class Progress(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The part of a run that changes. Times are in seconds since 1970; None means not (yet)."""

    node: str
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

    @property
    def failed_by_itself(self) -> bool:
        """Whether the pod failed, and was not stopped, whatever its exit code."""
        return self.phase == "Failed" and not self.preempted and not self.deleted


class PodRun(Progress, frozen=True, gc=False, kw_only=True):
    """One pod from its creation to its end."""

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
    created: float
    #: index of the pod's job among all jobs of the JobSet, in the order of the file
    job_global_index: int | None = None
    #: the PodGroup that the pod names; "" if it names none
    pod_group: str = ""


def run_of(pod: Pod, now: float | None = None) -> PodRun:
    """The run that a pod records. `now` stands for times that its status leaves out; None: unknown."""
    meta = pod.metadata
    labels = meta.labels
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
        created=created if created is not None else now or 0.0,
        job_global_index=natural(labels.get(JOB_GLOBAL_INDEX)),
        pod_group=next((name for _, name in pod_groups(labels, meta.annotations)), ""),
        **asdict(progress_of(pod, now)),
    )


def progress_of(pod: Pod, now: float | None = None) -> Progress:
    """The part of a pod's run that changes; `now` as for `run_of`."""
    status, starts, ends, restarts = pod.status, [], [], 0
    for container in status.container_statuses:
        restarts += container.restart_count
        for state in (container.state, container.last_state):
            for part in (state.running, state.terminated):
                if part is not None and part.started_at is not None:
                    starts.append(part.started_at)
        if container.state.terminated is not None:
            ends.append(container.state.terminated)
    failures = [end for end in ends if end.exit_code]
    first = min(failures, key=lambda end: _seconds(end.finished_at) or 0.0, default=None)
    started = _seconds(min(starts, default=None))
    ended = None
    if pod.terminal:
        ended = max((end.finished_at for end in ends if end.finished_at), default=None)
        if ended is None and now is not None:
            ended = datetime.fromtimestamp(now, UTC)
    bound = condition(status.conditions, "PodScheduled")
    return Progress(
        node=pod.spec.node_name,
        bound=_seconds(bound.last_transition_time if bound and bound.status == "True" else None),
        started=now if started is None and status.phase == "Running" else started,
        ended=_seconds(ended),
        phase=status.phase or "Pending",
        exit_code=first.exit_code
        if first is not None
        else 0
        if ends and len(ends) == len(status.container_statuses)
        else None,
        reason=status.reason or (first.reason if first is not None else ""),
        restarts=restarts,
        preempted=is_true(status.conditions, PREEMPTED),
        deleted=ended is not None and told_to_end(pod, ended),
    )


def told_to_end(pod: Pod, ended: datetime) -> bool:
    """Whether the pod was being deleted when it ended."""
    asked = deletion_asked(pod.metadata)
    return asked is not None and ended >= asked


def _seconds(time: datetime | None) -> float | None:
    return bounded(time).timestamp() if time else None
