"""The settings of the daemons: options over a file over defaults, errors with their place, later changes."""

import asyncio
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from muster.app.wiring.daemon import known_controllers
from muster.app.wiring.logs import JsonFormatter
from muster.app.wiring.settings import (
    KINDS,
    Common,
    ControllersSettings,
    InvalidSettings,
    Live,
    SchedulerSettings,
    load,
    place,
)
from muster.core.words.gang import Avoidance
from muster.translate.start_failures import Counted


def written(tmp_path: Path, text: str) -> str:
    file = tmp_path / "muster.yaml"
    file.write_text(text)
    return str(file)


def test_options_outweigh_the_file_and_the_file_the_defaults(tmp_path: Path) -> None:
    file = written(tmp_path, "qps: 50\nlog: {format: json, level: debug}\nlease: a/b\n")
    found = load(SchedulerSettings, file, {"qps": 5.0, "log.level": "error"})
    assert (found.qps, found.log.format, found.log.level) == (5.0, "json", "error")
    assert place(found) == ("a", "b")
    assert (found.listen, found.scheduler_names) == ("", ("muster",))


def test_what_is_said_of_bad_nodes_reaches_the_core_and_the_mirror(tmp_path: Path) -> None:
    text = "badNodes: {failures: [exit], exitWithin: 5s, jobs: 4, namespaces: 1, avoidFor: 1h, atMost: 10%}\n"
    found = load(SchedulerSettings, written(tmp_path, text), {}).bad_nodes
    assert found.rules() == Avoidance(origins=4, tenants=1, lasts=3600.0, share=0.1)
    assert found.counted() == Counted(rejections=False, start_errors=False, exits_within=5.0)
    assert load(SchedulerSettings, "", {}).bad_nodes.rules() == Avoidance()
    assert load(SchedulerSettings, "", {}).bad_nodes.counted() == Counted()


@pytest.mark.parametrize("type_", KINDS)
def test_the_defaults_are_valid_and_can_be_written_out(type_: type[Common], tmp_path: Path) -> None:
    settings = load(type_, "", {})
    file = written(tmp_path, msgspec.json.encode(settings).decode())  # JSON is YAML
    assert load(type_, file, {}) == settings
    assert load(type_, written(tmp_path, f"kind: {KINDS[type_]}\napiVersion: muster.dev/v1alpha1\n"), {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nqpx: 5\n", ":2: qpx: unknown setting; did you mean qps?"),
        ("log:\n  formt: json\n", ":2: log.formt: unknown setting; did you mean format?"),
        ("qps: many\n", ":1: qps: Expected float, got str; write for example 50"),
        ("\nlisten: 8080\n", ':2: listen: Expected str, got int; write for example ":8080"'),
        ('listen: "8080"\n', ":1: listen: '8080' is not HOST:PORT, such as 0.0.0.0:8080 or :8080"),
        ("kind: Scheduler\n", ":1: kind: is 'Scheduler'; write SchedulerConfiguration"),
        ("apiVersion: v1\n", ":1: apiVersion: write muster.dev/v1alpha1"),
        ("qps: -1\n", ":1: qps: -1: write 0 (no limit) to 100000"),
        ("badNodes: {jobs: 0}\n", ":1: badNodes.jobs: 0: write 1 to 1000"),
        ("badNodes: {atMost: most}\n", ":1: badNodes.atMost: 'most': write 0% to 50%"),
        ("badNodes: {atMost: 51%}\n", ":1: badNodes.atMost: '51%': write 0% to 50%"),
        (f"badNodes: {{atMost: {'0' * 5000}%}}\n", ":1: badNodes.atMost: '000"),
        ("badNodes: {avoidFor: 2d}\n", ":1: badNodes.avoidFor: 2d: write at most 86400s"),
        ("badNodes: {exitWithin: soon}\n", ":1: badNodes.exitWithin: "),
        (
            "badNodes: {failures: [odd]}\n",
            ":1: badNodes.failures[0]: Invalid enum value 'odd'; write for example [rejected,",
        ),
        ("victimNamespaces: [A_b]\n", ":1: victimNamespaces: ['A_b']: write names of namespaces"),
        ("awaitPodGroups: [volcano]\n", ":1: awaitPodGroups: ['volcano']: write names that schedulerNames"),
        ("adoptQueues: [kueue]\n", ":1: adoptQueues: 'kueue': write volcano or koordinator/NAMESPACE"),
        ("log: {level: loud}\n", ":1: log.level: write debug or info or warning or error"),
        ("lease: here\n", ":1: lease: 'here' is not NAMESPACE/NAME, such as muster-system/muster-scheduler"),
        ("leaderElection: {leaseDuration: 5s}\n", ":1: leaderElection: write retryPeriod < renewDeadline <"),
        ("leaderElection: {leaseDuration: soon}\n", ":1: leaderElection: 'soon' is not a duration"),
        ("nodeSelector: a=b c\n", ":1: nodeSelector: unable to parse label selector 'a=b c'"),
        ("journal: {size: 3k}\n", ":1: journal.size: 3k: write 1Mi to 1Ti, such as 64Mi"),
        ("tracing: {endpoint: here}\n", ":1: tracing.endpoint: 'here' is not a URL"),
        ("schedulerNames: []\n", ":1: schedulerNames: name at least one, such as muster"),
        ("- a\n", ": must hold one mapping, such as `qps: 50`"),
        ("", ": is empty"),
        ("a: [\n", ": is not YAML"),
    ],
)
def test_an_error_says_where_it_is_and_what_to_write(text: str, said: str, tmp_path: Path) -> None:
    file = written(tmp_path, text)
    with pytest.raises(InvalidSettings) as error:
        load(SchedulerSettings, file, {})
    assert f"{file}{said}" in str(error.value) or (
        said.startswith(": is not") and "is not YAML" in str(error.value)
    )


