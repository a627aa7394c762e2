"""ResourceQuotas: which of them count for a pod, what they charge for it, and what they have left.

The rules are the API server's. A quota counts for a pod if all of its scopes match it; then it charges what
it names: `pods`, requests and limits of the pod as a whole, extended resources by `requests.<name>`. What it
states about other objects (services, claims) is ignored here. The API server would refuse a pod that does not
state what a quota of CPU or memory charges; therefore muster refuses its gang, with the field's name.

A pod that exists has been charged. A pod that is only proposed (`World.uncreated`) is still to be charged,
and so are those that a Job's controller has yet to create.

The amount used is read from the quota's status. The embedded API server keeps that with `usage`, as
Kubernetes' admission and its quota controller do. Where nobody keeps it (a snapshot that was written by
hand), muster counts it from the existing pods.

Source: kubernetes, pkg/quota/v1/evaluator/core/pods.go.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Final

from muster.api import groups, quantity
from muster.api.core_v1 import Pod, PodSpec, ResourceQuota, ScopeSelectorRequirement
from muster.api.requests import limits, requests
from muster.core.words.gang import Amounts, Code, Gate
from muster.translate.surroundings import pod_terms
from muster.translate.world import World

#: What a quota may charge for the pods' own resources; without a prefix it means requests.
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
#: What counts all pods, also those that have ended.
_OBJECTS: Final = "count/pods"
_PODS: Final = ("pods", _OBJECTS)
_PRIORITY_CLASS: Final = "PriorityClass"
#: Every pod that a quota of these counts for must state them.
_REQUIRED: Final = ("cpu", "memory")


def charged(quotas: Iterable[ResourceQuota], spec: PodSpec) -> tuple[tuple[str, Amounts], ...]:
    """Returns, by quota that counts for such a pod, what it charges: amounts as everywhere, rounded up."""
    found, pod = [], _Stated(spec)
    for quota in quotas:
        names = [name for name in sorted(quota.spec.hard) if _of_pods(name)]
        if names and matches(quota, spec):
            found.append((quota.metadata.name, tuple((name, pod.charge(name)) for name in names)))
    return tuple(found)


def proposed(pods: Iterable[Pod], world: World) -> tuple[int, tuple[tuple[str, Amounts], ...]]:
    """Returns how many of these pods are only proposed, and the charge for one of them, by quota.

    The pods ask for the same. If the proposed ones are charged differently (for their limits, or by quotas of
    a scope), the highest charge counts. If none is proposed, the first pod stands for all.
    """
    pods = [*pods]
    uncreated = [pod for pod in pods if pod.metadata.uid in world.uncreated] if world.uncreated else []
    uncreated = [pod for pod in uncreated if not held(pod, world)]
    dearest: dict[str, dict[str, int]] = {}
    for pod in uncreated or pods[:1]:
        with suppress(ValueError):  # reported where its shape is read
            for name, amounts in charged(world.quotas_in(pod.metadata.namespace), pod.spec):
                known = dearest.setdefault(name, {})
                known.update({what: max(amount, known.get(what, 0)) for what, amount in amounts})
    charges = tuple((name, tuple(sorted(amounts.items()))) for name, amounts in sorted(dearest.items()))
    return (len(uncreated) if charges else 0), charges


def held(pod: Pod, world: World) -> bool:
    """Whether quota is held for the pods of the group that a pod names: by the embedded cluster only."""
    if world.schedulers is not None or (named := groups.named(pod)) is None:
        return False
    namespace = pod.metadata.namespace
    group = world.groups_of(named.dialect).get((namespace, named.name))
    row = world.describing(named.dialect, namespace, named.name)
    there = group is not None and group.metadata.uid not in world.uncreated
    return there and row.asked is not None and bool(row.asked(group).total)


def forbidden(pod: Pod, world: World) -> Gate | None:
    """Returns why the API server would not create this pod, if the pod is only proposed."""
    if pod.metadata.uid not in world.uncreated:
        return None
    return refusal(world.quotas_in(pod.metadata.namespace), pod.spec)


def refusal(quotas: Iterable[ResourceQuota], spec: PodSpec) -> Gate | None:
    """Returns why the API server would not create such a pod, whatever is left; or why muster cannot tell."""
    _Stated(spec)
    for quota in quotas:
        name = quota.metadata.name
        if unknown := [scope for scope in _scopes(quota) if scope not in _SCOPES]:
            what = f"ResourceQuota {name} has the scope {unknown[0]}, which muster does not support"
            return Gate(Code.INVALID, f"{what}; it knows {', '.join(sorted(_SCOPES))}")
        if not matches(quota, spec):
            continue
        for resource in unstated(quota, spec):
            field = resource if "." in resource else f"requests.{resource}"
            message = f"ResourceQuota {name} counts {resource}; its pods must state resources.{field}"
            return Gate(Code.QUOTA_EXCEEDED, message)
    return None


def unstated(quota: ResourceQuota, spec: PodSpec) -> dict[str, list[str]]:
    """Returns the CPU and memory that the quota counts, by the containers that do not state it.

    The API server refuses such a pod. A pod that states any of it as a whole answers for its containers.
    """
    missing: dict[str, list[str]] = {}
    if {*spec.resources.requests, *spec.resources.limits} & {*_REQUIRED}:
        return missing
    for name in sorted(quota.spec.hard):
        if _of_pods(name) and unit(name) in _REQUIRED:
            for container in (*spec.containers, *spec.init_containers):
                stated = container.resources
                if unit(name) not in stated.limits and (
                    name.startswith("limits.") or unit(name) not in stated.requests
                ):
                    missing.setdefault(name, []).append(container.name)
    return missing


def room(quota: ResourceQuota, pods: Iterable[Pod]) -> tuple[Amounts, Amounts]:
    """Returns what the quota has left, and what it has in all; 0 of a resource that cannot be read.

    `pods`: all of its namespace.
    """
    left, whole = [], []
    counted: dict[str, int] | None = None
    for name, text in sorted(quota.spec.hard.items()):
        if not _of_pods(name):
            continue
        try:
            hard = quantity.capacity(unit(name), text)
            if (reported := quota.status.used.get(name)) is not None:
                used = quantity.request(unit(name), reported)
            else:
                counted = used_by(quota, pods) if counted is None else counted
                used = counted[name]
        except ValueError:
            hard = used = 0
        left.append((name, hard - used))
        whole.append((name, hard))
    return tuple(left), tuple(whole)


def used_by(quota: ResourceQuota, pods: Iterable[Pod]) -> dict[str, int]:
    """Returns what the quota has charged for these pods, by each name that it states of pods."""
    used = {name: 0 for name in sorted(quota.spec.hard) if _of_pods(name)}
    for pod in pods:
        for name, amount in usage(quota, pod).items():
            used[name] += amount
    return used


def usage(quota: ResourceQuota, pod: Pod) -> dict[str, int]:
    """Returns what the quota charges for a pod that exists; nothing for amounts that cannot be read.

    A pod that has ended counts as an object only.
    """
    if pod.terminal:
        return {name: 1 for name in quota.spec.hard if name == _OBJECTS and matches(quota, pod.spec)}
    return claim(quota, pod.spec)


def claim(quota: ResourceQuota, spec: PodSpec) -> dict[str, int]:
    """Returns what the quota charges for such a pod; nothing for amounts that cannot be read."""
    charges: dict[str, int] = {}
    if matches(quota, spec):
        stated = _Stated(spec)
        for name in quota.spec.hard:
            with suppress(ValueError):
                if _of_pods(name):
                    charges[name] = stated.charge(name)
    return charges


def of_total(quota: ResourceQuota, total: Mapping[str, str | int | float] | None) -> dict[str, int]:
    """Returns how much of the quota the total of a group asks for; nothing of amounts that cannot be read.

    The total is what all of its pods request. Limits count as far as it states them: `limits.cpu`.
    """
    found: dict[str, int] = {}
    if not total:
        return found
    for name in quota.spec.hard:
        resource = name if name in total or name.startswith("limits.") else unit(name)
        resource = "pods" if name in _PODS else resource
        with suppress(ValueError):
            if _of_pods(name) and resource in total:
                found[name] = max(quantity.request(unit(resource), total[resource]), 0)
    return found


def counts_itself(quota: ResourceQuota) -> bool:
    """Whether the quota's status says what is used: the API server keeps it up to date."""
    return all(name in quota.status.used for name in quota.spec.hard if _of_pods(name))


