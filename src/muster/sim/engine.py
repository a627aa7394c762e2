"""The engine: simulates a cluster in virtual time and drives the real scheduler core.

Three kinds of events are pending: the next arrival, which is read from the trace on demand; the next outage
of a node; and the ends of running jobs, on a heap. The core receives the same events as a live scheduler
(`apply`) and makes the decisions (`decide`); nothing else of it is used. Its decisions take effect at once:
pods are bound when they are assigned, and a victim is gone when it is evicted, and waits again with its old
age.

A job progresses at the rate of the places that it has: with half of them it takes twice as long. Its progress
is saved at its checkpoints, counted in seconds of its full rate. A run that is stopped (preempted, failed,
its node gone) loses its progress since the last checkpoint; the next run resumes there, after the time that a
restart costs. A job with fewer places than it needs is stopped as a whole.

Memory grows with the jobs that wait and run, not with the trace.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import heappop, heappush
from math import inf
from typing import Generic, Protocol, TypeVar

from muster.core.words.decisions import Assign, Decision, Evict, Victim
from muster.core.words.events import (
    NOTHING,
    Event,
    Footprint,
    GangRemoved,
    GangSubmitted,
    NodeChanged,
    NodeRemoved,
    PodsBound,
    PodsEnded,
)
from muster.core.words.gang import GangId, NodeName, Place, PodId
from muster.sim.metrics import Recorder, Stop
from muster.sim.trace import Job, Outage, TraceError, capacity, size

T = TypeVar("T")


class Core(Protocol):
    """All that a replay uses of `muster.core.Scheduler`."""

    def apply(self, event: Event) -> None: ...

    def decide(self, now: float) -> list[Decision]: ...


class Pass(StrEnum):
    """When the core decides.

    EVENT: after each event; of those at one time, ends come before outages, and these before arrivals.
    INSTANT: once for each time at which something happens, after all of it in the same order.
    """

    EVENT = "event"
    INSTANT = "instant"


class Violation(Exception):
    """The core violated a guarantee about gangs; a bug in muster."""


def replay(
    core: Core,
    nodes: Sequence[NodeChanged],
    jobs: Iterable[Job],
    recorder: Recorder,
    pass_: Pass = Pass.EVENT,
    turn: Callable[[], None] = lambda: None,
    *,
    resource: str,
    outages: Iterable[Outage] = (),
    rules: Iterable[Event] = (),
) -> list[Job]:
    """Run a trace to its end. Returns the jobs that did not end, in order of submission.

    `jobs` in order of submission. `turn` is called once for each decision cycle. `resource`: the resource
    that the recorder counts.
    """
    for event in (*rules, *nodes):
        core.apply(event)
    world = _World(_Cluster(core, recorder, nodes, resource), outages, jobs)
    while (now := world.next_time()) < inf:
        world.step(now)
        while pass_ is Pass.INSTANT and world.next_time() == now:
            world.step(now)
        world.cluster.obey(core.decide(now), now)
        world.cluster.drop(now)
        turn()
    left = (waiting.job for waiting in world.cluster.waiting.values())
    return sorted(left, key=lambda job: (job.submitted, job.id))


class _Coming(Generic[T]):
    """An iterator whose next item is known."""

    def __init__(self, items: Iterable[T]) -> None:
        self._items: Iterator[T] = iter(items)
        self.head = next(self._items, None)

    def take(self) -> T:
        taken = self.head
        assert taken is not None, "the caller has looked at `head`"
        self.head = next(self._items, None)
        return taken


class _World:
    """The pending events of the three sources."""

    def __init__(self, cluster: "_Cluster", outages: Iterable[Outage], jobs: Iterable[Job]) -> None:
        self.cluster = cluster
        self._outages, self._arrivals = _Coming(outages), _Coming(jobs)

    def next_time(self) -> float:
        """Return the time of the next event; infinite if no further event can change anything."""
        time, arriving, outage = self.cluster.next_end(), self._arrivals.head, self._outages.head
        if arriving is not None and arriving.submitted < time:
            time = arriving.submitted
        if outage is not None and outage.at < time and (time < inf or self.cluster.waiting):
            time = outage.at
        return time

    def step(self, now: float) -> None:
        """Carry out the first event of this time."""
        if self.cluster.next_end() == now:
            self.cluster.end(now)
        elif self._outages.head is not None and self._outages.head.at == now:
            self.cluster.outage(self._outages.take())
        else:
            self.cluster.submit(self._arrivals.take())


@dataclass(slots=True)
class _Waiting:
    job: Job
    #: seconds of its run time that are saved
    saved: float = 0.0
    #: number of its runs so far
    runs: int = 0


@dataclass(slots=True)
class _Run:
    """A running job. Seconds are those of its full rate."""

    job: Job
    started: float
    #: seconds saved before this run, and seconds that the restart costs before this run resumes there
    saved: float
    overhead: float
    #: seconds of this run after which it stops, and whether that is its end
    until: float
    ends: bool
    #: runs before this one
    runs: int
    #: number of places that it has when it is whole
    places: int
    pods: dict[PodId, Place] = field(default_factory=dict)
    nodes: dict[Place, NodeName] = field(default_factory=dict)
    #: thousandths that its places take
    held: int = 0
    #: seconds of this run that are done, as of `since`
    done: float = 0.0
    since: float = 0.0
    #: distinguishes its current end from ends planned before it grew, shrank or was stopped
    number: int = 0

    def work(self, now: float) -> None:
        """Update `done` to this time."""
        self.done += _seconds(now - self.since, len(self.pods), self.places)
        self.since = now

    @property
    def end(self) -> float:
        return self.since + _seconds(self.until - self.done, self.places, len(self.pods))

    @property
    def kept(self) -> float:
        """Seconds of the run time that stay saved if it is stopped now."""
        every = self.job.checkpoint
        if every is None:
            return self.saved
        reached = self.saved + max(self.done - self.overhead, 0.0)
        return max(self.saved, reached // every * every)

    @property
    def lost(self) -> float:
        """Work, in thousandths times seconds, that is lost if it is stopped now."""
        return (self.saved + self.done - self.kept) * self.job.size


class _Cluster:
    """The waiting and running jobs; reports their events to the core."""

    def __init__(self, core: Core, recorder: Recorder, nodes: Sequence[NodeChanged], resource: str) -> None:
        self._tell, self._recorder, self._resource = core.apply, recorder, resource
        self._nodes = {node.name: node for node in nodes}
        self._up = set(self._nodes)
        self.waiting: dict[GangId, _Waiting] = {}
        self._running: dict[GangId, _Run] = {}
        #: end, gang, number of the end; some ends are obsolete
        self._ends: list[tuple[float, GangId, int]] = []
        self._numbers = 0
        #: jobs that arrived since the last cycle, and are dropped if they do not start in the next
        self._passing: list[GangId] = []

    def next_end(self) -> float:
        """Return the time of the next end of a run; infinite if there is none."""
        while self._ends:
            end, gang, number = self._ends[0]
            run = self._running.get(gang)
            if run is not None and run.number == number:
                return end
            heappop(self._ends)
        return inf

    def submit(self, job: Job) -> None:
        if job.id in self.waiting or job.id in self._running:
            where = f"{job.where}: " if job.where else ""
            raise TraceError(
                f"{where}{job.id} is submitted again at {job.submitted:g} while it waits or runs; give it "
                f"a name of its own"
            )
        self._recorder.job_submitted(job, job.submitted)
        self._queue(_Waiting(job))
        if not job.waits:
            self._passing.append(job.id)

    def end(self, now: float) -> None:
        """End the first run on the heap, or let it fail. Of equal times the smallest name is first."""
        _, gang, _ = heappop(self._ends)
        run = self._running[gang]
        if run.ends:
            self._leave(run, now)
            self._recorder.job_ended(run.job, run.started, now)
        else:
            self._stop(run, now, Stop.FAILED)

    def outage(self, outage: Outage) -> None:
        node, now = self._nodes[outage.node], outage.at
        if outage.up == (node.name in self._up):
            return
        amount = capacity([node], self._resource)
        if outage.up:
            self._up.add(node.name)
            self._recorder.capacity_changed(amount, now)
            self._tell(node)
            return
        self._up.remove(node.name)
        self._recorder.capacity_changed(-amount, now)
        self._tell(NodeRemoved(node.name))
        for run in [run for _, run in sorted(self._running.items())]:
            gone = {place for place, where in run.nodes.items() if where == node.name}
            if gone:
                self._lose(run, gone, now, Stop.NODE_LOST)

    def obey(self, decisions: Iterable[Decision], now: float) -> None:
        for decision in decisions:
            match decision:
                case Assign():
                    self._assign(decision, now)
                case Evict(victims=victims):
                    for victim in victims:
                        self._preempt(victim, now)
                case _:
                    pass  # reasons and reservations change nothing on nodes, and what is held is bound

    def drop(self, now: float) -> None:
        """Drop jobs that do not wait and did not start in the cycle after their arrival."""
        for gang in self._passing:
            waiting = self.waiting.pop(gang, None)
            if waiting is not None:
                self._tell(GangRemoved(gang))
                self._recorder.job_dropped(waiting.job, now)
        self._passing.clear()

    def _queue(self, waiting: _Waiting) -> None:
        self.waiting[waiting.job.id] = waiting
        self._tell(GangSubmitted(waiting.job.gang(waiting.saved if waiting.runs else None)))

    def _assign(self, assign: Assign, now: float) -> None:
        waiting = self.waiting.pop(assign.gang, None)
        run = self._running.get(assign.gang)
        if waiting is not None:
            run = self._begin(waiting, now)
        elif run is None or not run.nodes.keys().isdisjoint(assign.nodes):
            raise Violation(f"{assign.gang} is assigned, but does not wait")
        run.work(now)
        before = run.held
        self._bind(assign, run, now)
        if not _enough(run, run.nodes.keys()):
            raise Violation(f"{run.job.id} is assigned {len(run.pods)} of its {run.places} places")
        self._plan_end(run)
        if waiting is not None:
            self._recorder.job_started(run.job, run.held, now)
        else:
            self._recorder.job_resized(run.job, run.held - before, now)
        self._recorder.job_placed(run.job, run.nodes, now)

    def _begin(self, waiting: _Waiting, now: float) -> _Run:
        job, saved, runs = waiting.job, waiting.saved, waiting.runs
        overhead = job.restart_cost if runs else 0.0
        until = job.run_time - saved + overhead
        fails = runs < len(job.failures) and job.failures[runs] < until
        until = job.failures[runs] if fails else until
        run = _Run(job, now, saved, overhead, until, not fails, runs, job.places, since=now)
        self._running[job.id] = run
        return run

    def _bind(self, assign: Assign, run: _Run, now: float) -> None:
        """Report equal pods to the core together: of one pod set, on one node, on one device."""
        self._numbers += 1
        gang, number, devices = run.job.id, self._numbers, assign.devices
        rows: defaultdict[tuple[str, NodeName, int | None], dict[PodId, Place]] = defaultdict(dict)
        for place, node in assign.nodes.items():
            pod_set, index = place
            pod = PodId(f"{gang}/{pod_set}/{index}/{number}")
            rows[pod_set, node, devices.get(place) if devices else None][pod] = place
        shapes = {pod_set.name: pod_set.shape for pod_set in run.job.pod_sets}
        for (pod_set, node, device), pods in rows.items():
            shape, footprint = shapes[pod_set], NOTHING if device is None else Footprint(device=device)
            self._tell(PodsBound(pods, node, shape.requests, gang, footprint, now))
            run.pods.update(pods)
            run.held += len(pods) * size(shape, self._resource)
        run.nodes.update(assign.nodes)

    def _plan_end(self, run: _Run) -> None:
        self._numbers += 1
        run.number = self._numbers
        if (end := run.end) < inf:
            heappush(self._ends, (end, run.job.id, run.number))

    def _preempt(self, victim: Victim, now: float) -> None:
        run = self._running.get(victim.gang)
        if run is None:
            raise Violation(f"{victim.gang} is evicted, but does not run")
        if not victim.pods:
            self._stop(run, now, Stop.PREEMPTED)
            return
        gone = {place for pod, place in run.pods.items() if pod in victim.pods}
        if len(gone) < len(victim.pods):
            raise Violation(f"{victim.gang} is evicted from pods that do not run")
        if self._lose(run, gone, now, Stop.PREEMPTED):
            raise Violation(f"{victim.gang} is left with fewer places than it needs")

    def _lose(self, run: _Run, places: Set[Place], now: float, why: Stop) -> bool:
        """Remove these places from the run. Returns whether that stops the job."""
        if not _enough(run, run.nodes.keys() - places):
            self._stop(run, now, why)
            return True
        run.work(now)
        shapes = {pod_set.name: pod_set.shape for pod_set in run.job.pod_sets}
        amount = sum(size(shapes[place.pod_set], self._resource) for place in places)
        run.held -= amount
        gone = [pod for pod, place in run.pods.items() if place in places]
        for pod in gone:
            del run.nodes[run.pods.pop(pod)]
        self._tell(PodsEnded(tuple(gone), now))
        self._plan_end(run)
        self._recorder.job_resized(run.job, -amount, now)
        self._recorder.job_placed(run.job, run.nodes, now)
        return False

    def _stop(self, run: _Run, now: float, why: Stop) -> None:
        """Stop a run: the job waits again, and will resume from its last checkpoint."""
        run.work(now)
        self._leave(run, now)
        self._recorder.job_stopped(run.job, run.lost, now, why)
        self._queue(_Waiting(run.job, run.kept, run.runs + 1))

    def _leave(self, run: _Run, now: float) -> None:
        """Remove the gang before its pods: else each pod that ends would leave its place held for another."""
        del self._running[run.job.id]
        self._tell(GangRemoved(run.job.id))
        self._tell(PodsEnded(tuple(run.pods), now))


def _seconds(seconds: float, times: int, of: int) -> float:
    """Return seconds × times / of; exact for a job that has all its places."""
    return seconds if times == of else seconds * times / of


def _enough(run: _Run, places: Set[Place]) -> bool:
    """Whether the run continues with only these places."""
    if len(places) == run.places:
        return True
    job, filled = run.job, Counter(place.pod_set for place in places)
    return len(places) >= job.least and all(filled[each.name] >= each.min_count for each in job.pod_sets)
