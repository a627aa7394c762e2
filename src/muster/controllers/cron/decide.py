"""Decides what to do about a schedule now: which run starts, which runs are deleted, when to look again.

As Kubernetes' CronJob controller (v2) decides:

- After a downtime only the latest missed run is started, if its deadline has not passed.
- `Forbid` waits for the previous run: the missed run starts when that has ended, if its deadline permits.
- `Replace` deletes the previous run.
- Finished runs beyond the history limits are deleted, the oldest first.

Source: kubernetes, pkg/controller/cronjob/cronjob_controllerv2.go, syncCronJob.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from muster.api.schedule import Schedule

Concurrency = Literal["Allow", "Forbid", "Replace"]
State = Literal["active", "succeeded", "failed"]


@dataclass(frozen=True, slots=True)
class Plan:
    """When runs begin, and how many are kept."""

    schedule: Schedule
    concurrency: Concurrency = "Allow"
    #: seconds after its time that a run may still begin; None = any
    deadline: int | None = None
    suspend: bool = False
    keep_succeeded: int = 3
    keep_failed: int = 1


@dataclass(frozen=True, slots=True)
class Run:
    name: str
    uid: str
    at: datetime
    state: State


@dataclass(frozen=True, slots=True)
class Decision:
    #: the time whose run begins now
    start: datetime | None
    delete: Sequence[Run]
    #: when to look again; None = when something changes
    again: datetime | None
    #: why a run that is due does not begin: missed its deadline, or the run before is active
    skipped: Literal["", "missed", "active"] = ""
    #: the time of that run
    due: datetime | None = None


def decide(plan: Plan, since: datetime, runs: Sequence[Run], now: datetime) -> Decision:
    """`since`: the time of the last run, or of the creation of what is scheduled."""
    surplus = _surplus(plan, runs)
    if plan.suspend:
        return Decision(None, surplus, None)
    again = plan.schedule.next(now, since)
    due = plan.schedule.latest(now, since)
    if due is None:
        return Decision(None, surplus, again)
    if plan.deadline is not None and (now - due).total_seconds() > plan.deadline:
        return Decision(None, surplus, again, "missed", due)
    if any(run.at == due for run in runs):
        return Decision(None, surplus, again)
    active = [run for run in runs if run.state == "active"]
    if active and plan.concurrency == "Forbid":
        return Decision(None, surplus, again, "active", due)
    replaced = active if plan.concurrency == "Replace" else []
    return Decision(due, [*surplus, *replaced], again)


def _surplus(plan: Plan, runs: Sequence[Run]) -> list[Run]:
    surplus: list[Run] = []
    for state, keep in (("succeeded", plan.keep_succeeded), ("failed", plan.keep_failed)):
        ended = sorted((run for run in runs if run.state == state), key=lambda run: (run.at, run.name))
        surplus += ended[: max(0, len(ended) - keep)]
    return surplus
