"""Publishes the devices of nodes that muster runs or simulates, as a driver of Kubernetes does.

A slice belongs to its node, so that it is deleted with the node. If the description of a node's devices has
changed, the slice gets the pool's next generation. Classes and slices of others are left as they are, even if
they have the names of these.
"""

import logging
from collections.abc import Iterable, Mapping

import msgspec

from muster.api.base import Object
from muster.api.core_v1 import Node
from muster.api.kinds import DEVICE_CLASS, NODE, RESOURCE_SLICE
from muster.api.resource_v1 import DeviceClassSpec, ResourceSlice, ResourceSliceSpec
from muster.embedded import devicespec
from muster.embedded.nodespec import NodeSpec
from muster.kube.client import Client
from muster.kube.errors import AlreadyExists, NotFound
from muster.names import RUNTIME

log = logging.getLogger(__name__)


async def published(client: Client) -> dict[str, ResourceSlice]:
    """The slices that muster has published, by name; none on a cluster that does not know slices."""
    try:
        return {
            each.metadata.name: each for each in (await client.list(RESOURCE_SLICE, labels=RUNTIME)).items
        }
    except NotFound:
        return {}


async def publish_classes(client: Client, specs: Iterable[NodeSpec]) -> None:
    """Creates the DeviceClasses of the nodes' devices, and updates those that muster has created."""
    for body in devicespec.classes(each for spec in specs for each in spec.devices):
        name = body["metadata"]["name"]
        try:
            await client.create(
                DEVICE_CLASS, "", body | {"metadata": {"name": name, "labels": {RUNTIME: "none"}}}
            )
        except AlreadyExists:
            found = await client.get(DEVICE_CLASS, "", name)
            if found.spec == msgspec.convert(body["spec"], DeviceClassSpec):
                continue
            if RUNTIME in found.metadata.labels:
                extended = body["spec"].get("extendedResourceName")
                await client.patch(
                    DEVICE_CLASS, "", name, {"spec": {**body["spec"], "extendedResourceName": extended}}
                )
            else:
                log.warning("DeviceClass %s is not muster's, and stays as it is", name)


async def publish(client: Client, spec: NodeSpec, node: Node, known: Mapping[str, ResourceSlice]) -> None:
    """Publishes the devices of a node. `known`: what is published already."""
    owner = {"apiVersion": NODE.api_version, "kind": NODE.kind, "name": spec.name, "uid": node.metadata.uid}
    meta = {"labels": {RUNTIME: spec.runtime}, "ownerReferences": [{**owner, "controller": True}]}
    wanted = {body["metadata"]["name"]: body for body in devicespec.slices(spec.name, spec.devices)}
    for name, found in known.items():
        if found.spec.node_name == spec.name and name not in wanted:
            await client.delete(RESOURCE_SLICE, "", name, uid=found.metadata.uid)
    for name, body in wanted.items():
        before = known.get(name)
        if before is None:
            try:
                await client.create(RESOURCE_SLICE, "", body | {"metadata": {"name": name, **meta}})
            except AlreadyExists:
                log.warning("ResourceSlice %s is not muster's, and stays as it is", name)
        elif (change := _changed(before, body["spec"])) or _owner(before) != node.metadata.uid:
            await client.patch(RESOURCE_SLICE, "", name, {"metadata": meta, "spec": change})


def _changed(before: ResourceSlice, spec: Object) -> Object:
    """The spec with the next generation of the pool; empty if it says what was said before."""
    generation = before.spec.pool.generation
    same = {**spec, "pool": {**spec["pool"], "generation": generation}}
    if msgspec.convert(same, ResourceSliceSpec) == before.spec:
        return {}
    return {**spec, "pool": {**spec["pool"], "generation": generation + 1}}


def _owner(found: ResourceSlice) -> str:
    return next((each.uid for each in found.metadata.owner_references), "")
