"""The demo's first scene: pod by pod, no job runs, however slow the machine is."""

from collections import Counter
from pathlib import Path

import pytest

from muster.app.demo import deadlock
from muster.app.wiring.embedded import running
from muster.app.wiring.state_directory import StateDirectory
from muster.embedded import nodespec
from muster.kube.clock import SystemClock

#: Nodes that play pods: none of these ends by itself, as a worker at its barrier.
PLAYED = f"{deadlock.NODES},runtime=none"


async def test_no_gpu_goes_from_one_stuck_job_to_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their patience ends at the same moment, also if it is none."""
    monkeypatch.setattr(deadlock, "LIMIT", 0)
    home = StateDirectory(tmp_path)
    home.make()
    async with running(home, nodespec.read(PLAYED), SystemClock()) as cluster:
        outcome = await deadlock.run(cluster.client, gangs=False, namespace="pod-by-pod")
    started = Counter(run.name.partition("-")[0] for run in outcome.runs if run.started is not None)
    assert started == {"red": 4, "blue": 4}
    assert outcome.succeeded == ()
    assert outcome.worked == 0
