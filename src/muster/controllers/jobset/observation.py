"""What the JobSet controller observes: the JobSet, its Jobs, its Service and, where they matter, its pods."""

from collections.abc import Iterable
from dataclasses import dataclass

from muster.api.batch_v1 import Job
from muster.api.core_v1 import Pod, Service
from muster.api.jobset_v1alpha2 import JOBSET_NAME, JOBSET_UID, JobSet
from muster.api.kinds import JOB, JOBSET, POD, SERVICE
from muster.controllers.caches import Caches, Index
from muster.controllers.driver import Change, Watch, controlled_by, itself
from muster.controllers.jobset.attempts import is_failed
from muster.controllers.jobset.construction import subdomain
from muster.controllers.jobset.limits import awaits_first_pod, over_budget
from muster.controllers.jobset.status import FAILED


@dataclass(frozen=True, slots=True)
class Observed:
    jobset: JobSet
    #: Jobs owned by the JobSet, in order of name
    jobs: list[Job]
    #: any Service that has the name of the subdomain
    service: Service | None = None
    #: only if `reconcile` needs them: a Job or the JobSet failed for good, or the deadline awaits a first pod
    pods: tuple[Pod, ...] = ()


def observe(caches: Caches, key: str) -> Observed | None:
    jobset = caches[JOBSET].get(key)
    if jobset is None:
        return None
    jobs = caches[JOB].owned_by(jobset)
    service = caches[SERVICE].get(f"{jobset.metadata.namespace}/{subdomain(jobset)}")
    pods = caches[POD].by(_INDEX, jobset.metadata.uid) if _pods_tell(jobset, jobs) else []
    return Observed(jobset, jobs, service, tuple(pods))


def _pods_tell(jobset: JobSet, jobs: list[Job]) -> bool:
    if jobset.status.terminal_state:
        return jobset.status.terminal_state == FAILED  # its condition names the pod that failed first
    return awaits_first_pod(jobset) or over_budget(jobset) is not None or any(map(is_failed, jobs))


def _pod(change: Change) -> Iterable[str]:
    """Yields the JobSet of a pod that starts, if its clock waits for one, and that of a pod that fails late.

    Other changes do not matter.
    """
    pod: Pod | None = change.new
    if pod is None or pod.status.phase in ("", "Pending"):
        return
    if change.old is not None and change.old.status.phase == pod.status.phase:
        return
    key = f"{pod.metadata.namespace}/{pod.metadata.labels.get(JOBSET_NAME, '')}"
    jobset = change.caches[JOBSET].get(key)
    if jobset is None:
        return
    if awaits_first_pod(jobset) or (pod.status.phase == "Failed" and jobset.status.terminal_state == FAILED):
        yield key


def _of_jobset(pod: Pod) -> list[str]:
    uid = pod.metadata.labels.get(JOBSET_UID)
    return [uid] if uid else []


_INDEX = "jobset"
INDEXES = (Index(POD, _INDEX, _of_jobset),)
WATCHES = (
    Watch(JOBSET, itself),
    Watch(JOB, controlled_by(JOBSET)),
    Watch(SERVICE, controlled_by(JOBSET)),
    Watch(POD, _pod),
)
