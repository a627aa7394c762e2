"""Enforces limits over all Jobs and restarts: the deadline, and the restart budget.

Both limits outlive the Jobs, so their counts are stored in annotations of the JobSet (its status
has no room for them in JobSet's schema), written before any step that would lose them:

- `muster.dev/running-since` is when the first pod ran. Suspending stops the clock: the time used is added to
  `muster.dev/time-used` in the same write, and the next pod that runs restarts the clock. Time suspended,
  and the wait after it, never count. Restarts do not stop the clock.
- `muster.dev/failures` has, per Job that ever had failed pods, the most failed pods it ever had, including
  those that the Job has listed and not yet added up. The sum only grows, whatever happens to the Jobs; there
  is one entry per Job that failed. Failures that the Job does not count, such as those of pods that muster
  preempted, are not in the Job's status and so not here.
"""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from math import isfinite

from muster import names
from muster.api import times
from muster.api.base import Object, condition, is_true
from muster.api.batch_v1 import Job
from muster.api.core_v1 import Pod
from muster.api.jobset_v1alpha2 import JobSet
from muster.api.kinds import JOBSET
from muster.api.marks import DEADLINE, RESTART_BUDGET
from muster.effects import Patch


def bookkeeping(jobset: JobSet, jobs: list[Job], pods: Iterable[Pod], now: datetime) -> Patch | None:
    """Returns the patch of the annotations that must be written before anything else, if any."""
    annotations: dict[str, str | None] = {**_clock(jobset, pods, now), **_failures(jobset, jobs)}
    if not annotations:
        return None
    meta = jobset.metadata
    body: Object = {"metadata": {"resourceVersion": meta.resource_version, "annotations": annotations}}
    return Patch(JOBSET, meta.namespace, meta.name, body)


def due(jobset: JobSet) -> datetime | None:
    """Returns when the deadline passes, if its clock runs."""
    deadline, since = DEADLINE.get(jobset.metadata), _running_since(jobset)
    if deadline is None or since is None:
        return None
    return times.after(since, max(0.0, deadline - _time_used(jobset)))


def over_budget(jobset: JobSet) -> tuple[int, int] | None:
    """Returns (failures, budget) if the Jobs have failed more often than the budget allows."""
    budget = RESTART_BUDGET.get(jobset.metadata)
    if budget is None:
        return None
    failures = sum(_counted(jobset).values())
    return (failures, budget) if failures > budget else None


def awaits_first_pod(jobset: JobSet) -> bool:
    """Whether the deadline's clock starts when the next pod runs."""
    return (
        DEADLINE.text(jobset.metadata) is not None
        and names.RUNNING_SINCE not in jobset.metadata.annotations
        and not jobset.spec.suspend
        and not is_true(jobset.status.conditions, "Suspended")
        and not jobset.status.terminal_state
    )


def _clock(jobset: JobSet, pods: Iterable[Pod], now: datetime) -> dict[str, str | None]:
    since = _running_since(jobset)
    if jobset.spec.suspend and since is not None:
        used = _time_used(jobset) + max(0.0, (now - since).total_seconds())
        return {names.RUNNING_SINCE: None, names.TIME_USED: f"{used:.3f}"}
    if awaits_first_pod(jobset):
        started = min((time for pod in pods if (time := _ran_at(pod, _resumed_at(jobset)))), default=None)
        if started is not None:
            return {names.RUNNING_SINCE: times.written(started)}
    return {}


def _resumed_at(jobset: JobSet) -> datetime:
    suspended = condition(jobset.status.conditions, "Suspended")
    return suspended.last_transition_time or _EVER if suspended is not None else _EVER


def _ran_at(pod: Pod, resumed: datetime) -> datetime | None:
    """Returns when the pod first ran since the JobSet was resumed; None if it is, or before was, ended."""
    if pod.metadata.deletion_timestamp is not None or pod.status.phase in ("", "Pending"):
        return None
    starts = []
    for status in pod.status.container_statuses:
        state = status.state.running or status.state.terminated
        if state is not None and state.started_at is not None:
            starts.append(state.started_at)
    started = min(starts, default=pod.status.start_time)
    if started is None or (started < resumed and pod.terminal):
        return None
    return max(started, resumed)


def _failures(jobset: JobSet, jobs: list[Job]) -> dict[str, str | None]:
    if RESTART_BUDGET.text(jobset.metadata) is None:
        return {}
    counted = _counted(jobset)
    seen = {job.metadata.uid: failures for job in jobs if (failures := _failed(job))}
    raised = {uid: max(counted.get(uid, 0), seen.get(uid, 0)) for uid in sorted({*counted, *seen})}
    return {names.FAILURES: json.dumps(raised, separators=(",", ":"))} if raised != counted else {}


def _failed(job: Job) -> int:
    """Returns the Job's failures. A pod moves from list to counter in one write, so it is never in both."""
    return job.status.failed + len(job.status.uncounted_terminated_pods.failed)


def _counted(jobset: JobSet) -> dict[str, int]:
    """Returns the counts so far; an annotation that muster did not write counts as none."""
    try:
        found = json.loads(jobset.metadata.annotations.get(names.FAILURES, "{}"))
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {uid: number for uid, number in found.items() if isinstance(number, int)}


def _running_since(jobset: JobSet) -> datetime | None:
    try:
        return times.read(jobset.metadata.annotations[names.RUNNING_SINCE])
    except (KeyError, ValueError):
        return None


def _time_used(jobset: JobSet) -> float:
    try:
        used = float(jobset.metadata.annotations[names.TIME_USED])
    except (KeyError, ValueError):
        return 0.0
    return used if isfinite(used) else 0.0


_EVER = datetime.min.replace(tzinfo=UTC)
