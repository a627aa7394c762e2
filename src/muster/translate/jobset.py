"""Reads JobSets (`jobset.x-k8s.io/v1alpha2`): one gang, or one per stage if Jobs start in an order.

A replicatedJob is a pod set; the place of slot s of its job j is j·p + s. With dependsOn or InOrder the
replicatedJobs do not run together, so a gang of all of them would wait for itself: each becomes a
stage, a gang of its own (as in KEP-969). A restart replaces the Jobs; pods of the old Jobs keep their
nodes until they are gone, but their places belong to the new Jobs at once.
"""

from collections.abc import Collection, Mapping
from math import isfinite
from typing import Final

from muster import names
from muster.api import groups, times
from muster.api.base import controls, is_true
from muster.api.batch_v1 import (
    COMPLETION_INDEX,
    CONTROLLER_UID,
    JOB_NAME,
    LEGACY_CONTROLLER_UID,
    LEGACY_JOB_NAME,
    Job,
)
from muster.api.core_v1 import Pod
from muster.api.fields import InvalidObject
from muster.api.groups import Dialect
from muster.api.jobset_v1alpha2 import (
    COORDINATOR,
    GLOBAL_REPLICAS,
    GROUP_NAME,
    GROUP_REPLICAS,
    JOB_GLOBAL_INDEX,
    JOB_GROUP_INDEX,
    JOB_INDEX,
    JOB_KEY,
    JOB_RESTART_ATTEMPT,
    JOBSET_NAME,
    JOBSET_UID,
    REPLICATED_JOB_NAME,
    REPLICATED_JOB_REPLICAS,
    RESTART_ATTEMPT,
    DependsOn,
    JobSet,
    ReplicatedJob,
)
from muster.api.kinds import JOBSET
from muster.api.marks import DEADLINE
from muster.api.natural import natural
from muster.core.words.gang import MOST_PLACES, Code, Gate, Shape
from muster.translate.claims import templates
from muster.translate.demand import Demand, Part, asks_for_gang, demand, job_spec
from muster.translate.filling import NOWHERE, Block, Filled
from muster.translate.group import NONE_MOVED, ReadGroup, Touched
from muster.translate.identity import GroupKey
from muster.translate.job import MAIN, GroupObject, assemble, owner_of
from muster.translate.registration import Registration
from muster.translate.surroundings import Made
from muster.translate.world import World

#: Most replicatedJobs of a JobSet that is a gang, or whose stages are.
MOST_REPLICATED: Final = 100


class Reader:
    """Reads a JobSet that is a gang, or one stage of it."""

    def __init__(self, key: GroupKey, world: World) -> None:
        self._key, self._world = key, world
        self._filled = Filled(key.namespace, world)
        self._layout: object = None

    def read(self, touched: Touched) -> ReadGroup:
        key, world, filled = self._key, self._world, self._filled
        jobset = world.jobsets.get((key.namespace, key.name))
        if jobset is None or not _forms(jobset, key, world):
            return None, NONE_MOVED
        parts = (
            {MAIN: _too_many(jobset)}
            if _is_too_large(jobset)
            else {
                replicated.name: Part(_demand(jobset, replicated, world), max(replicated.replicas, 0))
                for replicated in jobset.spec.replicated_jobs
                if key.stage in ("", replicated.name)
            }
        )
        for name in self._jobs_to_read(jobset, parts, touched):
            self._take(name, jobset, parts)
        if touched.others:
            filled.ask_again(touched.others)
        for name in touched.pods:
            filled.note(name)
        moved = filled.settle()
        group = assemble(
            GroupObject(key, jobset, JOBSET, owner_of(jobset, JOBSET), jobset_finished(jobset)),
            parts,
            filled,
            world,
            order=None if filled.started else _order(jobset, key.stage),
            limit=_left(jobset, filled),
        )
        return group, moved

    def renew(self, pod: Pod) -> None:
        self._filled.renew(pod)

    def _jobs_to_read(self, jobset: JobSet, parts: Mapping[str, Part], touched: Touched) -> Collection[str]:
        """Returns the names of the Jobs that have changed; all if what the JobSet says of them has."""
        status = jobset.status
        layout = (
            jobset.metadata.uid,
            [(name, part.replicas, part.demand.places) for name, part in parts.items()],
            status.restarts,
            [(one.name, one.job_restarts) for one in status.replicated_jobs_status],
        )
        if layout == self._layout:
            return touched.jobs
        self._layout = layout
        jobs = self._world.jobs_of(jobset)
        return dict.fromkeys((*self._filled.jobs, *(job.metadata.name for job in jobs)))

    def _take(self, name: str, jobset: JobSet, parts: Mapping[str, Part]) -> None:
        job = self._world.jobs.get((self._key.namespace, name))
        if job is None or not controls(JOBSET, jobset, job):
            self._filled.forget(name)
            return
        part = parts.get(replicated := job.metadata.labels.get(REPLICATED_JOB_NAME, ""))
        if part is None or sum(part.count for part in parts.values()) > MOST_PLACES:
            self._filled.forget(name)
            return
        index, size = _number(job, JOB_INDEX), part.demand.places
        left = index >= part.replicas or _replaced(job, jobset)
        self._filled.take(job, NOWHERE if left else Block(replicated, index * size, size))


