"""`muster replay`: figures for programs and people, and one clear error for what cannot be replayed."""

import gzip
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.cli import main as cli
from muster.cli import replay
from muster.core.cycle import Scheduler
from muster.core.words.events import GangSubmitted, NodeChanged
from muster.core.words.gang import Gang, GangId, NodeName, PodSet, Shape
from muster.journal import Began, Cycle, Journal
from muster.sim import engine, experiment, readers
from muster.sim import trace as traces
from muster.sim.metrics import UNITS
from muster.sim.readers.openb import NODES, PODS
from tests.patience import PATIENCE
from tests.processes import started
from tests.sim.traces import swf, write
from tests.test_perfetto import events

Run = Callable[..., tuple[int, str, str]]
#: a takes 6 of 10 from 0 to 20; b wants 5 at 5; c wants 4 at 6
JOBS = ((1, 0, 20, 6, 6, 30), (2, 5, 4, 5, 5, 4), (3, 6, 9, 4, 4, 9))
PHILLY = (
    "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,60.0,8,480.0,a\n"
    "2017-10-09 07:01:45,20.0,4,80.0,b\n"
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line in this process: its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "t.swf", swf(*JOBS), compressed=True)
    write(tmp_path / "philly.csv", PHILLY)
    write(tmp_path / "pods.csv", f"{','.join(PODS)}\np0,1,1,0,0,,,,,,\n")

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["muster", "replay", *words])
        with pytest.raises(SystemExit) as exit:
            cli.main()
        out, err = capfd.readouterr()
        return int(exit.value.code or 0), out, err

    return run


