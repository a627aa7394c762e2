"""Re-creates pods that have no controller: what of a deleted pod makes the next one.

A bound pod cannot be unbound. A bound pod without a controller, whose gang cannot be completed, therefore
either stays (the default) or, with `muster.dev/on-partial: recreate`, is deleted and re-created by muster
from the earlier record: the object as its user wrote it, with defaults, without the fields that belong to
one life of a pod or that the server sets.
"""

from contextlib import suppress
from dataclasses import replace
from typing import Final

from muster.api import kinds
from muster.api.base import Object
from muster.effects import Create
from muster.kube.client import Client
from muster.kube.errors import NotFound
from muster.names import EPOCH, GPU_DEVICE, PLAN
from muster.runtime.plan import PodRef, RecordedPod
from muster.runtime.writes import RecordPods, create_plan

#: Metadata to keep. The server sets everything else, or it belongs to one life.
_METADATA: Final = ("name", "namespace", "labels", "annotations", "finalizers", "ownerReferences")
_OURS: Final = (PLAN, EPOCH, GPU_DEVICE)
#: Fields of the spec to drop: where the pod ran, and containers that were attached while it did.
_OF_ONE_LIFE: Final = ("nodeName", "ephemeralContainers")
#: The server computes these from the priority class, and refuses them if the class has changed since.
_OF_PRIORITY_CLASS: Final = ("priority", "preemptionPolicy")


def recreated(pod: Object) -> Object:
    """Returns the object to create instead of `pod`, under the same name."""
    metadata = {key: pod["metadata"][key] for key in _METADATA if key in pod["metadata"]}
    if "annotations" in metadata:
        metadata["annotations"] = {k: v for k, v in metadata["annotations"].items() if k not in _OURS}
    dropped = _OF_ONE_LIFE + (_OF_PRIORITY_CLASS if pod["spec"].get("priorityClassName") else ())
    spec = {key: value for key, value in pod["spec"].items() if key not in dropped}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def recording(client: Client, write: RecordPods) -> Create:
    """Reads the pods that still exist, and returns the write that records them; raises `PlanTooLarge`."""
    found = [await _read(client, pod) for pod in write.pods]
    return create_plan(replace(write.plan, pods=tuple(pod for pod in found if pod is not None)))


async def _read(client: Client, ref: PodRef) -> RecordedPod | None:
    """Returns the whole pod; None if it is gone or another client deletes it: nothing to re-create."""
    with suppress(NotFound):
        body = await client.get_json(kinds.POD, ref.namespace, ref.name)
        if body["metadata"]["uid"] == ref.uid and "deletionTimestamp" not in body["metadata"]:
            return RecordedPod(ref.uid, recreated(body))
    return None
