"""A trace: a machine, and the jobs that were submitted to it, in order of submission.

Jobs are rigid: all of a job's places run from its start to its end. One resource is counted, in whole pieces
(processors, GPUs). Jobs are read as they are needed, so a trace may be longer than memory; it is read twice,
first for a survey: what is wrong with line 400,000 is said before a long replay, not in the middle of it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Protocol

from muster.core.events import NodeChanged
from muster.core.gang import GangId, PodSet

#: What one piece is in the core's integers: processors are milli-CPU there.
PIECE: Final = {"cpu": 1000}


class TraceError(ValueError):
    """A trace cannot be read or replayed; the message names file, line and column, and what was expected."""


class Estimates(StrEnum):
    """What the run time is thought to be before the job runs: what its user said, or exactly what it is."""

    USER = "user"
    EXACT = "exact"


@dataclass(frozen=True, slots=True)
class Job:
    id: GangId
    #: seconds on the trace's own clock
    submitted: float
    #: seconds from start to end
    run_time: float
    #: seconds; what policies that look ahead go by
    estimate: float
    pod_sets: tuple[PodSet, ...]
    #: pieces of the trace's resource
    size: int

    @property
    def places(self) -> int:
        return sum(pod_set.count for pod_set in self.pod_sets)


@dataclass(slots=True)
class Tally:
    """What a reader left out."""

    #: jobs that are well-formed but have no part in a replay, by reason
    filtered: Counter[str] = field(default_factory=Counter)
    #: lines that could not be read
    bad: int = 0
    first_bad: str = ""

    def drop(self, error: TraceError) -> None:
        self.bad += 1
        self.first_bad = self.first_bad or str(error)


class Trace(Protocol):
    @property
    def resource(self) -> str: ...

    @property
    def nodes(self) -> Sequence[NodeChanged]: ...

    def jobs(self, tally: Tally) -> Iterator[Job]:
        """In order of submission, equal times in order of id. Raises TraceError."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What a replay is going to meet. Times in seconds, `work` in pieces times seconds."""

    jobs: int
    first: float
    last: float
    work: float
    tally: Tally

    def offered(self, capacity: int) -> float:
        """Offered load: the work that arrives, over what the machine could do while it arrives."""
        span = self.last - self.first
        return self.work / (capacity * span) if span > 0 else float("inf")


def survey(trace: Trace) -> Survey:
    """Reads a trace once. Raises TraceError, also if it has no job."""
    tally = Tally()
    count, first, last, work = 0, 0.0, 0.0, 0.0
    for job in trace.jobs(tally):
        first = job.submitted if not count else first
        count, last = count + 1, job.submitted
        work += job.size * job.run_time
    if not count:
        left_out = [f"{n} × {reason}" for reason, n in sorted(tally.filtered.items())]
        left_out += [f"{tally.bad} × unreadable, first: {tally.first_bad}"] if tally.bad else []
        raise TraceError(f"no job to replay; left out: {'; '.join(left_out) or 'none, the trace is empty'}")
    return Survey(count, first, last, work, tally)


def stretch(jobs: Iterable[Job], first: float, factor: float) -> Iterator[Job]:
    """The same jobs, the time between arrivals multiplied by `factor`."""
    for job in jobs:
        yield replace(job, submitted=first + (job.submitted - first) * factor)


def only(nodes: Iterable[NodeChanged], resource: str) -> list[NodeChanged]:
    """The nodes with nothing but this resource: of others, and of `pods`, a trace says nothing."""
    return [
        replace(node, capacity=tuple(amount for amount in node.capacity if amount[0] == resource))
        for node in nodes
    ]


def capacity(nodes: Iterable[NodeChanged], resource: str) -> int:
    """Pieces of a resource on all nodes."""
    return sum(pieces(node, resource) for node in nodes)


def pieces(node: NodeChanged, resource: str) -> int:
    """Whole pieces of a resource on a node."""
    return dict(node.capacity).get(resource, 0) // PIECE.get(resource, 1)
