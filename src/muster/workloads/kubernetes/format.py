"""Compiles the documents of a file to a JobFile: reads each object, makes gangs, sorts the objects.

Objects pass through as written, except for what `--gang`, the caller and generated names add. Objects are
created before those that need them: namespaces and priority classes, configuration, PodGroups, then the jobs
in the order of the file.
"""

from collections.abc import Sequence
from typing import Final

from muster.api import groups, kinds
from muster.api.base import Object
from muster.api.fields import Finding, Severity
from muster.workloads.demand import MAX_PLACES, MAX_PODS, pod_sets
from muster.workloads.findings import JobFileError
from muster.workloads.formats import Format
from muster.workloads.jobfile import Item, JobFile, Options, Role
from muster.workloads.kubernetes import (
    gangs,
    rules,
    services,
    templates,
    unknown_fields,
    volcano_jobs,
)
from muster.workloads.kubernetes.objects import JOBS, Entry, read
from muster.workloads.marks import marks
from muster.workloads.source import Document

_FIRST: Final = (
    kinds.NAMESPACE,
    kinds.PRIORITY_CLASS,
    kinds.CLUSTER_NETWORK_TOPOLOGY,
    *kinds.QUEUES,
    kinds.RESOURCE_QUOTA,
    kinds.SERVICE_ACCOUNT,
    kinds.CONFIG_MAP,
    kinds.SECRET,
    kinds.SERVICE,
    kinds.DEVICE_CLASS,
    kinds.RESOURCE_CLAIM_TEMPLATE,
    kinds.RESOURCE_CLAIM,
    kinds.PDB,
    kinds.WORKLOAD,
    *groups.OF_NAMED,
)
#: A Job of Volcano is left as it is on a cluster that has its controllers.
_RUN: Final = (*JOBS, kinds.VOLCANO_JOB)
_RANK: Final = {kind: rank for rank, kind in enumerate(_FIRST)}


def claims(value: Object) -> bool:
    """Whether a document is a Kubernetes object, or seems meant as one."""
    return "kind" in value or "apiVersion" in value


def load(documents: Sequence[Document], options: Options) -> JobFile:
    """The JobFile of a file of objects. Raises `JobFileError` with everything that is wrong with the file."""
    entries, unread, findings = read(documents, options)
    slips = [finding for entry in entries for finding in unknown_fields.findings(entry)]
    entries, told_of_jobs = volcano_jobs.compiled(entries, options)
    for each in told_of_jobs:
        (findings if each.severity is Severity.ERROR else slips).append(each)
    jobs = [entry for entry in entries if entry.kind in _RUN]
    if options.jobs and not jobs and not findings:
        findings = [documents[0].finding((), "has nothing to run: no JobSet, Job or Pod")]
    unfit = [finding for job in jobs for finding in templates.prepare(job, options)]
    broken = [finding for entry in entries for finding in rules.broken(entry)]
    told = {(each.line, each.path) for each in unfit}
    wrong = [*findings, *unfit, *(each for each in broken if (each.line, each.path) not in told)]
    if wrong:  # a slip may be why a field seems to be missing, and no key is left for the next attempt
        found = [*slips, *marks([*entries, *unread]), *wrong]
        _stop_at(sorted(found, key=lambda finding: (finding.line, finding.column)))
    _stop_at([*services.findings(entries, options), *_too_many(jobs)])
    slips += [finding for job in jobs for finding in templates.ignored(job, options)]
    groups, findings = gangs.apply(entries, options)
    _stop_at(findings)
    ordered = sorted([*groups, *entries], key=lambda entry: _RANK.get(entry.kind, len(_RANK)))
    return JobFile(
        name=(jobs or entries)[0].name,
        format=FORMAT.name,
        items=tuple(
            Item(
                entry.object,
                Role.PRIMARY if entry.kind in _RUN else Role.SUPPORT,
                entry.report,
                entry.owned,
                entry.written,
            )
            for entry in ordered
        ),
        notes=tuple(slips),
        gang=gangs.summary(jobs),
    )


def _stop_at(findings: list[Finding]) -> None:
    """Raises `JobFileError` if there are findings, because each step relies on the ones before it."""
    if findings:
        raise JobFileError(findings)


def _too_many(jobs: list[Entry]) -> list[Finding]:
    sets = [pod_set for job in jobs for pod_set in pod_sets(job.object)]
    if sum(pod_set.pods for pod_set in sets) > MAX_PODS:
        return [jobs[0].report((), f"the file has more than {MAX_PODS:,} pods in all; lower its counts")]
    if sum(pod_set.count for pod_set in sets) > MAX_PLACES:
        return [jobs[0].report((), f"the file has more than {MAX_PLACES:,} pods at a time; lower its counts")]
    return []


FORMAT: Final = Format("kubernetes", claims, load)
