"""What people read: states, ages, explanations, tables."""

from datetime import UTC, datetime, timedelta

import pytest

from muster.api import kinds
from muster.api.base import Condition, Object, ObjectMeta
from muster.api.core_v1 import Pod
from muster.api.muster_v1alpha1 import BatchJob, BatchJobFinding, BatchJobStatus, Gang, GangStatus
from muster.app.records.runs import Record
from muster.app.views.job import JobView, State
from muster.cli import show
from muster.cli.options import Output
from muster.names import MOVED

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)


NAN = Condition("Progressing", "False", "LossNotFinite", "rank 0 (pod p) is on n: its loss is nan")
ILL = Gang(status=GangStatus(conditions=[NAN, Condition("GpuHealthy", "True", "NoAnomaly")]))


def view(state: State = State.RUNNING, **fields: object) -> JobView:
    pod = Pod(metadata=ObjectMeta(name="job", namespace="default", creation_timestamp=T0))
    counts: dict[str, object] = {"wanted": 5, "running": 5, "succeeded": 0, "failed": 0}
    return JobView(kinds.POD, pod, state, **counts | fields)  # type: ignore[arg-type]  # a test's own


@pytest.mark.parametrize(
    ("state", "fields", "text"),
    [
        (State.RUNNING, {}, "running 1:07 · 5 of 5 running"),
        (
            State.RUNNING,
            {"restarts": 1, "succeeded": 2},
            "running 1:07 · 5 of 5 running · 2 succeeded · 1 restart",
        ),
        (
            State.WAITING,
            {"running": 0, "reason": ("Fragmented", "3 nodes")},
            "waiting 1:07 · 0 of 5 running · Fragmented: 3 nodes",
        ),
        (
            State.SUCCEEDED,
            {"finished": T0 + timedelta(seconds=9), "succeeded": 5},
            "succeeded in 0:09 · 5 succeeded",
        ),
        (
            State.FAILED,
            {"failed": 3, "failed_indexes": "3, 10-11", "reason": ("FailedIndexes", "")},
            "failed · 3 failed (indexes 3, 10-11) · FailedIndexes",
        ),
        (
            State.RUNNING,
            {"gangs": (ILL,)},
            "running 1:07 · 5 of 5 running · LossNotFinite: rank 0 (pod p) is on n: its loss is nan",
        ),
        (
            State.FAILED,
            {"failed": 1, "restarts": 2, "reason": ("X", "")},
            "failed · 1 failed · 2 restarts · X",
        ),
    ],
)
def test_how_a_job_stands(state: State, fields: dict[str, object], text: str) -> None:
    assert show.standing(view(state, **fields), T0 + timedelta(seconds=67)) == text


def test_a_job_says_when_it_was_moved_and_why() -> None:
    for text, told in [
        ("2026-03-01T12:00:00Z GpuAnomaly: XID 79", ["moved 3m ago: GpuAnomaly: XID 79"]),
        ("", []),
        ("soon GpuAnomaly", []),
        ("2026-03-01 GpuAnomaly", ["moved 12h ago: GpuAnomaly"]),  # without a zone it is in UTC
    ]:
        meta = ObjectMeta(name="job", annotations={MOVED: text} if text else {})
        moved = JobView(kinds.POD, Pod(metadata=meta), State.RUNNING, 1, 1, 0, 0)
        assert show.moved(moved, T0 + timedelta(minutes=3)) == told


def test_the_end_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    show.end("", None, Record("job", ()))
    show.end("job", view(State.SUCCEEDED), Record("job", (), T0.timestamp()))
    assert capsys.readouterr().out == "cancelled\njob · succeeded\n"


def test_whose_output_was_cut(capsys: pytest.CaptureFixture[str]) -> None:
    show.cut((), ["job"])
    show.cut(("worker-0", "worker-1"), ["job"])
    said = "note: the output of worker-0, worker-1 is incomplete; `muster logs job` may have the rest\n"
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (86400, "1d")]
)
def test_ages(seconds: int, text: str) -> None:
    assert show.age(T0, T0 + timedelta(seconds=seconds)) == text
    assert show.age(None) == "-"


