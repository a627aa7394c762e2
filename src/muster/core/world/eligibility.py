"""Which nodes a pod may run on at all: a boolean mask per constraint, kept up to date.

A node is eligible if it is ready, not cordoned (or the pod tolerates the taint of cordoned nodes), offers
the features that the pod needs, carries
every label of the selector, satisfies one term of the required node affinity and one of the node affinity of
each volume, has no NoSchedule or NoExecute taint that is not tolerated, and is not avoided because pods have
failed there (`failed_starts`). PreferNoSchedule taints and preferred node affinity rank nodes: those with
fewer such taints first, then those that satisfy more weight. Nodes that are used last come after all these.

All shapes of equal constraint share one mask. It costs a pass over the nodes once; afterwards only nodes
whose facts changed are evaluated again.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntFlag
from typing import Final

import numpy as np
import numpy.typing as npt

from muster.core.words.events import NodeChanged
from muster.core.words.gang import Effect, NodeName, NodeTerm, Operator, Shape, Taint, Toleration
from muster.core.world.labels import compares, holds
from muster.core.world.nodes import Bools, Ints, Key, Nodes, Value, recent
from muster.names import DOMAIN

#: Masks kept; the least recently used is dropped first.
_KEPT: Final = 1024

#: Entries that a cache by shape keeps for shapes that may return, once the last gang that had one has left.
#: At 10,000 nodes, masks and slots of so many take 20 MB.
SPARE: Final = 128

#: Weight of one PreferNoSchedule taint in a rank: more than all weights (at most 100 each) together.
_TAINT: Final = 2**20
#: Weight in a rank of a node that is used last: more than all taints together.
_LAST: Final = 2**28


#: The taints that stand for a cordon and for a node that all avoid, and by which a pod tolerates them.
UNSCHEDULABLE: Final = Taint("node.kubernetes.io/unschedulable", "", Effect.NO_SCHEDULE)
AVOIDED: Final = Taint(f"{DOMAIN}/avoided", "", Effect.NO_SCHEDULE)


class Obstacle(IntFlag):
    """What keeps pods off a node, whatever is free there; flags combine."""

    NONE = 0
    SELECTOR = 1
    AFFINITY = 2
    TAINT = 4
    CORDON = 8
    NOT_READY = 16
    GONE = 32
    VOLUME = 64
    AVOIDED = 128
    FEATURES = 256


@dataclass(slots=True)
class Mask:
    """For one constraint, each node's obstacles (as bits), and whether it has none."""

    obstacles: npt.NDArray[np.uint16] = field(default_factory=lambda: np.zeros(0, np.uint16))
    eligible: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    #: lower is better; `ranked` if eligible nodes differ in it
    rank: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    ranked: bool = False
    position: int = -1

    @property
    def matching(self) -> Bools:
        """Nodes that would do if they were ready, not cordoned and not avoided."""
        lasting = np.uint16(~(Obstacle.CORDON | Obstacle.NOT_READY | Obstacle.AVOIDED) & 0xFFFF)
        matching: Bools = (self.obstacles & lasting) == 0
        return matching


class Eligibility:
    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        #: by what eligibility reads of a shape
        self._masks: dict[tuple[object, ...], Mask] = {}

    def of(self, shape: Shape) -> Mask:
        """The current mask for pods of this shape, one cell per node. Read it, do not keep it."""
        nodes = self._nodes
        mask = recent(self._masks, _constraint(shape), lambda _: Mask(), _KEPT)
        if (changed := nodes.fact_changes.since(mask.position)) is None:
            mask.rank, mask.ranked = np.zeros(len(nodes), np.int32), False
            mask.obstacles, mask.eligible = mask.rank.astype(np.uint16), mask.rank.astype(np.bool_)
            changed = list(range(len(nodes)))
        for column in sorted(set(changed)):
            fact = nodes.facts.get(nodes.names[column])
            obstacles = Obstacle.GONE if fact is None else obstacle(shape, fact)
            if fact is not None and avoids(shape, fact.name, nodes):
                obstacles |= Obstacle.AVOIDED
            mask.obstacles[column] = obstacles
            mask.eligible[column] = not obstacles
            mask.rank[column] = 0 if fact is None else rank(shape, fact)
            if fact is not None and (fact.name in nodes.last or fact.name in shape.last):
                mask.rank[column] += _LAST
        if changed:
            ranks = mask.rank[mask.eligible]
            mask.ranked = bool(len(ranks)) and bool((ranks != ranks[0]).any())
        mask.position = nodes.fact_changes.end
        return mask

    def forget(self, shapes: Iterable[Shape]) -> None:
        """Drop the masks of other shapes than these, but for a few."""
        forget(self._masks, {*map(_constraint, shapes)})


