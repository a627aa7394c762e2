"""The Philly reader: sorted, whole nodes first, and bad lines."""

from pathlib import Path

import pytest

from muster.sim.readers.philly import Philly
from muster.sim.trace import Tally, TraceError
from tests.sim.traces import machine, write

HEADER = "timestamp,duration,num_gpus,gpu_time,cluster\n"
DAY = "2017-10-09 07:01:"


def table(*rows: str) -> str:
    return HEADER + "".join(f"{row}\n" for row in rows)


@pytest.mark.parametrize("compressed", [False, True])
def test_jobs_come_in_order_of_time_then_of_lines(tmp_path: Path, compressed: bool) -> None:
    text = table(f"{DAY}30,5.0,1,5.0,a", f"{DAY}10,6.5,2,13.0,b", f"{DAY}30,7.0,1,7.0,a", "")
    path = write(tmp_path / "philly.csv", text, compressed=compressed)
    jobs = list(Philly(path, machine(8)).jobs(Tally()))
    assert [job.run_time for job in jobs] == [6.5, 5.0, 7.0]
    assert [job.id for job in jobs] == sorted(job.id for job in jobs)
    assert [job.submitted - jobs[0].submitted for job in jobs] == [0, 20, 20]
    assert all(job.estimate == job.run_time for job in jobs)


@pytest.mark.parametrize(
    ("gpus", "pods"),
    [(1, [(1, 1)]), (8, [(8, 1)]), (12, [(8, 1), (4, 1)]), (16, [(8, 2)])],
)
def test_a_job_takes_as_few_pods_as_the_largest_nodes_allow(
    tmp_path: Path, gpus: int, pods: list[tuple[int, int]]
) -> None:
    path = write(tmp_path / "philly.csv", table(f"{DAY}10,5.0,{gpus},5.0,a"))
    (job,) = Philly(path, machine(2, 8, 8)).jobs(Tally())
    found = [(dict(s.shape.requests)["nvidia.com/gpu"], s.count, s.min_count) for s in job.pod_sets]
    assert found == [(size, count, count) for size, count in pods]
    assert (job.size, job.places) == (gpus * 1000, sum(count for _, count in pods))


def test_jobs_that_have_no_part_are_counted(tmp_path: Path) -> None:
    rows = table(f"{DAY}10,5.0,0,5.0,a", f"{DAY}10,0.0,1,5.0,a", f"{DAY}10,5.0,9,5.0,a")
    tally = Tally()
    assert not list(Philly(write(tmp_path / "p.csv", rows), machine(8)).jobs(tally))
    assert tally.filtered == {"no GPUs": 1, "no run time": 1, "larger than the machine": 1}


BAD = {
    f"{DAY}10,5.0,1": "line 3: 3 columns; expected 5: timestamp,",
    "yesterday,5.0,1,5.0,a": r"line 3, column 1 \(timestamp\): 'yesterday' is not a time; expected such as",
    f"{DAY}99,5.0,1,5.0,a": "line 3, column 1",
    f"{DAY}10,long,1,5.0,a": r"line 3, column 2 \(duration\): 'long' is not a number",
    f"{DAY}10,-5.0,1,5.0,a": r"line 3, column 2 \(duration\): '-5.0' is too small; expected 0 or more",
    f"{DAY}10,1e99,1,5.0,a": r"line 3, column 2 \(duration\): '1e99' is out of range",
    f"{DAY}10,5.0,-1,5.0,a": r"line 3, column 3 \(num_gpus\): '-1' is too small",
    f"{DAY}10,5.0,0.5,5.0,a": r"line 3, column 3 \(num_gpus\): '0.5' is not a whole number",
    f"{DAY}10,5.0,1000000,5.0,a": r"line 3, column 3 \(num_gpus\): '1000000'; expected 100000 at most",
    "1 0 0 50 4 -1 -1 4 60 -1 1 1 1 -1 -1 -1 -1 -1": "line 3: 1 columns",
}


@pytest.mark.parametrize("line", BAD)
def test_a_bad_line_is_named_with_its_column_or_skipped_and_counted(tmp_path: Path, line: str) -> None:
    path = write(tmp_path / "p.csv", table(f"{DAY}10,5.0,1,5.0,a", line, f"{DAY}11,5.0,1,5.0,a"))
    with pytest.raises(TraceError, match=rf"p\.csv, {BAD[line]}"):
        list(Philly(path, machine(8)).jobs(Tally()))
    tally = Tally()
    assert len(list(Philly(path, machine(8), skip_bad=True).jobs(tally))) == 2
    assert tally.bad == 1
    assert "line 3" in tally.first_bad


def test_a_table_of_another_format_is_refused_before_machines_are_requested(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"t\.csv, line 1: 'a,b'; expected the header timestamp,"):
        Philly(write(tmp_path / "t.csv", "a,b\n1,2\n"), None)


def test_a_table_of_another_format_is_refused_by_its_header_even_when_bad_lines_are_skipped(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "p.csv", "name,cpu_milli,memory_mib,num_gpu\nopenb-pod-0,12000,16384,1\n")
    with pytest.raises(TraceError, match=r"line 1: 'name,cpu_milli,.*'; expected the header timestamp,"):
        list(Philly(path, machine(8), skip_bad=True).jobs(Tally()))


def test_the_machines_must_be_given_and_have_gpus(tmp_path: Path) -> None:
    path = write(tmp_path / "p.csv", table())
    with pytest.raises(TraceError, match="the table has no machines; give them, for example --nodes"):
        Philly(path, [])
    with pytest.raises(TraceError, match=r"none of them has nvidia.com/gpu"):
        Philly(path, machine(0))
