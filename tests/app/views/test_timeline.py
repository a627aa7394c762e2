"""Rows of a timeline: when pods waited and ran."""

import json
from typing import Any

import msgspec
import pytest

from muster.api.base import Condition
from muster.api.core_v1 import ContainerState, ContainerStatus, PodStatus, Terminated
from muster.app.views.timeline import Drawn, Now, Phase, Row, Span, summary, timeline, traced
from muster.names import NODE_GONE, PREEMPTED, PREEMPTION
from muster.perfetto import Trace
from muster.workloads.pod_run import PodRun, run_of
from tests.app.objects import T0, at, labels, pod, ran
from tests.test_perfetto import events

W, R = Phase.WAITING, Phase.RUNNING


def test_waiting_counts_from_the_jobs_creation() -> None:
    drawn = timeline([ran(created=1.0)], 0.0, 99.0)
    (row,) = drawn.rows
    assert (row.label, row.spans, row.note) == ("worker 0", [Span(W, 0.0, 2.0), Span(R, 2.0, 10.0)], "")
    assert (drawn.begin, drawn.end, drawn.waited) == (0.0, 10.0, 2.0)


def test_a_run_as_json_has_times_that_say_so() -> None:
    told = json.loads(msgspec.json.encode(summary(ran(created=1.0, ended=10.5))))
    assert told["created"] == "1970-01-01T00:00:01Z"
    assert told["ended"] == "1970-01-01T00:00:10.500000Z"
    assert summary(ran(started=None, ended=None))["ended"] is None


def test_a_stage_in_progress_lasts_until_now() -> None:
    runs = [
        ran("a", ended=None, phase="Running"),
        ran("b", job_index=1, started=None, ended=None, phase="Pending"),
    ]
    running, waiting = timeline(runs, 0.0, 20.0).rows
    assert running.spans[-1] == Span(R, 2.0, 20.0)
    assert waiting.spans == [Span(W, 0.0, 20.0)]


def test_a_restart_shares_the_row_and_is_noted() -> None:
    runs = [
        ran("a", ended=5.0, phase="Failed", exit_code=137),
        ran("b", created=5.0, started=6.0, attempt=1),
    ]
    (row,) = timeline(runs, 0.0, 20.0).rows
    assert row.spans == [
        Span(W, 0.0, 2.0),
        Span(R, 2.0, 5.0, failed=True),
        Span(W, 5.0, 6.0),
        Span(R, 6.0, 10.0),
    ]
    assert row.note == "restarted once: exit 137 on node-0"


def test_a_pod_that_is_slow_to_end_gives_its_row_to_the_next_attempt() -> None:
    runs = [ran("a", ended=9.0, deleted=True), ran("b", created=5.0, started=6.0, attempt=1)]
    (row,) = timeline(runs, 0.0, 20.0).rows
    assert row.spans == [Span(W, 0.0, 2.0), Span(R, 2.0, 5.0), Span(W, 5.0, 6.0), Span(R, 6.0, 10.0)]


def test_notes() -> None:
    failed: dict[str, Any] = {"phase": "Failed", "exit_code": 3}
    cases = [
        ([ran(**failed)], "exit 3 on node-0"),
        ([ran(phase="Failed", exit_code=None, reason="DeadlineExceeded", node="")], "DeadlineExceeded"),
        ([ran(**failed, preempted=True)], "preempted"),
        ([ran(**failed, preempted=True, reason="Terminated")], "ended with the cluster"),
        ([ran(**failed, preempted=True, reason="NodeLost")], "its node was removed"),
        ([ran(**failed, deleted=True)], ""),
        (
            [ran(str(i), created=i * 10.0, ended=i * 10.0 + 5, **failed, node=f"node-{i}") for i in range(3)],
            "restarted twice: exit 3 on node-0; last: exit 3 on node-2",
        ),
        (
            [ran(str(i), created=i * 10.0, ended=i * 10.0 + 5, **failed) for i in range(4)],
            "restarted 3 times: exit 3 on node-0",
        ),
    ]
    for runs, note in cases:
        (row,) = timeline(runs, 0.0, 99.0).rows
        assert row.note == note


def test_pods_beside_each_other_have_rows_of_their_own_and_waves_share_them() -> None:
    wave = [ran(f"{i}", completion_index=i, created=0.0) for i in range(2)]
    wave += [ran(f"{i}", completion_index=i, created=10.0, started=11.0, ended=12.0) for i in (2, 3)]
    first, second = timeline(wave, 0.0, 20.0).rows
    assert (first.label, second.label) == ("worker 0 slot 0", "worker 0 slot 1")
    assert [len(row.spans) for row in (first, second)] == [4, 4]


