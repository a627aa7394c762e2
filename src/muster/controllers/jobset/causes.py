"""Describes in words what failed first: which pod, with which exit code, on which node."""

from collections.abc import Iterable
from datetime import UTC, datetime

from muster import names
from muster.api.base import controller_of, is_true
from muster.api.batch_v1 import Job
from muster.api.core_v1 import Pod, Terminated
from muster.controllers.jobset.attempts import failure


def cause(job: Job, pods: Iterable[Pod]) -> str:
    """Returns why this Job failed. If its pods are gone, the Job's own message must suffice."""
    first = first_failure(pod for pod in pods if _belongs(pod, job))
    if first is not None:
        return first
    why = failure(job)
    return f"{why.reason}: {why.message}" if why is not None else "it failed"


def first_failure(pods: Iterable[Pod]) -> str | None:
    """Describes the first of these pods to fail, ignoring pods that muster itself ended."""
    failed = [
        pod
        for pod in pods
        if pod.status.phase == "Failed" and not is_true(pod.status.conditions, names.PREEMPTED)
    ]
    if not failed:
        return None
    pod = min(failed, key=lambda pod: (_ended(pod), pod.metadata.name))
    node = f" on {pod.spec.node_name}" if pod.spec.node_name else ""
    container = next(iter(_failures(pod)), None)
    if container is not None:
        name, state = container
        return f"pod {pod.metadata.name}, container {name}, exited with code {state.exit_code}{node}"
    why = pod.status.reason or pod.status.message
    return f"pod {pod.metadata.name} failed{node}" + (f": {why}" if why else "")


def _belongs(pod: Pod, job: Job) -> bool:
    controller = controller_of(pod)
    return controller is not None and controller.uid == job.metadata.uid


def _failures(pod: Pod) -> list[tuple[str, Terminated]]:
    """Returns the pod's failed containers, in order of failure."""
    found = [
        (status.name, status.state.terminated)
        for status in [*pod.status.init_container_statuses, *pod.status.container_statuses]
        if status.state.terminated is not None and status.state.terminated.exit_code != 0
    ]
    return sorted(found, key=lambda item: (item[1].finished_at or _NEVER, item[0]))


def _ended(pod: Pod) -> datetime:
    return next((state.finished_at for _, state in _failures(pod) if state.finished_at), _NEVER)


_NEVER = datetime.max.replace(tzinfo=UTC)
