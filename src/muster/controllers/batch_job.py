"""Compiles BatchJobs and keeps what they are compiled to: all of it, or nothing.

1. A BatchJob is compiled each time it or a policy changes. What keeps it from being compiled is its status.
2. Its jobs (a JobSet, a PodGroup) are created suspended, so that no pod starts.
3. What the pods need is created, owned by the JobSet.
4. The JobSet gets the mark `muster.dev/compiled` and is left to the scheduler. After a crash, steps 2 to 4
   are repeated, and each changes nothing that is there already.

If a permit is withdrawn, the JobSet is deleted, and the garbage collector deletes what it owns. While muster
cannot decide, because a policy cannot be read or an image is still looked up, its last decision stands:
nothing is created, and nothing deleted. If the BatchJob changes before its JobSet has started, the JobSet is
replaced; afterwards the change has no effect on this run.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from muster import names
from muster.api import rates
from muster.api.base import AnyKind, Object, R, Resource, mark, owner
from muster.api.core_v1 import ConfigMap
from muster.api.jobset_v1alpha2 import JobSet
from muster.api.kinds import (
    BATCH_JOB,
    BY_NAME,
    CEDAR_POLICY,
    CONFIG_MAP,
    EMITTED,
    GANG,
    JOBSET,
    NAMESPACE,
    PERSISTENT_VOLUME_CLAIM,
    PRIORITY_CLASS,
    SERVICE,
    TRUST_POLICY,
)
from muster.api.muster_v1alpha1 import BatchJob, BatchJobStatus, CedarPolicy, Gang, TrustPolicy
from muster.api.scheduling import PriorityClass
from muster.compiler.declared import READ
from muster.compiler.draft import shared
from muster.controllers.caches import Cache, Caches, Index
from muster.controllers.driver import Change, Controller, Signal, Watch, controlled_by, itself
from muster.effects import Create, Delete, Effect, Patch, RecordEvent, Requeue

#: Kinds that a persistent volume outlives its run by: they belong to the BatchJob.
_KEPT: Final = ("PersistentVolumeClaim",)
_KINDS: Final = {**BY_NAME, **{(kind.api_version, kind.kind): kind for kind in EMITTED}}
_ENDED: Final = ("Succeeded", "Failed")
#: Fields of a Gang's `status.preemptions` that a BatchJob's status repeats.
_OF_EVICTION: Final = ("by", "at", "gpuHoursLost", "costLost")
#: Kinds whose annotations say what jobs may use, and those that say who may preempt them and at what price;
#: other objects of these kinds are of no concern.
_DECLARING: Final[tuple[AnyKind, ...]] = (
    NAMESPACE,
    SERVICE,
    PERSISTENT_VOLUME_CLAIM,
    PRIORITY_CLASS,
    CONFIG_MAP,
)
_DECLARES: Final = "declares"
#: Index of gangs by the key of the JobSet that they were read from.
_OF_JOBSET: Final = "of JobSet"


#: (field, message, fix)
Told = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a BatchJob is compiled to. If there are findings, nothing may be applied."""

    #: changes whenever the objects do
    hash: str = ""
    support: Sequence[Object] = ()
    jobs: Sequence[Object] = ()
    findings: Sequence[Told] = ()
    #: what keeps nothing from being applied
    warnings: Sequence[Told] = ()
    #: when it may be compiled to something else; None = when something changes
    until: datetime | None = None
    #: (image, digest) of the images that have been looked up
    images: Sequence[tuple[str, str]] = ()
    #: what keeps muster from deciding now; "" if it has decided
    undecided: str = ""
    #: what preemption may cost the job
    risk: str = ""


#: Compiles a job under these policies, and what objects of the cluster declare (`muster.compiler.declared`).
Compile = Callable[[BatchJob, Sequence[CedarPolicy], Sequence[TrustPolicy], Sequence[Object]], Compiled]


@dataclass(frozen=True, slots=True)
class Observed:
    job: BatchJob
    #: the JobSet of the job's name, whatever its owner
    jobset: JobSet | None
    compiled: Compiled
    #: its last eviction, an entry of a Gang's `status.preemptions`
    preemption: Object | None = None