def test_a_sweep_names_the_indexes_that_failed_and_those_that_were_restarted() -> None:
    failed: dict[str, Any] = {"phase": "Failed", "exit_code": 3}
    wave = [ran(f"{i}", completion_index=i) for i in range(2)]
    wave += [ran(f"{i}", completion_index=i, created=10.0, ended=12.0, **failed) for i in (2, 3)]
    wave += [ran("4", completion_index=4, created=13.0, ended=14.0, **failed)]
    wave += [ran("again", completion_index=3, created=14.0, started=15.0, ended=16.0)]
    first, second = timeline(wave, 0.0, 20.0).rows
    assert first.note == "failed: 2, 4 (exit 3 on node-0)"
    assert second.note == "restarted: 3 (exit 3 on node-0)"
    many = [
        ran(f"{i}", completion_index=i, created=10.0 * i, ended=10.0 * i + 5, **failed) for i in range(10)
    ]
    (row,) = timeline(many, 0.0, 99.0).rows
    assert (row.label, row.note) == (
        "worker 0",
        "failed: 0, 1, 2, 3, 4, 5, 6, 7 and 2 more (exit 3 on node-0)",
    )


def test_jobs_stand_as_in_the_file_whichever_pod_was_made_first() -> None:
    coordinator = ran("c", replicated_job="coordinator", job_global_index=0, created=0.2)
    second = ran("w1", job_index=1, job_global_index=2, created=0.0)
    first = ran("w0", job_index=0, job_global_index=1, created=0.1)
    rows = timeline([second, first, coordinator], 0.0, 20.0).rows
    assert [row.label for row in rows] == ["coordinator 0", "worker 0", "worker 1"]


def test_a_place_waits_between_a_preempted_pod_and_its_successor() -> None:
    runs = [ran("a", ended=5.0, preempted=True), ran("b", created=9.0, started=10.0, ended=12.0)]
    (row,) = timeline(runs, 0.0, 20.0).rows
    assert row.spans == [Span(W, 0.0, 2.0), Span(R, 2.0, 5.0), Span(W, 5.0, 10.0), Span(R, 10.0, 12.0)]


@pytest.mark.parametrize(
    ("lost", "present", "waits"),
    [
        ({"preempted": True}, Now.WAITING, True),
        ({"preempted": True}, Now.RUNNING, True),
        ({"preempted": True}, Now.ENDED, False),
        ({"deleted": True}, Now.WAITING, True),  # by its controller, which was suspended
        ({"deleted": True}, Now.RUNNING, False),  # the job was made smaller
        ({}, Now.WAITING, False),
    ],
)
def test_a_present_wait_is_drawn(lost: dict[str, Any], present: Now, waits: bool) -> None:
    drawn = timeline([ran("a", ended=5.0, **lost)], 0.0, 20.0, present)
    (row,) = drawn.rows
    assert row.spans[2:] == ([Span(W, 5.0, 20.0)] if waits else [])
    assert drawn.end == (20.0 if waits else 5.0)


def test_a_job_without_pods_waits_as_a_whole() -> None:
    drawn = timeline([], 3.0, 20.0, Now.WAITING, "job")
    assert drawn.rows == (Row("job", [Span(W, 3.0, 20.0)]),)


def test_each_failure_is_marked() -> None:
    failed: dict[str, Any] = {"phase": "Failed", "exit_code": 3}
    runs = [
        ran("a", **failed),
        ran("b", created=11.0, started=12.0, ended=13.0, **failed),
        ran("c", job_index=1, **failed, deleted=True),
    ]
    rows = timeline(runs, 0.0, 20.0).rows
    assert [sum(span.failed for span in row.spans) for row in rows] == [2, 0]


def test_a_pod_has_run_since_its_first_init_container() -> None:
    def status(name: str, state: ContainerState) -> ContainerStatus:
        return ContainerStatus(name=name, state=state)

    ended = Terminated(exit_code=3, started_at=at(2), finished_at=at(9))
    fetch = status("fetch", ContainerState(terminated=ended))
    main = status("main", ContainerState())
    made = pod("a", "Failed", node="n")
    told = msgspec.structs.replace(
        made, status=PodStatus("Failed", init_container_statuses=[fetch], container_statuses=[main])
    )
    run = run_of(told)
    assert (run.started, run.exit_code, run.failed_container) == (at(2).timestamp(), 3, "fetch")
    drawn = timeline([run], T0.timestamp(), at(20).timestamp())
    assert (drawn.waited, drawn.rows[0].note) == (2.0, "exit 3 on n")


