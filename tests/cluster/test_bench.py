"""`make bench-cluster` in small: that it measures what it says, not how fast anything is."""

import subprocess
import sys

from tests.cluster.control_plane import built
from tests.patience import LONGEST


def test_the_schedulers_are_measured_side_by_side() -> None:
    built()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "bench.kubernetes",
            "--rows",
            "500×20",
            "--scale",
            "0.01",
            "--figures",
            "refused",
        ],
        capture_output=True,
        text=True,
        timeout=LONGEST,
    )
    assert done.returncode == 0, done.stderr
    (_, _, *lines), (_, _, *figures), _ = (part.splitlines() for part in done.stdout.split("\n\n"))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    live = [("500×20", name) for name in ("muster", "kube-scheduler", "native")]
    before = [("500×20, before", name) for name in ("muster", "kube-scheduler", "bare")]
    assert [(row, name) for row, name, *_ in rows] == [*live, *before]
    assert all(float(rate) > 0 for _, _, rate, *_ in rows)
    writes = {(row, name): float(per_pod) for row, name, _, _, _, per_pod, _ in rows}
    assert writes["500×20, before", "bare"] == 1
    assert writes["500×20, before", "muster"] <= 1 + 3 / 20, "three writes besides the binds of a gang"
    assert writes["500×20", "muster"] <= 2 + 3 / 20, "and one for each pod that comes late"
    told = [[cell.strip() for cell in line.strip("|").split("|")] for line in figures]
    assert any(what.startswith("500×20: × kube-scheduler") for what, *_ in told)
    assert any(what.startswith("cannot fit") for what, *_ in told)
    assert {result for *_, result in told} <= {"met", "missed"}
