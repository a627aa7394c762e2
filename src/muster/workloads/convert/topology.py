"""A node label that holds a gang together as a rule of a layer, and back.

Kubernetes' PodGroups name a node label; Koordinator's rules name a layer, which the ClusterNetworkTopology
gives its label. So each can be written as the other if the file has this topology, too. Otherwise a label is
lost where groups have no field for it, and a rule of a layer is passed on.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from muster.api import kinds
from muster.api.base import Object, at
from muster.api.fields import convert
from muster.api.koordinator_v1alpha1 import (
    DEFAULT,
    GROUPS,
    TOPOLOGY_SPEC,
    ClusterNetworkTopology,
    GatherRule,
    NetworkTopologySpec,
)
from muster.api.layers import Chain, chain_of
from muster.workloads.convert.units import Member, Unit

_MUST: Final = "MustGather"


def layers_of(units: Iterable[Unit]) -> Chain:
    """The layers of the topology that a file has; none without one, or if it cannot be used."""
    kind = kinds.CLUSTER_NETWORK_TOPOLOGY
    found = [unit.object for unit in units if unit.kind is kind and unit.name == DEFAULT]
    return chain_of(convert(found[-1], ClusterNetworkTopology)) if found else Chain()


def alone(group: Object, members: Sequence[Member]) -> bool:
    """Whether what a group says of its topology counts for its pods, and for no others.

    Groups that are joined may say of all what each of them says, and pods may say more than their group.
    """
    pods = (_annotations(member.template) for member in members)
    return GROUPS not in _annotations(group) and not any(TOPOLOGY_SPEC in said for said in pods)


def rule(group: Object, label: str, layers: Chain) -> str:
    """The annotation that says what a node label says; "" if no layer does, or the group has a rule."""
    layer = layers.of_label(label)
    if not layer or TOPOLOGY_SPEC in _annotations(group):
        return ""
    spec = NetworkTopologySpec(gather_strategy=[GatherRule(layer=layer, strategy=_MUST)])
    return msgspec.json.encode(spec).decode()


def label(group: Object, layers: Chain) -> str:
    """The node label that says what the annotation of a group says; "" if none says all of it."""
    try:
        spec = msgspec.json.decode(_annotations(group).get(TOPOLOGY_SPEC, ""), type=NetworkTopologySpec)
    except (ValueError, RecursionError):  # msgspec's own errors are ValueErrors, too
        return ""
    match spec.gather_strategy:
        case [GatherRule(layer=layer, strategy="MustGather", pod_count_multiple=0 | 1)]:
            return layers.label_of(layer)
    return ""


def _annotations(obj: Object) -> Object:
    return at(obj, "metadata", "annotations")
