"""Kubernetes' own gangs, `scheduling.k8s.io`: PodGroups, and the Workloads that they are made from.

v1alpha3 has the same fields in these two kinds. Source: kubernetes/api, scheduling/v1beta1/types.go;
KEP-4671, KEP-5710 (priority, disruption), KEP-5732 (topology).
"""

from typing import Final

from muster.api.base import Condition, Int32, Object, Resource, Struct

#: Conditions of a PodGroup. The first stays True once it is: later losses do not change it.
INITIALLY_SCHEDULED: Final = "PodGroupInitiallyScheduled"
DISRUPTION_TARGET: Final = "DisruptionTarget"
#: Their reasons.
SCHEDULED: Final = "Scheduled"
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"
PREEMPTED: Final = "PreemptionByScheduler"


class GangPolicy(Struct, frozen=True):
    min_count: Int32 = 0


class SchedulingPolicy(Struct, frozen=True):
    """Exactly one is set, and it stays the same one."""

    #: the pods are no gang
    basic: Object | None = None
    gang: GangPolicy | None = None


class TopologyConstraint(Struct, frozen=True):
    #: a node label: all pods run on nodes with one value of it
    key: str = ""


class SchedulingConstraints(Struct, frozen=True):
    topology: list[TopologyConstraint] = []


class DisruptionMode(Struct, frozen=True):
    """One at most; `single` is the default."""

    single: Object | None = None
    all: Object | None = None


class ResourceClaim(Struct, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class WorkloadReference(Struct, frozen=True):
    workload_name: str = ""
    template_name: str = ""


class GroupRules(Struct, frozen=True):
    """What PodGroups and the templates for them have in common."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    resource_claims: list[ResourceClaim] = []
    disruption_mode: DisruptionMode | None = None
    priority_class_name: str = ""
    priority: Int32 | None = None
    preemption_policy: str | None = None


class PodGroupSpec(GroupRules, frozen=True):
    parent_composite_pod_group_name: str | None = None
    workload_ref: WorkloadReference | None = None


class PodGroupStatus(Struct, frozen=True):
    conditions: list[Condition] = []


class PodGroup(Resource, frozen=True):
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class PodGroupTemplate(GroupRules, frozen=True):
    name: str = ""


class ControllerReference(Struct, frozen=True):
    api_group: str = ""
    kind: str = ""
    name: str = ""


class WorkloadSpec(Struct, frozen=True):
    controller_ref: ControllerReference | None = None
    pod_group_templates: list[PodGroupTemplate] = []
    composite_pod_group_templates: list[Object] = []


class Workload(Resource, frozen=True):
    spec: WorkloadSpec = WorkloadSpec()


class JobScheduling(Struct, frozen=True):
    """`spec.scheduling` of a Job (KEP-5547), of which its controller makes a Workload. No minimum: all."""

    scheduling_policy: SchedulingPolicy | None = None
    scheduling_constraints: SchedulingConstraints | None = None
    resource_claims: list[ResourceClaim] = []
    disruption_mode: DisruptionMode | None = None
