"""The batch group: Jobs, and the labels and annotations of their pods."""

from typing import Final

from muster.api.base import (
    Condition,
    Int32,
    Int64,
    LabelSelector,
    Object,
    ObjectMeta,
    Resource,
    Struct,
    Time,
    condition,
)

JOB_NAME: Final = "batch.kubernetes.io/job-name"
CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
#: Names from before Kubernetes 1.27; every pod of a Job still has them.
LEGACY_JOB_NAME: Final = "job-name"
LEGACY_CONTROLLER_UID: Final = "controller-uid"
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
#: Keeps a finished pod until the Job has counted it.
TRACKING_FINALIZER: Final = "batch.kubernetes.io/job-tracking"
INDEX_FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED_FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
#: Value of `spec.managedBy` that means the built-in controller, as an absent value does.
CONTROLLER: Final = "kubernetes.io/job-controller"


class OnExitCodes(Struct, frozen=True):
    operator: str  # In, NotIn
    values: list[Int32] = []
    container_name: str | None = None


class OnPodCondition(Struct, frozen=True):
    type: str
    status: str = "True"


class PodFailurePolicyRule(Struct, frozen=True):
    action: str  # FailJob, FailIndex, Ignore, Count
    on_exit_codes: OnExitCodes | None = None
    on_pod_conditions: list[OnPodCondition] = []


class PodFailurePolicy(Struct, frozen=True):
    rules: list[PodFailurePolicyRule] = []


class SuccessPolicyRule(Struct, frozen=True):
    succeeded_indexes: str | None = None
    succeeded_count: Int32 | None = None


class SuccessPolicy(Struct, frozen=True):
    rules: list[SuccessPolicyRule] = []


class JobSpec(Struct, frozen=True):
    parallelism: Int32 = 1
    completions: Int32 | None = None
    completion_mode: str = "NonIndexed"
    backoff_limit: Int32 = 6
    backoff_limit_per_index: Int32 | None = None
    max_failed_indexes: Int32 | None = None
    active_deadline_seconds: Int64 | None = None
    ttl_seconds_after_finished: Int32 | None = None
    suspend: bool = False
    pod_failure_policy: PodFailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    pod_replacement_policy: str = ""
    manual_selector: bool = False
    selector: LabelSelector | None = None
    managed_by: str = ""
    #: how its pods are scheduled together (KEP-5547)
    scheduling: Object | None = None
    template: Object = {}

    @property
    def places(self) -> int:
        """How many pods run at a time."""
        return max(0, min(self.parallelism, self.pods))

    @property
    def pods(self) -> int:
        """How many pods run in total, wave after wave."""
        return self.parallelism if self.completions is None else self.completions


class UncountedTerminatedPods(Struct, frozen=True):
    succeeded: list[str] = []
    failed: list[str] = []


class JobStatus(Struct, frozen=True):
    conditions: list[Condition] = []
    start_time: Time | None = None
    completion_time: Time | None = None
    active: Int32 = 0
    ready: Int32 = 0
    terminating: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    completed_indexes: str = ""
    failed_indexes: str = ""
    uncounted_terminated_pods: UncountedTerminatedPods = UncountedTerminatedPods()

    @property
    def failure(self) -> Condition | None:
        """The condition with the reason of the failure: `FailureTarget`, which `Failed` repeats later."""
        for type_ in ("FailureTarget", "Failed"):
            found = condition(self.conditions, type_)
            if found is not None and found.status == "True":
                return found
        return None


class Job(Resource, frozen=True):
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class JobTemplate(Struct, frozen=True):
    """`metadata` and `spec` of Jobs to create; `spec` stays JSON (read it as `JobSpec`)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Object = {}


class CronJobSpec(Struct, frozen=True):
    schedule: str = ""
    #: a name of the tz database; "" = UTC
    time_zone: str = ""
    starting_deadline_seconds: Int64 | None = None
    concurrency_policy: str = "Allow"
    suspend: bool = False
    job_template: JobTemplate = JobTemplate()
    successful_jobs_history_limit: Int32 = 3
    failed_jobs_history_limit: Int32 = 1


class CronJobStatus(Struct, frozen=True):
    active: list[Object] = []
    last_schedule_time: Time | None = None
    last_successful_time: Time | None = None


class CronJob(Resource, frozen=True):
    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()
