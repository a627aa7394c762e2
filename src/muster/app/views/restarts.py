"""Messages about failures after which a job continues: which pod, how, and how many more are allowed.

A gang restarts as a whole, which its JobSet counts. Other pods are replaced by their Job or restart in place;
both count against the Job's `backoffLimit`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from muster.api import kinds
from muster.api.base import is_true
from muster.api.batch_v1 import JOB_NAME, Job
from muster.api.core_v1 import Pod
from muster.api.jobset_v1alpha2 import JobSet
from muster.app.views.failures import last_failure
from muster.app.views.job import JobView
from muster.app.views.pods import failure_message, label
from muster.workloads.pod_run import told_to_end

#: pods named at a time; further ones are counted
NAMED: Final = 5


class Restarts:
    """Reports each failure once."""

    def __init__(self) -> None:
        self._restarts: dict[str, int] = {}  # by uid of the JobSet
        self._known: set[tuple[str, str, int]] = set()  # failures: pod, container, start
        self._failed: Counter[str] = Counter()  # by `namespace/name` of the Job

    def look(self, view: JobView, seen: Iterable[Pod], jobs: Mapping[str, Job]) -> list[str]:
        """Messages about new failures; `seen` are all pods so far, `jobs` by namespace and name."""
        pods = [pod for pod in seen if pod.metadata.namespace == view.namespace]
        told = self._pods(view, jobs)
        resource = view.resource
        if isinstance(resource, JobSet):
            count, uid = resource.status.restarts, resource.metadata.uid
            if count > self._restarts.get(uid, count):
                told.append(_restart(resource, view, pods))
            self._restarts[uid] = count
        return told[:NAMED] + ([f"… and {len(told) - NAMED} more failed"] if len(told) > NAMED else [])

    def _pods(self, view: JobView, jobs: Mapping[str, Job]) -> list[str]:
        told = []
        for pod in view.pods:
            for container, start, code in _failures(pod):
                failure = (pod.metadata.uid, container, start)
                if failure in self._known:
                    continue
                self._known.add(failure)
                key = f"{pod.metadata.namespace}/{pod.metadata.labels.get(JOB_NAME, '')}"
                self._failed[key] += 1
                in_place = pod.spec.restart_policy != "Never" and not pod.terminal
                again = in_place or start < _starts(pod, container)
                left = "" if (job := jobs.get(key)) is None else _left(job, self._failed[key])
                if again or (left and view.kind is not kinds.POD):
                    how = "and starts again" if again else "and is replaced"
                    told.append(", ".join(filter(None, [f"{_failed(pod, code)} {how}", left])))
        return told


def _restart(jobset: JobSet, view: JobView, pods: Iterable[Pod]) -> str:
    failure = last_failure(view, pods)
    policy, status = jobset.spec.failure_policy, jobset.status
    left = (policy.max_restarts if policy else 0) - status.restarts_count_towards_max
    why = f"{_failed(*failure)}: " if failure else ""
    return f"{why}restart {status.restarts}, {_more('restart', left)}"


def _failed(pod: Pod, code: int) -> str:
    message = failure_message(pod)
    return f"{label(pod)} failed with exit code {code}" + (f" ({message})" if message else "")


def _left(job: Job, failed: int) -> str:
    """How many more failures the Job allows; "" if it allows none, or if a count does not decide that."""
    spec, failed = job.spec, max(failed, job.status.failed)
    if (
        is_true(job.status.conditions, "Failed")
        or spec.pod_failure_policy is not None
        or spec.backoff_limit_per_index is not None
    ):
        return ""
    return _more("failure", spec.backoff_limit - failed) if failed <= spec.backoff_limit else ""


def _more(what: str, left: int) -> str:
    if left <= 0:
        return f"no more {what} is allowed"
    return f"1 more {what} is allowed" if left == 1 else f"{left} more {what}s are allowed"


def _failures(pod: Pod) -> Iterable[tuple[str, int, int]]:
    """Container, start and exit code of each container that failed by itself."""
    for status in [*pod.status.init_container_statuses, *pod.status.container_statuses]:
        for start, state in (
            (status.restart_count - 1, status.last_state.terminated),
            (status.restart_count, status.state.terminated),
        ):
            if state is None or not state.exit_code or start < 0:
                continue
            if state.finished_at is None or not told_to_end(pod, state.finished_at):
                yield status.name, start, state.exit_code


def _starts(pod: Pod, container: str) -> int:
    statuses = [*pod.status.init_container_statuses, *pod.status.container_statuses]
    return next(status.restart_count for status in statuses if status.name == container)
