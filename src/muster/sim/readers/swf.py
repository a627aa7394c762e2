"""The Standard Workload Format of the Parallel Workloads Archive.

18 columns of numbers, -1 where unknown; comments begin with `;`, and those at the top are a header
(`; MaxProcs: 100`). <https://www.cs.huji.ac.il/labs/parallel/workload/swf.html>

Model: one node with MaxProcs CPUs (MaxNodes, if that is all the header has), or the nodes given; a job is a
gang of places of one CPU. As many as requested (column 8), else as allocated (5). A job that outran its
estimate (9) was ended by then: its run time is the less of the two. Left out are jobs larger than the
machine, of no processors or no run time, and, where users' estimates count, without one (the filter of
Gaussier et al., SC'15).
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from muster.core.events import NodeChanged
from muster.core.gang import GangId, NodeName, PodSet, Shape
from muster.sim.readers.lines import LARGEST, lines, number, shown
from muster.sim.trace import PIECE, WHOLE, Estimates, Job, Tally, Trace, TraceError, capacity, only

RESOURCE: Final = "cpu"
COLUMNS: Final = (
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
)
JOB, SUBMIT, RUN, ALLOCATED, PROCESSORS, ESTIMATE = 0, 1, 3, 4, 7, 8
#: The least that each column may hold, if it is read.
_READ: Final = {JOB: 0, SUBMIT: 0, RUN: -1, ALLOCATED: -1, PROCESSORS: -1, ESTIMATE: -1}
_LEAST: Final = [_READ.get(column, -LARGEST) for column in range(len(COLUMNS))]
_WHOLE: Final = frozenset({JOB, ALLOCATED, PROCESSORS})
_MACHINE: Final = re.compile(r";\s*(MaxProcs|MaxNodes)\s*:\s*(\d+)", re.IGNORECASE)
#: Processors of one machine: milli-CPU have 32 bits in the core.
_MOST: Final = (2**31 - 1) // PIECE[RESOURCE]


class Swf(Trace):
    resource = RESOURCE

    def __init__(
        self,
        path: Path,
        nodes: Sequence[NodeChanged] | None = None,
        estimates: Estimates = Estimates.USER,
        skip_bad: bool = False,
    ) -> None:
        """Reads the header; raises TraceError."""
        self._path, self._exact, self._skip_bad = path, estimates is Estimates.EXACT, skip_bad
        self.nodes = only(nodes or [_machine(path)], RESOURCE)
        self._capacity = capacity(self.nodes, RESOURCE) // WHOLE

    def jobs(self, tally: Tally) -> Iterator[Job]:
        last = (-1.0, -1.0)  # job number and submit time
        for line, text in lines(self._path):
            fields = text.split()
            if not fields or fields[0].startswith(";"):
                continue
            try:
                row = self._row(fields, line, last)
            except TraceError as error:
                if not self._skip_bad:
                    raise
                tally.drop(error)
                continue
            last = (row[JOB], row[SUBMIT])
            job = self._job(row, tally)
            if job is not None:
                yield job

    def _row(self, fields: list[str], line: int, last: tuple[float, float]) -> list[float]:
        where = f"{self._path}, line {line}"
        if len(fields) != len(COLUMNS):
            raise TraceError(
                f"{where}: {len(fields)} columns; a line of SWF has {len(COLUMNS)} numbers between blanks"
            )
        row = _numbers(fields, where)
        for column, before in zip((JOB, SUBMIT), last, strict=True):
            if row[column] < before or (column == JOB and row[column] == before):
                raise TraceError(
                    f"{where}, column {column + 1} ({COLUMNS[column]}): {shown(fields[column])} is out of "
                    f"order; the job before has {before:.15g}"
                )
        return row

    def _job(self, row: list[float], tally: Tally) -> Job | None:
        run, estimate = row[RUN], row[ESTIMATE]
        processors = int(row[PROCESSORS] if row[PROCESSORS] > 0 else row[ALLOCATED])
        if max(row[PROCESSORS], row[ALLOCATED]) > self._capacity:
            tally.filtered["larger than the machine"] += 1
        elif processors <= 0:
            tally.filtered["no processors"] += 1
        elif run <= 0:
            tally.filtered["no run time"] += 1
        elif estimate <= 0 and not self._exact:
            tally.filtered["no requested time (replayable with exact estimates)"] += 1
        else:
            run = min(run, estimate) if estimate > 0 else run
            estimate = run if self._exact else estimate
            # fixed width: names in order are numbers in order
            id = GangId(f"swf/{int(row[JOB]):016}")
            return Job(id, row[SUBMIT], run, estimate, _pod_sets(processors), processors * WHOLE)
        return None


def begins(text: str) -> bool:
    """Whether this is a comment, or a job."""
    fields = text.split()
    return text.lstrip().startswith(";") or (len(fields) == len(COLUMNS) and all(map(_numeric, fields)))


def _numeric(text: str) -> bool:
    return text.removeprefix("-").replace(".", "", 1).isdecimal()


def _numbers(fields: list[str], where: str) -> list[float]:
    """The columns as numbers. What is wrong with one is found out only if anything is."""
    try:
        row = [float(text) for text in fields]
    except ValueError:
        row = []
    sound = all(low <= value <= LARGEST for low, value in zip(_LEAST, row, strict=False))  # so is no NaN
    if row and sound and all(row[column].is_integer() for column in _WHOLE):
        return row
    return [
        number(text, f"{where}, column {column + 1} ({name})", low, whole=column in _WHOLE)
        for column, (text, name, low) in enumerate(zip(fields, COLUMNS, _LEAST, strict=True))
    ]


@cache
def _pod_sets(processors: int) -> tuple[PodSet, ...]:
    """Bounded by the machine's size. One object per size: that is how the core knows equal gangs."""
    return (PodSet("main", Shape(((RESOURCE, PIECE[RESOURCE]),)), processors, processors),)


def _machine(path: Path) -> NodeChanged:
    """The node that the header tells of."""
    found: dict[str, int] = {}
    for line, text in lines(path):
        if text.strip() and not text.lstrip().startswith(";"):
            break
        match = _MACHINE.match(text.strip())
        if match is not None:
            value = int(match[2])
            if not 0 < value <= _MOST:
                raise TraceError(f"{path}, line {line}: {match[1]} {match[2][:20]}; expected 1 to {_MOST}")
            found[match[1].lower()] = value
    processors = found.get("maxprocs", found.get("maxnodes"))
    if processors is None:
        raise TraceError(
            f"{path}: no `; MaxProcs: N` in its header; if this is SWF, give the machine: --nodes '1 x cpu=N'"
        )
    return NodeChanged(NodeName("machine"), ((RESOURCE, processors * PIECE[RESOURCE]),))
