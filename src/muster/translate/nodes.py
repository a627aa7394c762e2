"""Translates a Node object into the event that reports it to the core."""

from collections.abc import Iterable
from typing import Final

from muster.api.base import is_true
from muster.api.core_v1 import Node, Quantities
from muster.api.quantity import capacity
from muster.core.words.amounts import Usage
from muster.core.words.events import NodeChanged
from muster.core.words.gang import Effect, NodeName, Taint
from muster.core.world.eligibility import UNSCHEDULABLE
from muster.translate.features import declared


def node_changed(node: Node) -> NodeChanged:
    """Returns the node's event: allocatable as capacity, rounded down.

    A node without a Ready condition is not ready. A resource whose quantity cannot be read counts as absent:
    muster never invents capacity. The event omits taints by which Kubernetes repeats that a node is cordoned
    or not ready: a pod may start there once the node no longer is, whatever the pod tolerates.
    """
    amounts = []
    for resource, quantity in sorted(allocatable(node).items()):
        try:
            amount = capacity(resource, quantity)
        except ValueError:
            continue
        if amount > 0:
            amounts.append((resource, amount))
    ready = is_true(node.status.conditions, "Ready")
    repeated = (() if ready else _NOT_READY) + ((UNSCHEDULABLE.key,) if node.spec.unschedulable else ())
    return NodeChanged(
        name=NodeName(node.metadata.name),
        capacity=tuple(amounts),
        labels=tuple(sorted(node.metadata.labels.items())),
        taints=tuple(
            Taint(taint.key, taint.value, _EFFECTS[taint.effect])
            for taint in node.spec.taints
            if taint.effect in _EFFECTS and taint.key not in repeated
        ),
        cordoned=node.spec.unschedulable,
        ready=ready,
        features=declared(node.status.declared_features),
    )


def says_as_before(node: Node, old: Node) -> bool:
    """Whether a node has the same event as in its earlier state, as far as its raw fields show.

    Most changes of nodes are of this sort: the times of their conditions, and the images that they hold.
    """
    return (
        node.spec == old.spec
        and node.metadata.labels == old.metadata.labels
        and allocatable(node) == allocatable(old)
        and node.status.declared_features == old.status.declared_features
        and is_true(node.status.conditions, "Ready") == is_true(old.status.conditions, "Ready")
    )


def capacity_of(nodes: Iterable[Node]) -> Usage:
    """Returns the capacity of the ready, uncordoned nodes, which queues share."""
    total = Usage()
    for node in nodes:
        if (each := node_changed(node)).ready and not each.cordoned:
            total.add(dict(each.capacity))
    return total


def allocatable(node: Node) -> Quantities:
    """Returns what pods may use: the whole capacity, if the node states nothing else (API server default)."""
    return node.status.allocatable or node.status.capacity


#: Keys of the taints of nodes that are not ready.
_NOT_READY: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_EFFECTS = {effect.value: effect for effect in Effect}
