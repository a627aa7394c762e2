"""Decides what the failure of one pod means for its Job.

The rules of `podFailurePolicy` are tried in order and the first that matches decides; without a match the
failure counts. Exit codes are compared for every container that did not exit with 0, init containers
included. One rule precedes all of them, and needs no policy:

    A pod that muster ended by its own decision (condition `muster.dev/Preempted`) is never a failure of a
    Job that has any `muster.dev/` label or annotation, on itself or on its pod template. It is not
    counted, delays nothing, and its replacement starts as if the pod had never existed.

An evicted pod without that condition (`DisruptionTarget` alone) is a failure like any other, unless the
policy says otherwise. Source: KEP-3329.
"""

from dataclasses import dataclass
from enum import Enum

from muster.api.base import Object, is_true
from muster.api.batch_v1 import Job, OnExitCodes, OnPodCondition, PodFailurePolicyRule
from muster.api.core_v1 import Pod
from muster.names import DOMAIN, PREEMPTED


class Action(Enum):
    COUNT = "Count"
    IGNORE = "Ignore"
    FAIL_INDEX = "FailIndex"
    FAIL_JOB = "FailJob"
    #: muster's own: muster ended the pod itself
    SPARE = "Spare"


@dataclass(frozen=True, slots=True)
class Judgement:
    action: Action
    #: for FAIL_JOB: which rule matched, and why
    message: str = ""


COUNT = Judgement(Action.COUNT)
SPARE = Judgement(Action.SPARE)


def judge(job: Job, pod: Pod, *, marked: bool) -> Judgement:
    """Returns how the failed `pod` counts; `marked` is `is_marked(job)`, computed once for all pods."""
    if marked and is_true(pod.status.conditions, PREEMPTED):
        return SPARE
    if job.spec.pod_failure_policy is None:
        return COUNT
    for number, rule in enumerate(job.spec.pod_failure_policy.rules):
        if rule.action == "FailIndex" and job.spec.backoff_limit_per_index is None:
            continue
        cause = _cause(rule, pod)
        if cause is not None:
            try:
                action = Action(rule.action)
            except ValueError:
                continue  # an action of a later Kubernetes: such rules must be skipped
            return Judgement(action, f"{cause} matching {rule.action} rule at index {number}")
    return COUNT


def is_marked(job: Job) -> bool:
    """Whether the Job or its template has any `muster.dev/` label or annotation."""
    prefix = f"{DOMAIN}/"
    meta: Object = job.spec.template.get("metadata") or {}
    return any(
        key.startswith(prefix)
        for keys in (
            job.metadata.labels,
            job.metadata.annotations,
            meta.get("labels") or {},
            meta.get("annotations") or {},
        )
        for key in keys
    )


def _cause(rule: PodFailurePolicyRule, pod: Pod) -> str | None:
    """Returns in words what of the pod matches the rule; None if nothing does."""
    if rule.on_exit_codes is not None:
        return _exit_code(rule.on_exit_codes, pod)
    return _condition(rule.on_pod_conditions, pod)


def _exit_code(wanted: OnExitCodes, pod: Pod) -> str | None:
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        if wanted.container_name is not None and status.name != wanted.container_name:
            continue
        ended = status.state.terminated
        if ended is None or ended.exit_code == 0:
            continue
        if (ended.exit_code in wanted.values) == (wanted.operator == "In"):
            return f"Container {status.name} for pod {pod.key} failed with exit code {ended.exit_code}"
    return None


def _condition(patterns: list[OnPodCondition], pod: Pod) -> str | None:
    for condition in pod.status.conditions:
        if any(p.type == condition.type and p.status == condition.status for p in patterns):
            return f"Pod {pod.key} has condition {condition.type}"
    return None
