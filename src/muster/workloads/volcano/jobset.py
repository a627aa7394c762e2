"""A Job of Volcano as a JobSet: each task is a replicated job whose Job has a pod per replica.

All pods are one gang. If fewer are enough (`minAvailable`), they are in a PodGroup with that minimum: in one
of Volcano if tasks have minima of their own, since no other PodGroup has those. With `dependsOn` the pods of
later tasks do not exist when the first start, so each task is a gang, unless the minimum is met without them.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Final

from muster import names
from muster.api import groups, kinds
from muster.api.base import Object
from muster.api.fields import Path, Severity
from muster.api.volcano_v1alpha1 import JOB_NAME
from muster.api.volcano_v1beta1 import GROUP_NAME, PREEMPTABLE, SCHEDULER, TASK
from muster.workloads import annotate
from muster.workloads.jobfile import Mode
from muster.workloads.volcano.job import Report, Task, VolcanoJob
from muster.workloads.volcano.plugins import Plugins
from muster.workloads.volcano.policies import Ends, ends

#: What the author's own tools have noted, which is not for what is made of the Job.
_NOTED: Final = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})


@dataclass(frozen=True, slots=True)
class Made:
    """An object that a Job is compiled to."""

    object: Object
    #: the field of the Job that a field of the object comes from
    origin: Callable[[Path], Path]
    #: whether it is deleted with the JobSet
    owned: bool = False


def compiled(
    job: VolcanoJob, report: Report, mode: Mode | None = None, scheduler: str = names.SCHEDULER
) -> list[Made]:
    """The objects of a Job, the JobSet last. What they cannot say is reported.

    `mode`: gang: all pods start together; independent: each starts alone; None: as the Job says. `scheduler`:
    the schedulerName of muster's pods, which those of Volcano's get.
    """
    plugins = Plugins(job)
    plugins.check(report)
    tasks = plugins.tasks
    group = _group(job, mode)
    policies = ends(job, plugins.apart, report)
    jobset = _jobset(job, tasks, plugins, policies, group)
    for replicated in jobset["spec"]["replicatedJobs"]:
        pod = replicated["template"]["spec"]["template"]["spec"]
        if job.scheduler not in ("", SCHEDULER):
            pod.setdefault("schedulerName", job.scheduler)
        elif pod.get("schedulerName", SCHEDULER) == SCHEDULER:
            pod["schedulerName"] = scheduler
    if group is None and (mode == "gang" or (mode is None and job.minimum)):
        jobset["metadata"].setdefault("labels", {})[names.GANG] = "true"
    if job.queue:
        annotate.in_queue(jobset if group is None else group, job.queue)
    made = [Made(jobset, partial(_origin, tasks))]
    if group is not None:
        made.insert(0, Made(group, lambda path: ("spec", "minAvailable"), owned=True))
    if (config_map := plugins.config_map(report)) is not None:
        made.insert(0, Made(config_map, lambda path: ("spec", "plugins", "svc"), owned=True))
    _told(job, tasks, report)
    return made


def _jobset(
    job: VolcanoJob, tasks: list[Task], plugins: Plugins, policies: Ends, group: Object | None
) -> Object:
    spec: Object = {
        "failurePolicy": policies.failure,
        "replicatedJobs": [
            _replicated(job, task, plugins, policies.by_task[task.name], group) for task in tasks
        ],
    }
    if policies.success:
        spec["successPolicy"] = policies.success
    if network := plugins.network:
        spec["network"] = network
    if job.ttl is not None:
        spec["ttlSecondsAfterFinished"] = job.ttl
    return {
        "apiVersion": kinds.JOBSET.api_version,
        "kind": kinds.JOBSET.kind,
        "metadata": _metadata(job, plugins.marks),
        "spec": spec,
    }


def _metadata(job: VolcanoJob, marks: Mapping[str, str]) -> Object:
    metadata: Object = {"name": job.name, "namespace": job.namespace}
    annotations = {key: text for key, text in job.annotations.items() if key not in _NOTED} | dict(marks)
    if job.labels:
        metadata["labels"] = dict(job.labels)
    if annotations:
        metadata["annotations"] = annotations
    return metadata


def _replicated(job: VolcanoJob, task: Task, plugins: Plugins, ends_: Object, group: Object | None) -> Object:
    pod = deepcopy(task.template)
    metadata, spec = pod.setdefault("metadata", {}), pod.setdefault("spec", {})
    labels, annotations = metadata.setdefault("labels", {}), metadata.setdefault("annotations", {})
    labels |= {JOB_NAME: job.name, TASK: task.name}
    annotations[TASK] = task.name
    if (said := job.annotations.get(PREEMPTABLE, job.labels.get(PREEMPTABLE))) is not None:
        annotations.setdefault(PREEMPTABLE, said)
    if group is not None and groups.row_of(group) is groups.VOLCANO:
        annotations[GROUP_NAME[0]] = job.name
    elif group is not None:
        labels[groups.CREATED.label] = job.name
    spec["restartPolicy"] = "Never" if task.restart_policy == "Never" else "OnFailure"
    if job.priority_class:
        spec.setdefault("priorityClassName", job.priority_class)
    _mount(job, spec)
    plugins.apply(task, spec)
    apart = task.name in plugins.apart
    count = 1 if apart else task.replicas
    return {
        "name": task.name,
        "replicas": task.replicas if apart else 1,
        **(
            {"dependsOn": [{"name": name, "status": "Ready"} for name in on]}
            if (on := task.depends_on)
            else {}
        ),
        "template": {
            "spec": {
                "completionMode": "Indexed",
                "completions": count,
                "parallelism": count,
                **ends_,
                "template": pod,
            }
        },
    }


def _mount(job: VolcanoJob, pod: Object) -> None:
    """Mounts the Job's volumes in all containers."""
    for index, volume in enumerate(job.volumes):
        name = f"volcano-{index}"
        claim = {"name": name, "persistentVolumeClaim": {"claimName": volume.volume_claim_name}}
        pod["volumes"] = [*(pod.get("volumes") or []), claim]
        for container in (*(pod.get("initContainers") or []), *(pod.get("containers") or [])):
            mount = {"name": name, "mountPath": volume.mount_path}
            container["volumeMounts"] = [*(container.get("volumeMounts") or []), mount]