def matches(quota: ResourceQuota, spec: PodSpec) -> bool:
    """Whether all of the quota's scopes match the pod."""
    plain = all(_SCOPES[scope](spec) for scope in quota.spec.scopes if scope in _SCOPES)
    selector = quota.spec.scope_selector.match_expressions if quota.spec.scope_selector is not None else []
    return plain and all(_selected(requirement, spec) for requirement in selector)


def counts_classes(quota: ResourceQuota, name: str | None = None) -> bool:
    """Whether a quota counts pods by their PriorityClass; `name`: pods of this class, perhaps not all."""
    if _PRIORITY_CLASS in quota.spec.scopes:
        return True
    selector = quota.spec.scope_selector.match_expressions if quota.spec.scope_selector is not None else []
    some = [requirement for requirement in selector if requirement.scope_name == _PRIORITY_CLASS]
    spec = PodSpec(priority_class_name=name or "")
    return bool(some) and (name is None or all(_selected(requirement, spec) for requirement in some))


def _selected(requirement: ScopeSelectorRequirement, spec: PodSpec) -> bool:
    if requirement.scope_name != _PRIORITY_CLASS:
        holds = _SCOPES.get(requirement.scope_name)
        return holds is None or holds(spec)
    match requirement.operator:
        case "In":
            return spec.priority_class_name in requirement.values
        case "NotIn":
            return spec.priority_class_name not in requirement.values
        case "DoesNotExist":
            return not spec.priority_class_name
        case _:
            return bool(spec.priority_class_name)


