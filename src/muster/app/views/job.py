"""A job as users see it: its state, its counts, and what is read from these."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Final

from muster.api import kinds, times
from muster.api.base import AnyKind, Kind, Resource, condition
from muster.api.core_v1 import Pod
from muster.api.failures import Verdict
from muster.api.marks import PRIORITY
from muster.api.muster_v1alpha1 import GPU_HEALTHY, PROGRESSING, BatchJob, BatchJobFinding, Gang
from muster.api.named_queue import DEFAULT_QUEUE, stated_queue
from muster.names import MOVED

#: Characters of the reason for a move: its author may write the annotation, too.
_LONGEST: Final = 1_000
#: Conditions of a Gang that say so if they are False.
_ANOMALIES: Final = (PROGRESSING, GPU_HEALTHY)


class State(Enum):
    #: makes a job at each time of its schedule
    SCHEDULED = "scheduled"
    #: a BatchJob of which nothing is created, because of what it says or because no policy permits it
    DENIED = "denied"
    WAITING = "waiting"
    SUSPENDED = "suspended"
    STARTING = "starting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    #: deleted before it finished
    CANCELLED = "cancelled"

    @property
    def finished(self) -> bool:
        return self in (State.SUCCEEDED, State.FAILED, State.CANCELLED)


@dataclass(frozen=True, slots=True)
class JobView:
    kind: Kind[Any]  # Any: a job may be of several kinds
    resource: Resource
    state: State
    #: pods over the whole job, all waves
    wanted: int
    running: int
    succeeded: int
    #: pods that failed in the current attempt: those of earlier attempts are counted by `restarts`
    failed: int
    restarts: int = 0
    #: why the job failed, or why it waits: (code, message)
    reason: tuple[str, str] | None = None
    finished: datetime | None = None
    #: the job's gangs; empty if its pods are independent
    gangs: tuple[Gang, ...] = ()
    pods: tuple[Pod, ...] = field(default=(), repr=False)
    #: the other controller that manages the job (spec.managedBy)
    managed_by: str = ""
    #: what bears the job's marks, if it is not the job: the PodGroups of all its pods, and of no others
    marked: tuple[tuple[AnyKind, Resource], ...] = ()
    #: when the job was deleted; None while it exists
    deleted: datetime | None = None
    #: whether the failure of a pod can be what the job failed of: not if it exceeded its time
    by_pods: bool = True
    #: a Job of it has failed, or is about to: its status also counts the pods that are stopped with it
    failing: bool = False
    #: which pod failed first, of those that are known (`muster.app.views.failures`)
    verdict: Verdict | None = None
    #: the completion indexes that have failed for good, `3, 10-12`, each Job's after its name in a JobSet
    failed_indexes: str = ""

    @property
    def which(self) -> tuple[str, str, str, str]:
        """What tells it from all other jobs. A PodGroup that only pods name has no uid."""
        return self.kind.kind, self.namespace, self.name, self.resource.metadata.uid

    @property
    def bearers(self) -> list[Resource]:
        """The objects that have the job's marks."""
        return [each for _, each in self.marked] or [self.resource]

    @property
    def name(self) -> str:
        return self.resource.metadata.name

    @property
    def namespace(self) -> str:
        return self.resource.metadata.namespace

    @property
    def created(self) -> datetime | None:
        return self.resource.metadata.creation_timestamp

    @property
    def queue(self) -> str:
        if self.gangs:
            return self.gangs[0].spec.queue
        named = self.resource.spec.get("queue") if isinstance(self.resource, BatchJob) else None
        if isinstance(named, str) and named:
            return named
        metas = [self.resource.metadata, *(pod.metadata for pod in self.pods[:1])]
        return next(filter(None, map(stated_queue, metas)), DEFAULT_QUEUE)

    @property
    def anomalies(self) -> list[tuple[str, str]]:
        """What is wrong with the job though it runs: (code, message), as its gangs' conditions say."""
        found = (condition(gang.status.conditions, each) for each in _ANOMALIES for gang in self.gangs)
        return [(each.reason, each.message) for each in found if each is not None and each.status == "False"]

    @property
    def moved(self) -> tuple[datetime, str] | None:
        """When muster has moved the job to other nodes last, and why; None if it has not."""
        at, _, why = self.resource.metadata.annotations.get(MOVED, "").partition(" ")
        try:
            return times.read(at), why[:_LONGEST]
        except ValueError:
            return None

    @property
    def needs_cluster(self) -> bool:
        """Whether muster still has work to do for the job.

        A BatchJob without a run is no such job: it may wait for a permit, or for its schedule, for ever.
        """
        return not (self.state.finished or self.managed_by) and self.kind is not kinds.BATCH_JOB

    @property
    def findings(self) -> Sequence[BatchJobFinding]:
        """What keeps a BatchJob from being created."""
        return self.resource.status.findings if isinstance(self.resource, BatchJob) else ()

    @property
    def priority(self) -> int:
        """The priority of the job's first gang; else its annotation's, else the highest of its pods."""
        if self.gangs:
            return self.gangs[0].spec.priority
        said = PRIORITY.get(self.resource.metadata)
        if isinstance(said, int):
            return said
        return max((pod.spec.priority or 0 for pod in self.pods), default=0)
