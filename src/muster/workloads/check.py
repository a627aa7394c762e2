"""Lints a readable job file offline: what would fail later, surprise, or not hold on other clusters.

`load` has already refused what is wrong in the file itself. Each lint here examines the compiled objects and
reports the place in the file that they were compiled from. Whether the job fits a cluster is not checked
here: the scheduler answers that, from the job's `demand`.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from functools import reduce
from operator import getitem
from typing import Any, Final

from muster import names
from muster.api import duration, foreign_marks, groups
from muster.api.base import Object
from muster.api.core_v1 import PodTemplate
from muster.api.fields import Finding, Path, Severity, convert
from muster.api.foreign_marks import Asks
from muster.api.groups import Dialect
from muster.api.marks import GPU_SHARE
from muster.api.requests import requests
from muster.api.templates import pod_templates
from muster.workloads import annotate, dns
from muster.workloads.demand import PodSet, pod_sets
from muster.workloads.jobfile import Item, JobFile, Role
from muster.workloads.kubernetes.gangs import is_gang
from muster.workloads.marks import bearers, marks

#: Actions that JobSet's own controller has behind a feature gate that is off by default.
_GATED_ACTIONS: Final = ("RestartJob", "RestartJobAndIgnoreMaxRestarts")


def check(job: JobFile) -> list[Finding]:
    """All findings about the file, in its order: the notes of `load`, and those of every lint."""
    findings = [*job.notes]
    for lint in _LINTS:
        findings += lint(job)
    return sorted(findings, key=lambda finding: (finding.line, finding.column))


def _marks(job: JobFile) -> Iterator[Finding]:
    return marks(job.items, compiled=job.format == "batch")


def _names_of_pods(job: JobFile) -> Iterator[Finding]:
    for item in _primary(job, "Pod"):
        name = item.object["metadata"]["name"]
        if len(name) > dns.LABEL and not item.object["spec"].get("hostname"):
            message = f"has {len(name)} characters; the pod's hostname is its first {dns.LABEL}"
            yield item.report(("metadata", "name"), message, Severity.WARNING)


def _gpus_without_product(job: JobFile) -> Iterator[Finding]:
    for item, path, pod_set in _templates(job):
        template = convert(pod_set.template, PodTemplate)
        if names.GPU not in dict(requests(template.spec)) and GPU_SHARE.get(template.metadata) is None:
            continue  # or the GPUs of another vendor, whose nodes have other labels
        said = str(template.spec.affinity)
        if names.GPU_PRODUCT not in template.spec.node_selector and names.GPU_PRODUCT not in said:
            yield item.report(
                (*path, "spec", "containers"),
                f"requests GPUs but names no product, so any GPU is accepted; "
                f"{_product_advice(job)} chooses one",
                Severity.WARNING,
            )


def _product_advice(job: JobFile) -> str:
    """Returns what to write in a file of this format to choose GPUs."""
    match job.format:
        case "aichor":
            return "accelerators.gpu.product"
        case "batch":
            return "a resource {type: gpu, params: {model: …}}"
        case _:
            return f"nodeSelector: {{{names.GPU_PRODUCT}: …}}"


def _restart_advice(job: JobFile, item: Item) -> str:
    """Returns what the author of an item has to write so that the gang restarts as a whole."""
    if job.format == "batch" or item.written:
        return "restartPolicy: Never and the policy {event: PodFailed, action: RestartJob}"
    return "backoffLimit: 0 and failurePolicy.maxRestarts"


def _pods_that_ask_for_nothing(job: JobFile) -> Iterator[Finding]:
    for item, path, pod_set in _templates(job):
        containers = pod_set.template.get("spec", {}).get("containers", [])
        if not any((c.get("resources") or {}).get(k) for c in containers for k in ("requests", "limits")):
            message = "requests no resources, so any number of its pods fits on a node"
            yield item.report((*path, "spec", "containers"), message, Severity.WARNING)


def _restarts_in_a_gang(job: JobFile) -> Iterator[Finding]:
    """Warnings about gangs in which a failed pod is retried alone while its peers continue without it."""
    for item in _primary(job, "JobSet"):
        if annotate.mode_of(item.object) != "gang":
            continue
        for index, replicated in enumerate(item.object["spec"].get("replicatedJobs", [])):
            limit = replicated.get("template", {}).get("spec", {}).get("backoffLimit", 6)
            if limit:
                yield item.report(
                    ("spec", "replicatedJobs", index, "template", "spec", "backoffLimit"),
                    f"a failed pod is retried alone up to {limit} times while the rest of the gang goes on; "
                    f"with {_restart_advice(job, item)} the gang restarts as a whole",
                    Severity.WARNING,
                )


def _what_upstream_cannot_keep(job: JobFile) -> Iterator[Finding]:
    """Warnings about promises that hold only under muster's JobSet controller."""
    for item in _primary(job, "JobSet"):
        at, budget = _mark(item, names.RESTART_BUDGET)
        jobs = sum(r.get("replicas", 1) for r in item.object["spec"].get("replicatedJobs", []))
        if budget not in ("", "0") and jobs > 1:
            yield item.report(
                at,
                f"muster's JobSet controller permits {budget} failures over all {jobs} Jobs together; "
                f"upstream's would permit {budget} to each Job",
                Severity.WARNING,
            )
        at, limit = _mark(item, names.DEADLINE)
        if limit:
            yield item.report(
                at,
                f"muster's JobSet controller enforces the limit of {limit} over all restarts; "
                "upstream's has no limit for a whole JobSet",
                Severity.WARNING,
            )
        at, action = _mark(item, names.ON_JOB_FAILURE)
        if action == "continue":
            yield item.report(
                at,
                "muster's JobSet controller goes on when a Job fails; upstream's ends the JobSet",
                Severity.WARNING,
            )
        policy = item.object["spec"].get("failurePolicy", {})
        for index, rule in enumerate(policy.get("rules", [])):
            if rule.get("action") in _GATED_ACTIONS:
                yield item.report(
                    ("spec", "failurePolicy", "rules", index, "action"),
                    f"{rule['action']} is on in muster; upstream has it behind the feature gate RestartJob",
                    Severity.WARNING,
                )


