"""Group objects of other schedulers, and priority classes.

PodGroup exists in two groups with one shape: scheduler-plugins' `scheduling.x-k8s.io/v1alpha1` and
Koordinator's `scheduling.sigs.k8s.io/v1alpha1`.
"""

from datetime import datetime
from typing import Final

from muster.api.base import LabelSelector, Resource, Struct
from muster.api.core_v1 import Quantities

#: Pod label that names the PodGroup, per API group of the PodGroup.
POD_GROUP_LABEL: Final = {
    "scheduling.x-k8s.io": "scheduling.x-k8s.io/pod-group",
    "scheduling.sigs.k8s.io": "pod-group.scheduling.sigs.k8s.io",
}


class PodGroupSpec(Struct, frozen=True):
    min_member: int = 0
    min_resources: Quantities = {}
    schedule_timeout_seconds: int | None = None


class PodGroupStatus(Struct, frozen=True):
    phase: str = ""
    occupied_by: str = ""
    scheduled: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    schedule_start_time: datetime | None = None


class PodGroup(Resource, frozen=True):
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class PriorityClass(Resource, frozen=True):
    value: int = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"


class PodDisruptionBudgetSpec(Struct, frozen=True):
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    #: None selects no pod, an empty one all of the namespace
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Struct, frozen=True):
    disruptions_allowed: int = 0
    #: 0: nobody keeps the status up to date
    observed_generation: int = 0


class PodDisruptionBudget(Resource, frozen=True):
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class LeaseSpec(Struct, frozen=True):
    holder_identity: str = ""
    lease_duration_seconds: int = 0
    lease_transitions: int = 0
    acquire_time: datetime | None = None
    renew_time: datetime | None = None


class Lease(Resource, frozen=True):
    spec: LeaseSpec = LeaseSpec()
