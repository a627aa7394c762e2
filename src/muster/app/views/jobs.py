"""Finds the jobs of users among the objects, whatever objects a job consists of.

A job is a JobSet, a Job that no JobSet owns, a Job of Volcano, a PodGroup (or a group that pods name although
its object does not exist), a bare pod, or a BatchJob that controls none of these: it is denied, it has not
started or has ended, or it has a schedule. A JobSet or a Job is one job with the PodGroup that its controller
has made of it, and with the one that its pods name, if no others do (`parts_of_jobs`). Everything here is
derived from objects in the API server; no state is kept.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec

from muster.api import groups, kinds
from muster.api.base import AnyKind, Condition, Kind, ObjectMeta, Resource, condition, is_true, mark
from muster.api.batch_v1 import CONTROLLER as JOB_CONTROLLER
from muster.api.batch_v1 import Job, JobSpec
from muster.api.core_v1 import Pod
from muster.api.failures import WHOLE_SECONDS
from muster.api.jobset_v1alpha2 import CONTROLLER as JOBSET_CONTROLLER
from muster.api.jobset_v1alpha2 import REPLICATED_JOB_NAME, JobSet
from muster.api.muster_v1alpha1 import BatchJob, Gang
from muster.api.times import LAST
from muster.api.volcano_v1alpha1 import ENDED, VolcanoJob
from muster.app.views.failures import judged
from muster.app.views.job import JobView, State
from muster.app.views.objects import (
    GroupName,
    Identity,
    Objects,
    controlled_by,
    group_name,
    group_of,
    identity,
    parts_of_jobs,
    source_name,
)
from muster.app.views.pods import failed, restarts_of, statuses
from muster.app.views.waiting import waits_for
from muster.names import ADMISSION, PREEMPTED

#: The reason of a Job or JobSet that has exceeded its time.
DEADLINE_EXCEEDED: Final = "DeadlineExceeded"

R = TypeVar("R", bound=Resource)


def views(objects: Objects) -> list[JobView]:
    """One view per job, oldest first."""
    pods_of: dict[Identity, list[Pod]] = defaultdict(list)
    members: dict[GroupName, list[Pod]] = defaultdict(list)
    found: list[JobView] = []
    for pod in objects.pods:
        by, named = controlled_by(pod), group_of(pod)
        if by is not None:
            pods_of[by].append(pod)
        if named is not None:
            members[named].append(pod)
        if by is None and named is None:
            found.append(_pod(pod))
    jobs_of: dict[Identity | None, list[Job]] = defaultdict(list)
    within: dict[Identity, Identity] = {}  # the JobSets of Jobs
    for job in objects.jobs:
        by = controlled_by(job)  # a CronJob's is no part of it; that of a JobSet is, even if it is deleted
        if by is not None and (by.group, by.kind) == (kinds.JOBSET.group, kinds.JOBSET.kind):
            within[identity(kinds.JOB, job)] = by
        jobs_of[within.get(identity(kinds.JOB, job))].append(job)
    gangs_of: dict[str | GroupName, list[Gang]] = defaultdict(list)  # by uid of the source
    for gang in objects.gangs:
        gangs_of[gang.spec.source.uid].append(gang)
        for source in sources(gang)[1:]:
            gangs_of[source].append(gang)

    described: dict[GroupName, tuple[AnyKind, Resource]] = {}  # of several of one name the first counts
    for kind, group in objects.pod_groups:
        described.setdefault(group_name(kind, group), (kind, group))
    uids = {name: group.metadata.uid for name, (_, group) in described.items()}
    parts = parts_of_jobs(objects, {name: group for name, (_, group) in described.items()}, members, within)

    def gangs_with(this: Identity) -> list[Gang]:
        return [
            *gangs_of[this.uid],
            *(gang for group in parts.get(this, ()) for gang in gangs_of[uids[group]]),
        ]

    for jobset in objects.jobsets:
        this = identity(kinds.JOBSET, jobset)
        pods = [pod for job in jobs_of[this] for pod in pods_of[identity(kinds.JOB, job)]]
        found.append(_jobset(jobset, jobs_of[this], pods, gangs_with(this)))
    for job in jobs_of[None]:
        this = identity(kinds.JOB, job)
        found.append(_job(job, pods_of[this], gangs_with(this)))
    for vcjob in objects.volcano_jobs:
        this = identity(kinds.VOLCANO_JOB, vcjob)
        found.append(_volcano_job(vcjob, pods_of[this], gangs_with(this)))
    for number, view in enumerate(found):
        this = identity(view.kind, view.resource)
        if (of_it := parts.get(this)) and not gangs_of[this.uid]:
            found[number] = replace(view, marked=tuple(described[part] for part in of_it))
    job_of = {pod.metadata.uid: view for view in found for pod in view.pods} if members else {}
    of_jobs = {name for view in found for name in parts.get(identity(view.kind, view.resource), ())}
    for name, (kind, group) in described.items():
        if name not in of_jobs:
            gangs = gangs_of[group.metadata.uid] or gangs_of[name]
            found.append(_pod_group(kind, group, members[name], gangs, job_of))
    absent = {name: pods for name, pods in members.items() if name not in uids}
    found += _absent_groups(objects, absent, gangs_of)
    controlling = {controlled_by(view.resource) for view in found}
    found += [
        _batch_job(each) for each in objects.batch_jobs if identity(kinds.BATCH_JOB, each) not in controlling
    ]
    return sorted(found, key=by_age)


def by_age(view: JobView) -> tuple[bool, datetime | None, str, str]:
    """Sort key: the oldest first, jobs of unknown age last."""
    return view.created is None, view.created, view.namespace, view.name


def sources(gang: Gang) -> list[GroupName]:
    """The PodGroups that a Gang was read from: its source, then the others of its GangGroup."""
    found = [source_name(gang)]
    for named_by in {pod_set.group for pod_set in gang.spec.pod_sets} - {"", gang.spec.source.name}:
        namespace, slash, own = named_by.partition("/")
        where = (namespace, own) if slash else (gang.metadata.namespace, named_by)
        found.append(source_name(gang, *where))
    return found


def alone(kind: Kind[Any], resource: Any) -> JobView:  # Any: of any kind that makes a job
    """The view of a job of which no other object is known."""
    match kind:
        case kinds.JOBSET:
            objects = Objects(jobsets=[resource])
        case kinds.JOB:
            objects = Objects(jobs=[resource])
        case kinds.POD:
            objects = Objects(pods=[resource])
        case kinds.VOLCANO_JOB:
            objects = Objects(volcano_jobs=[resource])
        case _:
            objects = Objects(pod_groups=[(kind, resource)])
    (view,) = views(objects)
    return view


def _jobset(jobset: JobSet, jobs: Collection[Job], pods: Sequence[Pod], gangs: Sequence[Gang]) -> JobView:
    policy, status = jobset.spec.success_policy, jobset.status
    there = Counter(job.metadata.labels.get(REPLICATED_JOB_NAME, "") for job in jobs)
    completed = is_true(status.conditions, "Completed")
    wanted, done = 0, sum(job.status.succeeded for job in jobs)
    for replicated in jobset.spec.replicated_jobs:
        spec = msgspec.convert(replicated.template.get("spec", {}), JobSpec)
        wanted += replicated.replicas * spec.pods
        aimed = policy.target_replicated_jobs
        if completed and policy.operator == "All" and (not aimed or replicated.name in aimed):
            # Jobs of which nothing is left, because of their own ttlSecondsAfterFinished, had succeeded
            done += max(0, replicated.replicas - there[replicated.name]) * spec.pods
    ended = condition(status.conditions, "Completed") or condition(status.conditions, "Failed")
    failed_indexes = (
        f"{job.metadata.name.removeprefix(jobset.metadata.name + '-')}: {indexes}"
        for job in jobs
        if (indexes := _indexes(job))
    )
    return _view(
        kinds.JOBSET,
        jobset,
        suspended=jobset.spec.suspend,
        wanted=wanted,
        done=done,
        jobs=jobs,
        pods=tuple(pods),
        gangs=gangs,
        restarts=status.restarts + sum(sum(each.job_restarts) for each in status.replicated_jobs_status),
        ended=ended,
        success="Completed",
        managed_by=_other(jobset.spec.managed_by, JOBSET_CONTROLLER),
        failed_indexes="; ".join(failed_indexes),
    )


def _job(job: Job, pods: Sequence[Pod], gangs: Sequence[Gang]) -> JobView:
    ended = condition(job.status.conditions, "Complete") or condition(job.status.conditions, "Failed")
    spec = job.spec
    return _view(
        kinds.JOB,
        job,
        suspended=spec.suspend,
        wanted=spec.pods,
        done=job.status.succeeded,
        jobs=[job],
        pods=tuple(pods),
        gangs=gangs,
        restarts=0,
        ended=ended,
        success="Complete",
        managed_by=_other(spec.managed_by, JOB_CONTROLLER),
        failed_indexes=_indexes(job),
    )


def _volcano_job(job: VolcanoJob, pods: Sequence[Pod], gangs: Sequence[Gang]) -> JobView:
    status, state = job.status, job.status.state
    ended = None
    if state.phase in ENDED:
        reason, at = state.reason or state.phase, state.last_transition_time
        ended = Condition(state.phase, "True", reason, state.message, last_transition_time=at)
    view = _view(
        kinds.VOLCANO_JOB,
        job,
        suspended=False,
        wanted=sum(task.replicas for task in job.spec.tasks),
        done=status.succeeded,
        jobs=(),
        pods=tuple(pods),
        gangs=gangs,
        restarts=status.retry_count,
        ended=ended,
        success=ENDED[0],
        managed_by="",
        failed_indexes="",
    )
    return replace(view, failed=max(view.failed, status.failed))


def _indexes(job: Job) -> str:
    """The indexes of a Job that have failed for good, as people read them."""
    return job.status.failed_indexes.replace(",", ", ")


def _view(
    kind: Kind[Any],
    resource: Resource,
    *,
    suspended: bool,
    wanted: int,
    done: int,
    jobs: Collection[Job],
    pods: tuple[Pod, ...],
    gangs: Sequence[Gang],
    restarts: int,
    ended: Condition | None,
    success: str,
    managed_by: str,
    failed_indexes: str,
) -> JobView:
    """The view of a JobSet, with its Jobs, or of a Job."""
    failures = sum(job.status.failed for job in jobs)
    phases = Counter(pod.status.phase for pod in pods if not pod.metadata.deletion_timestamp)
    reason = waits_for(pods, gangs)
    if ended is not None and ended.status == "True":
        state = State.SUCCEEDED if ended.type == success else State.FAILED
        reason = (ended.reason, ended.message) if state is State.FAILED else None
    elif suspended and mark(resource.metadata, ADMISSION) != "gang":
        state, reason = State.SUSPENDED, ("Gated", "suspended by its owner (spec.suspend)")
    else:
        state = _live_state(pods, phases, gangs)
        if managed_by and not (pods and reason):
            reason = ("Gated", f"left to another controller (spec.managedBy: {managed_by})")
    view = JobView(
        kind,
        resource,
        state,
        wanted,
        phases["Running"],
        done,
        max(failures, sum(map(failed, pods))),
        restarts,
        reason,
        _end(ended, pods, done + failures) if ended else None,
        tuple(gangs),
        pods,
        managed_by,
        by_pods=not _is_late(jobs) and (ended is None or ended.reason != DEADLINE_EXCEEDED),
        failing=any(job.status.failure is not None for job in jobs),
        failed_indexes=failed_indexes,
    )
    return judged(view)


def _is_late(jobs: Iterable[Job]) -> bool:
    """Whether the first of these Jobs that failed did so because it exceeded its time."""
    ends = [
        (end.last_transition_time or LAST, end.reason)
        for job in jobs
        if (end := job.status.failure) is not None
    ]
    return min(ends, default=(LAST, ""))[1] == DEADLINE_EXCEEDED


def _end(ended: Condition, pods: Sequence[Pod], counted: int) -> datetime | None:
    """When a job ended: with its last container, if the pods that it has counted still exist.

    Its condition is as late as the controller that wrote it, which may have been down. A limit that is
    exceeded is the exception: it ends the job at a time of its own. Times of conditions are whole seconds.
    """
    last, written = _last_end(pods), ended.last_transition_time
    if last is None or written is None or ended.reason == DEADLINE_EXCEEDED:
        return written
    gone = sum(pod.terminal for pod in pods) < counted
    return written if gone or last - written >= WHOLE_SECONDS else last


def _other(managed_by: str, ours: str) -> str:
    """The controller that manages the job instead of the default one; "" if none does."""
    return "" if managed_by == ours else managed_by


def _pod_group(
    kind: AnyKind,
    group: Resource,
    pods: Sequence[Pod],
    gangs: Sequence[Gang],
    job_of: Mapping[str, JobView],
) -> JobView:
    """`job_of`: the job of each pod that one makes, by the pod's uid. Such a pod ends with its job."""
    states = {(job_of.get(pod.metadata.uid) or _pod(pod)).state for pod in pods}
    phases = Counter(pod.status.phase for pod in pods)
    asked = groups.BY_KIND[kind].asked
    wanted = max(len(pods), asked(group).minimum if asked is not None else 0)
    if states and all(each.finished for each in states):
        state = State.FAILED if State.FAILED in states else State.SUCCEEDED
    else:
        state = _live_state(pods, phases, gangs)
    view = JobView(
        kind,
        group,
        state,
        wanted,
        phases["Running"],
        phases["Succeeded"],
        sum(map(failed, pods)),
        reason=None if state.finished else waits_for(pods, gangs),
        finished=_last_end(pods) if state.finished else None,
        gangs=tuple(gangs),
        pods=tuple(pods),
    )
    return judged(view)


