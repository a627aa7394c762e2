"""ResourceQuotas: which of them count for a pod, what they charge for it, and what they have left.

The rules are the API server's. A quota counts for a pod if all of its scopes match it; then it charges what
it names: `pods`, requests and limits of the pod as a whole, extended resources by `requests.<name>`. What it
says about other objects (services, claims) is not asked here. A pod that does not state what a quota of CPU
or memory charges would be refused by the API server, and so its gang is, with the field's name.

A pod that is there has been charged. One that is only proposed (`World.uncreated`) is still to be, as are
those that a Job's controller has yet to make.

What is used is read from the quota's status. Where nobody keeps that up to date (the embedded cluster has no
quota controller), it is counted from the pods that there are.

Source: kubernetes, pkg/quota/v1/evaluator/core/pods.go.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from muster.api import quantity
from muster.api.core_v1 import Pod, PodSpec, ResourceQuota, ScopeSelectorRequirement
from muster.core.gang import Amounts, Code, Gate
from muster.translate.requests import limits, requests
from muster.translate.world import World

#: What a quota may charge for pods of themselves; without a prefix it means requests.
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_PODS: Final = ("pods", "count/pods")
#: Those must be stated by every pod that a quota of them counts for.
_REQUIRED: Final = ("cpu", "memory")


def charged(quotas: Iterable[ResourceQuota], spec: PodSpec) -> tuple[tuple[str, Amounts], ...]:
    """By quota that counts for such a pod: what it charges. Amounts as everywhere, rounded up."""
    found = []
    for quota in quotas:
        names = [name for name in sorted(quota.spec.hard) if _of_pods(name)]
        if names and matches(quota, spec):
            found.append((quota.metadata.name, tuple((name, _charge(name, spec)) for name in names)))
    return tuple(found)


def proposed(pods: Iterable[Pod], world: World) -> tuple[int, tuple[tuple[str, Amounts], ...]]:
    """Of pods that ask for the same, how many are only proposed, and what one is charged, by quota.

    If proposed ones are charged differently (for their limits, or by quotas of a scope), it is as the
    dearest. If none is, the first stands for all.
    """
    pods = [*pods]
    uncreated = [pod for pod in pods if pod.metadata.uid in world.uncreated] if world.uncreated else []
    dearest: dict[str, dict[str, int]] = {}
    for pod in uncreated or pods[:1]:
        with suppress(ValueError):  # said where its shape is read
            for name, amounts in charged(world.quotas_in(pod.metadata.namespace), pod.spec):
                known = dearest.setdefault(name, {})
                known.update({what: max(amount, known.get(what, 0)) for what, amount in amounts})
    charges = tuple((name, tuple(sorted(amounts.items()))) for name, amounts in sorted(dearest.items()))
    return (len(uncreated) if charges else 0), charges


def forbidden(pod: Pod, world: World) -> Gate | None:
    """Why the API server would not create this pod, if it is only proposed."""
    if pod.metadata.uid not in world.uncreated:
        return None
    return refusal(world.quotas_in(pod.metadata.namespace), pod.spec)


def refusal(quotas: Iterable[ResourceQuota], spec: PodSpec) -> Gate | None:
    """Why the API server would not create such a pod, whatever is left; or why muster cannot tell."""
    for quota in quotas:
        name = quota.metadata.name
        if unknown := [scope for scope in _scopes(quota) if scope not in _SCOPES]:
            what = f"ResourceQuota {name} has the scope {unknown[0]}, which muster does not support"
            return Gate(Code.INVALID, f"{what}; it knows {', '.join(sorted(_SCOPES))}")
        if not matches(quota, spec):
            continue
        for resource in sorted(quota.spec.hard):
            if _of_pods(resource) and _unit(resource) in _REQUIRED and not _charge(resource, spec):
                field = resource if "." in resource else f"requests.{resource}"
                message = f"ResourceQuota {name} counts {resource}; its pods must state resources.{field}"
                return Gate(Code.QUOTA_EXCEEDED, message)
    return None


def room(quota: ResourceQuota, pods: Iterable[Pod]) -> Amounts:
    """What it has left; of a resource that cannot be read, nothing. `pods`: all of its namespace."""
    left = []
    for name, text in sorted(quota.spec.hard.items()):
        if not _of_pods(name):
            continue
        try:
            hard = quantity.capacity(_unit(name), text)
            counted = quota.status.used.get(name)
            used = quantity.request(_unit(name), counted) if counted is not None else _used(quota, name, pods)
        except ValueError:
            hard = used = 0
        left.append((name, hard - used))
    return tuple(left)


def counts_itself(quota: ResourceQuota) -> bool:
    """Whether somebody keeps its status up to date."""
    return all(name in quota.status.used for name in quota.spec.hard if _of_pods(name))


def matches(quota: ResourceQuota, spec: PodSpec) -> bool:
    """Whether all of its scopes match the pod."""
    plain = all(_SCOPES[scope](spec) for scope in quota.spec.scopes if scope in _SCOPES)
    selector = quota.spec.scope_selector.match_expressions if quota.spec.scope_selector is not None else []
    return plain and all(_selected(requirement, spec) for requirement in selector)


def _selected(requirement: ScopeSelectorRequirement, spec: PodSpec) -> bool:
    if requirement.scope_name != "PriorityClass":
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
}


def _used(quota: ResourceQuota, name: str, pods: Iterable[Pod]) -> int:
    """A pod whose amounts cannot be read is charged none."""
    used = 0
    for pod in pods:
        if not pod.terminal and matches(quota, pod.spec):
            with suppress(ValueError):
                used += _charge(name, pod.spec)
    return used


def _charge(name: str, spec: PodSpec) -> int:
    if name in _PODS:
        return 1
    of = limits(spec) if name.startswith("limits.") else requests(spec)
    return dict(of).get(_unit(name), 0)


def _of_pods(name: str) -> bool:
    if name in _PODS or name in _COMPUTE:
        return True
    prefix, _, resource = name.partition(".")
    if prefix == "limits":
        return resource in _COMPUTE
    return prefix == "requests" and bool(resource) and resource != "storage"


def _unit(name: str) -> str:
    """The resource that a quota's name is about."""
    prefix, _, resource = name.partition(".")
    return resource if prefix in ("requests", "limits") else name
