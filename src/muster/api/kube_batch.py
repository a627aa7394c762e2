"""The PodGroups of kube-batch (`scheduling.incubator.k8s.io/v1alpha1`, `scheduling.sigs.dev/v1alpha2`).

Source: kubernetes-retired/kube-batch, pkg/apis/scheduling/v1alpha1/types.go and v1alpha2/types.go, and its
proposal of coscheduling, which has `minMembers`, `totalResources` and `status.admitted`.
"""

from typing import Final

from muster.api.base import Condition, Int32, Object, Resource, Struct
from muster.api.core_v1 import Quantities

#: Condition of a group that waited too long for its pods: quota is no longer held for its `totalResources`.
QUOTA_RELEASED: Final = "QuotaReleased"


class PodGroupSpec(Struct, frozen=True):
    min_member: Int32 = 0
    #: the proposal's spelling
    min_members: Int32 = 0
    queue: str = ""
    priority_class_name: str = ""
    min_resources: Quantities = {}
    total_resources: Quantities = {}
    #: the proposal's life-cycle policy, whose form it leaves open
    policy: Object | None = None


class PodGroupStatus(Struct, frozen=True):
    #: "", Pending, Inqueue, Running, Unknown
    phase: str = ""
    admitted: Int32 = 0
    running: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    conditions: list[Condition] = []


class PodGroup(Resource, frozen=True):
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()
