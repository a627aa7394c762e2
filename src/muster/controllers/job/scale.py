"""Decides which pods to start and which to release, while the Job runs.

At most `parallelism` pods are active, and no more than completions are still missing. Indexes start in
order, lowest first. Without completions, no further pods start after the first success. Surplus pods
are released uncounted: pods of an index that is done or beyond the completions, second pods of one
index, then the pods with the least progress.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from muster.api.base import Object
from muster.api.batch_v1 import Job
from muster.api.core_v1 import Pod
from muster.api.times import seconds
from muster.controllers.job import backoff
from muster.controllers.job.counts import Counts
from muster.controllers.job.pod_states import Latest, PodStates, index_of, is_ready
from muster.controllers.job.pods import indexed_pods, plain_name, plain_pods

#: Most pods started by one reconcile, as upstream: a refusal (a quota) then costs 500 requests, not all.
MOST_STARTS: Final = 500


@dataclass(slots=True)
class Scale:
    keep: list[Pod]
    surplus: list[Pod] = field(default_factory=list)
    start: list[Object] = field(default_factory=list)
    #: when to reconcile again because of the back-off, or because not all pods could be started at once
    again: datetime | None = None


def plan(job: Job, states: PodStates, counts: Counts, now: datetime) -> Scale:
    scale = _spare(job, states, counts)
    wanted = _wanted(job, scale, counts)
    missing = wanted - len(scale.keep) - len(states.leaving)
    if wanted < len(scale.keep):
        _drop(scale, len(scale.keep) - wanted)
    elif missing > 0:
        start = _start_indexes if job.spec.completion_mode == "Indexed" else _start_plain
        start(job, states, counts, scale, missing, now)
    return scale


def _wanted(job: Job, scale: Scale, counts: Counts) -> int:
    """Returns how many pods should be active."""
    parallelism, completions = job.spec.parallelism, job.spec.completions
    if completions is None:
        return min(parallelism, len(scale.keep)) if counts.succeeded else parallelism
    missing = completions - counts.succeeded - len(counts.failed_indexes)
    return max(0, min(parallelism, missing))


def _spare(job: Job, states: PodStates, counts: Counts) -> Scale:
    """Separates surplus pods: those of an index that needs none or has a better one."""
    if job.spec.completion_mode != "Indexed":
        return Scale(keep=list(states.active))
    best: dict[int, Pod] = {}
    surplus: list[Pod] = []
    for pod in states.active:
        index = index_of(pod)
        needed = 0 <= index < (job.spec.completions or 0)
        if not needed or index in counts.completed or index in counts.failed_indexes:
            surplus.append(pod)
        elif index not in best:
            best[index] = pod
        elif _progress(pod) > _progress(best[index]):
            surplus.append(best[index])
            best[index] = pod
        else:
            surplus.append(pod)
    return Scale(keep=list(best.values()), surplus=surplus)


def _drop(scale: Scale, number: int) -> None:
    scale.keep.sort(key=_progress)
    scale.surplus += scale.keep[:number]
    del scale.keep[:number]


def _progress(pod: Pod) -> tuple[bool, bool, bool, float, int, str]:
    """Sort key of a pod's progress; between equals the older, then the lower index is ahead."""
    return (
        bool(pod.spec.node_name),
        pod.status.phase == "Running",
        is_ready(pod),
        -seconds(pod.metadata.creation_timestamp),
        -index_of(pod),
        pod.metadata.name,
    )


def _start_plain(
    job: Job, states: PodStates, counts: Counts, scale: Scale, missing: int, now: datetime
) -> None:
    if not _may_start(states, scale, now):
        return
    pod = plain_pods(job)
    number = counts.succeeded + counts.failed + len(states.active)
    for _ in range(min(missing, MOST_STARTS)):
        while plain_name(job, number) in states.names:
            number += 1
        scale.start.append(pod(number))
        number += 1
    if missing > MOST_STARTS:
        scale.again = now


def _start_indexes(
    job: Job, states: PodStates, counts: Counts, scale: Scale, missing: int, now: datetime
) -> None:
    per_index = job.spec.backoff_limit_per_index is not None
    if not per_index and not _may_start(states, scale, now):
        return
    pod = indexed_pods(job)
    occupied = {index_of(item) for item in (*scale.keep, *states.leaving)}
    for index in (counts.completed | counts.failed_indexes).missing(job.spec.completions or 0):
        if len(scale.start) == missing:
            break
        if len(scale.start) == MOST_STARTS:
            scale.again = now
            break
        if index in occupied:
            continue
        latest = states.latest.get(index)
        if per_index and latest is not None and not _index_may_start(latest, scale, now):
            continue
        if latest is None:
            scale.start.append(pod(index, "", 0, 0))
        else:
            scale.start.append(pod(index, latest.pod.metadata.uid, latest.failures, latest.ignored))


def _may_start(states: PodStates, scale: Scale, now: datetime) -> bool:
    return _due(states.last_failure + backoff.delay(states.consecutive_failures), scale, now)


def _index_may_start(latest: Latest, scale: Scale, now: datetime) -> bool:
    if latest.failed_at is None:
        return True
    return _due(latest.failed_at + backoff.delay(latest.failures + latest.ignored), scale, now)


def _due(at: datetime, scale: Scale, now: datetime) -> bool:
    if at <= now:
        return True
    scale.again = min(scale.again or at, at)
    return False
