"""The SWF reader: the machine, the model, what is left out, and what is refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from muster.core.words.events import NodeChanged
from muster.core.words.gang import NodeName, PodSet, Shape
from muster.sim.readers.swf import COLUMNS, Swf
from muster.sim.trace import Estimates, Job, Tally, TraceError, survey
from tests.sim.traces import swf, write

HEADER = "; Version: 2.2\n; MaxNodes: 5\n;  MaxProcs:  10 \n; Note: é\n"


def read(path: Path, estimates: Estimates = Estimates.USER) -> tuple[list[Job], Tally]:
    tally = Tally()
    return list(Swf(path, estimates=estimates).jobs(tally)), tally


@pytest.mark.parametrize("compressed", [False, True])
def test_a_job_is_a_gang_of_places_of_one_cpu(tmp_path: Path, compressed: bool) -> None:
    text = swf((1, 0, 50, 4, 3, 60), (7, 5, 50, 4, -1, 40), header=HEADER) + "; a comment\n\n"
    jobs, tally = read(write(tmp_path / "t.swf", text, compressed=compressed))
    shape = Shape((("cpu", 1000),))
    assert jobs == [
        Job(jobs[0].id, 0, 50, 60, (PodSet("main", shape, 3, 3),), 3000),
        Job(jobs[1].id, 5, 40, 40, (PodSet("main", shape, 4, 4),), 4000),  # ended at its estimate
    ]
    assert [job.id for job in jobs] == [f"swf/{1:016}", f"swf/{7:016}"]
    assert tally == Tally()


def test_the_machine_is_one_node_as_the_header_says(tmp_path: Path) -> None:
    path = tmp_path / "t.swf"
    rows = swf((1, 0, 5, 1, 1, 5), header="")
    (found,) = Swf(write(path, HEADER + rows)).nodes
    assert dict(found.capacity) == {"cpu": 10_000}
    assert dict(Swf(write(path, "; MaxNodes: 5\n" + rows)).nodes[0].capacity) == {"cpu": 5000}
    given = NodeChanged(NodeName("n"), (("cpu", 2500), ("memory", 1), ("pods", 1)), labels=(("a", "b"),))
    assert Swf(write(path, rows), [given]).nodes == [replace(given, capacity=(("cpu", 2500),))]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ((1, 0, 5, 11, 1, 5), "larger than the machine"),
        ((1, 0, 5, 1, 11, 5), "larger than the machine"),
        ((1, 0, 5, -1, -1, 5), "no processors"),
        ((1, 0, 5, 0, 0, 5), "no processors"),
        ((1, 0, 0, 1, 1, 5), "no run time"),
        ((1, 0, -1, 1, 1, 5), "no run time"),
        ((1, 0, 5, 1, 1, -1), "no requested time (replayable with exact estimates)"),
        ((1, 0, 5, 1, 1, 0), "no requested time (replayable with exact estimates)"),
    ],
)
def test_jobs_that_have_no_part_in_a_replay_are_counted(
    tmp_path: Path, row: tuple[int, ...], reason: str
) -> None:
    jobs, tally = read(write(tmp_path / "t.swf", swf(row, (2, 0, 5, 1, 1, 5))))
    assert len(jobs) == 1
    assert tally.filtered == {reason: 1}


def test_exact_estimates_are_the_run_time_which_stays_limited_by_what_was_asked(tmp_path: Path) -> None:
    path = write(tmp_path / "t.swf", swf((1, 0, 50, 1, 1, 60), (2, 0, 50, 1, 1, -1), (3, 0, 50, 1, 1, 20)))
    jobs, _ = read(path, Estimates.EXACT)
    assert [(job.run_time, job.estimate) for job in jobs] == [(50, 50), (50, 50), (20, 20)]


GOOD = swf((1, 10, 5, 1, 1, 5), header="")
BAD = {
    "1 0 5": "line 3: 3 columns; a line of SWF has 18 numbers",
    "timestamp,duration,num_gpus,gpu_time,cluster": "line 3: 1 columns; a line of SWF",
    " ".join(["2"] * 19): "line 3: 19 columns",
    swf((2, 20, 5, 1, 1, 5), header="").replace(
        "20", "2O"
    ): r"column 2 \(submit time\): '2O' is not a number",
    swf((2, 20, 5, 1, 1, 5), header="").replace(
        "20", "2_0"
    ): r"column 2 \(submit time\): '2_0' is not a number",
    swf((2, -3, 5, 1, 1, 5), header=""): r"column 2 \(submit time\): '-3' is too small; expected 0 or more",
    swf((2, 20, -5, 1, 1, 5), header=""): r"column 4 \(run time\): '-5' is too small; expected -1 or more",
    swf((2, 20, 5, -9, 1, 5), header=""): r"column 5 \(allocated processors\): '-9' is too small",
    swf((2, 20, 5, 1, 1.5, 5), header=""): r"column 8 \(requested processors\): '1.5' is not a whole number",
    swf((2, 20, 1e300, 1, 1, 5), header=""): r"column 4 \(run time\): '1e\+300' is out of range",
    swf((2, 20, 5, 1e18, 1, 5), header=""): r"column 5 \(allocated processors\): '1e\+18' is out of range",
    swf((2, 20, 5, 1, 1, -7), header=""): r"column 9 \(requested time\): '-7' is too small",
    swf((2, 9, 5, 1, 1, 5), header=""): r"column 2 \(submit time\): '9' is out of order; .* before has 10",
    swf((1, 20, 5, 1, 1, 5), header=""): r"column 1 \(job number\): '1' is out of order; .* before has 1",
    "2 20 -1 5 1 -1 -1 1 5 -1 -1 -1 -1 -1 -1 -1 -1 x": r"column 18 \(think time\): 'x' is not a number",
}


@pytest.mark.parametrize("line", BAD)
def test_a_bad_line_is_named_with_its_column_or_skipped_and_counted(tmp_path: Path, line: str) -> None:
    text = "; MaxProcs: 10\n" + GOOD + line.rstrip("\n") + "\n" + swf((5, 30, 5, 1, 1, 5), header="")
    path = write(tmp_path / "t.swf", text)
    with pytest.raises(TraceError, match=rf"t\.swf, line 3.*{BAD[line].removeprefix('line 3')}"):
        read(path)
    tally = Tally()
    assert len(list(Swf(path, skip_bad=True).jobs(tally))) == 2
    assert tally.bad == 1
    assert "line 3" in tally.first_bad


def test_a_file_cut_off_in_a_line_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "t.swf", swf((1, 0, 5, 1, 1, 5), (2, 0, 5, 1, 1, 5))[:-20])
    with pytest.raises(TraceError, match=r"line 3: \d+ columns"):
        read(path)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("", r"no `; MaxProcs: N` in its header; .* --nodes '1 x cpu=N'"),
        ("; MaxProcs: none\n", "line 1: MaxProcs none; expected 1 to 2147483, or --nodes '1 x cpu=N'"),
        ("; MaxProcs: -10\n", "line 1: MaxProcs -10; expected 1 to 2147483"),
        ("; MaxProcs: 1,024\n", "line 1: MaxProcs 1,024; expected 1 to 2147483"),
        ("; MaxProcs: 0\n", "line 1: MaxProcs 0; expected 1 to 2147483"),
        ("; x\n; MaxProcs: 99999999999\n", "line 2: MaxProcs 99999999999; expected 1 to 2147483"),
    ],
)
def test_a_header_without_a_machine_is_named(tmp_path: Path, header: str, said: str) -> None:
    with pytest.raises(TraceError, match=said):
        Swf(write(tmp_path / "t.swf", swf((1, 0, 5, 1, 1, 5), header=header)))


def test_a_trace_without_a_job_says_what_was_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "t.swf", swf((1, 0, 5, 1, 1, -1), (2, 0, 0, 1, 1, 5)))
    with pytest.raises(TraceError, match=r"left out: 1 × no requested time .*; 1 × no run time"):
        survey(Swf(path))
    with pytest.raises(TraceError, match=r"2 × unreadable, first: .*line 2, column 1"):
        survey(Swf(write(path, swf((1.5, 0, 5, 1, 1, 5), (2.5, 0, 5, 1, 1, 5))), skip_bad=True))
    with pytest.raises(TraceError, match="left out: nothing, no line is a job"):
        survey(Swf(write(path, "; MaxProcs: 10\n")))


def test_columns_are_those_of_the_format() -> None:
    assert len(COLUMNS) == 18
