"""Nodes as users see them: their capacity, and the requests of bound pods."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.api import kinds
from muster.api.base import Object, is_true
from muster.api.core_v1 import Node
from muster.api.quantity import show, thousandths
from muster.core.words.gang import NodeName
from muster.kube.client import Client
from muster.kube.listing import list_all
from muster.names import GPU, GPU_PRODUCT, GPU_SHARE
from muster.translate.nodes import node_changed
from muster.translate.pods import asked
from muster.translate.requests import as_it_runs


@dataclass(frozen=True, slots=True)
class NodeView:
    name: str
    state: str
    #: milli-CPU, bytes, pieces
    capacity: dict[str, int]
    used: dict[str, int]
    product: str
    labels: dict[str, str] = field(default_factory=dict)


async def fetch(client: Client) -> list[NodeView]:
    nodes = (await list_all(client, kinds.NODE)).items
    pods = (await list_all(client, kinds.POD, fields="spec.nodeName!=")).items
    used: dict[str, Counter[str]] = defaultdict(Counter)
    for pod in pods:
        if not pod.terminal:
            used[pod.spec.node_name].update(dict(asked(as_it_runs(pod)).shape.requests))
            used[pod.spec.node_name]["pods"] += 1
    return sorted((_view(node, dict(used[node.metadata.name])) for node in nodes), key=lambda view: view.name)


def _view(node: Node, used: dict[str, int]) -> NodeView:
    if not is_true(node.status.conditions, "Ready"):
        state = "not ready"
    else:
        state = "cordoned" if node.spec.unschedulable else "ready"
    return NodeView(
        NodeName(node.metadata.name),
        state,
        dict(node_changed(node).capacity),
        used,
        node.metadata.labels.get(GPU_PRODUCT, ""),
        dict(node.metadata.labels),
    )


def summary(node: NodeView) -> Object:
    """A view as JSON."""
    return {
        "name": node.name,
        "state": node.state,
        "capacity": quantities(node.capacity),
        "used": quantities(node.used),
        "product": node.product,
    }


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Amounts as Kubernetes quantities. Shares of a GPU count as fractions of a GPU."""
    found = {
        resource: show(resource, amount) for resource, amount in amounts.items() if resource != GPU_SHARE
    }
    if shares := amounts.get(GPU_SHARE, 0):
        found[GPU] = thousandths(1000 * amounts.get(GPU, 0) + shares)
    return found
