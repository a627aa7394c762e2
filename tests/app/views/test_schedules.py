"""When a schedule runs next."""

from datetime import UTC, datetime, timedelta

import pytest

from muster.api.base import ObjectMeta
from muster.api.batch_v1 import CronJob, CronJobSpec, CronJobStatus
from muster.api.muster_v1alpha1 import BatchJob
from muster.app.views.job import State
from muster.app.views.jobs import views
from muster.app.views.objects import Objects
from muster.app.views.schedules import runs, view
from tests.app.views.test_jobs import job

NOW = datetime(2026, 3, 1, 21, 47, 30, tzinfo=UTC)
META = ObjectMeta(name="nightly", namespace="default", uid="u", creation_timestamp=NOW - timedelta(days=9))


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (
            CronJobSpec(schedule="0 3 * * *"),
            ["schedule 0 3 * * *", "the next run is at 2026-03-02T03:00:00Z, in 5h 12m"],
        ),
        (
            CronJobSpec(schedule="0 3 * * *", time_zone="Asia/Tokyo"),
            ["schedule 0 3 * * * (Asia/Tokyo)", "the next run is at 2026-03-02T18:00:00Z, in 20h 12m"],
        ),
        (
            CronJobSpec(schedule="@hourly", suspend=True),
            ["schedule @hourly", "it is suspended (spec.suspend), so there is no next run"],
        ),
        (CronJobSpec(schedule="0 3"), ["schedule 0 3 cannot be used: has 2 fields; a schedule has 5"]),
        (CronJobSpec(schedule="@daily", time_zone="Nowhere"), ["schedule @daily (Nowhere) cannot be used: "]),
    ],
)
def test_a_cron_job_says_when_it_runs_next(spec: CronJobSpec, told: list[str]) -> None:
    found = view(CronJob(metadata=META, spec=spec))
    assert found.state is State.SCHEDULED
    lines = runs(found, NOW)
    assert len(lines) == len(told)
    assert all(line.startswith(begin) for line, begin in zip(lines, told, strict=True))


def test_a_cron_job_says_when_it_ran_last() -> None:
    status = CronJobStatus(last_schedule_time=NOW - timedelta(minutes=47, seconds=30))
    cron = CronJob(metadata=META, spec=CronJobSpec(schedule="@every 50m"), status=status)
    assert runs(view(cron), NOW) == [
        "schedule @every 50m",
        "the next run is at 2026-03-01T21:50:00Z, in 2m 30s",
        "the last run was at 2026-03-01T21:00:00Z",
    ]


def test_a_batch_job_with_a_schedule_says_it_too_and_other_jobs_nothing() -> None:
    spec = {"schedule": "@daily", "timeZone": 7}
    (found,) = views(Objects(batch_jobs=[BatchJob(metadata=META, spec=spec)]))
    assert runs(found, NOW)[1] == "the next run is at 2026-03-02T00:00:00Z, in 2h 12m"
    (plain,) = views(Objects(jobs=[job()]))
    assert runs(plain, NOW) == []
