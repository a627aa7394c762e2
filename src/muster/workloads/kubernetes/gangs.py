"""Decides which objects of a file are gangs: by PodGroup, by `muster.dev/gang`, or by --gang.

The command line takes precedence over the object's own label, and that label over the namespace's. A pod of a
PodGroup is in a gang already, whatever object it belongs to. Pods without an owner have nothing that could be
suspended; --gang puts those of one namespace into a PodGroup of their own, with all of them as its minimum.
"""

from collections import defaultdict
from typing import Final

from muster.api import kinds
from muster.api.base import Object
from muster.api.membership import pod_groups
from muster.api.scheduling import POD_GROUP_LABEL
from muster.workloads import annotate
from muster.workloads.findings import Finding
from muster.workloads.jobfile import Mode, Options
from muster.workloads.kubernetes.objects import Entry
from muster.workloads.kubernetes.templates import pods

_GROUP: Final = kinds.POD_GROUP_X
_LABEL: Final = POD_GROUP_LABEL[_GROUP.group]


def apply(entries: list[Entry], options: Options) -> tuple[list[Entry], list[Finding]]:
    """Labels the jobs among `entries`; returns PodGroups to create for bare pods, and errors."""
    errors: list[Finding] = []
    loose: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.kind is kinds.POD:
            if options.mode == "independent" and group_of(entry.object):
                errors.append(_in_group(entry, ()))
            elif options.mode == "gang" and not group_of(entry.object):
                loose[entry.namespace].append(entry)
        elif entry.kind in (kinds.JOB, kinds.JOBSET):
            errors += _mark(entry, options.mode)
    several = [members for _, members in sorted(loose.items()) if len(members) > 1]
    return [_grouped(members, options) for members in several], errors


def group_of(template: Object) -> str | None:
    """The PodGroup that the pods of a template name, or imply."""
    meta = template.get("metadata", {})
    return next((name for _, name in pod_groups(meta.get("labels", {}), meta.get("annotations", {}))), None)


def summary(jobs: list[Entry]) -> bool | None:
    """Whether all jobs are gangs (True), none (False), or some (None)."""
    answers = {_is_gang(job) for job in jobs}
    return answers.pop() if len(answers) == 1 else None


def _mark(job: Entry, mode: Mode | None) -> list[Finding]:
    grouped = [path for path, template in pods(job) if group_of(template)]
    if grouped:
        return [_in_group(job, grouped[0])] if mode == "independent" else []
    wanted = mode or annotate.mode_of(job.object)
    if wanted == "gang":
        gated = any(template.get("spec", {}).get("schedulingGates") for _, template in pods(job))
        annotate.as_gang(job.object, gated=gated)
        for _, template in pods(job):
            annotate.for_scheduler(template)
    elif mode == "independent":
        annotate.as_independent(job.object)
    return []


def _in_group(entry: Entry, path: tuple[str | int, ...]) -> Finding:
    return entry.report(
        (*path, "metadata", "labels"),
        "names a PodGroup, so these pods are a gang; remove the label, or --independent",
    )


def _grouped(members: list[Entry], options: Options) -> Entry:
    """Puts pods into a PodGroup created for them, and returns that group."""
    first = members[0]
    name = f"{first.name[:50].rstrip('-.')}-{options.suffix}"
    for member in members:
        member.object["metadata"].setdefault("labels", {})[_LABEL] = name
        annotate.for_scheduler(member.object)
    group: Object = {
        "apiVersion": _GROUP.api_version,
        "kind": _GROUP.kind,
        "metadata": {"name": name, "namespace": first.namespace},
        "spec": {"minMember": len(members)},
    }
    return Entry(_GROUP, group, first.document, first.at)


def _is_gang(job: Entry) -> bool:
    if job.kind is kinds.POD:
        return group_of(job.object) is not None
    return annotate.mode_of(job.object) == "gang" or all(group_of(t) is not None for _, t in pods(job))
