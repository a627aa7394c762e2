"""Everything the committer may do to the world: one class per write, and how each is carried out.

Each write can be repeated: it names the object by uid, and what must not happen twice or late carries
the resourceVersion it was decided on, so that the API server refuses it when someone else was there
first. After a write its gang is looked at again only once the mirror shows the effect (`expectation`),
which keeps the committer from acting twice on one stale picture.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

import msgspec

from muster.api import kinds
from muster.api.base import Condition, Kind, Object, Resource, is_true
from muster.api.core_v1 import Pod
from muster.core.gang import NodeName, Place
from muster.kube.client import Client
from muster.kube.clock import Clock
from muster.kube.errors import AlreadyExists, NotFound
from muster.names import EPOCH, GPU_DEVICE, PLAN, PREEMPTED
from muster.runtime.plan import Plan, PodRef, Remade, encode
from muster.runtime.remake import remade
from muster.translate.group import Owner

AnyKind = Kind[Any]  # Any: writes go to objects of many kinds


@dataclass(frozen=True, slots=True)
class CreateGang:
    namespace: str
    name: str
    body: Object


@dataclass(frozen=True, slots=True)
class PatchGang:
    """`spec` or `metadata` of a Gang."""

    namespace: str
    name: str
    version: str
    body: Object


@dataclass(frozen=True, slots=True)
class PatchGangStatus:
    namespace: str
    name: str
    version: str  # what was seen; not a precondition, since the gang controller writes there too
    body: Object


@dataclass(frozen=True, slots=True)
class CreatePlan:
    plan: Plan
    body: Object


@dataclass(frozen=True, slots=True)
class RecordPods:
    """Creates a plan that holds these pods, those that are still there, to make them anew.

    They are read whole for it: what this process knows of a pod is only what scheduling needs.
    """

    plan: Plan
    pods: tuple[PodRef, ...]


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Makes a recorded pod anew: by name, so that there is never a second."""

    namespace: str
    name: str
    body: Object


@dataclass(frozen=True, slots=True)
class DeletePlan:
    plan: Plan


@dataclass(frozen=True, slots=True)
class Suspend:
    """One write that ends a whole gang, if its owner is still as we saw it."""

    namespace: str
    owner: Owner


@dataclass(frozen=True, slots=True)
class Unsuspend:
    namespace: str
    owner: Owner


@dataclass(frozen=True, slots=True)
class Bind:
    pod: Pod
    place: Place
    node: NodeName
    mark: str
    #: which of the node's shared GPUs
    device: int | None = None
    #: part of an open plan, not a transaction of its own
    planned: bool = True


@dataclass(frozen=True, slots=True)
class EvictPod:
    """Marks the pod as ended by muster's own decision, then deletes it: two writes, in this order."""

    pod: Pod
    message: str


@dataclass(frozen=True, slots=True)
class PatchPodStatus:
    """Why a gang of one waits, in its pod's PodScheduled condition."""

    pod: Pod
    body: Object


@dataclass(frozen=True, slots=True)
class PatchQueueStatus:
    """What the scheduler knows of a queue; nothing is decided by it."""

    name: str
    version: str  # what was seen; no precondition: nobody else writes there
    body: Object


@dataclass(frozen=True, slots=True)
class PatchTopologyStatus:
    """The domains of the network topology; nothing is decided by it."""

    name: str
    version: str  # what was seen; no precondition, as whoever else writes there says the same
    body: Object


@dataclass(frozen=True, slots=True)
class Touch:
    """Moves an object's resourceVersion on, so that what an earlier leader planned for it is refused.

    It is conditional itself: one that comes late must not hide a later leader's.
    """

    kind: AnyKind
    namespace: str
    name: str
    version: str
    epoch: int


Write = (
    CreateGang
    | PatchGang
    | PatchGangStatus
    | CreatePlan
    | RecordPods
    | CreatePod
    | DeletePlan
    | Suspend
    | Unsuspend
    | Bind
    | EvictPod
    | PatchPodStatus
    | PatchQueueStatus
    | PatchTopologyStatus
    | Touch
)

#: Writes of which neighbours of one class are independent of each other and may go out together.
PARALLEL: Final = (Bind, CreatePod, EvictPod, Touch)


async def perform(client: Client, write: Write, clock: Clock) -> None:
    """Carries `write` out; that it has been done already is success. Raises the client's errors."""
    match write:
        case CreateGang(namespace, name, body):
            await _create(client, kinds.GANG, namespace, body)
        case PatchGang(namespace, name, _, body):
            await client.patch(kinds.GANG, namespace, name, body)
        case PatchGangStatus(namespace, name, _, body):
            await client.patch(kinds.GANG, namespace, name, body, subresource="status")
        case CreatePlan(plan, body):
            await _create(client, kinds.GANG_PLAN, plan.namespace, body)
        case RecordPods(plan, pods):
            found = [await _whole(client, pod) for pod in pods]
            whole = replace(plan, remade=tuple(pod for pod in found if pod is not None))
            await _create(client, kinds.GANG_PLAN, plan.namespace, encode(whole))
        case CreatePod(namespace, _, body):
            await _create(client, kinds.POD, namespace, body)
        case DeletePlan(plan):
            await _delete(client, kinds.GANG_PLAN, plan.namespace, plan.name, plan.uid)
        case Suspend(namespace, owner):
            await _set_suspend(client, namespace, owner, True)
        case Unsuspend(namespace, owner):
            await _set_suspend(client, namespace, owner, False)
        case Bind(pod, _, node, mark, device):
            await client.bind(pod.metadata.namespace, pod.metadata.name, _binding(pod, node, mark, device))
        case EvictPod(pod, message):
            await _evict(client, pod, message, clock)
        case PatchPodStatus(pod, body):
            meta = pod.metadata
            await client.patch(kinds.POD, meta.namespace, meta.name, body, subresource="status")
        case PatchQueueStatus(name, _, body):
            await client.patch(kinds.QUEUE, "", name, body, subresource="status")
        case PatchTopologyStatus(name, _, body):
            await client.patch(kinds.CLUSTER_NETWORK_TOPOLOGY, "", name, body, subresource="status")
        case Touch(kind, namespace, name, version, epoch):
            body = {"metadata": {"resourceVersion": version, "annotations": {EPOCH: str(epoch)}}}
            await client.patch(kind, namespace, name, body)


