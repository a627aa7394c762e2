"""Sorts the pods of a Job by state: active, being deleted, ended, or already counted.

The tracking finalizer separates pods that are still to be counted from those that are not. A pod with it
counts once it has ended, or, if the Job replaces pods that are only terminating, once it is being
deleted. A pod without it has been counted, or was released uncounted (suspended, surplus): if such a pod
still runs, the deletion that was to follow got lost and is requested again.

A pod that is being deleted before it was bound has ended: it never ran and never will. On clusters
with a pod garbage collector that collector sets the pod's phase; here none is needed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from muster.api.base import is_true
from muster.api.batch_v1 import (
    COMPLETION_INDEX,
    INDEX_FAILURE_COUNT,
    INDEX_IGNORED_FAILURE_COUNT,
    TRACKING_FINALIZER,
    Job,
)
from muster.api.core_v1 import Pod
from muster.api.natural import natural
from muster.controllers.job import backoff
from muster.controllers.job.failure_policy import Action, Judgement, is_marked, judge

NO_INDEX = -1


@dataclass(frozen=True, slots=True)
class Failure:
    """A tracked pod that failed, and how it counts."""

    pod: Pod
    judgement: Judgement


@dataclass(slots=True)
class Latest:
    """The newest inactive pod of an index, and how often the index had failed up to and including it."""

    pod: Pod
    failures: int
    ignored: int
    #: time of the failure from which the next pod must keep its back-off; None = no delay
    failed_at: datetime | None

    @property
    def age(self) -> tuple[int, datetime, str]:
        meta = self.pod.metadata
        return self.failures + self.ignored, meta.creation_timestamp or backoff.EPOCH, meta.uid


@dataclass(slots=True)
class PodStates:
    #: tracked pods that run or wait to run
    active: list[Pod] = field(default_factory=list)
    #: pods without finalizer that still run although they were released
    doomed: list[Pod] = field(default_factory=list)
    #: number of pods that are being deleted and have not ended
    terminating: int = 0
    #: those of them that are tracked, and counted only when they end
    leaving: list[Pod] = field(default_factory=list)
    #: tracked pods that succeeded
    succeeded: list[Pod] = field(default_factory=list)
    #: tracked pods that failed
    failed: list[Failure] = field(default_factory=list)
    #: uids of all tracked pods
    tracked: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    #: by index, among the pods that are not active
    latest: dict[int, Latest] = field(default_factory=dict)
    #: number of failures since the last success, over the whole Job, and the time of the last
    consecutive_failures: int = 0
    last_failure: datetime = backoff.EPOCH


def sort_pods(job: Job, pods: Iterable[Pod]) -> PodStates:
    """Sorts the Job's pods in one pass."""
    states = PodStates()
    indexed = job.spec.completion_mode == "Indexed"
    only_ended = counts_only_ended(job)
    counted_failures = set(job.status.uncounted_terminated_pods.failed)
    marked = is_marked(job)
    failure_times: list[datetime] = []
    last_success = backoff.EPOCH
    for pod in pods:
        meta, phase = pod.metadata, pod.status.phase
        tracked = TRACKING_FINALIZER in meta.finalizers
        deleting = meta.deletion_timestamp is not None
        ended = phase in ("Succeeded", "Failed") or (deleting and not pod.spec.node_name)
        states.names.add(meta.name)
        if tracked:
            states.tracked.add(meta.uid)
        if deleting and not ended:
            states.terminating += 1
        judgement: Judgement | None = None  # set for failures
        if not ended and not deleting:
            (states.active if tracked else states.doomed).append(pod)
        elif phase == "Succeeded" and meta.uid not in counted_failures:
            if tracked:
                states.succeeded.append(pod)
            last_success = max(last_success, backoff.finish_time(pod))
        elif tracked and not ended and only_ended:
            states.leaving.append(pod)
        elif tracked or (ended and not deleting):
            judgement = judge(job, pod, marked=marked)
            if tracked:
                states.failed.append(Failure(pod, judgement))
            if judgement.action is not Action.SPARE and _since_start(job, pod):
                failure_times.append(backoff.finish_time(pod))
        if indexed and (ended or deleting or not tracked):
            _note_latest(states, job, pod, judgement)
    recent = [time for time in failure_times if time >= last_success]
    states.consecutive_failures = len(recent)
    states.last_failure = max(recent, default=backoff.EPOCH)
    return states


def counts_only_ended(job: Job) -> bool:
    """Whether a pod that is being deleted counts (and is replaced) only once it has ended."""
    if job.spec.pod_replacement_policy:
        return job.spec.pod_replacement_policy == "Failed"
    return job.spec.pod_failure_policy is not None


def index_of(pod: Pod) -> int:
    text = pod.metadata.annotations.get(COMPLETION_INDEX) or pod.metadata.labels.get(COMPLETION_INDEX, "")
    index = natural(text)
    return NO_INDEX if index is None else index


def attempts_before(pod: Pod) -> tuple[int, int]:
    """Returns the index's counted and ignored failures at the time when the pod was created."""
    return _number(pod, INDEX_FAILURE_COUNT), _number(pod, INDEX_IGNORED_FAILURE_COUNT)


def is_ready(pod: Pod) -> bool:
    return is_true(pod.status.conditions, "Ready")


def _note_latest(states: PodStates, job: Job, pod: Pod, judgement: Judgement | None) -> None:
    index = index_of(pod)
    failures, ignored = attempts_before(pod)
    failed_at: datetime | None = None
    if judgement is not None and judgement.action is not Action.SPARE:
        failed_at = backoff.finish_time(pod) if _since_start(job, pod) else None
        if judgement.action is Action.IGNORE:
            ignored += 1
        else:
            failures += 1
    candidate = Latest(pod, failures, ignored, failed_at)
    known = states.latest.get(index)
    if known is None or candidate.age > known.age:
        states.latest[index] = candidate


def _since_start(job: Job, pod: Pod) -> bool:
    """Whether the pod belongs to the time since the Job was last resumed."""
    created, start = pod.metadata.creation_timestamp, job.status.start_time
    return created is None or start is None or created >= start


def _number(pod: Pod, annotation: str) -> int:
    return natural(pod.metadata.annotations.get(annotation)) or 0
