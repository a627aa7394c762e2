"""Koordinator: network topology (`scheduling.koordinator.sh/v1alpha1`), annotations on groups and pods.

Source: koordinator, apis/scheduling/v1alpha1/cluster_network_topology_types.go and
apis/extension/{coscheduling,network_topology,elastic_quota,preemption}.go.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from muster.api.base import Condition, Int32, Resource, Struct

GROUP: Final = "scheduling.koordinator.sh"

#: On PodGroups and pods: JSON, a `NetworkTopologySpec`.
TOPOLOGY_SPEC: Final = "gang.scheduling.koordinator.sh/network-topology-spec"
#: On pods: the pod's index in the order that the gang defines.
TOPOLOGY_INDEX: Final = "gang.scheduling.koordinator.sh/network-topology-index"
#: On PodGroups and pods: JSON, a list of `namespace/name` of the PodGroups that form one gang.
GROUPS: Final = "gang.scheduling.koordinator.sh/groups"

#: On pods that name no PodGroup by label: the name of the gang, and how many of its pods must run together.
#: The older labels come first.
BY_NAME: Final = ("pod-group.scheduling.sigs.k8s.io/name", "gang.scheduling.koordinator.sh/name")
MIN_AVAILABLE: Final = (
    "pod-group.scheduling.sigs.k8s.io/min-available",
    "gang.scheduling.koordinator.sh/min-available",
)

#: On PodGroups and pods: whether the members that fit keep what they have while others do not fit.
MODE: Final = "gang.scheduling.koordinator.sh/mode"
#: On PodGroups and pods: which of its pods count towards the minimum. The older key comes last.
MATCH_POLICY: Final = (
    "gang.scheduling.koordinator.sh/match-policy",
    "pod-group.scheduling.sigs.k8s.io/match-policy",
)
_MODES: Final = ("Strict", "NonStrict")
_POLICIES: Final = ("once-satisfied", "only-waiting", "waiting-and-running")

#: Labels of pods that muster never preempts.
NOT_PREEMPTIBLE: Final = (
    ("scheduling.koordinator.sh/disable-preemptible", "true"),
    ("quota.scheduling.koordinator.sh/preemptible", "false"),
)

#: Characters of a value that a message shows.
_SHOWN: Final = 80

#: The name of the only ClusterNetworkTopology that muster reads.
DEFAULT: Final = "default"
#: The layers that always exist: the whole cluster, and the nodes.
CLUSTER_LAYER: Final = "ClusterTopologyLayer"
NODE_LAYER: Final = "NodeTopologyLayer"


def read_otherwise(annotations: Mapping[str, str]) -> Iterator[str]:
    """Yields how a gang is scheduled otherwise than its annotations say."""
    mode = annotations.get(MODE)
    if mode is not None and mode not in _MODES:
        yield f"{MODE} is {mode[:_SHOWN]!r}; write {' or '.join(_MODES)}, which are alike in muster"
    key = next((key for key in MATCH_POLICY if key in annotations), "")
    policy = annotations.get(key, _POLICIES[0])
    if policy not in _POLICIES:
        yield f"{key} is {policy[:_SHOWN]!r}; write {', '.join(_POLICIES[:-1])} or {_POLICIES[-1]}"
    elif policy == "only-waiting":
        yield f"{key}: only-waiting is read as waiting-and-running: pods that run count towards the minimum"


class TopologyLayer(Struct, frozen=True):
    topology_layer: str
    parent_topology_layer: str = ""
    #: node labels that name the domain; the first label that a node has counts
    label_key: list[str] = []


class ClusterNetworkTopologySpec(Struct, frozen=True):
    network_topology_spec: list[TopologyLayer] = []


class TopologyInfo(Struct, frozen=True):
    topology_layer: str
    topology_name: str


class TopologyDetail(Struct, frozen=True):
    """One domain of the tree whose root is the cluster; nodes are not listed."""

    topology_info: TopologyInfo
    parent_topology_info: TopologyInfo | None = None
    child_topology_layer: str = ""
    child_topology_names: list[str] = []
    node_num: Int32 = 0


class ClusterNetworkTopologyStatus(Struct, frozen=True):
    detail_status: list[TopologyDetail] = []
    #: muster's own condition `Valid`, whose message says what is wrong
    conditions: list[Condition] = []


class ClusterNetworkTopology(Resource, frozen=True):
    spec: ClusterNetworkTopologySpec = ClusterNetworkTopologySpec()
    status: ClusterNetworkTopologyStatus = ClusterNetworkTopologyStatus()


class GatherRule(Struct, frozen=True):
    layer: str
    strategy: str = ""  # MustGather, PreferGather
    pod_count_multiple: Int32 = 1


class NetworkTopologySpec(Struct, frozen=True):
    gather_strategy: list[GatherRule] = []
