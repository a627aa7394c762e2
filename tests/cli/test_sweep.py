"""A sweep from its file to its retry, with real processes, as a person works with it."""

import csv
import json

from muster.names import SUBMITTED_FROM
from tests.cli.binary import Muster

SWEEP = """name: sweep
spec:
  operator: jobset
  command: |
    test -e sweep.yaml || exit 4
    echo "lr=$LR seed=$SEED index=$JOB_COMPLETION_INDEX"
    echo "acc=0.$SEED" > "$MUSTER_RESULT"
    cd "$MUSTER_CHECKPOINT_DIR"
    test -e fixed || test "$SEED" != 2 || { touch fixed; exit 3; }
  scheduling:
    matrix: {LR: [0.1], SEED: [1, 2, 3]}
  types:
    trial:
      parallelisms: 1
      resources: {cpus: 0.1, memory: 0.1}
"""


def test_failed_trials_are_found_and_run_again(muster: Muster) -> None:
    muster.file("sweep.yaml", SWEEP)
    muster.run("run", "sweep.yaml", code=3)
    (name,) = [job["name"] for job in muster.json("list", "--failed")]
    assert [pod.split()[0] for pod in muster.run("get", "sweep", "--failed").lines[-1:]] == ["trial-0-1"]
    assert muster.run("logs", "sweep", "--failed").lines == ["trial-0-1 │ lr=0.1 seed=2 index=1"]
    rows = list(csv.DictReader(muster.run("get", "sweep", "-o", "csv").lines))
    assert [(row["index"], row["SEED"], row["state"], row["exit"]) for row in rows] == [
        ("0", "1", "succeeded", "0"),
        ("1", "2", "failed", "3"),
        ("2", "3", "succeeded", "0"),
    ]
    assert [row["result"] for row in rows] == ["acc=0.1", "acc=0.2", "acc=0.3"]
    first = json.loads(muster.json("get", name)["metadata"]["annotations"][SUBMITTED_FROM])
    muster.cwd = muster.cwd.parent  # the programs run where they ran
    assert muster.run("retry").lines == [f"{name}-r1"]
    second = json.loads(muster.json("get", f"{name}-r1")["metadata"]["annotations"][SUBMITTED_FROM])
    assert (second["cwd"], second["command"]) == (first["cwd"], "muster retry")
    again = muster.run("retry", name, code=2)
    assert f"{name} has been retried already, as {name}-r1" in again.err
    assert "seed=2 index=1" in muster.run("logs", "-f", f"{name}-r1").out
    (trial,) = json.loads(muster.run("get", "sweep", "--table", "-o", "json").out)
    assert (trial["index"], trial["parameters"], trial["state"]) == (
        "1",
        {"LR": "0.1", "SEED": "2"},
        "succeeded",
    )
    assert SUBMITTED_FROM in muster.run("get", "sweep", "-o", "yaml").out
