"""What a demand takes of each resource: at least, and in total. `pods` included, GPUs in thousandths."""

from muster.core.demand import Demand
from muster.core.words.amounts import PODS, add, counted
from muster.core.words.gang import Amounts


def least(demand: Demand) -> Amounts:
    """Return what the minimum takes at least of each resource, whichever places make it up."""
    rest = demand.need - sum(part.need for part in demand.parts)
    sums: dict[str, int] = {PODS: demand.need}
    for part in demand.parts:
        add(sums, tuple((r, part.need * q) for r, q in part.shape.requests if r != PODS), 1)
    if rest > 0:
        open_ = [dict(part.shape.requests) for part in demand.parts if part.count > part.need]
        for resource in {r for requests in open_ for r in requests if r != PODS}:
            cheapest = min(requests.get(resource, 0) for requests in open_)
            sums[resource] = sums.get(resource, 0) + rest * cheapest
    return counted(tuple(sorted((r, amount) for r, amount in sums.items() if amount)))


def most(demand: Demand) -> Amounts:
    sums: dict[str, int] = {PODS: sum(part.count for part in demand.parts)}
    for part in demand.parts:
        add(sums, tuple((r, part.count * q) for r, q in part.shape.requests if r != PODS), 1)
    return counted(tuple(sorted((r, amount) for r, amount in sums.items() if amount)))
