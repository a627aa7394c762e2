"""Policies by name: how to make the scheduler that a replay drives."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from muster.core.backfill import Backfill
from muster.core.scheduler import Config, Scheduler
from muster.sim.engine import Core
from muster.sim.trace import TraceError


def _backfill(backfill: Backfill) -> Callable[[Config], Core]:
    return lambda config: Scheduler(replace(config, backfill=backfill))


POLICIES: Final[dict[str, Callable[[Config], Core]]] = {
    # the core without reservations: gangs in order of age, each that fits starts, on the tightest nodes
    "pack": _backfill(Backfill.NONE),
    "fcfs": _backfill(Backfill.STRICT),
    "easy": _backfill(Backfill.EASY),
}
#: Those under which the order of who may pass matters.
RESERVING: Final = ("easy",)
#: Named in the documentation, and to come.
PLANNED: Final = (
    "random",
    "dot-product",
    "gpu-clustering",
    "gpu-packing",
    "best-fit",
    "fgd",
    "conservative",
)


def policy(name: str, *, explain: bool = False, shortest_first: bool = False) -> Callable[[], Core]:
    """Makes schedulers that say why gangs wait only if asked to: that costs more than placing them.

    `shortest_first`: those that may pass one that waits come by rising estimate.
    Raises TraceError with the policies that there are.
    """
    if shortest_first and name in POLICIES and name not in RESERVING:
        raise TraceError(f"--order sjbf: nothing is reserved under {name}, so nobody has to wait his turn")
    if name in POLICIES:
        return partial(POLICIES[name], Config(explain=explain, shortest_first=shortest_first))
    there = ", ".join(POLICIES)
    if name in PLANNED:
        raise TraceError(f"not yet: --policy {name}; there is {there}")
    raise TraceError(f"--policy {name}: unknown; there is {there}")
