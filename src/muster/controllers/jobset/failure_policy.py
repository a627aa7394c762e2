"""Decides what happens when Jobs have failed: the first matching rule decides; otherwise the JobSet restarts.

Among the failed Jobs that a rule matches, the first to fail counts. Rules match the reason and the
message of the Job's failure and its replicatedJob; what a rule does not state matches anything. As upstream,
a pattern that is not a regular expression matches nothing.

A restart is a higher counter in the status: it makes Jobs stale, and the next reconcile replaces them.
Source: kubernetes-sigs/jobset, pkg/controllers/failure_policy.go.
"""

import logging
from collections.abc import Callable

import msgspec

from muster.api.batch_v1 import Job
from muster.api.jobset_v1alpha2 import FailurePolicy, FailurePolicyRule
from muster.controllers.jobset import patterns
from muster.controllers.jobset.attempts import group_of, index_of
from muster.controllers.jobset.status import RESTARTING, Draft

log = logging.getLogger(__name__)


def apply(policy: FailurePolicy | None, failed: list[Job], cause: Callable[[Job], str], draft: Draft) -> None:
    """Applies the policy. `failed` is not empty and in order of failure; `cause` tells why one failed."""
    if policy is None:
        draft.fail("FailedJobs", _message("one or more jobs failed", cause, failed[0]))
        return
    for rule in policy.rules:
        matched = next((job for job in failed if _matches(rule, job)), None)
        if matched is not None:
            action, reason, job = rule.action, f"FailurePolicy_{rule.name}", matched
            break
    else:
        action, reason, job = "RestartJobSet", "DefaultFailurePolicy", failed[0]
    if action == "FailJobSet":
        message = _message(f"{reason} ends the jobset", cause, job)
        draft.fail("FailJobSetFailurePolicyAction", message)
        return
    counts = not action.endswith("AndIgnoreMaxRestarts")
    if counts and _counted(draft) >= policy.max_restarts:
        message = _message(f"maxRestarts is {policy.max_restarts}", cause, job)
        draft.fail("ReachedMaxRestarts", message)
        return
    if action.startswith("RestartJobSet"):
        draft.restarts += 1
        draft.restarts_count_towards_max += counts
        message = _message(f"restart {draft.restarts}", cause, job)
        draft.set_true(RESTARTING, reason, message)
    else:
        _restart(job, counts, draft)
        message = _message(f"restarting job {job.metadata.name} alone", cause, job)
    draft.record("Warning", f"{action}FailurePolicyAction", message)


def _matches(rule: FailurePolicyRule, job: Job) -> bool:
    why = job.status.failure
    assert why is not None, "only failed Jobs are asked about"
    return (
        (not rule.target_replicated_jobs or group_of(job) in rule.target_replicated_jobs)
        and (not rule.on_job_failure_reasons or why.reason in rule.on_job_failure_reasons)
        and (
            not rule.on_job_failure_message_patterns
            or any(_found(pattern, why.message) for pattern in rule.on_job_failure_message_patterns)
        )
    )


def _found(pattern: str, message: str) -> bool:
    try:
        return patterns.found(pattern, message)
    except patterns.InvalidPattern as error:
        log.warning("failure policy: the pattern %.80r %s; it matches nothing", pattern, error)
        return False


def _counted(draft: Draft) -> int:
    """Returns the restarts that count, of the whole set and of single Jobs."""
    alone = sum(sum(group.job_restarts_count_towards_max) for group in draft.groups.values())
    return draft.restarts_count_towards_max + alone


def _restart(job: Job, counts: bool, draft: Draft) -> None:
    """Raises the counter of one Job."""
    group, index = draft.groups[group_of(job)], index_of(job)
    draft.groups[group.name] = msgspec.structs.replace(
        group,
        job_restarts=_raised(group.job_restarts, index, 1),
        job_restarts_count_towards_max=_raised(group.job_restarts_count_towards_max, index, int(counts)),
    )


def _raised(counters: list[int], index: int, by: int) -> list[int]:
    raised = counters + [0] * (index + 1 - len(counters))
    raised[index] += by
    return raised


def _message(text: str, cause: Callable[[Job], str], job: Job) -> str:
    return f"{text}: {cause(job)}"
