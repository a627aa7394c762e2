"""Jobs and their gangs as JSON."""

import msgspec

from muster.api import kinds, requests
from muster.api.base import Object
from muster.api.fields import UNREADABLE
from muster.api.muster_v1alpha1 import Gang
from muster.app.views.job import JobView
from muster.workloads import demand


def summary(view: JobView) -> Object:
    """A view as JSON."""
    return {
        "name": view.name,
        "namespace": view.namespace,
        "kind": view.kind.kind,
        "mode": "gang" if view.gangs or view.kind is kinds.BATCH_JOB else "independent",
        "state": view.state.value,
        "queue": view.queue,
        "priority": view.priority,
        "gpus": gpus(view),
        "wanted": view.wanted,
        "running": view.running,
        "succeeded": view.succeeded,
        "failed": view.failed,
        "restarts": view.restarts,
        "reason": {"code": view.reason[0], "message": view.reason[1]} if view.reason else None,
        "anomalies": [{"code": code, "message": message} for code, message in view.anomalies],
        "created": view.created,
        "finished": view.finished,
        "deleted": view.deleted,
    }


def gpus(view: JobView) -> float:
    """GPUs that the job holds at full parallelism: whole GPUs, and shares of one.

    0 if its templates cannot be read: one bad object must not keep the others from being listed.
    """
    try:
        if view.kind in (kinds.JOBSET, kinds.JOB, kinds.VOLCANO_JOB):
            named = {"apiVersion": view.kind.api_version, "kind": view.kind.kind}
            owner = msgspec.to_builtins(view.resource) | named
            return sum(part.count * part.gpus for part in demand.pod_sets(owner))
        return sum(map(requests.gpus, view.pods))
    except UNREADABLE:
        return 0.0


def gang_summary(gang: Gang) -> Object:
    """A Gang object as JSON, with its whole explanation."""
    status = gang.status
    return {
        "name": gang.metadata.name,
        "phase": status.phase,
        "minCount": gang.spec.min_count,
        "bound": status.bound,
        "attempt": status.attempt,
        "reason": msgspec.to_builtins(status.reason),
        "explanation": status.explanation,
        "expectedStart": status.expected_start,
        "preemptions": status.preemptions,
        "warnings": status.warnings,
    }
