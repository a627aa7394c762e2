"""Replays of real traces through the whole core, explanations off: seconds and memory.

The traces are not ours to hand on, and are looked for under `$MUSTER_TRACES`; without it there is nothing to
measure. Each replay has a process of its own, so that its memory is its own, too.
"""

import os
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from muster.sim.engine import Pass, replay
from muster.sim.metrics import Recorder
from muster.sim.policies import policy
from muster.sim.readers.swf import Swf
from muster.sim.trace import Tally, capacity

#: (name in figures, file, policy)
REPLAYS: Final = (
    ("KTH-SP2", "KTH-SP2-1996-2.swf.gz", "pack"),
    ("KTH-SP2", "KTH-SP2-1996-2.swf.gz", "easy"),
    ("RICC-2010", "RICC-2010-2.swf.gz", "pack"),
    ("RICC-2010", "RICC-2010-2.swf.gz", "easy"),
)


def run() -> dict[str, float]:
    root = os.environ.get("MUSTER_TRACES")
    figures: dict[str, float] = {}
    for name, file, deciding in REPLAYS:
        path = Path(root or "") / "swf" / file
        if root is None or not path.exists():
            print(f"  no {name}: $MUSTER_TRACES names the folder with swf/{file}")
            continue
        with get_context("spawn").Pool(1) as pool:
            seconds, megabytes = pool.apply(one, (path, deciding))
        figures[f"replay {name}, {deciding}, s"] = seconds
        figures[f"replay {name}, {deciding}, MB"] = megabytes
    return figures


def one(path: Path, deciding: str) -> tuple[float, float]:
    """Seconds, and MB resident at most."""
    trace = Swf(path)
    recorder = Recorder(capacity(trace.nodes, trace.resource))
    started = time.perf_counter()
    replay(
        policy(deciding)(),
        trace.nodes,
        trace.jobs(Tally()),
        recorder,
        Pass.EVENT,
        resource=trace.resource,
    )
    seconds = time.perf_counter() - started
    return seconds, resident_at_most()


def resident_at_most() -> float:
    """MB, of this process; what `getrusage` tells is at least what its parent had when it was started."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
    return int(line.split()[1]) / 1024