class Effect(Enum):
    CREATED = "created"
    CHANGED = "changed"  # or gone
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Expectation:
    """What the mirror must show of an object before its gang is looked at again."""

    effect: Effect
    kind: AnyKind
    key: str
    was: str = ""  # CHANGED: the resourceVersion before, GONE: the uid

    def met(self, found: Resource | None) -> bool:
        match self.effect:
            case Effect.CREATED:
                return found is not None
            case Effect.CHANGED:
                return found is None or found.metadata.resource_version != self.was
            case Effect.GONE:
                return found is None or found.metadata.uid != self.was


def expectation(write: Write) -> Expectation:
    """What must be seen after `write` succeeded, or was refused because someone else had been there."""
    match write:
        case CreateGang(namespace, name):
            return Expectation(Effect.CREATED, kinds.GANG, f"{namespace}/{name}")
        case PatchGang(namespace, name, version) | PatchGangStatus(namespace, name, version):
            return Expectation(Effect.CHANGED, kinds.GANG, f"{namespace}/{name}", version)
        case CreatePod(namespace, name):
            return Expectation(Effect.CREATED, kinds.POD, f"{namespace}/{name}")
        case CreatePlan(plan) | RecordPods(plan):
            return Expectation(Effect.CREATED, kinds.GANG_PLAN, f"{plan.namespace}/{plan.name}")
        case DeletePlan(plan):
            return Expectation(Effect.GONE, kinds.GANG_PLAN, f"{plan.namespace}/{plan.name}", plan.uid)
        case Suspend(namespace, owner) | Unsuspend(namespace, owner):
            return Expectation(
                Effect.CHANGED, owner.kind, f"{namespace}/{owner.name}", owner.resource_version
            )
        case Bind(pod) | EvictPod(pod) | PatchPodStatus(pod):
            return Expectation(Effect.CHANGED, kinds.POD, pod.key, pod.metadata.resource_version)
        case PatchQueueStatus(name, version):
            return Expectation(Effect.CHANGED, kinds.QUEUE, name, version)
        case PatchTopologyStatus(name, version):
            return Expectation(Effect.CHANGED, kinds.CLUSTER_NETWORK_TOPOLOGY, name, version)
        case Touch(kind, namespace, name, version):
            return Expectation(Effect.CHANGED, kind, f"{namespace}/{name}" if namespace else name, version)


async def _create(client: Client, kind: AnyKind, namespace: str, body: Object) -> None:
    with suppress(AlreadyExists):  # our own, if an answer was lost; what it says is read from the mirror
        await client.create(kind, namespace, body)


async def _whole(client: Client, ref: PodRef) -> Remade | None:
    """None = it has gone, or somebody else deletes it: nothing to make anew."""
    with suppress(NotFound):
        body = await client.get_json(kinds.POD, ref.namespace, ref.name)
        if body["metadata"]["uid"] == ref.uid and "deletionTimestamp" not in body["metadata"]:
            return Remade(ref.uid, remade(body))
    return None


async def _delete(client: Client, kind: AnyKind, namespace: str, name: str, uid: str) -> None:
    with suppress(NotFound):
        await client.delete(kind, namespace, name, uid=uid)


async def _set_suspend(client: Client, namespace: str, owner: Owner, suspend: bool) -> None:
    body = {
        "metadata": {"uid": owner.uid, "resourceVersion": owner.resource_version},
        "spec": {"suspend": suspend},
    }
    await client.patch(owner.kind, namespace, owner.name, body)


def _binding(pod: Pod, node: NodeName, mark: str, device: int | None) -> Object:
    annotations = {PLAN: mark} if device is None else {PLAN: mark, GPU_DEVICE: str(device)}
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": pod.metadata.name,
            "namespace": pod.metadata.namespace,
            "uid": pod.metadata.uid,
            "resourceVersion": pod.metadata.resource_version,
            "annotations": annotations,
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


async def _evict(client: Client, pod: Pod, message: str, clock: Clock) -> None:
    """As kube-scheduler preempts: condition first, then deletion. Budgets are the core's business."""
    meta = pod.metadata
    version = meta.resource_version
    with suppress(NotFound):
        if not is_true(pod.status.conditions, PREEMPTED):
            since = clock.now()
            conditions = [
                Condition(PREEMPTED, "True", "EndedByMuster", message, since),
                Condition("DisruptionTarget", "True", "PreemptionByScheduler", message, since),
            ]
            version = await _add_conditions(client, pod, conditions)
        await client.delete(kinds.POD, meta.namespace, meta.name, uid=meta.uid, resource_version=version)


async def _add_conditions(client: Client, pod: Pod, added: list[Condition]) -> str:
    """The new resourceVersion. The list of conditions is replaced: conditional on the pod as it was read."""
    types = {condition.type for condition in added}
    kept = [condition for condition in pod.status.conditions if condition.type not in types]
    meta = pod.metadata
    body = {
        "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
        "status": {"conditions": msgspec.to_builtins([*kept, *added])},
    }
    patched = await client.patch(kinds.POD, meta.namespace, meta.name, body, subresource="status")
    return patched.metadata.resource_version
