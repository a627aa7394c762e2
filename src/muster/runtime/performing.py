"""Carries out each write: as one request, or as the few requests that it stands for."""

from contextlib import suppress
from dataclasses import replace

import msgspec

from muster.api import kinds
from muster.api.base import Condition, Object, is_true
from muster.api.core_v1 import Pod
from muster.core.words.gang import NodeName
from muster.kube.client import Client
from muster.kube.clock import Clock
from muster.kube.errors import AlreadyExists, NotFound
from muster.names import EPOCH, GPU_DEVICE, PLAN, PREEMPTED
from muster.runtime.plan import PodRef, Remade, encode
from muster.runtime.remake import remade
from muster.runtime.writes import (
    AnyKind,
    Bind,
    CreateGang,
    CreatePlan,
    CreatePod,
    DeletePlan,
    EvictPod,
    PatchGang,
    PatchGangStatus,
    PatchPodStatus,
    PatchQueueStatus,
    PatchTopologyStatus,
    RecordPods,
    Suspend,
    Touch,
    Unsuspend,
    Write,
)
from muster.translate.group import Owner


async def perform(client: Client, write: Write, clock: Clock) -> None:
    """Carries `write` out; a write that is already done counts as success. Raises the client's errors."""
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


async def _create(client: Client, kind: AnyKind, namespace: str, body: Object) -> None:
    with suppress(AlreadyExists):  # muster's own, if an answer was lost; its content is read from the mirror
        await client.create(kind, namespace, body)


async def _whole(client: Client, ref: PodRef) -> Remade | None:
    """Returns the whole pod; None if it is gone or another client deletes it: nothing to re-create."""
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
    """Evicts as kube-scheduler preempts: condition first, then deletion. The core respects the budgets."""
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
    """Replaces the list of conditions, if the pod is as it was read, and returns the new resourceVersion."""
    types = {condition.type for condition in added}
    kept = [condition for condition in pod.status.conditions if condition.type not in types]
    meta = pod.metadata
    body = {
        "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
        "status": {"conditions": msgspec.to_builtins([*kept, *added])},
    }
    patched = await client.patch(kinds.POD, meta.namespace, meta.name, body, subresource="status")
    return patched.metadata.resource_version