def _exists(_: Dialect, namespace: str, name: str, world: World) -> bool:
    """Whether there is a gang of the whole JobSet."""
    jobset = world.jobsets.get((namespace, name))
    return jobset is not None and GroupKey(groups.JOBSET, namespace, name) in keys(jobset, world)


def _stages(_: Dialect, jobset: JobSet, world: World) -> list[GroupKey]:
    return possible(jobset)


REGISTRATION: Final = Registration(Reader, _exists, _stages)


def keys(jobset: JobSet, world: World) -> list[GroupKey]:
    """Returns the groups that a JobSet forms: none, one, or one per stage."""
    return possible(jobset) if asks_for_gang(jobset.metadata, templates(jobset), world) else []


def _forms(jobset: JobSet, key: GroupKey, world: World) -> bool:
    """Whether the key is one of `keys`; each stage asks this, so it makes no list of all."""
    stages = jobset.spec.replicated_jobs
    is_one = any(one.name == key.stage for one in stages) if staged(jobset) else not key.stage
    return is_one and asks_for_gang(jobset.metadata, templates(jobset), world)


def possible(jobset: JobSet) -> list[GroupKey]:
    """Returns the groups that a JobSet forms if it is a gang, which its namespace may decide."""
    whole = GroupKey(groups.JOBSET, jobset.metadata.namespace, jobset.metadata.name)
    if not staged(jobset):
        return [whole]
    return [whole._replace(stage=replicated.name) for replicated in jobset.spec.replicated_jobs]


def key_of(jobset: JobSet, job: Job, world: World) -> GroupKey | None:
    """Returns the group that the pods of one of its Jobs belong to; None if the JobSet is no gang."""
    found = keys(jobset, world)
    if found and staged(jobset):
        stage = job.metadata.labels.get(REPLICATED_JOB_NAME, "")
        return next((key for key in found if key.stage == stage), None)
    return found[0] if found else None


def staged(jobset: JobSet) -> bool:
    """Whether the JobSet is a gang per stage: one that is refused for its size is a single gang."""
    return not _is_too_large(jobset) and jobset.spec.staged


def _is_too_large(jobset: JobSet) -> bool:
    return len(jobset.spec.replicated_jobs) > MOST_REPLICATED


def _too_many(jobset: JobSet) -> Part:
    """Returns the only part of a JobSet that is refused: each of its stages would cost all others."""
    what = f"spec.replicatedJobs has {len(jobset.spec.replicated_jobs)} entries"
    refusal = Gate(Code.INVALID, f"{what}; muster takes at most {MOST_REPLICATED} of a gang")
    return Part(Demand(Shape(requests=()), 0, refusal=refusal), 0)


def jobset_finished(jobset: JobSet) -> bool:
    return bool(jobset.status.terminal_state) or any(
        is_true(jobset.status.conditions, type_) for type_ in ("Completed", "Failed")
    )


def _left(jobset: JobSet, filled: Filled) -> float | None:
    """Returns what is left of the deadline for the pods that run now, or for those that start next.

    The deadline's clock runs across restarts: time that passed before these pods were bound is used up. A
    value that cannot be read is refused elsewhere.
    """
    deadline, said = DEADLINE.get(jobset.metadata), jobset.metadata.annotations
    if deadline is None:
        return None
    try:
        left = deadline - float(said.get(names.TIME_USED, "0"))
        began = said.get(names.RUNNING_SINCE)
        since = times.seconds(times.read(began)) if began else None
    except (ValueError, OverflowError):
        return None
    if not isfinite(left):
        return None
    starts = [at for at in filled.bound.values() if at is not None]
    if since is not None and starts:
        left -= max(0.0, min(starts) - since)
    return max(left, 0.0)