def forget(cache: dict[Key, Value], living: Container[Key]) -> None:
    """Drop from a cache what is not `living`, but for the `SPARE` that were in use last (`recent`)."""
    gone = [key for key in cache if key not in living]
    for key in gone[: max(len(gone) - SPARE, 0)]:
        del cache[key]


def _constraint(shape: Shape) -> tuple[object, ...]:
    places = shape.volumes, shape.features, shape.avoided, shape.last
    return shape.selector, shape.affinity, shape.tolerations, shape.preferred, *places


def obstacle(shape: Shape, node: NodeChanged) -> Obstacle:
    """All that keeps pods of this shape off a node."""
    found = Obstacle.NONE
    if shape.selector or shape.affinity is not None:
        labels = dict(node.labels)
        if any(labels.get(key) != value for key, value in shape.selector):
            found |= Obstacle.SELECTOR
        if shape.affinity is not None and not any(_term(t, labels, node.name) for t in shape.affinity):
            found |= Obstacle.AFFINITY
    if shape.volumes:
        labels = dict(node.labels)
        if not all(any(_term(t, labels, node.name) for t in terms) for terms in shape.volumes):
            found |= Obstacle.VOLUME
    if shape.features and not {*shape.features} <= {*node.features}:
        found |= Obstacle.FEATURES
    if node.taints and untolerated(shape, node):
        found |= Obstacle.TAINT
    if node.cordoned and not _tolerated(UNSCHEDULABLE, shape.tolerations):
        found |= Obstacle.CORDON
    if not node.ready:
        found |= Obstacle.NOT_READY
    return found


def avoids(shape: Shape, node: NodeName, nodes: Nodes) -> bool:
    """Whether pods of this shape keep off a node because pods have failed there."""
    if node in shape.avoided:
        return True
    return node in nodes.avoided and not _tolerated(AVOIDED, shape.tolerations)


def rank(shape: Shape, node: NodeChanged) -> int:
    """The rank of a node for pods of this shape; lower is better."""
    found = 0
    if node.taints:
        found += _TAINT * sum(
            taint.effect is Effect.PREFER_NO_SCHEDULE
            and not any(tolerates(t, taint) for t in shape.tolerations)
            for taint in node.taints
        )
    if shape.preferred:
        labels = dict(node.labels)
        found += sum(weight for weight, term in shape.preferred if not _term(term, labels, node.name))
    return found


def untolerated(shape: Shape, node: NodeChanged) -> list[Taint]:
    """Taints of the node that keep pods of this shape off it."""
    return [taint for taint in node.taints if not _tolerated(taint, shape.tolerations)]


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.key not in ("", taint.key) or toleration.effect not in (None, taint.effect):
        return False
    if toleration.operator is None or toleration.value is None:
        return toleration.value in (None, taint.value)
    sign = 1 if toleration.operator is Operator.GT else -1
    return compares(sign, taint.value, (toleration.value,))


def _tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return taint.effect is Effect.PREFER_NO_SCHEDULE or any(tolerates(t, taint) for t in tolerations)


def _term(term: NodeTerm, labels: Mapping[str, str], name: str) -> bool:
    if not term.labels and not term.fields:
        return False
    return all(holds(r, labels.get(r.key)) for r in term.labels) and all(
        holds(r, name if r.key == "metadata.name" else None) for r in term.fields
    )