def members_of_groups(job: JobFile) -> Iterator[Finding]:
    """Findings about PodGroups and pods that do not match within the file; the rest may be elsewhere."""
    members: Counter[tuple[Dialect, str, str]] = Counter()
    first: dict[tuple[Dialect, str, str], tuple[Item, Path]] = {}
    for item, path, pod_set in _templates(job):
        if (group := groups.named_in(pod_set.template)) is not None:
            row = group.dialect
            key = (row, item.object["metadata"].get("namespace", ""), group.name)
            members[key] += pod_set.count
            first.setdefault(key, (item, (*path, *groups.naming(pod_set.template))))
    there = set()
    for item in job.items:
        of = groups.row_of(item.object)
        if of is None or of.asked is None:
            continue
        metadata, asked = item.object["metadata"], of.read(item.object)
        there.add(key := (of.naming, metadata.get("namespace", ""), metadata["name"]))
        if members[key] < asked.minimum:
            message = f"is {asked.minimum}, but the file has {_pods(members[key])} of this group at a time"
            yield item.report(tuple(asked.field.split(".")), message, Severity.WARNING)
    for key, (item, path) in first.items():
        row, _, name = key
        if key in there:
            continue
        if path[-1] not in row.by_description:
            yield item.report(path, f"there is no {row.kind.kind} {name} in this file", Severity.WARNING)
            continue
        meta = _at(item.object, path[:-2])
        at = _said(meta, *row.minimum)
        least = str(meta[at[1]][at[2]]) if at else ""
        if not (least.isascii() and least.isdecimal() and int(least)):
            message = (
                f"a gang without a {row.kind.kind} needs {row.minimum[-1]}: how many pods must run together"
            )
            yield item.report((*path[:-3], *at) if at else path, message, Severity.WARNING)
        elif members[key] < int(least):
            message = f"is {least}, but the file has {_pods(members[key])} of this gang at a time"
            yield item.report((*path[:-3], *at), message, Severity.WARNING)


