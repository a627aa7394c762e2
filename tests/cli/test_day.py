"""A day at the terminal: what the screen of 80×24 shows of each command that one types every day."""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.binary import Muster
from tests.cli.terminal import Shell

TRAIN = """import sys
print("reading data.txt")
{}
print("step 1, loss 0.5")
"""
TRIAL = """import os, sys
print("loss", float(os.environ["LR"]) * 2)
sys.exit(3 if os.environ["LR"] + os.environ["SEED"] == "0.12" else 0)
"""


@pytest.fixture
def short() -> Iterator[Muster]:
    """In a directory of a short name, as people have it: paths are shown whole."""
    with tempfile.TemporaryDirectory(prefix="day", ignore_cleanup_errors=True) as directory:
        muster = Muster(Path(directory), forks=False)
        yield muster
        muster.end()


@pytest.mark.full
def test_a_day(short: Muster) -> None:
    """Every line fits, which `Shell` asserts of each command."""
    shell = Shell(short)
    assert "the embedded cluster is at https://127.0.0.1:" in shell.run("muster up --detach")

    short.file("train.py", TRAIN.format('sys.exit("data.txt is missing")'))
    told = shell.run("muster run train.py", 2)
    assert told.lines == ["train.py is a program, not a job file; write: muster run -- python3 train.py"]
    ran = shell.run("muster run --cpus 0.1 -- python3 train.py", 1)
    name = ran.lines[0].partition(" ")[0]
    assert re.fullmatch(r"train-[0-9a-f]{5}", name), ran
    assert "│ data.txt is missing" in ran
    assert "failed in 0:" in ran
    assert "exited with code 1 on" in ran
    assert any(line.startswith(name) and "✗  exit 1 on" in line for line in ran.lines), ran

    why = shell.run("muster why")
    assert "printed last: reading data.txt data.txt is missing" in why
    assert "submitted as: muster run --cpus 0.1 -- python3 train.py" in why
    assert [line.partition(" │ ")[2] for line in shell.run("muster logs --failed").lines] == [
        "reading data.txt",
        "data.txt is missing",
    ]
    got = shell.run("muster get train")
    assert f"directory: ~/home/checkpoints/default/{name}." in got
    [header, pod] = got.table("POD")
    assert header == ["POD", "NODE", "PHASE", "EXIT", "RESTARTS", "AGE", "REASON"]
    assert (pod[2], pod[3], pod[6]) == ("Failed", "1", "Error")

    short.file("train.py", TRAIN.format(""))
    assert shell.run("muster retry train").lines == [f"{name}-r1"]
    assert "│ step 1, loss 0.5" in shell.run("muster logs -f")
    shell.begin("muster run --cpus 0.1 --name long -- sleep 600")
    shell.until("1 of 1 running")
    shell.type("\x03")
    assert "cancelled" in shell.end(130)

    assert shell.run("muster init sweep").lines == [
        "sweep.yaml written; edit it, then: muster run sweep.yaml"
    ]
    short.file("trial.py", TRIAL)
    shape = (short.cwd / "sweep.yaml").read_text()
    for was, now in (
        ("train.py", "trial.py"), ("retries: 1", "retries: 0"), ("# onJobFailure", "onJobFailure"),
        ("cpus: 0.5", "cpus: 0.1"), ("memory: 1 ", "memory: 0.1 "),
    ):  # fmt: skip
        assert was in shape
        shape = shape.replace(was, now)
    short.file("sweep.yaml", shape)
    assert "sweep.yaml: 4 independent pods: trial 4" in shell.run("muster check sweep.yaml")
    swept = shell.run("muster run sweep.yaml")
    assert "3 succeeded · 1 failed (indexes trial-0: 1)" in swept
    assert sum(line.startswith("trial 0/") for line in swept.lines) == 4
    table = shell.run("muster get sweep --table").table("INDEX")
    assert table[0] == ["INDEX", "LR", "SEED", "STATE", "EXIT", "STARTS"]
    assert table[2] == ["1", "0.1", "2", "failed", "3", "1"]
    assert [row[3] for row in table[1:]].count("succeeded") == 3
    assert len(shell.run("muster get sweep --table --failed").table("INDEX")) == 2
    assert "loss 0.2" in shell.run("muster logs sweep --failed")
    short.file("trial.py", "print('mended')")
    again = shell.run("muster retry sweep")
    assert again.lines[0].endswith("-r1")
    assert "1 index of" in again
    assert "│ mended" in shell.run("muster logs -f sweep")

    listed = shell.run("muster list").table("NAME")
    assert listed[0] == ["NAME", "STATE", "PODS", "TIME", "ENDED", "NOTE"]
    assert [row[1] for row in listed[1:]] == ["failed", "succeeded", "succeeded", "succeeded"]
    assert listed[1][5] == "exit 1, BackoffLimitExceeded"
    week, *_ = shell.run("muster usage").table("WEEK")[1:]
    assert week[1:4] == ["default", "default", "5"]
    runs = shell.run("muster history train").table("NAME")
    assert [row[:2] for row in runs[1:]] == [[name, "failed"], [f"{name}-r1", "succeeded"]]
    assert "trial 0" in str(shell.run("muster timeline sweep"))

    shell.begin("muster prune")
    assert any(line.startswith("4 finished jobs, the output of") for line in shell.until("[y/N]"))
    shell.type("y\n")
    assert "removed 4 finished jobs" in shell.end()
    assert shell.run("muster list").lines == ["no jobs"]
    assert "stopped" in shell.run("muster down")
    shell.close()
