"""Volcano's Job (`batch.volcano.sh/v1alpha1`), as far as its status is read.

Source: volcano-sh/apis, batch/v1alpha1/job.go.
"""

from muster.api.base import Int32, Resource, Struct


class TaskSpec(Struct, frozen=True):
    name: str = ""
    replicas: Int32 = 0


class JobSpec(Struct, frozen=True):
    scheduler_name: str = ""
    tasks: list[TaskSpec] = []


class TaskState(Struct, frozen=True):
    #: pods by their phase
    phase: dict[str, Int32] = {}


class JobState(Struct, frozen=True):
    #: Pending, Aborting, Aborted, Running, Restarting, Completing, Completed, Terminating, Terminated, Failed
    phase: str = ""
    message: str = ""


class JobStatus(Struct, frozen=True):
    state: JobState = JobState()
    task_status_count: dict[str, TaskState] = {}


class VolcanoJob(Resource, frozen=True):
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()
