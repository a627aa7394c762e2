"""Policies by name: how to make the scheduler that a replay drives."""

from collections.abc import Callable
from typing import Final

from muster.core.scheduler import Scheduler
from muster.sim.engine import Core
from muster.sim.trace import TraceError

POLICIES: Final[dict[str, Callable[[], Core]]] = {
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


def policy(name: str) -> Callable[[], Core]:
    """Raises TraceError with the policies that there are."""
    if name in POLICIES:
        return POLICIES[name]
    there = ", ".join(POLICIES)
    if name in PLANNED:
        raise TraceError(f"not yet: --policy {name}; there is {there}")
    raise TraceError(f"--policy {name}: unknown; there is {there}")
