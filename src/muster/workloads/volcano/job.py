"""Reads a Job of Volcano: its tasks and their minima, with the defaults of Volcano's webhook."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from muster.api.base import Object
from muster.api.fields import Path, Severity, convert
from muster.api.groups.volcano import LAYERS
from muster.api.volcano_v1alpha1 import JobSpec, LifecyclePolicy, TaskSpec, Volume
from muster.api.volcano_v1alpha1 import VolcanoJob as Written
from muster.api.volcano_v1beta1 import MOST_TASKS
from muster.workloads import dns
from muster.workloads.demand import MAX_PLACES
from muster.workloads.findings import nearest

#: Reports what is wrong with a field of the Job.
Report = Callable[[Path, str, Severity], object]

#: How often a Job that names no maxRetry is started, as Volcano's webhook has it.
RETRIES: Final = 3
_TASK: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_TOPOLOGY: Final = f"needs HyperNodes, which are not read; leave it out, and {LAYERS}"


@dataclass(frozen=True, slots=True)
class Task:
    """Pods of one template."""

    #: its number in the file
    index: int
    name: str
    replicas: int
    #: how many of its pods have to run at least
    minimum: int
    #: {metadata, spec}
    template: Object
    #: 0: the file says nothing
    max_retry: int = 0
    policies: Sequence[LifecyclePolicy] = ()
    #: tasks whose pods have to run before those of this one are created
    depends_on: Sequence[str] = ()

    @property
    def path(self) -> Path:
        return "spec", "tasks", self.index

    @property
    def restart_policy(self) -> str:
        return str(self.template.get("spec", {}).get("restartPolicy") or "Always")

    @property
    def variable(self) -> str:
        """The task in names of variables and files."""
        return self.name.replace("-", "_")


@dataclass(frozen=True, slots=True)
class VolcanoJob:
    """A Job of Volcano, as its author means it."""

    name: str
    namespace: str
    labels: dict[str, str]
    annotations: dict[str, str]
    #: in the order of the file
    tasks: Sequence[Task]
    #: how many pods have to run at least
    minimum: int
    #: how often it is started at most
    max_retry: int = RETRIES
    policies: Sequence[LifecyclePolicy] = ()
    #: arguments by plugin
    plugins: dict[str, list[str]] = field(default_factory=dict)
    volumes: Sequence[Volume] = ()
    queue: str = ""
    priority_class: str = ""
    #: "": Volcano's
    scheduler: str = ""
    ttl: int | None = None
    #: how many pods have to succeed for the Job to have; None: all that it needs
    min_success: int | None = None

    @property
    def pods(self) -> int:
        return sum(task.replicas for task in self.tasks)

    @property
    def minima(self) -> dict[str, int]:
        """The minima of tasks, in so far as Volcano observes them: not if together they exceed the Job's."""
        together = {task.name: task.minimum for task in self.tasks}
        return together if self.minimum >= sum(together.values()) else {}


def read(obj: Object, report: Report) -> VolcanoJob | None:
    """The Job in an object whose types are right; None if it is not one that Volcano would accept.

    Each reason is reported as an error. What muster does otherwise than Volcano is reported too.
    """
    spec = convert(obj, Written).spec
    metadata = obj["metadata"]
    wrong = 0

    def noted(path: Path, message: str, severity: Severity = Severity.ERROR) -> None:
        nonlocal wrong
        wrong += severity is Severity.ERROR
        report(path, message, severity)

    for path, message in _faults(spec):
        noted(path, message)
    _unread(spec, noted)
    if wrong:
        return None
    names = [each.name or f"default{index}" for index, each in enumerate(spec.tasks)]
    tasks = [_task(obj, index, names[index], each) for index, each in enumerate(spec.tasks)]
    return VolcanoJob(
        name=str(metadata.get("name", "")),
        namespace=str(metadata.get("namespace", "")),
        labels=dict(metadata.get("labels") or {}),
        annotations=dict(metadata.get("annotations") or {}),
        tasks=tasks,
        minimum=spec.min_available or sum(task.minimum for task in tasks),
        max_retry=spec.max_retry or RETRIES,
        policies=spec.policies,
        plugins=_plugins(spec),
        volumes=spec.volumes,
        queue=spec.queue,
        priority_class=spec.priority_class_name,
        scheduler=spec.scheduler_name,
        ttl=spec.ttl_seconds_after_finished,
        min_success=spec.min_success,
    )


def _task(obj: Object, index: int, name: str, spec: TaskSpec) -> Task:
    template: Any = obj["spec"]["tasks"][index].get("template") or {}  # JSON, whose types are right
    return Task(
        index=index,
        name=name,
        replicas=spec.replicas,
        minimum=spec.replicas if spec.min_available is None else spec.min_available,
        template=template,
        max_retry=spec.max_retry,
        policies=spec.policies,
        depends_on=tuple(dict.fromkeys(spec.depends_on.name)) if spec.depends_on else (),
    )


def _plugins(spec: JobSpec) -> dict[str, list[str]]:
    """The plugins of a Job; Volcano's webhook adds what one of them needs."""
    needed = {"pytorch", "tensorflow"} & spec.plugins.keys() and "svc" not in spec.plugins
    return spec.plugins | ({"svc": []} if needed else {})


