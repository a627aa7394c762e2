"""Phases and counts, as users of scheduler-plugins and Koordinator read them.

The phases and their order are Koordinator's (pkg/scheduler/plugins/coscheduling/controller/podgroup.go):
"" → Pending → PreScheduling once `minMember` pods exist; from then on, from the counts alone: no pods →
Pending; fewer than the minimum scheduled → Scheduling, else Scheduled; the minimum running or succeeded →
Running; it can no longer be reached → Failed; the minimum succeeded → Finished.
scheduler-plugins has the same order, with Scheduling for PreScheduling and Scheduled, and counts no pods on
nodes.

Three behaviours differ, each from a known defect upstream:

- No phase is final. Upstream ignores Finished and Failed groups, so that one pod that failed and
  was retried can leave a running gang Failed for ever; here every later change of a pod is counted.
- Failed means that the existing pods cannot reach the minimum. Upstream sets it as soon as one
  pod has failed, although as many as are needed may be running or about to.
- A group is reconciled however long it waits; upstream gives up after 48 hours.

`scheduled` counts pods on a node that have not failed, `occupiedBy` is the owners of the first pod by name.
"""

from datetime import datetime
from typing import Final

from muster.api.base import Object
from muster.api.core_v1 import Pod
from muster.api.groups import Phases
from muster.api.times import written
from muster.controllers.podgroup.observed import Counts, Observed

#: Most steps of one reconcile: "" → Pending → PreScheduling → what the counts say.
_PHASES: Final = range(4)


def status(observed: Observed, now: datetime) -> Object | None:
    """Makes as many steps of the state machine as the counts allow, in one write."""
    pods, phases = observed.pods, observed.dialect.phases
    assert phases is not None, "a dialect with these statuses has words for them"
    status, least = observed.group.status, observed.least
    counts = Counts.of(pods)
    before, phase = "", status.phase
    for _ in _PHASES:
        before, phase = phase, next_phase(phase, counts, least, phases)
        if phase == before:
            break
    start = status.schedule_start_time
    early = {"", phases.pending, phases.enough} - {phases.scheduling}
    if start is None and phase not in early:
        start = now
    new: Object = {
        "phase": phase,
        "occupiedBy": _occupied_by(pods),
        "running": counts.running,
        "succeeded": counts.succeeded,
        "failed": counts.failed,
    }
    old: Object = {
        "phase": status.phase,
        "occupiedBy": status.occupied_by,
        "running": status.running,
        "succeeded": status.succeeded,
        "failed": status.failed,
    }
    if phases.counted:
        new["scheduled"], old["scheduled"] = counts.scheduled, status.scheduled
    if new == old and start == status.schedule_start_time:
        return None
    if start is not None:
        new["scheduleStartTime"] = written(start)
    return new


def next_phase(phase: str, counts: Counts, least: int, phases: Phases) -> str:
    if not phase:
        return phases.pending
    if phase == phases.pending:
        return phases.enough if counts.pods >= least else phases.pending
    if not counts.pods:
        return phases.pending
    at_work = counts.running + counts.succeeded
    within_reach = counts.pods - counts.failed
    if counts.succeeded >= least:
        return phases.finished
    if counts.failed and within_reach < least <= counts.pods:
        return phases.failed
    if counts.scheduled < least:
        return phases.scheduling
    return phases.running if at_work >= least else phases.scheduled


def _occupied_by(pods: tuple[Pod, ...]) -> str:
    if not pods:
        return ""
    meta = pods[0].metadata
    return ",".join(sorted(f"{meta.namespace}/{owner.name}" for owner in meta.owner_references))
