"""Jobs as users see them: one row each, whatever objects they consist of.

A job is a JobSet, a Job that no JobSet owns, a PodGroup (or a group that pods name although its object does
not exist), or a bare pod. A JobSet whose pods are in a PodGroup of its own name is one job with this
PodGroup. Everything here is derived from objects in the API server; no state is kept.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Final, TypeVar

import msgspec

from muster.api import kinds
from muster.api.base import Condition, Kind, ObjectMeta, Resource, condition, controller_of, mark
from muster.api.batch_v1 import CONTROLLER as JOB_CONTROLLER
from muster.api.batch_v1 import Job, JobSpec
from muster.api.core_v1 import Pod
from muster.api.jobset_v1alpha2 import CONTROLLER as JOBSET_CONTROLLER
from muster.api.jobset_v1alpha2 import JobSet
from muster.api.membership import pod_groups
from muster.api.muster_v1alpha1 import Gang
from muster.api.scheduling import PodGroup
from muster.app.views.pods import failed
from muster.core.words.gang import Code
from muster.kube.client import Client
from muster.kube.listing import list_all
from muster.names import ADMISSION, PRIORITY, QUEUE

R = TypeVar("R", bound=Resource)

_CODES: Final = frozenset(code.value for code in Code)


class State(Enum):
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
    #: when the job was deleted; None while it exists
    deleted: datetime | None = None

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
        return mark(self.resource.metadata, QUEUE) or "default"

    @property
    def priority(self) -> int:
        """The priority of the job's first gang; else its annotation's, else the highest of its pods."""
        if self.gangs:
            return self.gangs[0].spec.priority
        said = mark(self.resource.metadata, PRIORITY)
        if said and said.lstrip("-").isdecimal() and len(said) < 12:
            return int(said)
        return max((pod.spec.priority or 0 for pod in self.pods), default=0)


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects that views are derived from."""

    jobsets: Sequence[JobSet] = ()
    jobs: Sequence[Job] = ()
    pod_groups: Sequence[tuple[Kind[PodGroup], PodGroup]] = ()
    pods: Sequence[Pod] = ()
    gangs: Sequence[Gang] = ()


async def fetch(client: Client, namespace: str = "") -> Objects:
    """All objects that make up jobs, listed at nearly the same time."""

    async def listed(kind: Kind[R]) -> list[R]:
        return (await list_all(client, kind, namespace, missing_ok=True)).items

    jobsets, jobs, x, sigs, pods, gangs = await asyncio.gather(
        listed(kinds.JOBSET),
        listed(kinds.JOB),
        listed(kinds.POD_GROUP_X),
        listed(kinds.POD_GROUP_SIGS),
        listed(kinds.POD),
        listed(kinds.GANG),
    )
    groups = [(kinds.POD_GROUP_X, group) for group in x]
    groups += [(kinds.POD_GROUP_SIGS, group) for group in sigs]
    return Objects(jobsets, jobs, groups, pods, gangs)


def views(objects: Objects) -> list[JobView]:
    """One view per job, oldest first."""
    pods_of: dict[str, list[Pod]] = defaultdict(list)  # by uid of the controller, or group label
    alone = []
    for pod in objects.pods:
        controller = controller_of(pod)
        group = _group_of(pod)
        if controller:
            pods_of[controller.uid].append(pod)
        elif group:
            pods_of[group].append(pod)
        else:
            alone.append(pod)
    jobs_of: dict[str, list[Job]] = defaultdict(list)
    sets = {jobset.metadata.uid for jobset in objects.jobsets}
    for job in objects.jobs:
        controller = controller_of(job)
        part = controller and (controller.uid in sets or controller.kind == kinds.JOBSET.kind)
        jobs_of[controller.uid if controller and part else ""].append(job)  # a CronJob's is no part
    gangs_of: dict[str, list[Gang]] = defaultdict(list)
    for gang in objects.gangs:
        gangs_of[gang.spec.source.uid].append(gang)
        for group in {pod_set.group for pod_set in gang.spec.pod_sets} - {"", gang.spec.source.name}:
            name = group if "/" in group else f"{gang.metadata.namespace}/{group}"
            gangs_of[f"{gang.spec.source.api_version.partition('/')[0]}/{name}"].append(gang)

    uids = {_group_key(kind, group): group.metadata.uid for kind, group in objects.pod_groups}
    of_jobsets: set[str] = set()
    found: list[JobView] = []
    for jobset in objects.jobsets:
        sources = [jobset.metadata.uid]
        if (key := _group_of_jobset(jobset)) in uids:
            of_jobsets.add(key)
            sources.append(uids[key])
        gangs = [gang for uid in sources for gang in gangs_of[uid]]
        found.append(_jobset(jobset, jobs_of[jobset.metadata.uid], pods_of, gangs))
    found += [_job(job, pods_of[job.metadata.uid], gangs_of[job.metadata.uid]) for job in jobs_of[""]]
    found += [
        _pod_group(
            kind,
            group,
            pods_of[_group_key(kind, group)],
            gangs_of[group.metadata.uid] or gangs_of[_group_key(kind, group)],
        )
        for kind, group in objects.pod_groups
        if _group_key(kind, group) not in of_jobsets
    ]
    found += _absent_groups(objects, pods_of, gangs_of)
    found += [_pod(pod) for pod in alone]
    return sorted(found, key=by_age)


