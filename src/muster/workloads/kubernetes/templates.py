"""Prepares the pods of a file for their cluster: checks containers, mounts volumes, records the caller."""

from collections.abc import Iterator
from typing import Final

from muster.api.base import Object
from muster.api.fields import Finding, Path, Severity
from muster.api.templates import pod_templates
from muster.workloads import annotate, pod_fields
from muster.workloads.jobfile import Options
from muster.workloads.kubernetes.objects import Entry

#: Volumes that the embedded cluster supports, and what it can project into one.
OFFERED: Final = ("configMap", "secret", "emptyDir", "hostPath", "downwardAPI", "projected")
PROJECTED: Final = frozenset({"configMap", "secret", "downwardAPI"})


def prepare(job: Entry, options: Options) -> list[Finding]:
    """Completes the pods of one JobSet, Job or pod; returns what keeps them from running."""
    findings: list[Finding] = []
    job.object.setdefault("spec", {})  # that of a JobSet may be missing
    for path, template in pod_templates(job.object, job.kind):
        annotate.for_caller(template, options.caller)
        findings += _containers(job, path, template, options)
        findings += _volumes(job, path, template, options)
    return findings


def ignored(job: Entry, options: Options) -> Iterator[Finding]:
    """Warnings about fields of the pods that the embedded cluster ignores."""
    for path, template in pod_templates(job.object, job.kind) if options.local else ():
        for field, instead in pod_fields.ignored(template.get("spec") or {}):
            message = f"is ignored on the embedded cluster: {instead}"
            yield job.report((*path, "spec", *field), message, Severity.WARNING)


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


def _volumes(job: Entry, path: Path, template: Object, options: Options) -> Iterator[Finding]:
    """Mounts a directory of `--volume` for each volume that the embedded cluster does not support."""
    if not (options.local and options.runs):
        return
    for index, volume in enumerate(template.get("spec", {}).get("volumes", [])):
        at: Path = (*path, "spec", "volumes", index)
        claim = volume.get("persistentVolumeClaim")
        kind = next((key for key in volume if key not in ("name", *OFFERED)), "")
        if kind:
            name = str(claim.get("claimName", "") if isinstance(claim, dict) else volume.get("name", ""))
            if name in options.volumes:
                del volume[kind]
                volume["hostPath"] = {"path": options.volumes[name], "type": "Directory"}
            else:
                told = "has no PVCs" if claim is not None else f"offers {', '.join(OFFERED)} only"
                yield job.report(
                    (*at, kind),
                    f"the embedded cluster {told}; name a directory to use instead: --volume {name}=DIR",
                )
        projected = volume.get("projected")
        sources = projected.get("sources") if isinstance(projected, dict) else None
        for number, source in enumerate(sources if isinstance(sources, list) else ()):
            if isinstance(source, dict) and (others := source.keys() - PROJECTED):
                yield job.report(
                    (*at, "projected", "sources", number, min(others)),
                    f"the embedded cluster projects {', '.join(sorted(PROJECTED))} only; remove it",
                )
