"""The status of the ClusterNetworkTopology, as people of Koordinator read it."""

from datetime import UTC, datetime, timedelta

import msgspec

from muster.api.base import AnyKind, Resource
from muster.api.kinds import CLUSTER_NETWORK_TOPOLOGY
from muster.api.koordinator_v1alpha1 import ClusterNetworkTopology, ClusterNetworkTopologyStatus
from muster.core.cycle import Scheduler
from muster.core.words.events import LayersChanged
from muster.kube.errors import Unreachable
from muster.runtime.budget import WriteBudget
from muster.runtime.reports.topology import TopologyReports
from muster.translate.world import World
from tests.core.words import node
from tests.runtime.brief import status_in
from tests.translate.cluster import topology

START = datetime(2026, 1, 1, tzinfo=UTC)


class Cluster:
    """What a mirror shows of one ClusterNetworkTopology, and the core beside it."""

    def __init__(self, obj: ClusterNetworkTopology) -> None:
        self.world, self.core, self.now = World(), Scheduler(), START
        self.put(obj)
        for name, labels in (("a", "s1 b1"), ("b", "s1 b2"), ("c", "s2 b1"), ("d", "s1")):
            spine, _, block = labels.partition(" ")
            self.core.apply(node(name, labels={"spine": spine} | ({"block": block} if block else {})))
        self.core.decide(0.0)
        self.reports = TopologyReports(self.core, self, WriteBudget())

    def put(self, obj: ClusterNetworkTopology) -> None:
        self.world.put(CLUSTER_NETWORK_TOPOLOGY, obj)
        self.obj = obj
        self.core.apply(LayersChanged(self.world.layers.chain))

    def find(self, kind: AnyKind, key: str) -> Resource | None:
        return self.obj if (kind, key) == (CLUSTER_NETWORK_TOPOLOGY, "default") else None

    def turn(self) -> bool:
        """Writes what is due; whether there was something."""
        self.now += timedelta(seconds=2)
        writes = list(self.reports.due(self.now))
        for write in writes:
            status = msgspec.convert(status_in(write), ClusterNetworkTopologyStatus)
            self.put(msgspec.structs.replace(self.obj, status=status))
        return bool(writes)


def test_domains_from_the_cluster_down() -> None:
    cluster = Cluster(topology(("SpineLayer", "spine"), ("BlockLayer", "block")))
    assert cluster.turn()
    assert not cluster.turn(), "it says so already"
    told = [
        (
            one.topology_info.topology_layer,
            one.topology_info.topology_name,
            one.parent_topology_info.topology_name if one.parent_topology_info else None,
            one.child_topology_layer,
            one.child_topology_names,
            one.node_num,
        )
        for one in cluster.obj.status.detail_status
    ]
    assert told == [
        ("ClusterTopologyLayer", "", None, "SpineLayer", ["s1", "s2"], 4),
        ("SpineLayer", "s1", "", "BlockLayer", ["b1", "b2"], 3),
        ("BlockLayer", "b1", "s1", "NodeTopologyLayer", [], 1),
        ("BlockLayer", "b2", "s1", "NodeTopologyLayer", [], 1),
        ("SpineLayer", "s2", "", "BlockLayer", ["b1"], 1),
        ("BlockLayer", "b1", "s2", "NodeTopologyLayer", [], 1),
    ]
    assert [(one.type, one.status) for one in cluster.obj.status.conditions] == [("Valid", "True")]
    cluster.core.apply(node("e", labels={"spine": "s3"}))
    cluster.core.decide(1.0)
    assert cluster.turn()
    assert cluster.obj.status.detail_status[0].node_num == 5


def test_a_topology_that_is_not_a_tree_is_invalid_and_its_status_says_why() -> None:
    cluster = Cluster(topology(("SpineLayer", "spine"), ("SpineLayer", "block")))
    assert cluster.turn()
    (valid,) = cluster.obj.status.conditions
    assert (valid.status, valid.message) == (
        "False",
        "spec.networkTopologySpec[1]: layer SpineLayer occurs twice",
    )
    assert not cluster.obj.status.detail_status
    since = valid.last_transition_time
    cluster.core.apply(node("e"))
    cluster.core.decide(1.0)
    cluster.turn()
    assert cluster.obj.status.conditions[0].last_transition_time == since


def test_a_status_that_could_not_be_written_is_written_after_a_pause_though_nothing_changes() -> None:
    cluster = Cluster(topology(("SpineLayer", "spine")))
    for pause in (1, 2, 4):
        (write,) = cluster.reports.due(cluster.now)
        cluster.reports.written(write, Unreachable("no server"))
        assert cluster.reports.wait(cluster.now.timestamp()) == pause
        assert not list(cluster.reports.due(cluster.now))
        cluster.now += timedelta(seconds=pause)
    assert cluster.turn()
    assert not cluster.turn()
    assert cluster.reports.wait(cluster.now.timestamp()) == float("inf")