def _group(job: VolcanoJob, mode: Mode | None) -> Object | None:
    """The PodGroup of a Job of which a part of the pods is enough; None if all start together, or alone."""
    first = sum(task.replicas for task in job.tasks if not task.depends_on)
    if mode is not None or job.minimum in (0, job.pods) or job.minimum > first:
        return None
    minima = {name: least for name, least in job.minima.items() if least}
    if not minima:
        group = groups.created(job.name, job.namespace, job.minimum)
    else:
        row = groups.VOLCANO.kind
        group = {
            "apiVersion": row.api_version,
            "kind": row.kind,
            "metadata": {"name": job.name, "namespace": job.namespace},
            "spec": {"minMember": job.minimum, "minTaskMember": minima},
        }
        if job.priority_class:
            group["spec"]["priorityClassName"] = job.priority_class
    group["metadata"] |= {
        key: value for key, value in _metadata(job, {}).items() if key in ("labels", "annotations")
    }
    return group


def _told(job: VolcanoJob, tasks: list[Task], report: Report) -> None:
    """Reports where the JobSet ends otherwise than the Job would."""
    for task in job.tasks:
        if task.restart_policy == "Always":
            told = (
                "is Always: a JobSet starts a pod again that fails, but none that succeeds; write Never or "
                "OnFailure"
            )
            report((*task.path, "template", "spec", "restartPolicy"), told, Severity.WARNING)
    if job.minimum < job.pods and job.min_success is None:
        told = (
            f"is {job.minimum} of {job.pods} pods: that many start together. But a JobSet succeeds only if "
            "all of its pods do; Volcano's Job does with as many as minAvailable"
        )
        report(("spec", "minAvailable"), told, Severity.NOTE)


def _origin(tasks: list[Task], path: Path) -> Path:
    """The Job's field that a field of the JobSet comes from."""
    match path:
        case ("spec", "replicatedJobs", int(index), *rest) if index < len(tasks):
            return (*tasks[index].path, *_in_task(tasks[index], tuple(rest)))
        case ("spec", "failurePolicy" | "successPolicy", *_):
            return ("spec", "policies")
        case ("spec", "network", *_):
            return ("spec", "plugins", "svc")
        case ("metadata", "annotations", names.TRAINING | names.TRAINERS, *_):
            return ("spec", "plugins", "pytorch")
        case ("metadata", "labels", names.QUEUE, *_):
            return ("spec", "queue")
    return path


def _in_task(task: Task, path: Path) -> Path:
    match path:
        case ("template", "spec", "template", "spec", "volumes", int(index), *_) if index >= len(
            task.template.get("spec", {}).get("volumes") or []
        ):
            return ()
        case ("template", "spec", "template", *rest):
            return ("template", *rest)
        case ("template", "spec", "backoffLimit", *_):
            return ("template", "spec", "restartPolicy")
        case ("replicas", *_) | ("template", "spec", "completions" | "parallelism", *_):
            return ("replicas",)
        case ("template", *_):
            return ()
    return path