def test_figures_for_programs(run: Run) -> None:
    code, out, err = run("t.swf", "--format", "swf", "--policy", "pack", "-o", "json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert list(found) == ["policy", "seeds", "resource", "metrics"]
    assert (found["policy"], found["seeds"]) == ("pack", [42])
    assert tuple(found["metrics"]) == tuple(UNITS)
    assert {tuple(figure) for figure in found["metrics"].values()} == {("unit", "mean", "std", "per_seed")}
    wait = (0 + 15 + 0) / 3  # c fits beside a, b waits for a's end
    assert found["metrics"]["wait_mean"] == {"unit": "seconds", "mean": wait, "std": 0.0, "per_seed": [wait]}
    assert found["metrics"]["makespan"]["mean"] == 24
    assert found["metrics"]["utilisation"]["mean"] == pytest.approx((6 * 20 + 5 * 4 + 4 * 9) / 240)


def test_a_table_for_people(run: Run) -> None:
    code, out, err = run("t.swf", "--format", "swf")
    assert (code, err) == (0, "")
    first, head, *rows = out.splitlines()
    assert first == "3 jobs on 1 node, 10 CPUs, offered load 2.933"
    assert head.split() == ["METRIC", "VALUE", "UNIT"]
    assert [row.split()[0] for row in rows] == list(UNITS)
    assert rows[3].split() == ["wait_mean", "5", "s"]


def test_a_replay_without_randomness_is_computed_once_for_all_seeds_with_a_note(run: Run) -> None:
    code, out, err = run("t.swf", "--format", "swf", "--seeds", "7..9", "-o", "json")
    assert (code, err) == (0, "this replay draws no random numbers, so all seeds have the same result\n")
    found = json.loads(out)
    assert found["seeds"] == [7, 8, 9]
    assert found["metrics"]["makespan"] == {"unit": "seconds", "mean": 24, "std": 0, "per_seed": [24, 24, 24]}


def test_load_brings_arrivals_closer(run: Run) -> None:
    # 176 CPU seconds arrive within 6 s on 10 CPUs: 2.93 offered; twice that in 3 s
    _, out, _ = run("t.swf", "--format", "swf", "--load", str(2 * 176 / 60), "-o", "json")
    metrics = json.loads(out)["metrics"]
    assert metrics["wait_mean"]["mean"] == pytest.approx((20 - 2.5) / 3)  # b has come at 2.5
    assert metrics["makespan"]["mean"] == 24


def test_a_trace_of_our_own_with_a_node_that_goes(run: Run) -> None:
    write(Path("nodes.csv"), "node,count,gpus\nn,2,4\n")
    write(Path("outages.csv"), "at,node,is\n10,n-0,down\n")
    write(Path("jobs.csv"), "job,submit,run,pods,gpus,checkpoint\na,0,20,1,4,\nb,1,20,1,4,5\nc,2,20,1,8,\n")
    words = ("nodes.csv", "outages.csv", "jobs.csv", "--format", "muster")
    code, out, err = run(*words, "-o", "json")
    assert code == 0
    assert err.splitlines() == [
        "never started: 1 of 3; they are not in the means",
        "  1 × NothingMatches, such as default/c: a pod asks 8 GPUs; the largest matching node has 4",
        "stopped and restarted: 1 × node lost",
    ]
    metrics = json.loads(out)["metrics"]
    # a loses ten seconds on four GPUs, waits for b's end, and starts over
    assert (metrics["work_lost"]["mean"], metrics["makespan"]["mean"]) == (40, 41)


def test_why_a_job_never_started_counts_no_node_that_was_lost(run: Run) -> None:
    write(Path("nodes.csv"), "node,count,gpus\nsmall,1,4\nlarge,1,8\n")
    write(Path("outages.csv"), "at,node,is\n10,large-0,down\n")
    write(Path("jobs.csv"), "job,submit,run,pods,gpus\na,20,20,1,8\n")
    _, _, err = run("nodes.csv", "outages.csv", "jobs.csv", "--format", "muster", "-o", "json")
    assert "such as default/a: a pod asks 8 GPUs; the largest matching node has 4" in err


def test_philly_on_nodes_that_are_given(run: Run) -> None:
    code, out, _ = run("philly.csv", "--format", "philly", "--nodes", "2 x nvidia.com/gpu=4", "-o", "json")
    assert code == 0
    metrics = json.loads(out)["metrics"]
    # the job of 8 takes both nodes, and waits ten seconds for the one of 4
    assert (metrics["wait_mean"]["mean"], metrics["makespan"]["mean"]) == (5, 80)


@pytest.mark.parametrize(
    "words",
    [
        "t.swf",
        "bom.swf",
        "jobs.swf --nodes cpu=10",
        "openb_node_list_gpu_node.csv pods.csv",
        "philly.csv --nodes 2xnvidia.com/gpu=4",
        "nodes.csv jobs.csv",
        "jobs.json",
        "journal",
    ],
)
def test_a_trace_tells_its_own_format(run: Run, journal: Path, words: str) -> None:
    write(Path("bom.swf"), "\ufeff" + swf(*JOBS))
    write(Path("jobs.swf"), swf(*JOBS).split("\n", 1)[1])
    write(Path("openb_node_list_gpu_node.csv"), f"{','.join(NODES)}\nn,8000,1024,1,V100\n")
    write(Path("nodes.csv"), "cpu,node\n4,n\n")
    write(Path("jobs.csv"), "submit,job,run,cpu\n0,a,1,1\n")
    write(Path("jobs.json"), ' {"node": "n"}\n{"job": "a", "submit": 0, "run": 1}\n')
    code, out, err = run(*words.split(), "-o", "json")
    assert (code, err) == (0, "")
    assert json.loads(out)["policy"] in ("pack", "easy")


def test_a_trace_may_come_through_pipes(tmp_path: Path) -> None:
    write(tmp_path / "jobs.csv", "job,submit,run,cpu\na,0,1,1\nb,0,1,1\n")
    os.mkfifo(tmp_path / "nodes")
    command = [sys.executable, "-m", "muster", "replay", "-", "jobs.csv", "nodes"]
    with started(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write('{"node": "m", "resources": {"cpu": 1}}\n')
        process.stdin.close()
        write(tmp_path / "nodes", "node,cpu\nn,3\n")
        assert process.stdout.readline() == "2 jobs on 2 nodes, 4 CPUs\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("-", "standard input: no format begins with '1 2'; "),
        ("- --format swf", "standard input: no `; MaxProcs: N` in its header"),
        ("- --format swf --nodes cpu=1", "standard input, line 1: 2 columns; "),
        ("/dev/stdin --format swf", "/dev/stdin: no `; MaxProcs: N` in its header"),
        ("- --format openb", "standard input: expected one list of pods"),
        ("t.swf - --format muster", "t.swf, line "),
        ("- t.swf", "standard input: no format begins with "),
    ],
)
def test_standard_input_is_named_as_the_user_wrote_it(tmp_path: Path, words: str, said: str) -> None:
    write(tmp_path / "t.swf", swf(*JOBS))
    command = [sys.executable, "-m", "muster", "replay", *words.split()]
    done = subprocess.run(command, cwd=tmp_path, input="1 2\n", capture_output=True, text=True)
    assert (done.returncode, done.stderr[: len(said)]) == (2, said)


