"""Re-creates pods that have no controller, from a record of the deleted pod.

A bound pod cannot be unbound. A bound pod without a controller, whose gang cannot be completed, is therefore
deleted and re-created by muster from an earlier record: the object as its user wrote it, with defaults,
without the fields that belong to one life of a pod or that the server sets. With
`muster.dev/on-partial: keep` it stays instead, and so does the whole gang if one of its pods could not come
back as it was: a container of it has run to its end, or the server would refuse or change the new pod.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from muster.api import kinds
from muster.api.base import Object
from muster.core.words.gang import PodId
from muster.effects import Create
from muster.kube.client import Client
from muster.kube.errors import BadRequest, Forbidden, Invalid, NotFound
from muster.names import EPOCH, GPU_DEVICE, PLAN
from muster.runtime.plan_record import PodRef, RecordedPod
from muster.runtime.writes import RecordPods, create_plan

T = TypeVar("T")

#: Metadata to keep. The server sets everything else, or it belongs to one life.
_METADATA: Final = ("name", "namespace", "labels", "annotations", "finalizers", "ownerReferences")
_OURS: Final = (PLAN, EPOCH, GPU_DEVICE)
#: Fields of the spec to drop: where the pod ran, and containers that were attached while it did.
_OF_ONE_LIFE: Final = ("nodeName", "ephemeralContainers")
#: The server computes these from the priority class, and refuses them if the class has changed since.
_OF_PRIORITY_CLASS: Final = ("priority", "preemptionPolicy")


#: In the API server's refusal of an object above a ResourceQuota (`plugin/pkg/admission/resourcequota`).
_QUOTA: Final = "exceeded quota"
#: The volume that admission adds for a service account's token (`plugin/pkg/admission/serviceaccount`).
_TOKEN_VOLUME: Final = re.compile(rb'"kube-api-access-[a-z0-9]{5}"')
#: Requests under way at a time.
PARALLEL: Final = 32


class NotRecreatable(Exception):
    """Raised when a pod would not come back as it was, so it must not be deleted."""


#: Returns the results of these calls, made in any order.
Gather = Callable[[Sequence[Callable[[], Awaitable[T]]]], Awaitable[list[T]]]


async def gathered(calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    slots = asyncio.Semaphore(PARALLEL)

    async def one(call: Callable[[], Awaitable[T]]) -> T:
        async with slots:
            return await call()

    return await asyncio.gather(*map(one, calls))


def recreated(pod: Object) -> Object:
    """Returns the object to create instead of `pod`, under the same name."""
    metadata = {key: pod["metadata"][key] for key in _METADATA if key in pod["metadata"]}
    if "annotations" in metadata:
        metadata["annotations"] = {k: v for k, v in metadata["annotations"].items() if k not in _OURS}
    dropped = _OF_ONE_LIFE + (_OF_PRIORITY_CLASS if pod["spec"].get("priorityClassName") else ())
    spec = {key: value for key, value in pod["spec"].items() if key not in dropped}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def recording(client: Client, write: RecordPods, gather: Gather[Any] = gathered) -> Create:
    """Reads the pods that still exist, and returns the write that records them.

    Raises `PlanTooLarge`, `NotRecreatable`, and the client's errors.
    """
    found = await gather([partial(_read, client, pod) for pod in write.pods])
    pods = [pod for pod in found if pod is not None]
    templates = {_template(pod): pod for pod in pods}
    await gather([partial(_rehearse, client, pod) for pod in templates.values()])
    recorded = tuple(RecordedPod(PodId(pod["metadata"]["uid"]), recreated(pod)) for pod in pods)
    return create_plan(replace(write.plan, pods=recorded))


async def _read(client: Client, ref: PodRef) -> Object | None:
    """Returns the whole pod; None if it is gone or another client deletes it: nothing to re-create."""
    try:
        pod = await client.get_json(kinds.POD, ref.namespace, ref.name)
    except NotFound:
        return None
    if pod["metadata"]["uid"] != ref.uid or "deletionTimestamp" in pod["metadata"]:
        return None
    if ended := has_ended(pod):
        raise NotRecreatable(f"container {ended} of pod {ref.name} has run to its end")
    return pod


async def _rehearse(client: Client, pod: Object) -> None:
    """Asks the server what it would create, under another name as the pod's own is taken."""
    body, name = _unnamed(pod), pod["metadata"]["name"]
    trial = {**body, "metadata": {**body["metadata"], "generateName": f"{name[:50]}-"}}
    try:
        made = await client.dry_create(kinds.POD, pod["metadata"]["namespace"], trial)
    except (BadRequest, Forbidden, Invalid) as error:
        if _QUOTA in error.message:  # which counts the pod itself
            return
        raise NotRecreatable(f"pod {name} would be refused: {error}") from error
    for part in sorted(pod["spec"].keys() | made["spec"].keys()):
        if part != "nodeName" and pod["spec"].get(part) != made["spec"].get(part):
            raise NotRecreatable(f"the new pod {name} would have another spec.{part}")


def _template(pod: Object) -> bytes:
    """Returns the part that is equal in pods of one template: all but the token volume's random name."""
    return _TOKEN_VOLUME.sub(b'"kube-api-access"', msgspec.json.encode(_unnamed(pod), order="deterministic"))


def _unnamed(pod: Object) -> Object:
    """Returns what pods of one template have in common."""
    body = recreated(pod)
    return {**body, "metadata": {key: value for key, value in body["metadata"].items() if key != "name"}}


def has_ended(pod: Object) -> str:
    """Returns the name of a container of the pod that has run to its end at least once; "" if none has."""
    status = pod.get("status", {})
    for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        states = (container.get("state", {}), container.get("lastState", {}))
        if container.get("restartCount") or any("terminated" in state for state in states):
            return str(container["name"])
    return ""
