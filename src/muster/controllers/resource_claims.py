"""Makes the claims of pods from their templates, and frees claims of devices that no pod uses any more.

Two controllers act as that of kube-controller-manager does. A real cluster has that one; the embedded cluster
has these.

- `of_pods` makes a claim for each template that a pod names, and writes its generated name into the pod's
  status. It reserves an allocated claim for a pod that was bound without a scheduler.
- `freed` removes the reservations of pods that have ended or are gone. With the last one goes the allocation,
  so that the devices are free for others; a claim that was made for a pod is deleted when the pod has ended.

A claim is only made for, given to, or deleted with the pod of its own namespace that its owner reference
names by uid. A pod that is missing from the cache may be newer than what the cache shows, so the API server
itself is asked before its reservation is removed. Claims of PodGroups are not made yet; an Event says so.

Source: kubernetes, pkg/controller/resourceclaim/controller.go.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from muster.api import pod_claims
from muster.api.base import Object, controller_of, involved
from muster.api.core_v1 import Pod
from muster.api.groups import NATIVE
from muster.api.kinds import POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from muster.api.pod_claims import DELETE_PROTECTION, POD_CLAIM_NAME
from muster.api.resource_v1 import ResourceClaim, ResourceClaimTemplate
from muster.api.rules.claims import MOST_RESERVED
from muster.controllers.caches import Caches, Index
from muster.controllers.driver import Change, Controller, Watch, itself
from muster.effects import Absent, Create, Delete, Effect, Patch, RecordEvent

FAILED: Final = "FailedResourceClaimCreation"
#: Index of pods by the templates, and by the claims, that they name.
TEMPLATE: Final = "claim template"
CLAIM: Final = "claim"
#: Index of pods by their native PodGroup.
GROUP: Final = "claims of group"
#: Index of claims by the uids of the pods for which they are reserved.
RESERVED: Final = "reserved for"
#: Longest prefix of a generated name, with room for five random characters in a name of 63.
_LONGEST: Final = 57


# -- claims of pods


@dataclass(frozen=True, slots=True)
class Needs:
    """A pod that may run, and what its claims are made of."""

    pod: Pod
    #: by their names, the claims that the pod names or that were made for it; those that are missing are not
    claims: dict[str, ResourceClaim]
    #: by their names
    templates: dict[str, ResourceClaimTemplate]
    #: names and templates of claims that all pods of its PodGroup share
    shared: frozenset[tuple[str, str | None]]


def of_pods() -> Controller[Needs]:
    """Returns the controller for the driver; its keys are those of pods."""
    indexes = (
        Index(POD, TEMPLATE, lambda pod: _in_namespace(pod, pod_claims.templates(pod).values())),
        Index(POD, CLAIM, lambda pod: _in_namespace(pod, pod_claims.names(pod).values())),
        Index(POD, GROUP, lambda pod: _in_namespace(pod, _group(pod))),
    )
    watches = (
        Watch(POD, lambda change: itself(change) if change.objects[-1].spec.resource_claims else []),
        Watch(RESOURCE_CLAIM_TEMPLATE, lambda change: _users(change, TEMPLATE)),
        Watch(RESOURCE_CLAIM, lambda change: {*_users(change, CLAIM), *_owner(change)}),
        Watch(NATIVE.kind, lambda change: _users(change, GROUP)),
    )
    return Controller("claims of pods", watches, observe, make, indexes)


def observe(caches: Caches, key: str) -> Needs | None:
    pod = caches[POD].get(key)
    if pod is None or not pod.spec.resource_claims or pod.terminal:
        return None
    if pod.metadata.deletion_timestamp is not None:
        return None
    namespace = pod.metadata.namespace
    groups = [caches[NATIVE.kind].get(f"{namespace}/{name}") for name in _group(pod)]
    if None in groups:
        return None  # it may say of a claim that it is the group's
    named = (caches[RESOURCE_CLAIM].get(f"{namespace}/{name}") for name in pod_claims.names(pod).values())
    templates = {*pod_claims.templates(pod).values()}
    found = (caches[RESOURCE_CLAIM_TEMPLATE].get(f"{namespace}/{name}") for name in sorted(templates))
    return Needs(
        pod,
        {each.metadata.name: each for each in (*caches[RESOURCE_CLAIM].owned_by(pod), *named) if each},
        {each.metadata.name: each for each in found if each is not None},
        frozenset(
            (claim.name, claim.resource_claim_template_name)
            for group in groups
            if group is not None
            for claim in group.spec.resource_claims
        ),
    )


def make(needs: Needs, now: datetime) -> list[Effect]:
    """Makes missing claims, or records those that have been made, or reserves them for a pod with a node."""
    pod, effects = needs.pod, list[Effect]()
    known, templates = pod_claims.names(pod), pod_claims.templates(pod)
    unneeded, made_as = pod_claims.unneeded(pod), _made_as(needs)
    recorded = {name: known[name] for name in known if name in templates}
    for name, template in templates.items():
        claim = needs.claims.get(known.get(name, ""))
        if name in unneeded or (claim and pod_claims.is_made_for(pod, claim)):
            continue
        found = needs.templates.get(template)
        if (name, template) in needs.shared:
            effects.append(_told(pod, name, "the claims of PodGroups are not supported yet"))
        elif name in made_as:
            recorded[name] = made_as[name]
        elif found is not None:
            effects.append(Create(RESOURCE_CLAIM, pod.metadata.namespace, _claim(pod, name, found)))
        else:
            effects.append(_told(pod, name, f'resource claim template "{template}" not found'))
    if any(known.get(name) != claim_name for name, claim_name in recorded.items()):
        statuses = [
            *({"name": name, "resourceClaimName": recorded[name]} for name in sorted(recorded)),
            *(each for each in pod.status.resource_claim_statuses if not each.get("resourceClaimName")),
        ]
        body = {"metadata": {"uid": pod.metadata.uid}, "status": {"resourceClaimStatuses": statuses}}
        effects.append(Patch(POD, pod.metadata.namespace, pod.metadata.name, body, "status"))
    return effects or [*_reservations(needs)]


def _reservations(needs: Needs) -> Iterable[Effect]:
    """Reserves the claims of a pod that has a node, if they are allocated: a scheduler would have done so."""
    pod, made = needs.pod, pod_claims.templates(needs.pod)
    if not pod.spec.node_name:
        return
    for name, claim_name in pod_claims.names(pod).items():
        claim = needs.claims.get(claim_name)
        if claim is None or claim.status.allocation is None or claim.metadata.deletion_timestamp is not None:
            continue
        reserved = claim.status.reserved_for
        if len(reserved) >= MOST_RESERVED or any(pod_claims.reserves(each, pod) for each in reserved):
            continue
        if name not in made or pod_claims.is_made_for(pod, claim):
            reference: Object = {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
            yield _status(claim, {"reservedFor": [*msgspec.to_builtins(reserved), reference]})


def _told(pod: Pod, name: str, why: str) -> RecordEvent:
    told = f"PodResourceClaim {name}: {why}"
    return RecordEvent(involved(pod, POD), "Warning", FAILED, told, once=pod.metadata.uid)


def _made_as(needs: Needs) -> dict[str, str]:
    """Returns the names of claims that were made for the pod, by the names that they have in the pod.

    Of several claims, the first by name counts.
    """
    made = [each for each in needs.claims.values() if pod_claims.is_made_for(needs.pod, each)]
    named = ((each.metadata.annotations.get(POD_CLAIM_NAME), each.metadata.name) for each in made)
    return {name: claim for name, claim in sorted(named, key=lambda one: one[1], reverse=True) if name}


def _claim(pod: Pod, name: str, template: ResourceClaimTemplate) -> Object:
    meta = pod.metadata
    labels, annotations = template.spec.metadata.labels, template.spec.metadata.annotations
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid, "controller": True}
    return {
        "metadata": {
            "generateName": prefix(meta.name, name),
            "labels": {**labels},
            "annotations": {**annotations, POD_CLAIM_NAME: name},
            "ownerReferences": [owner],
        },
        "spec": msgspec.to_builtins(template.spec.spec),
    }


def prefix(pod: str, claim: str) -> str:
    """Returns the prefix of a claim's generated name; of long names, each is cut by the same share."""
    whole = f"{pod}-{claim}-"
    if len(whole) <= _LONGEST:
        return whole
    return "-".join(name[: len(name) * _LONGEST // len(whole)] for name in (pod, claim))


# -- claims that no pod uses


@dataclass(frozen=True, slots=True)
class Use:
    """A claim, and the pods that have the names of its owner and of those for which it is reserved."""

    claim: ResourceClaim
    pods: dict[str, Pod]


def freed() -> Controller[Use]:
    """Returns the controller for the driver; its keys are those of claims."""
    indexes = (
        Index(RESOURCE_CLAIM, RESERVED, lambda claim: {each.uid for each in claim.status.reserved_for}),
    )
    watches = (Watch(RESOURCE_CLAIM, itself), Watch(POD, _held))
    return Controller("claims to free", watches, observe_use, free, indexes)


def observe_use(caches: Caches, key: str) -> Use | None:
    claim = caches[RESOURCE_CLAIM].get(key)
    if claim is None:
        return None
    names = {each.name for each in claim.status.reserved_for}
    owner = controller_of(claim)
    if owner is not None and (owner.api_version, owner.kind) == ("v1", "Pod"):
        names.add(owner.name)
    pods = (caches[POD].get(f"{claim.metadata.namespace}/{name}") for name in sorted(names))
    return Use(claim, {pod.metadata.name: pod for pod in pods if pod is not None})


def free(use: Use, now: datetime) -> list[Effect]:
    claim, meta, reserved = use.claim, use.claim.metadata, use.claim.status.reserved_for
    remaining, effects = [], list[Effect]()
    for reference in reserved:
        pod = use.pods.get(reference.name)
        if not pod_claims.is_of_pod(reference) or (
            pod is not None and pod.metadata.uid == reference.uid and not is_done(pod)
        ):
            remaining.append(reference)
        elif pod is None:
            effects.append(Absent(POD, meta.namespace, reference.name, reference.uid))
    protected = DELETE_PROTECTION in meta.finalizers
    if len(remaining) < len(reserved):
        status: Object = {"reservedFor": msgspec.to_builtins(remaining) or None}
        if not remaining and protected:
            status["allocation"] = None
        effects.append(_status(claim, status))
        if "allocation" in status:
            effects.append(_unprotected(claim, {"/status": {}}))
    elif protected and meta.deletion_timestamp is not None and not remaining:
        if claim.status.allocation is not None:
            effects += [_status(claim, {"allocation": None}), _unprotected(claim, {"/status": {}})]
        else:
            effects.append(_unprotected(claim, {"/metadata/resourceVersion": meta.resource_version}))
    if not remaining and meta.deletion_timestamp is None and _is_left(use):
        effects.append(Delete(RESOURCE_CLAIM, meta.namespace, meta.name, meta.uid))
    return effects


def is_done(pod: Pod) -> bool:
    """Whether the pod uses no devices any more, and will not."""
    return pod.terminal or (pod.metadata.deletion_timestamp is not None and not pod.spec.node_name)


def _is_left(use: Use) -> bool:
    """Whether the claim was made for a pod that will not use it; not if the pod is gone (garbage)."""
    owner = controller_of(use.claim)
    if owner is None or (owner.api_version, owner.kind) != ("v1", "Pod"):
        return False
    pod = use.pods.get(owner.name)
    return pod is not None and (pod.metadata.uid != owner.uid or is_done(pod))


def _unprotected(claim: ResourceClaim, tests: Object) -> Patch:
    """Removes the finalizer, unless the claim has been allocated again meanwhile."""
    meta = claim.metadata
    rest = [each for each in meta.finalizers if each != DELETE_PROTECTION]
    body = {"metadata": {"finalizers": rest or None}}
    tests = {"/metadata/uid": meta.uid, "/metadata/finalizers": list(meta.finalizers), **tests}
    return Patch(RESOURCE_CLAIM, meta.namespace, meta.name, body, tests=tests)


def _status(claim: ResourceClaim, status: Object) -> Patch:
    """Changes the status of the claim if it is as it was seen."""
    meta = claim.metadata
    seen = {"uid": meta.uid, "resourceVersion": meta.resource_version}
    return Patch(RESOURCE_CLAIM, meta.namespace, meta.name, {"metadata": seen, "status": status}, "status")


def _held(change: Change) -> Iterable[str]:
    """Returns the keys of the claims that a pod, which is gone or done, had."""
    pod: Pod = change.objects[-1]
    if change.new is not None and not is_done(pod):
        return []
    claims = change.caches[RESOURCE_CLAIM]
    return {each.key for each in (*claims.by(RESERVED, pod.metadata.uid), *claims.owned_by(pod))}


def _users(change: Change, index: str) -> list[str]:
    """Returns the keys of the pods that name the changed object."""
    return [pod.key for pod in change.caches[POD].by(index, change.objects[-1].key)]


def _owner(change: Change) -> list[str]:
    """Returns the key of the pod for which a claim was made."""
    claim = change.objects[-1]
    owner = controller_of(claim)
    return [f"{claim.metadata.namespace}/{owner.name}"] if owner is not None and owner.kind == "Pod" else []


def _group(pod: Pod) -> list[str]:
    """Returns the name of the pod's native PodGroup, if it has one."""
    name = (pod.spec.scheduling_group or {}).get("podGroupName")
    return [str(name)] if name else []


def _in_namespace(pod: Pod, names: Iterable[str]) -> list[str]:
    return [f"{pod.metadata.namespace}/{name}" for name in names]