def test_lines_of_a_pipe_that_are_left_out_are_called_as_it_was_written(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "muster", "replay", "-", "--skip-bad"]
    text = swf(*JOBS) + "what?\n"
    done = subprocess.run(command, cwd=tmp_path, input=text, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr.startswith("left out: 1 × unreadable; the first: standard input, line 5: 1 columns; ")


def test_pods_and_memory_of_the_given_nodes_limit_no_job(run: Run) -> None:
    code, out, _ = run("t.swf", "--format", "swf", "--nodes", "1 x cpu=6,pods=1", "-o", "json")
    assert code == 0
    assert json.loads(out)["metrics"]["makespan"]["mean"] == 33


def test_jobs_and_lines_that_are_left_out_are_counted(run: Run, tmp_path: Path) -> None:
    text = swf(*JOBS, (4, 7, 0, 1, 1, 5)) + "what?\n5 x\n"
    write(tmp_path / "bad.swf", text)
    code, out, err = run("bad.swf", "--format", "swf", "--skip-bad", "-o", "json")
    assert code == 0
    assert json.loads(out)["metrics"]["makespan"]["mean"] == 24
    filtered, unreadable = err.splitlines()
    assert filtered == "left out: 1 × no run time"
    assert unreadable.startswith("left out: 2 × unreadable; the first: bad.swf, line 6: 1 columns; ")


def test_jobs_that_never_start_are_counted(run: Run) -> None:
    # 8 GPUs in all, and the largest node has 5: 8 = 5 + 3, but no node has 3 beside it
    nodes = "1 x nvidia.com/gpu=5; 3 x nvidia.com/gpu=1"
    code, out, err = run("philly.csv", "--format", "philly", "--nodes", nodes, "-o", "json")
    assert code == 0
    counted, why = err.splitlines()
    assert counted == "never started: 1 of 2; they are not in the means"
    assert why.startswith("  1 × Fragmented, such as philly/000000001: rest: 8 GPUs asked as 1 × 5 + 1 × 3;")
    assert json.loads(out)["metrics"]["makespan"]["mean"] == 20


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    core, journal = Scheduler(), Journal(tmp_path / "journal")
    journal.write(0.0, Began(1))
    pods = (PodSet("main", Shape((("cpu", 1000),)), 2, 2),)
    for event in (
        NodeChanged(NodeName("n"), (("cpu", 2000),)),
        GangSubmitted(Gang(GangId("ns/a"), pods, 2, 0.0)),
        GangSubmitted(Gang(GangId("ns/b"), pods, 2, 1.0)),
    ):
        core.apply(event)
        journal.write(1.0, event)
    journal.write(1.0, Cycle())
    for decision in core.decide(1.0):
        journal.write(1.0, decision)
    journal.close()
    return tmp_path / "journal"


def test_a_journal_is_decided_again(run: Run, journal: Path) -> None:
    said = "journal: 3 events, 1 cycle, 2 decisions of 1 scheduler: all the same\n"
    assert run("journal", "--format", "muster") == (0, said, "")
    Path("journal.gz").write_bytes(gzip.compress(journal.read_bytes()))
    assert run("journal.gz") == (0, said.replace("journal", "journal.gz"), "")
    Path("journal.gz").write_bytes(Path("journal.gz").read_bytes()[:-20])
    code, _, err = run("journal.gz", "--format", "muster")
    assert (code, err.partition(" (")[0]) == (2, "journal.gz: the gzip data is damaged or cut off")
    code, _, err = run("journal", "--format", "muster", "--load", "1", "--skip-bad", "--jobs", "2")
    assert code == 2
    assert err.startswith("--jobs, --load, --skip-bad: not supported for a journal, which is replayed")
    code, _, err = run("journal", "journal", "--format", "muster")
    assert (code, err) == (2, "a journal is replayed on its own; got 2 files\n")
    code, out, _ = run("journal", "--format", "muster", "-o", "json")
    assert code == 0
    assert json.loads(out) == {
        "policy": "easy",
        "schedulers": 1,
        "events": 3,
        "cycles": 1,
        "decisions": 2,
        "difference": None,
    }


def test_the_first_difference_is_shown_and_is_a_failure(run: Run, journal: Path) -> None:
    journal.write_bytes(
        journal.read_bytes().replace(
            b'"is":"Assign","what":{"gang":"ns/a"', b'"is":"Assign","what":{"gang":"ns/b"'
        )
    )
    code, out, _ = run("journal", "--format", "muster")
    assert code == 1
    assert "decision 1 differs, in the cycle at 1.000000:\n  the journal has  " in out
    code, out, _ = run("journal", "--format", "muster", "-o", "json")
    assert code == 1
    difference = json.loads(out)["difference"]
    assert (difference["at"], difference["number"]) == (1.0, 1)
    assert (difference["logged"]["what"]["gang"], difference["decided"]["what"]["gang"]) == ("ns/b", "ns/a")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("nosuch --format swf", "nosuch: cannot be read: No such file or directory"),
        ("nosuch --format muster", "nosuch: no such file; a journal is written by a scheduler that runs"),
        ("j.csv --format muster", "j.csv: it has no nodes; write them before the jobs, or give them"),
        (
            "t.swf --format muster",
            "t.swf, line 1, column 1: '; MaxProcs: 10' is not a column; known are node,",
        ),
        ("philly.csv --format swf", "philly.csv: no `; MaxProcs: N` in its header"),
        ("philly.csv --format swf --nodes cpu=4", "philly.csv, line 1: 1 columns; a line of SWF"),
        ("t.swf --format philly --nodes nvidia.com/gpu=4", "line 1: '; MaxProcs: 10'; expected the header"),
        ("philly.csv --format philly", "the table has no machines; give them, for example --nodes"),
        ("philly.csv --format philly --nodes lots", "'lots' is not KEY=VALUE"),
        ("t.swf --format openb", "t.swf: expected one list of pods (name,cpu_milli,memory_mib,"),
        ("t.swf t.swf t.swf --format openb", "t.swf, t.swf, t.swf: expected one list of pods"),
        ("pods.csv --format openb", "there is no openb_node_list_gpu_node.csv beside it; name the list"),
        ("t.swf --format xml", "'xml' is not one of"),
        ("what.txt", "what.txt: no format begins with 'what, now'; expected swf (18 numbers a line, comm"),
        ("empty.gz", "empty.gz: is empty; expected a trace"),
        ("nosuch", "nosuch: cannot be read: No such file or directory"),
        (".", ".: cannot be read: Is a directory"),
        ("t.swf philly.csv", "t.swf is swf, philly.csv is philly; the files of a trace are of one format"),
        ("t.swf --report nosuch/r.html", "--report nosuch/r.html: there is no directory nosuch; name a file"),
        ("t.swf --report .", "--report .: is a directory; name a file to write"),
        (
            "twice.csv --nodes cpu=4",
            "twice.csv, line 3, column 1 (job): there is a job 'a' in namespace 'default' already",
        ),
        ("--format swf", "Missing argument 'TRACE"),
        ("t.swf t.swf --format swf", "--format swf is one file; got 2"),
        ("t.swf --format swf --order sjbf", "--order sjbf: pack makes no reservations"),
        ("t.swf --format swf --policy best", "--policy best: unknown; choose from pack"),
        ("t.swf --format swf --seeds 1..", "--seeds 1..: write 42, 42..51 or 1,2,3; 1000 at most"),
        ("t.swf --format swf --seeds 1..999999999999", "1000 at most"),
        ("t.swf --format swf --seeds 9..1", "--seeds 9..1: write"),
        ("t.swf --format swf --load 0", "--load 0: expected more than 0"),
        ("t.swf --format swf --load nan", "--load nan: expected more than 0"),
        ("one.swf --format swf --load 1", "all jobs arrive at one time"),
        ("t.swf --format swf --pass twice", "'twice' is not one of"),
        ("j.csv --format muster --jobs 0", "Input should be greater than or equal to 1"),
    ],
)
def test_bad_input_is_one_clear_error(run: Run, words: str, said: str) -> None:
    write(Path("one.swf"), swf(JOBS[0]))
    write(Path("j.csv"), "job,submit,run\na,0,1\n")
    write(Path("twice.csv"), "job,submit,run\na,0,5\na,1,5\n")
    write(Path("what.txt"), "what, now\n")
    write(Path("empty.gz"), "\n", compressed=True)
    code, out, err = run(*words.split())
    assert (code, out) == (2, "")
    assert said in " ".join(err.replace("│", " ").split())
    assert "Traceback" not in err


