"""Which of a pod's constraints no node satisfies, in words: the label that no node has, or a taint.

This is only for shapes that match no node at all. A selector is described by the first of its labels that no
node has, with the values that nodes do have, since the likeliest cause is a typing error.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from muster.core.words.events import NodeChanged
from muster.core.words.gang import Shape
from muster.core.world.eligibility import Obstacle, obstacle, untolerated

#: Values of labels, and taints, that are named, at most.
SHOWN: Final = 3


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
