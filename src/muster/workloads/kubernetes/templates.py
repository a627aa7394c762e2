"""Pods of a file made fit for where they run: containers checked, claims mounted, the caller noted."""

from collections.abc import Iterator

from muster.api import kinds
from muster.api.base import Object
from muster.api.fields import Path
from muster.workloads import markers
from muster.workloads.findings import Finding
from muster.workloads.jobfile import Options
from muster.workloads.kubernetes.objects import Entry


def prepare(job: Entry, options: Options) -> list[Finding]:
    """Complete the pods of one JobSet, Job or pod, or say what keeps them from running."""
    findings: list[Finding] = []
    for path, template in pods(job):
        markers.for_caller(template, options.caller)
        findings += _containers(job, path, template, options)
        findings += _claims(job, path, template, options)
    return findings


def pods(job: Entry) -> Iterator[tuple[Path, Object]]:
    """Each pod template of a job, and its path; of a pod, the pod itself."""
    if job.kind is kinds.POD:
        yield (), job.object
    elif job.kind is kinds.JOB:
        yield ("spec", "template"), job.object.get("spec", {}).get("template", {})
    else:
        for index, replicated in enumerate(job.object.get("spec", {}).get("replicatedJobs", [])):
            at: Path = ("spec", "replicatedJobs", index, "template", "spec", "template")
            yield at, replicated.get("template", {}).get("spec", {}).get("template", {})


def _containers(job: Entry, path: Path, template: Object, options: Options) -> Iterator[Finding]:
    containers = template.get("spec", {}).get("containers", [])
    if not containers:
        yield job.report((*path, "spec", "containers"), "is missing or empty; name at least one container")
    for index, container in enumerate(containers):
        at: Path = (*path, "spec", "containers", index)
        if not options.runs:
            continue
        if not container.get("image") and not options.local:
            yield job.report((*at, "image"), "is missing; a cluster runs containers, so name an image")
        if options.local and not container.get("command"):
            yield job.report(
                (*at, "command"),
                "is missing; images are not pulled here, so their own command is not known: write it out, "
                'such as command: ["python3", "main.py"]',
            )


def _claims(job: Entry, path: Path, template: Object, options: Options) -> Iterator[Finding]:
    """On the embedded cluster a directory of `--volume` stands for a PVC."""
    if not (options.local and options.runs):
        return
    for index, volume in enumerate(template.get("spec", {}).get("volumes", [])):
        claim = volume.get("persistentVolumeClaim")
        if claim is None:
            continue
        name = str(claim.get("claimName", "")) if isinstance(claim, dict) else ""
        if name in options.volumes:
            del volume["persistentVolumeClaim"]
            volume["hostPath"] = {"path": options.volumes[name], "type": "Directory"}
        else:
            yield job.report(
                (*path, "spec", "volumes", index, "persistentVolumeClaim"),
                f"the embedded cluster has no PVCs; say which directory stands for it: --volume {name}=DIR",
            )
