"""Muster's own traces: nodes, queues, layers, outages and jobs, from JSON or CSV files, or several of them.

What is not a job comes before the first job of its file, so that a trace of any length is read line by
line. Jobs come in order of submission. Each has a name of its own in its namespace: all names are kept while
a trace is read, about 115 bytes a job. Nodes may come from `--nodes` instead. Counted are GPUs, if any node
has one, else processors.
"""

from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import Final

from muster.core.words.events import NodeChanged, QueueChanged
from muster.core.words.gang import GangId, NodeName, Queue
from muster.core.world.queues.account import DEFAULT
from muster.core.world.queues.faults import faults_of
from muster.core.world.topology import CLUSTER, NODE
from muster.names import GPU
from muster.sim.readers import csv_lines, json_lines
from muster.sim.readers.lines import Line, first, shown
from muster.sim.readers.records import (
    MOST,
    JobRecord,
    LayersRecord,
    NodeRecord,
    OutageRecord,
    QueueRecord,
    Record,
    Told,
    job,
    layers,
    nodes,
    outage,
    queue,
)
from muster.sim.trace import Job, Outage, Tally, Trace, TraceError, capacity, least_size

CPU: Final = "cpu"


class Native(Trace):
    def __init__(
        self, paths: Sequence[Path], given: Sequence[NodeChanged] = (), skip_bad: bool = False
    ) -> None:
        """Reads what comes before the jobs; raises TraceError."""
        self._paths, self._skip_bad = paths, skip_bad
        #: what is left out of what comes before the jobs
        self._bad = Tally()
        self._found: dict[NodeName, NodeChanged] = {node.name: node for node in given}
        self._queues: dict[str, tuple[QueueChanged, Line]] = {}
        self._outages: list[tuple[Outage, Line]] = []
        self._layers: tuple[str, ...] = (CLUSTER, NODE)
        for path in paths:
            for where, record in _records(path):
                if isinstance(record, JobRecord):
                    break
                try:
                    self._take(record, where)
                except TraceError as error:
                    self._drop(error)
        if not self._found:
            raise TraceError(
                f"{paths[0]}: it has no nodes; write them before the jobs, or give them, for example "
                f'--nodes "4 x cpu=32,{GPU}=8"'
            )
        rules = {DEFAULT: Queue(DEFAULT), **{name: told.queue for name, (told, _) in self._queues.items()}}
        for name, fault in faults_of(rules).items():
            self._drop(TraceError(f"{self._queues.pop(name)[1]}: queue {name}: {fault}"))
        self._names = {DEFAULT, *self._queues}
        self._inner = {told.queue.parent for told, _ in self._queues.values()}
        self.rules = (*self.rules, *(self._queues[name][0] for name in sorted(self._queues)))
        self.nodes = [self._found[name] for name in sorted(self._found)]
        for each, where in self._outages:
            if each.node not in self._found:
                self._drop(TraceError(f"{where.field('node')}: there is no node {each.node}"))
        there = (each for each, _ in self._outages if each.node in self._found)
        self.outages = sorted(there, key=lambda each: (each.at, each.node, each.up))
        self.resource = GPU if capacity(self.nodes, GPU) else CPU
        self._capacity = capacity(self.nodes, self.resource)

    def _take(self, record: Record | TraceError, where: Line) -> None:
        """A line before the jobs."""
        match record:
            case TraceError():
                raise record
            case NodeRecord():
                told = [*nodes(record, where)]
                for node in told:
                    if node.name in self._found:
                        raise TraceError(f"{where.field('node')}: {node.name} occurs twice")
                if len(self._found) + len(told) > MOST:
                    raise TraceError(f"{where}: more than {MOST} nodes")
                self._found.update((node.name, node) for node in told)
            case QueueRecord():
                if record.queue in self._queues:
                    raise TraceError(f"{where}: queue {record.queue} occurs twice")
                self._queues[record.queue] = (queue(record, where), where)
            case LayersRecord():
                if self.rules:
                    raise TraceError(f"{where}: layers occur twice; write all in one line")
                self.rules = (layers(record, where),)
                self._layers = (*(layer.name for layer in record.layers), *self._layers)
            case OutageRecord():
                self._outages.append((outage(record), where))

    def _drop(self, error: TraceError) -> None:
        if not self._skip_bad:
            raise error
        self._bad.drop(error)

    def jobs(self, tally: Tally) -> Iterator[Job]:
        tally.bad, tally.first_bad = self._bad.bad, self._bad.first_bad  # of what comes before the jobs
        last, names = 0.0, set[GangId]()
        for path in self._paths:
            header = True
            for where, record in _records(path):
                header = header and not isinstance(record, JobRecord)
                if header:
                    continue
                try:
                    found = self._job(record, where, last, names)
                except TraceError as error:
                    if not self._skip_bad:
                        raise
                    tally.drop(error)
                    continue
                last = found.submitted
                names.add(found.id)
                if found.run_time <= 0:
                    tally.filtered["no run time"] += 1
                elif found.size > self._capacity and least_size(found, self.resource) > self._capacity:
                    tally.filtered["larger than the machine"] += 1
                else:
                    yield found

    def _job(self, record: Record | TraceError, where: Line, last: float, names: Set[GangId]) -> Job:
        """`last`: when the job before was submitted; `names`: of all jobs before."""
        if isinstance(record, TraceError):
            raise record
        if not isinstance(record, JobRecord):
            raise TraceError(f"{where}: nodes, queues, layers and outages come before the first job")
        found = job(record, self.resource, where)
        if found.id in names:
            name = f"{shown(record.job)} in namespace {shown(record.namespace)}"
            raise TraceError(
                f"{where.field('job')}: there is a job {name} already; give it a name of its own"
            )
        if found.submitted < last:
            raise TraceError(
                f"{where.field('submit')}: {record.submit:g} is out of order; the job before has {last:g}"
            )
        if found.queue not in self._names:
            declared = f'write {{"queue": "{found.queue}"}} on a line before the first job'
            raise TraceError(f"{where.field('queue')}: there is no queue {found.queue}; {declared}")
        if found.queue in self._inner:
            raise TraceError(f"{where.field('queue')}: {found.queue} has queues below it; name one of them")
        wanted = [*(each.layer for each in found.gather), *filter(None, [found.exclusive])]
        unknown = [layer for layer in wanted if layer not in self._layers]
        if unknown:
            raise TraceError(f"{where}: layer {unknown[0]} is unknown; choose from {', '.join(self._layers)}")
        return found


def is_journal(path: Path) -> bool:
    """Whether a file is the journal of a scheduler, by its first line."""
    try:
        text = first(path)
    except TraceError:
        return True  # the journal's reader reports what is wrong with it
    return text.startswith('{"at":') and '"is":' in text and '"what":' in text


def begins(text: str) -> bool:
    """Whether a trace of our own, or a journal, may begin with this line."""
    return text.lstrip().startswith("{") or csv_lines.begins(text)


def _records(path: Path) -> Iterator[Told]:
    return json_lines.records(path) if first(path).lstrip().startswith("{") else csv_lines.records(path)
