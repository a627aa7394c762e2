"""TopologyUnsatisfied: the demand would fit, but not as near together, or as far from others, as required.

The code also applies if other constraints keep it off as well, and it would fit only without both.
"""

import numpy as np

from muster.core.demand import Part, Rules
from muster.core.explain.case import Case
from muster.core.explain.constraint_unsatisfied import constraints
from muster.core.placement.topology import Nearest
from muster.core.words.amounts import PODS, nodes_, show
from muster.core.words.decisions import Explanation, PodSetExplanation
from muster.core.words.gang import Code, Strategy


def topology_unsatisfied(case: Case) -> Explanation | None:
    demand = case.demand
    barred = case.fit.exclusive_domains.barred(demand)
    shut = 0 if barred is None else len(barred)
    if not (demand.rules is not None or shut):
        return None
    besides = ""
    if not case.fits_without_rules:
        if not demand.constrained or case.fits_without_constraints or not case.fits_without_both:
            return None
        names = dict.fromkeys(text for part in demand.parts for _, text in constraints(part))
        besides = f" and without {' and '.join(names)}"
    asked = show(PODS, demand.need)
    rules = demand.rules or Rules()
    asked += _asked(rules)
    sets = case.pod_sets
    nearest = case.fit.nearest(demand, case.verdict) if demand.rules is not None else None
    if nearest is not None:
        parts = zip(demand.parts, nearest.fits, strict=True)
        sets = tuple(_there(case, part, n, nearest) for part, n in parts)
        found = _found(nearest, demand.need)
    elif rules.exclusive:
        found = f"other gangs are in the domains of {nodes_(shut)}, or they have no label of it"
    elif shut:
        found = f"other gangs have the domains of {nodes_(shut)} to themselves"
    elif case.verdict is None or case.verdict.proven:
        found = "there is no such placement"
    else:
        found = "no such placement was found"
    message = f"{asked}; {found}; without that{besides} they fit"
    return Explanation(Code.TOPOLOGY_UNSATISFIED, "placement", message, sets)


def _asked(rules: Rules) -> str:
    layers = [rule.layer for rule in rules.gather if rule.strategy is Strategy.MUST_GATHER]
    multiples = [f"{rule.multiple} per {rule.layer}" for rule in rules.gather if rule.multiple > 1]
    asked = []
    if layers:
        asked.append(f"in one {' and one '.join(layers)}")
    if multiples:
        asked.append(f"in multiples of {' and '.join(multiples)}")
    if rules.exclusive:
        asked.append(f"alone in every {rules.exclusive}")
    return f" must be {', '.join(asked)}" if asked else ""


def _found(nearest: Nearest, need: int) -> str:
    fits = sum(nearest.fits)
    if fits >= need:
        return f"{nearest.title} has room for them, but not in that way"
    if nearest.among == 1:
        return f"{nearest.title} has room for {fits}"
    return f"of {nearest.among}, {nearest.title} has most room, for {fits}"


def _there(case: Case, part: Part, fits: int, nearest: Nearest) -> PodSetExplanation:
    """Explain a pod set in the domain with most room; other nodes with room are too far away."""
    slots = case.fit.slots.of(part.shape).slots
    away = int(np.count_nonzero(slots)) - int(np.count_nonzero(slots[nearest.columns]))
    limits = {"topology": away} if fits < part.need and away else {}
    return PodSetExplanation(part.pod_set, max(part.need, fits), fits, limits)
