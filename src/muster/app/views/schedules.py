"""Schedules, which are no jobs themselves: CronJobs, and BatchJobs with a schedule; when they run next."""

from datetime import UTC, datetime
from typing import Any

from muster.api import kinds, times
from muster.api.batch_v1 import CronJob
from muster.api.muster_v1alpha1 import BatchJob
from muster.api.schedule import InvalidSchedule, parse
from muster.app.views.job import JobView, State


def view(cron: CronJob) -> JobView:
    """A CronJob as if it were a job that is scheduled."""
    return JobView(kinds.CRON_JOB, cron, State.SCHEDULED, 0, 0, 0, 0)


def runs(view: JobView, now: datetime) -> list[str]:
    """When the schedule of this view runs next, and when it ran last; empty for other jobs."""
    match view.resource:
        case CronJob() as cron:
            expression, zone, suspended = cron.spec.schedule, cron.spec.time_zone, cron.spec.suspend
            last = cron.status.last_schedule_time
        case BatchJob() as job if job.spec.get("schedule"):
            expression, zone = _text(job.spec.get("schedule")), _text(job.spec.get("timeZone"))
            suspended, last = job.spec.get("suspend") is True, None
        case _:
            return []
    where = f" ({zone})" if zone else ""
    told = [f"schedule {expression}{where}"]
    try:
        schedule = parse(expression, zone)
        at = schedule.next(now, last or view.created)
    except InvalidSchedule as error:
        return [f"{told[0]} cannot be used: {error}"]
    if suspended:
        told.append("it is suspended (spec.suspend), so there is no next run")
    else:
        told.append(f"the next run is at {_at(at)}, in {_span((at - now).total_seconds())}")
    if last is not None:
        told.append(f"the last run was at {_at(last)}")
    return told


def _text(value: Any) -> str:  # Any: a BatchJob's spec is what its author wrote
    return value if isinstance(value, str) else ""


def _at(moment: datetime) -> str:
    return times.written(moment.astimezone(UTC).replace(microsecond=0))


def _span(seconds: float) -> str:
    """The two largest units: `5h 12m`."""
    parts, left = list[str](), max(0, round(seconds))
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        amount, left = divmod(left, size)
        if amount and len(parts) < 2:
            parts.append(f"{amount}{unit}")
    return " ".join(parts) or "0s"