def by_age(view: JobView) -> tuple[bool, datetime | None, str, str]:
    """Sort key: the oldest first, jobs of unknown age last."""
    return view.created is None, view.created, view.namespace, view.name


def alone(kind: Kind[Any], resource: Any) -> JobView:  # Any: of any kind that makes a job
    """The view of a job of which no other object is known."""
    match kind:
        case kinds.JOBSET:
            objects = Objects(jobsets=[resource])
        case kinds.JOB:
            objects = Objects(jobs=[resource])
        case kinds.POD:
            objects = Objects(pods=[resource])
        case _:
            objects = Objects(pod_groups=[(kind, resource)])
    (view,) = views(objects)
    return view


def _jobset(
    jobset: JobSet, jobs: Iterable[Job], pods_of: dict[str, list[Pod]], gangs: Sequence[Gang]
) -> JobView:
    pods = tuple(pod for job in jobs for pod in pods_of[job.metadata.uid])
    wanted = 0
    for replicated in jobset.spec.replicated_jobs:
        spec = msgspec.convert(replicated.template.get("spec", {}), JobSpec)
        wanted += replicated.replicas * (
            spec.completions if spec.completions is not None else spec.parallelism
        )
    status = jobset.status
    done = sum(job.status.succeeded for job in jobs)
    failures = sum(job.status.failed for job in jobs)
    ended = condition(status.conditions, "Completed") or condition(status.conditions, "Failed")
    return _view(
        kinds.JOBSET,
        jobset,
        suspended=jobset.spec.suspend,
        wanted=wanted,
        done=done,
        failures=failures,
        pods=pods,
        gangs=gangs,
        restarts=status.restarts + sum(sum(each.job_restarts) for each in status.replicated_jobs_status),
        ended=ended,
        success="Completed",
        managed_by=_other(jobset.spec.managed_by, JOBSET_CONTROLLER),
    )


def _job(job: Job, pods: Sequence[Pod], gangs: Sequence[Gang]) -> JobView:
    ended = condition(job.status.conditions, "Complete") or condition(job.status.conditions, "Failed")
    spec = job.spec
    return _view(
        kinds.JOB,
        job,
        suspended=spec.suspend,
        wanted=spec.completions if spec.completions is not None else spec.parallelism,
        done=job.status.succeeded,
        failures=job.status.failed,
        pods=tuple(pods),
        gangs=gangs,
        restarts=0,
        ended=ended,
        success="Complete",
        managed_by=_other(spec.managed_by, JOB_CONTROLLER),
    )


def _view(
    kind: Kind[Any],
    resource: Resource,
    *,
    suspended: bool,
    wanted: int,
    done: int,
    failures: int,
    pods: tuple[Pod, ...],
    gangs: Sequence[Gang],
    restarts: int,
    ended: Condition | None,
    success: str,
    managed_by: str,
) -> JobView:
    """The view of a JobSet or a Job."""
    phases = Counter(pod.status.phase for pod in pods if not pod.metadata.deletion_timestamp)
    reason = _reason(pods, gangs)
    if ended is not None and ended.status == "True":
        state = State.SUCCEEDED if ended.type == success else State.FAILED
        reason = (ended.reason, ended.message) if state is State.FAILED else None
    elif suspended and mark(resource.metadata, ADMISSION) != "gang":
        state, reason = State.SUSPENDED, ("Gated", "suspended by its owner (spec.suspend)")
    else:
        state = _live_state(pods, phases)
        if managed_by and not (pods and reason):
            reason = ("Gated", f"left to another controller (spec.managedBy: {managed_by})")
    return JobView(
        kind,
        resource,
        state,
        wanted,
        phases["Running"],
        done,
        max(failures, sum(map(failed, pods))),  # the status of a job that has ended stops counting
        restarts,
        reason,
        ended.last_transition_time if ended else None,
        tuple(gangs),
        pods,
        managed_by,
    )


def _other(managed_by: str, ours: str) -> str:
    """The controller that manages the job instead of the default one; "" if none does."""
    return "" if managed_by == ours else managed_by


def _pod_group(kind: Kind[PodGroup], group: PodGroup, pods: Sequence[Pod], gangs: Sequence[Gang]) -> JobView:
    phases = Counter(pod.status.phase for pod in pods)
    wanted = max(len(pods), group.spec.min_member)
    if pods and phases["Succeeded"] + phases["Failed"] == len(pods):
        state = State.FAILED if phases["Failed"] else State.SUCCEEDED
    else:
        state = _live_state(pods, phases)
    return JobView(
        kind,
        group,
        state,
        wanted,
        phases["Running"],
        phases["Succeeded"],
        phases["Failed"],
        reason=None if state.finished else _reason(pods, gangs),
        finished=_last_end(pods) if state.finished else None,
        gangs=tuple(gangs),
        pods=tuple(pods),
    )


