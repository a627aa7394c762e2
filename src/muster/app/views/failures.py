"""Which pod of a job failed first, and with which exit code."""

from collections.abc import Iterable

from muster.api import kinds
from muster.api.batch_v1 import JOB_NAME
from muster.api.core_v1 import Pod
from muster.api.jobset_v1alpha2 import JOBSET_NAME, RESTART_ATTEMPT
from muster.api.natural import natural
from muster.app.views.job import JobView
from muster.app.views.pods import first_failure


def failure_code(view: JobView, seen: Iterable[Pod]) -> int:
    """The exit code of a failed job: that of the container that failed first in the last attempt, else 1."""
    failure = last_failure(view, seen)
    return failure[1] if failure else 1


def last_failure(view: JobView, seen: Iterable[Pod]) -> tuple[Pod, int] | None:
    """`first_failure` within the last attempt of the job that had one."""
    mine = [pod for pod in seen if _is_of(pod, view)]
    attempts = {pod.metadata.uid: natural(pod.metadata.labels.get(RESTART_ATTEMPT)) or 0 for pod in mine}
    last = max((attempts[pod.metadata.uid] for pod in mine if first_failure([pod])), default=0)
    return first_failure([pod for pod in mine if attempts[pod.metadata.uid] == last])


def _is_of(pod: Pod, view: JobView) -> bool:
    if view.kind is kinds.JOBSET:
        return pod.metadata.labels.get(JOBSET_NAME) == view.name
    if view.kind is kinds.JOB:
        return pod.metadata.labels.get(JOB_NAME) == view.name
    return any(pod.metadata.uid == other.metadata.uid for other in view.pods)
