"""Whole commands, as a person waits for them: `muster run` of a pod that does nothing, and `--help`.

Both are paired with a floor in the same run: the start of an interpreter that imports typer.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

RUNS: Final = 7
JOB: Final = """apiVersion: v1
kind: Pod
metadata: {name: one}
spec:
  restartPolicy: Never
  containers: [{name: main, command: ["true"]}]
"""


def run() -> dict[str, float]:
    """Seconds, medians of whole processes; ratios of medians."""
    muster = Path(sys.executable).with_name("muster")
    typer, help_ = _paired([sys.executable, "-c", "import typer"], [str(muster), "--help"])
    with tempfile.TemporaryDirectory() as directory:
        job = Path(directory) / "job.yaml"
        job.write_text(JOB)
        times = []
        for number in range(RUNS):
            home = f"{directory}/{number}"
            times.append(_seconds([str(muster), "run", str(job)], home=home))
            _seconds([str(muster), "down"], home=home)  # or the host would be leaving during the next run
    return {
        "import typer, s": typer,
        "muster --help, s": help_,
        "muster --help, × import typer": help_ / typer,
        "muster run of `true`, cold home, s": statistics.median(times),
    }


def _paired(*commands: list[str]) -> list[float]:
    """The median of each command, taken in turns."""
    times: list[list[float]] = [[] for _ in commands]
    for _ in range(RUNS + 1):
        for command, taken in zip(commands, times, strict=True):
            taken.append(_seconds(command))
    return [statistics.median(taken[1:]) for taken in times]  # the first warms the caches up


def _seconds(command: list[str], home: str = "") -> float:
    environment = {**os.environ, "MUSTER_HOME": home} if home else None
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - begin