def test_the_first_of_several_failures_is_named() -> None:
    def fell(name: str, index: int, seconds: float, code: int) -> PodRun:
        failed: dict[str, Any] = {"phase": "Failed", "exit_code": code, "failed_code": code}
        return ran(name, job_index=index, failed_at=seconds, failed_container="main", **failed)

    runs = [fell("a", 0, 10.0, 1), fell("b", 1, 9.0, 17), fell("c", 2, 10.0, 1)]
    assert [row.note for row in timeline(runs, 0.0, 20.0).rows] == [
        "exit 1 on node-0",
        "exit 17 on node-0, the first to fail",
        "exit 1 on node-0",
    ]
    assert [row.note for row in timeline(runs[1:2], 0.0, 20.0).rows] == ["exit 17 on node-0"]


def test_nothing_has_run() -> None:
    drawn = timeline([], None, 7.0)
    assert (drawn.rows, drawn.begin, drawn.end, drawn.waited) == ((), 7.0, 7.0, None)


def test_runs_of_pods_that_are_there() -> None:
    told = pod(
        "a", "Failed", node="n", code=143, ended=5, deleted=4, labels=labels("worker", 2, 1, attempt=3)
    )
    run = run_of(told)
    assert (run.replicated_job, run.job_index, run.completion_index, run.attempt) == ("worker", 2, 1, 3)
    assert (run.created, run.ended, run.exit_code, run.deleted) == (
        T0.timestamp(),
        at(5).timestamp(),
        143,
        True,
    )
    assert timeline([run], None, 9.0).rows[0].note == ""


@pytest.mark.parametrize(("reason", "note"), [(NODE_GONE, "its node was removed"), (PREEMPTION, "preempted")])
def test_a_pod_that_is_lost_with_its_node_was_not_preempted(reason: str, note: str) -> None:
    told = pod("a", "Failed", node="n", code=137, ended=5, labels=labels("worker", 2, 1))
    marks = [Condition(PREEMPTED, "True"), Condition("DisruptionTarget", "True", reason)]
    status = msgspec.structs.replace(told.status, conditions=[*told.status.conditions, *marks])
    run = run_of(msgspec.structs.replace(told, status=status))
    assert timeline([run], None, 9.0).rows[0].note == note


def test_a_trace_has_the_places_of_the_job_its_queue_and_the_pods_of_each_node() -> None:
    runs = [
        msgspec.structs.replace(ran("a", ended=5.0, phase="Failed", exit_code=3), gpus=2.0),
        msgspec.structs.replace(ran("b", created=5.0, started=6.0, attempt=1), gpus=0.5),
        ran("c", job_index=1, started=None, ended=None, phase="Pending"),
    ]
    written: list[bytes] = []
    with Trace(written.append, 0.0) as trace:
        others = [
            ran("d", created=3.0, started=4.0, ended=7.0),
            ran("e", created=3.0, started=5.0, ended=8.0),
        ]
        jobs = [Drawn("train", "research", runs, timeline(runs, 0.0, 20.0))]
        jobs += [Drawn("eval", "research", others, timeline(others, 0.0, 20.0))]
        jobs += [Drawn("gone", "", others, timeline(others, 0.0, 20.0))]
        traced(trace, jobs, 20.0)
    found = events(b"".join(written))
    names = {each["pid"]: each["args"]["name"] for each in found if each["name"] == "process_name"}
    slices = [
        (names[each["pid"]], each["name"], each["ts"] // 10**6, each["dur"] // 10**6)
        for each in found
        if each["ph"] == "X"
    ]
    assert {("a", 2, 3), ("b", 6, 4), ("d", 4, 3)} < {each[1:] for each in slices if each[0] == "node node-0"}
    assert sorted(each for each in slices if each[0].startswith("queue ")) == [
        ("queue research", "eval", 4, 4),
        ("queue research", "train", 2, 3),
        ("queue research", "train", 6, 4),
    ]
    place = [each[1:] for each in slices if each[0] == "job train"]
    assert [each for each in place if each != ("waiting", 0, 20)] == [
        ("waiting", 0, 2),
        ("failed", 2, 3),
        ("waiting", 5, 1),
        ("running", 6, 4),
    ]
    for process in ("node node-0", "queue research"):
        used = [
            (each["ts"] // 10**6, *each["args"].values())
            for each in found
            if each["ph"] == "C" and names[each["pid"]] == process
        ]
        assert used == [(2, 2.0), (5, 0.0), (6, 0.5), (10, 0.0)]
