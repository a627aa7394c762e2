"""NothingMatches: a pod that is needed fits no node, even if it were empty (and ready, and not cordoned).

A selector that no node satisfies is described by the first of its labels that no node has, with the values
that nodes do have, since the likeliest cause is a typing error.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from muster.core.demand import Part
from muster.core.explain.case import Case
from muster.core.words.amounts import PODS, bare, nodes_, show
from muster.core.words.decisions import Explanation
from muster.core.words.events import NodeChanged
from muster.core.words.gang import Code, Shape
from muster.core.world.eligibility import Obstacle, obstacle, untolerated
from muster.core.world.nodes import Bools

#: Values of labels, and taints, that are named, at most.
SHOWN: Final = 3


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


def mismatch(shape: Shape, nodes: Iterable[NodeChanged]) -> str:
    """What keeps pods of this shape off these nodes, apart from cordons and readiness."""
    facts = list(nodes)
    found = Obstacle.NONE
    for fact in facts:
        found |= obstacle(shape, fact)
    return ", ".join(_causes(shape, facts, found))


def _causes(shape: Shape, nodes: list[NodeChanged], found: Obstacle) -> Iterator[str]:
    if Obstacle.SELECTOR in found:
        yield f"selector {_selector(shape, nodes)}"
    if Obstacle.AFFINITY in found:
        yield "affinity"
    if Obstacle.VOLUME in found:
        yield "its volumes are elsewhere"
    if Obstacle.TAINT in found:
        keeping = {taint for node in nodes for taint in untolerated(shape, node)}
        texts = sorted({f"{taint.key}={taint.value}" if taint.value else taint.key for taint in keeping})
        yield f"taint {_few(texts)}"


def _selector(shape: Shape, nodes: list[NodeChanged]) -> str:
    labels = [dict(node.labels) for node in nodes]
    for key, value in shape.selector:
        values = {found[key] for found in labels if key in found}
        if value not in values:
            return f"{key}={value} ({f'here: {_few(sorted(values))}' if values else f'no node has {key}'})"
    wanted = ", ".join(f"{key}={value}" for key, value in shape.selector)
    return wanted if len(shape.selector) == 1 else f"{wanted} (no node has all of these)"


def _few(texts: list[str]) -> str:
    return ", ".join(texts[:SHOWN]) + (", …" if len(texts) > SHOWN else "")
