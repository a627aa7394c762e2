"""CronJobs of `batch/v1`: their runs are Jobs, as with Kubernetes' own controller."""

from dataclasses import dataclass
from datetime import datetime, tzinfo

from muster.api.base import Object, owner
from muster.api.batch_v1 import CronJob, Job
from muster.api.kinds import CRON_JOB, JOB
from muster.api.schedule import InvalidSchedule, parse
from muster.controllers.caches import Caches
from muster.controllers.cron import decide, objects
from muster.controllers.driver import Controller, Watch, controlled_by, itself
from muster.effects import Create, Effect, Patch


@dataclass(frozen=True, slots=True)
class Observed:
    cron: CronJob
    jobs: tuple[Job, ...]


def controller() -> Controller[Observed]:
    """Returns the controller for the driver."""

    def observe(caches: Caches, key: str) -> Observed | None:
        cron = caches[CRON_JOB].get(key)
        if cron is None or cron.metadata.deletion_timestamp is not None:
            return None
        return Observed(cron, tuple(caches[JOB].owned_by(cron)))

    watches = (Watch(CRON_JOB, itself), Watch(JOB, controlled_by(CRON_JOB)))
    return Controller("cronjob", watches, observe, reconcile)


def reconcile(observed: Observed, now: datetime) -> list[Effect]:
    cron = observed.cron
    spec, meta = cron.spec, cron.metadata
    try:
        schedule = parse(spec.schedule, spec.time_zone)
    except InvalidSchedule as error:
        return objects.told(CRON_JOB, cron, "InvalidSchedule", str(error), str(meta.generation))
    plan = decide.Plan(
        schedule,
        objects.concurrency(spec.concurrency_policy),
        spec.starting_deadline_seconds,
        spec.suspend,
        spec.successful_jobs_history_limit,
        spec.failed_jobs_history_limit,
    )
    runs = [objects.run(job.metadata, _state(job)) for job in observed.jobs]
    last = objects.served((job.metadata for job in observed.jobs), cron.status.last_schedule_time)
    decision = decide.decide(plan, last or meta.creation_timestamp or now, runs, now)
    effects: list[Effect] = []
    if decision.start is not None:
        effects.append(Create(JOB, meta.namespace, _job(cron, decision.start, schedule.zone)))
    return [
        *effects,
        *_status(cron, observed, runs, decision, decision.start or last),
        *objects.after(CRON_JOB, cron, JOB, decision, now),
    ]


def _job(cron: CronJob, at: datetime, zone: tzinfo) -> Object:
    template = cron.spec.job_template
    metadata = template.metadata
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {
            "name": objects.name_of(cron.metadata.name, at),
            "labels": dict(metadata.labels),
            "annotations": {**metadata.annotations, objects.SCHEDULED: objects.written(at, zone)},
            "ownerReferences": [owner(cron, CRON_JOB)],
        },
        "spec": template.spec,
    }


def _status(
    cron: CronJob,
    observed: Observed,
    runs: list[decide.Run],
    decision: decide.Decision,
    last: datetime | None,
) -> list[Effect]:
    active: list[Object] = [
        {"apiVersion": JOB.api_version, "kind": JOB.kind, "name": run.name, "uid": run.uid}
        for run in sorted(runs, key=lambda run: run.name)
        if run.state == "active" and run not in decision.delete
    ]
    for each in active:
        each["namespace"] = cron.metadata.namespace
    ends = [job.status.completion_time for job in observed.jobs if _state(job) == "succeeded"]
    successes = [*filter(None, [*ends, cron.status.last_successful_time])]
    status: Object = {"active": active}
    if last is not None:
        status["lastScheduleTime"] = objects.written(last)
    if successes:
        status["lastSuccessfulTime"] = objects.written(max(successes))
    old: Object = {"active": cron.status.active}
    for key, value in (
        ("lastScheduleTime", cron.status.last_schedule_time),
        ("lastSuccessfulTime", cron.status.last_successful_time),
    ):
        if value is not None:
            old[key] = objects.written(value)
    if status == old:
        return []
    meta = cron.metadata
    return [Patch(CRON_JOB, meta.namespace, meta.name, {"status": status}, "status")]


def _state(job: Job) -> decide.State:
    for condition in job.status.conditions:
        if condition.status == "True" and condition.type in ("Complete", "Failed"):
            return "succeeded" if condition.type == "Complete" else "failed"
    return "active"
