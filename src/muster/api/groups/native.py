"""Kubernetes' own PodGroups (`scheduling.k8s.io`). Source: KEP-4671."""

from collections.abc import Iterator, Sequence
from typing import Final

from muster.api import kinds
from muster.api.base import Object, is_label_key
from muster.api.groups.dialect import Asked, Dialect
from muster.api.koordinator_v1alpha1 import GROUPS
from muster.api.scheduling_v1beta1 import PodGroup, PodGroupSpec


def _asked(group: PodGroup) -> Asked:
    spec = group.spec
    policy, mode = spec.scheduling_policy, spec.disruption_mode
    keys = [each.key for each in spec.scheduling_constraints.topology] if spec.scheduling_constraints else []
    return Asked(
        minimum=policy.gang.min_count if policy.gang is not None else 0,
        field="spec.schedulingPolicy.gang.minCount",
        priority_class=spec.priority_class_name,
        priority=spec.priority,
        preempts=spec.preemption_policy != "Never",
        domain=keys[0] if keys else "",
        indivisible=mode is not None and mode.all is not None,
        refusal=next(_refused(group.spec, keys), ""),
    )


def _spec(asked: Asked) -> Object:
    # without a minimum any pod may start, as with a minimum of one
    spec: Object = {"schedulingPolicy": {"gang": {"minCount": max(asked.minimum, 1)}}}
    if asked.domain:
        spec["schedulingConstraints"] = {"topology": [{"key": asked.domain}]}
    if asked.indivisible:
        spec["disruptionMode"] = {"all": {}}
    if asked.priority_class:
        spec["priorityClassName"] = asked.priority_class
    if asked.priority is not None:
        spec["priority"] = asked.priority
    if not asked.preempts:
        spec["preemptionPolicy"] = "Never"
    return spec


def _alone(group: PodGroup) -> bool:
    """Whether there is neither a minimum nor anything else that all pods have to observe together.

    A group that lists others is a part of their gang. Asked several times for each change of a pod.
    """
    spec = group.spec
    policy, mode, limits = spec.scheduling_policy, spec.disruption_mode, spec.scheduling_constraints
    if policy.gang is not None or policy.basic is None:
        return False
    if GROUPS in group.metadata.annotations:
        return False
    return (mode is None or mode.all is None) and (limits is None or not limits.topology)


def _refused(spec: PodGroupSpec, keys: Sequence[str]) -> Iterator[str]:
    policy = spec.scheduling_policy
    if (policy.gang is None) == (policy.basic is None):
        found = "neither gang nor basic" if policy.gang is None else "both gang and basic"
        yield f"spec.schedulingPolicy has {found}; write gang with a minCount, or basic: {{}}"
    if policy.gang is not None and policy.gang.min_count < 1:
        yield (
            f"spec.schedulingPolicy.gang.minCount is {policy.gang.min_count}; write how many pods must run "
            "together"
        )
    if spec.parent_composite_pod_group_name:
        yield (
            "spec.parentCompositePodGroupName (a CompositePodGroup) is not supported; leave it out, and join "
            f"the PodGroups by the annotation {GROUPS} on each of them"
        )
    if spec.resource_claims:
        claims = ", ".join(claim.name[:80] for claim in spec.resource_claims[:4])
        yield f"spec.resourceClaims {claims} (dynamic resource allocation) is not supported yet"
    if len(keys) > 1:
        yield f"spec.schedulingConstraints.topology has {len(keys)} constraints; write one"
    if keys and not is_label_key(keys[0]):
        yield (
            f"spec.schedulingConstraints.topology[0].key is {keys[0][:80]!r}; write the key of a node label"
        )


NATIVE: Final = Dialect(
    name="native",
    kind=kinds.POD_GROUP_K8S,
    in_spec=True,
    asked=_asked,
    spec=_spec,
    alone=_alone,
)