def _faults(spec: JobSpec) -> Iterator[tuple[Path, str]]:
    """For what Volcano's webhook refuses a Job, and what is too much for muster."""
    at: Path = ("spec", "tasks")
    if not spec.tasks:
        yield at, "is missing or empty; a Job has at least one task"
    if len(spec.tasks) > MOST_TASKS:
        yield at, f"has {len(spec.tasks)} tasks; a Job has at most {MOST_TASKS}"
        return
    pods = sum(max(0, task.replicas) for task in spec.tasks)
    if pods > MAX_PLACES:
        yield at, f"asks for {pods:,} pods at a time, and the most is {MAX_PLACES:,}; lower replicas"
        return
    for field_, value in (
        ("minAvailable", spec.min_available),
        ("maxRetry", spec.max_retry),
        ("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished or 0),
    ):
        if value < 0:
            yield ("spec", field_), f"is {value}; the least is 0"
    if spec.min_available > pods:
        yield ("spec", "minAvailable"), f"is {spec.min_available}, and the tasks have {pods} pods"
    if spec.min_success is not None and not 1 <= spec.min_success <= max(pods, 1):
        yield ("spec", "minSuccess"), f"is {spec.min_success}; write a number from 1 to {pods}"
    yield from _faults_of_tasks(spec)
    for index, volume in enumerate(spec.volumes):
        here: Path = ("spec", "volumes", index)
        if not volume.mount_path:
            yield (*here, "mountPath"), "is missing"
        if volume.volume_claim is not None:
            yield (
                (*here, "volumeClaim"),
                "muster creates no PVC; create one, and write volumeClaimName: NAME instead",
            )
        elif not volume.volume_claim_name:
            yield (*here, "volumeClaimName"), "is missing; name the PVC to mount"


def _faults_of_tasks(spec: JobSpec) -> Iterator[tuple[Path, str]]:
    names = [task.name or f"default{index}" for index, task in enumerate(spec.tasks)]
    for index, task in enumerate(spec.tasks):
        at: Path = ("spec", "tasks", index)
        if not _TASK.fullmatch(names[index]) or len(names[index]) > dns.LABEL:
            told = f"cannot name a task; write at most {dns.LABEL} lowercase letters, digits and hyphens"
            yield (*at, "name"), f"{names[index][:80]!r} {told}"
        if names[index] in names[:index]:
            yield (*at, "name"), f"{names[index]} is the name of another task, too"
        if task.replicas < 0:
            yield (*at, "replicas"), f"is {task.replicas}; the least is 0"
        elif task.min_available is not None and not 0 <= task.min_available <= task.replicas:
            told = f"is {task.min_available}; write a number from 0 to {task.replicas}, its replicas"
            yield (*at, "minAvailable"), told
        if task.max_retry < -1:
            yield (*at, "maxRetry"), f"is {task.max_retry}; the least is -1, for no limit"
        if task.partition_policy is not None:
            yield (
                (*at, "partitionPolicy"),
                "is not supported; write a Job for each partition, or a JobSet with a group of jobs for each",
            )
        on = task.depends_on
        for number, name in enumerate(on.name if on is not None else ()):
            if name not in names:
                yield (*at, "dependsOn", "name", number), f"there is no task {name!r}{nearest(name, names)}"
        if on is not None and on.iteration == "any" and len(set(on.name)) > 1:
            yield (
                (*at, "dependsOn", "iteration"),
                "any: a JobSet waits for all of them; name one task, or write iteration: all",
            )
    if circle := _circle({names[index]: task for index, task in enumerate(spec.tasks)}):
        index = names.index(circle[0])
        told = f"is circular: {' → '.join([*circle, circle[0]])}; none of them could start first"
        yield ("spec", "tasks", index, "dependsOn"), told


def _circle(tasks: dict[str, TaskSpec]) -> list[str]:
    """Tasks that wait for each other, in order; [] if there are none."""
    left = {
        name: {each for each in (task.depends_on.name if task.depends_on else ()) if each in tasks}
        for name, task in tasks.items()
    }
    while free := [name for name, on in left.items() if not on & left.keys()]:
        for name in free:
            del left[name]
    if not left:
        return []
    seen: list[str] = []
    name = min(left)
    while name not in seen:
        seen.append(name)
        name = min(left[name] & left.keys())
    return seen[seen.index(name) :]


def _unread(spec: JobSpec, report: Callable[..., None]) -> None:
    """Reports fields that Volcano reads, and muster does not."""
    topology = spec.network_topology
    if topology is not None:
        soft = topology.get("mode") == "soft"
        report(("spec", "networkTopology"), _TOPOLOGY, Severity.WARNING if soft else Severity.ERROR)
    if spec.running_estimate:
        told = "is not read; write muster.dev/run-time in metadata.annotations"
        report(("spec", "runningEstimate"), told, Severity.WARNING)
    for index, task in enumerate(spec.tasks):
        if task.topology_policy not in ("", "none"):
            told = "is not read: muster places pods on nodes, and the node's kubelet on its NUMA nodes"
            report(("spec", "tasks", index, "topologyPolicy"), told, Severity.WARNING)
