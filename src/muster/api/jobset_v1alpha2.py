"""JobSet (`jobset.x-k8s.io/v1alpha2`), and the labels and annotations of its Jobs and pods.

Source: kubernetes-sigs/jobset, api/jobset/v1alpha2/jobset_types.go.
"""

from typing import Final

import msgspec

from muster.api.base import Condition, Int32, Object, Resource, Struct

GROUP: Final = "jobset.sigs.k8s.io"
JOBSET_NAME: Final = f"{GROUP}/jobset-name"
JOBSET_UID: Final = f"{GROUP}/jobset-uid"
REPLICATED_JOB_NAME: Final = f"{GROUP}/replicatedjob-name"
REPLICATED_JOB_REPLICAS: Final = f"{GROUP}/replicatedjob-replicas"
GLOBAL_REPLICAS: Final = f"{GROUP}/global-replicas"
JOB_INDEX: Final = f"{GROUP}/job-index"
JOB_GLOBAL_INDEX: Final = f"{GROUP}/job-global-index"
JOB_KEY: Final = f"{GROUP}/job-key"
RESTART_ATTEMPT: Final = f"{GROUP}/restart-attempt"
JOB_RESTART_ATTEMPT: Final = f"{GROUP}/job-restart-attempt"
GROUP_NAME: Final = f"{GROUP}/group-name"
GROUP_REPLICAS: Final = f"{GROUP}/group-replicas"
JOB_GROUP_INDEX: Final = f"{GROUP}/job-group-index"
COORDINATOR: Final = f"{GROUP}/coordinator"
EXCLUSIVE_TOPOLOGY: Final = f"alpha.{GROUP}/exclusive-topology"
#: Value of `spec.managedBy` that means muster; the upstream controller uses the same value.
CONTROLLER: Final = f"{GROUP}/jobset-controller"


class DependsOn(Struct, frozen=True):
    name: str
    status: str  # Ready, Complete


class ReplicatedJob(Struct, frozen=True):
    name: str
    group_name: str = "default"
    replicas: Int32 = 1
    depends_on: list[DependsOn] = []
    #: JobTemplateSpec as JSON: {metadata, spec}
    template: Object = {}


class Network(Struct, frozen=True):
    enable_dns_hostnames: bool | None = msgspec.field(name="enableDNSHostnames", default=None)
    subdomain: str = ""
    publish_not_ready_addresses: bool | None = None


class SuccessPolicy(Struct, frozen=True):
    operator: str = "All"
    target_replicated_jobs: list[str] = []


class FailurePolicyRule(Struct, frozen=True):
    name: str = ""
    action: str = ""
    on_job_failure_reasons: list[str] = []
    on_job_failure_message_patterns: list[str] = []
    target_replicated_jobs: list[str] = []


class FailurePolicy(Struct, frozen=True):
    max_restarts: Int32 = 0
    restart_strategy: str = "Recreate"
    rules: list[FailurePolicyRule] = []


class StartupPolicy(Struct, frozen=True):
    startup_policy_order: str = "AnyOrder"


class Coordinator(Struct, frozen=True):
    replicated_job: str
    job_index: Int32 = 0
    pod_index: Int32 = 0


class JobSetSpec(Struct, frozen=True):
    replicated_jobs: list[ReplicatedJob] = []
    network: Network = Network()
    success_policy: SuccessPolicy = SuccessPolicy()
    failure_policy: FailurePolicy | None = None
    startup_policy: StartupPolicy = StartupPolicy()
    suspend: bool = False
    coordinator: Coordinator | None = None
    managed_by: str = ""
    ttl_seconds_after_finished: Int32 | None = None
    #: how its pods are scheduled together (KEP-969)
    scheduling: Object | None = None
    volume_claim_policies: list[Object] = []

    @property
    def in_order(self) -> bool:
        """Whether each replicatedJob starts once the one before it is ready."""
        return self.startup_policy.startup_policy_order == "InOrder"

    @property
    def staged(self) -> bool:
        """Whether the replicatedJobs start in an order, so that each is a gang of its own."""
        return self.in_order or any(replicated.depends_on for replicated in self.replicated_jobs)


class ReplicatedJobStatus(Struct, frozen=True):
    name: str
    ready: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    active: Int32 = 0
    suspended: Int32 = 0
    job_restarts: list[Int32] = []
    job_restarts_count_towards_max: list[Int32] = []


class JobSetStatus(Struct, frozen=True):
    conditions: list[Condition] = []
    restarts: Int32 = 0
    restarts_count_towards_max: Int32 = 0
    terminal_state: str = ""  # Completed, Failed
    replicated_jobs_status: list[ReplicatedJobStatus] = []


class JobSet(Resource, frozen=True):
    spec: JobSetSpec = JobSetSpec()
    status: JobSetStatus = JobSetStatus()
