"""Creates missing Jobs, and suspends or resumes existing ones, in the requested order.

`InOrder` proceeds from one replicatedJob to the next when all its Jobs are ready or done; `dependsOn` names
others to wait for. A suspended JobSet has all its Jobs, suspended, except those that wait for others.
"""

import re
from typing import Final

from muster.api.base import Object, involved
from muster.api.batch_v1 import Job
from muster.api.jobset_v1alpha2 import DependsOn, JobSet, ReplicatedJob, ReplicatedJobStatus
from muster.api.kinds import JOB, JOBSET, SERVICE
from muster.controllers.jobset import construction
from muster.controllers.jobset.attempts import Jobs, group_of, index_of
from muster.controllers.jobset.observation import Observed
from muster.controllers.jobset.status import STARTED, STARTING, Draft
from muster.effects import Create, Effect, Patch, warned

_IN_ORDER = "InOrderStartupPolicy"
#: Labels that the Job's own server adds to its template.
_OF_KUBERNETES: Final = re.compile(r"batch\.kubernetes\.io/|controller-uid$|job-name$")


def service(observed: Observed) -> list[Effect]:
    """Creates the Service if it is missing. One of the same name counts as what the user wants."""
    jobset = observed.jobset
    if observed.service is not None or not construction.has_dns(jobset):
        return []
    refused = warned(involved(jobset, JOBSET), "HeadlessServiceCreationFailed", "the service was refused")
    return [Create(SERVICE, jobset.metadata.namespace, construction.service(jobset), refused)]


def start(jobset: JobSet, jobs: Jobs, draft: Draft) -> list[Effect]:
    """Returns the effects that create Jobs and, unless the JobSet is suspended, resume them."""
    suspended = jobset.spec.suspend
    in_order = jobset.spec.in_order
    effects: list[Effect] = []
    for replicated in jobset.spec.replicated_jobs:
        if not all(_is_met(dependency, draft) for dependency in replicated.depends_on):
            continue
        effects += _missing(jobset, replicated, jobs)
        if suspended:
            continue
        effects += _resumed(jobset, replicated, jobs)
        if in_order and not has_started(draft.groups[replicated.name], replicated):
            draft.set_false(STARTED, f"{_IN_ORDER}InProgress", "jobs are starting in order")
            draft.set_true(STARTING, f"{_IN_ORDER}InProgress", "jobs are starting in order")
            return effects
    if in_order and not suspended:
        draft.set_false(STARTING, f"{_IN_ORDER}Completed", "all jobs have started")
        draft.set_true(STARTED, f"{_IN_ORDER}Completed", "all jobs have started")
    return effects


def suspend(jobs: Jobs) -> list[Effect]:
    return [
        Patch(JOB, job.metadata.namespace, job.metadata.name, _conditional(job, {"suspend": True}))
        for job in jobs.active
        if not job.spec.suspend
    ]


def expire(jobset: JobSet, jobs: Jobs) -> list[Effect]:
    """Gives the Jobs of a JobSet that has ended the time to live that their templates state."""
    templates = {one.name: one.template.get("spec") or {} for one in jobset.spec.replicated_jobs}
    effects: list[Effect] = []
    for job in (*jobs.successful, *jobs.failed):
        seconds = templates.get(group_of(job), {}).get("ttlSecondsAfterFinished")
        if seconds is not None and job.spec.ttl_seconds_after_finished is None:
            spec = _conditional(job, {"ttlSecondsAfterFinished": seconds})
            effects.append(Patch(JOB, job.metadata.namespace, job.metadata.name, spec))
    return effects


def has_started(group: ReplicatedJobStatus, replicated: ReplicatedJob) -> bool:
    return group.failed + group.ready + group.succeeded >= replicated.replicas


def _is_met(dependency: DependsOn, draft: Draft) -> bool:
    group = draft.groups.get(dependency.name)
    replicated = next((r for r in draft.jobset.spec.replicated_jobs if r.name == dependency.name), None)
    if group is None or replicated is None:
        return False  # admission refuses it; without admission the Job waits for ever, as upstream
    if dependency.status == "Complete":
        return group.succeeded >= replicated.replicas
    return has_started(group, replicated)


def _missing(jobset: JobSet, replicated: ReplicatedJob, jobs: Jobs) -> list[Effect]:
    """Creates the Jobs that are missing.

    `reconcile` deletes a stale Job of the same name just before, which frees the name. If something keeps the
    stale Job, the create fails on the existing name and the next reconcile retries.
    """
    policy = jobset.spec.failure_policy
    if jobs.previous and policy is not None and policy.restart_strategy == "BlockingRecreate":
        return []
    held = {job.metadata.name for job in jobs.previous if job.metadata.deletion_timestamp is not None}
    there = {index_of(job) for job in jobs.current if group_of(job) == replicated.name}
    effects: list[Effect] = []
    for index in range(replicated.replicas):
        name = construction.job_name(jobset, replicated, index)
        if index not in there and name not in held:
            refused = warned(involved(jobset, JOBSET), "JobCreationFailed", f"job {name} was refused")
            body = construction.job(jobset, replicated, index)
            effects.append(Create(JOB, jobset.metadata.namespace, body, refused))
    return effects


def _resumed(jobset: JobSet, replicated: ReplicatedJob, jobs: Jobs) -> list[Effect]:
    """Resumes Jobs.

    What admission has meanwhile changed in the JobSet's template (node selectors, tolerations, labels, gates)
    is written to the Job first, which a server allows only without a start time.
    """
    effects: list[Effect] = []
    for job in jobs.active:
        if not job.spec.suspend or group_of(job) != replicated.name:
            continue
        namespace, name = job.metadata.namespace, job.metadata.name
        spec: Object = {"suspend": False}
        wanted = construction.job(jobset, replicated, index_of(job))["spec"]["template"]
        changes = _directives(job.spec.template, wanted)
        if changes:
            spec["template"] = changes
            if job.status.start_time is not None:
                effects.append(Patch(JOB, namespace, name, {"status": {"startTime": None}}, "status"))
        effects.append(Patch(JOB, namespace, name, _conditional(job, spec)))
    return effects


def _directives(have: Object, wanted: Object) -> Object:
    """Returns a merge patch that makes what may change while suspended equal to `wanted`.

    What an earlier admission wrote, and this one did not, is removed: a selector that stays behind would
    keep the pods where the earlier admission wanted them. Labels by which Kubernetes finds the pods stay.
    """
    changes: Object = {}
    for part, fields in (
        ("metadata", ("labels", "annotations")),
        ("spec", ("nodeSelector", "tolerations", "schedulingGates")),
    ):
        old, new = have.get(part) or {}, wanted.get(part) or {}
        for field in fields:
            was, becomes = old.get(field) or {}, new.get(field) or {}
            if was == becomes:
                continue
            if isinstance(was or becomes, dict):
                gone = [key for key in was if key not in becomes and not _OF_KUBERNETES.match(key)]
                differing = {key: value for key, value in becomes.items() if was.get(key) != value}
                if change := {**dict.fromkeys(gone), **differing}:
                    changes.setdefault(part, {})[field] = change
            else:
                changes.setdefault(part, {})[field] = becomes or None
    return changes


def _conditional(job: Job, spec: Object) -> Object:
    """Makes a patch apply only to this very Job, not to a successor of its name."""
    return {"metadata": {"uid": job.metadata.uid}, "spec": spec}
