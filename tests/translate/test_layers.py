"""ClusterNetworkTopology: a chain in any order, or an error that says what is wrong."""

import msgspec
import pytest

from muster.api.base import Object
from muster.api.koordinator_v1alpha1 import ClusterNetworkTopology
from muster.core.words.gang import Layer
from muster.translate.layers import Layers, layers
from tests.translate.cluster import topology


def entry(layer: str, parent: str = "", *keys: str) -> Object:
    return {"topologyLayer": layer, "parentTopologyLayer": parent, "labelKey": list(keys)}


def read(*entries: Object) -> Layers:
    return layers(msgspec.convert({"spec": {"networkTopologySpec": list(entries)}}, ClusterNetworkTopology))


def test_a_chain_from_the_widest() -> None:
    chain = (Layer("SpineLayer", ("spine",)), Layer("BlockLayer", ("block", "rack")))
    spine, block = entry("SpineLayer", "", "spine"), entry("BlockLayer", "SpineLayer", "block", "rack")
    node = entry("NodeTopologyLayer", "BlockLayer")
    assert read(spine, block, node) == read(node, block, spine) == read(spine, block) == Layers(chain)
    assert read(
        entry("ClusterTopologyLayer"), entry("SpineLayer", "ClusterTopologyLayer", "spine")
    ) == Layers(chain[:1])
    assert layers(None) == read() == Layers()
    assert layers(topology(("SpineLayer", "spine"))) == Layers(chain[:1])


@pytest.mark.parametrize(
    ("entries", "error"),
    [
        ([entry("", "", "a")], "spec.networkTopologySpec[0].topologyLayer is missing"),
        ([entry("A", "", "a"), entry("A", "", "b")], "spec.networkTopologySpec[1]: layer A occurs twice"),
        (
            [entry("A")],
            "spec.networkTopologySpec[0].labelKey is missing; write the node labels that name its domains",
        ),
        ([entry("A", "B", "a")], "layer A names the parent B, which is not there"),
        (
            [entry("A", "B", "a"), entry("B", "A", "b")],
            "the parents of A, B lead in a circle, and never to ClusterTopologyLayer",
        ),
        ([entry("A", "A", "a")], "the parents of A lead in a circle, and never to ClusterTopologyLayer"),
        (
            [entry("A", "", "a"), entry("B", "A", "b"), entry("C", "A", "c")],
            "B and C are both right below A; the layers must be one chain",
        ),
        (
            [entry("A", "", "a"), entry("B", "", "b")],
            "A and B are both right below ClusterTopologyLayer; the layers must be one chain",
        ),
        (
            [entry("NodeTopologyLayer", "A"), entry("A", "NodeTopologyLayer", "a")],
            "layer A names NodeTopologyLayer as its parent; nothing is below a node",
        ),
        (
            [entry("A", "", "a"), entry("B", "A", "b"), entry("NodeTopologyLayer", "A")],
            "B and NodeTopologyLayer are both right below A; the layers must be one chain",
        ),
    ],
)
def test_layers_that_are_not_one_chain_are_refused_with_the_reason(entries: list[Object], error: str) -> None:
    assert read(*entries) == Layers(error=error)
