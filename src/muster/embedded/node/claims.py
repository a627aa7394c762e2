"""The devices of a pod on its node: whether the pod has them, and what its containers are told of them.

A kubelet starts no pod whose claims are not allocated, or not reserved for it; here a claim must be allocated
for the pod's node, too. A container gets the devices of the claims that its `resources.claims` names, or of
one request of a claim, and those that stand for resources that it requests, in its environment:

    MUSTER_DEVICES          driver/pool/device of each, separated by commas
    CUDA_VISIBLE_DEVICES    their attribute `index`, if each of them has it

Source: kubernetes, pkg/kubelet/cm/dra/manager.go.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from muster.api import pod_claims
from muster.api.core_v1 import Container, NodeSelectorTerm, Pod
from muster.api.kinds import RESOURCE_CLAIM
from muster.api.resource_v1 import AllocatedDevice, ResourceClaim, ResourceSlice
from muster.core.world.labels import satisfied
from muster.embedded.devicespec import INDEX
from muster.embedded.node.environment import Lookup
from muster.kube.client import Client
from muster.kube.errors import NotFound
from muster.translate.surroundings import node_term

#: The reason of the Event about a pod that has to wait for its devices.
FAILED: Final = "FailedPrepareDynamicResources"
DEVICES: Final = "MUSTER_DEVICES"


def refusal(pod: Pod, lookup: Lookup) -> str:
    """Why the pod cannot have its devices on its node; "" if it can."""
    names, made = pod_claims.names(pod), pod_claims.templates(pod)
    for claim_name in pod_claims.needed(pod):
        name = names.get(claim_name)
        if name is None:
            return f"claim {claim_name}: no ResourceClaim has been made from its template yet"
        if why := _unusable(pod, name, lookup, made=claim_name in made):
            return why
    own = pod_claims.for_resources(pod)
    return _unusable(pod, own, lookup, made=True) if own else ""


def _unusable(pod: Pod, name: str, lookup: Lookup, *, made: bool) -> str:
    """Why the pod cannot have the devices of this claim; "" if it can. `made`: it must be the pod's own."""
    claim = lookup.claim(name)
    if claim is None:
        return f"ResourceClaim {name} not found"
    if made and not pod_claims.is_made_for(pod, claim):
        return f"ResourceClaim {name} was not created for this pod, which does not own it"
    allocation = claim.status.allocation
    if allocation is None:
        return f"ResourceClaim {name} is not allocated"
    if not any(pod_claims.reserves(each, pod) for each in claim.status.reserved_for):
        return f"the pod is not allowed to use ResourceClaim {name}, which is not reserved for it"
    selector = allocation.node_selector
    if selector is not None and not any(
        _selects(term, lookup.node_labels, pod.spec.node_name) for term in selector.node_selector_terms
    ):
        return f"ResourceClaim {name} is allocated for other nodes than {pod.spec.node_name}"
    return ""


async def lacking(client: Client, pod: Pod, lookup: Lookup) -> str:
    """The refusal by what the API server has now: a cache of claims may be behind that of pods."""
    found: dict[str, ResourceClaim] = {}
    for name in {*pod_claims.all_names(pod)}:
        try:
            found[name] = await client.get(RESOURCE_CLAIM, pod.metadata.namespace, name)
        except NotFound:
            continue
    return refusal(pod, msgspec.structs.replace(lookup, claim=found.get))


def environment(pod: Pod, container: Container, lookup: Lookup) -> dict[str, str]:
    """The variables that tell a container its devices; none if it has none."""
    found = [*dict.fromkeys(_devices(pod, container, lookup))]
    if not found:
        return {}
    told = {DEVICES: ",".join("/".join(device) for device in found)}
    indices = _indices(lookup.slices())
    if all(device in indices for device in found):
        told["CUDA_VISIBLE_DEVICES"] = ",".join(str(indices[device]) for device in found)
    return told


def _devices(pod: Pod, container: Container, lookup: Lookup) -> Iterator[tuple[str, str, str]]:
    """Driver, pool and name of each device of the container."""
    names = pod_claims.names(pod)
    for use in container.resources.claims:
        claim = lookup.claim(names.get(str(use.get("name")), ""))
        if claim is None or claim.status.allocation is None:
            continue
        for each in claim.status.allocation.devices.results:
            if _is_of(each, str(use.get("request") or "")):
                yield each.driver, each.pool, each.device
    claim = lookup.claim(pod_claims.for_resources(pod))
    if claim is None or claim.status.allocation is None:
        return
    requests = pod_claims.requests_for(pod, container.name)
    for each in claim.status.allocation.devices.results:
        if each.request in requests:
            yield each.driver, each.pool, each.device


def _is_of(device: AllocatedDevice, request: str) -> bool:
    """Whether the device was allocated for this request; "": for any. An alternative is `request/name`."""
    return not request or device.request.partition("/")[0] == request


def _indices(slices: Iterable[ResourceSlice]) -> dict[tuple[str, str, str], int]:
    found = {}
    for each in slices:
        for device in each.spec.devices:
            attribute = device.attributes.get(INDEX)
            if attribute is not None and attribute.int_ is not None:
                found[each.spec.driver, each.spec.pool.name, device.name] = attribute.int_
    return found


def _selects(term: NodeSelectorTerm, labels: Mapping[str, str], node: str) -> bool:
    try:
        read = node_term(term)
    except ValueError:  # an operator that does not exist
        return False
    stated = bool(read.labels or read.fields)  # an empty term selects nothing
    return stated and satisfied(read.labels, labels) and satisfied(read.fields, {"metadata.name": node})
