"""PodGroups of other schedulers, priority classes, disruption budgets and leases.

PodGroup exists in two API groups with one schema: scheduler-plugins' and Koordinator's (`api/groups`).
"""

from collections.abc import Iterable
from typing import Final

from muster.api.base import Int32, Int64, LabelSelector, Resource, Struct, Time
from muster.api.core_v1 import Quantities
from muster.api.natural import natural

#: Prefix of the classes of Kubernetes' own components, which every cluster has.
_SYSTEM: Final = "system-"


class PodGroupSpec(Struct, frozen=True):
    min_member: Int32 = 0
    min_resources: Quantities = {}
    schedule_timeout_seconds: Int32 | None = None


class PodGroupStatus(Struct, frozen=True):
    phase: str = ""
    occupied_by: str = ""
    scheduled: Int32 = 0
    running: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    schedule_start_time: Time | None = None


class PodGroup(Resource, frozen=True):
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class PriorityClass(Resource, frozen=True):
    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"


def above(classes: Iterable[PriorityClass], priority: int) -> list[str]:
    """Returns the names of the classes that can preempt this priority, the lowest first."""
    found = (
        (each.value, each.metadata.name)
        for each in classes
        if each.value > priority
        and each.preemption_policy != "Never"
        and not each.metadata.name.startswith(_SYSTEM)
    )
    return [name for _, name in sorted(found)]


class PodDisruptionBudgetSpec(Struct, frozen=True):
    min_available: Int32 | str | None = None
    max_unavailable: Int32 | str | None = None
    #: None selects no pod, an empty selector all pods of the namespace
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Struct, frozen=True):
    disruptions_allowed: Int32 = 0
    #: 0: no controller keeps the status up to date
    observed_generation: Int64 = 0


class PodDisruptionBudget(Resource, frozen=True):
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


def healthy_required(spec: PodDisruptionBudgetSpec, total: int) -> int:
    """Returns how many of the `total` pods that a budget selects must stay healthy. Raises ValueError.

    A percentage is of `total`, rounded up. Source: kubernetes, pkg/controller/disruption/disruption.go.
    """
    if spec.max_unavailable is not None:
        return max(total - _amount(spec.max_unavailable, total), 0)
    return _amount(1 if spec.min_available is None else spec.min_available, total)


def _amount(value: int | str, total: int) -> int:
    if isinstance(value, int):
        return value
    percentage = natural(value.removesuffix("%")) if value.endswith("%") else None
    if percentage is None:
        raise ValueError(f"{value!r} is neither a number nor a percentage")
    return -(-percentage * total // 100)


class LeaseSpec(Struct, frozen=True):
    holder_identity: str = ""
    lease_duration_seconds: Int32 = 0
    lease_transitions: Int32 = 0
    acquire_time: Time | None = None
    renew_time: Time | None = None


class Lease(Resource, frozen=True):
    spec: LeaseSpec = LeaseSpec()
