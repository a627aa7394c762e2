"""One pod's run, from its creation to its end: what the history keeps, and what a timeline shows.

`run_of` reads it from a pod as the API server has it, on the embedded cluster and on a real one;
`progress_of` reads only the part that changes.
"""

from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec.structs import asdict

from muster.api import groups, requests
from muster.api.base import condition, deletion_asked, is_true
from muster.api.batch_v1 import COMPLETION_INDEX, JOB_NAME
from muster.api.core_v1 import Pod
from muster.api.failures import Failure, last_failures, verdict
from muster.api.fields import UNREADABLE
from muster.api.jobset_v1alpha2 import (
    JOB_GLOBAL_INDEX,
    JOB_INDEX,
    JOBSET_NAME,
    JOBSET_UID,
    REPLICATED_JOB_NAME,
    RESTART_ATTEMPT,
)
from muster.api.natural import natural
from muster.api.pod_label import labelled
from muster.api.times import seconds
from muster.names import GPU_PRODUCT, NODE_GONE, PREEMPTED

#: Characters of a failure's message that are kept.
WHY: Final = 1024


class Progress(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The part of a run that changes. Times are in seconds since 1970; None means not (yet)."""

    node: str
    bound: float | None
    started: float | None
    ended: float | None
    #: Pending, Running, Succeeded, Failed; "Deleted" if it was removed before it ended
    phase: str
    #: exit code of the container that failed, or 0, once all have ended; None before
    exit_code: int | None
    reason: str
    #: restarts of containers within the pod
    restarts: int
    #: whether muster itself decided to end the pod, which is no failure
    preempted: bool
    #: whether the run ended because the pod was deleted, whatever its exit code
    deleted: bool
    #: its newest failure, if a container failed by itself: container, exit code, time, and what else is known
    failed_container: str = ""
    failed_code: int | None = None
    failed_at: float | None = None
    failed_why: str = ""
    #: how often that container has failed if it starts again in place; 0 if it does not
    failed_times: int = 0
    #: which start of that container it was, from 0
    failed_start: int = 0
    #: the names of the pod's containers with blanks in between, in the order in which they start
    containers: str = ""

    @property
    def failed_by_itself(self) -> bool:
        """Whether the pod failed, and was not merely stopped, whatever its exit code."""
        if self.preempted or self.phase not in ("Failed", "Deleted"):
            return False
        return self.failed_code is not None or (self.phase == "Failed" and not self.deleted)


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
    #: what the pod requests: GPUs and shares of one, CPUs, GiB of memory, and the product of the GPUs
    gpus: float = 0.0
    cpus: float = 0.0
    memory: float = 0.0
    product: str = ""


def run_of(pod: Pod, now: float | None = None) -> PodRun:
    """The run that a pod records. `now` stands for times that its status leaves out; None: unknown."""
    meta = pod.metadata
    labels = meta.labels
    created = _seconds(meta.creation_timestamp)
    gpus, cpus, memory = _requests(pod)
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
        pod_group=group.name if (group := groups.named(pod)) is not None else "",
        gpus=gpus,
        cpus=cpus,
        memory=memory,
        product=pod.spec.node_selector.get(GPU_PRODUCT, ""),
        **asdict(progress_of(pod, now)),
    )


def _requests(pod: Pod) -> tuple[float, float, float]:
    """GPUs, CPUs and GiB of memory; nothing of a pod whose requests cannot be read."""
    try:
        amounts = dict(requests.requests(pod.spec))
        return requests.gpus(pod), amounts.get("cpu", 0) / 1000, amounts.get("memory", 0) / 2**30
    except UNREADABLE:
        return 0.0, 0.0, 0.0


def progress_of(pod: Pod, now: float | None = None) -> Progress:
    """The part of a pod's run that changes; `now` as for `run_of`."""
    status, starts, ends, restarts = pod.status, [], [], 0
    mains = len(status.container_statuses)
    for number, container in enumerate([*status.container_statuses, *status.init_container_statuses]):
        restarts += container.restart_count
        for state in (container.state, container.last_state):
            for part in (state.running, state.terminated):
                if part is not None and part.started_at is not None:
                    starts.append(part.started_at)
        if container.state.terminated is not None and number < mains:
            ends.append(container.state.terminated)
    found = verdict(last_failures(pod))
    first = found.first if found is not None else None
    code = first.code if first is not None else None
    if code is None:
        code = next((end.exit_code for end in ends if end.exit_code), None)
    over = bool(ends) and len(ends) == mains
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
        exit_code=0 if code is None and over else code if over or pod.terminal else None,
        reason=status.reason or _lost(pod) or ("Error" if code and (over or pod.terminal) else ""),
        restarts=restarts,
        preempted=is_true(status.conditions, PREEMPTED),
        deleted=ended is not None and told_to_end(pod, ended),
        failed_container=first.container if first is not None else "",
        failed_code=first.code if first is not None else None,
        failed_at=_seconds(first.at) if first is not None else None,
        failed_why=first.why[:WHY] if first is not None else "",
        failed_times=first.times if first is not None else 0,
        failed_start=first.start if first is not None else 0,
        containers=" ".join(each.name for each in (*pod.spec.init_containers, *pod.spec.containers)),
    )


def _lost(pod: Pod) -> str:
    """`NodeLost` if muster has ended the pod because its node is gone, as on simulated nodes; else ""."""
    why = condition(pod.status.conditions, "DisruptionTarget")
    gone = why is not None and why.reason == NODE_GONE and is_true(pod.status.conditions, PREEMPTED)
    return "NodeLost" if gone else ""


def failure_of(run: PodRun) -> Failure | None:
    """The failure that a run records, as `last_failures` reads it from its pod; None without one."""
    if run.preempted or run.phase == "Succeeded" or (run.failed_code is None and not run.failed_by_itself):
        return None
    return Failure(
        namespace=run.namespace,
        pod=run.name,
        uid=run.uid,
        label=label_of(run),
        node=run.node,
        container=run.failed_container,
        several=" " in run.containers,
        code=run.failed_code,
        why=run.failed_why,
        at=datetime.fromtimestamp(run.failed_at, UTC) if run.failed_at is not None else None,
        attempt=run.attempt,
        times=run.failed_times,
        start=run.failed_start,
    )


def job_of(run: PodRun) -> str:
    """The name of the job that the pod belonged to."""
    return run.jobset or run.job or run.pod_group or run.name


def label_of(run: PodRun) -> str:
    """The label of the run's pod (`pod_label`)."""
    job_index, index = ("" if each is None else str(each) for each in (run.job_index, run.completion_index))
    return labelled(run.replicated_job, job_index, run.job, index, run.name)


def told_to_end(pod: Pod, ended: datetime) -> bool:
    """Whether the pod was being deleted when it ended."""
    asked = deletion_asked(pod.metadata)
    return asked is not None and ended >= asked


def _seconds(time: datetime | None) -> float | None:
    return seconds(time) if time else None
