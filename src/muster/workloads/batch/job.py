"""A batch job: tasks that run together, each of them a workload, and what is batch about them.

The schema is that of chapter 16's LatticeJob; muster's own kind is `BatchJob` of `muster.dev/v1alpha1`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from muster.compiler import Workload

RestartPolicy = Literal["Never", "OnFailure", "Always"]
EVENTS: Final = (
    "*",
    "PodFailed",
    "PodEvicted",
    "PodPending",
    "TaskCompleted",
    "TaskFailed",
    "JobUnknown",
    "Unknown",
    "OutOfSync",
    "CommandIssued",
)
ACTIONS: Final = (
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "AbortJob",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
)


@dataclass(frozen=True, slots=True)
class Policy:
    """What happens on an event."""

    event: str
    action: str


@dataclass(frozen=True, slots=True)
class Topology:
    hard: bool
    #: how many layers up the pods may spread; None = any
    max_tier: int | None = None


@dataclass(frozen=True, slots=True)
class Training:
    """A framework whose environment every pod gets."""

    framework: Literal["PyTorch", "DeepSpeed", "Jax"]
    coordinator: str = "master"
    nccl: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Schedule:
    """When runs of the job begin."""

    cron: str
    time_zone: str = ""
    concurrency: Literal["Allow", "Forbid", "Replace"] = "Allow"
    starting_deadline: int | None = None
    suspend: bool = False
    keep_successful: int = 3
    keep_failed: int = 1


@dataclass(frozen=True, slots=True)
class Task:
    name: str
    replicas: int
    restart_policy: RestartPolicy
    policies: Sequence[Policy]
    #: named `<job>-<task>`
    workload: Workload


@dataclass(frozen=True, slots=True)
class BatchJob:
    namespace: str
    name: str
    #: sorted by name
    tasks: Sequence[Task]
    queue: str = ""
    #: of target `volcano`; the other targets have theirs
    scheduler: str = "volcano"
    priority_class: str = ""
    #: pods that have to run for the job to run; None = all
    min_available: int | None = None
    #: restarts of the whole job; None = no limit given
    max_retry: int | None = None
    policies: Sequence[Policy] = ()
    topology: Topology | None = None
    training: Training | None = None
    schedule: Schedule | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def pods(self) -> int:
        """Pods of all tasks."""
        return sum(task.replicas for task in self.tasks)
