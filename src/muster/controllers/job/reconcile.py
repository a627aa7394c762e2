"""Reconciles a Job: decides from the Job and its pods what to write.

The order of the writes makes a crash after any of them harmless. The status is written first, conditional on
the state that was seen: it holds the finish, the new counts, and the uids of pods whose finalizer may be
removed next. Then follow finalizers, then deletions, then new pods. `muster.controllers.job.counts` explains
why no pod is counted twice or forgotten, `muster.controllers.job.pods` why no pod is created twice.

The behaviour is upstream's (Kubernetes 1.3x, KEP-2307 and its successors) except for two things. Pods
that muster itself ended are not failures (`failure_policy`), and a pod that was being deleted before it was
bound counts as ended (`pod_states`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from muster.api import kinds
from muster.api.base import Object, condition, involved, is_true
from muster.api.batch_v1 import TRACKING_FINALIZER, Job
from muster.api.core_v1 import Pod
from muster.api.scheduling_v1beta1 import PodGroup
from muster.api.times import after
from muster.controllers.job import finish, group, scale, status
from muster.controllers.job.counts import Counts, count
from muster.controllers.job.finish import Finish
from muster.controllers.job.pod_states import PodStates, is_ready, sort_pods
from muster.effects import Create, Delete, Effect, Patch, RecordEvent, Requeue, warned


@dataclass(frozen=True, slots=True)
class JobObserved:
    """A Job and the pods it controls; `orphans` belong to a Job of the same name that is gone."""

    job: Job | None
    pods: Sequence[Pod]
    orphans: Sequence[Pod] = ()
    #: the PodGroup of its pods, if it has been made (`group`)
    group: PodGroup | None = None


def reconcile(observed: JobObserved, now: datetime) -> list[Effect]:
    """Returns the writes, in this order. `now` is in UTC."""
    effects: list[Effect] = [*_release(observed.orphans)]
    job = observed.job
    if job is None:
        return effects
    if job.metadata.deletion_timestamp is not None:
        return [*effects, *_release(observed.pods)]
    if is_true(job.status.conditions, finish.COMPLETE) or is_true(job.status.conditions, finish.FAILED):
        return [*effects, *_after_the_end(job, observed.pods, now)]
    return [*effects, *group.ensure(job, observed.group), *_go_on(job, observed.pods, now)]


def _go_on(job: Job, pods: Sequence[Pod], now: datetime) -> list[Effect]:
    seen, job = job, _started(job, now)
    states = sort_pods(job, pods)
    counts = count(job, states)
    decided = finish.reach(job, states, counts, now)
    plan = _plan(job, states, counts, decided, now)

    leaving = len(plan.let_go) + len(plan.cut_short) + len(states.doomed)
    wanted = status.Wanted(
        active=_active(seen, job, plan),
        ready=sum(map(is_ready, plan.keep)),
        terminating=states.terminating + leaving,
        start_time=job.status.start_time,
        completion_time=None,
    )
    wanted.conditions += _suspended(seen, now)
    if decided is not None:
        counts.release += counts.awaiting  # no replacement will come
        wanted.conditions += _condition(job, decided.interim, decided, now)
        if counts.settled and not (wanted.active or wanted.terminating):
            wanted.conditions += _condition(job, decided.final, decided, now)
            if decided.success:
                wanted.completion_time = now

    effects: list[Effect] = []
    written = status.patch(seen, counts, wanted)
    if written is not None:
        effects += [written, *_events(seen, wanted.conditions)]
    effects += _release([*counts.release, *plan.let_go])
    effects += [_delete(pod) for pod in (*plan.let_go, *plan.cut_short, *states.doomed)]
    effects += [_create(job, body, len(plan.keep), wanted.active) for body in plan.start]
    again = [at for at in (plan.again, finish.deadline(job) if decided is None else None) if at is not None]
    if again:
        effects.append(Requeue(min(again)))
    return effects


def _started(job: Job, now: datetime) -> Job:
    """Returns the Job with its start time: that of the first start, or of the last resumption."""
    resumed = is_true(job.status.conditions, status.SUSPENDED)
    if job.spec.suspend or not (job.status.start_time is None or resumed):
        return job
    start = now.replace(microsecond=0)  # as it will read back
    return msgspec.structs.replace(job, status=msgspec.structs.replace(job.status, start_time=start))


@dataclass(frozen=True, slots=True)
class _Plan:
    keep: Sequence[Pod] = ()
    #: pods to delete without counting them
    let_go: Sequence[Pod] = ()
    #: pods to delete and to count by their outcome
    cut_short: Sequence[Pod] = ()
    start: Sequence[Object] = ()
    again: datetime | None = None


def _plan(job: Job, states: PodStates, counts: Counts, decided: Finish | None, now: datetime) -> _Plan:
    """Decides which active pods stay and which end, and which pods to start."""
    if decided is not None and decided.counts_pods:
        return _Plan(cut_short=states.active)
    if decided is not None or job.spec.suspend:
        return _Plan(let_go=states.active)
    scaled = scale.plan(job, states, counts, now)
    return _Plan(keep=scaled.keep, let_go=scaled.surplus, start=scaled.start, again=scaled.again)


def _after_the_end(job: Job, pods: Sequence[Pod], now: datetime) -> list[Effect]:
    """Handles a finished Job: nothing is counted any more, and its TTL runs."""
    effects: list[Effect] = [*_release(pods)]
    effects += [_delete(pod) for pod in pods if not pod.terminal and pod.metadata.deletion_timestamp is None]
    if job.spec.ttl_seconds_after_finished is None:
        return effects
    ended = condition(job.status.conditions, finish.COMPLETE) or condition(
        job.status.conditions, finish.FAILED
    )
    assert ended is not None, "the Job has finished"
    due = after(ended.last_transition_time or now, job.spec.ttl_seconds_after_finished)
    if now < due:
        return [*effects, Requeue(due)]
    meta = job.metadata
    return [*effects, Delete(kinds.JOB, meta.namespace, meta.name, meta.uid, "Foreground")]


def _release(pods: Iterable[Pod]) -> list[Effect]:
    """Removes the tracking finalizer. Conditional: a pod that has changed must be judged again."""
    return [
        Patch(
            kinds.POD,
            pod.metadata.namespace,
            pod.metadata.name,
            {
                "metadata": {
                    "uid": pod.metadata.uid,
                    "resourceVersion": pod.metadata.resource_version,
                    "finalizers": [name for name in pod.metadata.finalizers if name != TRACKING_FINALIZER],
                }
            },
        )
        for pod in pods
        if TRACKING_FINALIZER in pod.metadata.finalizers
    ]


def _delete(pod: Pod) -> Delete:
    return Delete(kinds.POD, pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)


def _active(seen: Job, job: Job, plan: _Plan) -> int:
    """Returns how many pods the status counts as active.

    Those to be created count at the start of the Job, and as replacements of others, which saves a write.
    Else they count once they exist: the API server may have refused them before, and may do so again.
    """
    there, soon = len(plan.keep), len(plan.keep) + len(plan.start)
    starts = job.status.start_time != seen.status.start_time
    return soon if starts else min(soon, max(there, seen.status.active))


def _create(job: Job, body: Object, there: int, counted: int) -> Create:
    """`there`: pods that exist; `counted`: as the status counts them, with some that are to be created."""
    warns = warned(involved(job, kinds.JOB), "FailedCreate", "Error creating pod")

    def refused(words: str) -> Sequence[Effect]:
        if counted == there:
            return warns(words)
        # those of this start that the server did create count once they are seen
        meta = job.metadata
        body = {"metadata": {"uid": meta.uid}, "status": {"active": there}}
        return [*warns(words), Patch(kinds.JOB, meta.namespace, meta.name, body, "status")]

    return Create(kinds.POD, job.metadata.namespace, body, refused)


def _suspended(job: Job, now: datetime) -> list[Object]:
    if job.spec.suspend:
        return status.set_condition(job, status.SUSPENDED, True, "JobSuspended", "Job suspended", now)
    return status.set_condition(job, status.SUSPENDED, False, "JobResumed", "Job resumed", now)


def _condition(job: Job, type_: str, decided: Finish, now: datetime) -> list[Object]:
    return status.set_condition(job, type_, True, decided.reason, decided.message, now)


def _events(job: Job, conditions: list[Object]) -> list[Effect]:
    """Yields upstream's events for changes of conditions; one per created pod would double the writes."""
    effects: list[Effect] = []
    for changed in conditions:
        match changed["type"], changed["status"]:
            case status.SUSPENDED, "True":
                effects.append(_record(job, "Suspended", "Job suspended", "Normal"))
            case status.SUSPENDED, _:
                effects.append(_record(job, "Resumed", "Job resumed", "Normal"))
            case finish.COMPLETE, _:
                effects.append(_record(job, "Completed", "Job completed", "Normal"))
            case finish.FAILED, _:
                effects.append(_record(job, changed["reason"], changed["message"]))
    return effects


def _record(job: Job, reason: str, message: str, type_: str = "Warning") -> RecordEvent:
    return RecordEvent(
        involved(job, kinds.JOB), "Normal" if type_ == "Normal" else "Warning", reason, message
    )
