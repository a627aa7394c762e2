"""What a job remembers of its submission (command line, directory, commit), and its own directories."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from muster.app.wiring.cluster import Target
from muster.cli.errors import Failure
from muster.cli.submission import _command_line, copied, told
from muster.names import SUBMITTED_FROM
from tests.cli.binary import Muster, until

JOB = """apiVersion: batch/v1
kind: Job
metadata: {name: saves}
spec:
  backoffLimit: 3
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        command: [python3, train.py]
        resources: {requests: {cpu: 100m}}
"""
#: Fails until it finds what an earlier attempt has saved.
TRAIN = """import os, sys
saved = os.path.join(os.environ["MUSTER_CHECKPOINT_DIR"], "saved")
if not os.path.exists(saved):
    open(saved, "w").close()
    sys.exit(1)
print("continued in", os.path.basename(os.getcwd()), os.environ["PYTHONUNBUFFERED"])
"""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("run job.yaml --gang", "muster run job.yaml --gang"),
        (
            "run -e A=secret --env B=secret --env=C=secret job.yaml",
            "muster run -e A --env B --env=C job.yaml",
        ),
        ("run -eA=secret job.yaml", "muster run -eA job.yaml"),
        ("run -- env -e A=1", "muster run -- env -e A=1"),
        ("run --notify https://host/key job.yaml", "muster run --notify ... job.yaml"),
        ("run --notify=https://host/key job.yaml", "muster run --notify=... job.yaml"),
    ],
)
def test_a_command_line_is_told_without_values_of_variables(words: str, told: str) -> None:
    assert _command_line(words.split()) == told


def test_a_copy_is_for_the_embedded_cluster() -> None:
    with pytest.raises(
        Failure, match="--copy is for the embedded cluster; on a real one an image has the files"
    ):
        copied(Target("a-kubeconfig"))


def test_a_job_runs_from_its_copy_and_continues_from_what_it_saved(muster: Muster) -> None:
    def git(*words: str) -> None:
        own = ["-c", "user.name=me", "-c", "user.email=me@here"]
        subprocess.run(["git", *own, *words], cwd=muster.cwd, check=True, capture_output=True)

    muster.file("train.py", TRAIN)
    muster.file("job.yaml", JOB)
    git("init")
    git("add", ".")
    git("commit", "-m", "one")
    muster.file("job.yaml", JOB + "# edited\n")
    done = muster.run("run", "job.yaml", "--copy", "--env", "A=secret")
    job = yaml.safe_load(muster.run("get", "saves", "-o", "yaml").out)
    source = json.loads(job["metadata"]["annotations"][SUBMITTED_FROM])
    copy = Path(source["copy"])
    assert f"continued in {copy.name} 1" in done.out
    assert source["command"] == "muster run job.yaml --copy --env A"
    assert source["cwd"] == str(muster.cwd)
    assert (len(source["commit"]), source["dirty"]) == (40, True)
    told = muster.run("get", "saves").lines
    assert f"in {muster.cwd} · commit {source['commit'][:12]}, with changes" in told
    directories = [line.removeprefix("directory: ") for line in told if line.startswith("directory: ")]
    checkpoints = f"{muster.home}/checkpoints/default/saves.{job['metadata']['uid']}"
    assert directories == [checkpoints, str(copy)]
    assert f"  submitted as: {source['command']}" in muster.run("why", "saves").lines


def test_whom_a_job_tells_is_named_for_the_embedded_cluster_alone() -> None:
    with pytest.raises(
        Failure, match="--notify is for the embedded cluster; on a real one write: muster run"
    ):
        told("true", Target("a-kubeconfig"))
    with pytest.raises(Failure, match="--notify: there is no program nosuch"):
        told("nosuch", Target())


@pytest.mark.full
def test_a_program_and_the_next_host_are_told_what_happens_to_a_job(muster: Muster) -> None:
    tell = muster.cwd / "tell"
    tell.write_text(
        # Each line is one write: several notifications may be told at the same time.
        "#!/bin/sh\nbody=$(cat)\n"
        """printf '%s\\n' "$body" >> bodies\n"""
        'echo "$MUSTER_EVENT $MUSTER_STATE $MUSTER_JOB" >> told\n'
    )
    tell.chmod(0o700)
    (muster.cwd / "told").touch()  # a job's end may be told after its `run` has returned
    muster.run("run", "--notify", "./tell", "--name", "fails", "--", "sh", "-c", "exit 3", code=3)
    muster.run("submit", "--notify", "./tell", "--name", "sleeps", "--", "sleep", "1000")
    until(lambda: "start running sleeps\n" in (muster.cwd / "told").read_text(), "the start is told")
    muster.run("down")
    muster.run("cancel", "sleeps")
    until(lambda: "end cancelled sleeps\n" in (muster.cwd / "told").read_text(), "the end is told")
    lines = (muster.cwd / "told").read_text().splitlines()
    assert sorted(lines) == [
        "end cancelled sleeps",
        "end failed fails",
        "start running fails",
        "start running sleeps",
    ]
    bodies = map(json.loads, (muster.cwd / "bodies").read_text().splitlines())
    assert [each["exitCode"] for each in bodies if each["text"].startswith("fails has ended")] == [3]
    kept = json.dumps(yaml.safe_load(muster.run("get", "fails", "-o", "yaml").out))
    assert "./tell" not in kept, "what may be a key is in no object"
