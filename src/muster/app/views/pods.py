"""Facts about a single pod: its label, how it ended, what went wrong.

All of them are derived from labels and statuses, those of the embedded cluster and those of a real one.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from muster.api.base import condition, explained
from muster.api.batch_v1 import COMPLETION_INDEX
from muster.api.core_v1 import ContainerStatus, Pod, Terminated
from muster.api.failures import last_failures, verdict
from muster.api.jobset_v1alpha2 import JOB_GLOBAL_INDEX, REPLICATED_JOB_NAME
from muster.api.natural import natural
from muster.api.pod_label import pod_label
from muster.api.progress import Report, report
from muster.api.times import seconds
from muster.names import PROGRESS
from muster.workloads.pod_run import run_of

#: How the messages of containers begin that a probe has ended (`muster.embedded.node.probes`).
_PROBES: Final = ("liveness probe failed", "startup probe failed")


def group_of(pod: Pod) -> str:
    """The type or replicated job that a pod belongs to, "" if it has none."""
    return pod.metadata.labels.get(REPLICATED_JOB_NAME, "")


def label(pod: Pod) -> str:
    """The pod's label (`pod_label`)."""
    return pod_label(pod.metadata)


def pod_order(pod: Pod) -> tuple[int, int, int, str]:
    """Sort key for the order of the job file: by job over all types, then by index."""
    labels = pod.metadata.labels
    index = labels.get(COMPLETION_INDEX) or pod.metadata.annotations.get(COMPLETION_INDEX)
    return (
        natural(labels.get(JOB_GLOBAL_INDEX)) or 0,
        natural(index) or 0,
        int(seconds(pod.metadata.creation_timestamp) * 1e6),
        pod.metadata.name,
    )


def statuses(pod: Pod) -> list[ContainerStatus]:
    """The statuses of all containers, init containers and sidecars first."""
    return [*pod.status.init_container_statuses, *pod.status.container_statuses]


def restarts_of(pod: Pod) -> int:
    """How often containers of the pod have been started again."""
    return sum(status.restart_count for status in statuses(pod))


def reported(pods: Iterable[Pod]) -> Report | None:
    """What the first of the running pods that report their progress says, in the order of the job file."""
    running = (pod for pod in pods if pod.status.phase == "Running")
    told = (report(pod.metadata.annotations.get(PROGRESS, "")) for pod in sorted(running, key=pod_order))
    return next(filter(None, told), None)


def ended_by_probe(pod: Pod) -> str:
    """A sentence about the last end of the pod that a probe brought about and that returned 0; "" without."""
    ends = [end for _, end in ends_by_probes(pod)]
    return f"{label(pod)} was ended and returned 0: {ends[-1].message}" if ends else ""


def ends_by_probes(pod: Pod) -> Iterator[tuple[str, Terminated]]:
    """The ends that a probe brought about and that returned 0, each with the name of its container."""
    for status in statuses(pod):
        ends = status.last_state.terminated, status.state.terminated
        for end in dict.fromkeys(each for each in ends if each is not None):
            if not end.exit_code and end.message.startswith(_PROBES):
                yield status.name, end


def pod_reason(pod: Pod) -> str:
    """Why a pod waits or failed, in a few words: the whole pod, else its container, the first that failed."""
    if pod.status.reason:
        return explained(pod.status.reason, pod.status.message)
    # containers that never started still wait when their pod has ended
    for waiting in [] if pod.terminal else [status.state.waiting for status in statuses(pod)]:
        if waiting and waiting.reason:
            return explained(waiting.reason, waiting.message)
    if any(status.state.terminated and status.state.terminated.exit_code for status in statuses(pod)):
        found = verdict(last_failures(pod))
        return (found.first.why or "Error") if found is not None else ""
    if pod.terminal:
        return "; ".join(dict.fromkeys(end.message for _, end in ends_by_probes(pod)))
    scheduled = condition(pod.status.conditions, "PodScheduled")
    return scheduled.message if scheduled and scheduled.status == "False" else ""


def failed(pod: Pod) -> bool:
    """Whether the pod failed by itself: a preempted or deleted pod has not, whatever its exit code."""
    return pod.status.phase == "Failed" and run_of(pod).failed_by_itself
