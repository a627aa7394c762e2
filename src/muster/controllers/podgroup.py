"""Writes PodGroup status, as users of scheduler-plugins and Koordinator read it, for both API groups.

The phases and their order are Koordinator's (pkg/scheduler/plugins/coscheduling/controller/podgroup.go):
"" → Pending → PreScheduling once `minMember` pods exist; from then on, from the counts alone: no pods →
Pending; fewer than the minimum scheduled → Scheduling, else Scheduled; the minimum running or succeeded →
Running; it can no longer be reached → Failed; the minimum succeeded → Finished.

Three behaviours differ, each from a known defect upstream:

- No phase is final. Upstream ignores Finished and Failed groups, so that one pod that failed and
  was retried can leave a running gang Failed for ever; here every later change of a pod is counted.
- Failed means that the existing pods cannot reach the minimum. Upstream sets it as soon as one
  pod has failed, although as many as are needed may be running or about to.
- A group is reconciled however long it waits; upstream gives up after 48 hours.

`scheduled` counts pods on a node that have not failed, `occupiedBy` is the owners of the first pod by name.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from muster.api.base import Object
from muster.api.core_v1 import Pod
from muster.api.groups import Dialect, Phases, named
from muster.api.kinds import POD
from muster.api.scheduling import PodGroup
from muster.api.times import written
from muster.controllers.caches import Caches
from muster.controllers.driver import Change, Controller, Watch, itself
from muster.controllers.gang import GROUP, POD_INDEX
from muster.effects import Effect, Patch


@dataclass(frozen=True, slots=True)
class Observed:
    dialect: Dialect
    group: PodGroup
    pods: tuple[Pod, ...]


def controller(dialect: Dialect) -> Controller[Observed]:
    """Returns the controller for the driver; one per dialect whose objects have these phases."""
    kind = dialect.kind

    def observe(caches: Caches, key: str) -> Observed | None:
        group = caches[kind].get(key)
        if group is None or group.metadata.deletion_timestamp is not None:
            return None
        return Observed(dialect, group, tuple(caches[POD].by(GROUP, f"{kind.api_version} {kind.kind} {key}")))

    watches = (Watch(kind, itself), Watch(POD, _named_in(dialect)))
    return Controller(f"podgroup {kind.group}", watches, observe, reconcile, (POD_INDEX,), SETTLE)


#: Most steps of one reconcile: "" → Pending → PreScheduling → what the counts say.
_PHASES: Final = range(4)
#: Seconds within which changes of one group's pods cause one write: a gang that starts at once costs one.
SETTLE: Final = 1.0


def reconcile(observed: Observed, now: datetime) -> list[Effect]:
    """Makes as many steps of the state machine as the counts allow, in one write."""
    group, pods = observed.group, observed.pods
    asked, phases = observed.dialect.asked, observed.dialect.phases
    assert asked is not None, "a dialect with phases says what its objects ask for"
    assert phases is not None, "a controller is of a dialect with phases"
    status, least = group.status, max(asked(group).minimum, 1)
    counts = Counts.of(pods)
    before, phase = "", status.phase
    for _ in _PHASES:
        before, phase = phase, next_phase(phase, counts, least, phases)
        if phase == before:
            break
    start = status.schedule_start_time
    if start is None and phase not in ("", phases.pending, phases.enough):
        start = now
    new: Object = {
        "phase": phase,
        "occupiedBy": _occupied_by(pods),
        "scheduled": counts.scheduled,
        "running": counts.running,
        "succeeded": counts.succeeded,
        "failed": counts.failed,
    }
    old: Object = {
        "phase": status.phase,
        "occupiedBy": status.occupied_by,
        "scheduled": status.scheduled,
        "running": status.running,
        "succeeded": status.succeeded,
        "failed": status.failed,
    }
    if new == old and start == status.schedule_start_time:
        return []
    if start is not None:
        new["scheduleStartTime"] = written(start)
    return [
        Patch(observed.dialect.kind, group.metadata.namespace, group.metadata.name, {"status": new}, "status")
    ]


@dataclass(frozen=True, slots=True)
class Counts:
    pods: int
    #: pods on a node that have not failed
    scheduled: int
    running: int
    succeeded: int
    failed: int

    @classmethod
    def of(cls, pods: Iterable[Pod]) -> "Counts":
        phases = [(pod.status.phase, bool(pod.spec.node_name)) for pod in pods]
        return cls(
            pods=len(phases),
            scheduled=sum(bound and phase != "Failed" for phase, bound in phases),
            running=sum(phase == "Running" for phase, _ in phases),
            succeeded=sum(phase == "Succeeded" for phase, _ in phases),
            failed=sum(phase == "Failed" for phase, _ in phases),
        )


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


def _named_in(dialect: Dialect) -> Callable[[Change], Iterable[str]]:
    """Returns a function that yields the group of this dialect that the changed pod names."""

    def keys(change: Change) -> Iterable[str]:
        for pod in change.objects:
            if (group := named(pod)) is not None and group.dialect is dialect:
                yield f"{pod.metadata.namespace}/{group.name}"

    return keys