def _absent_groups(
    objects: Objects,
    named: Mapping[GroupName, Sequence[Pod]],
    gangs_of: Mapping[str | GroupName, Sequence[Gang]],
) -> Iterator[JobView]:
    """The views of PodGroups that pods name and that do not exist.

    Pods that terminate, or that something controls, do not count.
    """
    of_sources = {source_name(gang): gang for gang in objects.gangs}
    for kind in groups.OF_NAMED:
        for name, members in named.items():
            pods = [
                pod for pod in members if not pod.metadata.deletion_timestamp and controlled_by(pod) is None
            ]
            if name.group != kind.group or not pods:
                continue
            created = min((t for pod in pods if (t := pod.metadata.creation_timestamp)), default=None)
            meta = ObjectMeta(name=name.name, namespace=name.namespace, creation_timestamp=created)
            found = [of_sources[name]] if name in of_sources else gangs_of.get(name, ())
            yield _pod_group(kind, kind.type(metadata=meta), pods, found, {})


def _pod(pod: Pod) -> JobView:
    phases = Counter([pod.status.phase])
    state = {"Succeeded": State.SUCCEEDED, "Failed": State.FAILED}.get(pod.status.phase) or _live_state(
        [pod], phases
    )
    if state is not State.FAILED:
        reason = waits_for([pod], ())
    else:  # the pod itself says nothing about containers that failed
        reason = (pod.status.reason, pod.status.message) if pod.status.reason else None
    view = JobView(
        kinds.POD,
        pod,
        state,
        1,
        phases["Running"],
        phases["Succeeded"],
        phases["Failed"],
        restarts=restarts_of(pod),
        reason=reason,
        finished=_last_end([pod]) if state.finished else None,
        pods=(pod,),
    )
    return judged(view)


