"""The Philly trace as a table: CSV of `timestamp,duration,num_gpus,gpu_time,cluster`, one line per job.

Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", ATC'19. The
table has no machines, so they must be given. It has no estimates either: the estimate is the run time.
Lines are in no order; they are sorted here, which takes 24 bytes per job of memory.

Model: a job of n GPUs is as few pods as nodes of the largest kind allow, one per such node and one for what
remains. The table does not tell how a job was really spread.
"""

from array import array
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from muster.core.words.events import NodeChanged
from muster.core.words.gang import GangId, PodSet, Shape
from muster.sim.readers import table
from muster.sim.readers.lines import shown
from muster.sim.trace import WHOLE, Job, Tally, Trace, TraceError, capacity, only, pieces

RESOURCE: Final = "nvidia.com/gpu"
HEADER: Final = ("timestamp", "duration", "num_gpus", "gpu_time", "cluster")
#: One job; ours to bound, as the core's places of it are.
_MOST: Final = 100_000


class Philly(Trace):
    resource = RESOURCE

    def __init__(self, path: Path, nodes: Sequence[NodeChanged] | None, skip_bad: bool = False) -> None:
        table.check(path, HEADER)
        if not nodes:
            raise TraceError(
                f'{path}: the table has no machines; give them, for example --nodes "250 x {RESOURCE}=8"'
            )
        self._path, self._skip_bad = path, skip_bad
        self.nodes = only(nodes, RESOURCE)
        self._capacity = capacity(nodes, RESOURCE) // WHOLE
        self._largest = max(pieces(node, RESOURCE) for node in nodes)
        if not self._largest:
            raise TraceError(f'--nodes: none of them has {RESOURCE}; for example "250 x {RESOURCE}=8"')

    def jobs(self, tally: Tally) -> Iterator[Job]:
        times, durations, gpus = array("d"), array("d"), array("q")
        for time, duration, count in table.read(self._path, HEADER, _row, tally, self._skip_bad):
            if count <= 0:
                tally.filtered["no GPUs"] += 1
            elif duration <= 0:
                tally.filtered["no run time"] += 1
            elif count > self._capacity:
                tally.filtered["larger than the machine"] += 1
            else:
                times.append(time)
                durations.append(duration)
                gpus.append(count)
        if not times:
            return
        for n, i in enumerate(np.argsort(np.frombuffer(times), kind="stable").tolist()):
            pod_sets = _pod_sets(gpus[i], self._largest)
            yield Job(
                GangId(f"philly/{n:09}"), times[i], durations[i], durations[i], pod_sets, gpus[i] * WHOLE
            )


def begins(text: str) -> bool:
    """Whether this is the table's header."""
    return tuple(text.split(",")) == HEADER


def _row(row: table.Row) -> tuple[float, float, int]:
    """Seconds since the epoch (the table's clock has no zone), seconds, GPUs."""
    duration, gpus = row.number("duration"), row.whole("num_gpus", _MOST)
    return _time(row.fields[0], row.place("timestamp")), duration, gpus


def _time(text: str, where: str) -> float:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise TraceError(
            f"{where}: {shown(text)} is not a time; expected such as 2017-10-09 07:01:55"
        ) from None
    return time.replace(tzinfo=UTC).timestamp()


@cache
def _pod_sets(gpus: int, largest: int) -> tuple[PodSet, ...]:
    """Bounded by the distinct sizes of jobs. One object per size, as the core likes it."""
    whole, rest = divmod(gpus, largest)
    sets = []
    if whole:
        sets.append(PodSet("full", Shape(((RESOURCE, largest),)), whole, whole))
    if rest:
        sets.append(PodSet("rest", Shape(((RESOURCE, rest),)), 1, 1))
    return tuple(sets)
