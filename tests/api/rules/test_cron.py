"""CronJobs are refused at once if no run of theirs could start."""

import copy

import pytest

from muster.api.base import Object
from muster.api.rules.cron import default, validate


def _cron(name: str = "nightly", **spec: object) -> Object:
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}
    job = {"spec": {"template": {"spec": pod}}}
    return {"metadata": {"name": name}, "spec": {"schedule": "0 3 * * 0", "jobTemplate": job, **spec}}


@pytest.mark.parametrize(
    ("cron", "path"),
    [
        (_cron("n" * 53), "metadata.name"),
        (_cron(schedule=""), "spec.schedule"),
        (_cron(schedule="* * * *"), "spec.schedule"),
        (_cron(schedule="0 3 * * 7"), "spec.schedule"),
        (_cron(schedule="@hourly "), "spec.schedule"),
        (_cron(schedule="TZ=UTC 0 3 * * *"), "spec.schedule"),
        (_cron(schedule="CRON_TZ=UTC 0 3 * * *", timeZone="UTC"), "spec.schedule"),
        (_cron(timeZone="Europe/Nowhere"), "spec.timeZone"),
        (_cron(timeZone=""), "spec.timeZone"),
        (_cron(timeZone="local"), "spec.timeZone"),
    ],
)
def test_a_cron_job_that_could_not_run_is_refused_and_a_stored_one_stays_editable(
    cron: Object, path: str
) -> None:
    default(cron)
    assert [".".join(map(str, error.path)) for error in validate(cron, None)] == [path]
    assert validate(cron, copy.deepcopy(cron)) == []


@pytest.mark.parametrize(
    "schedule",
    [
        *("0 3 * * 0-6", "@every 1h30m", "?/5 * ? * MON-FRI", "@daily", "@every 0s", "@every -5m"),
        *("0 0 30 2 *", "1,,2 * * * *", "+1 * * * *", "*-5 * * * *"),
    ],
)
def test_what_the_api_server_takes_as_a_schedule_is_taken(schedule: str) -> None:
    cron = default(_cron("n" * 52, schedule=schedule, timeZone="Europe/Berlin"))
    assert validate(cron, None) == []
