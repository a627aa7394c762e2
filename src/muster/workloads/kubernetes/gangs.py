"""Decides which objects of a file are gangs: by PodGroup, by `muster.dev/gang`, or by --gang.

The command line takes precedence over the object's own label, and that label over the namespace's. A pod of a
PodGroup is in a gang already, whatever object it belongs to. Pods without an owner have nothing that could be
suspended; --gang puts those of one namespace into a PodGroup of their own, with all of them as its minimum.
"""

from collections import defaultdict

from muster.api import groups, kinds
from muster.api.base import Object, at
from muster.api.fields import Finding
from muster.api.templates import pod_templates
from muster.workloads import annotate
from muster.workloads.jobfile import Options
from muster.workloads.kubernetes.objects import Entry


def apply(entries: list[Entry], options: Options) -> tuple[list[Entry], list[Finding]]:
    """Labels the jobs among `entries`; returns PodGroups to create for bare pods, and errors."""
    errors: list[Finding] = []
    loose: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.kind is kinds.POD:
            if options.mode == "independent" and groups.named_in(entry.object):
                errors.append(_in_group(entry, (), entry.object))
            elif options.mode == "gang" and groups.named_in(entry.object) is None:
                loose[entry.namespace].append(entry)
        elif entry.kind in (kinds.JOB, kinds.JOBSET):
            errors += _mark(entry, options)
    several = [members for _, members in sorted(loose.items()) if len(members) > 1]
    return [_grouped(members, options) for members in several], errors


def summary(jobs: list[Entry]) -> bool | None:
    """Whether all jobs are gangs (True), none (False), or some (None)."""
    answers = {is_gang(job.object) for job in jobs}
    return answers.pop() if len(answers) == 1 else None


def _mark(job: Entry, options: Options) -> list[Finding]:
    mode, every = options.mode, pod_templates(job.object, job.kind)
    grouped = [(path, template) for path, template in every if groups.named_in(template)]
    if grouped:
        return [_in_group(job, *grouped[0])] if mode == "independent" else []
    if _scheduled(job.object):
        if mode != "independent":
            return []
        return [job.report(("spec", "scheduling"), "makes the job a gang; remove it, or --independent")]
    wanted = mode or annotate.mode_of(job.object)
    if wanted == "gang":
        pods = [template for _, template in pod_templates(job.object, job.kind)]
        gated = any(template.get("spec", {}).get("schedulingGates") for template in pods)
        annotate.as_gang(job.object, gated=gated)
        for template in pods:
            annotate.for_scheduler(template, options.scheduler)
    elif mode == "independent":
        annotate.as_independent(job.object)
    return []


def _in_group(entry: Entry, path: tuple[str | int, ...], template: Object) -> Finding:
    return entry.report(
        (*path, *groups.naming(template)),
        "names a PodGroup, so these pods are a gang; remove it, or --independent",
    )


def _grouped(members: list[Entry], options: Options) -> Entry:
    """Puts pods into a PodGroup created for them, and returns that group."""
    first = members[0]
    name = f"{first.name[:50].rstrip('-.')}-{options.suffix}"
    for member in members:
        member.object["metadata"].setdefault("labels", {})[groups.CREATED.label] = name
        annotate.for_scheduler(member.object, options.scheduler)
    group = groups.created(name, first.namespace, len(members))
    return Entry(groups.CREATED.kind, group, first.document, first.at)


def is_gang(job: Object) -> bool:
    """Whether the pods of a Job or JobSet, or a pod, are in a gang that muster reads."""
    if job["apiVersion"] == kinds.VOLCANO_JOB.api_version:  # its controller makes a PodGroup
        return True
    named = all(groups.named_in(template) for _, template in pod_templates(job))
    return named or _scheduled(job) or (job["kind"] != kinds.POD.kind and annotate.mode_of(job) == "gang")


def _scheduled(job: Object) -> bool:
    """Whether the Job controller makes a gang of Kubernetes' own of a Job's pods (KEP-5547)."""
    return job["kind"] == kinds.JOB.kind and "gang" in at(job, "spec", "scheduling", "schedulingPolicy")
