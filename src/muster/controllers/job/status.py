"""Writes the Job's status as one patch: only what differs, and only on top of the status that was seen.

The patch names the resourceVersion that the decision was based on, so that no counter is ever computed
from one state and written over another.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from muster.api import kinds, times
from muster.api.base import Object, condition
from muster.api.batch_v1 import Job
from muster.controllers.job.counts import Counts
from muster.effects import Patch

SUSPENDED = "Suspended"


@dataclass(slots=True)
class Wanted:
    """What the status should contain besides the counts."""

    active: int
    ready: int
    terminating: int
    start_time: datetime | None
    completion_time: datetime | None
    conditions: list[Object] = field(default_factory=list)  # new or changed conditions


def patch(job: Job, counts: Counts, wanted: Wanted) -> Patch | None:
    """Returns the patch that sets this status; None if it is set already."""
    status, changes = job.status, dict[str, Any]()  # Any: JSON

    def put(name: str, old: object, new: object, value: object) -> None:
        if old != new:
            changes[name] = value

    put("active", status.active, wanted.active, wanted.active)
    put("ready", status.ready, wanted.ready, wanted.ready)
    put("terminating", status.terminating, wanted.terminating, wanted.terminating)
    put("succeeded", status.succeeded, counts.counted_succeeded, counts.counted_succeeded)
    put("failed", status.failed, counts.counted_failed, counts.counted_failed)
    put("startTime", status.start_time, wanted.start_time, text(wanted.start_time))
    put("completionTime", status.completion_time, wanted.completion_time, text(wanted.completion_time))
    if job.spec.completion_mode == "Indexed":
        put("completedIndexes", status.completed_indexes, str(counts.completed), str(counts.completed))
        if job.spec.backoff_limit_per_index is not None:
            put(
                "failedIndexes", status.failed_indexes, str(counts.failed_indexes), str(counts.failed_indexes)
            )
    listed = status.uncounted_terminated_pods
    uncounted: Object = {}
    if listed.succeeded != counts.uncounted_succeeded:
        uncounted["succeeded"] = counts.uncounted_succeeded or None
    if listed.failed != counts.uncounted_failed:
        uncounted["failed"] = counts.uncounted_failed or None
    if uncounted:
        changes["uncountedTerminatedPods"] = uncounted
    if wanted.conditions:
        changes["conditions"] = _merged(job, wanted.conditions)
    if not changes:
        return None
    meta = job.metadata
    body = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}, "status": changes}
    return Patch(kinds.JOB, meta.namespace, meta.name, body, "status")


def set_condition(
    job: Job, type_: str, status: bool, reason: str, message: str, now: datetime
) -> list[Object]:
    """Returns the condition to write, in a list; empty if it has this status, or if False was never True."""
    found = condition(job.status.conditions, type_)
    if (found is None and not status) or (found is not None and found.status == str(status)):
        return []
    time = text(now)
    return [
        {
            "type": type_,
            "status": str(status),
            "reason": reason,
            "message": message,
            "lastProbeTime": time,
            "lastTransitionTime": time,
        }
    ]


def text(time: datetime | None) -> str | None:
    """Returns the time in RFC 3339, in UTC and in whole seconds, as Kubernetes writes it."""
    return None if time is None else times.bounded(time).strftime("%Y-%m-%dT%H:%M:%SZ")


def _merged(job: Job, changed: list[Object]) -> list[Object]:
    """Returns all conditions: a merge patch replaces lists as a whole."""
    types = {condition["type"] for condition in changed}
    kept = [msgspec.to_builtins(c) for c in job.status.conditions if c.type not in types]
    return [*kept, *changed]
