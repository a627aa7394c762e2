"""JobSets: defaults, what is accepted, and what is refused because muster does not do it.

The rules are those of JobSet's own webhook and schema, all errors at once. In-place restart, elastic Jobs,
volumeClaimPolicies and exclusive placement are refused rather than ignored: a job that silently ran
without them would be wrong. What of a JobSet may change later is in `jobset_changes`.
Refused besides, and accepted upstream: a negative maxRestarts, and a replicatedJob that depends on itself.

Source: kubernetes-sigs/jobset, pkg/webhooks/jobset_webhook.go and api/jobset/v1alpha2/jobset_types.go.
"""

import copy
import re
from collections.abc import Iterable
from typing import Final

from muster.api.base import Object, is_subdomain
from muster.api.batch_v1 import JobSpec, JobTemplate
from muster.api.core_v1 import PodTemplate
from muster.api.fields import Finding, InvalidObject, Path, convert
from muster.api.jobset_v1alpha2 import (
    COORDINATOR,
    EXCLUSIVE_TOPOLOGY,
    FailurePolicyRule,
    JobSet,
    JobSetSpec,
    ReplicatedJob,
)
from muster.api.marks import DEADLINE, RESTART_BUDGET
from muster.api.rules import job, jobset_changes
from muster.api.rules.metadata import DNS_1035, shown

REASONS: Final = (
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
)
ACTIONS: Final = (
    "FailJobSet",
    "RestartJobSet",
    "RestartJobSetAndIgnoreMaxRestarts",
    "RestartJob",
    "RestartJobAndIgnoreMaxRestarts",
)
RESTARTS_ONE: Final = ACTIONS[3:]
#: With RestartJob the status has a counter per Job, so their number is bounded.
MOST_COUNTED_REPLICAS: Final = 1024
_MOST_PODS: Final = 2**31 - 1
_MOST_DEPENDENCIES: Final = 5
_LABEL: Final = 63
_RULE_NAME: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_RULE_NAME_LENGTH: Final = 128
_RANDOM: Final = "-abcde"  # what is appended to the names of a Job's pods
_GENERATED: Final = "abcde"  # what the server appends to a generateName


def default(obj: Object) -> Object:
    """Completes a JobSet in place."""
    spec = _map(obj, "spec")
    _map(spec, "successPolicy").setdefault("operator", "All")
    _map(spec, "startupPolicy").setdefault("startupPolicyOrder", "AnyOrder")
    network = _map(spec, "network")
    network.setdefault("enableDNSHostnames", True)
    network.setdefault("publishNotReadyAddresses", True)
    name = (obj.get("metadata") or {}).get("name")
    if name:  # a generated name is not known yet; the controller falls back to it
        network.setdefault("subdomain", name)
    for replicated in spec.get("replicatedJobs") or []:
        replicated.setdefault("replicas", 1)
        replicated.setdefault("groupName", "default")
        template = _map(_map(replicated, "template"), "spec")
        template.setdefault("completionMode", "Indexed")
        _map(_map(template, "template"), "spec").setdefault("restartPolicy", "OnFailure")
    failure = spec.get("failurePolicy")
    if failure is not None:
        failure.setdefault("restartStrategy", "Recreate")
        for position, rule in enumerate(failure.get("rules") or []):
            if not rule.get("name"):
                rule["name"] = f"failurePolicyRule{position}"
    return obj


def validate(obj: Object, old: Object | None) -> list[Finding]:
    """Every invalid field. `obj` has its defaults."""
    jobset = convert(obj, JobSet)
    spec = jobset.spec
    jobs, errors = _job_specs(spec)
    meta = obj.get("metadata") or {}
    name = meta.get("name") or f"{meta.get('generateName', '')}{_GENERATED}"
    errors += unsupported(jobset)
    errors += _annotations(jobset)
    errors += _replicated_jobs(spec, jobs, name)
    errors += _network(spec)
    errors += _policies(spec)
    errors += _coordinator(spec, jobs, name)
    if not _managed_by(spec.managed_by):
        errors.append(
            _invalid(
                ("spec", "managedBy"), spec.managed_by, "write a domain and a path, at most 63 characters"
            )
        )
    if spec.ttl_seconds_after_finished is not None and spec.ttl_seconds_after_finished < 0:
        errors.append(
            _invalid(
                ("spec", "ttlSecondsAfterFinished"), spec.ttl_seconds_after_finished, "must not be negative"
            )
        )
    if old is not None:
        errors += jobset_changes.validate(obj, old)
    return errors