def _scopes(quota: ResourceQuota) -> list[str]:
    selector = quota.spec.scope_selector.match_expressions if quota.spec.scope_selector is not None else []
    return [*quota.spec.scopes, *(requirement.scope_name for requirement in selector)]


def _best_effort(spec: PodSpec) -> bool:
    of = [spec.resources, *(c.resources for c in (*spec.containers, *spec.init_containers))]
    return not any(resource in _REQUIRED for each in of for resource in (*each.requests, *each.limits))


_SCOPES: Final[dict[str, Callable[[PodSpec], bool]]] = {
    "BestEffort": _best_effort,
    "NotBestEffort": lambda spec: not _best_effort(spec),
    "Terminating": lambda spec: spec.active_deadline_seconds is not None,
    "NotTerminating": lambda spec: spec.active_deadline_seconds is None,
    "PriorityClass": lambda spec: bool(spec.priority_class_name),
    "CrossNamespacePodAffinity": lambda spec: any(
        term.namespaces or term.namespace_selector is not None for term in pod_terms(spec)
    ),
    "VolumeAttributesClass": lambda spec: False,  # of claims
}


class _Stated:
    """What a pod states, read once for all that quotas charge."""

    def __init__(self, spec: PodSpec) -> None:
        self._spec = spec

    @cached_property
    def requests(self) -> dict[str, int]:
        return dict(requests(self._spec))

    @cached_property
    def limits(self) -> dict[str, int]:
        return dict(limits(self._spec))

    def charge(self, name: str) -> int:
        if name in _PODS:
            return 1
        return (self.limits if name.startswith("limits.") else self.requests).get(unit(name), 0)


def _of_pods(name: str) -> bool:
    if name in _PODS or name in _COMPUTE:
        return True
    prefix, _, resource = name.partition(".")
    if prefix == "limits":
        return resource in _COMPUTE
    if name.startswith("hugepages-"):
        return True
    return prefix == "requests" and bool(resource) and resource != "storage"


def unit(name: str) -> str:
    """Returns the resource that a quota's name is about: "cpu" for "limits.cpu"."""
    prefix, _, resource = name.partition(".")
    return resource if prefix in ("requests", "limits") else name
