"""The engine: a cluster in virtual time, for the scheduler itself.

Two kinds of events wait: the next arrival, which the trace's reader gives when it is asked, and the ends of
running jobs, on a heap. The core is told what a live scheduler would be told (`apply`) and asked what to do
(`decide`); nothing else of it is used. Its decisions take effect at once: pods are bound when they are
assigned, and a victim is gone when it is evicted and waits again with its old age.

Memory grows with the jobs that wait and run, not with the trace.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import heappop, heappush
from typing import Protocol

from muster.core.decisions import Assign, Decision, Evict, Victim
from muster.core.events import Event, GangRemoved, GangSubmitted, NodeChanged, PodBound, PodEnded
from muster.core.gang import Gang, GangId, Place, PodId
from muster.sim.metrics import Recorder
from muster.sim.trace import Job


class Core(Protocol):
    """All that a replay uses of `muster.core.Scheduler`."""

    def apply(self, event: Event) -> None: ...

    def decide(self, now: float) -> list[Decision]: ...


class Pass(StrEnum):
    """When the core decides.

    EVENT: after each event; of those at one time, ends come before arrivals.
    INSTANT: once for each time at which something happens, after all ends and then all arrivals of it.
    """

    EVENT = "event"
    INSTANT = "instant"


class Violation(Exception):
    """The core broke a promise that it makes about rigid gangs; a mistake in muster."""


@dataclass(slots=True)
class Run:
    """A job that runs."""

    job: Job
    started: float
    pods: list[PodId]
    #: tells this run from an earlier one of the same job, whose end may still be on the heap
    number: int


def replay(
    core: Core,
    nodes: Sequence[NodeChanged],
    jobs: Iterable[Job],
    recorder: Recorder,
    pass_: Pass = Pass.EVENT,
    turn: Callable[[], None] = lambda: None,
) -> list[Job]:
    """Runs a trace to its end. Returns the jobs that never started, in order of submission.

    `jobs` in order of submission. `turn` is called once for each decision cycle.
    """
    for node in nodes:
        core.apply(node)
    cluster = _Cluster(core, recorder)
    arrivals = iter(jobs)
    arriving = next(arrivals, None)
    while True:
        ending = cluster.next_end()
        times = [] if arriving is None else [arriving.submitted]
        times += [] if ending is None else [ending]
        if not times:
            return list(cluster.waiting.values())
        now = min(times)
        if pass_ is Pass.EVENT:
            if ending == now:
                cluster.end(now)
            elif arriving is not None:
                cluster.submit(arriving)
                arriving = next(arrivals, None)
        else:
            while cluster.next_end() == now:
                cluster.end(now)
            while arriving is not None and arriving.submitted == now:
                cluster.submit(arriving)
                arriving = next(arrivals, None)
        cluster.obey(core.decide(now), now)
        turn()


class _Cluster:
    """Who waits and who runs, and telling the core."""

    def __init__(self, core: Core, recorder: Recorder) -> None:
        self._tell, self._recorder = core.apply, recorder
        self.waiting: dict[GangId, Job] = {}
        self._running: dict[GangId, Run] = {}
        #: end, gang, number of the run; some runs are no more
        self._ends: list[tuple[float, GangId, int]] = []
        self._runs = 0

    def next_end(self) -> float | None:
        while self._ends:
            end, gang, number = self._ends[0]
            run = self._running.get(gang)
            if run is not None and run.number == number:
                return end
            heappop(self._ends)  # it was preempted
        return None

    def submit(self, job: Job) -> None:
        if job.id in self.waiting or job.id in self._running:
            raise ValueError(f"{job.id} is submitted twice")
        self._recorder.job_submitted(job, job.submitted)
        self._queue(job)

    def end(self, now: float) -> None:
        """The first run on the heap ends. Of equal times the smallest name is first."""
        _, gang, _ = heappop(self._ends)
        run = self._stop(gang, now)
        self._recorder.job_ended(run.job, run.started, now)

    def obey(self, decisions: Iterable[Decision], now: float) -> None:
        for decision in decisions:
            match decision:
                case Assign():
                    self._start(decision, now)
                case Evict(victims=victims):
                    for victim in victims:
                        self._preempt(victim, now)
                case _:
                    pass  # reasons and reservations change nothing on nodes; rigid gangs release nothing

    def _queue(self, job: Job) -> None:
        self.waiting[job.id] = job
        self._tell(GangSubmitted(Gang(job.id, job.pod_sets, job.places, job.submitted)))

    def _start(self, assign: Assign, now: float) -> None:
        job = self.waiting.pop(assign.gang, None)
        if job is None:
            raise Violation(f"{assign.gang} is assigned, but does not wait")
        self._runs += 1
        pods = [*self._bind(assign, job)]
        if len(pods) != job.places:
            raise Violation(f"{job.id} is assigned {len(pods)} of its {job.places} places")
        self._running[job.id] = Run(job, now, pods, self._runs)
        heappush(self._ends, (now + job.run_time, job.id, self._runs))
        self._recorder.job_started(job, now)

    def _bind(self, assign: Assign, job: Job) -> Iterator[PodId]:
        requests = {pod_set.name: pod_set.shape.requests for pod_set in job.pod_sets}
        for place, node in assign.nodes.items():
            pod = self._pod(job, place)
            self._tell(PodBound(pod, node, requests[place.pod_set], job.id, place))
            yield pod

    def _pod(self, job: Job, place: Place) -> PodId:
        return PodId(f"{job.id}/{place.pod_set}/{place.index}/{self._runs}")

    def _preempt(self, victim: Victim, now: float) -> None:
        if victim.pods:
            raise Violation(f"{victim.gang} is rigid: its pods cannot be evicted one by one")
        run = self._stop(victim.gang, now)
        self._recorder.job_preempted(run.job, run.started, now)
        self._queue(run.job)

    def _stop(self, gang: GangId, now: float) -> Run:
        """The gang first: else each of its pods, as it ends, would leave its place held for another."""
        run = self._running.pop(gang)
        self._tell(GangRemoved(gang))
        for pod in run.pods:
            self._tell(PodEnded(pod, now))
        return run
