"""muster's own kinds (`muster.dev/v1alpha1`), of which Gang, GangPlan and Preemption are records.

Only the committer writes `Gang.spec`, `plan` and `status.{phase, reason, bound, epoch, attempt}`. The gang
controller writes the other counts and the conditions. The status of a Gang is not a subresource, so that one
write can change spec and status together. A GangPlan is created and deleted, never
patched.
"""

from typing import Final

from muster.api.base import Condition, Int32, Int64, Object, Resource, Struct, Time
from muster.api.core_v1 import Quantities

#: Conditions of a Gang that are False if something is wrong with a gang that runs: with the GPUs of its
#: nodes, and with what its ranks report (as of a Deployment that advances within its deadline).
GPU_HEALTHY: Final = "GpuHealthy"
PROGRESSING: Final = "Progressing"


class Source(Struct, frozen=True):
    """The group object (a JobSet, for instance) that a gang was read from."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""


class GangPodSet(Struct, frozen=True):
    name: str
    group: str = ""
    count: Int32 = 0
    min_count: Int32 = 0


class GangSpec(Struct, frozen=True):
    queue: str = "default"
    priority: Int32 = 0
    min_count: Int32 = 0
    pod_sets: list[GangPodSet] = []
    source: Source = Source()
    #: `namespace/name` of the Lease of the scheduler that the gang belongs to; "" = there is only one
    lease: str = ""


class Reason(Struct, frozen=True):
    code: str = ""
    message: str = ""


class GangStatus(Struct, frozen=True):
    phase: str = ""  # Waiting, Nominated, Starting, Standing, Finished, Degraded
    reason: Reason | None = None
    #: the whole explanation (docs/reference/names.md), as JSON
    explanation: Object | None = None
    expected_start: Time | None = None
    #: the parts of the group object that muster does not take as they are written
    warnings: list[str] = []
    bound: Int32 = 0
    running: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    #: when the gang controller wrote its counts
    counted: Time | None = None
    epoch: Int64 = 0
    attempt: Int64 = 0
    preemptions: list[Object] = []
    conditions: list[Condition] = []

    def __post_init__(self) -> None:
        """Accepts preemptions in the form of earlier versions of muster, without the unit."""
        for entry in self.preemptions:
            if "workLost" in entry:
                entry["lostResourceSeconds"] = entry.pop("workLost")


class OpenPlan(Struct, frozen=True):
    """An open plan: what muster has decided to do, and has not finished."""

    epoch: Int64 = 0
    attempt: Int64 = 0
    #: zlib-compressed, base64-encoded JSON; see `muster.runtime.plan_record`
    blob: str = ""


class Gang(Resource, frozen=True):
    """Pods that start together or not at all, and why they wait; written by muster only."""

    spec: GangSpec = GangSpec()
    #: a plan that is small enough not to need a GangPlan
    plan: OpenPlan | None = None
    status: GangStatus = GangStatus()


class GangPlanSpec(OpenPlan, frozen=True):
    gang: str = ""
    #: as in `GangSpec`
    lease: str = ""


class GangPlan(Resource, frozen=True):
    """The start of a gang that is being carried out; written by muster only."""

    spec: GangPlanSpec = GangPlanSpec()


class PreemptionSpec(Struct, frozen=True):
    """One eviction for another gang: an entry of the victim's `status.preemptions`, and the victim."""

    gang: str = ""
    #: kind and name of the group object, such as `JobSet train`
    job: str = ""
    queue: str = ""
    by: str = ""
    at: Time | None = None
    #: preemption or reclaim
    kind: str = ""
    #: how many of the gang's surplus pods; None = all of it
    pods: Int32 | None = None
    lost_resource_seconds: float = 0.0
    #: decimal numbers; "" = the gang has no GPUs, or no price is known
    gpu_hours_lost: str = ""
    cost_lost: str = ""


class Preemption(Resource, frozen=True):
    """The record of one eviction, which outlives the job; only muster writes it."""

    spec: PreemptionSpec = PreemptionSpec()


class QueueAllow(Struct, frozen=True):
    """The namespaces and users that may use a queue; an empty list allows all."""

    namespaces: list[str] = []
    users: list[str] = []


class QueueSpec(Struct, frozen=True):
    """The rules of a queue (docs/concepts/queues.md)."""

    parent: str = "root"
    weight: Int32 = 1
    guarantee: Quantities = {}
    deserved: Quantities | None = None
    capability: Quantities = {}
    order: str = "priority"  # or fifo, fair
    reclaimable: bool = True
    #: `muster.dev/preemptible` and minimum run times count for what it borrows, too
    protect_borrowed: bool = False
    closed: bool = False
    allow: QueueAllow = QueueAllow()
    max_gangs: Int32 | None = None
    #: the highest priority that its gangs can have; None: what PriorityClasses allow
    max_priority: Int32 | None = None
    #: the highest topology layer that its gangs may have exclusively; "" = any below the cluster
    max_exclusive_layer: str = ""


