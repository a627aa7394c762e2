"""The environment of training frameworks: the coordinator, the number of processes, and the rank.

Ranks count pods over all tasks, the coordinator's first. `WORLD_SIZE` is pods × GPUs of a pod, as `torchrun`
counts processes.
"""

from typing import Final

from muster.api.base import Object
from muster.api.jobset_v1alpha2 import JOB_GLOBAL_INDEX
from muster.workloads.lattice.job import BatchJob, Task

PORT: Final = 29500
_GPU: Final = "nvidia.com/gpu"


def order(job: BatchJob, task: Task) -> tuple[bool, int]:
    """Sorts tasks: the coordinator first, the others by name."""
    first = job.training is not None and task.name == job.training.coordinator
    return (not first, list(job.tasks).index(task))


def add(pod: Object, job: BatchJob, task: Task, *, by_rank: bool) -> None:
    """Adds the environment to the containers of a pod. `by_rank`: JobSet's number of the Job is the rank."""
    for container in pod["containers"]:
        known = {each["name"] for each in container.get("env", [])}
        made = [each for each in variables(job, container, by_rank=by_rank) if each["name"] not in known]
        container["env"] = [*made, *container.get("env", [])]


def variables(job: BatchJob, container: Object, *, by_rank: bool) -> list[Object]:
    """The variables of one container as `env`. The job must have training."""
    assert job.training is not None, "a job without training has no such environment"
    gpus = int((container.get("resources") or {}).get("limits", {}).get(_GPU, 0) or 0)
    processes = max(1, gpus)
    nodes = job.pods
    rank: Object = {"valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{JOB_GLOBAL_INDEX}']"}}}
    if not by_rank:
        return [_plain(*each) for each in sorted(job.training.nccl.items())]
    host = f"{job.name}-{job.training.coordinator}-0-0.{job.name}"
    if job.training.framework == "Jax":
        own = [
            _plain("JAX_COORDINATOR_ADDRESS", f"{host}:{PORT}"),
            _plain("JAX_NUM_PROCESSES", str(nodes)),
            {"name": "JAX_PROCESS_ID", **rank},
        ]
    else:
        own = [
            _plain("MASTER_ADDR", host),
            _plain("MASTER_PORT", str(PORT)),
            _plain("NNODES", str(nodes)),
            _plain("NPROC_PER_NODE", str(processes)),
            {"name": "RANK", **rank},
            _plain("WORLD_SIZE", str(nodes * processes)),
        ]
    return [*own, *(_plain(*each) for each in sorted(job.training.nccl.items()))]


def _plain(name: str, value: str) -> Object:
    return {"name": name, "value": value}
