"""Facts about a single pod: its label, how it ended, what went wrong.

All of them are derived from labels and statuses, those of the embedded cluster and those of a real one.
"""

from collections.abc import Iterable

from muster.api.base import condition, is_true
from muster.api.batch_v1 import COMPLETION_INDEX, JOB_NAME
from muster.api.core_v1 import Pod
from muster.api.jobset_v1alpha2 import JOB_GLOBAL_INDEX, JOB_INDEX, REPLICATED_JOB_NAME
from muster.api.natural import natural
from muster.names import PREEMPTED
from muster.workloads.pod_run import run_of, told_to_end


def group_of(pod: Pod) -> str:
    """The type or replicated job that a pod belongs to, "" if it has none."""
    return pod.metadata.labels.get(REPLICATED_JOB_NAME, "")


def label(pod: Pod) -> str:
    """`worker-1-0`: type, job, index; a Job's name and index; a bare pod's name."""
    labels = pod.metadata.labels
    index = labels.get(COMPLETION_INDEX) or pod.metadata.annotations.get(COMPLETION_INDEX)
    if group := group_of(pod):
        return "-".join(filter(None, [group, labels.get(JOB_INDEX, ""), index]))
    if (job := labels.get(JOB_NAME)) and index:
        return f"{job}-{index}"
    return pod.metadata.name


def pod_order(pod: Pod) -> tuple[int, int, int, str]:
    """Sort key for the order of the job file: by job over all types, then by index."""
    labels = pod.metadata.labels
    index = labels.get(COMPLETION_INDEX) or pod.metadata.annotations.get(COMPLETION_INDEX)
    created = pod.metadata.creation_timestamp
    return (
        natural(labels.get(JOB_GLOBAL_INDEX)) or 0,
        natural(index) or 0,
        int(created.timestamp() * 1e6) if created else 0,
        pod.metadata.name,
    )


def pod_reason(pod: Pod) -> str:
    """Why a pod waits or failed, in a few words: the reason of the whole pod, else that of a container."""
    if pod.status.reason:
        return f"{pod.status.reason} {pod.status.message}".strip()
    for status in [*pod.status.init_container_statuses, *pod.status.container_statuses]:
        if status.state.waiting and status.state.waiting.reason:
            return f"{status.state.waiting.reason} {status.state.waiting.message}".strip()
        if status.state.terminated and status.state.terminated.exit_code:
            return status.state.terminated.message or status.state.terminated.reason
    scheduled = condition(pod.status.conditions, "PodScheduled")
    return scheduled.message if scheduled and scheduled.status == "False" else ""


def first_failure(pods: Iterable[Pod]) -> tuple[Pod, int] | None:
    """The pod whose container failed first, and that container's exit code.

    A container that was stopped with its pod, or whose pod muster ended, has not failed, whatever its exit
    code.
    """
    failures = [
        (status.state.terminated.finished_at, pod.metadata.name, pod, status.state.terminated.exit_code)
        for pod in pods
        if not is_true(pod.status.conditions, PREEMPTED)
        for status in [*pod.status.init_container_statuses, *pod.status.container_statuses]
        if status.state.terminated
        and status.state.terminated.exit_code
        and status.state.terminated.finished_at
        and not told_to_end(pod, status.state.terminated.finished_at)
    ]
    if not failures:
        return None
    _, _, pod, code = min(failures, key=lambda failure: failure[:2])
    return pod, code


def failure_message(pod: Pod) -> str:
    """The message of a failed container, beyond its exit code."""
    messages = [
        state.terminated.message
        for status in [*pod.status.init_container_statuses, *pod.status.container_statuses]
        for state in (status.state, status.last_state)
        if state.terminated and state.terminated.exit_code
    ]
    return next((message for message in messages if message), pod.status.message)


def failed(pod: Pod) -> bool:
    """Whether the pod failed by itself: a preempted or deleted pod has not, whatever its exit code."""
    return pod.status.phase == "Failed" and run_of(pod).failed_by_itself