def test_a_replay_on_a_terminal_shows_a_bar_and_ends_cleanly_when_interrupted(tmp_path: Path) -> None:
    rows = [(n, n, 50, 1 + n % 10, 1 + n % 10, 50) for n in range(1, 60_001)]
    write(tmp_path / "long.swf", swf(*rows))
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "muster", "replay", "long.swf", "--format", "swf"]
    env = os.environ | {"TERM": "xterm", "COLUMNS": "80", "LINES": "20"}
    with started(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=theirs, text=True) as process:
        os.close(theirs)
        seen = b""
        while b"/60000" not in seen:
            seen += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        try:
            while chunk := os.read(ours, 4096):
                seen += chunk
        except OSError:
            pass  # the terminal is closed with its last user
        assert process.wait(PATIENCE) == 130
        assert process.stdout is not None
        assert process.stdout.read() == ""
    os.close(ours)
    assert b"Traceback" not in seen
    assert re.search(rb"interrupted after [0-9,]+ of 60,000 jobs\r\n$", seen)


def test_the_choices_of_replay_are_those_of_the_simulator() -> None:
    """It stands in both, as the command line imports the simulator only when it is needed."""
    assert [*replay.Format] == [*readers.Format]
    assert [*replay.Order] == [*experiment.Order]
    assert [*replay.Pass] == [*engine.Pass]
    assert [*replay.Estimates] == [*traces.Estimates]


