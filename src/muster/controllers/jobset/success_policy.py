"""Decides when a JobSet has succeeded: all of its Jobs, or any one, or those of some replicatedJobs.

Jobs are counted, not pods. Source: kubernetes-sigs/jobset, pkg/controllers/success_policy.go. With
`muster.dev/on-job-failure: continue`, a Job that fails ends no other, and counts as one that has ended. If
nothing at all has succeeded in the end, not even an index, the JobSet has failed.
"""

from muster import names
from muster.api.jobset_v1alpha2 import JobSet
from muster.api.marks import ON_JOB_FAILURE
from muster.controllers.jobset.attempts import Jobs, group_of


def continues(jobset: JobSet) -> bool:
    """Whether a Job that fails ends no other."""
    return ON_JOB_FAILURE.get(jobset.metadata) == "continue"


def is_met(jobset: JobSet, jobs: Jobs) -> bool:
    spec = jobset.spec
    policy = spec.success_policy
    targets = policy.target_replicated_jobs or [replicated.name for replicated in spec.replicated_jobs]
    succeeded = sum(group_of(job) in targets for job in jobs.successful)
    if policy.operator == "Any":
        return succeeded > 0
    ended = succeeded
    if jobs.failed and continues(jobset):
        if not (jobs.successful or any(job.status.succeeded for job in jobs.failed)):
            return False
        ended += sum(group_of(job) in targets for job in jobs.failed)
    return ended >= sum(
        replicated.replicas for replicated in spec.replicated_jobs if replicated.name in targets
    )


def all_ended(jobset: JobSet, jobs: Jobs) -> bool:
    """Whether no Job is left that could still succeed, where failures end no other Job."""
    return (
        bool(jobs.failed)
        and continues(jobset)
        and len(jobs.failed) + len(jobs.successful)
        >= sum(each.replicas for each in jobset.spec.replicated_jobs)
    )


def message(jobs: Jobs) -> str:
    if not jobs.failed:
        return "all jobs completed"
    number = "1 job" if len(jobs.failed) == 1 else f"{len(jobs.failed)} jobs"
    return f"all jobs ended; {number} failed, which {names.ON_JOB_FAILURE} permits"