def _batch_job(job: BatchJob) -> JobView:
    """The view of a BatchJob of whose run nothing else is known, from its status."""
    status, message = job.status, job.status.message
    reason: tuple[str, str] | None = None
    match status.phase:
        case "Succeeded":
            state = State.SUCCEEDED
        case "Failed":
            state, reason = State.FAILED, ("Failed", message)
        case phase if schedule := job.spec.get("schedule"):
            state, reason = State.SCHEDULED, ("Schedule", ": ".join(filter(None, [str(schedule), message])))
            if phase == "Pending":  # the schedule cannot be read
                state, reason = State.DENIED, ("Invalid", message)
            elif job.spec.get("suspend") is True:
                state, reason = State.SUSPENDED, ("Gated", "its schedule is suspended (spec.suspend)")
        case "Running":
            state = State.RUNNING
        case _ if status.findings:
            state, reason = State.DENIED, ("Denied", message)
        case _:
            state, reason = State.WAITING, ("Pending", message or "it has not been compiled yet")
    tasks = status.tasks
    return JobView(
        kinds.BATCH_JOB,
        job,
        state,
        sum(each.pods for each in tasks),
        sum(each.active for each in tasks),
        sum(each.succeeded for each in tasks),
        sum(each.failed for each in tasks),
        reason=reason,
        finished=status.completion_time if state.finished else None,
    )


def _live_state(pods: Sequence[Pod], phases: Counter[str], gangs: Sequence[Gang] = ()) -> State:
    """The state of a job that has not ended.

    A job whose next pod has not started yet is running: only first pods count as STARTING. A pod that muster
    itself ended is no such pod, and a job whose gangs all wait again is waiting: it starts as a new one does.
    """
    bound = [pod for pod in pods if pod.spec.node_name and not is_true(pod.status.conditions, PREEMPTED)]
    if phases["Running"]:
        return State.RUNNING
    if any(pod.terminal for pod in bound):
        waits = gangs and all(gang.status.phase == "Waiting" and gang.status.reason for gang in gangs)
        return State.WAITING if waits else State.RUNNING
    return State.STARTING if bound else State.WAITING


def _last_end(pods: Iterable[Pod]) -> datetime | None:
    ends = [
        status.state.terminated.finished_at
        for pod in pods
        for status in statuses(pod)
        if status.state.terminated and status.state.terminated.finished_at
    ]
    return max(ends, default=None)