def _pods(count: int) -> str:
    return f"{count} pod{'s' * (count != 1)}"


def _said(meta: Object, *keys: str) -> tuple[str, ...]:
    """The path of the first of these labels and annotations that is present; () if none is."""
    for key in keys:
        for where in ("labels", "annotations"):
            if meta.get(where, {}).get(key):
                return "metadata", where, key
    return ()


def _marks_of_others(job: JobFile) -> Iterator[Finding]:
    """Findings about marks of other schedulers that muster does not read: errors if a gang would be none."""
    for item in job.items if job.format == "kubernetes" else ():
        gang = item.role is Role.PRIMARY and is_gang(item.object)
        for path, obj, kind in bearers(item.object):
            for at, row in foreign_marks.in_object(obj, kind):
                harm = row.asks is Asks.GANG and item.role is Role.PRIMARY and not gang
                severity = Severity.ERROR if harm else Severity.WARNING
                yield item.report((*path, *at), row.message(), severity)


def _deadlines(job: JobFile) -> Iterator[Finding]:
    for item in _primary(job, "JobSet"):
        at, value = _mark(item, names.DEADLINE)
        if value and duration.parse(value) == 0:
            yield item.report(at, "is zero: the job would fail as soon as it runs", Severity.ERROR)


def _mark(item: Item, key: str) -> tuple[Path, str]:
    """Path and value of a label or annotation; both empty if it is absent."""
    metadata = item.object["metadata"]
    where = "labels" if key in metadata.get("labels", {}) else "annotations"
    return ("metadata", where, key), metadata.get(where, {}).get(key, "")


#: Resources that pods and queues name without a domain, and muster's own.
_RESOURCES: Final = ("cpu", "memory", "pods", "ephemeral-storage", names.GPU, names.GPU_SHARE)
#: Similarity from which a resource counts as a misspelling of another.
_ALIKE: Final = 0.8


def _resources_of_queues(job: JobFile) -> Iterator[Finding]:
    """Warnings about limits on resources that no pod requests, which limit nothing."""
    for item in job.items:
        if item.object["kind"] != "Queue":
            continue
        for field in ("guarantee", "deserved", "capability"):
            for resource in item.object.get("spec", {}).get(field) or {}:
                if resource in _RESOURCES or resource.startswith("hugepages-"):
                    continue
                if close := get_close_matches(resource, _RESOURCES, 1, _ALIKE):
                    told = f"no pod requests it; did you mean {close[0]}?"
                elif "/" in resource:
                    continue
                else:
                    told = f"no pod requests it; write {', '.join(_RESOURCES)}, or a resource with its domain"
                yield item.report(("spec", field, resource), told, Severity.WARNING)


_LINTS: Final[tuple[Callable[[JobFile], Iterator[Finding]], ...]] = (
    _names_of_pods,
    _gpus_without_product,
    _pods_that_ask_for_nothing,
    _restarts_in_a_gang,
    _what_upstream_cannot_keep,
    members_of_groups,
    _marks_of_others,
    _deadlines,
    _marks,
    _resources_of_queues,
)


def _primary(job: JobFile, kind: str) -> Iterator[Item]:
    return (item for item in job.items if item.role is Role.PRIMARY and item.object["kind"] == kind)


def _templates(job: JobFile) -> Iterator[tuple[Item, Path, PodSet]]:
    """Each pod set, the object that it belongs to, and the path of its template."""
    for item in job.items:
        if item.role is not Role.PRIMARY:
            continue
        for (path, _), pod_set in zip(pod_templates(item.object), pod_sets(item.object), strict=True):
            yield item, path, pod_set


def _at(value: Any, path: Path) -> Any:  # Any: a user's YAML
    return reduce(getitem, path, value)
