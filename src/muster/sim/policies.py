"""Policies by name: how to make the scheduler that a replay drives."""

from collections.abc import Callable
from functools import partial
from typing import Final

from muster.core.scheduler import Config, Scheduler
from muster.sim.engine import Core
from muster.sim.trace import TraceError

POLICIES: Final[dict[str, Callable[[Config], Core]]] = {
    # the core as it is: gangs in order of age, each that fits starts, on the tightest nodes
    "pack": Scheduler,
}
#: Named in the documentation, and to come.
PLANNED: Final = (
    "random",
    "dot-product",
    "gpu-clustering",
    "gpu-packing",
    "best-fit",
    "fgd",
    "fcfs",
    "easy",
    "conservative",
)


def policy(name: str, *, explain: bool = False) -> Callable[[], Core]:
    """Makes schedulers that say why gangs wait only if asked to: that costs more than placing them.

    Raises TraceError with the policies that there are.
    """
    if name in POLICIES:
        return partial(POLICIES[name], Config(explain=explain))
    there = ", ".join(POLICIES)
    if name in PLANNED:
        raise TraceError(f"not yet: --policy {name}; there is {there}")
    raise TraceError(f"--policy {name}: unknown; there is {there}")
