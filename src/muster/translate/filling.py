"""The pods of a gang's Jobs and the places that they fill, kept up to date pod by pod.

A place is retired once its Job has no further pod to start for it: then it is satisfied and holds
nothing. Pods that have ended or are being deleted give up their places; the latter keep their nodes.

A pod that has succeeded counts at once. Its Job's status counts it a second or so later: first the pod's uid
is listed there, then the pod loses its finalizer, and last the uid becomes part of a number.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from muster.api.base import Kind, controller_of, controls, is_true
from muster.api.batch_v1 import TRACKING_FINALIZER, Job
from muster.api.core_v1 import Pod
from muster.api.indexes import Indexes
from muster.api.kinds import JOB
from muster.api.times import seconds
from muster.core.words.gang import Place, PodId
from muster.translate.group import Members
from muster.translate.places import Claim, Filling, planned
from muster.translate.pods import Asked, asked, bound_at, completion_index, live, occupies, scheduling_gates
from muster.translate.surroundings import refers
from muster.translate.world import World


class Block(NamedTuple):
    """The places of one Job: `size` adjacent ones of a pod set."""

    pod_set: str
    start: int
    size: int

    def place(self, offset: int) -> Place:
        return Place(self.pod_set, self.start + offset)

    def offset(self, place: Place | None) -> int | None:
        """Returns the position of a place in the block; None if it is not in it."""
        if place is None or place.pod_set != self.pod_set:
            return None
        return place.index - self.start if 0 <= place.index - self.start < self.size else None


#: The block of a Job that is being replaced: its pods leave their places.
NOWHERE = Block("", 0, 0)


@dataclass(slots=True, eq=False)
class _Filled:
    """One Job and its pods."""

    job: Job
    block: Block
    filling: Filling
    pods: dict[PodId, Pod] = field(default_factory=dict)
    #: completion indexes of the pods that claim a place
    indexes: dict[PodId, int | None] = field(default_factory=dict)
    #: pods that have succeeded and still have the finalizer by which a Job counts them, and their indexes
    succeeded: dict[PodId, int | None] = field(default_factory=dict)
    #: what each of its pods that may be bound asks for
    asks: dict[PodId, Asked] = field(default_factory=dict)
    #: pods that have changed since the last `settle`
    changed: set[PodId] = field(default_factory=set)
    retired: set[Place] = field(default_factory=set)
    #: how many places have a pod
    placed: int = 0


class Filled:
    """The places of a gang as they are filled, Job by Job. `settle` applies what has changed since."""

    def __init__(self, namespace: str, world: World) -> None:
        self.members = Members()
        #: pods on a node that hold no place any more
        self.leaving: dict[PodId, Pod] = {}
        self.retired: set[Place] = set()
        #: scheduling gates on pods
        self.gates: dict[PodId, str] = {}
        #: members on a node, and when they were bound
        self.bound: dict[PodId, float | None] = {}
        #: by pod set, how many places have a pod, and how many are retired
        self.placed: Counter[str] = Counter()
        self.over: Counter[str] = Counter()
        #: by pod set, what pods that may be bound ask for, and how many of them
        self.asks: defaultdict[str, Counter[Asked]] = defaultdict(Counter)
        #: Jobs by name, and the names of those that may have pods now
        self.jobs: dict[str, _Filled] = {}
        self.started: set[str] = set()
        self._namespace, self._world = namespace, world
        self._pods: dict[str, tuple[_Filled, PodId]] = {}  # by the pod's name: its Job, its uid
        self._changed: set[str] = set()  # names of Jobs
        self._left: set[PodId] = set()  # pods that came into `leaving` since the last `settle`

    def take(self, job: Job, block: Block) -> None:
        """Takes in a new or changed Job. If its block is another, its pods claim their places again."""
        name = job.metadata.name
        known = self.jobs.get(name)
        if known is None or known.block != block or known.job.metadata.uid != job.metadata.uid:
            last = {uid: self.members[uid].place for uid in known.indexes} if known is not None else {}
            self.forget(name)
            known = self.jobs[name] = _Filled(job, block, Filling(block.size))
            for pod in filter(self._is_member, self._world.pods_of(job)):
                self._put(known, pod, block.offset(last.get(PodId(pod.metadata.uid))))
        known.job = job
        (self.started.discard if block is NOWHERE or job.spec.suspend else self.started.add)(name)
        self._changed.add(name)

    def forget(self, name: str) -> None:
        """Forgets a Job and its pods."""
        known = self.jobs.pop(name, None)
        if known is None:
            return
        for uid in [*known.pods]:
            self._drop(known, uid)
        self._count(known, 0, set())
        self.started.discard(name)
        self._changed.discard(name)

    def note(self, name: str) -> None:
        """Looks at the pod of this name again."""
        pod = self._world.pods.get((self._namespace, name))
        controller = controller_of(pod) if pod is not None else None
        known = self.jobs.get(controller.name) if controller is not None else None
        if pod is not None and known is not None and controls(JOB, known.job, pod) and self._is_member(pod):
            self._put(known, pod)
        elif (before := self._pods.get(name)) is not None:
            self._drop(*before)

    def ask_again(self, others: Mapping[Kind[Any], Set[str]]) -> None:  # Any: a kind that pods refer to
        """Reads again what pods ask for, of those that refer to one of these objects, which have changed."""
        for known in self.jobs.values():
            for uid in [uid for uid in known.asks if refers(known.pods[uid], others)]:
                self._ask(known, uid, known.pods[uid])

    def renew(self, pod: Pod) -> None:
        """Takes in a newer state of a pod that says the same."""
        known, uid = self._pods[pod.metadata.name]
        known.pods[uid] = pod
        self.members.renew(pod)

    def settle(self) -> set[PodId]:
        """Gives the pods their places, and retires places that no pod will fill.

        Returns the pods with another place, or none any more.
        """
        moved, self._left = self._left, set()
        for name in sorted(self._changed):
            known = self.jobs[name]
            filling, block = known.filling, known.block
            filling.settle()
            for uid in sorted(filling.moved | known.changed):
                if uid in known.indexes:
                    offset = filling.place_of.get(uid)
                    self.members.put(known.pods[uid], None if offset is None else block.place(offset))
            moved |= filling.moved
            filling.moved.clear()
            filling.changed.clear()
            known.changed.clear()
            retired = {block.place(offset) for offset in _retired(known)}
            self._count(known, len(filling.place_of), retired)
        self._changed.clear()
        return moved

    def _is_member(self, pod: Pod) -> bool:
        """Whether a pod of one of the Jobs is of this gang: not of a PodGroup, nor another scheduler's."""
        return self._world.grouped(pod) is None and self._world.schedules(pod)

    def _put(self, known: _Filled, pod: Pod, last: int | None = None) -> None:
        uid, block = PodId(pod.metadata.uid), known.block
        gates = scheduling_gates(pod.spec)
        claims = block is not NOWHERE and live(pod) and not gates
        before = self._pods.get(pod.metadata.name)
        if before is not None and not (before == (known, uid) and claims and uid in known.indexes):
            self._drop(*before)
        known.pods[uid] = pod
        self._pods[pod.metadata.name] = known, uid
        known.changed.add(uid)
        self._changed.add(known.job.metadata.name)
        known.succeeded.pop(uid, None)
        if pod.status.phase == "Succeeded" and TRACKING_FINALIZER in pod.metadata.finalizers:
            known.succeeded[uid] = completion_index(pod)
        if block is NOWHERE or not live(pod):
            if occupies(pod):
                self.leaving[uid] = pod
                self._left.add(uid)
            return
        self.bound.pop(uid, None)
        if pod.spec.node_name:
            self.bound[uid] = bound_at(pod)
        if gates:
            self.gates[uid] = gates
            self.members.put(pod, None)
            return
        order = seconds(pod.metadata.creation_timestamp), pod.metadata.name
        claim = Claim(order, block.offset(planned(pod)), completion_index(pod))
        known.indexes[uid] = claim.own
        known.filling.put(uid, claim, last)
        self._ask(known, uid, None if pod.spec.node_name else pod)

    def _drop(self, known: _Filled, uid: PodId) -> None:
        del self._pods[known.pods.pop(uid).metadata.name]
        known.indexes.pop(uid, None)
        known.succeeded.pop(uid, None)
        known.filling.drop(uid)
        self._ask(known, uid, None)
        self._changed.add(known.job.metadata.name)
        self.members.remove(uid)
        for noted in (self.leaving, self.gates, self.bound):
            noted.pop(uid, None)

    def _ask(self, known: _Filled, uid: PodId, pod: Pod | None) -> None:
        """Replaces what a pod asks for; None: it asks for nothing, being bound or gone."""
        asks, before = self.asks[known.block.pod_set], known.asks.pop(uid, None)
        if before is not None:
            asks[before] -= 1
            if not asks[before]:
                del asks[before]
        if pod is not None:
            known.asks[uid] = found = asked(pod, self._world)
            asks[found] += 1

    def _count(self, known: _Filled, placed: int, retired: set[Place]) -> None:
        """Replaces what is known of the Job's places."""
        pod_set = known.block.pod_set
        self.placed[pod_set] += placed - known.placed
        self.over[pod_set] += len(retired) - len(known.retired)
        if retired != known.retired:
            self.retired = (self.retired - known.retired) | retired
        known.placed, known.retired = placed, retired


