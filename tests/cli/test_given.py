"""What `run` and `submit` make of a file, of a command, and of what is neither."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from muster.cli import main as cli

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line in this process; its exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "home"))
    (tmp_path / "train.py").write_text("")
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "job.yaml").write_text("")

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["muster", *words])
        with pytest.raises(SystemExit) as exit:
            cli.main()
        return int(exit.value.code or 0), *capsys.readouterr()

    return run


@pytest.mark.parametrize("verb", ["run", "submit"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("train.py", "train.py is a program, not a job file; write: muster {} -- python3 train.py"),
        ("train.py --epochs 3", "write: muster {} -- python3 train.py --epochs 3"),
        ("--gang train.py -n 3", "write: muster {} --gang -- python3 train.py -n 3"),
        ("python3 train.py", "write: muster {} -- python3 train.py"),
        ("tool", "write: muster {} -- ./tool"),
        ("", "name a job file, or write a command: muster {} -- python3 train.py"),
        ("--", "no command after --"),
        ("job.yaml -- true", "job.yaml and a command are both given; keep one"),
        ("job.yaml --gpus 1", "--gpus is for a command after --; job.yaml says it itself"),
        ("job.yaml --count 2", "--count is for a command after --"),
        ("job.yaml --print", "--print is for a command after --"),
        ("--memory 64GB -- true", "--memory 64GB: '64GB' is not a quantity; write 64Gi"),
        ("--env A -- true", "A is not set here; write A=VALUE"),
        ("--env-file nosuch -- true", "nosuch: cannot be read"),
        ("--notify ftp://host/x -- true", "--notify: write an http:// or https:// URL with a host"),
        ("--notify nosuch-program -- true", "--notify: there is no program nosuch-program"),
        ("--notify true --context c -- true", "--notify is for the embedded cluster; on a real one write:"),
        ("--frobnicate job.yaml", "No such option: --frobnicate"),
    ],
)
def test_what_cannot_be_run_is_answered_with_what_to_write(
    run: Run, monkeypatch: pytest.MonkeyPatch, verb: str, words: str, said: str
) -> None:
    monkeypatch.delenv("A", raising=False)
    code, _, err = run(verb, *words.split())
    assert code == 2
    assert said.format(verb) in err


def test_the_job_file_of_a_command_is_shown(run: Run) -> None:
    words = "run --gpus 1 --queue research --env A=1 --print -- python3 train.py --print --gpus 7"
    code, out, err = run(*words.split())
    job = yaml.safe_load(out)
    assert (code, err) == (0, "")
    assert job["metadata"] == {"generateName": "train-", "labels": {"muster.dev/queue": "research"}}
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["python3", "train.py", "--print", "--gpus", "7"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 1}
    assert container["env"] == [{"name": "A", "value": "1"}]
