"""A line per index of a job: parameters, how its last pod ended, what was reported; as a table and as CSV."""

import csv
import io
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from muster import names
from muster.api.base import ObjectMeta
from muster.api.jobset_v1alpha2 import JobSet
from muster.api.kinds import JOBSET
from muster.api.matrix import Matrix
from muster.api.progress import Report
from muster.app.views.job import JobView, State
from muster.app.views.trials import Trial, trials
from muster.cli import trial_table
from muster.workloads.pod_run import PodRun
from muster.workloads.retry import Retry

MATRIX = Matrix({"LR": ("0.1", "a,b"), "SEED": ("1", "2")})


def view(annotations: dict[str, str], wanted: int = 4) -> JobView:
    meta = ObjectMeta(name="s", namespace="ns", uid="1", annotations=annotations)
    return JobView(JOBSET, JobSet(metadata=meta), State.RUNNING, wanted, 0, 0, 0)


def run(index: int, phase: str, created: float = 0.0, **more: Any) -> PodRun:
    given = {
        "node": "n",
        "bound": 1.0,
        "started": 1.0,
        "ended": None,
        "exit_code": None,
        "reason": "",
        "restarts": 0,
        "preempted": False,
        "deleted": False,
        "uid": f"{index}-{created}",
        "namespace": "ns",
        "name": f"p-{index}",
        "jobset": "s",
        "jobset_uid": "1",
        "replicated_job": "trial",
        "job": "s-trial-0",
        "job_index": 0,
        "completion_index": index,
        "attempt": 0,
    }
    return PodRun(phase=phase, created=created, **{**given, **more})


def test_each_trial_has_its_parameters_and_its_last_end() -> None:
    runs = [
        run(0, "Succeeded", exit_code=0),
        run(1, "Failed", exit_code=3, failed_code=3, failed_why="oom"),
        run(1, "Failed", 1.0, exit_code=4, failed_code=4),
        run(2, "Failed", preempted=True),
    ]
    found = trials(view({names.MATRIX: MATRIX.annotation()}), runs)
    assert [(each.index, each.state, each.exit_code, each.starts) for each in found] == [
        ("0", "succeeded", 0, 1),
        ("1", "failed", 4, 2),
        ("2", "stopped", None, 1),
        ("3", "waiting", None, 0),
    ]
    assert found[3].parameters == {"LR": "a,b", "SEED": "2"}


def test_a_retry_shows_the_indexes_that_it_runs_again() -> None:
    marks = {names.MATRIX: MATRIX.annotation(), names.RETRY_OF: Retry("s", "0", "1,3").annotation()}
    found = trials(view(marks, 2), [run(0, "Running")])
    assert [(each.index, each.parameters["SEED"], each.state) for each in found] == [
        ("1", "2", "running"),
        ("3", "2", "waiting"),
    ]


def test_without_lists_an_index_is_the_label_of_its_pod() -> None:
    found = trials(view({names.MATRIX: "what anybody wrote"}), [run(1, "Running")])
    assert [(each.index, each.parameters) for each in found] == [("trial-0-1", {})]


ROWS = [
    Trial("0", {"LR": "a,b"}, "succeeded", 0, 1, Report(7, 0.25), 'said "x"\n=1'),
    Trial("1", {"LR": "2"}, "waiting"),
]


def test_the_table_as_csv_is_read_back() -> None:
    first, *others = csv.reader(io.StringIO(trial_table.as_csv(ROWS)))
    assert first == ["index", "LR", "state", "exit", "starts", "step", "loss", "result"]
    assert others == [
        ["0", "a,b", "succeeded", "0", "1", "7", "0.25", 'said "x"\n=1'],
        ["1", "2", "waiting", "", "0", "", "", ""],
    ]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ('=HYPERLINK("http://x")', '\'=HYPERLINK("http://x")'),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("+1+cmd|' /C calc'!A0", "'+1+cmd|' /C calc'!A0"),
        ("-1+1", "'-1+1"),
        (" =1", "' =1"),
        ("\t=1", "\\t=1"),
        ("-0.5", "-0.5"),
        ("+1e-3", "+1e-3"),
        ("-inf", "-inf"),
        ("loss=1", "loss=1"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\rb", "a\\rb"),
    ],
)
def test_a_cell_of_the_csv_is_no_formula_and_controls_no_terminal(written: str, shown: str) -> None:
    """Neither a result, which a program wrote, nor a parameter or its name."""
    trial = Trial("0", {"A": written, written: "1"}, "succeeded", 0, 1, None, written)
    first, second = csv.reader(io.StringIO(trial_table.as_csv([trial])))
    assert first == ["index", "A", shown, "state", "exit", "starts", "result"]
    assert second == ["0", shown, "1", "succeeded", "0", "1", shown]


def test_a_parameter_may_be_called_as_a_column() -> None:
    trial = Trial("7", {"INDEX": "a", "STATE": "b", "STEP": "c"}, "waiting")
    assert list(zip(trial_table.columns([trial]), *trial_table.rows([trial]), strict=True)) == [
        ("INDEX", "7"),
        *(("INDEX", "a"), ("STATE", "b"), ("STEP", "c")),
        *(("STATE", "waiting"), ("EXIT", ""), ("STARTS", "0")),
    ]


def test_a_table_of_many_indexes_looks_at_each_a_few_times() -> None:
    looks = Counter[int]()

    class Seen(dict[str, str]):
        def __iter__(self) -> Iterator[str]:
            looks[id(self)] += 1
            return super().__iter__()

    trial_table.rows([Trial(str(index), Seen(LR="1")) for index in range(100)])
    assert max(looks.values()) <= 3


def test_columns_that_nothing_fills_are_left_out() -> None:
    assert trial_table.columns(ROWS[1:]) == ["INDEX", "LR", "STATE", "EXIT", "STARTS"]
    assert trial_table.as_json(ROWS)[0]["parameters"] == {"LR": "a,b"}