class QueueStatus(Struct, frozen=True):
    """The queue's status as of the last scheduling cycle; only the scheduler writes it."""

    used: Quantities = {}
    entitled: Quantities = {}
    borrowed: Quantities = {}
    waiting: Int32 = 0
    standing: Int32 = 0
    #: Ready: False, with the reason, while the queue contradicts itself or another queue
    conditions: list[Condition] = []


class Queue(Resource, frozen=True):
    """A share of the cluster, and the order in which its gangs start."""

    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()


class BatchJobFinding(Struct, frozen=True):
    """What keeps a BatchJob from being compiled, or a warning: the field, what is wrong, and what to add."""

    field: str = ""
    message: str = ""
    #: a patch for the job, or a policy for the administrator
    fix: str = ""


class BatchJobImage(Struct, frozen=True):
    #: as the job names it
    image: str = ""
    digest: str = ""


class BatchJobTask(Struct, frozen=True):
    """Pods of a task."""

    name: str
    pods: Int32 = 0
    active: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    #: whether all its pods have succeeded
    completed: bool = False


class BatchJobPreemption(Struct, frozen=True):
    """The last eviction of the job: by which job, when, and what was lost, as decimal numbers."""

    by: str = ""
    at: Time | None = None
    gpu_hours_lost: str = ""
    cost_lost: str = ""


class BatchJobCosts(Struct, frozen=True):
    """What the parts of an hour cost, as decimal numbers; "" = nothing, or no price is known."""

    cpu: str = ""
    memory: str = ""
    gpu: str = ""


class BatchJobCost(Struct, frozen=True):
    """What an hour of the job costs while all its pods run, as decimal numbers."""

    hourly_cost: str = ""
    breakdown: BatchJobCosts = BatchJobCosts()


class BatchJobStatus(Struct, frozen=True):
    phase: str = ""  # Pending, Running, Succeeded, Failed
    message: str = ""
    observed_generation: Int64 = 0
    start_time: Time | None = None
    completion_time: Time | None = None
    tasks: list[BatchJobTask] = []
    findings: list[BatchJobFinding] = []
    #: findings that do not keep the job from running, such as denials that are only reported
    warnings: list[BatchJobFinding] = []
    #: absent without prices
    cost: BatchJobCost | None = None
    #: what preemption may cost the job
    risk: str = ""
    preemption: BatchJobPreemption | None = None
    #: ranks on nodes with unhealthy GPUs
    gpu_health: str = ""
    #: ranks whose reports break a rule of the job
    progress: str = ""
    #: images that have been looked up; a tag stays at its digest until the BatchJob changes
    images: list[BatchJobImage] = []


class BatchJob(Resource, frozen=True):
    """A job that is compiled to everything that it needs, if policies permit it."""

    #: read by `muster.workloads.batch`, which says what is wrong with it in the status
    spec: Object = {}
    status: BatchJobStatus = BatchJobStatus()


class LatticeJob(BatchJob, frozen=True):
    """A job in the import format of BatchJobs: muster keeps a BatchJob for it, which has its name."""


class CedarPolicySpec(Struct, frozen=True):
    #: one or more policies in Cedar
    policies: str = ""
    description: str = ""
    enabled: bool = True


class CedarPolicyStatus(Struct, frozen=True):
    phase: str = ""  # Valid, Invalid
    permit_count: Int32 = 0
    forbid_count: Int32 = 0
    validation_errors: list[str] = []


class CedarPolicy(Resource, frozen=True):
    """What BatchJobs may do, in Cedar. Without a policy that permits it, nothing is permitted."""

    spec: CedarPolicySpec = CedarPolicySpec()
    status: CedarPolicyStatus = CedarPolicyStatus()


class TrustMatch(Struct, frozen=True):
    #: globs of `registry/repository`, by segments of the path
    images: list[str] = []


class TrustPolicySpec(Struct, frozen=True):
    match: TrustMatch = TrustMatch()
    mode: str = "any"  # or all
    action: str = "enforce"  # or audit
    #: read by `muster.security.images.trust`, which says what is wrong with them in the status
    authorities: list[Object] = []


class TrustPolicyStatus(Struct, frozen=True):
    phase: str = ""  # Valid, Invalid
    validation_errors: list[str] = []


class TrustPolicy(Resource, frozen=True):
    """Says which images need a signature, and by which authorities."""

    spec: TrustPolicySpec = TrustPolicySpec()
    status: TrustPolicyStatus = TrustPolicyStatus()
