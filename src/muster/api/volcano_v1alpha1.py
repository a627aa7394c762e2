"""Volcano's Job (`batch.volcano.sh/v1alpha1`), and the labels and annotations of its pods.

Source: volcano-sh/apis, batch/v1alpha1/{job,labels}.go and bus/v1alpha1/{actions,events}.go.
"""

from typing import Final

from muster.api.base import Int32, Object, Resource, Struct, Time

#: Phases of a Job that has ended; only the first is a success.
ENDED: Final = ("Completed", "Failed", "Terminated", "Aborted")
#: Labels and annotations of its pods: its name, and that of their task (`volcano_v1beta1.TASK`).
JOB_NAME: Final = "volcano.sh/job-name"


class LifecyclePolicy(Struct, frozen=True):
    #: AbortJob, RestartJob, RestartTask, RestartPod, RestartPartition, TerminateJob, CompleteJob, ResumeJob
    action: str = ""
    #: *, PodPending, PodRunning, PodFailed, PodEvicted, Unknown, TaskCompleted, TaskFailed
    event: str = ""
    events: list[str] = []
    exit_code: Int32 | None = None
    timeout: str = ""


class DependsOn(Struct, frozen=True):
    #: tasks, of which all or any have to run
    name: list[str] = []
    iteration: str = ""


class TaskSpec(Struct, frozen=True):
    name: str = ""
    replicas: Int32 = 0
    min_available: Int32 | None = None
    #: {metadata, spec}
    template: Object = {}
    policies: list[LifecyclePolicy] = []
    topology_policy: str = ""
    max_retry: Int32 = 0
    depends_on: DependsOn | None = None
    partition_policy: Object | None = None


class Volume(Struct, frozen=True):
    """A PVC that all containers of all tasks mount."""

    mount_path: str = ""
    volume_claim_name: str = ""
    #: the spec of a PVC to create
    volume_claim: Object | None = None


class JobSpec(Struct, frozen=True):
    scheduler_name: str = ""
    min_available: Int32 = 0
    volumes: list[Volume] = []
    tasks: list[TaskSpec] = []
    policies: list[LifecyclePolicy] = []
    #: arguments by plugin
    plugins: dict[str, list[str]] = {}
    running_estimate: str = ""
    queue: str = ""
    max_retry: Int32 = 0
    ttl_seconds_after_finished: Int32 | None = None
    priority_class_name: str = ""
    min_success: Int32 | None = None
    network_topology: Object | None = None


class TaskState(Struct, frozen=True):
    #: pods by their phase
    phase: dict[str, Int32] = {}


class JobState(Struct, frozen=True):
    #: Pending, Aborting, Aborted, Running, Restarting, Completing, Completed, Terminating, Terminated, Failed
    phase: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: Time | None = None


class JobStatus(Struct, frozen=True):
    state: JobState = JobState()
    succeeded: Int32 = 0
    failed: Int32 = 0
    retry_count: Int32 = 0
    task_status_count: dict[str, TaskState] = {}


class VolcanoJob(Resource, frozen=True):
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()
