"""NothingMatches: a pod that is needed fits no node, even if it were empty (and ready, and not cordoned)."""

import numpy as np

from muster.core.demand import Part
from muster.core.explain.case import Case
from muster.core.words.amounts import PODS
from muster.core.words.decisions import Explanation
from muster.core.words.gang import Code
from muster.core.words.wording import bare, nodes_, show
from muster.core.world.eligibility import Obstacle
from muster.core.world.mismatch import mismatch
from muster.core.world.nodes import Bools


def nothing_matches(case: Case) -> Explanation | None:
    demand, world = case.demand, case.world
    hopeless = [part for part in demand.parts if not _ever(case, part)]
    if not any(part.need for part in hopeless) and len(hopeless) < len(demand.parts):
        return None
    part = next((part for part in hopeless if part.need), hopeless[0])
    mask = world.eligibility.of(part.shape)
    matching = mask.matching
    present = int(np.count_nonzero(mask.obstacles & Obstacle.GONE == 0))
    if not present:
        message = "there is no node"
    elif not matching.any():
        message = f"none of {nodes_(present)} matches: {mismatch(part.shape, world.nodes.facts.values())}"
    else:
        message = _too_large(case, part, matching)
    return Explanation(Code.NOTHING_MATCHES, "placement", case.named(part, message), case.pod_sets)


def _ever(case: Case, part: Part) -> bool:
    matching = case.world.eligibility.of(part.shape).matching
    return bool(case.fit.slots.when_empty(part.shape, matching).any())


def _too_large(case: Case, part: Part, matching: Bools) -> str:
    pod = case.asked(case.fit.slots.of(part.shape))
    for resource, row, asked in pod:
        largest = int(case.world.nodes.capacity(row)[matching].max(initial=0))
        if largest < asked:
            has = f"the largest matching node has {bare(resource, largest)}"
            return f"a pod asks {show(resource, asked)}; {has}"
    together = " and ".join(show(resource, asked) for resource, _, asked in pod if resource != PODS)
    return f"no matching node has {together} together"
