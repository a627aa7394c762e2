"""Compiles BatchJobs and keeps what they are compiled to: all of it, or nothing.

1. A BatchJob is compiled each time it or a policy changes. Its status lists what keeps it from being
   compiled.
2. Its run (a JobSet, or Volcano's Job) is created in a form that starts no pod. It keeps the job that it was
   compiled from (`muster.controllers.batch_grant`).
3. The objects that the pods need are created, owned by the run.
4. The run gets the annotation `muster.dev/compiled`, and the scheduler may start it. After a crash, steps 2
   to 4 are repeated; a step changes nothing that exists already.

If a permit is withdrawn, the run is deleted, and the garbage collector deletes what it owns. While muster
cannot decide, because a policy cannot be read or an image is being looked up, its last decision stands:
nothing is created, and nothing deleted. If the BatchJob changes before its run has started, the run is
replaced. After the start, a change has no effect on this run: the job that the run was compiled from is
compiled again, and decides whether the run may go on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final, Literal

import msgspec

from muster import names
from muster.api import groups
from muster.api.base import AnyKind, Object, R, involved, owner
from muster.api.batch_v1 import Job
from muster.api.core_v1 import Node
from muster.api.fields import Finding
from muster.api.jobset_v1alpha2 import JobSet
from muster.api.kinds import (
    BATCH_JOB,
    BY_NAME,
    CEDAR_POLICY,
    EMITTED,
    GANG,
    JOB,
    JOBSET,
    NODE,
    TRUST_POLICY,
)
from muster.api.muster_v1alpha1 import BatchJob, BatchJobStatus, CedarPolicy, TrustPolicy
from muster.compiler.draft import joined, shared
from muster.controllers import batch_grant, batch_run, batch_watches
from muster.controllers.batch_grant import Grant
from muster.controllers.batch_run import Run
from muster.controllers.caches import Cache, Caches
from muster.controllers.driver import Controller, Signal, Watch, controlled_by
from muster.effects import Absent, Create, Delete, Effect, Patch, RecordEvent, Refusal, Requeue

#: Kinds that outlive a run, because they hold its data: the BatchJob owns them.
_KEPT: Final = ("PersistentVolumeClaim",)
_KINDS: Final = {**BY_NAME, **{(kind.api_version, kind.kind): kind for kind in EMITTED}}
#: The kind that a target adds besides the run; the run owns it.
#: Phases of a job that is over.
ENDED: Final = ("Succeeded", "Failed")
#: Fields of a Gang's `status.preemptions` that a BatchJob's status repeats.
_OF_EVICTION: Final = ("by", "at", "gpuHoursLost", "costLost")
#: Most findings in a status, and most characters of a field and of other texts.
_SHOWN: Final = 100
_FIELD: Final = 1_000
_TEXT: Final = 2_000


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a BatchJob is compiled to. If there are findings, nothing may be applied."""

    #: changes whenever the objects do
    hash: str = ""
    support: Sequence[Object] = ()
    jobs: Sequence[Object] = ()
    findings: Sequence[Finding] = ()
    #: findings that do not keep the job from running
    warnings: Sequence[Finding] = ()
    #: when compiling may give another result without any change; None = never
    until: datetime | None = None
    #: (image, digest) of the images that have been looked up
    images: Sequence[tuple[str, str]] = ()
    #: what keeps muster from deciding now; "" if it has decided
    undecided: str = ""
    #: whether the findings are about a job that cannot be read, so that no policy was asked
    unread: bool = False
    #: what an hour of the job costs; None = not known
    cost: Object | None = None
    #: what preemption may cost the job
    risk: str = ""


#: Compiles a job under these policies, with what objects of the cluster declare (`muster.compiler.declared`),
#: and the nodes. None = a signal tells when that is known. The objects are the same list until one changes.
Compile = Callable[
    [BatchJob, Sequence[CedarPolicy], Sequence[TrustPolicy], Sequence[Object], Cache[Node]], Compiled | None
]


