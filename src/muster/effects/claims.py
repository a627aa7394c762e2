"""Executes the writes of claims of devices: allocation and reservation before a pod is bound, and their end.

A claim is marked and protected from deletion before it has devices, and loses both after it has lost them. So
a claim without a mark is never one that muster has allocated. Each write has the resourceVersion of the
one before as its precondition. Source: kube-scheduler's DynamicResources plugin.
"""

from datetime import datetime

import msgspec

from muster.api.base import Object, revision
from muster.api.kinds import RESOURCE_CLAIM
from muster.api.pod_claims import DELETE_PROTECTION, is_of_pod
from muster.api.resource_v1 import ResourceClaim
from muster.api.times import written
from muster.effects import Allocate, Deallocate
from muster.kube.client import Client
from muster.names import PLAN


async def allocate(client: Client, effect: Allocate, now: datetime) -> int:
    claim, meta, version = effect.claim, effect.claim.metadata, effect.claim.metadata.resource_version
    status: Object = {}
    if effect.allocation is not None:
        if PLAN not in meta.annotations or DELETE_PROTECTION not in meta.finalizers:
            finalizers = [*dict.fromkeys([*meta.finalizers, DELETE_PROTECTION])]
            marked = {"finalizers": finalizers, "annotations": {PLAN: effect.mark}}
            version = await _patch(client, claim, version, marked)
        status["allocation"] = {**effect.allocation, "allocationTimestamp": written(now)}
    pods = (pod.metadata for _, pod in effect.users)
    more = [{"resource": "pods", "name": pod.name, "uid": pod.uid} for pod in pods]
    status["reservedFor"] = [*msgspec.to_builtins(claim.status.reserved_for), *more]
    return revision(await _patch(client, claim, version, {}, status))


async def deallocate(client: Client, effect: Deallocate) -> int:
    claim, meta, version = effect.claim, effect.claim.metadata, effect.claim.metadata.resource_version
    reserved = claim.status.reserved_for
    rest = [each for each in reserved if not (is_of_pod(each) and each.uid in effect.pods)]
    free = not rest and PLAN in meta.annotations
    status: Object = {"reservedFor": msgspec.to_builtins(rest) or None} if len(rest) < len(reserved) else {}
    if free and claim.status.allocation is not None:
        status["allocation"] = None
    if status:
        version = await _patch(client, claim, version, {}, status)
    if free:
        finalizers = [each for each in meta.finalizers if each != DELETE_PROTECTION]
        unmarked = {"finalizers": finalizers or None, "annotations": {PLAN: None}}
        version = await _patch(client, claim, version, unmarked)
    return revision(version)


async def _patch(
    client: Client, claim: ResourceClaim, version: str, metadata: Object, status: Object | None = None
) -> str:
    """Changes the claim, or its status, if it has this resourceVersion; returns the next."""
    meta = claim.metadata
    body: Object = {"metadata": {"uid": meta.uid, "resourceVersion": version, **metadata}}
    if status is None:
        patched = await client.patch(RESOURCE_CLAIM, meta.namespace, meta.name, body)
    else:
        body["status"] = status
        patched = await client.patch(RESOURCE_CLAIM, meta.namespace, meta.name, body, subresource="status")
    return patched.metadata.resource_version
