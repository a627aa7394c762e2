"""Counts each ended pod once, whatever crashes in between.

A pod's finalizer keeps the pod until the Job has counted it, in three steps of one write each:

1. the pod's uid is added to `status.uncountedTerminatedPods`,
2. the pod's finalizer is removed,
3. the uid leaves the list and the counter grows, in one write to the Job.

A crash after any step leaves what the next reconcile needs to continue: a listed pod that still has its
finalizer is at step 2, a listed pod without it (or gone) at step 3, and a pod with neither uid in the list
nor finalizer is done. So the Job's total is always counter + list + tracked pods not in the list,
each pod in exactly one of them. Successes of an index need no list: `status.completedIndexes` is the
counter, and adding an index twice changes nothing.

This relies on caches that never go back and show the controller's own writes (muster.controllers.driver):
then the absence of a listed pod means that it is gone. Source: KEP-2307, for indexes KEP-3850.

With `backoffLimitPerIndex`, only an index's pods record how often it has failed. There, a failed pod
is released only once its replacement is seen or none will be created.
"""

from dataclasses import dataclass, field

from muster.api.base import is_true
from muster.api.batch_v1 import Job
from muster.api.core_v1 import Pod
from muster.api.indexes import Indexes
from muster.controllers.job.failure_policy import Action
from muster.controllers.job.pod_states import PodStates, attempts_before, index_of

#: Bound of the list in the status: 500 uids are 20 KB. The remaining pods wait.
MOST_UNCOUNTED = 500


@dataclass(slots=True)
class Counts:
    #: how many pods are known to have succeeded and failed, counted or not yet
    succeeded: int
    failed: int
    completed: Indexes
    failed_indexes: Indexes
    #: counters and lists to write into the status
    counted_succeeded: int
    counted_failed: int
    uncounted_succeeded: list[str]
    uncounted_failed: list[str]
    #: pods that are at step 2 once the status is written
    release: list[Pod] = field(default_factory=list)
    #: ended pods whose finalizer must wait for their replacement
    awaiting: list[Pod] = field(default_factory=list)
    #: whether the list has no room yet for some ended pods
    crowded: bool = False
    #: how a pod failed the whole Job by the failure policy
    fail_job: str = ""

    @property
    def settled(self) -> bool:
        """Whether every ended pod is counted, so that only finalizers are left to remove."""
        return not (self.uncounted_succeeded or self.uncounted_failed or self.crowded)


def count(job: Job, states: PodStates) -> Counts:
    """Counts what has ended so far, and computes what to write into the status."""
    status, spec = job.status, job.spec
    indexed = spec.completion_mode == "Indexed"
    below = spec.completions if indexed else 0
    listed = status.uncounted_terminated_pods
    kept_succeeded = [uid for uid in listed.succeeded if uid in states.tracked]
    kept_failed = [uid for uid in listed.failed if uid in states.tracked]
    counts = Counts(
        succeeded=status.succeeded + len(listed.succeeded),
        failed=status.failed + len(listed.failed),
        completed=Indexes.salvage(status.completed_indexes, below=below),
        failed_indexes=Indexes.salvage(status.failed_indexes, below=below),
        counted_succeeded=status.succeeded + len(listed.succeeded) - len(kept_succeeded),
        counted_failed=status.failed + len(listed.failed) - len(kept_failed),
        uncounted_succeeded=kept_succeeded,
        uncounted_failed=kept_failed,
    )
    if indexed:
        _count_indexes(job, states, counts)
    else:
        known = set(kept_succeeded)
        for pod in states.succeeded:
            counts.succeeded += pod.metadata.uid not in known
            if _listed(counts, pod, counts.uncounted_succeeded, known):
                counts.release.append(pod)
    _count_failures(job, states, counts)
    return counts


def _count_indexes(job: Job, states: PodStates, counts: Counts) -> None:
    """Counts successes of indexes: a second one of an index, or one beyond `completions`, does not count."""
    completions = job.spec.completions or 0
    done = (index_of(pod) for pod in states.succeeded)
    counts.completed |= Indexes.of(index for index in done if 0 <= index < completions)
    counts.succeeded = counts.counted_succeeded = len(counts.completed)
    counts.uncounted_succeeded = []
    counts.release += states.succeeded


def _count_failures(job: Job, states: PodStates, counts: Counts) -> None:
    limit = job.spec.backoff_limit_per_index
    completions = job.spec.completions or 0
    known = set(counts.uncounted_failed)
    waiting: list[Pod] = []
    newly_failed: list[int] = []
    decided = any(is_true(job.status.conditions, type_) for type_ in ("FailureTarget", "SuccessCriteriaMet"))
    for failure in states.failed:
        pod, action = failure.pod, failure.judgement.action
        index = index_of(pod) if limit is not None else -1
        is_counted = action not in (Action.IGNORE, Action.SPARE) or pod.metadata.uid in known
        if action is Action.FAIL_JOB and not counts.fail_job:
            counts.fail_job = failure.judgement.message
        cut_short = decided and pod.metadata.deletion_timestamp is not None
        if limit is not None and 0 <= index < completions and is_counted and not cut_short:
            exhausted = attempts_before(pod)[0] >= limit
            if (exhausted or action is Action.FAIL_INDEX) and index not in counts.completed:
                newly_failed.append(index)
        if is_counted:
            counts.failed += pod.metadata.uid not in known
            if not _listed(counts, pod, counts.uncounted_failed, known):
                continue
        waiting.append(pod)
    if limit is None:
        counts.release += waiting
        return
    counts.failed_indexes |= Indexes.of(newly_failed)
    at_work = {index_of(pod) for pod in states.active}
    for pod in waiting:
        awaits = _awaits_replacement(pod, states, counts, at_work, completions)
        (counts.awaiting if awaits else counts.release).append(pod)


def _awaits_replacement(
    pod: Pod, states: PodStates, counts: Counts, at_work: set[int], completions: int
) -> bool:
    index = index_of(pod)
    if not 0 <= index < completions or index in at_work:
        return False
    if index in counts.completed or index in counts.failed_indexes:
        return False
    return states.latest[index].pod is pod


def _listed(counts: Counts, pod: Pod, uids: list[str], known: set[str]) -> bool:
    """Takes step 1 if the list has room. Returns whether the pod's uid is in the list."""
    if pod.metadata.uid in known:
        return True
    if len(counts.uncounted_succeeded) + len(counts.uncounted_failed) >= MOST_UNCOUNTED:
        counts.crowded = True
        return False
    uids.append(pod.metadata.uid)
    return True
