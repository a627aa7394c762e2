"""A live scheduler's journal as a trace: which gangs were submitted to it, and how long each ran.

A journal says when a gang came, and when its pods were bound and ended, so what has happened can be replayed
under another policy. (Whether the same scheduler decides the same again is another question: `recheck.py`.)
The run time of a gang is that of its last run, from the first pod that was bound to the end of the last. One
that still runs when the journal ends has run for so long. A gang without an estimate and a limit has none in
the replay either: no policy knows more than the scheduler knew.

Nodes, queues and layers are as the journal has them last; a node that was removed is down until it is back.
With `last`, only what waited or ran in so many seconds at the end counts: what ran at their beginning starts
just before it, and what waited arrives with it.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Final

from muster.core.words.events import (
    GangRemoved,
    GangSubmitted,
    LayersChanged,
    NodeChanged,
    NodeRemoved,
    PodsBound,
    PodsEnded,
    QueueChanged,
)
from muster.core.words.gang import Gang, GangId, NodeName, PodId, PodSet, Queue
from muster.core.world.queues.account import DEFAULT
from muster.journal import Began, Entry, Snapshot, previous, read
from muster.names import GPU
from muster.sim.readers.lines import opened
from muster.sim.trace import Job, Outage, Tally, Trace, TraceError, capacity, least_size, size

#: Seconds before the beginning at which jobs start that ran then.
_BEFORE: Final = 1.0


@dataclass(slots=True)
class _Course:
    """What is known of one gang: it is submitted, runs, and is gone."""

    gang: Gang
    #: when it was seen first, and last
    since: float
    until: float
    #: of its last run; None: it has not run
    started: float | None = None
    ended: float | None = None
    #: whether it had pods on nodes when the journal ended
    runs: bool = False


class JournalTrace(Trace):
    def __init__(self, path: Path, last: float = inf) -> None:
        """Reads the journal. `last`: seconds at its end that count. Raises TraceError."""
        self._courses: list[_Course] = []
        self._there: dict[GangId, _Course] = {}
        self._pods: dict[PodId, GangId] = {}
        self._running: dict[GangId, set[PodId]] = {}
        self._found: dict[NodeName, NodeChanged] = {}
        self._queues: dict[str, Queue] = {DEFAULT: Queue(DEFAULT)}
        self._outages: list[Outage] = []
        self._away: set[NodeName] = set()  # nodes that were removed
        self._end, self._began = 0.0, False
        layers: LayersChanged | None = None
        for entry in _entries(path):
            match entry.what:
                case Began():
                    self._restart()
                case LayersChanged() as event:
                    layers = event
                case _ if self._began:
                    self._take(entry)
            self._end = max(self._end, entry.at)
        if not self._found:
            raise TraceError(
                f"{path}: no scheduler begins in it, or it has no nodes; "
                "its beginning may have been rotated away"
            )
        self._close(self._end)
        self._begin = self._end - last
        self.nodes = [self._found[name] for name in sorted(self._found)]
        self.outages = [each for each in self._outages if each.at > self._begin]
        rules = (QueueChanged(self._queues[name]) for name in sorted(self._queues))
        self.rules = (*filter(None, [layers]), *rules)
        self.resource = GPU if capacity(self.nodes, GPU) else "cpu"
        self._capacity = capacity(self.nodes, self.resource)

    def jobs(self, tally: Tally) -> Iterator[Job]:
        found: list[Job] = []
        names: dict[GangId, int] = {}
        for course in self._courses:
            if course.until < self._begin:
                tally.filtered["before the time that counts"] += 1
                continue
            number = names[course.gang.id] = names.get(course.gang.id, 0) + 1
            job = self._job(course, number)
            if job is None:
                tally.filtered["has not run"] += 1
            elif any(each.shape.claims for each in course.gang.pod_sets):
                tally.filtered["claims devices"] += 1
            elif least_size(job, self.resource) > self._capacity:
                tally.filtered["larger than the machine"] += 1
            else:
                found.append(job)
        yield from sorted(found, key=lambda job: (job.submitted, job.id))

    def _job(self, course: _Course, number: int) -> Job | None:
        """The job of a gang; None if how long it runs is not known. `number`: of its namesakes."""
        gang, started, ended = course.gang, course.started, course.ended
        if started is None or ended is None or ended <= started:
            return None
        submitted, early = min(gang.submitted, started), started < self._begin
        if early:
            submitted, started = self._begin - _BEFORE, self._begin - _BEFORE
        sets = tuple(_alone(each) for each in gang.pod_sets)
        known = gang.estimate if gang.estimate is not None else gang.limit
        return Job(
            gang.id if number == 1 else GangId(f"{gang.id}~{number}"),
            max(submitted, self._begin - _BEFORE if early else self._begin, 0.0),
            ended - started,
            inf if known is None else known,
            sets,
            sum(each.count * size(each.shape, self.resource) for each in sets),
            gang.min_count,
            gang.namespace,
            gang.queue if gang.queue in self._queues else DEFAULT,
            gang.priority,
            gang.limit,
            gang.checkpoint_every,
            gang.restart_cost,
            gang.min_run_time,
            gang.preemptible,
            gang.gather,
            gang.exclusive,
        )

    def _take(self, entry: Entry) -> None:
        match entry.what:
            case NodeChanged() as node:
                if node.name in self._away:
                    self._away.discard(node.name)
                    self._outages.append(Outage(entry.at, node.name, up=True))
                self._found[node.name] = node
            case NodeRemoved(node_name) if node_name in self._found and node_name not in self._away:
                self._away.add(node_name)
                self._outages.append(Outage(entry.at, node_name, up=False))
            case QueueChanged(queue):
                self._queues[queue.name] = queue
            case GangSubmitted(gang):
                self._submitted(gang, entry.at)
            case GangRemoved(gang_id):
                self._removed(gang_id, entry.at)
            case PodsBound(gang=of) as event if of is not None and of in self._there:
                self._bound(event, of, entry.at if event.at is None else event.at)
            case PodsEnded() as event:
                for pod in event.pods:
                    self._ended(pod, event.at)

    def _submitted(self, gang: Gang, at: float) -> None:
        course = self._there.get(gang.id)
        if course is None:
            course = self._there[gang.id] = _Course(gang, at, inf)
            self._courses.append(course)
        if _places(gang) >= _places(course.gang):  # fewer are left of one whose pods end
            course.gang = gang
        course.until = inf

    def _bound(self, event: PodsBound, name: GangId, at: float) -> None:
        course, pods = self._there[name], self._running.setdefault(name, set())
        if not pods and not course.runs:
            course.started = at
        course.ended, course.runs = None, True
        for pod in event.pods:
            pods.add(pod)
            self._pods[pod] = name

    def _ended(self, pod: PodId, at: float) -> None:
        name = self._pods.pop(pod, None)
        if name is None:
            return
        pods = self._running[name]
        pods.discard(pod)
        if not pods:
            course = self._there[name]
            course.ended, course.runs = at, False

    def _removed(self, name: GangId, at: float) -> None:
        course = self._there.pop(name, None)
        if course is not None:
            for pod in self._running.pop(name, ()):
                self._pods.pop(pod, None)
            self._over(course, at)

    def _restart(self) -> None:
        """Another scheduler begins: it is told all that is there. The rest has ended meanwhile."""
        for course in self._there.values():
            course.until = min(course.until, self._end)
        self._pods.clear()
        self._running.clear()
        self._began = True

    def _close(self, at: float) -> None:
        """The journal ends."""
        for course in self._there.values():
            self._over(course, min(course.until, at))

    def _over(self, course: _Course, at: float) -> None:
        if course.runs:
            course.ended, course.runs = at, False
        course.until = at


def _entries(path: Path) -> Iterator[Entry]:
    if not path.exists() and not previous(path).exists():
        raise TraceError(f"{path}: no such file; a journal is written by a scheduler that runs")
    try:
        yield from (each for each in read(path, opened) if not isinstance(each.what, Snapshot))
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (EOFError, zlib.error) as error:
        raise TraceError(f"{path}: the gzip data is damaged or cut off ({error})") from None
    except ValueError as error:
        raise error if isinstance(error, TraceError) else TraceError(str(error)) from None


def _alone(pod_set: PodSet) -> PodSet:
    """The pod set without what only the cluster of that time could answer: quotas, and nodes to avoid."""
    shape = replace(pod_set.shape, avoided=(), last=(), volumes=())
    return replace(pod_set, shape=shape, uncreated=0, quotas=(), subgroup="")


def _places(gang: Gang) -> int:
    return sum(each.count for each in gang.pod_sets)
