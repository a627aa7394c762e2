"""Translates a ClusterNetworkTopology into the core's layers, or into what is wrong with it.

Each entry names its parent, so a list in any order can be a chain, from the widest layer to the one above
the nodes. Anything else (two children of one layer, a cycle, a parent that does not exist) is not a tree
of nodes, and is refused as a whole: half a topology would place gangs where their users do not
want them. The layers of the cluster and of the nodes always exist and need not be written.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from muster.api.base import Object
from muster.api.koordinator_v1alpha1 import ClusterNetworkTopology, TopologyLayer
from muster.core.words.gang import Layer
from muster.core.world.topology import CLUSTER, NODE, Topology

#: Most domains that are listed in a status: about 300 kB.
MOST_DETAILS: Final = 2_000


@dataclass(frozen=True, slots=True)
class Layers:
    #: layers from the widest to the narrowest
    chain: tuple[Layer, ...] = ()
    #: why there are no layers; "" if nothing is wrong
    error: str = ""

    def of_label(self, key: str) -> str:
        """Returns the layer whose domains this node label alone names; "" if there is none."""
        return next((layer.name for layer in self.chain if layer.keys == (key,)), "")


def layers(topology: ClusterNetworkTopology | None) -> Layers:
    """Returns the layers of a ClusterNetworkTopology; none without one."""
    if topology is None:
        return Layers()
    entries = topology.spec.network_topology_spec
    by_name: dict[str, TopologyLayer] = {}
    for position, entry in enumerate(entries):
        at = f"spec.networkTopologySpec[{position}]"
        if not entry.topology_layer:
            return Layers(error=f"{at}.topologyLayer is missing")
        if entry.topology_layer in by_name:
            return Layers(error=f"{at}: layer {entry.topology_layer} occurs twice")
        if entry.topology_layer not in (CLUSTER, NODE) and not any(entry.label_key):
            error = f"{at}.labelKey is missing; write the node labels that name its domains"
            return Layers(error=error)
        by_name[entry.topology_layer] = entry
    return _chain(by_name)


def _chain(by_name: dict[str, TopologyLayer]) -> Layers:
    """Chains the layers from the nodes up: every layer has at most one other directly below it."""
    below: dict[str, str] = {}
    for name, entry in by_name.items():
        parent = entry.parent_topology_layer or CLUSTER
        if name == CLUSTER:
            continue
        if parent != CLUSTER and parent not in by_name:
            return Layers(error=f"layer {name} names the parent {parent}, which is not there")
        if parent == NODE:
            return Layers(error=f"layer {name} names {NODE} as its parent; nothing is below a node")
        if name == NODE and parent == CLUSTER and len(by_name) > 1:
            continue  # the nodes' own parent need not be written
        if parent in below:
            both = " and ".join(sorted((below[parent], name)))
            return Layers(error=f"{both} are both right below {parent}; the layers must be one chain")
        below[parent] = name
    chain: list[Layer] = []
    name = below.get(CLUSTER, "")
    while name and name != NODE:
        chain.append(Layer(name, tuple(key for key in by_name[name].label_key if key)))
        name = below.get(name, "")
    apart = sorted(by_name.keys() - {layer.name for layer in chain} - {CLUSTER, NODE})
    if apart:
        return Layers(error=f"the parents of {', '.join(apart)} lead in a circle, and never to {CLUSTER}")
    return Layers(tuple(chain))


def detail(tree: Topology) -> list[Object]:
    """Returns `status.detailStatus`: the domains from the cluster down, each before those within it.

    Nodes are not listed, nor domains beyond `MOST_DETAILS`, which would be too much for one object.
    """
    tree.refresh()
    found: list[Object] = []
    if tree.levels:
        _describe(tree, 0, 0, None, found)
    return found


def _describe(tree: Topology, depth: int, number: int, parent: Object | None, found: list[Object]) -> None:
    if len(found) >= MOST_DETAILS:
        return
    level, below = tree.levels[depth], tree.levels[depth + 1]
    path = level.paths[number] if level.paths else ()
    info = {"topologyLayer": level.name, "topologyName": path[-1] if path else ""}
    entry: Object = {"topologyInfo": info, "childTopologyLayer": below.name}
    if parent is not None:
        entry["parentTopologyInfo"] = parent
    found.append(entry)
    entry["nodeNum"] = tree.size(depth, number)
    if depth + 2 == len(tree.levels):
        return
    first, end = np.searchsorted(below.starts[:-1], level.starts[number : number + 2]).tolist()
    children = [child for child in range(first, end) if below.labelled[child]]
    if children:
        entry["childTopologyNames"] = [below.paths[child][-1] for child in children]
    for child in children:
        _describe(tree, depth + 1, child, info, found)
