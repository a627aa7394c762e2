"""Translates a ClusterNetworkTopology into the core's layers, and the core's tree into its status."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from muster.api.base import Object
from muster.api.koordinator_v1alpha1 import ClusterNetworkTopology
from muster.api.layers import Chain, chain_of
from muster.core.words.gang import Layer
from muster.core.world.topology import Topology

#: Most domains that are listed in a status: about 300 kB.
MOST_DETAILS: Final = 2_000


@dataclass(frozen=True, slots=True)
class Layers:
    #: layers from the widest to the narrowest
    chain: tuple[Layer, ...] = ()
    #: why there are no layers; "" if nothing is wrong
    error: str = ""
    #: the same, by their labels
    labels: Chain = field(default=Chain(), compare=False)


def layers(topology: ClusterNetworkTopology | None) -> Layers:
    """Returns the layers of a ClusterNetworkTopology; none without one."""
    found = chain_of(topology)
    return Layers(tuple(Layer(*each) for each in found.layers), found.error, found)


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
