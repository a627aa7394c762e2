"""The batch/v1 Job controller.

`reconcile` takes a Job and its pods together: `pod_states` sorts the pods, `counts` counts the ended ones,
`finish` says whether the Job's fate is decided, `scale` which pods to start and to release, and `status`
writes the result. `failure_policy`, `success_policy`, `backoff` and `pods` each answer one question of these.
"""

from collections.abc import Iterable
from typing import Final

from muster.api import groups, kinds
from muster.api.base import controller_of
from muster.api.batch_v1 import CONTROLLER as NAME
from muster.api.batch_v1 import JOB_NAME, TRACKING_FINALIZER
from muster.api.core_v1 import Pod
from muster.controllers.caches import Caches, Index
from muster.controllers.driver import Change, Controller, Watch, itself
from muster.controllers.job.pods import group_name
from muster.controllers.job.reconcile import JobObserved, reconcile

__all__ = ["CONTROLLER", "JobObserved", "observe", "reconcile"]

#: Index of pods by `namespace/name` of the Job that controls them, even if that Job is gone.
BY_JOB: Final = "job"
#: Seconds within which the changes of many pods cause one reconcile.
SETTLE: Final = 0.02


def observe(caches: Caches, key: str) -> JobObserved | None:
    """Returns the Job of this `namespace/name` and its pods; None if there is nothing to do."""
    job = caches[kinds.JOB].get(key)
    if job is not None and job.spec.managed_by not in ("", NAME):
        return None
    pods = caches[kinds.POD].by(BY_JOB, key)
    if job is None:
        orphans = [pod for pod in pods if TRACKING_FINALIZER in pod.metadata.finalizers]
        return JobObserved(None, (), orphans) if orphans else None
    own: list[Pod] = []
    orphans = []
    for pod in pods:
        reference = controller_of(pod)
        (own if reference is not None and reference.uid == job.metadata.uid else orphans).append(pod)
    name = group_name(job)
    group = caches[groups.NATIVE.kind].get(f"{job.metadata.namespace}/{name}") if name is not None else None
    return JobObserved(job, own, orphans, group)


def _job_keys(pod: Pod) -> Iterable[str]:
    """The Job that controls the pod, or one that has let the pod go but still keeps it with its finalizer."""
    reference, meta = controller_of(pod), pod.metadata
    if reference is not None:
        return (f"{meta.namespace}/{reference.name}",) if kinds.JOB.matches(reference) else ()
    if TRACKING_FINALIZER in meta.finalizers and (name := meta.labels.get(JOB_NAME)):
        return (f"{meta.namespace}/{name}",)
    return ()


def _of_pod(change: Change) -> list[str]:
    return [key for pod in change.objects for key in _job_keys(pod)]


def _of_group(change: Change) -> list[str]:
    """Returns the Job that controls a PodGroup that is gone or has changed."""
    owners = ((controller_of(group), group.metadata.namespace) for group in change.objects)
    return [f"{there}/{by.name}" for by, there in owners if by is not None and kinds.JOB.matches(by)]


CONTROLLER: Final = Controller(
    name="job-controller",
    watches=(Watch(kinds.JOB, itself), Watch(kinds.POD, _of_pod), Watch(groups.NATIVE.kind, _of_group)),
    observe=observe,
    reconcile=reconcile,
    indexes=(Index(kinds.POD, BY_JOB, _job_keys),),
    settle=SETTLE,
)