@dataclass(frozen=True, slots=True)
class Observed:
    job: BatchJob
    #: the run with the job's name, whatever its owner
    run: Run | None
    compiled: Compiled
    #: what the job that the run was compiled from is compiled to now
    granted: Compiled
    #: hash of what the run was compiled to; "" = not known
    hash: str = ""
    #: the Jobs of a JobSet
    jobs: Sequence[Job] = ()
    #: its last eviction, an entry of a Gang's `status.preemptions`
    preemption: Object | None = None
    #: what is wrong with GPUs of the nodes on which it runs, and with what its ranks report
    gpu_health: str = ""
    progress: str = ""
    #: warning that it has run for long without a checkpoint and may be evicted; "" = none
    unsaved: str = ""
    #: why it can never start as things are; "" if it can
    invalid: str = ""


def controller(compile_: Compile, changed: tuple[Signal, ...], target: str) -> Controller[Observed]:
    """Returns the controller for the driver.

    `changed` are sent when `compile_` may return something else. `target`: the target of the compiler.
    """
    kind = batch_run.KINDS[target]
    declaring = batch_watches.Declaring()

    def observe(caches: Caches, key: str) -> Observed | None:
        job = caches[BATCH_JOB].get(key)
        if job is None or job.metadata.deletion_timestamp is not None or job.status.phase in ENDED:
            return None
        policies, trusted = _sorted(caches[CEDAR_POLICY]), _sorted(caches[TRUST_POLICY])
        declared = declaring.objects(caches)
        gangs = caches[GANG].by(batch_watches.OF_JOBSET, key)
        entries = [entry for gang in gangs for entry in gang.status.preemptions]
        last = max(entries, key=lambda entry: str(entry.get("at")), default=None)
        run: Run | None = caches[kind].get(key)
        if _scheduled(job) and (run is None or not _ours(job, run)):
            return None  # its runs are BatchJobs of their own (`muster.controllers.cron`)
        jobs = caches[JOB].owned_by(run) if isinstance(run, JobSet) else []
        compiled = granted = compile_(job, policies, trusted, declared, caches[NODE])
        grant = batch_grant.read(job, run) if run is not None else Grant()
        if grant.job is not None and batch_grant.written(grant.job) != batch_grant.written(job):
            granted = compile_(grant.job, policies, trusted, declared, caches[NODE])
        if compiled is None or granted is None:
            return None  # it is being compiled
        if grant.job is not None and granted.unread:
            # an earlier version has read it: what this one refuses to read, no policy has denied
            told = f"policies are not asked about it, since it cannot be read any more: {_summary(granted)}"
            granted = replace(granted, findings=(), undecided=told)
        return Observed(
            job,
            run,
            compiled,
            granted,
            grant.hash,
            jobs,
            last,
            *batch_watches.ill(gangs),
            batch_watches.invalid(gangs),
        )

    watches = (
        Watch(BATCH_JOB, batch_watches.asked),
        Watch(kind, controlled_by(BATCH_JOB)),
        Watch(JOB, controlled_by(JOBSET)),  # a run has the name of its BatchJob
        *batch_watches.OTHERS,
    )
    return Controller("batchjob", watches, observe, reconcile, batch_watches.INDEXES, signals=changed)


def _sorted(cache: Cache[R]) -> list[R]:
    return [cache.items[key] for key in sorted(cache.items)]


def reconcile(observed: Observed, now: datetime) -> list[Effect]:
    effects = _decide(observed, now)
    until = min(filter(None, (observed.compiled.until, observed.granted.until)), default=None)
    return effects if until is None else [*effects, Requeue(until)]


