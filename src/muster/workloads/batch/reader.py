"""Reads a BatchJob or LatticeJob: every field typed and checked, everything that is wrong at once."""

from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

from muster.api import progress
from muster.api.fields import Finding
from muster.compiler import Draft, Workload, spelling
from muster.compiler.containers import references
from muster.compiler.workload import Protocol, Resource
from muster.names import ON_GPU_ANOMALY, PROGRESS_FILE, PROGRESS_RULES
from muster.workloads import dns
from muster.workloads.batch import containers, metadata, resources, size
from muster.workloads.batch.job import (
    ACTIONS,
    EVENTS,
    BatchJob,
    Policy,
    RestartPolicy,
    Schedule,
    Task,
    Topology,
    Training,
)
from muster.workloads.batch.merging import WRAPPER, Job, Merged
from muster.workloads.batch.resources import strings
from muster.workloads.batch.source_files import Read, nothing
from muster.workloads.demand import MAX_PLACES
from muster.workloads.section import Section

_FRAMEWORKS: Final = {"PyTorch": "PyTorch", "DeepSpeed": "DeepSpeed", "Jax": "Jax"}
_NCCL: Final = {"netIf": "NCCL_SOCKET_IFNAME", "ibHca": "NCCL_IB_HCA", "debug": "NCCL_DEBUG"}


def read(document: Job, namespace: str, source: Read = nothing) -> tuple[BatchJob, list[Finding]]:
    """Returns the job, and what is wrong with it. If there are errors, the job must not be used.

    `namespace` is that of a job that names none, `source` reads the files that the job names.
    """
    findings: list[Finding] = []
    merged = Merged(document)
    if (long := size.excess(merged.value)) is not None:
        return BatchJob(namespace, "", []), [document.finding(*long)]
    job = read_job(Section(merged, merged.value, (), findings), merged, namespace, source)
    if findings:  # nothing compiles the job, so nothing else would report these
        for task in job.tasks:
            draft = Draft(job.namespace, {})
            references(task.workload, draft)
            findings += map(merged.placed, draft.problems)
    return job, list(dict.fromkeys(findings))  # tasks share defaults and resources


def read_job(top: Section, merged: Merged, namespace: str, source: Read = nothing) -> BatchJob:
    """The job of a whole file. If there are findings, it must not be used."""
    for name in ("apiVersion", "kind", "status"):
        top.raw(name)
    about = top.section("metadata")
    name = metadata.name(about)
    namespace = about.spelt("namespace", spelling.label) or namespace
    labels, annotations = metadata.keys(about)
    about.names()
    called = name or "job"  # so that the names that are made of it are not errors, too
    spec = top.section("spec")
    top.close()
    listed = spec.section("tasks")
    gang = tuple(f"{called}-{task}" for task in listed.names())
    training = "training" in spec
    tasks = [
        _task(listed.section(task, merged.task(task)), task, called, namespace, source)
        for task in listed.names()
    ]
    tasks = [
        replace(task, workload=replace(task.workload, gang=gang, outside_mesh=training)) for task in tasks
    ]
    if not tasks:
        spec.error("tasks", "is missing; a job has at least one task")
    spec.section("resources")  # what these say is in the tasks, but for what is no mapping
    for field in ("resources", "workload", WRAPPER):
        spec.section("defaults").section(field)
    spec.raw("observability")
    job = BatchJob(
        namespace=namespace,
        name=name,
        tasks=tasks,
        queue=spec.spelt("queue", spelling.queue),
        scheduler=spec.spelt("schedulerName", spelling.name) or "volcano",
        priority_class=spec.spelt("priorityClassName", spelling.name),
        min_available=spec.integer("minAvailable", 0, minimum=1) if "minAvailable" in spec else None,
        max_retry=spec.integer("maxRetry", 0) if "maxRetry" in spec else None,
        policies=_policies(spec),
        topology=_topology(spec.section("topology")) if "topology" in spec else None,
        training=_training(spec.section("training"), tasks) if "training" in spec else None,
        schedule=_schedule(spec),
        labels=labels,
        annotations=_on_anomaly(spec, annotations) | _progress(spec),
    )
    if job.min_available is not None and job.min_available > job.pods:
        pods = "1 pod" if job.pods == 1 else f"{job.pods} pods"
        spec.error("minAvailable", f"is {job.min_available}, but all tasks together have {pods}")
    if job.pods > MAX_PLACES:
        spec.error("tasks", f"have {job.pods:,} pods; the most is {MAX_PLACES:,}")
    spec.close()
    return job


