"""Which claims of devices a pod has, and whether they are its own. Source: KEP-4381, KEP-3063, KEP-5004.

A pod names a claim, or a template; from the template the claim controller makes a claim with a generated
name, and writes that name into the pod's status. A pod that requests a resource by number, on a node that has
it as devices, has one more claim: the scheduler makes it, and writes its name into the pod's status.
"""

from typing import Final

from muster.api.base import controller_of
from muster.api.core_v1 import Pod
from muster.api.resource_v1 import ConsumerReference, ResourceClaim

#: Annotation of a claim that was made for a pod: the name that the claim has in the pod.
POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
#: Annotation, "true", of the claim that was made for what a pod requests by number.
FOR_RESOURCES: Final = "resource.kubernetes.io/extended-resource-claim"
#: Most claims of a pod that muster reads. It starts no pod that has more, so it never writes these claims.
MOST_CLAIMS: Final = 32
#: Finalizer of a claim that is allocated, or about to be.
DELETE_PROTECTION: Final = "resource.kubernetes.io/delete-protection"


def templates(pod: Pod) -> dict[str, str]:
    """Returns the templates of the pod's claims, by the names that the claims have in the pod."""
    of_claims = ((str(each.get("name")), each.get("resourceClaimTemplateName")) for each in _claims(pod))
    return {name: str(template) for name, template in of_claims if template}


def names(pod: Pod) -> dict[str, str]:
    """Returns the names of the pod's claims, by the names that they have in the pod.

    A claim whose template has not been served yet has none, and is left out; so is one that the pod does not
    need after all.
    """
    made = {
        str(each.get("name")): each.get("resourceClaimName") for each in pod.status.resource_claim_statuses
    }
    found: dict[str, str] = {}
    for each in _claims(pod):
        name = str(each.get("name"))
        if known := each.get("resourceClaimName") or made.get(name):
            found[name] = str(known)
    return found


def needed(pod: Pod) -> list[str]:
    """Returns the names, in the pod, of the claims that it needs."""
    without = unneeded(pod)
    return [name for each in _claims(pod) if (name := str(each.get("name"))) not in without]


def for_resources(pod: Pod) -> str:
    """Returns the name of the claim that was made for what the pod requests by number; "": none."""
    status = pod.status.extended_resource_claim_status
    return str(status.get("resourceClaimName") or "") if status else ""


def requests_for(pod: Pod, container: str) -> frozenset[str]:
    """Returns which requests of that claim are for a container."""
    status = pod.status.extended_resource_claim_status or {}
    mappings = status.get("requestMappings")
    listed = [each for each in mappings if isinstance(each, dict)] if isinstance(mappings, list) else []
    return frozenset(
        str(each.get("requestName")) for each in listed if each.get("containerName") == container
    )


def all_names(pod: Pod) -> list[str]:
    """Returns the names of all claims of a pod, as far as they are made."""
    own = for_resources(pod)
    return [*names(pod).values(), *([own] if own else [])]


def has_claims(pod: Pod) -> bool:
    """Whether a pod has claims, made or not."""
    return bool(pod.spec.resource_claims or pod.status.extended_resource_claim_status)


def claims_are_read(pod: Pod) -> bool:
    """Whether the pod has claims, or its status names one, and no more than muster reads."""
    return has_claims(pod) and len(pod.spec.resource_claims) <= MOST_CLAIMS


def unneeded(pod: Pod) -> frozenset[str]:
    """Returns the names, in the pod, of claims that it does not need, as its status says."""
    statuses = pod.status.resource_claim_statuses
    return frozenset(str(each.get("name")) for each in statuses if not each.get("resourceClaimName"))


def is_made_for(pod: Pod, claim: ResourceClaim) -> bool:
    """Whether the claim was made from a template for this very pod, and not for a namesake."""
    owner = controller_of(claim)
    return (
        claim.metadata.namespace == pod.metadata.namespace
        and owner is not None
        and (owner.api_version, owner.kind, owner.uid) == ("v1", "Pod", pod.metadata.uid)
    )


def reserves(reference: ConsumerReference, pod: Pod) -> bool:
    """Whether an entry of a claim's `reservedFor` is this pod."""
    return is_of_pod(reference) and reference.uid == pod.metadata.uid


def is_of_pod(reference: ConsumerReference) -> bool:
    """Whether an entry of `reservedFor` is a pod, and not a group of pods."""
    return (reference.api_group, reference.resource) == ("", "pods")


def _claims(pod: Pod) -> list[dict[str, object]]:
    return pod.spec.resource_claims
