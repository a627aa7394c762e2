"""Compiles the text of a BatchJob or LatticeJob to a JobFile: read, compile, ask the gates, emit.

On the embedded cluster nothing enforces networks or programs, and its user is its administrator: policies are
asked only if some are given.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from muster.api import groups
from muster.api.base import Object
from muster.api.fields import Finding, Path, Severity
from muster.compiler import Facts
from muster.compiler.draft import shared
from muster.compiler.facts import EMBEDDED_FACTS
from muster.workloads import annotate
from muster.workloads.batch import reader
from muster.workloads.batch.compiling import Compiled, compile_job
from muster.workloads.batch.merging import Merged
from muster.workloads.batch.source_files import beside
from muster.workloads.batch.targets import TARGETS
from muster.workloads.findings import JobFileError
from muster.workloads.jobfile import Item, JobFile, Options, Role
from muster.workloads.kubernetes import services
from muster.workloads.source import Document


def load(documents: Sequence[Document], options: Options) -> JobFile:
    """The JobFile of one batch job. Raises `JobFileError` with everything that is wrong or denied."""
    compiled = compiled_of(documents, options)
    merged = Merged(documents[0])
    if options.local and options.runs and (refused := list(_translated(compiled, merged))):
        raise JobFileError(refused)
    if compiled.problems:
        warnings = (each for each in compiled.warnings if each.severity is Severity.WARNING)
        raise JobFileError(dict.fromkeys(map(merged.placed, (*compiled.problems, *warnings))))

    def report(path: Path, message: str, severity: Severity = Severity.ERROR) -> Finding:
        return merged.finding(_origin(compiled, path), message, severity)

    job = compiled.job
    for each in compiled.jobs:
        for replicated in each["spec"].get("replicatedJobs", []):
            annotate.for_caller(replicated["template"]["spec"]["template"], options.caller)
    return JobFile(
        name=job.name,
        format="batch",
        items=(
            *(Item(each, Role.SUPPORT, report) for each in _namespace(job.namespace, options)),
            *(Item(each, Role.SUPPORT, report, _owned(each)) for each in compiled.support),
            *(Item(each, _role(each), report, _role(each) is Role.SUPPORT) for each in compiled.jobs),
        ),
        notes=(*map(merged.placed, compiled.warnings), *_one_run(compiled, merged)),
        gang=True,
        kind=str(documents[0].value["kind"]),
    )


def compiled_of(documents: Sequence[Document], options: Options) -> Compiled:
    """What the one job of a file is compiled to. Raises `JobFileError` if the file itself is wrong."""
    document = documents[0]
    if len(documents) > 1:
        raise JobFileError([documents[1].finding((), "a batch job must be the only document of its file")])
    job, errors = reader.read(document, options.namespace, beside(document.file))
    if options.confined and job.namespace != options.namespace:
        message = f"is {job.namespace}, and --namespace says {options.namespace}"
        errors.append(document.finding(("metadata", "namespace"), message))
    if errors:
        raise JobFileError(sorted(errors, key=lambda each: (each.line, each.column)))
    platform = options.platform
    facts = EMBEDDED_FACTS if options.local and platform.facts is None else platform.facts or Facts()
    if platform.look_up is not None:
        images = {each.image for task in job.tasks for each in task.workload.containers}
        facts = replace(facts, images=platform.look_up(sorted(images)))
    facts = replace(facts, scheduler=options.scheduler)
    target = TARGETS[platform.target]
    stores = platform.stores() if platform.stores is not None else None
    return compile_job(job, facts, target, platform.policies, platform.submitter, stores)


def _translated(compiled: Compiled, merged: Merged) -> Iterator[Finding]:
    """Errors about ports that a Service on the embedded cluster cannot translate."""
    for task in compiled.job.tasks:
        for name, (port, target, _) in task.workload.ports.items():
            at = ("workload", "service", "ports", name, "targetPort")
            for error in services.translated({"ports": [{"port": port, "targetPort": target}]}, {}):
                yield merged.finding((*task.workload.path, *at), error.message)


def _one_run(compiled: Compiled, merged: Merged) -> list[Finding]:
    """Returns a note if the job has a schedule, and its objects are those of one run."""
    if compiled.job.schedule is None or any(each["kind"] == "CronJob" for each in compiled.jobs):
        return []
    told = "this is one run, without the schedule; `kubectl apply` of the file sets up the schedule"
    return [merged.finding(("spec", "schedule"), told, Severity.NOTE)]


def _namespace(name: str, options: Options) -> list[Object]:
    """Returns the job's namespace on the embedded cluster, where nothing else creates it."""
    if not options.local or not options.runs or name == "default":
        return []
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}]


def _owned(made: Object) -> bool:
    """Whether an object is deleted with the job: not a volume's data, nor what other jobs use as well."""
    return made["kind"] != "PersistentVolumeClaim" and not shared(made)


def _role(obj: Object) -> Role:
    return Role.SUPPORT if obj["kind"] == groups.CREATED.kind.kind else Role.PRIMARY


def _origin(compiled: Compiled, path: Path) -> Path:
    """The file's field that a field of the job object is compiled from."""
    match path:
        case ("spec", "replicatedJobs" | "tasks", int(index), *_):
            return ("spec", "tasks", compiled.job.tasks[min(index, len(compiled.job.tasks) - 1)].name)
        case ("metadata", *_):
            return path
    return ("spec",)
