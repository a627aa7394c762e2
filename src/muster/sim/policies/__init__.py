"""Policies by name: how to make the scheduler that a replay drives.

All of them are the scheduler itself, with different configurations: which gangs may pass which, and in which
order nodes are filled (`muster.core.placement.packing`). Six published orders are here, a file for each.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from muster.core.cycle import Config, Scheduler
from muster.core.placement.packing import Spread
from muster.core.reservations import Backfill
from muster.sim.engine import Core
from muster.sim.policies import fgd, gpu_clustering, random
from muster.sim.policies.best_fit import BestFit
from muster.sim.policies.dot_product import DotProduct
from muster.sim.policies.gpu_packing import GpuPacking
from muster.sim.trace import Trace, TraceError

#: A scheduler, configured so, for this trace (None: whatever comes, such as a journal) and this seed.
Make = Callable[[Config, Trace | None, int], Core]


#: Gangs in order of age, each that fits starts; nothing is reserved for those that do not.
GREEDY: Final = Config(backfill=Backfill.NONE)


@dataclass(frozen=True, slots=True)
class Policy:
    """Makes schedulers."""

    make: Make
    config: Config = GREEDY
    #: whether a seed makes a difference
    draws: bool = False

    def __call__(self, trace: Trace | None = None, seed: int = 0) -> Core:
        return self.make(self.config, trace, seed)


def _plain(config: Config, trace: Trace | None, seed: int) -> Core:
    return Scheduler(config)


POLICIES: Final[Mapping[str, Policy]] = {
    "pack": Policy(_plain),
    "spread": Policy(_plain, replace(GREEDY, order=Spread)),
    "random": Policy(random.make, draws=True),
    "dot-product": Policy(_plain, replace(GREEDY, order=DotProduct)),
    "gpu-clustering": Policy(gpu_clustering.make),
    "gpu-packing": Policy(_plain, replace(GREEDY, order=GpuPacking)),
    "best-fit": Policy(_plain, replace(GREEDY, order=BestFit)),
    "fgd": Policy(fgd.make),
    "fcfs": Policy(_plain, Config(backfill=Backfill.STRICT)),
    "easy": Policy(_plain, Config(backfill=Backfill.EASY)),
    "conservative": Policy(_plain, Config(backfill=Backfill.CONSERVATIVE)),
}


def policy(name: str, *, explain: bool = False, shortest_first: bool = False) -> Policy:
    """Its schedulers say why gangs wait only if asked to: that costs more than placing them.

    `shortest_first`: those that may pass one that waits come by rising estimate.
    Raises TraceError with the policies that there are.
    """
    found = POLICIES.get(name)
    if found is None:
        raise TraceError(f"--policy {name}: unknown; choose from {', '.join(POLICIES)}")
    if shortest_first and not found.config.backfill.reserves:
        raise TraceError(f"--order sjbf: {name} makes no reservations, so there is no backfill order")
    return replace(found, config=replace(found.config, explain=explain, shortest_first=shortest_first))
