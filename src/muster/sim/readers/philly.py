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

from muster.core.events import NodeChanged
from muster.core.gang import GangId, PodSet, Shape
from muster.sim.readers.lines import lines, number, shown
from muster.sim.trace import WHOLE, Job, Tally, Trace, TraceError, capacity, only, pieces

RESOURCE: Final = "nvidia.com/gpu"
HEADER: Final = ("timestamp", "duration", "num_gpus", "gpu_time", "cluster")
#: One job; ours to bound, as the core's places of it are.
_MOST: Final = 100_000


class Philly(Trace):
    resource = RESOURCE

    def __init__(self, path: Path, nodes: Sequence[NodeChanged] | None, skip_bad: bool = False) -> None:
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
        for time, duration, count in self._rows(tally):
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

    def _rows(self, tally: Tally) -> Iterator[tuple[float, float, int]]:
        """Seconds since the epoch (the table's clock has no zone), seconds, GPUs."""
        header = True
        for line, text in lines(self._path):
            where = f"{self._path}, line {line}"
            fields = text.split(",")
            if header:
                header = False
                if tuple(fields) != HEADER:
                    raise TraceError(f"{where}: {shown(text)}; expected the header {','.join(HEADER)}")
                continue
            if not text:
                continue
            try:
                yield _row(fields, where)
            except TraceError as error:
                if not self._skip_bad:
                    raise
                tally.drop(error)


def begins(text: str) -> bool:
    """Whether this is the table's header."""
    return tuple(text.split(",")) == HEADER


def _row(fields: list[str], where: str) -> tuple[float, float, int]:
    if len(fields) != len(HEADER):
        raise TraceError(f"{where}: {len(fields)} columns; expected {len(HEADER)}: {','.join(HEADER)}")
    duration = number(fields[1], f"{where}, column 2 (duration)", 0)
    gpus = number(fields[2], f"{where}, column 3 (num_gpus)", 0, whole=True)
    if gpus > _MOST:
        raise TraceError(f"{where}, column 3 (num_gpus): {shown(fields[2])}; expected {_MOST} at most")
    return _time(fields[0], f"{where}, column 1 (timestamp)"), duration, int(gpus)


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
