"""Decides when a JobSet has succeeded: all of its Jobs, or any one, or those of some replicatedJobs.

Jobs are counted, not pods. Source: kubernetes-sigs/jobset, pkg/controllers/success_policy.go.
"""

from muster.api.jobset_v1alpha2 import JobSetSpec
from muster.controllers.jobset.attempts import Jobs, group_of


def is_met(spec: JobSetSpec, jobs: Jobs) -> bool:
    policy = spec.success_policy
    targets = policy.target_replicated_jobs or [replicated.name for replicated in spec.replicated_jobs]
    succeeded = sum(group_of(job) in targets for job in jobs.successful)
    if policy.operator == "Any":
        return succeeded > 0
    return succeeded >= sum(
        replicated.replicas for replicated in spec.replicated_jobs if replicated.name in targets
    )
