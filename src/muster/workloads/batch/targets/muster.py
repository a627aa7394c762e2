"""The target `muster`: a JobSet whose pods are a gang, in a queue of muster's."""

from collections.abc import Sequence

from muster import names
from muster.api import groups
from muster.api.base import Object
from muster.api.koordinator_v1alpha1 import TOPOLOGY_SPEC
from muster.compiler import Draft, Facts
from muster.workloads import annotate
from muster.workloads.batch.compiling import refusal
from muster.workloads.batch.job import BatchJob, Task
from muster.workloads.batch.targets import sharing
from muster.workloads.batch.targets.jobset import Report, jobset

#: Annotations of a job that are read on its pods, and on the group that its pods are a gang by.
_OF_PODS = frozenset({names.CHECKPOINT_FILE, names.PROGRESS_FILE})
_OF_GROUP = frozenset({names.ON_GPU_ANOMALY, names.PROGRESS_RULES})


def emit(job: BatchJob, drafts: Sequence[tuple[Task, Draft]], report: Report, facts: Facts) -> list[Object]:
    """A JobSet that starts as a whole, or with a PodGroup if fewer pods than all are enough."""
    made = jobset(job, drafts, report)
    if job.topology is not None:
        report(
            refusal(
                ("spec", "topology"),
                f"tiers are Volcano's; write the layer into metadata.annotations: {TOPOLOGY_SPEC}",
            )
        )
    tasks = {task.name: task for task in job.tasks}
    for replicated in made["spec"]["replicatedJobs"]:
        template = replicated["template"]["spec"]["template"]
        annotate.for_scheduler(template, facts.scheduler)
        sharing.of_muster(template, tasks[replicated["name"]], report)
        for key in sorted(_OF_PODS & job.annotations.keys()):
            template["metadata"].setdefault("annotations", {})[key] = job.annotations[key]
    if job.min_available is None or job.min_available == job.pods:
        if job.queue:
            annotate.in_queue(made, job.queue)
        annotate.as_gang(made)
        return [made]
    for replicated in made["spec"]["replicatedJobs"]:
        labels = replicated["template"]["spec"]["template"]["metadata"]["labels"]
        labels[groups.CREATED.label] = job.name
    group = groups.created(job.name, job.namespace, job.min_available)
    group["metadata"] |= _told(job)
    if job.queue:
        annotate.in_queue(group, job.queue)
    return [group, made]


def _told(job: BatchJob) -> Object:
    told = {key: job.annotations[key] for key in sorted(_OF_GROUP & job.annotations.keys())}
    return {"annotations": told} if told else {}
