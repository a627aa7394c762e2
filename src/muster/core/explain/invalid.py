"""Invalid: a minimum above the number of the gang's places, or a required topology layer that does not exist.

Other invalid gangs have a gate.
"""

from muster.core.explain.case import Case
from muster.core.placement.topology.rules import resolve
from muster.core.words.decisions import Explanation
from muster.core.words.gang import Code


def invalid(case: Case) -> Explanation | None:
    demand = case.demand
    if demand.rules is not None:
        layers = case.fit.topology_placement.topology.layers
        if error := resolve(demand.rules.gather, demand.rules.exclusive, layers).error:
            return _refused(error)
    for part in demand.parts:
        if part.need > part.count:
            return _refused(case.named(part, _short(part.need, part.count)))
    size = sum(part.count for part in demand.parts)
    return _refused(_short(demand.need, size)) if demand.need > size else None


def _short(need: int, count: int) -> str:
    return f"{need} more pods are required, but only {count} more can be"


def _refused(message: str) -> Explanation:
    return Explanation(Code.INVALID, "placement", message)