def _demand(jobset: JobSet, replicated: ReplicatedJob, world: World) -> Demand:
    try:
        spec = job_spec(replicated.template)
    except InvalidObject as error:
        return Demand(Shape(requests=()), 0, refusal=Gate(Code.INVALID, str(error)))
    return demand(spec, world, Made(jobset.metadata.namespace, _added(jobset, replicated), _VARYING))


def _added(jobset: JobSet, replicated: ReplicatedJob) -> dict[str, str]:
    """Returns the labels that the JobSet controller adds to all pods of a replicatedJob alike."""
    jobs = jobset.spec.replicated_jobs
    return {
        JOBSET_NAME: jobset.metadata.name,
        JOBSET_UID: jobset.metadata.uid,
        REPLICATED_JOB_NAME: replicated.name,
        REPLICATED_JOB_REPLICAS: str(replicated.replicas),
        GLOBAL_REPLICAS: str(sum(other.replicas for other in jobs)),
        GROUP_NAME: replicated.group_name,
        GROUP_REPLICAS: str(
            sum(other.replicas for other in jobs if other.group_name == replicated.group_name)
        ),
    }


#: Labels that it adds besides, with values that differ by Job, pod or attempt.
_VARYING: Final = frozenset(
    {
        COMPLETION_INDEX,
        JOB_NAME,
        LEGACY_JOB_NAME,
        CONTROLLER_UID,
        LEGACY_CONTROLLER_UID,
        JOB_INDEX,
        JOB_GLOBAL_INDEX,
        JOB_GROUP_INDEX,
        JOB_KEY,
        RESTART_ATTEMPT,
        JOB_RESTART_ATTEMPT,
        COORDINATOR,
    }
)


def _replaced(job: Job, jobset: JobSet) -> bool:
    """Whether the JobSet has started to restart this Job: it is being deleted, or of an earlier attempt."""
    if job.metadata.deletion_timestamp is not None or _number(job, RESTART_ATTEMPT) < jobset.status.restarts:
        return True
    name = job.metadata.labels.get(REPLICATED_JOB_NAME, "")
    index = _number(job, JOB_INDEX)
    for status in jobset.status.replicated_jobs_status:
        if status.name == name and index < len(status.job_restarts):
            return _number(job, JOB_RESTART_ATTEMPT) < status.job_restarts[index]
    return False


def _number(job: Job, label: str) -> int:
    return natural(job.metadata.labels.get(label)) or 0


def _order(jobset: JobSet, stage: str) -> Gate | None:
    """Returns MembersMissing for a stage whose Jobs start only after those of another."""
    if not stage:
        return None
    replicated = jobset.spec.replicated_jobs
    first = _first(jobset)
    if stage == first:
        return None
    if jobset.spec.suspend:
        return Gate(Code.MEMBERS_MISSING, f"{first} starts first: the JobSet is resumed with its places")
    position = [one.name for one in replicated].index(stage)
    if position == 0:
        return None
    if jobset.spec.in_order:
        before = [DependsOn(replicated[position - 1].name, "Ready")]
    else:
        before = replicated[position].depends_on
    if not before:
        return None
    waits = " and ".join(f"{stage.name} is {_REACHED.get(stage.status, stage.status)}" for stage in before)
    keep = sorted({stage.name for stage in before if stage.status != "Complete"})
    holds = f"; {' and '.join(keep)} {'keeps its' if len(keep) == 1 else 'keep their'} places" if keep else ""
    return Gate(Code.MEMBERS_MISSING, f"starts once {waits}{holds}")


def _first(jobset: JobSet) -> str:
    """Returns the stage whose places start or resume the JobSet: the first with anything left to do."""
    done = {group.name: group.succeeded for group in jobset.status.replicated_jobs_status}
    stages = jobset.spec.replicated_jobs
    return next((one.name for one in stages if done.get(one.name, 0) < one.replicas), stages[0].name)


_REACHED: Final = {"Ready": "ready", "Complete": "complete"}
