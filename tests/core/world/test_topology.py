"""The tree of domains: by path, from labels, following the nodes."""

import numpy as np

from muster.core.placement.topology.rules import resolve
from muster.core.words.gang import Gather, Layer, NodeName, Strategy
from muster.core.world.nodes import Nodes
from muster.core.world.topology import CLUSTER, NODE, Topology
from tests.core.words import node

SPINE, BLOCK = Layer("Spine", ("spine",)), Layer("Block", ("block", "rack"))


def tree(**labels: dict[str, str]) -> tuple[Nodes, Topology]:
    nodes = Nodes()
    for name, own in labels.items():
        nodes.change(node(name, labels=own))
    nodes.settle()
    topology = Topology(nodes)
    topology.change((SPINE, BLOCK))
    topology.refresh()
    return nodes, topology


def test_domains_are_keyed_by_path() -> None:
    _, topology = tree(
        a={"spine": "s1", "block": "b1"}, b={"spine": "s2", "block": "b1"}, c={"spine": "s1", "rack": "b1"}
    )
    blocks = topology.levels[2]
    assert [path for path, there in zip(blocks.paths, blocks.labelled, strict=True) if there] == [
        ("s1", "b1"),
        ("s2", "b1"),
    ]
    assert blocks.domains.tolist() == [0, 1, 0]
    assert topology.order.tolist() == [0, 2, 1]
    assert topology.names == [CLUSTER, "Spine", "Block", NODE]


def test_a_node_without_a_label_is_in_no_domain_of_that_layer_only() -> None:
    _, topology = tree(a={"spine": "s1"}, b={"spine": "s1", "block": "b1"}, c={"block": "b1"}, d={})
    spines, blocks = topology.levels[1].domains.tolist(), topology.levels[2].domains.tolist()
    assert (spines[2:], blocks[0], blocks[3]) == ([-1, -1], -1, -1)
    assert spines[0] == spines[1] != -1
    assert len({-1, blocks[1], blocks[2]}) == 3


def test_sums_over_domains() -> None:
    _, topology = tree(
        a={"spine": "s1", "block": "b1"},
        b={"spine": "s2", "block": "b1"},
        c={"spine": "s1", "block": "b2"},
        d={"spine": "s1", "block": "b1"},
    )
    sums = topology.sums(np.array([1, 2, 4, 8], np.int32))
    assert [topology.totals(level, sums).tolist() for level in (2, 1, 0)] == [[9, 4, 2], [13, 2], [15]]
    assert topology.cells.tolist() == [0, 2, 1, 0]
    assert topology.columns(1, 0).tolist() == [0, 2, 3]
    assert topology.above(np.arange(3), 2, 1).tolist() == [0, 0, 1]
    assert topology.above(np.arange(4), 3, 2).tolist() == [0, 2, 1, 0]


def test_the_topology_follows_the_nodes() -> None:
    nodes, topology = tree(a={"spine": "s1"}, b={"spine": "s2"})
    nodes.change(node("b", labels={"spine": "s1"}))
    topology.refresh()
    assert topology.levels[1].paths == [("s1",)]
    nodes.change(node("c", labels={"spine": "s0"}))
    nodes.settle()
    topology.refresh()
    assert topology.levels[1].paths == [("s0",), ("s1",)]
    nodes.remove(NodeName("c"))
    topology.refresh()
    assert topology.levels[1].domains.tolist() == [1, 1, -1]


def test_layers_that_rules_name() -> None:
    must, prefer = Strategy.MUST_GATHER, Strategy.PREFER_GATHER
    found = resolve([Gather("spine", must), Gather("Row", prefer)], "NODETOPOLOGYLAYER", (SPINE, BLOCK))
    assert (found.gather, found.exclusive, found.error) == ((Gather("Spine", must),), NODE, "")
    assert found.warnings == (
        "layer spine is called Spine here, and taken for it",
        "there is no topology layer Row, its preference is ignored",
        "layer NODETOPOLOGYLAYER is called NodeTopologyLayer here, and taken for it",
    )
    refused = resolve([Gather("Blok", must)], "", (SPINE, BLOCK))
    assert refused.error == (
        "there is no topology layer Blok; there are ClusterTopologyLayer, Spine, Block, NodeTopologyLayer; "
        "did you mean Block?"
    )
    whole = resolve([], CLUSTER.lower(), (SPINE, BLOCK))
    assert whole.error == (
        "ClusterTopologyLayer is the whole cluster, which no gang can have to itself; "
        "write Spine or Block or NodeTopologyLayer"
    )
    twice = resolve([Gather("spine", must)], "", (SPINE, Layer("SPINE", ("x",))))
    assert twice.error