def controller(compile_: Compile, changed: Signal) -> Controller[Observed]:
    """Returns the controller for the driver. `changed` is sent when `compile_` may return something else."""

    def observe(caches: Caches, key: str) -> Observed | None:
        job = caches[BATCH_JOB].get(key)
        if job is None or job.metadata.deletion_timestamp is not None or job.status.phase in _ENDED:
            return None
        if job.spec.get("schedule"):
            return None  # its runs are BatchJobs of their own (`muster.controllers.cron`)
        policies, trusted = _sorted(caches[CEDAR_POLICY]), _sorted(caches[TRUST_POLICY])
        declared = [
            {**msgspec.to_builtins(each), "kind": kind.kind}
            for kind in _DECLARING
            for each in caches[kind].by(_DECLARES, "")
        ]
        entries = [entry for gang in caches[GANG].by(_OF_JOBSET, key) for entry in gang.status.preemptions]
        last = max(entries, key=lambda entry: str(entry.get("at")), default=None)
        return Observed(job, caches[JOBSET].get(key), compile_(job, policies, trusted, declared), last)

    watches = (
        Watch(BATCH_JOB, itself),
        Watch(JOBSET, controlled_by(BATCH_JOB)),
        Watch(CEDAR_POLICY, _all_jobs),
        Watch(TRUST_POLICY, _all_jobs),
        Watch(GANG, _preempted),
        *(Watch(kind, _jobs_if_declaring) for kind in _DECLARING),
    )
    indexes = (
        Index(GANG, _OF_JOBSET, _jobset_of),
        *(Index(kind, _DECLARES, lambda each: [""] if _notes(each) else []) for kind in _DECLARING),
    )
    return Controller("batchjob", watches, observe, reconcile, indexes, signals=(changed,))


def _sorted(cache: Cache[R]) -> list[R]:
    return [cache.items[key] for key in sorted(cache.items)]


def reconcile(observed: Observed, now: datetime) -> list[Effect]:
    effects = _decide(observed, now)
    until = observed.compiled.until
    return effects if until is None else [*effects, Requeue(until)]


def _decide(observed: Observed, now: datetime) -> list[Effect]:
    job, jobset, compiled = observed.job, observed.jobset, observed.compiled
    if jobset is not None and not _ours(job, jobset):
        return _status(job, now, "Pending", f"JobSet {jobset.metadata.name} exists and belongs to another")
    if compiled.findings:
        gone = [_deleted(jobset)] if jobset is not None else []
        return [*gone, *_status(job, now, "Pending", _summary(compiled), compiled)]
    applied = mark(jobset.metadata, names.COMPILED) if jobset is not None else ""
    if compiled.undecided and not applied:
        return _status(job, now, "Pending", compiled.undecided, compiled)
    if jobset is None:
        return [
            *(Create(_kind(each), job.metadata.namespace, _suspended(job, each)) for each in compiled.jobs),
            *_status(job, now, "Pending", "compiled", compiled),
        ]
    if jobset.metadata.deletion_timestamp is not None:
        return []
    started = applied and not jobset.spec.suspend
    if applied and not started and not compiled.undecided and applied != compiled.hash:
        return [_deleted(jobset)]
    if not applied:
        about = _about(job)
        created = [
            Create(
                _kind(each),
                job.metadata.namespace,
                _owned(job, jobset, each),
                refused=RecordEvent(
                    about, "Warning", "Refused", f"{each['kind']} {each['metadata']['name']}"
                ),
            )
            for each in compiled.support
        ]
        return [*created, _released(jobset, compiled)]
    return _of_run(observed, jobset, now)


def _of_run(observed: Observed, jobset: JobSet, now: datetime) -> list[Effect]:
    """The status of a BatchJob whose JobSet is in the scheduler's hands."""
    job, compiled, evicted = observed.job, observed.compiled, observed.preemption
    conditions = {each.type: each for each in jobset.status.conditions if each.status == "True"}
    tasks = [
        {"name": each.name, "active": each.active, "succeeded": each.succeeded, "failed": each.failed}
        for each in jobset.status.replicated_jobs_status
    ]
    if (done := conditions.get("Completed")) is not None:
        return _status(job, now, "Succeeded", done.message or "all tasks completed", compiled, tasks, evicted)
    if (done := conditions.get("Failed")) is not None:
        return _status(job, now, "Failed", done.message or "the job failed", compiled, tasks, evicted)
    if jobset.spec.suspend:
        waits = "waits to be started" if evicted is None else f"{_evicted(evicted, jobset)}; waits to go on"
        told = f"{waits}; {compiled.undecided}" if compiled.undecided else waits
        return _status(job, now, "Pending", told, compiled, tasks, evicted)
    return _status(job, now, "Running", "runs", compiled, tasks, evicted)


def _status(
    job: BatchJob,
    now: datetime,
    phase: str,
    message: str,
    compiled: Compiled | None = None,
    tasks: Sequence[Object] = (),
    evicted: Object | None = None,
) -> list[Effect]:
    """The patch that brings the status up to date, and an Event if the phase or the message changes."""
    old, meta = job.status, job.metadata
    compiled = compiled or Compiled()
    status: Object = {
        "phase": phase,
        "message": message,
        "observedGeneration": meta.generation,
        "tasks": list(tasks),
        "findings": _told(compiled.findings),
        "warnings": _told(compiled.warnings),
        "risk": compiled.risk,
    }
    if not compiled.undecided or old.observed_generation != meta.generation:
        status["images"] = [{"image": image, "digest": digest} for image, digest in compiled.images]
    if evicted is not None:
        told = {field: str(evicted[field]) for field in _OF_EVICTION if field in evicted}
        status["preemption"] = {"gpuHoursLost": "", "costLost": "", **told}
    if msgspec.convert({**msgspec.to_builtins(old), **status}, BatchJobStatus) == old:
        return []
    moment = now.isoformat().replace("+00:00", "Z")
    if old.start_time is None and phase == "Running":
        status["startTime"] = moment
    if phase in _ENDED:
        status["completionTime"] = moment
    effects: list[Effect] = [Patch(BATCH_JOB, meta.namespace, meta.name, {"status": status}, "status")]
    if (old.phase, old.message) != (phase, message):
        bad = bool(compiled.findings) or phase == "Failed"
        reason = "Denied" if compiled.findings else phase
        effects.append(RecordEvent(_about(job), "Warning" if bad else "Normal", reason, message))
    return effects


