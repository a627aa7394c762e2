"""The target `native`: a JobSet whose pods name a PodGroup of Kubernetes itself.

Kubernetes 1.37 has it behind the feature gate GenericWorkload; muster reads it as well. It has no queues and
one level of topology, so a job with a queue is refused. Source: kubernetes/api, scheduling/v1beta1/types.go;
KEP-4671.
"""

from collections.abc import Sequence

from muster.api import groups
from muster.api.base import Object
from muster.compiler import Draft, Facts
from muster.workloads.batch.compiling import refusal
from muster.workloads.batch.job import BatchJob, Task
from muster.workloads.batch.targets import sharing
from muster.workloads.batch.targets.jobset import Report, jobset


def emit(job: BatchJob, drafts: Sequence[tuple[Task, Draft]], report: Report, facts: Facts) -> list[Object]:
    """A PodGroup and a JobSet. kube-scheduler binds the pods."""
    if job.queue:
        report(
            refusal(
                ("spec", "queue"), "Kubernetes' own gangs have no queues; remove it, or use another target"
            )
        )
    if job.topology is not None:
        report(refusal(("spec", "topology"), "Kubernetes' own gangs have no tiers; remove it"))
    for task in job.tasks:
        sharing.refuse(task, report)
    made = jobset(job, drafts, report)
    for replicated in made["spec"]["replicatedJobs"]:
        replicated["template"]["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": job.name}
    group: Object = {
        "apiVersion": groups.NATIVE.kind.api_version,
        "kind": groups.NATIVE.kind.kind,
        "metadata": {"name": job.name, "namespace": job.namespace},
        "spec": {"schedulingPolicy": {"gang": {"minCount": job.min_available or job.pods}}},
    }
    if job.priority_class:
        group["spec"]["priorityClassName"] = job.priority_class
    return [group, made]
