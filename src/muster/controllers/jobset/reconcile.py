"""Reconciles a JobSet: decides from what is observed what to write.

The order matters: a failure is checked before a success, as in JobSet, and the counts of the status are
written before any step that depends on them. A restart therefore takes two reconciles: the first raises the
counter, the second replaces the Jobs that this made stale.
"""

from datetime import datetime

from muster import names
from muster.api.batch_v1 import Job
from muster.api.jobset_v1alpha2 import CONTROLLER, JobSet
from muster.api.kinds import JOB, JOBSET
from muster.api.marks import DEADLINE
from muster.api.rules.jobset import unsupported
from muster.api.times import after
from muster.controllers.jobset import attempts, failure_policy, limits, startup, success_policy
from muster.controllers.jobset.causes import cause, corrected, whole
from muster.controllers.jobset.observation import Observed
from muster.controllers.jobset.status import COMPLETED, FAILED, SUSPENDED, Draft
from muster.effects import Delete, Effect, Requeue


def reconcile(observed: Observed, now: datetime) -> list[Effect]:
    jobset = observed.jobset
    if jobset.metadata.deletion_timestamp is not None or jobset.spec.managed_by not in ("", CONTROLLER):
        return []
    draft = Draft(jobset, now)
    jobs = attempts.sort(observed.jobs, jobset)
    draft.count(jobs)

    # 1. A finished JobSet has nothing running, and is deleted when its TTL is over.
    if draft.is_true(COMPLETED) or draft.is_true(FAILED):
        ended = [*_deleted(jobs.active), *startup.expire(jobset, jobs)]
        draft.correct(FAILED, lambda message: corrected(message, observed.pods, jobset.status.restarts))
        return [*ended, *draft.effects(), *_expiry(draft, now)]

    # 2. A JobSet with an unsupported field fails as a whole.
    refused = unsupported(jobset)
    if refused:
        draft.fail("Unsupported", "; ".join(map(str, refused)))
        return draft.effects()

    # 3. Counts that outlive Jobs are written before a Job is deleted.
    bookkeeping = limits.bookkeeping(jobset, observed.jobs, observed.pods, now)
    if bookkeeping is not None:
        return [bookkeeping]

    # 4. Jobs of earlier attempts are deleted, which frees their names.
    effects: list[Effect] = [*_deleted(jobs.previous)]
    groups = [(draft.groups[replicated.name], replicated) for replicated in jobset.spec.replicated_jobs]
    if not jobs.failed and all(startup.has_started(group, replicated) for group, replicated in groups):
        draft.end_restart("JobsReady", "all jobs are ready")

    # 5. The JobSet ends, or starts what is still missing.
    due = limits.due(jobset)
    over = limits.over_budget(jobset)
    if over is not None:
        draft.fail("ReachedMaxRestarts", _over_budget(*over, observed, jobs))
    elif jobs.failed and not success_policy.continues(jobset):
        failure_policy.apply(
            jobset.spec.failure_policy,
            jobs.failed,
            lambda job: cause(job, jobs.current, observed.pods),
            draft,
        )
    elif success_policy.is_met(jobset, jobs):
        draft.complete(success_policy.message(jobs))
    elif success_policy.all_ended(jobset, jobs):
        draft.fail("FailedJobs", f"nothing succeeded: {cause(jobs.failed[0], jobs.current, observed.pods)}")
    elif due is not None and now >= due:
        draft.fail("DeadlineExceeded", _deadline(jobset))
    elif jobset.spec.suspend:
        # The condition is written first: a Job that fails later fails because of the suspension.
        draft.set_true(SUSPENDED, "SuspendedJobs", "jobs are suspended")
        draft.end_restart("JobSetSuspended", "the jobset is suspended")
        effects += [*startup.service(observed), *startup.start(jobset, jobs, draft)]
        return [*effects, *draft.effects(), *startup.suspend(jobs)]
    else:
        draft.set_false(SUSPENDED, "ResumeJobs", "jobs are resumed")
        effects += [*startup.service(observed), *startup.start(jobset, jobs, draft)]
        if due is not None:
            return [*effects, *draft.effects(), Requeue(due)]
    return [*effects, *draft.effects()]


def _deleted(jobs: list[Job]) -> list[Effect]:
    """Deletes Jobs in the background, so that their names are free at once whatever their pods do."""
    return [
        Delete(JOB, job.metadata.namespace, job.metadata.name, job.metadata.uid)
        for job in jobs
        if job.metadata.deletion_timestamp is None
    ]


def _expiry(draft: Draft, now: datetime) -> list[Effect]:
    """Deletes the JobSet `ttlSecondsAfterFinished` after its end."""
    jobset = draft.jobset
    seconds = jobset.spec.ttl_seconds_after_finished
    finished = next(c for c in draft.conditions if c.type in (COMPLETED, FAILED) and c.status == "True")
    if seconds is None or finished.last_transition_time is None:
        return []
    at = after(finished.last_transition_time, seconds)
    if now < at:
        return [Requeue(at)]
    meta = jobset.metadata
    return [Delete(JOBSET, meta.namespace, meta.name, meta.uid, "Foreground")]


def _over_budget(failures: int, budget: int, observed: Observed, jobs: attempts.Jobs) -> str:
    replicated = observed.jobset.spec.replicated_jobs
    of_jobs = [each.template.get("spec", {}).get("backoffLimit") for each in replicated]
    # A manifest has one number, the backoffLimit, which its JobSet says of each Job and of all together.
    limit = "backoffLimit" if all(each == budget for each in of_jobs) else names.RESTART_BUDGET
    said = "1 failure" if failures == 1 else f"{failures} failures"
    text = f"{said} over all jobs, {limit} allows {budget or 'none'}"
    failing = jobs.failed or [job for job in jobs.current if job.status.failed]
    return f"{text}: {whole(failing[0], jobs.current, observed.pods)}" if failing else text


def _deadline(jobset: JobSet) -> str:
    limit = DEADLINE.text(jobset.metadata)
    return f"the jobset ran for {limit} without finishing, which is all that {names.DEADLINE} allows"
