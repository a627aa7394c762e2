"""A batch job as a JobSet: one replicated job per task. The base of the targets `muster` and `native`.

Without training, a task is one Indexed Job. With training, each pod is a Job of its own, because JobSet
numbers Jobs over all tasks: the label `job-global-index` is then the pod's rank.
"""

from collections.abc import Callable, Sequence
from typing import Final

from muster import names
from muster.api.base import Object
from muster.api.fields import Finding
from muster.compiler import Draft
from muster.workloads.batch import training
from muster.workloads.batch.compiling import refusal
from muster.workloads.batch.job import BatchJob, Policy, Task

#: Restarts of a job that says RestartJob and no maxRetry, as Volcano has it.
_RETRIES: Final = 3
#: Events that a JobSet tells apart; an eviction by muster makes a gang wait again by itself.
_FAILED: Final = ("PodFailed", "TaskFailed", "*")
_EVICTED: Final = "PodEvicted"

Report = Callable[[Finding], None]


def jobset(job: BatchJob, drafts: Sequence[tuple[Task, Draft]], report: Report) -> Object:
    """The JobSet of a job. What a JobSet cannot express is reported."""
    ordered = sorted(drafts, key=lambda each: training.order(job, each[0]))
    restart = _restarts(job, report)
    spec: Object = {
        "failurePolicy": {"maxRestarts": restart},
        "replicatedJobs": [_replicated(job, task, draft, report) for task, draft in ordered],
    }
    if (success := _success(job, report)) is not None:
        spec["successPolicy"] = success
    metadata: Object = {"name": job.name, "namespace": job.namespace}
    for key, values in (("labels", job.labels), ("annotations", job.annotations)):
        if values:
            metadata[key] = dict(sorted(values.items()))
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec}


def _replicated(job: BatchJob, task: Task, draft: Draft, report: Report) -> Object:
    pod: Object = {"metadata": draft.pod["metadata"], "spec": dict(draft.pod["spec"])}
    restart = task.restart_policy
    if restart == "Always":
        report(
            refusal(
                ("spec", "tasks", task.name, "restartPolicy"),
                "Always is for services; a task that ends has Never or OnFailure",
            )
        )
    pod["spec"]["restartPolicy"] = restart
    if job.priority_class:
        pod["spec"]["priorityClassName"] = job.priority_class
    if job.training is not None:
        training.add(pod["spec"], job, task, by_rank=True)
    alone = job.training is not None
    spec: Object = {
        "completionMode": "Indexed",
        "completions": 1 if alone else task.replicas,
        "parallelism": 1 if alone else task.replicas,
        "backoffLimit": _RETRIES if restart == "OnFailure" else 0,
        "podFailurePolicy": {
            "rules": [{"action": "Ignore", "onPodConditions": [{"type": names.PREEMPTED, "status": "True"}]}]
        },
        "template": pod,
    }
    if restart == "OnFailure":
        del spec["podFailurePolicy"]  # Kubernetes permits one with restartPolicy: Never only
    return {"name": task.name, "replicas": task.replicas if alone else 1, "template": {"spec": spec}}


def _restarts(job: BatchJob, report: Report) -> int:
    """How often the whole job is started again."""
    restarts = job.max_retry or 0
    for path, policy in _policies(job):
        match policy:
            case Policy(event=event, action="RestartJob") if event in _FAILED:
                restarts = _RETRIES if job.max_retry is None else job.max_retry
            case Policy(event="PodEvicted", action="RestartJob" | "RestartTask" | "RestartPod"):
                pass
            case Policy(event=event, action="AbortJob" | "TerminateJob") if event in _FAILED:
                restarts = 0
            case Policy(event="TaskCompleted", action="CompleteJob"):
                pass
            case _:
                report(
                    refusal(
                        path,
                        f"{policy.event} → {policy.action} is more than a JobSet can do: it restarts or "
                        f"fails the job when a pod fails, and completes it when a task has",
                    )
                )
    return restarts


def _success(job: BatchJob, report: Report) -> Object | None:
    """The success policy: which tasks complete the job."""
    ends = [
        task.name
        for task in job.tasks
        if any(each == Policy("TaskCompleted", "CompleteJob") for each in task.policies)
    ]
    if ends:
        return {"operator": "All", "targetReplicatedJobs": ends}
    if Policy("TaskCompleted", "CompleteJob") in job.policies:
        return {"operator": "Any"}
    if job.training is not None and len(job.tasks) > 1:
        return {"operator": "All", "targetReplicatedJobs": [job.training.coordinator]}
    return None


def _policies(job: BatchJob) -> list[tuple[tuple[str | int, ...], Policy]]:
    found: list[tuple[tuple[str | int, ...], Policy]] = [
        (("spec", "policies", index), policy) for index, policy in enumerate(job.policies)
    ]
    for task in job.tasks:
        found += [
            (("spec", "tasks", task.name, "policies", index), policy)
            for index, policy in enumerate(task.policies)
        ]
    return found
