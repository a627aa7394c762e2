"""Small objects that tests of this room are made of."""

from datetime import UTC, datetime, timedelta
from typing import Any

from muster.api.base import Condition, ObjectMeta, OwnerReference
from muster.api.batch_v1 import COMPLETION_INDEX, JOB_NAME
from muster.api.core_v1 import (
    Container,
    ContainerState,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    Terminated,
)
from muster.api.jobset_v1alpha2 import JOB_INDEX, JOBSET_NAME, REPLICATED_JOB_NAME, RESTART_ATTEMPT
from muster.workloads.pod_run import PodRun

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def pod(
    name: str = "p",
    phase: str = "Pending",
    *,
    node: str = "",
    labels: dict[str, str] | None = None,
    owner: str = "",
    code: int | None = None,
    ended: float = 10,
    deleted: float | None = None,
    grace: int = 30,
    waits: tuple[str, str] | None = None,
) -> Pod:
    """`deleted` is when it was told to end; `waits` is why it is not scheduled."""
    state = (
        ContainerState()
        if code is None
        else ContainerState(terminated=Terminated(exit_code=code, finished_at=at(ended)))
    )
    meta = ObjectMeta(
        name=name,
        namespace="default",
        uid=f"uid-{name}",
        labels=labels or {},
        creation_timestamp=T0,
        deletion_timestamp=None if deleted is None else at(deleted + grace),
        deletion_grace_period_seconds=None if deleted is None else grace,
        owner_references=[OwnerReference("batch/v1", "Job", owner, owner, controller=True)] if owner else [],
    )
    conditions = [Condition("PodScheduled", "False", *waits)] if waits else []
    statuses = [ContainerStatus(name="main", state=state)]
    return Pod(
        metadata=meta,
        spec=PodSpec(containers=[Container("main")], node_name=node),
        status=PodStatus(phase=phase, conditions=conditions, container_statuses=statuses),
    )


def labels(group: str, job: int, index: int = 0, *, jobset: str = "js", attempt: int = 0) -> dict[str, str]:
    return {
        JOBSET_NAME: jobset,
        JOB_NAME: f"{jobset}-{group}-{job}",
        REPLICATED_JOB_NAME: group,
        JOB_INDEX: str(job),
        COMPLETION_INDEX: str(index),
        RESTART_ATTEMPT: str(attempt),
    }


def ran(name: str = "p", **fields: Any) -> PodRun:
    """A run of a pod `js-worker-0-0`; times in seconds."""
    run: dict[str, Any] = {
        "uid": f"uid-{name}",
        "namespace": "default",
        "name": name,
        "jobset": "js",
        "jobset_uid": "uid-js",
        "replicated_job": "worker",
        "job": "js-worker-0",
        "job_index": 0,
        "completion_index": 0,
        "attempt": 0,
        "node": "node-0",
        "created": 0.0,
        "bound": 1.0,
        "started": 2.0,
        "ended": 10.0,
        "phase": "Succeeded",
        "exit_code": 0,
        "reason": "",
        "restarts": 0,
        "preempted": False,
        "deleted": False,
    }
    return PodRun(**run | fields)
