"""The verdict on a job as its view has it: from the pods that exist, have been seen, or are remembered.

`muster.api.failures` computes it. Here it is decided of which pods, and it takes its place in the view: in
the reason, in the count of pods that failed, and in the exit code.
"""

from collections.abc import Iterable
from dataclasses import replace

from muster.api import kinds
from muster.api.batch_v1 import JOB_NAME
from muster.api.core_v1 import Pod
from muster.api.failures import Failure, last_failures, verdict, without_verdict
from muster.api.jobset_v1alpha2 import JOBSET_NAME
from muster.app.views.job import JobView, State
from muster.workloads.pod_run import PodRun, failure_of


def failure_code(view: JobView) -> int:
    """The exit code of a failed job: that of the container that failed first in the last attempt, else 1."""
    return view.verdict.code if view.verdict is not None else 1


def judged(view: JobView, pods: Iterable[Pod] = (), runs: Iterable[PodRun] = ()) -> JobView:
    """The view with the verdict on its own pods, on those of `pods` that are of it, and on `runs`."""
    known = {pod.metadata.uid: pod for pod in pods if _is_of(pod, view)}
    known |= {pod.metadata.uid: pod for pod in view.pods if pod.metadata.uid not in known}
    found = [failure for pod in known.values() for failure in last_failures(pod)]
    found += [failure for run in runs if run.uid not in known and (failure := failure_of(run)) is not None]
    return with_failures(view, found)


def with_failures(view: JobView, found: Iterable[Failure]) -> JobView:
    """The view with the verdict on these failures. A failed one's reason and count follow it."""
    found = list(found)
    if (view.failing or view.state is State.FAILED) and (found or not view.by_pods):
        # its status also counts pods that were stopped with it, or has stopped counting; restarts count the
        # failures of earlier attempts
        last = max((failure.attempt for failure in found), default=0)
        view = replace(view, failed=len({failure.uid for failure in found if failure.attempt == last}))
    told = verdict(found) if view.by_pods else None
    if told is None:
        return view
    before, view = view.verdict, replace(view, verdict=told)
    if view.state is not State.FAILED or view.reason is None or view.kind is kinds.POD:
        return view
    code, message = view.reason
    if before is not None:
        message = message.removesuffix(str(before)).removesuffix(": ")
    message = ": ".join(filter(None, [without_verdict(message), str(told)]))
    return replace(view, reason=(code, message))


def _is_of(pod: Pod, view: JobView) -> bool:
    if pod.metadata.namespace != view.namespace:
        return False
    if view.kind is kinds.JOBSET:
        return pod.metadata.labels.get(JOBSET_NAME) == view.name
    if view.kind is kinds.JOB:
        return pod.metadata.labels.get(JOB_NAME) == view.name
    return any(pod.metadata.uid == other.metadata.uid for other in view.pods)