def _retired(known: _Filled) -> Collection[int]:
    """Returns the free places for which the Job has no further pod to start, as `Filling` would place it."""
    job, filling, indexes = known.job, known.filling, known.indexes
    free = filling.free
    if not free or job_succeeded(job):
        return free
    if job.spec.completions is None:
        # a work queue: no further pod starts once one pod has found it empty
        return free if _succeeded(known) else ()
    if job.spec.completion_mode != "Indexed":
        further = job.spec.completions - _succeeded(known) - len(indexes)
        return free[max(further, 0) :]
    status = job.status
    ended, done = _ended(status.completed_indexes, status.failed_indexes, filling.size)
    if known.succeeded:
        counted = _indexes(status.completed_indexes)
        new = {index for index in known.succeeded.values() if index is not None and index not in counted}
        ended, done = ended + len(new), done | new
    own = set(free).difference(indexes.values(), done)
    if len(own) == len(free):
        return ()
    further = job.spec.completions - ended - len(indexes) - len(own)
    return [place for place in free if place not in own][max(further, 0) :]


def _succeeded(known: _Filled) -> int:
    """Returns how many pods have succeeded: those that the status counts, those listed there, and others."""
    listed = known.job.status.uncounted_terminated_pods.succeeded
    return known.job.status.succeeded + len(known.succeeded.keys() | {*map(PodId, listed)})


@lru_cache(maxsize=64)
def _ended(completed: str, failed: str, size: int) -> tuple[int, frozenset[int]]:
    """Returns how many indexes have ended for good, and those of them that are slots."""
    ended = (_indexes(completed) | _indexes(failed)).intervals
    slots = (slot for low, high in ended for slot in range(low, min(high, size - 1) + 1))
    return sum(high - low + 1 for low, high in ended), frozenset(slots)


@lru_cache(maxsize=64)
def _indexes(text: str) -> Indexes:
    return Indexes.salvage(text)


def job_finished(job: Job) -> bool:
    return any(is_true(job.status.conditions, type_) for type_ in ("Complete", "Failed"))


def job_succeeded(job: Job) -> bool:
    """Whether nothing more starts because the Job has succeeded. (A JobSet may re-create a failed Job.)"""
    return any(is_true(job.status.conditions, type_) for type_ in ("Complete", "SuccessCriteriaMet"))
