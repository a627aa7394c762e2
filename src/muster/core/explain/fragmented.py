"""Fragmented: totals suffice, but no placement exists, or none was found. The last of the reasons."""

import numpy as np

from muster.core.explain.case import Case
from muster.core.placement import Infeasible
from muster.core.words.amounts import are, bare, nodes_, show
from muster.core.words.decisions import Explanation
from muster.core.words.gang import Code
from muster.names import GPU_SHARE


def fragmented(case: Case) -> Explanation:
    demand = case.demand
    sets = case.pod_sets
    short = next((pod_set for pod_set in sets if pod_set.fits < pod_set.wanted), sets[0])
    part = next(part for part in demand.parts if part.pod_set == short.name)
    vector = case.fit.slots.of(part.shape)
    asked_by_pod = case.asked(vector)
    limiting = [item for item in asked_by_pod if item[0] in short.limited_by] or asked_by_pod[:1]
    resource, row, asked = limiting[0]
    usable = case.usable(row)
    holding = int(np.count_nonzero(vector.slots))
    pod = (
        " and ".join(show(name, amount) for name, _, amount in limiting)
        if len(limiting) > 1
        else bare(resource, asked)
    )
    if not holding:
        but = f"no {'GPU' if resource == GPU_SHARE else 'node'} has {pod} free at once"
    elif vector.total == holding and len(demand.parts) == 1:
        but = f"only {nodes_(holding)} {'has' if holding == 1 else 'have'} {pod} free at once"
    else:
        but = f"in pieces that take only {short.fits} of {short.wanted} pods"
    asks = case.total(resource, row, case.at_least(row))
    message = f"{asks}; {are(resource, case.free(row, usable))} free, but {but}{_certainty(case)}"
    return Explanation(
        Code.FRAGMENTED, "placement", case.named(part, message), sets, case.holders(resource, usable)
    )


def _certainty(case: Case) -> str:
    """Return the wording for how certain the answer is; "" for one shape, where greedy placement is exact."""
    if case.verdict is None or len({part.shape for part in case.demand.parts}) == 1:
        return ""
    return certainty(case.verdict)


def certainty(verdict: Infeasible) -> str:
    if verdict.proven:
        return "; no placement exists"
    if verdict.open:
        return "; none was found within the search budget"
    return "; an exhaustive search found none"
