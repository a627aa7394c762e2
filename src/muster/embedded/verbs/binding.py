"""Binding: assigns a pod its node, its address and its condition in one write.

Source: kubernetes, pkg/registry/core/pod/storage/storage.go (assignPod, setPodHostAndAnnotations).
"""

from contextlib import suppress
from datetime import datetime
from typing import Final

import msgspec

from muster.api import kinds
from muster.api.base import Object, ObjectMeta, Struct
from muster.api.fields import Finding, InvalidObject, convert
from muster.embedded.api_errors import conflict, invalid
from muster.embedded.verbs.metadata import time_text
from muster.kube.errors import BadRequest


class _Target(Struct, frozen=True):
    kind: str = "Node"
    name: str = ""


class _Address(Struct, frozen=True):
    type: str = ""
    address: str = ""


class _NodeStatus(Struct, frozen=True):
    addresses: list[_Address] = []


class _Node(Struct, frozen=True):
    """The part of a node that a binding needs."""

    status: _NodeStatus = _NodeStatus()


_ADDRESSED: Final = msgspec.json.Decoder(_Node)


class Binding(Struct, frozen=True):
    """`metadata.uid` and `metadata.resourceVersion` are preconditions; annotations become the pod's."""

    metadata: ObjectMeta = ObjectMeta()
    target: _Target = _Target()


def read(name: str, obj: Object) -> Binding:
    """Reads `obj` as the Binding of the pod `name`."""
    try:
        binding = convert(obj, Binding)
    except InvalidObject as error:
        raise invalid(kinds.POD, name, error.errors) from None
    if binding.metadata.name not in ("", name):
        raise BadRequest(f"the Binding is for {binding.metadata.name!r}, not for {name!r}")
    if binding.target.kind not in ("", "Node") or not binding.target.name:
        raise invalid(
            kinds.POD, name, [Finding(("target", "name"), "Required value: the Node to bind the pod to")]
        )
    return binding


def check(pod: Object) -> None:
    """Raises `Conflict` if the pod can no longer be bound, or not yet."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    why = ""
    if "deletionTimestamp" in pod["metadata"]:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    elif pod["status"].get("phase") in ("Succeeded", "Failed"):
        why = f"pod {name} has ended already"
    if why:
        raise conflict(kinds.POD, name, why, "binding")


def assign(
    pod: Object, node: str, node_body: bytes, address: str, annotations: dict[str, str], now: datetime
) -> Object:
    """The pod bound to the node of this name, with its own address; `node_body` is the stored node."""
    meta, status = dict(pod["metadata"]), dict(pod["status"])
    status.pop("nominatedNodeName", None)
    if annotations:
        meta["annotations"] = {**(meta.get("annotations") or {}), **annotations}
    status["podIP"], status["podIPs"] = address, [{"ip": address}]
    status["hostIP"] = _host_address(node_body)
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": time_text(now)}
    others = [c for c in status.get("conditions") or () if c["type"] != "PodScheduled"]
    status["conditions"] = [*others, scheduled]
    spec = {**pod["spec"], "nodeName": node}
    return {**pod, "metadata": meta, "spec": spec, "status": status}


def _host_address(node: bytes) -> str:
    """The node's internal address; a node that reports none is this machine."""
    with suppress(msgspec.ValidationError):
        for address in _ADDRESSED.decode(node).status.addresses:
            if address.type == "InternalIP":
                return address.address
    return "127.0.0.1"
