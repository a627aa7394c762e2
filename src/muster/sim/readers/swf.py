"""The Standard Workload Format of the Parallel Workloads Archive.

18 columns of numbers, -1 where unknown; comments begin with `;`, and those at the top are a header
(`; MaxProcs: 100`). <https://www.cs.huji.ac.il/labs/parallel/workload/swf.html>

Model: one node with MaxProcs CPUs (MaxNodes, if that is all the header has), or the nodes given; a job is a
gang of places of one CPU: as many as requested (column 8), else as allocated (5). A job that exceeded its
estimate (9) was killed then: its run time is the lesser of the two. Left out are jobs larger than the
machine, of no processors or no run time, and, where users' estimates count, without one (the filter of
Gaussier et al., SC'15).
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from operator import le
from pathlib import Path
from typing import Final

from muster.core.words.events import NodeChanged
from muster.core.words.gang import GangId, NodeName, PodSet, Shape
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
_MACHINE: Final = re.compile(r";\s*(MaxProcs|MaxNodes)\s*:\s*(\S+)", re.IGNORECASE)
#: What one place of a job asks for.
_PLACE: Final = Shape(((RESOURCE, PIECE[RESOURCE]),))
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
        before = (-1.0, -1.0)  # job number and submit time
        for line, text in lines(self._path):
            fields = text.split()
            if not fields or fields[0].startswith(";"):
                continue
            row = _sound(fields, before) if "_" not in text else None
            if row is None:
                error = _fault(fields, before, f"{self._path}, line {line}")
                if not self._skip_bad:
                    raise error
                tally.drop(error)
                continue
            before = (row[JOB], row[SUBMIT])
            job = self._job(row, tally)
            if job is not None:
                yield job

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


def _sound(fields: list[str], before: tuple[float, float]) -> list[float] | None:
    """The columns as numbers; None if anything is wrong with them."""
    try:
        row = list(map(float, fields))
    except ValueError:
        return None
    if len(row) != len(COLUMNS) or not all(map(le, _LEAST, row)) or max(row) > LARGEST:  # a NaN is not `le`
        return None
    if not (row[JOB].is_integer() and row[ALLOCATED].is_integer() and row[PROCESSORS].is_integer()):
        return None
    return row if row[JOB] > before[0] and row[SUBMIT] >= before[1] else None


def _fault(fields: list[str], before: tuple[float, float], where: str) -> TraceError:
    """What is wrong with a line that is not sound."""
    if len(fields) != len(COLUMNS):
        return TraceError(
            f"{where}: {len(fields)} columns; a line of SWF has {len(COLUMNS)} numbers between blanks"
        )
    places = [f"{where}, column {column} ({name})" for column, name in enumerate(COLUMNS, 1)]
    try:
        for column, (text, place, low) in enumerate(zip(fields, places, _LEAST, strict=True)):
            number(text, place, low, whole=column in (JOB, ALLOCATED, PROCESSORS))
    except TraceError as error:
        return error
    column, least = (SUBMIT, before[1]) if float(fields[JOB]) > before[0] else (JOB, before[0])
    return TraceError(
        f"{places[column]}: {shown(fields[column])} is out of order; the job before has {least:.15g}"
    )


@cache
def _pod_sets(processors: int) -> tuple[PodSet, ...]:
    """Bounded by the machine's size. One object per size: that is how the core knows equal gangs."""
    return (PodSet("main", _PLACE, processors, processors),)


def _machine(path: Path) -> NodeChanged:
    """The node that the header tells of."""
    found: dict[str, int] = {}
    for line, text in lines(path):
        if text.strip() and not text.lstrip().startswith(";"):
            break
        match = _MACHINE.match(text.strip())
        if match is not None:
            try:
                value = int(match[2])
            except ValueError:
                value = 0
            if not 0 < value <= _MOST:
                told = f"{match[1]} {match[2][:20]}; expected 1 to {_MOST}, or --nodes '1 x cpu=N'"
                raise TraceError(f"{path}, line {line}: {told}")
            found[match[1].lower()] = value
    processors = found.get("maxprocs", found.get("maxnodes"))
    if processors is None:
        raise TraceError(
            f"{path}: no `; MaxProcs: N` in its header; if this is SWF, give the machine: --nodes '1 x cpu=N'"
        )
    return NodeChanged(NodeName("machine"), ((RESOURCE, processors * PIECE[RESOURCE]),))