def unsupported(jobset: JobSet) -> list[Finding]:
    """Features of JobSet that muster lacks. The controller checks, too, for servers without these rules."""
    errors = []
    policy = jobset.spec.failure_policy
    if policy is not None and policy.restart_strategy == "InPlaceRestart":
        message = 'Unsupported value: "InPlaceRestart": muster restarts by "Recreate" or "BlockingRecreate"'
        errors.append(Finding(("spec", "failurePolicy", "restartStrategy"), message))
    if jobset.spec.volume_claim_policies:
        message = "Forbidden: muster makes no volume claims; name existing ones in the pods' volumes"
        errors.append(Finding(("spec", "volumeClaimPolicies"), message))
    message = (
        "Forbidden: muster has no exclusive placement by child job; muster.dev/exclusive: LAYER gives the "
        "whole JobSet domains of its own"
    )
    if EXCLUSIVE_TOPOLOGY in jobset.metadata.annotations:
        errors.append(Finding(("metadata", "annotations", EXCLUSIVE_TOPOLOGY), message))
    for position, replicated in enumerate(jobset.spec.replicated_jobs):
        at: Path = ("spec", "replicatedJobs", position, "template", "metadata", "annotations")
        metadata = replicated.template.get("metadata")
        annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
        if isinstance(annotations, dict) and EXCLUSIVE_TOPOLOGY in annotations:
            errors.append(Finding((*at, EXCLUSIVE_TOPOLOGY), message))
    return errors


def _job_specs(spec: JobSetSpec) -> tuple[list[JobSpec], list[Finding]]:
    """The templates as Jobs; an unreadable one is an error and stands in as an empty one."""
    jobs, errors = [], []
    for position, replicated in enumerate(spec.replicated_jobs):
        at: Path = ("spec", "replicatedJobs", position, "template")
        try:
            template = convert(replicated.template, JobTemplate, at)
            jobs.append(convert(template.spec, JobSpec, (*at, "spec")))
            convert(jobs[-1].template, PodTemplate, (*at, "spec", "template"))
        except InvalidObject as error:
            jobs = [*jobs[:position], JobSpec()]
            errors += error.errors
        else:
            errors += _job(template, at)
    return jobs, errors


def _job(template: JobTemplate, at: Path) -> list[Finding]:
    """The errors for which the Jobs would be refused later, when no user would see the refusal."""
    like = job.default({"metadata": {}, "spec": copy.deepcopy(template.spec)})
    return [
        Finding((*at, *error.path), error.message)
        for error in job.validate(like, None)
        if error.path[:1] == ("spec",)
    ]


def _annotations(jobset: JobSet) -> list[Finding]:
    errors = []
    for mark in (DEADLINE, RESTART_BUDGET):
        text = mark.text(jobset.metadata)
        if text is not None and (advice := mark.advice(text)):
            said = f"{shown(text)}: {advice}" if mark.instead else advice
            errors.append(Finding(_at(jobset, mark.key), f"Invalid value: {said}"))
    return errors


def _at(jobset: JobSet, key: str) -> Path:
    return "metadata", "labels" if key in jobset.metadata.labels else "annotations", key


def _replicated_jobs(spec: JobSetSpec, jobs: list[JobSpec], name: str) -> list[Finding]:
    errors = []
    before: set[str] = set()
    for position, (replicated, one) in enumerate(zip(spec.replicated_jobs, jobs, strict=True)):
        at: Path = ("spec", "replicatedJobs", position)
        if replicated.name in before:
            errors.append(Finding((*at, "name"), f"Duplicate value: {shown(replicated.name)}"))
        if replicated.replicas < 0:
            errors.append(_invalid((*at, "replicas"), replicated.replicas, "must not be negative"))
        elif replicated.replicas * one.parallelism > _MOST_PODS:
            message = f"times parallelism {one.parallelism} must not be more than {_MOST_PODS}"
            errors.append(_invalid((*at, "replicas"), replicated.replicas, message))
        errors += _label(replicated.group_name, (*at, "groupName"), replicated.group_name)
        errors += _lengths(replicated, one, name, at)
        errors += _dependencies(replicated, before, at)
        if spec.in_order and replicated.depends_on:
            message = "Forbidden: startupPolicyOrder InOrder and dependsOn exclude each other"
            errors.append(Finding((*at, "dependsOn"), message))
        before.add(replicated.name)
    return errors