def test_a_trace_for_perfetto_has_every_run_on_its_queue_and_its_node(run: Run) -> None:
    code, out, err = run("t.swf", "--format", "swf", "-o", "perfetto")
    assert (code, err) == (0, "")
    found = events(out.encode())
    names = {each["pid"]: each["args"]["name"] for each in found if each["name"] == "process_name"}
    assert set(names.values()) == {"the machine", "queue default", "node machine"}
    slices = [
        (names[each["pid"]], each["name"].lstrip("swf/0"), each["ts"], each["dur"], each["args"])
        for each in found
        if each["ph"] == "X"
    ]
    for process in ("queue default", "node machine"):
        assert [each[1:] for each in slices if each[0] == process] == [
            ("1", 0, 20_000_000, {"CPUs used": 6.0, "end": "ended"}),
            ("3", 6_000_000, 9_000_000, {"CPUs used": 4.0, "end": "ended"}),
            ("2", 20_000_000, 4_000_000, {"CPUs used": 5.0, "end": "ended"}),
        ]
    used = [
        (each["ts"] // 10**6, each["args"]["CPUs used"])
        for each in found
        if each["name"] == "CPUs used" and names[each["pid"]] == "the machine"
    ]
    assert used == [(0, 6.0), (6, 10.0), (15, 6.0), (20, 5.0), (24, 0.0)]
    waiting = [each["args"]["gangs waiting"] for each in found if each["name"] == "gangs waiting"]
    assert max(waiting) == 1
    assert waiting[-1] == 0


def test_a_trace_for_perfetto_is_of_one_replay(run: Run, tmp_path: Path) -> None:
    for words, told in (
        (("t.swf", "--seeds", "1,2"), "-o perfetto writes one replay; give one seed"),
        (("t.swf", "--report", "r.html"), "-o perfetto writes one replay; omit --report"),
    ):
        code, out, err = run(*words, "-o", "perfetto")
        assert (code, out) == (2, "")
        assert told in err


def test_why_jobs_never_start_names_their_queue_or_what_runs_for_ever(run: Run) -> None:
    """And a queue that is not there is answered with the line that declares it."""
    node = '{"node": "n", "resources": {"nvidia.com/gpu": 4}}'
    small = '{"queue": "small", "capability": {"nvidia.com/gpu": 2}}'
    pods = '[{"resources": {"nvidia.com/gpu": 3}}]'
    job = '{"job": "%s", "submit": 0, "run": 10, "queue": "small", "pods": ' + pods + "}"
    write(Path("t.jsonl"), "\n".join([node, small, job % "a", job % "b"]))
    code, _, err = run("t.jsonl")
    assert code == 0
    told = "2 × QuotaExceeded, such as default/a: queue small uses 0 of its 2 GPUs; 3 more would be 3"
    assert err.splitlines() == ["never started: 2 of 2; they are not in the means", f"  {told}"]
    write(Path("t.jsonl"), "\n".join([node, job % "a"]))
    code, _, err = run("t.jsonl")
    assert code == 2
    assert 'there is no queue small; write {"queue": "small"} on a line before the first job' in err
