"""TopologyUnsatisfied: it would fit, but not together in one domain of the layer that it requires."""

import numpy as np

from muster.core.decisions import Explanation, PodSetExplanation
from muster.core.exact import Verdict
from muster.core.explain.amounts import show
from muster.core.explain.case import Case
from muster.core.gang import Code, Strategy
from muster.core.gather import Nearest
from muster.core.nodes import PODS
from muster.core.placement import Claim, Part, Want


def topology_unsatisfied(case: Case) -> Explanation | None:
    rules = case.want.rules
    if rules is None or not _fits_anywhere(case):
        return None
    nearest = case.cluster.fit.gathering.nearest(case.want, case.verdict)
    needed = show(PODS, case.want.need)
    layers = [rule.layer for rule in rules.gather if rule.strategy is Strategy.MUST_GATHER]
    multiples = [f"{rule.multiple} per {rule.layer}" for rule in rules.gather if rule.multiple > 1]
    asked = f"{needed} must be in one {' and one '.join(layers)}" if layers else needed
    if multiples:
        asked += f"{', ' if layers else ' must be '}in multiples of {' and '.join(multiples)}"
    sets = case.pod_sets
    if nearest is None:
        found = "no nodes allow that" if layers else "there is no such placement"
    else:
        fits = sum(nearest.fits)
        parts = zip(case.want.parts, nearest.fits, strict=True)
        sets = tuple(_there(case, part, n, nearest) for part, n in parts)
        if fits >= case.want.need:
            found = f"{nearest.title} has room for them, but not in that way"
        elif nearest.among == 1:
            found = f"{nearest.title} has room for {fits}"
        else:
            found = f"of {nearest.among}, {nearest.title} has most room, for {fits}"
    return Explanation(
        Code.TOPOLOGY_UNSATISFIED, "placement", f"{asked}; {found}; without that they fit", sets
    )


def _there(case: Case, part: Part, fits: int, nearest: Nearest) -> PodSetExplanation:
    """How far a pod set gets in the domain that has most room; other nodes with room are too far away."""
    slots = case.cluster.slots.of(part.shape).slots
    away = int(np.count_nonzero(slots)) - int(np.count_nonzero(slots[nearest.columns]))
    limits = {"topology": away} if fits < part.need and away else {}
    return PodSetExplanation(part.pod_set, max(part.need, fits), fits, limits)


def _fits_anywhere(case: Case) -> bool:
    """As far as greedy placement can tell."""
    ledger, want = case.cluster.ledger, case.want
    free = Want(want.parts, want.need)
    mark = ledger.mark()
    placed = case.cluster.fit.fit(Claim(free, [range(part.count) for part in want.parts], search=False))
    ledger.rollback(mark)
    return not isinstance(placed, Verdict)
