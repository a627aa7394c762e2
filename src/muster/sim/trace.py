"""A trace: a machine, what happens to it, and the jobs that were submitted to it, in order of submission.

A job runs for its run time when all its places run. One with a minimum below its size may start smaller, and
then takes as much longer. One resource is counted: processors or GPUs, in thousandths of a piece, since GPUs
are shared. Jobs are read as they are needed, so a trace may be larger than memory. It is read twice, first
for a survey: an error in line 400,000 is reported before a long replay, not in the middle of it.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf
from typing import Final, NamedTuple

from muster.core.words.events import Event, NodeChanged
from muster.core.words.gang import Gang, GangId, Gather, NodeName, PodSet, Shape
from muster.names import GPU, GPU_SHARE

#: What one piece is in the core's integers: processors are milli-CPU there.
#: Lines of a trace that cannot be read, and are left out.
MOST_BAD: Final = 100_000
PIECE: Final = {"cpu": 1000}
#: What one piece is in a replay's: sizes, capacities and what is in use.
WHOLE: Final = 1000


class TraceError(ValueError):
    """A trace cannot be read or replayed; the message names file, line and column, and what was expected."""


class Estimates(StrEnum):
    """The estimate of the run time before the job runs: the user's, or the exact run time."""

    USER = "user"
    EXACT = "exact"


class Clock(StrEnum):
    """What the times of a trace count."""

    SECONDS = "seconds"
    #: jobs that have arrived, where a trace has an order but no times
    ARRIVALS = "arrivals"


class Job(NamedTuple):
    """A job of a trace; times in seconds. A tuple, since a trace has hundreds of thousands."""

    id: GangId
    #: on the trace's own clock
    submitted: float
    #: from start to end, with all places; infinite if it never ends
    run_time: float
    #: the run time that policies that look ahead use
    estimate: float
    pod_sets: tuple[PodSet, ...]
    #: thousandths of the trace's resource, all places together
    size: int
    #: places without which it does not run, besides those of each pod set; None: all
    min_count: int | None = None
    namespace: str = ""
    queue: str = "default"
    priority: int = 0
    #: run time after which it is killed; None: its estimate
    limit: float | None = None
    #: time between two checkpoints; None: all progress is lost when it is stopped
    checkpoint: float | None = None
    #: time that a start after a stop takes before the job resumes
    restart_cost: float = 0.0
    min_run_time: float = 0.0
    preemptible: bool = True
    gather: tuple[Gather, ...] = ()
    exclusive: str = ""
    #: its n-th run fails after so long
    failures: tuple[float, ...] = ()
    #: whether it waits if it cannot start at once; else it is dropped
    waits: bool = True
    #: file and line, for errors
    where: str = ""

    @property
    def places(self) -> int:
        return sum(pod_set.count for pod_set in self.pod_sets)

    @property
    def least(self) -> int:
        """Return the number of places that it needs to run."""
        return self.places if self.min_count is None else self.min_count

    def gang(self, saved: float | None = None) -> Gang:
        """Return the gang as submitted; `saved`: seconds of progress that are saved, if it has run before."""
        left = self.estimate if saved is None else self.estimate - saved + self.restart_cost
        return Gang(
            self.id,
            self.pod_sets,
            self.least,
            self.submitted,
            priority=self.priority,
            queue=self.queue,
            namespace=self.namespace,
            gather=self.gather,
            exclusive=self.exclusive,
            limit=left if self.limit is None else self.limit,
            estimate=left,
            checkpoint_every=self.checkpoint,
            restart_cost=self.restart_cost,
            min_run_time=self.min_run_time,
            preemptible=self.preemptible,
        )


@dataclass(frozen=True, slots=True)
class Outage:
    """A node fails, with all that runs on it, or is back."""

    at: float
    node: NodeName
    up: bool


@dataclass(slots=True)
class Tally:
    """Counts of what a reader left out."""

    #: jobs that are well-formed but excluded from a replay, by reason
    filtered: Counter[str] = field(default_factory=Counter)
    #: lines that could not be read
    bad: int = 0
    first_bad: str = ""

    def drop(self, error: TraceError) -> None:
        self.bad += 1
        self.first_bad = self.first_bad or str(error)
        if self.bad > MOST_BAD:
            raise TraceError(
                f"{self.first_bad}; more than {MOST_BAD:,} lines cannot be read: is this a trace?"
            )


