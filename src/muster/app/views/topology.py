"""The network topology as users see it: its domains, their nodes, and their free resources."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from muster.api import kinds
from muster.api.base import Object
from muster.api.koordinator_v1alpha1 import DEFAULT
from muster.app.views import nodes
from muster.app.views.nodes import NodeView, quantities
from muster.core.words.events import NodeChanged
from muster.core.words.gang import NodeName
from muster.core.world.nodes import Nodes
from muster.core.world.topology import Topology
from muster.kube.client import Client
from muster.kube.listing import list_all
from muster.translate.layers import Layers, layers


@dataclass(frozen=True, slots=True)
class DomainView:
    """A domain. Amounts are milli-CPU, bytes and pieces."""

    layer: str
    #: names from the widest layer down; "" where a node has no label
    path: tuple[str, ...]
    #: whether it is a domain, rather than the nodes around it that have no label of this layer
    labelled: bool
    nodes: tuple[str, ...]
    #: how many of its nodes accept pods
    ready: int
    #: capacity of all nodes, and free resources of the nodes that accept pods
    capacity: dict[str, int]
    free: dict[str, int]


@dataclass(frozen=True, slots=True)
class TopologyView:
    #: the ClusterNetworkTopology exists
    defined: bool
    layers: tuple[str, ...]
    #: why the topology cannot be used; None if it can
    error: str | None
    #: from the cluster down, each domain before those within it
    domains: tuple[DomainView, ...]


async def fetch(client: Client) -> TopologyView:
    found = (await list_all(client, kinds.CLUSTER_NETWORK_TOPOLOGY, missing_ok=True)).items
    default = next((one for one in found if one.metadata.name == DEFAULT), None)
    return view(default is not None, layers(default), await nodes.fetch(client))


def summary(view: TopologyView) -> Object:
    """A view as JSON."""
    domains = [
        {**asdict(domain), "capacity": quantities(domain.capacity), "free": quantities(domain.free)}
        for domain in view.domains
    ]
    return {**asdict(replace(view, domains=())), "domains": domains}


def view(defined: bool, read: Layers, found: list[NodeView]) -> TopologyView:
    facts = Nodes()
    for node in found:
        facts.change(NodeChanged(NodeName(node.name), (), tuple(sorted(node.labels.items()))))
    facts.settle()
    tree = Topology(facts)
    tree.change(read.chain)
    tree.refresh()
    by_column = [{node.name: node for node in found}[name] for name in facts.names]
    domains = tuple(_domains(tree, by_column)) if found else ()
    return TopologyView(defined, tuple(layer.name for layer in read.chain), read.error or None, domains)


def _domains(tree: Topology, found: list[NodeView]) -> Iterator[DomainView]:
    """The domains above the nodes, in order of path."""
    numbered = (
        (level.paths[number], depth, number)
        for depth, level in enumerate(tree.levels[:-1])
        for number in range(len(level.paths))
    )
    for path, depth, number in sorted(numbered):
        level = tree.levels[depth]
        members = [found[column] for column in tree.columns(depth, number).tolist()]
        capacity, free, ready = Counter[str](), Counter[str](), 0
        for node in members:
            capacity.update(node.capacity)
            if node.state == "ready":
                ready += 1
                free.update({r: max(n - node.used.get(r, 0), 0) for r, n in node.capacity.items()})
        names = tuple(node.name for node in members)
        labelled = bool(level.labelled[number])
        yield DomainView(level.name, path, labelled, names, ready, dict(capacity), dict(free))
