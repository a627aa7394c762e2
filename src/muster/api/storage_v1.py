"""The storage group: StorageClasses, with the mode that says when a claim is bound to a volume."""

from typing import Final

from muster.api.base import Resource, Struct

#: The binding mode of classes that wait until a pod with the claim has a node.
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
#: Annotation of a claim: the node for which its volume is to be made. The scheduler sets it, the provisioner
#: removes it if it cannot make the volume there.
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
#: The provisioner of classes whose volumes are made by hand.
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


class TopologyLabel(Struct, frozen=True):
    key: str = ""
    values: list[str] = []


class TopologyTerm(Struct, frozen=True):
    match_label_expressions: list[TopologyLabel] = []


class StorageClass(Resource, frozen=True):
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    #: where the provisioner can make volumes: one of these terms must hold; empty: anywhere
    allowed_topologies: list[TopologyTerm] = []