def _decide(observed: Observed, now: datetime) -> list[Effect]:
    job, run, compiled = observed.job, observed.run, observed.compiled
    if run is not None and not _ours(job, run):
        name = f"{batch_run.kind_of(run).kind} {run.metadata.name}"
        told = f"{name} exists, and this BatchJob does not own it; delete or rename one of the two"
        return _status(job, now, "Pending", told)
    applied = run.metadata.annotations.get(names.COMPILED) if run is not None else None
    started = run is not None and bool(applied) and not batch_run.waits(run)
    deciding = observed.granted if started else compiled
    gone: list[Effect] = [_deleted(run)] if run is not None else []
    if _scheduled(job):
        return gone if deciding.findings or not started else []  # the status is the schedule's
    if deciding.findings:
        return [*gone, *_status(job, now, "Pending", _summary(deciding), deciding)]
    if compiled.undecided and not applied:
        return _status(job, now, "Pending", compiled.undecided, compiled)
    refused = partial(_refused, job, now, compiled)
    if run is None:
        made, needed = _parts(compiled)
        granted = batch_grant.note(job, compiled.hash, compiled.images, made)
        first = batch_run.first(made, granted)
        first["metadata"]["ownerReferences"] = [owner(job, BATCH_JOB)]
        return [
            *(
                Absent(_kind(each), job.metadata.namespace, each["metadata"]["name"], "", refused(each))
                for each in batch_run.must_not_exist(made, needed)
            ),
            Create(_kind(made), job.metadata.namespace, first, refused(made)),
            *_status(job, now, "Pending", "compiled", compiled),
        ]
    if run.metadata.deletion_timestamp is not None:
        return []
    if not started and not compiled.undecided and (applied or observed.hash) != compiled.hash:
        return gone
    if not applied:
        final, needed = _parts(compiled)
        created = [
            Create(
                _kind(each),
                job.metadata.namespace,
                _owned(job, run, each),
                refused=refused(each),
                join=joined if shared(each) else None,
            )
            for each in needed
        ]
        return [*created, replace(batch_run.released(run, final, compiled.hash), refused=refused(final))]
    return _of_run(observed, run, now)


def _parts(compiled: Compiled) -> tuple[Object, Sequence[Object]]:
    """Returns the run, and the objects that its pods need; a PodGroup is one of them."""
    kinds = [(kind.api_version, kind.kind) for kind in batch_run.KINDS.values()]
    [run] = [each for each in compiled.jobs if (each["apiVersion"], each["kind"]) in kinds]
    return run, batch_run.order([*compiled.support, *(each for each in compiled.jobs if each is not run)])


def _of_run(observed: Observed, run: Run, now: datetime) -> list[Effect]:
    """Returns the status of a BatchJob whose run the scheduler may start, or has started."""
    job, compiled, evicted = observed.job, observed.compiled, observed.preemption
    at = batch_run.progress(run, observed.jobs)
    message = at.message
    if at.phase == "Pending":
        message = message if evicted is None else f"{_evicted(evicted, run)}; waits to start again"
        message = f"{message}: {observed.invalid}" if observed.invalid else message
        message = f"{message}; {compiled.undecided}" if compiled.undecided else message
    else:
        denied = compiled.findings if at.phase == "Running" else ()
        if observed.granted.unread:
            message += f"; {observed.granted.undecided}"
        elif denied:
            message += f" as before the last change, which is denied: {_summary(compiled)}"
        compiled = replace(observed.granted, findings=denied, images=compiled.images)
    return _status(job, now, at.phase, message, compiled, at.tasks, observed)


def _status(
    job: BatchJob,
    now: datetime,
    phase: str,
    message: str,
    compiled: Compiled | None = None,
    tasks: Sequence[Object] = (),
    observed: Observed | None = None,
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
        "cost": compiled.cost,
        "risk": compiled.risk,
    }
    if not compiled.undecided or old.observed_generation != meta.generation:
        status["images"] = [{"image": image, "digest": digest} for image, digest in compiled.images]
    if observed is not None:
        status["gpuHealth"], status["progress"] = observed.gpu_health, observed.progress
        if observed.unsaved:
            status["warnings"] += _told([Finding((), observed.unsaved)])
    if observed is not None and (evicted := observed.preemption) is not None:
        told = {field: str(evicted[field]) for field in _OF_EVICTION if field in evicted}
        status["preemption"] = {"gpuHoursLost": "", "costLost": "", **told}
    if msgspec.convert({**msgspec.to_builtins(old), **status}, BatchJobStatus) == old:
        return []
    moment = now.isoformat().replace("+00:00", "Z")
    if old.start_time is None and phase == "Running":
        status["startTime"] = moment
    if phase in ENDED:
        status["completionTime"] = moment
    effects: list[Effect] = [Patch(BATCH_JOB, meta.namespace, meta.name, {"status": status}, "status")]
    if (old.phase, old.message) != (phase, message):
        effects.append(announced(involved(job, BATCH_JOB), phase, message, bool(compiled.findings)))
    return effects


