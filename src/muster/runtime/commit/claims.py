"""Claims whose volumes are made for the node of their first pod (`WaitForFirstConsumer`).

The scheduler writes the node into an annotation of the claim, the provisioner makes a volume for this node,
and the cluster binds the claim to it. Only then is the pod bound: a volume that cannot be made there must not
leave a pod on a node. The provisioner removes the annotation if it fails, and the core finds another node.
Source: kube-scheduler's VolumeBinding plugin.
"""

from dataclasses import replace

from muster.api import kinds
from muster.api.core_v1 import PersistentVolumeClaim, Pod
from muster.api.storage_v1 import SELECTED_NODE
from muster.core.words.gang import NodeName
from muster.effects import Patch
from muster.runtime.commit.view import RetryState
from muster.runtime.plan_record import Find
from muster.translate.claims import claim_names


def pending(find: Find, pod: Pod) -> list[PersistentVolumeClaim]:
    """Returns the claims of a pod that have no volume yet."""
    names = (f"{pod.metadata.namespace}/{name}" for name in claim_names(pod.spec))
    claims = (find(kinds.PERSISTENT_VOLUME_CLAIM, name) for name in names)
    return [
        claim for claim in claims if isinstance(claim, PersistentVolumeClaim) and not claim.spec.volume_name
    ]


def selected(claim: PersistentVolumeClaim, node: NodeName) -> bool:
    """Whether the claim's volume is being made for this node."""
    return claim.metadata.annotations.get(SELECTED_NODE) == node


def unprovisionable(state: RetryState, claim: PersistentVolumeClaim, node: NodeName) -> bool:
    """Whether the provisioner has removed the node that this leader wrote: no volume can be made there."""
    return not claim.metadata.annotations.get(SELECTED_NODE) and state.volumes.get(claim.key) == node


def chosen(state: RetryState, write: Patch) -> RetryState:
    """Notes for which node a claim's volume is being made."""
    assert isinstance(write.body, dict)
    node = write.body["metadata"]["annotations"][SELECTED_NODE]
    return replace(state, volumes={**state.volumes, f"{write.namespace}/{write.name}": node})


def select(claim: PersistentVolumeClaim, node: NodeName) -> Patch:
    """Returns the write that has the volume made for this node, if the claim is still as it was seen."""
    meta = claim.metadata
    body = {"metadata": {"resourceVersion": meta.resource_version, "annotations": {SELECTED_NODE: node}}}
    return Patch(
        kinds.PERSISTENT_VOLUME_CLAIM,
        meta.namespace,
        meta.name,
        body,
        missing_ok=False,
        seen=meta.resource_version,
    )
