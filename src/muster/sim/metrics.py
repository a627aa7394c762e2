"""What a replay measures. The names are those of `muster replay -o json`.

Times are seconds of the trace's clock, ratios lie between 0 and 1, and amounts are thousandths of the one
resource that the trace counts (processors, GPUs); only `work_lost` is in whole pieces. Time averages run
from the first submission to the last end; between two events nothing changes, so they are exact sums. Memory:
one float per finished job, for the percentile.
"""

from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from heapq import heappop, heappush
from statistics import fmean
from typing import TYPE_CHECKING, Final

import numpy as np

from muster.core.words.gang import GangId, NodeName, Place
from muster.sim.history import History
from muster.sim.trace import WHOLE, Job

if TYPE_CHECKING:
    from muster.sim.tracks import Course

#: Bounded slowdown: shorter jobs count as this long, seconds (Feitelson et al., 1997).
TAU: Final = 10.0


class Unit(Enum):
    """What a metric counts. The values are what `muster replay -o json` calls the units."""

    RATIO = "ratio"
    SECONDS = "seconds"
    COUNT = "count"
    #: pieces of the trace's resource × seconds
    WORK = "resource-seconds"


#: The metrics in the order in which they are shown.
UNITS: Final = {
    "allocation_ratio": Unit.RATIO,
    "utilisation": Unit.RATIO,
    "fragmentation": Unit.RATIO,
    "wait_mean": Unit.SECONDS,
    "wait_p95": Unit.SECONDS,
    "avg_bounded_slowdown": Unit.RATIO,
    "makespan": Unit.SECONDS,
    "preemptions": Unit.COUNT,
    "work_lost": Unit.WORK,
}


@dataclass(frozen=True, slots=True)
class Metrics:
    """One replay's figures; None where there is nothing to average.

    allocation_ratio      time average of allocated / capacity over the time in which what runs and what waits
                          together ask for at least the capacity: how full the machine gets when it could be
                          full (the GPU allocation ratio of Weng et al., ATC'23, for jobs that end). If
                          jobs that cannot start are dropped: mean of the same over the arrivals at which
                          total demand equals the final demand, to the percent of the capacity
    utilisation           time average of allocated / capacity over the makespan; what a job holds counts as
                          used (Feitelson, "Metrics for parallel job scheduling and their convergence", 2001)
    fragmentation         time average of free / capacity, counted only while a gang waits that asks for no
                          more than is free in total: free, wanted, and unusable (after Weng et al., ATC'23)
    wait_mean             mean time from submission to the start of the run that completed
    wait_p95              95th percentile of the same, linear between ranks (numpy's default)
    avg_bounded_slowdown  mean of max(1, (wait + run) / max(run, 10 s)) (Gaussier et al., SC'15)
    makespan              from the first submission to the last end
    preemptions           how often a running job was evicted so that another could run
    work_lost             pieces × seconds of work that was done and lost: since the last checkpoint of runs
                          that were preempted, that failed or whose node was lost
    """

    allocation_ratio: float | None
    utilisation: float | None
    fragmentation: float | None
    wait_mean: float | None
    wait_p95: float | None
    avg_bounded_slowdown: float | None
    makespan: float | None
    preemptions: float
    work_lost: float


class Stop(Enum):
    """Why a run was stopped before its end."""

    PREEMPTED = "preempted"
    FAILED = "failed"
    NODE_LOST = "node lost"


