"""Volcano's PodGroup and Queue (`scheduling.volcano.sh/v1beta1`).

Source: volcano-sh/apis, scheduling/v1beta1/types.go and labels.go.
"""

from typing import Final

from muster.api.base import Condition, Int32, LabelSelector, Object, Resource, Struct
from muster.api.core_v1 import Quantities

#: The value of `spec.schedulerName` for which Volcano's controllers put pods into PodGroups.
SCHEDULER: Final = "volcano"
#: On pods, and on what controls them: the queue of a pod whose PodGroup does not exist yet.
QUEUE_NAME: Final = "scheduling.volcano.sh/queue-name"
#: Label or annotation of PodGroups and pods; "false": they are never preempted.
PREEMPTABLE: Final = "volcano.sh/preemptable"
#: Annotations by which a pod names its PodGroup; and the name of its task.
GROUP_NAME: Final = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
TASK: Final = "volcano.sh/task-spec"
#: Most tasks of a PodGroup.
MOST_TASKS: Final = 256


class NetworkTopology(Struct, frozen=True):
    mode: str = "hard"
    highest_tier_allowed: Int32 | None = None
    highest_tier_name: str = ""


class SubGroupPolicy(Struct, frozen=True):
    name: str = ""
    network_topology: NetworkTopology | None = None
    sub_group_size: Int32 = 1
    min_sub_groups: Int32 = 0
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] = []


class PodGroupSpec(Struct, frozen=True):
    min_member: Int32 = 0
    min_task_member: dict[str, Int32] = {}
    queue: str = ""
    priority_class_name: str = ""
    min_resources: Quantities = {}
    network_topology: NetworkTopology | None = None
    sub_group_policy: list[SubGroupPolicy] = []


class PodGroupStatus(Struct, frozen=True):
    #: "", Pending, Inqueue, Running, Unknown, Completed
    phase: str = ""
    running: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    conditions: list[Condition] = []


class PodGroup(Resource, frozen=True):
    """Its status is no subresource: who writes it writes the object."""

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class Guarantee(Struct, frozen=True):
    resource: Quantities = {}


class QueueSpec(Struct, frozen=True):
    weight: Int32 = 1
    capability: Quantities = {}
    deserved: Quantities | None = None
    guarantee: Guarantee = Guarantee()
    reclaimable: bool | None = None
    priority: Int32 = 0
    parent: str = ""
    type: str = ""
    dequeue_strategy: str = ""
    affinity: Object | None = None
    extend_clusters: list[Object] = []


class QueueStatus(Struct, frozen=True):
    #: Open, Closed, Closing, Unknown
    state: str = ""
    pending: Int32 = 0
    inqueue: Int32 = 0
    running: Int32 = 0
    unknown: Int32 = 0
    completed: Int32 = 0
    allocated: Quantities = {}


class Queue(Resource, frozen=True):
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()
