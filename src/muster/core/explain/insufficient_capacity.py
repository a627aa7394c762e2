"""InsufficientCapacity: less of some resource is free on all usable nodes together than the minimum takes."""

import numpy as np

from muster.core.explain.case import Case
from muster.core.words.amounts import are, bare
from muster.core.words.decisions import Explanation
from muster.core.words.gang import Code
from muster.core.world.nodes import Bools


def insufficient_capacity(case: Case) -> Explanation | None:
    nodes = case.world.nodes
    worst: tuple[float, str, int, int, Bools] | None = None
    for resource, row in nodes.resources.items():
        demanded = case.at_least(row)
        if not demanded:
            continue
        usable = case.usable(row)
        free = case.free(row, usable)
        if demanded > free:
            short = free / demanded
            if worst is None or (short, resource) < worst[:2]:
                worst = (short, resource, demanded, free, usable)
    if worst is None:
        return None
    _, resource, demanded, free, usable = worst
    row = nodes.resources[resource]
    capacity = int(nodes.capacity(row)[usable].sum(dtype=np.int64))
    message = f"{case.total(resource, row, demanded)}; "
    serving = int(np.count_nonzero(usable))
    if not serving:
        message += "no matching node is ready and uncordoned"
    else:
        message += f"{are(resource, free)} free"
    if serving and capacity < demanded:
        whole = f"all {serving} matching nodes together have" if serving > 1 else "the only matching node has"
        message += f", {whole} {bare(resource, capacity)}"
    blockers = case.holders(resource, usable)
    return Explanation(Code.INSUFFICIENT_CAPACITY, "placement", message, case.pod_sets, blockers)
