"""A Node object → what the core is told about it."""

from muster.api.base import is_true
from muster.api.core_v1 import Node
from muster.api.quantity import capacity
from muster.core.events import NodeChanged
from muster.core.gang import Effect, NodeName, Taint


def node_changed(node: Node) -> NodeChanged:
    """Allocatable as capacity, rounded down. A node without a Ready condition is not ready.

    A resource whose quantity cannot be read counts as absent: capacity is never made up.
    """
    amounts = []
    for resource, quantity in sorted(node.status.allocatable.items()):
        try:
            amount = capacity(resource, quantity)
        except ValueError:
            continue
        if amount > 0:
            amounts.append((resource, amount))
    return NodeChanged(
        name=NodeName(node.metadata.name),
        capacity=tuple(amounts),
        labels=tuple(sorted(node.metadata.labels.items())),
        taints=tuple(
            Taint(taint.key, taint.value, _EFFECTS[taint.effect])
            for taint in node.spec.taints
            if taint.effect in _EFFECTS
        ),
        cordoned=node.spec.unschedulable,
        ready=is_true(node.status.conditions, "Ready"),
    )


_EFFECTS = {effect.value: effect for effect in Effect}
