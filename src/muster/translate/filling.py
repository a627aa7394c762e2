"""Fills the places of a gang with the pods of Jobs, and determines which places are retired.

A place is retired once its Job has no further pod to start for it: then it is satisfied and holds
nothing. Pods that have ended or are being deleted give up their places; the latter keep their nodes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from muster.api.base import is_true
from muster.api.batch_v1 import Job
from muster.api.core_v1 import Pod
from muster.api.indexes import Indexes
from muster.core.words.gang import Place, PodId
from muster.translate.group import Group, Member
from muster.translate.places import Block, fill
from muster.translate.pods import completion_index, live, occupies, scheduling_gates


@dataclass(slots=True)
class Filled:
    """Places as they are filled, Job by Job."""

    members: dict[PodId, Member] = field(default_factory=dict)
    leaving: dict[PodId, Pod] = field(default_factory=dict)
    retired: set[Place] = field(default_factory=set)
    #: scheduling gates on pods
    gates: set[str] = field(default_factory=set)

    def take(
        self, pod_set: str, start: int, size: int, job: Job, pods: Iterable[Pod], before: Group | None
    ) -> None:
        """Puts the pods of a Job into its places, `size` of them from `start` on."""
        claims = []
        for pod in pods:
            uid = PodId(pod.metadata.uid)
            if not live(pod):
                if occupies(pod):
                    self.leaving[uid] = pod
            elif gates := scheduling_gates(pod.spec):
                self.gates.add(gates)
                self.members[uid] = Member(pod, None)
            else:
                claims.append(pod)
        claims.sort(key=_by_age)
        block = Block(pod_set, start, size, claims, slots=True)
        found = fill(block, before)
        for pod in claims:
            uid = PodId(pod.metadata.uid)
            self.members[uid] = Member(pod, found[uid])
        free = sorted(
            set(range(start, start + size)) - {place.index for place in found.values() if place is not None}
        )
        wanted = set(_still_wanted(job, block, free))
        self.retired.update(Place(pod_set, index) for index in free if index not in wanted)

    def leave(self, pods: Iterable[Pod]) -> None:
        """Records pods of a Job that is being replaced: they keep their nodes, but not their places."""
        self.leaving.update((PodId(pod.metadata.uid), pod) for pod in pods if occupies(pod))


def _by_age(pod: Pod) -> tuple[float, str]:
    created = pod.metadata.creation_timestamp
    return (created.timestamp() if created else 0.0, pod.metadata.name)


def _still_wanted(job: Job, block: Block, free: Sequence[int]) -> Iterator[int]:
    """Yields the free places for which the Job has another pod to start, as `fill` would place it."""
    if job_succeeded(job):
        return
    if job.spec.completions is None:
        # a work queue: no further pod starts once one pod has found it empty
        if not job.status.succeeded:
            yield from free
        return
    if job.spec.completion_mode != "Indexed":
        further = job.spec.completions - job.status.succeeded - len(block.pods)
        yield from free[: max(further, 0)]
        return
    ended = (
        Indexes.salvage(job.status.completed_indexes) | Indexes.salvage(job.status.failed_indexes)
    ).intervals
    running = {completion_index(pod) for pod in block.pods}
    done = {slot for low, high in ended for slot in range(low, min(high, block.size - 1) + 1)}
    taken = running | done
    own = {place for place in free if place - block.start not in taken}
    yield from own
    further = job.spec.completions - sum(high - low + 1 for low, high in ended) - len(block.pods) - len(own)
    others = [place for place in free if place not in own]
    yield from others[: max(further, 0)]


def job_finished(job: Job) -> bool:
    return any(is_true(job.status.conditions, type_) for type_ in ("Complete", "Failed"))


def job_succeeded(job: Job) -> bool:
    """Whether nothing more starts because the Job has succeeded. (A JobSet may re-create a failed Job.)"""
    return any(is_true(job.status.conditions, type_) for type_ in ("Complete", "SuccessCriteriaMet"))
