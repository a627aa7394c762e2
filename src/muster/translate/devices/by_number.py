"""The claim that stands for what a pod requests by number, on a node that has it as devices.

Its requests have the names, and its pod's status the mappings, that kube-scheduler gives them, since the node
reads both. Source: KEP-5004. Containers that run side by side have devices of their own. An init container
uses those of containers that start after it; what it needs besides is one request for all init containers.
"""

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass
from fractions import Fraction
from hashlib import blake2b
from typing import Final

from muster.api import quantity
from muster.api.base import Object
from muster.api.core_v1 import Container, Pod
from muster.api.pod_claims import FOR_RESOURCES
from muster.api.resource_v1 import OF_CLASS, ResourceClaim
from muster.core.words.devices import BY_NUMBER, Allocation, DeviceId
from muster.translate.devices.counted import resource_of

#: Characters of the pod's name in that of its claim, which has at most 253.
_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class Requests:
    #: by name, sorted: the class and the number of devices, and the resource as which the core counts them
    requests: tuple[tuple[str, str, int, str], ...]
    #: container, resource, request
    mappings: tuple[tuple[str, str, str], ...]

    @property
    def spec(self) -> Object:
        """The spec of the claim."""
        asked = [
            {
                "name": name,
                "exactly": {"deviceClassName": of, "allocationMode": "ExactCount", "count": count},
            }
            for name, of, count, _ in self.requests
        ]
        return {"devices": {"requests": asked}}

    def status(self, claim: str) -> Object:
        """What the pod's status says of the claim."""
        names = "containerName", "resourceName", "requestName"
        mappings = [dict(zip(names, each, strict=True)) for each in self.mappings]
        return {"requestMappings": mappings, "resourceClaimName": claim}

    def are_of(self, claim: ResourceClaim) -> bool:
        """Whether a claim has these requests."""
        found = [
            (each.name, each.exactly.device_class_name, each.exactly.count)
            for each in claim.spec.devices.requests
            if each.exactly is not None
        ]
        return found == [(name, of, count) for name, of, count, _ in self.requests]

    def shared_out(self, allocation: Allocation) -> Allocation | None:
        """Returns the devices of an allocation by request; None if these are not as many as are requested."""
        left: dict[str, list[DeviceId]] = {}
        for resource, device in allocation.devices:
            left.setdefault(resource, []).append(device)
        found: list[tuple[str, DeviceId]] = []
        for name, _, count, resource in self.requests:
            some = left.get(resource, [])
            if len(some) < count:
                return None
            found += ((name, device) for device in some[:count])
            left[resource] = some[count:]
        return None if any(left.values()) else Allocation(BY_NUMBER, tuple(found))


def name_of(pod: Pod) -> str:
    """Returns the name of the claim of a pod: always the same, so that it is made once."""
    meta = pod.metadata
    digest = blake2b(meta.uid.encode("utf-8", "replace"), digest_size=5).hexdigest()
    return f"{meta.name[:_SHOWN].rstrip('-.')}-extended-resources-{digest}"


def claim_of(pod: Pod, requests: Requests) -> Object:
    """Returns the claim as it is to be created."""
    meta = pod.metadata
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid, "controller": True}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": name_of(pod),
            "namespace": meta.namespace,
            "annotations": {FOR_RESOURCES: "true"},
            "ownerReferences": [owner],
        },
        "spec": requests.spec,
    }


def requests_of(pod: Pod, resources: Set[str], counted: Mapping[str, str]) -> Requests:
    """Returns the requests for these resources of the core. `counted`: by class, as which it is counted.

    Raises ValueError for an amount that cannot be read.
    """
    spec, first = pod.spec, len(pod.spec.init_containers)
    containers = [*spec.init_containers, *spec.containers]
    named = sorted({name for each in containers for name in _stated(each)})
    classes = {resource: class_ for class_, resource in counted.items()}
    requests: list[tuple[str, str, int, str]] = []
    mappings: list[tuple[str, str, str]] = []
    for name in named:
        class_ = name.removeprefix(OF_CLASS) if name.startswith(OF_CLASS) else classes.get(name)
        if class_ is None or (resource := resource_of(class_, counted)) not in resources:
            continue
        lasting: dict[int, tuple[str, int]] = {}
        for i, each in enumerate(containers):
            if (i >= first or each.restart_policy == "Always") and (number := _number(each, name)):
                lasting[i] = _request(i, each, name), number
                mappings.append((each.name, name, lasting[i][0]))
        largest, short = ("", 0), list[tuple[int, int]]()
        for i, each in enumerate(containers[:first]):
            if each.restart_policy == "Always" or not (number := _number(each, name)):
                continue
            missing = number
            for at, (request, has) in lasting.items():
                if at >= i and missing > 0:
                    mappings.append((each.name, name, request))
                    missing -= has
            if missing > 0:
                short.append((i, missing))
                if missing > largest[1]:
                    largest = _request(i, each, name), missing
        mappings += ((containers[i].name, name, largest[0]) for i, _ in short)
        found = [*lasting.values(), *([largest] if largest[1] else [])]
        requests += ((request, class_, number, resource) for request, number in found)
    return Requests(tuple(sorted(requests)), tuple(mappings))


def _stated(container: Container) -> Mapping[str, str | int | float]:
    """Returns what a container requests, with limits where it requests nothing, as the API server does."""
    return {**container.resources.limits, **container.resources.requests}


def _number(container: Container, resource: str) -> int:
    amount = _stated(container).get(resource)
    return math.ceil(Fraction(quantity.parse(amount))) if amount is not None else 0


def _request(index: int, container: Container, resource: str) -> str:
    return f"container-{index}-request-{sorted(_stated(container)).index(resource)}"
