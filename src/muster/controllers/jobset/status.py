"""The JobSet's next status: conditions, counters, and the events that report what changed.

A condition appears when it first becomes true. Events are recorded after the status has been written, so
that no event reports something that did not happen.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

import msgspec

from muster.api.base import Condition, Object, condition, involved
from muster.api.batch_v1 import Job
from muster.api.jobset_v1alpha2 import JobSet, JobSetStatus, ReplicatedJob, ReplicatedJobStatus
from muster.api.kinds import JOBSET
from muster.controllers.jobset.attempts import Jobs, group_of
from muster.effects import Effect, Patch, RecordEvent

COMPLETED = "Completed"
FAILED = "Failed"
SUSPENDED = "Suspended"
RESTARTING = "RestartingJobSet"
STARTING = "StartupPolicyInProgress"
STARTED = "StartupPolicyCompleted"


@dataclass
class Draft:
    """A status under construction; `effects` writes it if it differs from the current one."""

    jobset: JobSet
    now: datetime
    conditions: list[Condition] = field(init=False)
    restarts: int = field(init=False)
    restarts_count_towards_max: int = field(init=False)
    terminal_state: str = field(init=False)
    groups: dict[str, ReplicatedJobStatus] = field(init=False)
    records: list[RecordEvent] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        status = self.jobset.status
        self.conditions = list(status.conditions)
        self.restarts = status.restarts
        self.restarts_count_towards_max = status.restarts_count_towards_max
        self.terminal_state = status.terminal_state
        self.groups = {group.name: group for group in status.replicated_jobs_status}

    def count(self, jobs: Jobs) -> None:
        """Counts the Jobs of the current attempt per replicatedJob."""
        self.groups = {
            replicated.name: _counted(replicated, jobs, self.groups.get(replicated.name))
            for replicated in self.jobset.spec.replicated_jobs
        }

    def is_true(self, type_: str) -> bool:
        found = condition(self.conditions, type_)
        return found is not None and found.status == "True"

    def set_true(self, type_: str, reason: str, message: str) -> None:
        self._set(type_, "True", reason, message)

    def correct(self, type_: str, message: Callable[[str], str]) -> None:
        """Changes the message of a true condition, which is no event."""
        self.conditions = [
            msgspec.structs.replace(each, message=message(each.message))
            if each.type == type_ and each.status == "True"
            else each
            for each in self.conditions
        ]

    def set_false(self, type_: str, reason: str, message: str) -> None:
        """Makes a true condition false; a condition that never was true is not added."""
        if self.is_true(type_):
            self._set(type_, "False", reason, message)

    def fail(self, reason: str, message: str) -> None:
        self.terminal_state = FAILED
        self.set_true(FAILED, reason, message)
        self.end_restart("JobSetFailed", "the jobset failed")

    def complete(self, message: str) -> None:
        self.terminal_state = COMPLETED
        self.set_true(COMPLETED, "AllJobsCompleted", message)
        self.end_restart("JobSetCompleted", "the jobset completed")

    def end_restart(self, reason: str, message: str) -> None:
        """Ends the restart; its cause stays readable."""
        found = condition(self.conditions, RESTARTING)
        if found is not None:
            self.set_false(RESTARTING, reason, f"{message}; last restart: {found.message}")

    def record(self, type_: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        self.records.append(RecordEvent(involved(self.jobset, JOBSET), type_, reason, message))

    def effects(self) -> list[Effect]:
        status = JobSetStatus(
            conditions=self.conditions,
            restarts=self.restarts,
            restarts_count_towards_max=self.restarts_count_towards_max,
            terminal_state=self.terminal_state,
            replicated_jobs_status=list(self.groups.values()),
        )
        if status == self.jobset.status:
            return [*self.records]
        meta = self.jobset.metadata
        body = {"metadata": {"resourceVersion": meta.resource_version}, "status": _as_json(status)}
        return [Patch(JOBSET, meta.namespace, meta.name, body, "status"), *self.records]

    def _set(self, type_: str, status: str, reason: str, message: str) -> None:
        old = condition(self.conditions, type_)
        if old is not None and (old.status, old.reason, old.message) == (status, reason, message):
            return
        since = old.last_transition_time if old is not None and old.status == status else self.now
        new = Condition(type=type_, status=status, reason=reason, message=message, last_transition_time=since)
        self.conditions = [new if c.type == type_ else c for c in self.conditions]
        if old is None:
            self.conditions.append(new)
        self.record("Warning" if type_ == FAILED else "Normal", reason, message)


def is_ready(job: Job) -> bool:
    """Whether at least as many pods are ready or done as the Job runs at a time."""
    return job.status.succeeded + job.status.ready >= job.spec.places


def _counted(replicated: ReplicatedJob, jobs: Jobs, old: ReplicatedJobStatus | None) -> ReplicatedJobStatus:
    active = [job for job in jobs.active if group_of(job) == replicated.name]
    return ReplicatedJobStatus(
        name=replicated.name,
        ready=sum(is_ready(job) and not job.spec.suspend for job in active),
        succeeded=sum(group_of(job) == replicated.name for job in jobs.successful),
        failed=sum(group_of(job) == replicated.name for job in jobs.failed),
        active=sum(job.status.active > 0 for job in active),
        suspended=sum(job.spec.suspend for job in active),
        job_restarts=old.job_restarts if old else [],
        job_restarts_count_towards_max=old.job_restarts_count_towards_max if old else [],
    )


def _as_json(status: JobSetStatus) -> Object:
    """Returns the status as JSON, with the zeros that JobSet's schema requires."""
    return {
        "conditions": [
            {"reason": "", "message": "", **msgspec.to_builtins(condition)} for condition in status.conditions
        ],
        "restarts": status.restarts,
        "restartsCountTowardsMax": status.restarts_count_towards_max,
        "terminalState": status.terminal_state or None,
        "replicatedJobsStatus": [
            {
                "ready": 0,
                "succeeded": 0,
                "failed": 0,
                "active": 0,
                "suspended": 0,
                **msgspec.to_builtins(group),
            }
            for group in status.replicated_jobs_status
        ],
    }
