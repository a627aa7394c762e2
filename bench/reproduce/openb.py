"""Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with FGD", ATC'23, on the openb
trace.

1,213 nodes with 6,212 GPUs; arrivals tuned to ask for 130 % of them, which never leave and are dropped if
they do not fit. The figure is the part of all GPUs that is allocated, mean of ten seeds. Six policies have
been published; muster's own order, `pack`, is the seventh.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from bench.reproduce.figure import Figure
from muster.sim.engine import replay
from muster.sim.metrics import Recorder
from muster.sim.policies import policy
from muster.sim.readers.openb import Openb
from muster.sim.trace import Tally, capacity

SEEDS: Final = range(42, 52)
LOAD: Final = 1.3
PACK: Final = "pack"
#: variant → policy → allocation in % at 100 % and at 130 % demand
PUBLISHED: Final = {
    "default": {
        "random": (86.30, 87.47),
        "dot-product": (90.62, 90.85),
        "gpu-clustering": (91.65, 91.88),
        "gpu-packing": (91.78, 92.00),
        "best-fit": (92.86, 93.08),
        "fgd": (95.23, 95.39),
    },
    "gpuspec33": {
        "random": (83.87, 86.46),
        "dot-product": (79.82, 89.14),
        "gpu-clustering": (81.09, 92.12),
        "gpu-packing": (82.22, 93.22),
        "best-fit": (80.40, 93.09),
        "fgd": (87.84, 94.55),
    },
}
#: points by which a mean may differ at 130 %
WITHIN: Final = {name: 1.0 if name == "gpu-packing" else 0.6 for name in PUBLISHED["default"]}


@dataclass(frozen=True, slots=True)
class Run:
    variant: str
    policy: str
    seed: int


def figures(
    traces: Path,
    jobs: int = 1,
    seeds: range = SEEDS,
    turn: Callable[[int, int], None] = lambda done, all: None,
) -> Iterator[Figure]:
    """`turn` is told how many replays are done, and of how many."""
    names = [*WITHIN, PACK]
    runs = [Run(*run) for run in product(PUBLISHED, names, seeds)]
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with get_context("spawn").Pool(jobs) as pool:
        for run, allocated in zip(runs, pool.imap(_Allocation(traces), runs), strict=True):
            found.setdefault((run.variant, run.policy), []).append(allocated)
            turn(sum(map(len, found.values())), len(runs))
    for percent, (variant, published) in product((1, 0), PUBLISHED.items()):
        table = f"openb {variant}, GPUs allocated at {(100, 130)[percent]} % demand, %"
        for name in names:
            ours = [allocated[percent] for allocated in found[variant, name]]
            if name == PACK:
                yield Figure(table, name, None, ours, least=published["fgd"][percent])
            else:
                yield Figure(table, name, published[name][percent], ours, WITHIN[name] if percent else None)


@dataclass(frozen=True, slots=True)
class _Allocation:
    traces: Path

    def __call__(self, run: Run) -> tuple[float, float]:
        return allocation(self.traces, run)


def allocation(traces: Path, run: Run) -> tuple[float, float]:
    """What is allocated of all GPUs, in %, at 100 % and at 130 % demand."""
    trace = Openb([traces / "openb" / f"openb_pod_list_{run.variant}.csv"])
    drawn = trace.drawn(run.seed, LOAD)
    recorder = Recorder(capacity(drawn.nodes, drawn.resource))
    core = policy(run.policy)(trace, run.seed)
    replay(core, drawn.nodes, drawn.jobs(Tally()), recorder, resource=drawn.resource)
    at = [recorder.allocation_at(percent) for percent in (100, 130)]
    assert at[0] is not None
    assert at[1] is not None
    return 100 * at[0], 100 * at[1]
