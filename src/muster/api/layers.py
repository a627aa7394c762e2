"""The layers of a ClusterNetworkTopology as a chain, or what is wrong with it.

Each entry names its parent, so a list in any order can be a chain, from the widest layer to the one above
the nodes. Anything else (two children of one layer, a cycle, a parent that does not exist) is not a tree
of nodes, and is refused as a whole: half a topology would place gangs where their users do not
want them. The layers of the cluster and of the nodes always exist and need not be written.
"""

from typing import NamedTuple

from muster.api.koordinator_v1alpha1 import (
    CLUSTER_LAYER,
    NODE_LAYER,
    ClusterNetworkTopology,
    TopologyLayer,
)


class Layer(NamedTuple):
    name: str
    #: node labels: the first that a node has names its domain
    keys: tuple[str, ...]


class Chain(NamedTuple):
    #: layers from the widest to the narrowest
    layers: tuple[Layer, ...] = ()
    #: why there are no layers; "" if nothing is wrong
    error: str = ""

    def of_label(self, key: str) -> str:
        """Returns the layer whose domains this node label alone names; "" if there is none."""
        return next((layer.name for layer in self.layers if layer.keys == (key,)), "")

    def label_of(self, name: str) -> str:
        """Returns the node label that alone names the domains of a layer; "" if there is none."""
        return next((layer.keys[0] for layer in self.layers if layer.name == name and not layer.keys[1:]), "")


def chain_of(topology: ClusterNetworkTopology | None) -> Chain:
    """Returns the layers of a ClusterNetworkTopology; none without one."""
    if topology is None:
        return Chain()
    by_name: dict[str, TopologyLayer] = {}
    for position, entry in enumerate(topology.spec.network_topology_spec):
        at = f"spec.networkTopologySpec[{position}]"
        if not entry.topology_layer:
            return Chain(error=f"{at}.topologyLayer is missing")
        if entry.topology_layer in by_name:
            return Chain(error=f"{at}: layer {entry.topology_layer} occurs twice")
        if entry.topology_layer not in (CLUSTER_LAYER, NODE_LAYER) and not any(entry.label_key):
            error = f"{at}.labelKey is missing; write the node labels that name its domains"
            return Chain(error=error)
        by_name[entry.topology_layer] = entry
    return _chained(by_name)


def _chained(by_name: dict[str, TopologyLayer]) -> Chain:
    """Chains the layers from the nodes up: every layer has at most one other directly below it."""
    below: dict[str, str] = {}
    for name, entry in by_name.items():
        parent = entry.parent_topology_layer or CLUSTER_LAYER
        if name == CLUSTER_LAYER:
            continue
        if parent != CLUSTER_LAYER and parent not in by_name:
            return Chain(error=f"layer {name} names the parent {parent}, which is not there")
        if parent == NODE_LAYER:
            return Chain(error=f"layer {name} names {NODE_LAYER} as its parent; nothing is below a node")
        if name == NODE_LAYER and parent == CLUSTER_LAYER and len(by_name) > 1:
            continue  # the nodes' own parent need not be written
        if parent in below:
            both = " and ".join(sorted((below[parent], name)))
            return Chain(error=f"{both} are both right below {parent}; the layers must be one chain")
        below[parent] = name
    found: list[Layer] = []
    name = below.get(CLUSTER_LAYER, "")
    while name and name != NODE_LAYER:
        found.append(Layer(name, tuple(key for key in by_name[name].label_key if key)))
        name = below.get(name, "")
    apart = sorted(by_name.keys() - {layer.name for layer in found} - {CLUSTER_LAYER, NODE_LAYER})
    if apart:
        why = f"the parents of {', '.join(apart)} lead in a circle, and never to {CLUSTER_LAYER}"
        return Chain(error=why)
    return Chain(tuple(found))
