"""The run of a BatchJob, a JobSet or a Job of Volcano: its first form, its release, and its progress.

No pod of the run may start before everything that pods need exists. A JobSet is created suspended, and
released later. Volcano's Job cannot be suspended; but Kubernetes refuses a pod whose ServiceAccount does not
exist, so the ServiceAccounts are created last (`order`), and Volcano's controller retries until then.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Final, Literal

from muster import names
from muster.api.base import AnyKind, Object
from muster.api.batch_v1 import Job
from muster.api.jobset_v1alpha2 import REPLICATED_JOB_NAME, JobSet
from muster.api.kinds import JOBSET, VOLCANO_JOB
from muster.api.volcano_v1alpha1 import VolcanoJob
from muster.effects import Patch

Run = JobSet | VolcanoJob
#: The kind of the run, by the target of the compiler.
KINDS: Final[dict[str, AnyKind]] = {
    "muster": JOBSET,
    "native": JOBSET,
    "volcano": VOLCANO_JOB,
}
#: The kind without which Kubernetes refuses a pod.
_LAST: Final = "ServiceAccount"


@dataclass(frozen=True, slots=True)
class Progress:
    phase: Literal["Pending", "Running", "Succeeded", "Failed"]
    message: str
    #: entries of `status.tasks`
    tasks: Sequence[Object] = ()


def kind_of(run: Run) -> AnyKind:
    return JOBSET if isinstance(run, JobSet) else VOLCANO_JOB


def first(made: Object, granted: str) -> Object:
    """Returns the run in its first form: no pod of it starts, and no scheduler may start it.

    `granted`: see `muster.controllers.batch_grant`.
    """
    run = deepcopy(made)
    run["metadata"].setdefault("annotations", {})[names.GRANTED] = granted
    if run["kind"] == JOBSET.kind and run["apiVersion"] == JOBSET.api_version:
        run["spec"]["suspend"] = True
        run["metadata"].get("labels", {}).pop(names.ADMISSION, None)
    return run


def order(support: Sequence[Object]) -> Sequence[Object]:
    """Returns the objects that pods need, in the order in which they are created."""
    return sorted(support, key=lambda each: bool(each["kind"] == _LAST))


def must_not_exist(run: Object, support: Sequence[Object]) -> list[Object]:
    """Returns those objects of `support` that must not exist yet when the run is created.

    These are the ServiceAccounts of Volcano's pods. With one of the same name, which a user or an earlier run
    has created, the pods would start at once.
    """
    started = run["apiVersion"] == VOLCANO_JOB.api_version
    return [each for each in support if started and each["kind"] == _LAST]


def released(run: Run, final: Object, hash_: str) -> Patch:
    """Returns the patch that gives the run its final form, unless it has changed since it was observed."""
    meta = run.metadata
    metadata: Object = {"resourceVersion": meta.resource_version, "annotations": {names.COMPILED: hash_}}
    body: Object = {"metadata": metadata}
    if isinstance(run, JobSet):
        metadata["labels"] = final["metadata"].get("labels", {})
        body["spec"] = {"suspend": bool(final["spec"].get("suspend"))}
    return Patch(kind_of(run), meta.namespace, meta.name, body)


def waits(run: Run) -> bool:
    """Whether a released run has not started yet, or has been stopped, so that it may be replaced."""
    if isinstance(run, JobSet):
        return run.spec.suspend
    return run.status.state.phase in ("", "Pending")


def progress(run: Run, jobs: Sequence[Job]) -> Progress:
    """Returns the progress of a released run. `jobs`: the Jobs that a JobSet owns."""
    if isinstance(run, JobSet):
        return _of_jobset(run, jobs)
    return _of_volcano(run)


def tasks_of(run: Run) -> list[str]:
    """The names of the tasks."""
    if isinstance(run, JobSet):
        return [each.name for each in run.spec.replicated_jobs]
    return [each.name for each in run.spec.tasks]


def _of_jobset(jobset: JobSet, jobs: Sequence[Job]) -> Progress:
    conditions = {each.type: each for each in jobset.status.conditions if each.status == "True"}
    tasks: list[Object] = []
    for replicated in jobset.spec.replicated_jobs:
        mine = [
            each.status
            for each in jobs
            if each.metadata.labels.get(REPLICATED_JOB_NAME) == replicated.name
            and each.metadata.deletion_timestamp is None
        ]
        pods = replicated.replicas * _pods(replicated.template.get("spec", {}))
        counts = [sum(getattr(each, field) for each in mine) for field in ("active", "succeeded", "failed")]
        tasks.append(_task(replicated.name, pods, *counts))
    if (done := conditions.get("Completed")) is not None:
        return Progress("Succeeded", done.message or "all tasks completed", tasks)
    if (done := conditions.get("Failed")) is not None:
        return Progress("Failed", done.message or "the job failed", tasks)
    if jobset.spec.suspend:
        return Progress("Pending", "waits to be started", tasks)
    return Progress("Running", "runs", tasks)


def _pods(spec: Object) -> int:
    for field in ("completions", "parallelism"):
        if isinstance(pods := spec.get(field), int):
            return pods
    return 1


def _of_volcano(job: VolcanoJob) -> Progress:
    tasks = []
    for task in job.spec.tasks:
        counted = job.status.task_status_count.get(task.name)
        phases = counted.phase if counted is not None else {}
        active = phases.get("Running", 0) + phases.get("Pending", 0)
        tasks.append(
            _task(task.name, task.replicas, active, phases.get("Succeeded", 0), phases.get("Failed", 0))
        )
    state = job.status.state
    match state.phase:
        case "Completed":
            return Progress("Succeeded", state.message or "all tasks completed", tasks)
        case "Failed" | "Terminated" | "Aborted":
            return Progress("Failed", state.message or "the job failed", tasks)
        case "" | "Pending":
            return Progress("Pending", "waits to be started", tasks)
        case "Restarting" | "Aborting" | "Terminating" as phase:
            return Progress("Running", f"Volcano: {phase}", tasks)
        case _:
            return Progress("Running", "runs", tasks)


def _task(name: str, pods: int, active: int, succeeded: int, failed: int) -> Object:
    return {
        "name": name,
        "pods": pods,
        "active": active,
        "succeeded": succeeded,
        "failed": failed,
        "completed": succeeded >= pods,
    }