class Trace(ABC):
    """A trace in a format; opening one reads no more than it has to. Methods raise TraceError."""

    #: what is counted
    resource: str
    nodes: Sequence[NodeChanged]
    #: in order of time
    outages: Sequence[Outage] = ()
    #: events that the scheduler receives beforehand, besides nodes: queues, layers of the network
    rules: Sequence[Event] = ()
    #: whether a seed makes a difference
    draws: bool = False
    clock: Clock = Clock.SECONDS
    #: whether it reaches a load by what it draws; else the time between arrivals is stretched
    tunes: bool = False

    def drawn(self, seed: int, load: float | None) -> "Trace":
        """Return the trace for this seed; if it `tunes`, with so much load (None: unchanged)."""
        return self

    @abstractmethod
    def jobs(self, tally: Tally) -> Iterator[Job]:
        """Yield the jobs in order of submission, equal times in order of id."""


@dataclass(frozen=True, slots=True)
class Survey:
    """Totals of a trace. Times in seconds, `work` in thousandths of a piece times seconds."""

    jobs: int
    first: float
    last: float
    work: float
    tally: Tally
    #: thousandths of all jobs together
    size: int = 0

    def offered(self, capacity: int) -> float:
        """Return the offered load: the work that arrives, over what the machine could do while it arrives.

        For jobs that never end: their total request, over the machine.
        """
        if self.work == inf:
            return self.size / capacity
        span = self.last - self.first
        return self.work / (capacity * span) if span > 0 else float("inf")


def survey(trace: Trace, turn: Callable[[int], None] = lambda read: None) -> Survey:
    """Read a trace once; `turn` receives the number of jobs read. Raises TraceError, also for no jobs."""
    tally = Tally()
    count, first, last, work, total = 0, 0.0, 0.0, 0.0, 0
    for job in trace.jobs(tally):
        first = job.submitted if not count else first
        count, last = count + 1, job.submitted
        work += job.size * job.run_time if job.size else 0.0
        total += job.size
        turn(count)
    if not count:
        left_out = [f"{n} × {reason}" for reason, n in sorted(tally.filtered.items())]
        left_out += [f"{tally.bad} × unreadable, first: {tally.first_bad}"] if tally.bad else []
        raise TraceError(f"no job to replay; left out: {'; '.join(left_out) or 'nothing, no line is a job'}")
    return Survey(count, first, last, work, tally, total)


def stretch(jobs: Iterable[Job], first: float, factor: float) -> Iterator[Job]:
    """The same jobs, the time between arrivals multiplied by `factor`."""
    for job in jobs:
        yield job._replace(submitted=first + (job.submitted - first) * factor)


def only(nodes: Iterable[NodeChanged], resource: str) -> list[NodeChanged]:
    """Return the nodes with only this resource: a trace does not describe others, nor `pods`."""
    return [
        replace(node, capacity=tuple(amount for amount in node.capacity if amount[0] == resource))
        for node in nodes
    ]


def capacity(nodes: Iterable[NodeChanged], resource: str) -> int:
    """Thousandths of a resource on all nodes."""
    return sum(dict(node.capacity).get(resource, 0) for node in nodes) * WHOLE // PIECE.get(resource, 1)


def size(shape: Shape, resource: str) -> int:
    """Thousandths of a resource that one pod takes; of GPUs also its share of one."""
    requests = dict(shape.requests)
    share = requests.get(GPU_SHARE, 0) if resource == GPU else 0
    return requests.get(resource, 0) * WHOLE // PIECE.get(resource, 1) + share


def least_size(job: Job, resource: str) -> int:
    """Thousandths of a resource without which a job cannot run: all minima, with the smallest pods."""
    sets = sorted(
        (size(pod_set.shape, resource), pod_set.count, pod_set.min_count) for pod_set in job.pod_sets
    )
    more = job.least - sum(least for _, _, least in sets)
    total = 0
    for each, count, least in sets:
        extra = max(min(more, count - least), 0)
        total += each * (least + extra)
        more -= extra
    return total


def pieces(node: NodeChanged, resource: str) -> int:
    """Whole pieces of a resource on a node."""
    return dict(node.capacity).get(resource, 0) // PIECE.get(resource, 1)