def _task(section: Section, name: str, job: str, namespace: str, source: Read) -> Task:
    full = f"{job}-{name}"
    if not dns.is_label(full) or len(full) > dns.LABEL:
        section.error((), f"{full!r} names its pods and has to be a DNS label: a-z, 0-9 and -, at most 63")
    section.section(WRAPPER)
    workload = section.section("workload")
    declared = workload.section("resources")
    found: dict[str, Resource] = {}
    for each in declared.names():
        inner = declared.section(each)
        before, resource = inner.errors, resources.read(inner, namespace)
        readable = resource is not None and inner.errors == before
        unread = Resource(each, (*declared.path, each), None)
        found[each] = resource if resource is not None and readable else unread
    listed = workload.section("containers")
    sidecars = section.section("sidecars")
    made = [containers.read(listed.section(each), source, sidecar=False) for each in listed.names()]
    made += [containers.read(sidecars.section(each), source, sidecar=True) for each in sidecars.names()]
    for each in sorted({*listed.names()} & {*sidecars.names()}):
        sidecars.error(each, "is also the name of a container; rename one of them")
    if not listed.names():
        workload.error("containers", "is missing; a task has at least one container")
    restart = section.choice("restartPolicy", ("Never", "OnFailure", "Always"), "Never")
    task = Task(
        name=name,
        replicas=section.integer("replicas", 1, maximum=MAX_PLACES),
        restart_policy=_restart(restart),
        policies=_policies(section),
        workload=Workload(
            namespace=namespace,
            name=full,
            path=section.path,
            containers=made,
            resources=found,
            sysctls=_sysctls(section.section("sysctls")),
            host_network=section.flag("hostNetwork"),
            share_process_namespace=section.flag("shareProcessNamespace"),
            automount_token=section.flag("automountServiceAccountToken"),
            pull_secrets=tuple(dict.fromkeys(strings(section, "imagePullSecrets", spelling.label))),
            ports=_ports(workload.section("service")),
            peers=job,
            metadata={"name": job, "namespace": namespace, "task": name},
        ),
    )
    workload.close()
    section.close()
    return task


def _on_anomaly(spec: Section, annotations: dict[str, str]) -> dict[str, str]:
    """Returns the annotations with the setting for unhealthy GPUs (`muster.controllers.gpu_health`)."""
    if "onGpuAnomaly" not in spec:
        return annotations
    chosen = spec.choice("onGpuAnomaly", ("notify", "checkpointAndMove", "none"), "notify")
    return {**annotations, ON_GPU_ANOMALY: chosen}


def _progress(spec: Section) -> dict[str, str]:
    """Annotations: where programs report their progress, and by which rules it is judged."""
    if "progress" not in spec:
        return {}
    section = spec.section("progress")
    file = section.text("file")
    stalled = section.seconds("stalledAfter")
    factor = float(section.number("lossFactor", Fraction(0), above=1)) or None
    if stalled is not None and stalled < 1:
        section.error("stalledAfter", "must be a time above 0, such as 15m")
    action = section.choice("action", progress.ACTIONS, progress.ACTIONS[0])
    rules = progress.Rules(stalled, section.flag("lossFinite"), factor, action)
    section.close()
    if replace(rules, action="") == progress.Rules(action=""):
        section.error((), "has no rule; rules: stalledAfter, lossFinite, lossFactor")
    return {PROGRESS_RULES: str(rules), **({PROGRESS_FILE: file} if file else {})}


def _restart(value: str) -> RestartPolicy:
    match value:
        case "OnFailure" | "Always":
            return value
        case _:
            return "Never"


