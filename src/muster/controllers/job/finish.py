"""Decides whether a Job has finished, and how: its terminal condition.

The finish is written as soon as it is known, as `FailureTarget` or `SuccessCriteriaMet`, and never
changes afterwards; `Failed` or `Complete` follow with the same reason once all pods have ended and are
counted. Failure is checked before success. Source: KEP-3329, KEP-3998, KEP-4368.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from muster.api.base import condition
from muster.api.batch_v1 import Job
from muster.api.times import after
from muster.controllers.job import success_policy
from muster.controllers.job.counts import Counts
from muster.controllers.job.pod_states import PodStates

FAILURE_TARGET: Final = "FailureTarget"
SUCCESS_CRITERIA_MET: Final = "SuccessCriteriaMet"
FAILED: Final = "Failed"
COMPLETE: Final = "Complete"

SUCCESS_POLICY: Final = "SuccessPolicy"
COMPLETIONS_REACHED: Final = "CompletionsReached"
POD_FAILURE_POLICY: Final = "PodFailurePolicy"
BACKOFF_LIMIT_EXCEEDED: Final = "BackoffLimitExceeded"
DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
MAX_FAILED_INDEXES_EXCEEDED: Final = "MaxFailedIndexesExceeded"
FAILED_INDEXES: Final = "FailedIndexes"


@dataclass(frozen=True, slots=True)
class Finish:
    success: bool
    reason: str
    message: str

    @property
    def interim(self) -> str:
        """The type of the condition that announces the finish at once."""
        return SUCCESS_CRITERIA_MET if self.success else FAILURE_TARGET

    @property
    def final(self) -> str:
        """The type of the condition that announces the finish when all pods have ended."""
        return COMPLETE if self.success else FAILED

    @property
    def counts_pods(self) -> bool:
        """Whether pods that the finish cuts short count as failed; pods beyond the completions do not."""
        return self.reason != COMPLETIONS_REACHED


def reach(job: Job, states: PodStates, counts: Counts, now: datetime) -> Finish | None:
    """Returns how the Job finishes, or None while it runs."""
    return _written(job) or _failure(job, states, counts, now) or _success(job, states, counts)


def deadline(job: Job) -> datetime | None:
    """Returns when the Job will have been active for too long; suspended time does not count."""
    spec, start = job.spec, job.status.start_time
    if spec.active_deadline_seconds is None or start is None or spec.suspend:
        return None
    return after(start, spec.active_deadline_seconds)


def _written(job: Job) -> Finish | None:
    for type_, success in ((FAILURE_TARGET, False), (SUCCESS_CRITERIA_MET, True)):
        found = condition(job.status.conditions, type_)
        if found is not None and found.status == "True":
            return Finish(success, found.reason, found.message)
    return None


def _failure(job: Job, states: PodStates, counts: Counts, now: datetime) -> Finish | None:
    spec = job.spec
    if counts.fail_job:
        return Finish(False, POD_FAILURE_POLICY, counts.fail_job)
    if counts.failed > spec.backoff_limit or _restarts_exhausted(job, states):
        return Finish(False, BACKOFF_LIMIT_EXCEEDED, "Job has reached the specified backoff limit")
    due = deadline(job)
    if due is not None and now >= due:
        return Finish(False, DEADLINE_EXCEEDED, "Job was active longer than specified deadline")
    if spec.backoff_limit_per_index is None:
        return None
    failed = len(counts.failed_indexes)
    if spec.max_failed_indexes is not None and failed > spec.max_failed_indexes:
        return Finish(
            False,
            MAX_FAILED_INDEXES_EXCEEDED,
            "Job has exceeded the specified maximal number of failed indexes",
        )
    if failed and failed + len(counts.completed) >= (spec.completions or 0):
        return Finish(False, FAILED_INDEXES, "Job has failed indexes")
    return None


def _restarts_exhausted(job: Job, states: PodStates) -> bool:
    """With restartPolicy OnFailure, restarts of containers use up the backoffLimit like failed pods."""
    template = job.spec.template.get("spec") or {}
    if template.get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        status.restart_count
        for pod in states.active
        for status in (*pod.status.container_statuses, *pod.status.init_container_statuses)
    )
    return restarts > 0 if job.spec.backoff_limit == 0 else restarts >= job.spec.backoff_limit


def _success(job: Job, states: PodStates, counts: Counts) -> Finish | None:
    rule = success_policy.matched(job, counts.completed)
    if rule is not None:
        return Finish(True, SUCCESS_POLICY, rule)
    if job.spec.completions is None:
        reached = counts.succeeded > 0 and not states.active and not states.leaving
    else:
        reached = counts.succeeded >= job.spec.completions
    if not reached:
        return None
    return Finish(True, COMPLETIONS_REACHED, "Reached expected number of succeeded pods")
