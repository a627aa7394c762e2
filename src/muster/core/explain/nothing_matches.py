"""NothingMatches: a pod that is needed fits no node, even if it were empty (and ready, and not cordoned)."""

import numpy as np

from muster.core.decisions import Explanation
from muster.core.eligibility import Obstacle
from muster.core.explain.case import Case
from muster.core.gang import Code
from muster.core.mismatch import mismatch
from muster.core.nodes import PODS, Bools
from muster.core.placement import Part
from muster.core.wording import bare, nodes_, show


def nothing_matches(case: Case) -> Explanation | None:
    want, cluster = case.want, case.cluster
    hopeless = [part for part in want.parts if not _ever(case, part)]
    if not any(part.need for part in hopeless) and len(hopeless) < len(want.parts):
        return None
    part = next((part for part in hopeless if part.need), hopeless[0])
    mask = cluster.eligibility.of(part.shape)
    matching = mask.matching
    present = int(np.count_nonzero(mask.obstacles & Obstacle.GONE == 0))
    if not present:
        message = "there is no node"
    elif not matching.any():
        message = f"none of {nodes_(present)} matches: {mismatch(part.shape, cluster.nodes.facts.values())}"
    else:
        message = _too_large(case, part, matching)
    return Explanation(Code.NOTHING_MATCHES, "placement", case.named(part, message), case.pod_sets)


def _ever(case: Case, part: Part) -> bool:
    matching = case.cluster.eligibility.of(part.shape).matching
    return bool(case.cluster.slots.when_empty(part.shape, matching).any())


def _too_large(case: Case, part: Part, matching: Bools) -> str:
    pod = case.asked(case.cluster.slots.of(part.shape))
    for resource, row, asked in pod:
        largest = int(case.cluster.nodes.capacity(row)[matching].max(initial=0))
        if largest < asked:
            has = f"the largest matching node has {bare(resource, largest)}"
            return f"a pod asks {show(resource, asked)}; {has}"
    together = " and ".join(show(resource, asked) for resource, _, asked in pod if resource != PODS)
    return f"no matching node has {together} together"