def _ports(service: Section) -> dict[str, tuple[int, int, Protocol]]:
    ports = service.section("ports")
    made: dict[str, tuple[int, int, Protocol]] = {}
    for name in ports.names():
        each = ports.section(name)
        each.spelt((), spelling.label, name or " ")
        port = each.integer("port", 0, minimum=1, maximum=65535)
        protocol: Protocol = "UDP" if each.choice("protocol", ("TCP", "UDP"), "TCP") == "UDP" else "TCP"
        made[name] = (port, each.integer("targetPort", port, minimum=1, maximum=65535), protocol)
        each.close()
    service.close()
    return made


def _sysctls(section: Section) -> dict[str, str]:
    made: dict[str, str] = {}
    for written in section.names():
        name = section.spelt(written, spelling.sysctl, written or " ")
        if name in made:
            section.error(written, f"is {name}, which is there twice")
        made[name] = section.text(written)
    return made


def _policies(section: Section) -> list[Policy]:
    made = []
    for each in section.sections("policies"):
        for name, known in (("event", EVENTS), ("action", ACTIONS)):
            if not each.raw(name):
                each.error(name, f"is missing; one of {', '.join(known)}")
        made.append(Policy(each.choice("event", EVENTS, ""), each.choice("action", ACTIONS, "")))
        each.close()
    return made


def _topology(section: Section) -> Topology:
    hard = section.choice("mode", ("Hard", "Soft"), "Soft") == "Hard"
    tier = section.integer("maxTier", 0, minimum=1, maximum=64) if "maxTier" in section else None
    if hard and tier is None:
        section.error("maxTier", "is missing; mode: Hard needs it, such as maxTier: 1")
    section.close()
    return Topology(hard, tier)


def _training(section: Section, tasks: list[Task]) -> Training:
    framework = section.choice("framework", tuple(_FRAMEWORKS), "")
    if not framework:
        section.error("framework", f"is missing; one of {', '.join(_FRAMEWORKS)}")
    names = [task.name for task in tasks]
    coordinator = section.text("coordinatorTask", "master" if "master" in names or not names else names[0])
    if names and coordinator not in names:
        section.error("coordinatorTask", f"there is no task {coordinator!r}; tasks: {', '.join(names)}")
    nccl = section.section("nccl")
    variables = {variable: nccl.text(field) for field, variable in _NCCL.items() if field in nccl}
    if nccl.flag("gdr"):
        variables["NCCL_NET_GDR_LEVEL"] = "SYS"
    for name, text in nccl.texts("extraEnv").items():
        if not containers.VARIABLE.fullmatch(name):
            nccl.error(("extraEnv", name), "is not a name for a variable: letters, digits and _")
        variables[name] = text
    nccl.close()
    section.close()
    known: Any = _FRAMEWORKS.get(framework, "PyTorch")
    return Training(known, coordinator, variables)


def _schedule(spec: Section) -> Schedule | None:
    fields = ("concurrencyPolicy", "suspend", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    cron = spec.text("schedule")
    zone = spec.text("timeZone")
    concurrency = spec.choice("concurrencyPolicy", ("Allow", "Forbid", "Replace"), "Allow")
    deadline = spec.integer("startingDeadlineSeconds", 0) if "startingDeadlineSeconds" in spec else None
    suspend = spec.flag("suspend")
    keep = spec.integer("successfulJobsHistoryLimit", 3), spec.integer("failedJobsHistoryLimit", 1)
    if not cron:
        for field in (*fields, "startingDeadlineSeconds", "timeZone"):
            if field in spec and field != "suspend":
                spec.error(field, "is for jobs with a schedule")
        if "schedule" in spec:
            spec.error("schedule", "is empty; write five fields such as 0 2 * * *, or leave it out")
        return None
    from muster.api.schedule import InvalidSchedule, parse  # cronsim takes 28 ms to load

    for field, written in (("schedule", (cron,)), ("timeZone", ("@daily", zone))):
        try:
            parse(*written)
        except InvalidSchedule as error:
            spec.error(field, str(error).removeprefix("timeZone: "))
    policy: Any = concurrency
    return Schedule(cron, zone, policy, deadline, suspend, *keep)
