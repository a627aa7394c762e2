"""BatchJobs with a schedule: their runs are BatchJobs without one."""

from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, Final

from muster.api.base import Object, owner
from muster.api.kinds import BATCH_JOB
from muster.api.muster_v1alpha1 import BatchJob
from muster.api.schedule import InvalidSchedule, parse
from muster.controllers.batch_grant import written
from muster.controllers.caches import Caches
from muster.controllers.cron import decide, objects
from muster.controllers.driver import Controller, Watch, controlled_by, itself
from muster.effects import Create, Effect, Patch

#: Fields of a spec that are about the schedule.
FIELDS: Final = (
    "schedule",
    "timeZone",
    "concurrencyPolicy",
    "suspend",
    "startingDeadlineSeconds",
    "successfulJobsHistoryLimit",
    "failedJobsHistoryLimit",
)


@dataclass(frozen=True, slots=True)
class Observed:
    job: BatchJob
    runs: tuple[BatchJob, ...]


def controller() -> Controller[Observed]:
    """Returns the controller for the driver."""

    def observe(caches: Caches, key: str) -> Observed | None:
        job = caches[BATCH_JOB].get(key)
        if job is None or job.metadata.deletion_timestamp is not None or not job.spec.get("schedule"):
            return None
        return Observed(job, tuple(caches[BATCH_JOB].owned_by(job)))

    watches = (Watch(BATCH_JOB, itself), Watch(BATCH_JOB, controlled_by(BATCH_JOB)))
    return Controller("batchjob schedule", watches, observe, reconcile)


def reconcile(observed: Observed, now: datetime) -> list[Effect]:
    job = observed.job
    meta, spec = job.metadata, job.spec
    try:
        plan = _plan(spec)
    except InvalidSchedule as error:
        return _status(job, "Pending", str(error), [])
    runs = [objects.run(each.metadata, _state(each)) for each in observed.runs]
    last = objects.served((each.metadata for each in observed.runs), job.status.start_time)
    decision = decide.decide(plan, last or meta.creation_timestamp or now, runs, now)
    effects: list[Effect] = []
    active = [run.name for run in runs if run.state == "active" and run not in decision.delete]
    if decision.start is not None:
        effects.append(Create(BATCH_JOB, meta.namespace, _run(job, decision.start, plan.schedule.zone)))
        active.append(objects.name_of(meta.name, decision.start))
    last = decision.start or last
    told = "suspended" if plan.suspend else f"{len(active)} active"
    if last is not None:
        told += f", last scheduled {objects.written(last)}"
    return [
        *effects,
        *_status(job, "Running", told, [], last),
        *objects.after(BATCH_JOB, job, BATCH_JOB, decision, now),
    ]


def _plan(spec: Object) -> decide.Plan:
    """The plan of a spec. Raises `InvalidSchedule` for what cannot be read."""

    def number(field: str, default: int | None) -> int | None:
        value = spec.get(field, default)
        if value is None or (type(value) is int and 0 <= value < 2**31):
            return value
        raise InvalidSchedule(f"{field}: takes a whole number")

    texts = [spec.get(field) or "" for field in ("schedule", "timeZone", "concurrencyPolicy")]
    if not all(isinstance(each, str) for each in texts):
        raise InvalidSchedule("schedule, timeZone and concurrencyPolicy take text")
    expression, zone, concurrency = texts
    return decide.Plan(
        parse(expression, zone),
        objects.concurrency(concurrency),
        number("startingDeadlineSeconds", None),
        spec.get("suspend") is True,
        number("successfulJobsHistoryLimit", 3) or 0,
        number("failedJobsHistoryLimit", 1) or 0,
    )


def _run(job: BatchJob, at: datetime, zone: tzinfo) -> Object:
    meta = job.metadata
    spec: dict[str, Any] = {key: value for key, value in job.spec.items() if key not in FIELDS}
    return {
        "apiVersion": BATCH_JOB.api_version,
        "kind": BATCH_JOB.kind,
        "metadata": {
            "name": objects.name_of(meta.name, at),
            "labels": dict(meta.labels),
            "annotations": {
                **written(job)["metadata"]["annotations"],
                objects.SCHEDULED: objects.written(at, zone),
            },
            "ownerReferences": [owner(job, BATCH_JOB)],
        },
        "spec": spec,
    }


def _status(
    job: BatchJob, phase: str, message: str, tasks: list[Object], last: datetime | None = None
) -> list[Effect]:
    """The patch of a status that has changed; `startTime` is the time of the last run."""
    old, meta = job.status, job.metadata
    if (old.phase, old.message, old.observed_generation, old.start_time) == (
        phase,
        message,
        meta.generation,
        last or old.start_time,
    ):
        return []
    status: Object = {
        "phase": phase,
        "message": message,
        "observedGeneration": meta.generation,
        "tasks": tasks,
    }
    if last is not None:
        status["startTime"] = objects.written(last)
    return [Patch(BATCH_JOB, meta.namespace, meta.name, {"status": status}, "status")]


def _state(job: BatchJob) -> decide.State:
    match job.status.phase:
        case "Succeeded":
            return "succeeded"
        case "Failed":
            return "failed"
        case _:
            return "active"