class Recorder:
    """Records what happens, in order of time; the numbers of jobs by state are public."""

    def __init__(self, capacity: int, history: History | None = None, course: "Course | None" = None) -> None:
        self._capacity, self._history, self._course = capacity, history, course
        self.submitted = self.running = self.finished = self.dropped = 0
        self.allocated = 0
        self.stops: Counter[Stop] = Counter()
        self._demand = 0
        #: what each running job's places take
        self._held: dict[GangId, int] = {}
        #: sizes of waiting jobs; the heap has each of them, and some sizes that no longer wait
        self._waiting: dict[int, int] = {}
        self._sizes: list[int] = []
        self._now = self._first = self._last_end = 0.0
        # integrals over time
        self._allocated_time = self._capacity_time = self._wanted_time = self._wanted_allocated_time = 0.0
        self._stranded_time = 0.0
        #: the integrals as of the last end: a job that never starts waits for ever
        self._makespan = (0.0, 0.0, 0.0, 0.0)
        self._waits = array("d")
        self._slowdowns = 0.0
        self._work_lost = 0.0
        #: what was allocated after each job that does not wait, by demand in percent of the capacity
        self._after_arrival: dict[int, list[float]] = {}

    def job_submitted(self, job: Job, now: float) -> None:
        if not self.submitted:
            self._now = self._first = now
        self._advance(now)
        self.submitted += 1
        self._demand += job.size
        self._wait(job, now)

    def job_started(self, job: Job, held: int, now: float) -> None:
        """`held`: what its places take; less than its size if it starts without some of them."""
        self._advance(now)
        self.running += 1
        self.allocated += held
        self._held[job.id] = held
        self._wait_no_more(job, now)
        if self._history is not None:
            self._history.hold(job.queue, held)
        if not job.waits:
            self._arrived()

    def job_placed(self, job: Job, nodes: Mapping[Place, NodeName], now: float) -> None:
        """Record all the places that a running job has from now on."""
        if self._course is not None:
            self._course.placed(job, nodes, now)

    def job_dropped(self, job: Job, now: float) -> None:
        """Record a job that could not start and does not wait. Its request stays part of the demand."""
        self._advance(now)
        self.dropped += 1
        self._wait_no_more(job, now)
        self._arrived()

    def job_resized(self, job: Job, by: int, now: float) -> None:
        self._advance(now)
        self.allocated += by
        self._held[job.id] += by
        if self._history is not None:
            self._history.hold(job.queue, by)

    def job_ended(self, job: Job, started: float, now: float) -> None:
        self._leave(job, now, "ended")
        self.finished += 1
        self._demand -= job.size
        self._last_end = now
        self._makespan = (
            self._capacity_time,
            self._wanted_time,
            self._wanted_allocated_time,
            self._stranded_time,
        )
        wait = started - job.submitted
        if self._history is not None:
            self._history.waited(job.size, wait)
        self._waits.append(wait)
        self._slowdowns += max(1.0, (wait + (now - started)) / max(job.run_time, TAU))

    def job_stopped(self, job: Job, lost: float, now: float, why: Stop) -> None:
        """Record a job that was stopped and waits again; `lost` is work in thousandths times seconds."""
        self._leave(job, now, why.value)
        self._wait(job, now)
        self.stops[why] += 1
        self._work_lost += lost / WHOLE

    def capacity_changed(self, by: int, now: float) -> None:
        if self.submitted:
            self._advance(now)
        self._capacity += by

    @property
    def metrics(self) -> Metrics:
        waits = np.frombuffer(self._waits) if self._waits else None
        whole, wanted, wanted_allocated, stranded = self._makespan
        return Metrics(
            allocation_ratio=self._allocation(wanted_allocated, wanted),
            utilisation=self._allocated_time / whole if whole else None,
            fragmentation=stranded / whole if whole else None,
            wait_mean=float(waits.mean()) if waits is not None else None,
            wait_p95=float(np.percentile(waits, 95)) if waits is not None else None,
            avg_bounded_slowdown=self._slowdowns / self.finished if self.finished else None,
            makespan=self._last_end - self._first if self.finished else None,
            preemptions=self.stops[Stop.PREEMPTED],
            work_lost=self._work_lost,
        )

    def allocation_at(self, percent: int) -> float | None:
        """Return mean allocated / capacity after arrivals that brought demand to this percent of capacity."""
        return fmean(found) if (found := self._after_arrival.get(percent)) else None

    def _allocation(self, allocated: float, wanted: float) -> float | None:
        if self._after_arrival:
            return self.allocation_at(max(self._after_arrival))
        return allocated / wanted if wanted else None

    def _arrived(self) -> None:
        """Record the allocation after the decision on a job that does not wait."""
        percent = round(100 * self._demand / self._capacity)
        self._after_arrival.setdefault(percent, []).append(self.allocated / self._capacity)

    def _leave(self, job: Job, now: float, why: str) -> None:
        self._advance(now)
        if self._course is not None:
            self._course.left(job, now, why)
        self.running -= 1
        held = self._held.pop(job.id)
        self.allocated -= held
        if self._history is not None:
            self._history.hold(job.queue, -held)

    def _wait_no_more(self, job: Job, now: float) -> None:
        self._waiting[job.size] -= 1
        if self._course is not None:
            self._course.waits(job, -1, now)

    def _wait(self, job: Job, now: float) -> None:
        if self._course is not None:
            self._course.waits(job, 1, now)
        waiting = self._waiting.get(job.size)
        if waiting is None:
            heappush(self._sizes, job.size)
        self._waiting[job.size] = (waiting or 0) + 1

    def _advance(self, now: float) -> None:
        elapsed = now - self._now
        if not elapsed:
            return
        if self._history is not None:
            self._history.advance(self._now, now, self._capacity, self.allocated, self._demand)
        self._now = now
        self._allocated_time += self.allocated * elapsed
        self._capacity_time += self._capacity * elapsed
        if self._demand >= self._capacity:
            self._wanted_time += self._capacity * elapsed
            self._wanted_allocated_time += self.allocated * elapsed
        free = self._capacity - self.allocated
        if free and (smallest := self._smallest_waiting()) is not None and smallest <= free:
            self._stranded_time += free * elapsed

    def _smallest_waiting(self) -> int | None:
        while self._sizes and not self._waiting[self._sizes[0]]:
            del self._waiting[heappop(self._sizes)]
        return self._sizes[0] if self._sizes else None
