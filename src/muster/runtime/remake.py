"""Pods that nobody else would make anew: what of a deleted pod makes the next one.

A bound pod cannot be unbound. One without a controller whose gang cannot be completed therefore either
stays (the default) or, with `muster.dev/on-partial: recreate`, is deleted and created again by muster
from what was recorded before: the object as its user wrote it, with defaults, without what belongs to
one life of a pod or is set by the server.
"""

from typing import Final

from muster.api.base import Object
from muster.names import EPOCH, GPU_DEVICE, PLAN

#: Kept of the metadata. Everything else is the server's or tells of one life.
_METADATA: Final = ("name", "namespace", "labels", "annotations", "finalizers", "ownerReferences")
_OURS: Final = (PLAN, EPOCH, GPU_DEVICE)
#: Of the spec: where it ran, and containers that were attached while it did.
_OF_ONE_LIFE: Final = ("nodeName", "ephemeralContainers")
#: Computed from the priority class by the server, which refuses them if the class has changed since.
_OF_PRIORITY_CLASS: Final = ("priority", "preemptionPolicy")


def remade(pod: Object) -> Object:
    """The object to create instead of `pod`, under the same name."""
    metadata = {key: pod["metadata"][key] for key in _METADATA if key in pod["metadata"]}
    if "annotations" in metadata:
        metadata["annotations"] = {k: v for k, v in metadata["annotations"].items() if k not in _OURS}
    dropped = _OF_ONE_LIFE + (_OF_PRIORITY_CLASS if pod["spec"].get("priorityClassName") else ())
    spec = {key: value for key, value in pod["spec"].items() if key not in dropped}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