def _absent_groups(
    objects: Objects, pods_of: dict[str, list[Pod]], gangs_of: dict[str, list[Gang]]
) -> Iterator[JobView]:
    """The views of PodGroups that pods name and that do not exist. Terminating pods do not count."""
    there = {_group_key(kind, group) for kind, group in objects.pod_groups}
    for kind in (kinds.POD_GROUP_X, kinds.POD_GROUP_SIGS):
        gangs = {
            f"{kind.group}/{gang.metadata.namespace}/{gang.spec.source.name}": gang
            for gang in objects.gangs
            if (gang.spec.source.api_version, gang.spec.source.kind) == (kind.api_version, kind.kind)
        }
        for key, named in pods_of.items():
            pods = [pod for pod in named if not pod.metadata.deletion_timestamp]
            if not key.startswith(f"{kind.group}/") or key in there or not pods:
                continue
            _, namespace, name = key.split("/")
            created = min((t for pod in pods if (t := pod.metadata.creation_timestamp)), default=None)
            meta = ObjectMeta(name=name, namespace=namespace, creation_timestamp=created)
            found = [gangs[key]] if key in gangs else gangs_of[key]
            yield _pod_group(kind, PodGroup(metadata=meta), pods, found)


def _pod(pod: Pod) -> JobView:
    phases = Counter([pod.status.phase])
    state = {"Succeeded": State.SUCCEEDED, "Failed": State.FAILED}.get(pod.status.phase) or _live_state(
        [pod], phases
    )
    if state is not State.FAILED:
        reason = _reason([pod], ())
    else:  # the pod itself says nothing about containers that failed
        reason = (pod.status.reason, pod.status.message) if pod.status.reason else None
    return JobView(
        kinds.POD,
        pod,
        state,
        1,
        phases["Running"],
        phases["Succeeded"],
        phases["Failed"],
        restarts=sum(status.restart_count for status in pod.status.container_statuses),
        reason=reason,
        finished=_last_end([pod]) if state.finished else None,
        pods=(pod,),
    )


def _live_state(pods: Sequence[Pod], phases: Counter[str]) -> State:
    """The state of a job that has not ended.

    A job whose next pod has not started yet is running: only first pods count as STARTING.
    """
    bound = [pod for pod in pods if pod.spec.node_name]
    if phases["Running"] or any(pod.terminal for pod in bound):
        return State.RUNNING
    return State.STARTING if bound else State.WAITING


def _reason(pods: Iterable[Pod], gangs: Sequence[Gang]) -> tuple[str, str] | None:
    """Why the first waiting gang waits; for independent pods, the reason that most of them share."""
    for gang in gangs:
        if gang.status.reason and gang.status.reason.code:
            return gang.status.reason.code, gang.status.reason.message
    reasons: Counter[tuple[str, str]] = Counter()
    for pod in pods:
        scheduled = condition(pod.status.conditions, "PodScheduled")
        if not pod.spec.node_name and scheduled is not None and scheduled.status == "False":
            reasons[_said(scheduled)] += 1
        elif (held := _held_back(pod)) is not None:
            reasons[held] += 1
    if not reasons:
        return None
    (code, message), count = max(reasons.items(), key=lambda item: (item[1], item[0]))
    total = sum(reasons.values())
    return code, message if total == 1 else f"{count} of {total} waiting pods: {message}"


def _said(scheduled: Condition) -> tuple[str, str]:
    """The reason: muster's own code if the message begins with one, else Kubernetes' single code."""
    code, _, message = scheduled.message.partition(": ")
    return (code, message) if code in _CODES else (scheduled.reason, scheduled.message)


def _held_back(pod: Pod) -> tuple[str, str] | None:
    """Why a container of a bound pod has not started, or does not restart."""
    for status in [*pod.status.init_container_statuses, *pod.status.container_statuses]:
        waiting = status.state.waiting
        if waiting is not None and waiting.message:
            last = status.last_state.terminated
            return waiting.reason, ": ".join(filter(None, [waiting.message, last.message if last else ""]))
    return None


def _group_of(pod: Pod) -> str | None:
    meta = pod.metadata
    groups = (f"{group}/{meta.namespace}/{name}" for group, name in pod_groups(meta.labels, meta.annotations))
    return next(groups, None)


def _group_of_jobset(jobset: JobSet) -> str:
    """The PodGroup of the JobSet's own name, if it is that of its pods; else ""."""
    meta = jobset.metadata
    for replicated in jobset.spec.replicated_jobs:
        template = (replicated.template.get("spec") or {}).get("template") or {}
        labels = (template.get("metadata") or {}).get("labels") or {}
        for group, name in pod_groups(labels, {}):
            if name == meta.name:
                return f"{group}/{meta.namespace}/{name}"
    return ""


def _group_key(kind: Kind[PodGroup], group: PodGroup) -> str:
    return f"{kind.group}/{group.key}"


def _last_end(pods: Iterable[Pod]) -> datetime | None:
    ends = [
        status.state.terminated.finished_at
        for pod in pods
        for status in pod.status.container_statuses
        if status.state.terminated and status.state.terminated.finished_at
    ]
    return max(ends, default=None)