def _lengths(replicated: ReplicatedJob, spec: JobSpec, name: str, at: Path) -> list[Finding]:
    """The longest names that result: of Jobs and, because they are host names, of pods."""
    last = f"{name}-{replicated.name}-{max(0, replicated.replicas - 1)}"
    errors = _label(last, (*at, "name"), replicated.name, f"its Jobs would be called {shown(last)}")
    if not errors and spec.completion_mode == "Indexed" and spec.completions is not None:
        pod = f"{last}-{max(0, spec.completions - 1)}{_RANDOM}"
        errors = _label(pod, (*at, "name"), replicated.name, f"its pods would be called {shown(pod)}")
    return errors


def _dependencies(replicated: ReplicatedJob, before: set[str], at: Path) -> list[Finding]:
    if replicated.depends_on and not before:
        message = "Forbidden: the first replicatedJob depends on no other; list it after those it depends on"
        return [Finding((*at, "dependsOn"), message)]
    errors = []
    if len(replicated.depends_on) > _MOST_DEPENDENCIES:
        message = f"Too many: {len(replicated.depends_on)}: must have at most {_MOST_DEPENDENCIES} items"
        errors.append(Finding((*at, "dependsOn"), message))
    for position, dependency in enumerate(replicated.depends_on):
        here: Path = (*at, "dependsOn", position)
        if dependency.name not in before:
            message = f"write a replicatedJob that is listed before this one: {', '.join(sorted(before))}"
            errors.append(_invalid((*here, "name"), dependency.name, message))
        errors += _one_of(dependency.status, ("Ready", "Complete"), (*here, "status"))
    return errors


def _network(spec: JobSetSpec) -> list[Finding]:
    subdomain = spec.network.subdomain
    if not subdomain or (
        len(subdomain) <= _LABEL and is_subdomain(subdomain) and DNS_1035.fullmatch(subdomain)
    ):
        return []
    return _label(subdomain, ("spec", "network", "subdomain"), subdomain)


def _policies(spec: JobSetSpec) -> list[Finding]:
    known = {replicated.name for replicated in spec.replicated_jobs}
    success, startup, failure = spec.success_policy, spec.startup_policy, spec.failure_policy
    at: Path = ("spec", "successPolicy")
    errors = _one_of(success.operator, ("All", "Any"), (*at, "operator"))
    errors += _targets(success.target_replicated_jobs, known, at)
    orders = ("AnyOrder", "InOrder")
    errors += _one_of(startup.startup_policy_order, orders, ("spec", "startupPolicy", "startupPolicyOrder"))
    if failure is None:
        return errors
    at = ("spec", "failurePolicy")
    strategies = ("Recreate", "BlockingRecreate", "InPlaceRestart")
    errors += _one_of(failure.restart_strategy, strategies, (*at, "restartStrategy"))
    if failure.max_restarts < 0:
        errors.append(_invalid((*at, "maxRestarts"), failure.max_restarts, "must not be negative"))
    names_before: set[str] = set()
    for position, rule in enumerate(failure.rules):
        errors += _rule(rule, spec, names_before, known, (*at, "rules", position))
        names_before.add(rule.name)
    return errors


def _rule(
    rule: FailurePolicyRule, spec: JobSetSpec, before: set[str], known: set[str], at: Path
) -> list[Finding]:
    errors = []
    if len(rule.name) > _RULE_NAME_LENGTH or not _RULE_NAME.fullmatch(rule.name):
        form = (
            f"write 1 to {_RULE_NAME_LENGTH} letters, digits, '_', ',' or ':', beginning with a letter and "
            "ending with a letter, digit or '_'"
        )
        errors.append(_invalid((*at, "name"), rule.name, form))
    if rule.name in before:
        errors.append(Finding((*at, "name"), f"Duplicate value: {shown(rule.name)}"))
    errors += _one_of(rule.action, ACTIONS, (*at, "action"))
    for position, reason in enumerate(rule.on_job_failure_reasons):
        errors += _one_of(reason, REASONS, (*at, "onJobFailureReasons", position))
    errors += _targets(rule.target_replicated_jobs, known, at)
    if rule.action in RESTARTS_ONE:
        errors += [
            Finding(
                (*at, "action"),
                f"Invalid value: {shown(rule.action)}: needs at most {MOST_COUNTED_REPLICAS} replicas, "
                f"{replicated.name} has {replicated.replicas}",
            )
            for replicated in spec.replicated_jobs
            if replicated.replicas > MOST_COUNTED_REPLICAS
        ]
    return errors


