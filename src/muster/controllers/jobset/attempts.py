"""Sorts a JobSet's Jobs: those of the current attempt by state, and those to be deleted.

A Job belongs to the current attempt if its labels `restart-attempt` and `job-restart-attempt` are not
below the JobSet's counters. That is all a restart is: a counter in the status that makes Jobs stale.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from muster.api.base import condition, is_true
from muster.api.batch_v1 import Job
from muster.api.jobset_v1alpha2 import (
    JOB_INDEX,
    JOB_RESTART_ATTEMPT,
    REPLICATED_JOB_NAME,
    RESTART_ATTEMPT,
    JobSet,
)
from muster.api.natural import natural


@dataclass(slots=True)
class Jobs:
    active: list[Job] = field(default_factory=list)
    successful: list[Job] = field(default_factory=list)
    #: sorted by time of failure
    failed: list[Job] = field(default_factory=list)
    #: stale, or failed by being suspended: to be deleted and re-created
    previous: list[Job] = field(default_factory=list)

    @property
    def current(self) -> list[Job]:
        return [*self.active, *self.successful, *self.failed]


def sort(jobs: list[Job], jobset: JobSet) -> Jobs:
    """Sorts the Jobs. One that is being deleted, by any client, is previous: it only blocks its name."""
    sorted_ = Jobs()
    for job in jobs:
        if job.metadata.deletion_timestamp is not None or _stale(job, jobset):
            sorted_.previous.append(job)
        elif is_failed(job):
            (sorted_.previous if _by_suspension(job, jobset) else sorted_.failed).append(job)
        elif is_successful(job):
            sorted_.successful.append(job)
        else:
            sorted_.active.append(job)
    sorted_.failed.sort(key=lambda job: (failed_at(job), job.metadata.name))
    return sorted_


def is_failed(job: Job) -> bool:
    """Whether the Job's failure is decided; its pods may still be ending."""
    return job.status.failure is not None


def is_successful(job: Job) -> bool:
    return is_true(job.status.conditions, "Complete") or is_true(job.status.conditions, "SuccessCriteriaMet")


def failed_at(job: Job) -> datetime:
    found = job.status.failure
    return found.last_transition_time if found and found.last_transition_time else _NEVER


def group_of(job: Job) -> str:
    """Returns the name of the Job's replicatedJob."""
    return job.metadata.labels.get(REPLICATED_JOB_NAME, "")


def index_of(job: Job) -> int:
    """Returns the Job's index within its replicatedJob."""
    return _number(job, JOB_INDEX)


def _stale(job: Job, jobset: JobSet) -> bool:
    if _number(job, RESTART_ATTEMPT) < jobset.status.restarts:
        return True
    for status in jobset.status.replicated_jobs_status:
        if status.name == group_of(job) and index_of(job) < len(status.job_restarts):
            return _number(job, JOB_RESTART_ATTEMPT) < status.job_restarts[index_of(job)]
    return False


def _by_suspension(job: Job, jobset: JobSet) -> bool:
    """Whether the Job failed after the JobSet was suspended. API servers keep times in whole seconds."""
    suspended = condition(jobset.status.conditions, "Suspended")
    if suspended is None or suspended.status != "True" or suspended.last_transition_time is None:
        return False
    return failed_at(job) >= suspended.last_transition_time.replace(microsecond=0)


def _number(job: Job, label: str) -> int:
    return natural(job.metadata.labels.get(label)) or 0


_NEVER = datetime.max.replace(tzinfo=UTC)
