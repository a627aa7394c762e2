"""Jobs: defaults and what is accepted, as the API server has it. What may change later: `job_changes`.

Source: kubernetes, the API reference of batch/v1 and KEPs 2214, 2232, 2307, 3329, 3715, 3850, 3939, 3998,
4368. One difference: where a rule has a number, the message says by how much it is missed.
"""

import re
from typing import Final

from muster.api.base import Object
from muster.api.batch_v1 import (
    CONTROLLER_UID,
    JOB_NAME,
    LEGACY_CONTROLLER_UID,
    LEGACY_JOB_NAME,
    JobSpec,
    OnExitCodes,
    OnPodCondition,
    PodFailurePolicyRule,
    SuccessPolicyRule,
)
from muster.api.core_v1 import PodTemplate
from muster.api.fields import Finding, InvalidObject, Path, convert
from muster.api.indexes import Indexes
from muster.api.rules import job_changes, podgroup
from muster.api.rules.metadata import label, labels, qualified, shown
from muster.api.rules.pod import validate_spec

BACKOFF_LIMIT: Final = 6
NO_LIMIT: Final = 2**31 - 1
MOST_PARALLEL: Final = 10**5  # pods of an Indexed Job at a time
MOST_RULES: Final = 20
MOST_EXIT_CODES: Final = 255
MOST_PATTERNS: Final = 20
#: With a back-off limit per index every index may be listed in the status, which bounds their number:
#: up to 10⁵ completions, or any number with at most 10⁴ pods at a time and 10⁴ failed indexes.
MOST_TRACKED: Final = 10**5
MOST_TRACKED_AT_ONCE: Final = 10**4
LONGEST_INDEXES: Final = 64 * 1024  # characters
_MANAGER: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[-A-Za-z0-9._~%!$&'()*+,;=:@/]+")
_MANAGER_LENGTH: Final = 63
_SPEC: Final = ("spec",)
_TEMPLATE: Final = ("spec", "template")


def default(obj: Object) -> Object:
    """Completes a Job in place, once its uid is known."""
    meta, spec = obj["metadata"], _map(obj, "spec")
    template_meta = _map(_map(spec, "template"), "metadata")
    if not meta.get("labels") and template_meta.get("labels"):
        meta["labels"] = dict(template_meta["labels"])
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("completionMode", "NonIndexed")
    per_index = spec.get("backoffLimitPerIndex") is not None
    spec.setdefault("backoffLimit", NO_LIMIT if per_index else BACKOFF_LIMIT)
    spec.setdefault("suspend", False)
    policy = spec.get("podFailurePolicy")
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed" if policy is None else "Failed")
    for rule in (policy or {}).get("rules") or []:
        for pattern in rule.get("onPodConditions") or []:
            pattern.setdefault("status", "True")
    if not spec.get("manualSelector"):
        _select_by_uid(meta, spec, template_meta)
    return obj


def _select_by_uid(meta: Object, spec: Object, template_meta: Object) -> None:
    """The labels by which a Job selects its pods: only its own pods have its uid."""
    uid, name = meta.get("uid"), meta.get("name")
    if not uid or not name:
        return
    template_labels = _map(template_meta, "labels")
    template_labels |= {JOB_NAME: name, CONTROLLER_UID: uid}
    template_labels |= {LEGACY_JOB_NAME: name, LEGACY_CONTROLLER_UID: uid}
    spec.setdefault("selector", {"matchLabels": {CONTROLLER_UID: uid}})


def _map(parent: Object, field: str) -> Object:
    """The object at `field`, created if absent. Any other value is left for validation."""
    value = parent.setdefault(field, {})
    return value if isinstance(value, dict) else {}


def validate(obj: Object, old: Object | None) -> list[Finding]:
    spec = convert(obj.get("spec") or {}, JobSpec, _SPEC)
    errors = _numbers(spec) + _indexed(obj["metadata"].get("name") or "", spec)
    errors += _per_index(spec) + _selector(obj["metadata"].get("uid") or "", spec)
    if spec.pod_replacement_policy not in ("", "TerminatingOrFailed", "Failed"):
        errors.append(
            _error(
                "podReplacementPolicy", _either(spec.pod_replacement_policy, "TerminatingOrFailed", "Failed")
            )
        )
    if spec.managed_by:
        errors += _manager(spec.managed_by)
    before = (old.get("spec") or {}) if old is not None else None
    errors += podgroup.validate_job(obj.get("spec") or {}, before, ("spec", "scheduling"))
    template, more = _template(spec)
    errors += more
    if template is not None:
        errors += _failure_policy(spec, template)
    errors += _success_policy(spec)
    if old is not None:
        errors += job_changes.validate(obj, old)
    return errors


def _numbers(spec: JobSpec) -> list[Finding]:
    fields = {
        "parallelism": spec.parallelism,
        "completions": spec.completions,
        "backoffLimit": spec.backoff_limit,
        "backoffLimitPerIndex": spec.backoff_limit_per_index,
        "maxFailedIndexes": spec.max_failed_indexes,
        "activeDeadlineSeconds": spec.active_deadline_seconds,
        "ttlSecondsAfterFinished": spec.ttl_seconds_after_finished,
    }
    errors: list[Finding] = []
    for field, value in fields.items():
        if value is not None and value < 0:
            errors.append(_error(field, f"Invalid value: {value}: must be greater than or equal to 0"))
        elif value is not None and value > NO_LIMIT:
            errors.append(_error(field, f"Invalid value: {value}: must be less than or equal to {NO_LIMIT}"))
    return errors


def _indexed(name: str, spec: JobSpec) -> list[Finding]:
    if spec.completion_mode == "NonIndexed":
        return [
            _error(field, "Forbidden: only an Indexed Job has it; write completionMode: Indexed")
            for field, value in (
                ("backoffLimitPerIndex", spec.backoff_limit_per_index),
                ("maxFailedIndexes", spec.max_failed_indexes),
                ("successPolicy", spec.success_policy),
            )
            if value is not None
        ]
    if spec.completion_mode != "Indexed":
        return [_error("completionMode", _either(spec.completion_mode, "NonIndexed", "Indexed"))]
    if spec.completions is None:
        return [_error("completions", "Required value: an Indexed Job has one index for each completion")]
    errors: list[Finding] = []
    if spec.parallelism > MOST_PARALLEL:
        errors.append(
            _error(
                "parallelism",
                f"Invalid value: {spec.parallelism}: an Indexed Job has at most {MOST_PARALLEL} at once",
            )
        )
    if name and spec.completions > 0 and label(hostname := f"{name}-{spec.completions - 1}", ()):
        errors.append(
            Finding(
                ("metadata", "name"),
                f"Invalid value: {shown(name)}: the last pod's host name would be {shown(hostname)}; a host "
                f"name has at most 63 lower case letters, digits or '-'" + _surplus(hostname),
            )
        )
    return errors


def _surplus(hostname: str) -> str:
    return f", shorten it by {len(hostname) - 63}" if len(hostname) > 63 else ""


def _per_index(spec: JobSpec) -> list[Finding]:
    limit, most_failed = spec.backoff_limit_per_index, spec.max_failed_indexes
    if limit is None:
        if most_failed is None or spec.completion_mode != "Indexed":
            return []
        return [_error("backoffLimitPerIndex", "Required value: maxFailedIndexes has no meaning without it")]
    errors: list[Finding] = []
    completions = spec.completions or 0
    if most_failed is not None and most_failed > completions:
        errors.append(_at_most("maxFailedIndexes", most_failed, completions, "the completions"))
    if completions <= MOST_TRACKED:
        return errors
    because = f"more than {MOST_TRACKED} completions with backoffLimitPerIndex"
    if most_failed is None:
        errors.append(_error("maxFailedIndexes", f"Required value: needed for {because}"))
    elif most_failed > MOST_TRACKED_AT_ONCE:
        errors.append(_at_most("maxFailedIndexes", most_failed, MOST_TRACKED_AT_ONCE, because))
    if spec.parallelism > MOST_TRACKED_AT_ONCE:
        errors.append(_at_most("parallelism", spec.parallelism, MOST_TRACKED_AT_ONCE, because))
    return errors


def _selector(uid: str, spec: JobSpec) -> list[Finding]:
    wanted = spec.selector.match_labels if spec.selector is not None else {}
    if not spec.manual_selector:
        own = {CONTROLLER_UID: uid}
        legacy = {LEGACY_CONTROLLER_UID: uid}
        if uid and spec.selector is not None and wanted not in (own, legacy):
            return [
                _error(
                    "selector",
                    "Invalid value: the selector is generated; omit it, or write manualSelector: true",
                )
            ]
        return []
    if spec.selector is None:
        return [_error("selector", "Required value: with manualSelector: true no selector is generated")]
    given = (spec.template.get("metadata") or {}).get("labels") or {}
    if any(given.get(key) != value for key, value in wanted.items()):
        return [
            Finding(
                (*_TEMPLATE, "metadata", "labels"), "Invalid value: the selector does not match these labels"
            )
        ]
    return []


def _manager(name: str) -> list[Finding]:
    if len(name) <= _MANAGER_LENGTH and _MANAGER.fullmatch(name):
        return []
    return [
        _error(
            "managedBy",
            f"Invalid value: {shown(name)}: write a domain and a path like example.com/controller, at most "
            f"{_MANAGER_LENGTH} characters",
        )
    ]


def _template(spec: JobSpec) -> tuple[PodTemplate | None, list[Finding]]:
    try:
        template = convert(spec.template, PodTemplate, _TEMPLATE)
    except InvalidObject as error:
        return None, error.errors
    errors = labels(template.metadata.labels, (*_TEMPLATE, "metadata", "labels"))
    pod: Object = spec.template.get("spec") or {}
    errors += [
        error
        for error in validate_spec(pod, (*_TEMPLATE, "spec"))
        if error.path[-1] != "restartPolicy"  # said better below
    ]
    if pod.get("restartPolicy") not in ("Never", "OnFailure"):
        given = pod.get("restartPolicy")
        what = "Required value" if given is None else f"Unsupported value: {shown(str(given))}"
        errors.append(
            Finding(
                (*_TEMPLATE, "spec", "restartPolicy"),
                f"{what}: the pods of a Job must end; write Never (a failed pod is replaced) or "
                "OnFailure (its containers are restarted)",
            )
        )
    elif pod["restartPolicy"] != "Never" and spec.backoff_limit_per_index is not None:
        errors.append(
            Finding(
                (*_TEMPLATE, "spec", "restartPolicy"),
                "Invalid value: backoffLimitPerIndex counts pods; write Never",
            )
        )
    return template, errors


def _failure_policy(spec: JobSpec, template: PodTemplate) -> list[Finding]:
    policy, path = spec.pod_failure_policy, ("spec", "podFailurePolicy")
    if policy is None:
        return []
    errors: list[Finding] = []
    if template.spec.restart_policy != "Never":
        errors.append(Finding(path, "Invalid value: only for restartPolicy Never"))
    if spec.pod_replacement_policy not in ("", "Failed"):
        errors.append(
            _error(
                "podReplacementPolicy",
                f"Invalid value: {shown(spec.pod_replacement_policy)}: with a podFailurePolicy only Failed "
                "is possible, since a pod is judged by how it ended",
            )
        )
    if len(policy.rules) > MOST_RULES:
        errors.append(Finding((*path, "rules"), f"Too many: {len(policy.rules)}, at most {MOST_RULES}"))
    containers = {c.name for c in (*template.spec.containers, *template.spec.init_containers)}
    for number, rule in enumerate(policy.rules):
        errors += _failure_rule(rule, spec, containers, (*path, "rules", number))
    return errors


def _failure_rule(
    rule: PodFailurePolicyRule, spec: JobSpec, containers: set[str], path: Path
) -> list[Finding]:
    errors: list[Finding] = []
    if rule.action not in ("FailJob", "FailIndex", "Ignore", "Count"):
        errors.append(
            Finding((*path, "action"), _either(rule.action, "FailJob", "FailIndex", "Ignore", "Count"))
        )
    if rule.action == "FailIndex" and spec.backoff_limit_per_index is None:
        errors.append(Finding((*path, "action"), "Invalid value: FailIndex needs backoffLimitPerIndex"))
    if (rule.on_exit_codes is None) == (not rule.on_pod_conditions):
        errors.append(Finding(path, "Invalid value: write either onExitCodes or onPodConditions"))
    if rule.on_exit_codes is not None:
        errors += _exit_codes(rule.on_exit_codes, containers, (*path, "onExitCodes"))
    if len(rule.on_pod_conditions) > MOST_PATTERNS:
        errors.append(
            Finding(
                (*path, "onPodConditions"),
                f"Too many: {len(rule.on_pod_conditions)}, at most {MOST_PATTERNS}",
            )
        )
    for number, pattern in enumerate(rule.on_pod_conditions):
        errors += _pattern(pattern, (*path, "onPodConditions", number))
    return errors


def _exit_codes(wanted: OnExitCodes, containers: set[str], path: Path) -> list[Finding]:
    errors: list[Finding] = []
    if wanted.operator not in ("In", "NotIn"):
        errors.append(Finding((*path, "operator"), _either(wanted.operator, "In", "NotIn")))
    if wanted.container_name is not None and wanted.container_name not in containers:
        known = ", ".join(sorted(containers))
        errors.append(
            Finding(
                (*path, "containerName"),
                f"Invalid value: {shown(wanted.container_name)}: the template's containers are {known}",
            )
        )
    values = wanted.values
    at = (*path, "values")
    if not values:
        errors.append(Finding(at, "Invalid value: at least one exit code is needed"))
    elif len(values) > MOST_EXIT_CODES:
        errors.append(Finding(at, f"Too many: {len(values)}, at most {MOST_EXIT_CODES}"))
    if sorted(set(values)) != values:
        errors.append(Finding(at, "Invalid value: write each exit code once, in ascending order"))
    if wanted.operator == "In" and 0 in values:
        errors.append(Finding(at, "Invalid value: 0 is success and never fails a pod"))
    return errors


def _pattern(pattern: OnPodCondition, path: Path) -> list[Finding]:
    errors = qualified(pattern.type, (*path, "type"))
    if pattern.status not in ("True", "False", "Unknown"):
        errors.append(Finding((*path, "status"), _either(pattern.status, "True", "False", "Unknown")))
    return errors


def _success_policy(spec: JobSpec) -> list[Finding]:
    policy, path = spec.success_policy, ("spec", "successPolicy", "rules")
    if policy is None or spec.completion_mode != "Indexed" or spec.completions is None:
        return []
    if not policy.rules:
        return [Finding(path, "Required value: at least one rule")]
    errors: list[Finding] = []
    if len(policy.rules) > MOST_RULES:
        errors.append(Finding(path, f"Too many: {len(policy.rules)}, at most {MOST_RULES}"))
    for number, rule in enumerate(policy.rules):
        errors += _success_rule(rule, spec.completions, (*path, number))
    return errors


def _success_rule(rule: SuccessPolicyRule, completions: int, path: Path) -> list[Finding]:
    if rule.succeeded_indexes is None and rule.succeeded_count is None:
        return [Finding(path, "Required value: write succeededIndexes, succeededCount or both")]
    errors: list[Finding] = []
    most, whose = completions, "the completions"
    if rule.succeeded_indexes is not None:
        at = (*path, "succeededIndexes")
        if len(rule.succeeded_indexes) > LONGEST_INDEXES:
            return [
                Finding(at, f"Too long: {len(rule.succeeded_indexes)}, at most {LONGEST_INDEXES} characters")
            ]
        try:
            named = Indexes.parse(rule.succeeded_indexes)
        except ValueError as error:
            return [Finding(at, f"Invalid value: {shown(rule.succeeded_indexes)}: {error}")]
        if not named.intervals:
            return [Finding(at, "Invalid value: at least one index is needed")]
        if named.intervals[-1][1] >= completions:
            errors.append(
                Finding(
                    at,
                    f"Invalid value: index {named.intervals[-1][1]} is beyond the last, {completions - 1}",
                )
            )
        most, whose = len(named), "the number of succeededIndexes"
    count = rule.succeeded_count
    if count is not None and not 1 <= count <= most:
        errors.append(
            Finding((*path, "succeededCount"), f"Invalid value: {count}: must be from 1 to {most} ({whose})")
        )
    return errors


def _error(field: str, message: str) -> Finding:
    return Finding((*_SPEC, field), message)


def _at_most(field: str, value: int, most: int, because: str) -> Finding:
    return _error(field, f"Invalid value: {value}: must be at most {most}, because of {because}")


def _either(value: str, *supported: str) -> str:
    return f"Unsupported value: {shown(value)}: write {' or '.join(supported)}"