def _targets(targets: list[str], known: set[str], at: Path) -> list[Finding]:
    return [
        _invalid((*at, "targetReplicatedJobs", position), target, _no_such(known))
        for position, target in enumerate(targets)
        if target not in known
    ]


def _no_such(known: set[str]) -> str:
    return f"there is no replicatedJob of this name; write one of {', '.join(sorted(known))}"


def _coordinator(spec: JobSetSpec, jobs: list[JobSpec], name: str) -> list[Finding]:
    coordinator = spec.coordinator
    if coordinator is None:
        return []
    at: Path = ("spec", "coordinator")
    found = next(
        (
            (replicated, one)
            for replicated, one in zip(spec.replicated_jobs, jobs, strict=True)
            if replicated.name == coordinator.replicated_job
        ),
        None,
    )
    if found is None:
        message = _no_such({replicated.name for replicated in spec.replicated_jobs})
        return [_invalid((*at, "replicatedJob"), coordinator.replicated_job, message)]
    replicated, one = found
    errors = []
    if not 0 <= coordinator.job_index < replicated.replicas:
        message = f"{replicated.name} has {replicated.replicas} Jobs, which are counted from 0"
        errors.append(_invalid((*at, "jobIndex"), coordinator.job_index, message))
    if one.completion_mode != "Indexed" or one.completions is None:
        message = f"the Jobs of {replicated.name} need completionMode: Indexed and completions"
        errors.append(_invalid((*at, "replicatedJob"), coordinator.replicated_job, message))
    elif not 0 <= coordinator.pod_index < one.completions:
        message = f"the Jobs of {replicated.name} have {one.completions} indexes, which are counted from 0"
        errors.append(_invalid((*at, "podIndex"), coordinator.pod_index, message))
    host = f"{name}-{replicated.name}-{coordinator.job_index}-{coordinator.pod_index}"
    endpoint = f"{host}.{spec.network.subdomain or name}"
    if len(endpoint) > _LABEL:
        message = (
            f"Too long: its endpoint {shown(endpoint)} becomes the label {COORDINATOR} and has "
            f"{len(endpoint)} characters, {len(endpoint) - _LABEL} more than {_LABEL}"
        )
        errors.append(Finding(at, message))
    return errors


def _managed_by(value: str) -> bool:
    if not value:
        return True
    domain, slash, path = value.partition("/")
    return bool(len(value) <= 63 and slash and path and is_subdomain(domain))


def _label(name: str, path: Path, value: str, what: str = "") -> list[Finding]:
    """`name` as a DNS-1035 label; the error quotes the field's `value` and says what the name is."""
    start = f"{what}, and " if what else ""
    if len(name) > _LABEL:
        excess = len(name) - _LABEL
        message = f"{start}a DNS label has at most {_LABEL} characters: {excess} too many"
        return [_invalid(path, value, message)]
    if not DNS_1035.fullmatch(name):
        message = (
            f"{start}a DNS-1035 label consists of lower case letters, digits or '-', starts with a letter "
            "and ends with a letter or digit"
        )
        return [_invalid(path, value, message)]
    return []


def _one_of(value: str, known: Iterable[str], path: Path) -> list[Finding]:
    known = tuple(known)
    if value in known:
        return []
    listed = ", ".join(f'"{one}"' for one in known)
    return [Finding(path, f"Unsupported value: {shown(value)}: supported values: {listed}")]


def _invalid(path: Path, value: str | int, message: str) -> Finding:
    quoted = shown(value) if isinstance(value, str) else str(value)
    return Finding(path, f"Invalid value: {quoted}: {message}")


def _map(parent: Object, field: str) -> Object:
    """The object in this field, created if absent or null. Any other value is left for `validate`."""
    if parent.get(field) is None:
        parent[field] = {}
    value = parent[field]
    return value if isinstance(value, dict) else {}
