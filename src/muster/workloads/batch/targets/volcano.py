"""The target `volcano`: a VCJob, or with a schedule Volcano's CronJob of VCJobs.

Volcano's job controller makes the PodGroup. Source: volcano-sh/apis, batch/v1alpha1/job.go and cronjob.go;
volcano-sh/volcano, pkg/webhooks/admission/jobs/mutate and pkg/controllers/job/state.
"""

from collections.abc import Sequence

from muster.api.base import Object
from muster.compiler import Draft, Facts
from muster.workloads.batch import training
from muster.workloads.batch.compiling import refusal
from muster.workloads.batch.job import BatchJob, Policy, Task
from muster.workloads.batch.targets import sharing
from muster.workloads.batch.targets.jobset import Report

_VERSION = "batch.volcano.sh/v1alpha1"
_PORT = 29500  # each pod has an address of its own


def emit(job: BatchJob, drafts: Sequence[tuple[Task, Draft]], report: Report, facts: Facts) -> list[Object]:
    """The VCJob or CronJob of a job."""
    plugins: Object = {"env": []}
    if job.training is not None:
        plugins["svc"] = ["--publish-not-ready-addresses"]
        if job.training.framework == "Jax" or len(job.tasks) > 2:
            report(
                refusal(
                    ("spec", "training"),
                    "Volcano numbers pods over several tasks only by its pytorch plug-in, which has a master "
                    "and one kind of worker; use target muster",
                )
            )
        workers = [task.name for task in job.tasks if task.name != job.training.coordinator]
        plugins["pytorch"] = [
            f"--master={job.training.coordinator}",
            *(f"--worker={name}" for name in workers),
            f"--port={_PORT}",
        ]
    spec: Object = {
        "schedulerName": job.scheduler,
        "minAvailable": job.pods if job.min_available is None else job.min_available,
        "plugins": plugins,
        "tasks": [_task(job, task, draft) for task, draft in drafts],
    }
    if job.queue:
        spec["queue"] = job.queue
    if job.max_retry is not None:
        spec["maxRetry"] = job.max_retry or 1  # its webhook makes 3 of 0, and 1 permits no restart
    if job.priority_class:
        spec["priorityClassName"] = job.priority_class
    if job.policies:
        spec["policies"] = [_policy(each) for each in job.policies]
    if job.topology is not None:
        topology: Object = {"mode": "hard" if job.topology.hard else "soft"}
        if job.topology.max_tier is not None:
            topology["highestTierAllowed"] = job.topology.max_tier
        spec["networkTopology"] = topology
    metadata: Object = {"name": job.name, "namespace": job.namespace}
    for key, values in (("labels", job.labels), ("annotations", job.annotations)):
        if values:
            metadata[key] = dict(sorted(values.items()))
    if job.schedule is None:
        return [{"apiVersion": _VERSION, "kind": "Job", "metadata": metadata, "spec": spec}]
    schedule = job.schedule
    cron: Object = {
        "schedule": schedule.cron,
        "concurrencyPolicy": schedule.concurrency,
        "suspend": schedule.suspend,
        "successfulJobsHistoryLimit": schedule.keep_successful,
        "failedJobsHistoryLimit": schedule.keep_failed,
        "jobTemplate": {"metadata": {}, "spec": spec},
    }
    if schedule.time_zone:
        cron["timeZone"] = schedule.time_zone
    if schedule.starting_deadline is not None:
        cron["startingDeadlineSeconds"] = schedule.starting_deadline
    return [{"apiVersion": _VERSION, "kind": "CronJob", "metadata": metadata, "spec": cron}]


def _task(job: BatchJob, task: Task, draft: Draft) -> Object:
    pod: Object = {"metadata": draft.pod["metadata"], "spec": dict(draft.pod["spec"])}
    pod["spec"]["restartPolicy"] = task.restart_policy
    sharing.of_volcano(pod["spec"], task)
    if job.training is not None:
        training.add(pod["spec"], job, task, by_rank=False)
    made: Object = {"name": task.name, "replicas": task.replicas, "template": pod}
    policies = [_policy(each) for each in task.policies]
    done = _policy(Policy("TaskCompleted", "CompleteJob"))
    if job.training is not None and task.name == job.training.coordinator and done not in policies:
        policies.append(done)
    if policies:
        made["policies"] = policies
    return made


def _policy(policy: Policy) -> Object:
    return {"event": policy.event, "action": policy.action}