def _evicted(entry: Object, jobset: JobSet) -> str:
    """Such as `task workers preempted by higher-priority job ml/urgent`."""
    names_ = ", ".join(each.name for each in jobset.spec.replicated_jobs)
    tasks = f"task{'s' * (len(jobset.spec.replicated_jobs) != 1)} {names_}"
    if entry.get("kind") == "reclaim":
        return f"{tasks} preempted by job {entry.get('by')}, whose queue is within its share"
    return f"{tasks} preempted by higher-priority job {entry.get('by')}"


def _told(findings: Sequence[Told]) -> list[Object]:
    return [{"field": field, "message": message, "fix": fix} for field, message, fix in findings]


def _about(job: BatchJob) -> Object:
    meta = job.metadata
    return {
        "apiVersion": BATCH_JOB.api_version,
        "kind": BATCH_JOB.kind,
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
    }


def _summary(compiled: Compiled) -> str:
    first = compiled.findings[0][1]
    more = len(compiled.findings) - 1
    return first if not more else f"{first} (and {more} more: see status.findings)"


def _suspended(job: BatchJob, made: Object) -> Object:
    """A job object in its first form: no pod of it starts, and no scheduler may start it."""
    first = deepcopy(made)
    if first["kind"] == JOBSET.kind:
        first["spec"]["suspend"] = True
        first["metadata"].get("labels", {}).pop(names.ADMISSION, None)
    first["metadata"]["ownerReferences"] = [owner(job, BATCH_JOB)]
    return first


def _owned(job: BatchJob, jobset: JobSet, made: Object) -> Object:
    """What pods need, owned by their run; a volume's claim by the BatchJob, since its data outlives a run.

    What the jobs of a namespace share has no owner.
    """
    if shared(made):
        return made
    by = owner(job, BATCH_JOB) if made["kind"] in _KEPT else owner(jobset, JOBSET)
    return {**made, "metadata": {**made["metadata"], "ownerReferences": [by]}}


def _released(jobset: JobSet, compiled: Compiled) -> Patch:
    """Gives the JobSet its final form, unless it has changed since it was observed."""
    [final] = [each for each in compiled.jobs if each["kind"] == JOBSET.kind]
    meta = jobset.metadata
    body: Object = {
        "metadata": {
            "resourceVersion": meta.resource_version,
            "annotations": {names.COMPILED: compiled.hash},
            "labels": final["metadata"].get("labels", {}),
        },
        "spec": {"suspend": bool(final["spec"].get("suspend"))},
    }
    return Patch(JOBSET, meta.namespace, meta.name, body)


def _deleted(jobset: JobSet) -> Delete:
    meta = jobset.metadata
    return Delete(JOBSET, meta.namespace, meta.name, meta.uid)


def _ours(job: BatchJob, jobset: JobSet) -> bool:
    return any(each.uid == job.metadata.uid for each in jobset.metadata.owner_references)


def _kind(made: Object) -> AnyKind:
    return _KINDS[(made["apiVersion"], made["kind"])]


def _all_jobs(change: Change) -> list[str]:
    """Every BatchJob: a policy may be about any of them."""
    return list(change.caches[BATCH_JOB].items)


def _jobs_if_declaring(change: Change) -> list[str]:
    """Every BatchJob if what the object declares changes: any of them may use it."""
    old, new = (
        (notes, getattr(each, "spec", None)) if each is not None and (notes := _notes(each)) else None
        for each in (change.old, change.new)
    )
    return [] if old == new else _all_jobs(change)


def _notes(each: Resource) -> Object:
    """What of an object concerns jobs; empty if nothing."""
    match each:
        case PriorityClass():
            return {"value": each.value, "preempts": each.preemption_policy}
        case ConfigMap():
            return {"prices": each.data} if each.metadata.name == rates.NAME else {}
        case _:
            return {key: value for key, value in each.metadata.annotations.items() if key in READ}


def _jobset_of(gang: Gang) -> list[str]:
    source = gang.spec.source
    return [f"{gang.metadata.namespace}/{source.name}"] if source.kind == JOBSET.kind else []


def _preempted(change: Change) -> list[str]:
    old = change.old.status.preemptions if change.old is not None else []
    new = change.new.status.preemptions if change.new is not None else []
    return _jobset_of(change.new) if new and new != old else []