def test_an_explanation_has_a_line_for_each_fact() -> None:
    told = {
        "podSets": [{"name": "worker", "wanted": 6, "fits": 2, "limitedBy": {"nvidia.com/gpu": 2}}],
        "blockers": ["default/other"],
        "remedies": [
            {"change": "with 2 GPUs (2 × 1)", "effect": "would start now"},
            {"change": "with 2 × 2 GPUs instead of 1 × 4", "effect": "would start now"},
        ],
        "expectedStart": {"at": "2026-01-01T00:25:00Z", "basis": "when other ends"},
    }
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert show.explanation(Gang(status=GangStatus(explanation=told)), now) == [
        "worker: 2 of 6 fit; nvidia.com/gpu on 2 nodes",
        "held by default/other",
        "would start now   with 2 GPUs (2 × 1)",
        "                  with 2 × 2 GPUs instead of 1 × 4",
        "would start       in ~25m, when other ends",
    ]
    late = show.explanation(Gang(status=GangStatus(explanation=told)), now + timedelta(hours=1))
    assert late[-1] == "would start       at any moment, when other ends"
    assert show.explanation(Gang()) == []


def test_a_start_that_cannot_be_estimated_is_shown_as_unknown() -> None:
    # as it is read from a record, which merge patches have written: without nulls
    told = {"podSets": [], "expectedStart": {"basis": "other gives no run time"}}
    assert show.explanation(Gang(status=GangStatus(explanation=told))) == [
        "start time not known   other gives no run time"
    ]


def test_a_long_cell_makes_no_other_line_long(capsys: pytest.CaptureFixture[str]) -> None:
    show.table(["NAME", "QUEUE", "REASON"], [["a", "9" * 200_000, "b" * 1_000], ["c", "default", "d"]])
    first, second = capsys.readouterr().out.splitlines()[1:]
    assert len(second) < 300
    assert "9…" in first
    assert first.endswith("b" * 1_000)


def test_tables_end_where_their_text_ends(capsys: pytest.CaptureFixture[str]) -> None:
    show.table(["NAME", "N"], [["long name", "1"], ["x", ""]], right=["N"])
    assert capsys.readouterr().out == "NAME       N\nlong name  1\nx\n"


def test_json_and_yaml(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    show.machine({"a": [1, "ü"]}, Output.JSON)
    show.machine({"a": [1, "ü"]}, Output.YAML)
    assert capfdbinary.readouterr().out.decode() == '{\n  "a": [\n    1,\n    "ü"\n  ]\n}\na:\n- 1\n- ü\n'


def test_an_entry_that_muster_has_not_written_is_not_shown_as_a_preemption() -> None:
    good: Object = {
        "by": "ml/urgent",
        "at": "2026-01-01T12:00:00Z",
        "kind": "preemption",
        "lostResourceSeconds": 9.0,
    }
    others = ["soon", None, "9999-12-31T23:59:59-23:59"]
    told: list[Object] = [
        good,
        {},
        {"by": 5},
        *({**good, "at": at} for at in others),
        {**good, "costLost": "1e999999"},
        {**good, "pods": 2},
    ]
    lines = show.preemptions(told, datetime(2026, 1, 1, 13, tzinfo=UTC))
    assert lines[0] == "evicted for ml/urgent 60m ago (preemption), 9 resource-seconds of work lost"
    assert lines[-1].startswith("2 pods above its minimum evicted for ml/urgent 60m ago (preemption)")
    assert max(map(len, lines[:-1])) < 100


def test_nothing_that_an_object_says_moves_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    said = "\x1b[2J\x1b]0;title\x07 a\nb \u202e"
    show.table(["QUEUE"], [[said]])
    status = GangStatus(warnings=[said], explanation={"blockers": [said]})
    lines = show.explanation(Gang(metadata=ObjectMeta(name="g"), status=status))
    lines += show.preemptions([{"by": said, "at": "2026-01-01T12:00:00Z", "kind": said}])
    assert all(line.isprintable() for line in [*capsys.readouterr().out.splitlines(), *lines])


def test_a_denied_job_is_shown_with_each_finding_and_its_fix() -> None:
    found = [
        BatchJobFinding("spec.queue", "no policy permits it", "permit (\n  principal\n);"),
        BatchJobFinding("", "a\x1b[2Jb"),
    ]
    job = BatchJob(metadata=ObjectMeta(name="job"), status=BatchJobStatus("Pending", "no", findings=found))
    denied = JobView(kinds.BATCH_JOB, job, State.DENIED, 0, 0, 0, 0, reason=("Denied", "no"))
    assert show.headline(denied) == "job · denied · Denied: no"
    assert show.reason(denied) == "job is denied, so nothing of it has been created:"
    assert show.findings(denied)[:4] == [
        "spec.queue: no policy permits it",
        "    permit (",
        "      principal",
        "    );",
    ]
    assert "\x1b" not in show.findings(denied)[4]
