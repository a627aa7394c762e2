"""What a want takes of each resource: at least, and in total. `pods` included, GPUs in thousandths."""

from muster.core.gang import Amounts
from muster.core.gangs import GangState
from muster.core.nodes import PODS
from muster.core.placement import Want
from muster.core.queues.amounts import add, counted


def least(want: Want) -> Amounts:
    """Return what the minimum takes at least of each resource, whichever places make it up."""
    rest = want.need - sum(part.need for part in want.parts)
    sums: dict[str, int] = {PODS: want.need}
    for part in want.parts:
        add(sums, tuple((r, part.need * q) for r, q in part.shape.requests if r != PODS), 1)
    if rest > 0:
        open_ = [dict(part.shape.requests) for part in want.parts if part.count > part.need]
        for resource in {r for requests in open_ for r in requests if r != PODS}:
            cheapest = min(requests.get(resource, 0) for requests in open_)
            sums[resource] = sums.get(resource, 0) + rest * cheapest
    return counted(tuple(sorted((r, amount) for r, amount in sums.items() if amount)))


def most(want: Want) -> Amounts:
    sums: dict[str, int] = {PODS: sum(part.count for part in want.parts)}
    for part in want.parts:
        add(sums, tuple((r, part.count * q) for r, q in part.shape.requests if r != PODS), 1)
    return counted(tuple(sorted((r, amount) for r, amount in sums.items() if amount)))


def given_up(state: GangState) -> dict[str, int]:
    """Return what a gang uses in unannounced places: it gives them up for the places assigned to it now."""
    held: dict[str, int] = {}
    for promise in state.holds.values():
        if not promise.told:
            add(held, (*counted(promise.requests), (PODS, 1)), 1)
    return held
