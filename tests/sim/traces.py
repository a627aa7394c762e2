"""Small machines and jobs, traces as text, and a core that does what it is told."""

import gzip
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path

from muster.core.words.decisions import Assign, Decision
from muster.core.words.events import Event, GangSubmitted, NodeChanged
from muster.core.words.gang import GangId, NodeName, Place, PodSet, Shape
from muster.sim.engine import Core, Pass, replay
from muster.sim.metrics import Metrics, Recorder
from muster.sim.trace import WHOLE, Job, capacity

GPU = "nvidia.com/gpu"


def machine(*gpus: int) -> list[NodeChanged]:
    return [NodeChanged(NodeName(f"node-{i}"), ((GPU, n),)) for i, n in enumerate(gpus)]


def job(number: int, submitted: float, run_time: float, *pods: int) -> Job:
    """A gang with one pod of so many GPUs each; equal ones are a pod set."""
    sizes = sorted(set(pods), reverse=True)
    sets = tuple(
        PodSet(f"gpu-{size}", Shape(((GPU, size),)), pods.count(size), pods.count(size)) for size in sizes
    )
    return Job(GangId(f"job/{number:03}"), submitted, run_time, run_time, sets, sum(pods) * WHOLE)


def play(
    core: Core, nodes: Sequence[NodeChanged], jobs: Iterable[Job], pass_: Pass = Pass.EVENT
) -> tuple[Metrics, list[Job]]:
    recorder = Recorder(capacity(nodes, GPU))
    left = replay(core, nodes, jobs, recorder, pass_, resource=GPU)
    return recorder.metrics, left


class Puppet:
    """A core that says what a test has it say: one list of decisions per cycle, then none."""

    def __init__(self, *cycles: list[Decision]) -> None:
        self.told: list[Event | float] = []
        self._cycles = deque(cycles)

    def apply(self, event: Event) -> None:
        self.told.append(event)

    def decide(self, now: float) -> list[Decision]:
        self.told.append(now)
        return self._cycles.popleft() if self._cycles else []

    @property
    def submitted(self) -> list[GangSubmitted]:
        return [event for event in self.told if isinstance(event, GangSubmitted)]


def assign(job: Job, node: str = "node-0") -> Assign:
    """All its places on one node."""
    places = [Place(s.name, i) for s in job.pod_sets for i in range(s.count)]
    return Assign(job.id, {place: NodeName(node) for place in places})


def swf(*rows: Sequence[float], header: str = "; MaxProcs: 10\n") -> str:
    """Rows of (job, submit, run, allocated, requested, estimate)."""
    lines = []
    for number, submit, run, allocated, requested, estimate in rows:
        columns = [number, submit, -1, run, allocated, -1, -1, requested, estimate, *[-1] * 9]
        lines.append(" ".join(f"{column:g}" for column in columns))
    return header + "\n".join(lines) + "\n"


def write(path: Path, text: str, *, compressed: bool = False) -> Path:
    raw = text.encode()
    path.write_bytes(gzip.compress(raw, mtime=0) if compressed else raw)
    return path
