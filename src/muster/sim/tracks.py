"""The course of a replay as a trace that ui.perfetto.dev draws: who ran where and when, and what was used.

A process is the machine, a queue or a node. On a queue, a slice is a run of a gang; on a node, the part of
the gang that is there. Counters say how many pieces of the resource are used, and how many gangs wait.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from muster.core.words.gang import GangId, NodeName, Place
from muster.perfetto import Lanes, Trace
from muster.sim.trace import WHOLE, Job, size

_WAITING: Final = "gangs waiting"


@dataclass(frozen=True, slots=True)
class _Slice:
    """Where a gang is drawn from `begin` on, and how much it takes there, in thousandths."""

    process: str
    lane: int
    begin: float
    amount: int


class Course:
    """Tells a trace what a recorder records."""

    def __init__(self, trace: Trace, resource: str, pieces: str) -> None:
        """`resource`: what is counted; `pieces`: what people call it."""
        self._trace, self._resource, self._used_pieces = trace, resource, f"{pieces} used"
        self._lanes: defaultdict[str, Lanes] = defaultdict(Lanes)
        self._used: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        #: what is drawn of each running gang, by process
        self._running: dict[GangId, dict[str, _Slice]] = {}
        self._machine, self._now = "the machine", 0.0

    def waits(self, job: Job, by: int, now: float) -> None:
        """One more gang waits, or one less."""
        self._now = now
        for process in (self._machine, f"queue {job.queue}"):
            self._waiting[process] += by
            self._trace.counter(self._trace.process(process), _WAITING, now, float(self._waiting[process]))

    def placed(self, job: Job, nodes: Mapping[Place, NodeName], now: float) -> None:
        """A gang has these places from now on; those that changed begin a new slice."""
        self._now = now
        shapes = {each.name: size(each.shape, self._resource) for each in job.pod_sets}
        wanted: Counter[str] = Counter()
        for place, node in nodes.items():
            wanted[f"node {node}"] += shapes[place.pod_set]
        wanted[f"queue {job.queue}"] = wanted[self._machine] = wanted.total()
        drawn = self._running.setdefault(job.id, {})
        for process in sorted({*drawn, *wanted}):
            was = drawn.get(process)
            if was is not None and was.amount == wanted.get(process):
                continue
            if was is not None:
                self._end(job, drawn.pop(process), now, "resized")
            if process in wanted:
                lane = self._lanes[process].take() if process != self._machine else 0
                drawn[process] = _Slice(process, lane, now, wanted[process])
                self._use(process, wanted[process], now)

    def left(self, job: Job, now: float, why: str) -> None:
        """A gang runs no more."""
        for each in self._running.pop(job.id, {}).values():
            self._end(job, each, now, why)

    def close(self) -> None:
        """Draws what runs for ever."""
        for gang, drawn in self._running.items():
            for each in drawn.values():
                self._draw(str(gang), each, self._now, "runs on")

    def _end(self, job: Job, drawn: _Slice, now: float, why: str) -> None:
        self._now = now
        self._use(drawn.process, -drawn.amount, now)
        self._draw(str(job.id), drawn, now, why)
        if drawn.lane:
            self._lanes[drawn.process].give_back(drawn.lane)

    def _draw(self, gang: str, drawn: _Slice, now: float, why: str) -> None:
        if drawn.lane:
            pid, used = self._trace.process(drawn.process), drawn.amount / WHOLE
            told: dict[str, str | float] = {self._used_pieces: used, "end": why}
            self._trace.slice(pid, drawn.lane, f"slot {drawn.lane}", gang, drawn.begin, now, told)

    def _use(self, process: str, by: int, now: float) -> None:
        self._used[process] += by
        pid = self._trace.process(process)
        self._trace.counter(pid, self._used_pieces, now, self._used[process] / WHOLE)