def announced(about: Object, phase: str, message: str, denied: bool) -> RecordEvent:
    """Returns the Event of a job's new phase or message."""
    type_: Literal["Normal", "Warning"] = "Warning" if denied or phase == "Failed" else "Normal"
    return RecordEvent(about, type_, "Denied" if denied else phase, message)


def _evicted(entry: Object, run: Run) -> str:
    """Returns a message such as `task workers preempted by higher-priority job ml/urgent`."""
    named = batch_run.tasks_of(run)
    tasks = f"task{'s' * (len(named) != 1)} {', '.join(named)}"
    if entry.get("kind") == "reclaim":
        return f"{tasks} preempted by job {entry.get('by')}, whose queue is within its share"
    return f"{tasks} preempted by higher-priority job {entry.get('by')}"


def _told(findings: Sequence[Finding]) -> list[Object]:
    """Returns the findings for the status, cut short: an API server stores no object of more than 1.5 MiB."""
    told: list[Object] = [
        {
            "field": _cut(each.field, _FIELD),
            "message": _cut(each.message, _TEXT),
            "fix": _cut(each.fix, _TEXT),
        }
        for each in findings[:_SHOWN]
    ]
    if len(findings) > _SHOWN:
        told.append({"field": "", "message": f"and {len(findings) - _SHOWN} more", "fix": ""})
    return told


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def refusal(kind: str, name: str, words: str) -> str:
    """Returns the message of an object that the server refuses with these words."""
    about = f"{kind} {name}"
    return _cut(words if words.startswith(about) else f"{about}: {words}", _TEXT)


def _refused(job: BatchJob, now: datetime, compiled: Compiled, made: Object) -> Refusal:
    """Returns what tells of an object that the server refuses: the status, and one Event however often."""

    def told(words: str) -> Sequence[Effect]:
        message = refusal(made["kind"], made["metadata"]["name"], words)
        status = [each for each in _status(job, now, "Pending", message, compiled) if isinstance(each, Patch)]
        about, once = involved(job, BATCH_JOB), str(job.metadata.generation)
        return [*status, RecordEvent(about, "Warning", "Refused", message, once)]

    return told


def _summary(compiled: Compiled) -> str:
    first = _cut(compiled.findings[0].message, _TEXT)
    more = len(compiled.findings) - 1
    return first if not more else f"{first} (and {more} more: see status.findings)"


def _owned(job: BatchJob, run: Run, made: Object) -> Object:
    """Returns the object with its owner: the run, or the BatchJob for a claim, whose data outlives a run.

    An object that the jobs of a namespace share belongs to all their runs, and goes with the last of them.
    """
    if made["kind"] not in groups.NAMES_OF_NAMED and shared(made):
        one = owner(run, batch_run.kind_of(run), controller=False) | {"blockOwnerDeletion": False}
        return {**made, "metadata": {**made["metadata"], "ownerReferences": [one]}}
    by = owner(job, BATCH_JOB) if made["kind"] in _KEPT else owner(run, batch_run.kind_of(run))
    return {**made, "metadata": {**made["metadata"], "ownerReferences": [by]}}


def _deleted(run: Run) -> Delete:
    meta = run.metadata
    return Delete(batch_run.kind_of(run), meta.namespace, meta.name, meta.uid)


def _scheduled(job: BatchJob) -> bool:
    return bool(job.spec.get("schedule"))


def _ours(job: BatchJob, run: Run) -> bool:
    return any(each.uid == job.metadata.uid for each in run.metadata.owner_references)


def _kind(made: Object) -> AnyKind:
    return _KINDS[(made["apiVersion"], made["kind"])]
