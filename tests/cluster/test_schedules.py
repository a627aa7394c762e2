"""Muster takes and refuses the schedules of CronJobs that a real API server takes and refuses."""

from typing import Final

import pytest

from muster.api.base import Object
from muster.api.kinds import CRON_JOB
from muster.api.rules import cron
from muster.kube.errors import Invalid
from tests.cluster.conftest import Cluster

#: Schedules, and time zones of a schedule that is right.
SCHEDULES: Final = (
        "* * * * *", "*/5 * * * *", "0 3 * * 7", "0 3 * * 0-7", "0 3 * * SUN", "0 3 * * sun-wed",
        "0 3 * * mon,fri", "0 3 * * 8", "60 * * * *", "* 24 * * *", "0 0 0 * *", "0 0 32 * *",
        "0 0 * 13 *", "0 0 * 0 *", "0 0 * JAN *", "0 0 30 2 *", "0 0 31 4 *", "0 0 29 2 *", "? ? ? ? ?",
        "0 0 ? * MON", "* * * *", "* * * * * *", "* * 7", "", "@hourly", "@daily", "@weekly", "@monthly",
        "@yearly", "@annually", "@midnight", "@HOURLY", "@reboot", "@every 1h30m", "@every 90s",
        "@every 1s", "@every 0s", "@every -5m", "@every 500ms", "@every 1d", "@every", "@every 1.5h",
        "@every  1h", " @hourly", "@hourly ", " 0 3 * * *", "0  3 * * *", "0\t3 * * *",
        "TZ=Europe/Berlin 0 3 * * *", "CRON_TZ=UTC 0 3 * * *", "1-0 * * * *", "5-1 * * * *",
        "1-5/2 * * * *", "5/15 * * * *", "*/0 * * * *", "*/70 * * * *", "1,,2 * * * *", ",1 * * * *",
        "1-2-3 * * * *", "1/2/3 * * * *", "-1 * * * *", "+1 * * * *", "01 * * * *", "0 0 L * *",
        "0 0 15W * *", "0 0 * * 5#2", "0 0 * * MONDAY", "a * * * *", "1.5 * * * *",
        "0-59 0-23 1-31 1-12 0-6", "*-5 * * * *", "*/5,1 * * * *", "0 0 * feb-apr *", "0 0 1 1 ?/2",
)  # fmt: skip
ZONES: Final = (
        "Europe/Berlin", "UTC", "Etc/UTC", "", "Local", "local", "Europe/Nowhere", "europe/berlin", "EST",
        "GMT+1", "../etc/passwd", "Europe", " UTC", "UTC ", "Etc/GMT+12",
        "America/Argentina/Buenos_Aires", "posix/UTC", "Factory",
)  # fmt: skip
ASKED: Final = [*((each, None) for each in SCHEDULES), *(("* * * * *", zone) for zone in ZONES)]


def made(name: str, schedule: str, zone: str | None) -> Object:
    containers = [{"name": "main", "image": "x"}]
    template = {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": containers}}}}
    spec: Object = {"schedule": schedule, "suspend": True, "jobTemplate": template}
    return {"metadata": {"name": name}, "spec": spec if zone is None else spec | {"timeZone": zone}}


async def test_schedules_are_taken_as_by_the_api_server(cluster: Cluster) -> None:
    differ = []
    for number, (schedule, zone) in enumerate(ASKED):
        obj = made(f"asked-{number}", schedule, zone)
        ours = [
            str(error)
            for error in cron.validate(cron.default(made(obj["metadata"]["name"], schedule, zone)), None)
        ]
        try:
            await cluster.client.create(CRON_JOB, "default", obj)
            theirs = ""
        except Invalid as error:
            theirs = str(error)
        else:
            await cluster.client.delete(CRON_JOB, "default", obj["metadata"]["name"])
        if bool(ours) != bool(theirs):
            differ.append((schedule, zone, ours, theirs))
    assert not differ, "\n".join(map(str, differ))


@pytest.mark.parametrize("length", [52, 53])
async def test_names_are_as_long_as_the_api_server_takes(cluster: Cluster, length: int) -> None:
    obj = made("n" * length, "* * * * *", None)
    assert bool(cron.validate(cron.default(made("n" * length, "* * * * *", None)), None)) == (length > 52)
    if length > 52:
        with pytest.raises(Invalid):
            await cluster.client.create(CRON_JOB, "default", obj)
    else:
        await cluster.client.create(CRON_JOB, "default", obj)
        await cluster.client.delete(CRON_JOB, "default", "n" * length)