def test_an_error_in_what_was_given_names_the_option() -> None:
    with pytest.raises(InvalidSettings, match=r"^--log-format: write text or json$"):
        load(SchedulerSettings, "", {"log.format": "yaml"})
    with pytest.raises(InvalidSettings, match=r"^--only: no controller is called 'jbo'; did you mean job"):
        load(ControllersSettings, "", {"only": ["gang", "jbo"]}, known_controllers)


class Steps:
    """A clock whose sleeps end when the test says so."""

    def __init__(self) -> None:
        self.sleeping, self.wake = asyncio.Event(), asyncio.Event()

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self.sleeping.set()
        await self.wake.wait()
        self.wake.clear()

    async def step(self) -> None:
        """Lets the sleeper go on, until it sleeps again."""
        await self.sleeping.wait()
        self.sleeping.clear()
        self.wake.set()
        await self.sleeping.wait()


async def test_a_file_that_changes_is_read_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    file = written(tmp_path, "qps: 50\n")

    def read() -> SchedulerSettings:
        return load(SchedulerSettings, file, {"burst": 7})

    live, told, clock = Live(read, file, read()), list[Any](), Steps()
    live.changed.append(lambda now: told.append((now.qps, now.lease, now.burst)))
    following = asyncio.create_task(live.follow(clock))
    lease = live.now.lease
    try:
        await clock.step()
        assert told == []
        written(tmp_path, "qps: 20\nlease: a/b\nburst: 1\n")
        await clock.step()
        assert told == [(20.0, lease, 7)], "the lease cannot change while the daemon runs"
        assert f"{file}: lease: the change takes effect at the next start" in caplog.text
        written(tmp_path, "qps: many\n")
        await clock.step()
        await clock.step()
        assert caplog.text.count("the settings stay as they are") == 1
        (tmp_path / "muster.yaml").unlink()
        await clock.step()
        assert (live.now.qps, len(told)) == (20.0, 1)
        written(tmp_path, "qps: 30\n")
        await clock.step()
        assert told[1:] == [(30.0, lease, 7)]
    finally:
        following.cancel()


def test_a_line_of_the_json_log_is_one_object() -> None:
    record = logging.makeLogRecord({"name": "muster.x", "msg": "%d\npods", "args": (3,), "decision": "7-1"})
    assert msgspec.json.decode(JsonFormatter().format(record)) == {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": "notset" if record.levelno == 0 else record.levelname.lower(),
        "logger": "muster.x",
        "message": "3\npods",
        "decision": "7-1",
    }
