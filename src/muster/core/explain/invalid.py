"""Invalid: a minimum above the number of the gang's places, or a required topology layer that does not exist.

Other invalid gangs have a gate.
"""

from muster.core.decisions import Explanation
from muster.core.explain.case import Case
from muster.core.gang import Code
from muster.core.topology.rules import resolve


def invalid(case: Case) -> Explanation | None:
    want = case.want
    if want.rules is not None:
        layers = case.cluster.fit.gathering.topology.layers
        if error := resolve(want.rules.gather, want.rules.exclusive, layers).error:
            return _refused(error)
    for part in want.parts:
        if part.need > part.count:
            return _refused(case.named(part, _short(part.need, part.count)))
    size = sum(part.count for part in want.parts)
    return _refused(_short(want.need, size)) if want.need > size else None


def _short(need: int, count: int) -> str:
    return f"{need} more pods are required, but only {count} more can be"


def _refused(message: str) -> Explanation:
    return Explanation(Code.INVALID, "placement", message)
