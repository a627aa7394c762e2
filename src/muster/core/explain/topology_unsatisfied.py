"""TopologyUnsatisfied: it would fit, but not together in one domain of the layer that it requires."""

from muster.core.decisions import Explanation
from muster.core.exact import Verdict
from muster.core.explain.amounts import show
from muster.core.explain.case import Case
from muster.core.gang import Code, Strategy
from muster.core.nodes import PODS
from muster.core.placement import Claim, Want


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
    if nearest is None:
        found = "no nodes allow that" if layers else "no placement keeps that"
    elif nearest.fits >= case.want.need:
        found = f"{nearest.title} has room for them, but not in that way"
    elif nearest.among == 1:
        found = f"{nearest.title} takes {nearest.fits} now"
    else:
        found = f"of {nearest.among}, {nearest.title} takes most now: {nearest.fits}"
    return Explanation(
        Code.TOPOLOGY_UNSATISFIED, "placement", f"{asked}; {found}; without that they fit", case.pod_sets
    )


def _fits_anywhere(case: Case) -> bool:
    """As far as greedy placement can tell."""
    ledger, want = case.cluster.ledger, case.want
    free = Want(want.parts, want.need)
    mark = ledger.mark()
    placed = case.cluster.fit.fit(Claim(free, [range(part.count) for part in want.parts], search=False))
    ledger.rollback(mark)
    return not isinstance(placed, Verdict)
