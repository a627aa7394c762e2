"""The environment of a batch job's training framework (`muster.workloads.training`).

Ranks count pods over all tasks, the coordinator's first.
"""

from muster.api.base import Object
from muster.api.jobset_v1alpha2 import JOB_GLOBAL_INDEX
from muster.workloads.batch.job import BatchJob, Task
from muster.workloads.training import containers, give, plain, put_before


def order(job: BatchJob, task: Task) -> bool:
    """Sorts tasks: the coordinator first, the others as they are."""
    return job.training is None or task.name != job.training.coordinator


def add(pod: Object, job: BatchJob, task: Task, *, by_rank: bool) -> None:
    """Adds the environment to all containers of a pod. `by_rank`: JobSet's number of the Job is the rank."""
    assert job.training is not None, "a job without training has no such environment"
    nccl = [plain(*each) for each in sorted(job.training.nccl.items())]
    host = f"{job.name}-{job.training.coordinator}-0-0.{job.name}"
    for container in containers(pod):
        put_before(container, nccl)
    if by_rank:
        give(pod, job.training.framework, host, job.pods, JOB_GLOBAL_INDEX)
