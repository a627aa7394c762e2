"""Runs on a schedule: which begins, which is skipped, which goes."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from muster.api.base import AnyKind, Object, owner
from muster.api.kinds import BATCH_JOB, CRON_JOB, JOB
from muster.api.schedule import Schedule
from muster.controllers import cron
from muster.controllers.cron import objects
from muster.controllers.cron.decide import Plan, Run, State, decide
from muster.controllers.driver import Controller
from muster.effects import Create, Delete, Effect, Patch, RecordEvent, Requeue
from tests.controllers.memory import START, Memory

DAILY = Schedule("0 0 * * *")
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def run(days: int, state: State = "active") -> Run:
    return Run(f"run-{days}", f"uid-{days}", START + days * DAY, state)


def test_a_time_that_has_come_begins_once() -> None:
    now = START + DAY + HOUR
    first = decide(Plan(DAILY), START, [], now)
    assert (first.start, first.again) == (START + DAY, START + 2 * DAY)
    assert decide(Plan(DAILY), START, [run(1)], now).start is None


def test_of_many_missed_times_only_the_latest_is_made_up_for() -> None:
    assert decide(Plan(DAILY), START, [], START + 400 * DAY + HOUR).start == START + 400 * DAY


def test_a_deadline_that_has_passed_skips_the_run() -> None:
    late = START + DAY + HOUR
    assert decide(Plan(DAILY, deadline=3599), START, [], late).skipped == "missed"
    assert decide(Plan(DAILY, deadline=3600), START, [], late).start == START + DAY


FAR = ["0001-01-01T00:00:00+23:59", "1969-01-01T00:00:00+00:00", "9999-12-31T23:59:59-23:59"]


@pytest.mark.parametrize("far", FAR)
def test_times_that_are_in_no_calendar_are_times(far: str) -> None:
    """As somebody may write them into a status or an annotation."""
    at = datetime.fromisoformat(far)
    berlin = Schedule("0 0 * * *", "Europe/Berlin")
    runs = [Run("far", "uid-far", at, "succeeded"), run(1, "succeeded")]
    decision = decide(Plan(berlin, deadline=2**62), at, runs, START + 2 * DAY)
    assert (decision.start is None) == (at > START)
    assert datetime.fromisoformat(objects.written(at)).tzinfo is not None


def test_concurrency() -> None:
    now, before = START + 2 * DAY, [run(1)]
    assert decide(Plan(DAILY, "Allow"), START + DAY, before, now).start == now
    forbidden = decide(Plan(DAILY, "Forbid"), START + DAY, before, now)
    assert (forbidden.start, forbidden.skipped) == (None, "active")
    replaced = decide(Plan(DAILY, "Replace"), START + DAY, before, now)
    assert (replaced.start, list(replaced.delete)) == (now, before)
    over = decide(Plan(DAILY, "Forbid"), START + DAY, [run(1, "failed")], now + HOUR)
    assert over.start == now


def test_a_skipped_run_is_one_event_however_often_the_run_before_it_changes() -> None:
    cluster = Cluster(CRON_JOB, {**SPECS[CRON_JOB], "concurrencyPolicy": "Forbid"})
    cluster.at(START + DAY)
    told: list[RecordEvent] = []
    for minutes in range(5):
        cluster.now = START + 2 * DAY + timedelta(minutes=minutes)
        told += [each for each in cluster.decided() if isinstance(each, RecordEvent)]
    assert {(each.reason, each.once) for each in told} == {("JobAlreadyActive", "2026-01-03T00:00:00Z")}


def test_a_suspended_schedule_begins_nothing_and_keeps_its_history_short() -> None:
    ended = [run(day, "succeeded") for day in range(5)]
    decision = decide(Plan(DAILY, suspend=True), START, ended, START + 9 * DAY)
    assert (decision.start, decision.again) == (None, None)
    assert [each.name for each in decision.delete] == ["run-0", "run-1"]


def test_history_has_a_limit_for_each_end() -> None:
    ended = [run(0, "failed"), run(1, "succeeded"), run(2, "failed"), run(3, "succeeded")]
    plan = Plan(DAILY, keep_succeeded=1, keep_failed=0)
    decision = decide(plan, START + 3 * DAY, ended, START + 3 * DAY + HOUR)
    assert [each.name for each in decision.delete] == ["run-1", "run-0", "run-2"]


class Cluster:
    """A server in memory, and the controller of one kind run on what it holds."""

    def __init__(self, kind: AnyKind, spec: Object) -> None:
        self.kind, self.now = kind, START
        self.memory = Memory(lambda: self.now)
        self.controller: Controller[Any] = cron.cron_jobs() if kind is CRON_JOB else cron.batch_jobs()
        self.memory.create(kind, "ns", {"metadata": {"name": "nightly"}, "spec": spec})

    def step(self) -> Sequence[Effect]:
        effects = self.decided()
        self.told = [each.message for each in self.memory.apply(effects)]
        return [each for each in effects if not isinstance(each, Requeue | RecordEvent)]

    def decided(self) -> Sequence[Effect]:
        kinds = {watch.kind for watch in self.controller.watches}
        observed = self.controller.observe(
            self.memory.caches(sorted(kinds, key=lambda k: k.kind)), "ns/nightly"
        )
        assert observed is not None
        return self.controller.reconcile(observed, self.now)

    def at(self, now: datetime) -> list[str]:
        """The names of the runs at this time, once nothing changes."""
        self.now = now
        for _ in range(10):
            if not self.step():
                break
        of_runs: AnyKind = JOB if self.kind is CRON_JOB else BATCH_JOB
        return [each.metadata.name for each in self.memory.all(of_runs) if each.metadata.name != "nightly"]

    def end(self, name: str) -> None:
        if self.kind is CRON_JOB:
            status: Object = {"conditions": [{"type": "Complete", "status": "True"}]}
            self.memory.patch(JOB, "ns", name, {"status": status}, "status")
        else:
            self.memory.patch(BATCH_JOB, "ns", name, {"status": {"phase": "Succeeded"}}, "status")


SPECS: dict[AnyKind, Object] = {
    CRON_JOB: {
        "schedule": "0 0 * * *",
        "successfulJobsHistoryLimit": 1,
        "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"template": {}}},
    },
    BATCH_JOB: {
        "schedule": "0 0 * * *",
        "successfulJobsHistoryLimit": 1,
        "tasks": {"work": {}},
        "queue": "q",
    },
}


@pytest.mark.parametrize("kind", SPECS, ids=lambda kind: kind.kind)
def test_runs_begin_end_and_are_forgotten(kind: AnyKind) -> None:
    cluster = Cluster(kind, SPECS[kind])
    assert cluster.at(START + HOUR) == []
    [first] = cluster.at(START + DAY)
    cluster.end(first)
    assert cluster.at(START + DAY + HOUR) == [first]
    [_, second] = cluster.at(START + 2 * DAY)
    cluster.end(second)
    assert cluster.at(START + 2 * DAY + HOUR) == [second]


@pytest.mark.parametrize("kind", SPECS, ids=lambda kind: kind.kind)
def test_a_run_begins_once_although_its_controller_died_before_it_wrote_the_status(kind: AnyKind) -> None:
    cluster = Cluster(kind, SPECS[kind])
    cluster.now = START + DAY
    cluster.memory.apply([each for each in cluster.decided() if isinstance(each, Create)])
    [name] = cluster.at(START + DAY)
    cluster.end(name)
    of_runs: AnyKind = JOB if kind is CRON_JOB else BATCH_JOB
    uid = cluster.memory.read(of_runs, f"ns/{name}").metadata.uid
    cluster.memory.apply([Delete(of_runs, "ns", name, uid)])
    assert cluster.at(START + DAY + HOUR) == [], "its user has deleted it"
    assert len(cluster.at(START + 2 * DAY)) == 1


@pytest.mark.parametrize("kind", SPECS, ids=lambda kind: kind.kind)
def test_a_run_that_a_user_made_by_hand_does_not_count_as_a_run_of_the_schedule(kind: AnyKind) -> None:
    cluster = Cluster(kind, SPECS[kind])
    of_runs: AnyKind = JOB if kind is CRON_JOB else BATCH_JOB
    cluster.now = START + DAY + HOUR  # after a time at which no controller was there
    parent = cluster.memory.read(kind, "ns/nightly")
    by_hand = {
        "metadata": {"name": "now", "ownerReferences": [owner(parent, kind)]},
        "spec": {"template": {}},
    }
    cluster.memory.create(of_runs, "ns", by_hand)
    assert sorted(cluster.at(cluster.now)) == [f"nightly-{int((START + DAY).timestamp()) // 60}", "now"]


def test_a_run_of_a_batch_job_has_all_of_it_but_the_schedule() -> None:
    cluster = Cluster(BATCH_JOB, SPECS[BATCH_JOB])
    [name] = cluster.at(START + DAY)
    made = cluster.memory.json(BATCH_JOB, f"ns/{name}")
    assert made["spec"] == {"tasks": {"work": {}}, "queue": "q"}
    assert cluster.memory.read(BATCH_JOB, "ns/nightly").status.message.startswith("1 active, last scheduled")


def test_a_batch_job_with_a_schedule_runs_while_it_is_scheduled() -> None:
    cluster = Cluster(BATCH_JOB, SPECS[BATCH_JOB])
    cluster.at(START + HOUR)

    def told() -> tuple[str, str, int, datetime | None]:
        status = cluster.memory.read(BATCH_JOB, "ns/nightly").status
        return status.phase, status.message, status.observed_generation, status.start_time

    assert told() == ("Running", "0 active", 0, None)
    cluster.at(START + DAY + HOUR)
    assert told() == ("Running", "1 active, last scheduled 2026-01-02T00:00:00Z", 0, START + DAY)
    change = {"metadata": {"generation": 2}, "spec": {"suspend": True}}
    cluster.memory.patch(BATCH_JOB, "ns", "nightly", change)
    cluster.at(START + DAY + 2 * HOUR)
    assert told() == ("Running", "suspended, last scheduled 2026-01-02T00:00:00Z", 2, START + DAY)


def test_a_run_that_is_replaced_is_not_told_as_active() -> None:
    cluster = Cluster(CRON_JOB, {**SPECS[CRON_JOB], "concurrencyPolicy": "Replace"})
    assert len(cluster.at(START + DAY)) == 1
    cluster.now = START + 2 * DAY
    bodies: list[Any] = [each.body for each in cluster.decided() if isinstance(each, Patch)]
    (status,) = (body["status"] for body in bodies)
    assert (status["active"], status["lastScheduleTime"]) == ([], "2026-01-03T00:00:00Z")


#: field, value, then hours after the start and how many runs exist by then
FIELDS: list[tuple[str, Any, list[tuple[int, int]]]] = [
    ("schedule", "0 12 * * *", [(11, 0), (12, 1)]),
    ("timeZone", "Europe/Berlin", [(22, 0), (23, 1)]),
    ("concurrencyPolicy", "Allow", [(24, 1), (48, 2)]),
    ("concurrencyPolicy", "Forbid", [(24, 1), (48, 1)]),
    ("concurrencyPolicy", "Replace", [(24, 1), (48, 1)]),
    ("suspend", True, [(24, 0), (48, 0)]),
    ("startingDeadlineSeconds", 1800, [(25, 0), (48, 1)]),
    ("startingDeadlineSeconds", 7200, [(25, 1)]),
]


@pytest.mark.parametrize("kind", SPECS, ids=lambda kind: kind.kind)
@pytest.mark.parametrize(("field", "value", "runs"), FIELDS)
def test_the_fields_of_a_schedule(kind: AnyKind, field: str, value: Any, runs: list[tuple[int, int]]) -> None:
    cluster = Cluster(kind, {**SPECS[kind], field: value})
    assert [(hours, len(cluster.at(START + hours * HOUR))) for hours, _ in runs] == runs


@pytest.mark.parametrize(
    ("field", "ended", "kept"),
    [
        ("successfulJobsHistoryLimit", "Succeeded", 3),
        ("failedJobsHistoryLimit", "Failed", 1),
    ],
)
@pytest.mark.parametrize("limit", [None, 0, 2])
def test_finished_runs_of_a_batch_job_are_kept_up_to_their_limit(
    field: str, ended: str, kept: int, limit: int | None
) -> None:
    spec = {key: value for key, value in SPECS[BATCH_JOB].items() if key != "successfulJobsHistoryLimit"}
    cluster = Cluster(BATCH_JOB, spec if limit is None else {**spec, field: limit})
    for day in range(1, 7):
        for name in cluster.at(START + day * DAY):
            cluster.memory.patch(BATCH_JOB, "ns", name, {"status": {"phase": ended}}, "status")
    assert len(cluster.at(START + 6 * DAY + HOUR)) == (kept if limit is None else limit)


def test_a_run_of_a_batch_job_has_its_annotations() -> None:
    cluster = Cluster(BATCH_JOB, SPECS[BATCH_JOB])
    notes = {"muster.dev/exclusive": "rack", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    cluster.memory.patch(BATCH_JOB, "ns", "nightly", {"metadata": {"annotations": notes}})
    [name] = cluster.at(START + DAY)
    made = cluster.memory.json(BATCH_JOB, f"ns/{name}")["metadata"]["annotations"]
    assert made == {
        "muster.dev/exclusive": "rack",
        "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-01-02T00:00:00Z",
    }


def test_a_run_of_a_cron_job_is_named_and_marked_as_by_kubernetes() -> None:
    cluster = Cluster(CRON_JOB, SPECS[CRON_JOB])
    [name] = cluster.at(START + DAY)
    assert name == f"nightly-{int((START + DAY).timestamp()) // 60}"
    made = cluster.memory.json(JOB, f"ns/{name}")
    assert (
        made["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
        == "2026-01-02T00:00:00Z"
    )
    assert made["metadata"]["labels"] == {"a": "b"}
    status = cluster.memory.read(CRON_JOB, "ns/nightly").status
    assert [each["name"] for each in status.active] == [name]
    assert status.last_schedule_time == START + DAY


@pytest.mark.parametrize("kind", SPECS, ids=lambda kind: kind.kind)
def test_a_run_says_when_it_was_due_in_the_zone_of_its_schedule(kind: AnyKind) -> None:
    cluster = Cluster(kind, {**SPECS[kind], "schedule": "0 3 * * *", "timeZone": "Europe/Berlin"})
    [name] = cluster.at(START + 4 * HOUR)
    made = cluster.memory.json(JOB if kind is CRON_JOB else kind, f"ns/{name}")
    due = made["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
    assert due.endswith("T03:00:00+01:00")


@pytest.mark.parametrize("kind", SPECS, ids=lambda kind: kind.kind)
def test_a_schedule_that_cannot_be_read_is_reported(kind: AnyKind) -> None:
    cluster = Cluster(kind, {**SPECS[kind], "schedule": "whenever"})
    assert cluster.at(START + DAY) == []
    status = cluster.memory.read(kind, "ns/nightly").status
    assert "1 fields" in " ".join([*cluster.told, getattr(status, "message", "")])


@pytest.mark.parametrize("value", [-1, "x", 2**40, True, [], {}])
def test_a_batch_jobs_numbers_are_checked(value: object) -> None:
    cluster = Cluster(BATCH_JOB, {**SPECS[BATCH_JOB], "startingDeadlineSeconds": value})
    assert cluster.at(START + DAY) == []
    assert "takes a whole number" in cluster.memory.read(BATCH_JOB, "ns/nightly").status.message
