"""Which nodes a pod may run on at all: a boolean mask per constraint, kept up to date.

A node is eligible if it is ready, not cordoned, carries every label of the selector, satisfies one
term of the required node affinity, and has no NoSchedule or NoExecute taint that is not tolerated.
PreferNoSchedule taints keep nothing off. The rules of operators are Kubernetes' own: NotIn and
DoesNotExist hold where the label is absent, Gt and Lt compare integers and hold for nothing else, a term
without requirements matches no node.

Masks are shared by all shapes of equal constraint and cost a pass over the nodes once; afterwards only
nodes whose facts changed are looked at again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntFlag
from typing import Final

import numpy as np
import numpy.typing as npt

from muster.core.events import NodeChanged
from muster.core.gang import Effect, NodeTerm, Operator, Requirement, Shape, Taint, Toleration
from muster.core.nodes import Bools, Nodes

#: Masks kept; the one unused for longest goes first.
_KEPT: Final = 1024

_Constraint = tuple[tuple[tuple[str, str], ...], tuple[NodeTerm, ...] | None, tuple[Toleration, ...]]


class Obstacle(IntFlag):
    """What keeps pods off a node, whatever is free there. Several may."""

    NONE = 0
    SELECTOR = 1
    AFFINITY = 2
    TAINT = 4
    CORDON = 8
    NOT_READY = 16
    GONE = 32


@dataclass(slots=True)
class Mask:
    """Per node its obstacles (as bits) for one constraint, and whether there are none."""

    obstacles: npt.NDArray[np.uint8]
    eligible: Bools
    layout: int = -1
    position: int = 0

    @property
    def matching(self) -> Bools:
        """Nodes that would do if they were ready and not cordoned."""
        lasting = np.uint8(~(Obstacle.CORDON | Obstacle.NOT_READY) & 0xFF)
        matching: Bools = (self.obstacles & lasting) == 0
        return matching


class Eligibility:
    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._masks: dict[_Constraint, Mask] = {}

    def of(self, shape: Shape) -> Mask:
        """The mask for pods of this shape, one cell per node. Read it, do not keep it."""
        constraint = (shape.selector, shape.affinity, shape.tolerations)
        mask = self._masks.pop(constraint, None)
        nodes = self._nodes
        changed = None
        if mask is not None and mask.layout == nodes.layout:
            changed = nodes.fact_changes.since(mask.position)
        if mask is None or changed is None:
            mask = Mask(np.zeros(len(nodes), np.uint8), np.zeros(len(nodes), np.bool_))
            changed = list(range(len(nodes)))
        for column in sorted(set(changed)):
            fact = nodes.facts.get(nodes.names[column])
            obstacles = Obstacle.GONE if fact is None else obstacle(shape, fact)
            mask.obstacles[column] = obstacles
            mask.eligible[column] = not obstacles
        mask.layout, mask.position = nodes.layout, nodes.fact_changes.end
        self._masks[constraint] = mask
        if len(self._masks) > _KEPT:
            del self._masks[next(iter(self._masks))]
        return mask


def obstacle(shape: Shape, node: NodeChanged) -> Obstacle:
    """All that keeps pods of this shape off a node."""
    found = Obstacle.NONE
    if shape.selector or shape.affinity is not None:
        labels = dict(node.labels)
        if any(labels.get(key) != value for key, value in shape.selector):
            found |= Obstacle.SELECTOR
        if shape.affinity is not None and not any(_term(t, labels, node.name) for t in shape.affinity):
            found |= Obstacle.AFFINITY
    if node.taints and untolerated(shape, node):
        found |= Obstacle.TAINT
    if node.cordoned:
        found |= Obstacle.CORDON
    if not node.ready:
        found |= Obstacle.NOT_READY
    return found


def untolerated(shape: Shape, node: NodeChanged) -> list[Taint]:
    """Taints of the node that keep pods of this shape off it."""
    return [taint for taint in node.taints if not _tolerated(taint, shape.tolerations)]


def _tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return taint.effect is Effect.PREFER_NO_SCHEDULE or any(t.tolerates(taint) for t in tolerations)


def _term(term: NodeTerm, labels: Mapping[str, str], name: str) -> bool:
    if not term.labels and not term.fields:
        return False
    return all(_holds(r, labels.get(r.key)) for r in term.labels) and all(
        _holds(r, name if r.key == "metadata.name" else None) for r in term.fields
    )


def _holds(requirement: Requirement, value: str | None) -> bool:
    return _OPERATORS[requirement.operator](value, requirement.values)


def _compares(sign: int) -> Callable[[str | None, tuple[str, ...]], bool]:
    def holds(value: str | None, values: tuple[str, ...]) -> bool:
        if value is None or len(values) != 1:
            return False
        try:
            return sign * int(value) > sign * int(values[0])
        except ValueError:
            return False

    return holds


_OPERATORS: Final[Mapping[Operator, Callable[[str | None, tuple[str, ...]], bool]]] = {
    Operator.IN: lambda value, values: value is not None and value in values,
    Operator.NOT_IN: lambda value, values: value is None or value not in values,
    Operator.EXISTS: lambda value, values: value is not None,
    Operator.DOES_NOT_EXIST: lambda value, values: value is None,
    Operator.GT: _compares(+1),
    Operator.LT: _compares(-1),
}
