"""The table of `muster list` as a terminal shows it."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import kinds
from muster.api.base import ObjectMeta
from muster.api.core_v1 import Pod, PodStatus
from muster.api.failures import Failure, Verdict
from muster.app.views.job import JobView, State
from muster.cli.job_table import RECENT, narrow, recent, wide

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
FAILED = Failure(
    namespace="default",
    pod="p",
    uid="p",
    label="worker-0-0",
    node="n",
    container="c",
    several=False,
    code=3,
    why="",
    at=NOW,
)


def view(
    name: str, state: State, *, since: float = 90, ago: float | None = None, **fields: object
) -> JobView:
    """A job that was made `since` seconds before `NOW`, and that ended `ago` seconds before."""
    made = NOW - timedelta(seconds=since)
    pod = Pod(metadata=ObjectMeta(name=name, namespace="default", creation_timestamp=made))
    counts: dict[str, object] = {"wanted": 4, "running": 0, "succeeded": 0, "failed": 0}
    ended = NOW - timedelta(seconds=ago) if ago is not None else None
    return JobView(kinds.POD, pod, state, finished=ended, **counts | fields)  # type: ignore[arg-type]  # a test's own


def reporting(text: str, phase: str = "Running") -> Pod:
    meta = ObjectMeta(name="p", namespace="default", annotations={"muster.dev/progress": text})
    return Pod(metadata=meta, status=PodStatus(phase=phase))


def table(*views: JobView, width: int | None = 80) -> list[str]:
    return [line.plain for line in narrow(views, width, NOW)]


def test_a_day_of_jobs_fits_80_columns() -> None:
    progress = reporting("step=1200 loss=0.31 median=0.3 left=25m at=2026-03-01T11:59:00Z")
    assert table(
        view(
            "train-3f9a1c20",
            State.FAILED,
            since=5400,
            ago=3600,
            verdict=Verdict(FAILED),
            reason=("Failed", ""),
        ),
        view("sweep-00c0ffee", State.SUCCEEDED, ago=30, succeeded=4, restarts=1),
        view("train-5b0e77d2", State.RUNNING, running=4, pods=(progress,)),
        view("sweep-8c1d2f04", State.RUNNING, running=2, succeeded=1, failed=1),
        view("big-11111111", State.WAITING, reason=("InsufficientCapacity", "16 GPUs asked")),
    ) == [
        "NAME            STATE      PODS   TIME  ENDED    NOTE",
        "train-3f9a1c20  failed      0/4  30:00  60m ago  exit 3, Failed",
        "sweep-00c0ffee  succeeded   4/4   1:00  30s ago  1 restart",
        "train-5b0e77d2  running     4/4   1:30           25m left, step 1,200 loss 0.31",
        "sweep-8c1d2f04  running     2/4   1:30           1 done, 1 failed",
        "big-11111111    waiting     0/4   1:30           InsufficientCapacity",
    ]


def test_columns_that_say_nothing_are_left_out() -> None:
    assert table(view("a", State.WAITING)) == ["NAME  STATE    PODS  TIME", "a     waiting   0/4  1:30"]
    assert table() == ["no jobs"]


@given(
    st.lists(st.tuples(st.text("ab-", min_size=1, max_size=200), st.text("X", max_size=60)), min_size=1),
    st.integers(60, 120),
)
def test_no_line_is_wider_than_the_terminal(jobs: list[tuple[str, str]], width: int) -> None:
    lines = table(*(view(name, State.WAITING, reason=(why, "")) for name, why in jobs), width=width)
    assert max(map(len, lines)) <= width
    for line, (name, _) in zip(lines[1:], jobs, strict=True):
        shown = line.split()[0]
        begin, cut, end = shown.partition("…")
        assert shown == name or (cut and name.startswith(begin) and name.endswith(end))


def test_a_pipe_gets_whole_names_and_notes() -> None:
    name, why = "a" * 100, "X" * 100
    (_, line) = table(view(name, State.WAITING, reason=(why, "")), width=None)
    assert (line.split()[0], line.split()[-1]) == (name, why)


@pytest.mark.parametrize("text", ["", "loss=1", "step=x", "step=1"])
def test_only_pods_that_run_report(text: str) -> None:
    pods = (reporting("step=9", "Succeeded"), reporting(text))
    note = table(view("a", State.RUNNING, pods=pods))[1].split("1:30")[1].strip()
    assert note == ("step 1" if text == "step=1" else "")


def test_a_terminal_shows_unfinished_jobs_and_those_of_the_last_day() -> None:
    day = RECENT.total_seconds()
    jobs = [
        view("old", State.SUCCEEDED, since=9 * day, ago=2 * day),
        view("long", State.RUNNING, since=9 * day),
        view("new", State.FAILED, since=9 * day, ago=day - 1),
        view("unknown", State.CANCELLED),
    ]
    assert [each.name for each in recent(jobs, NOW)] == ["long", "new", "unknown"]


def test_the_wide_table_has_everything() -> None:
    (heading, _) = [line.plain.split() for line in wide([view("a", State.WAITING)])]
    assert heading[:6] == ["NAME", "KIND", "STATE", "QUEUE", "PRIORITY", "GPUS"]
    assert heading[-3:] == ["RESTARTS", "AGE", "WHY"]
