"""Keeps a BatchJob for each LatticeJob: it has the same name, and the LatticeJob owns it.

A LatticeJob has the schema of a BatchJob, so only its header is converted; what is wrong with its spec is in
the BatchJob's findings. The LatticeJob's status repeats the BatchJob's. A job that has ended stays ended:
neither a change of the LatticeJob nor the deletion of its BatchJob starts it again.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import partial

import msgspec
from msgspec.structs import replace

from muster.api.base import AnyKind, Object, Resource, controller_of, involved, owner
from muster.api.kinds import BATCH_JOB, LATTICE_JOB
from muster.api.muster_v1alpha1 import BatchJob, BatchJobStatus, LatticeJob
from muster.controllers.batch_grant import written
from muster.controllers.batch_job import ENDED, announced, refusal
from muster.controllers.batch_watches import asked
from muster.controllers.caches import Caches
from muster.controllers.driver import Controller, Watch, itself
from muster.effects import Create, Effect, Patch, RecordEvent


@dataclass(frozen=True, slots=True)
class Observed:
    job: LatticeJob
    #: the BatchJob with the job's name, whatever its owner
    kept: BatchJob | None


def controller() -> Controller[Observed]:
    """Returns the controller for the driver."""

    def observe(caches: Caches, key: str) -> Observed | None:
        job = caches[LATTICE_JOB].get(key)
        if job is None or job.metadata.deletion_timestamp is not None or job.status.phase in ENDED:
            return None
        return Observed(job, caches[BATCH_JOB].get(key))

    watches = (Watch(LATTICE_JOB, asked), Watch(BATCH_JOB, itself))
    return Controller("latticejob", watches, observe, reconcile)


def reconcile(observed: Observed, now: datetime) -> list[Effect]:
    job, kept = observed.job, observed.kept
    meta = job.metadata
    if kept is None:
        body = written(job)
        body["metadata"]["ownerReferences"] = [owner(job, LATTICE_JOB)]
        return [Create(BATCH_JOB, meta.namespace, body, partial(_refused, job))]
    by = controller_of(kept)
    if by is None or by.uid != meta.uid:
        why = f"BatchJob {meta.name} exists, and this LatticeJob does not own it; delete one of the two"
        return _status(job, BatchJobStatus(phase="Pending", message=why, observed_generation=meta.generation))
    if kept.metadata.deletion_timestamp is not None:
        return []
    status = kept.status
    if status.phase not in ENDED and _encoded(written(kept)) != _encoded(written(job)):
        to = written(job)
        marks = {f"/metadata/{each}": to["metadata"][each] for each in ("labels", "annotations")}
        return [_replaced(BATCH_JOB, kept, {**marks, "/spec": to["spec"]})]
    if not status.phase:
        return []  # it has not been decided on yet
    decided = status.observed_generation == kept.metadata.generation
    seen = meta.generation if decided else job.status.observed_generation
    return _status(job, replace(status, observed_generation=seen))


def _refused(job: LatticeJob, words: str) -> list[Effect]:
    """Returns what tells of a BatchJob that the server refuses."""
    meta, message = job.metadata, refusal(BATCH_JOB.kind, job.metadata.name, words)
    status = BatchJobStatus(phase="Pending", message=message, observed_generation=meta.generation)
    event = RecordEvent(
        involved(job, LATTICE_JOB), "Warning", "Refused", message, str(job.metadata.generation)
    )
    return [*(each for each in _status(job, status) if isinstance(each, Patch)), event]


def _status(job: LatticeJob, status: BatchJobStatus) -> list[Effect]:
    """The patch that brings the status up to date, and an Event if the phase or the message changes."""
    old = job.status
    if status == old:
        return []
    effects: list[Effect] = [_replaced(LATTICE_JOB, job, {"/status": msgspec.to_builtins(status)}, "status")]
    if (old.phase, old.message) != (status.phase, status.message):
        about = involved(job, LATTICE_JOB)
        effects.append(announced(about, status.phase, status.message, bool(status.findings)))
    return effects


def _replaced(kind: AnyKind, resource: Resource, fields: Object, subresource: str = "") -> Patch:
    """Returns the patch that replaces whole fields, by path; a merge patch would keep keys that are gone."""
    meta = resource.metadata
    body: list[Object] = [{"op": "test", "path": "/metadata/uid", "value": meta.uid}]
    body += [{"op": "add", "path": path, "value": value} for path, value in fields.items()]
    return Patch(kind, meta.namespace, meta.name, body, subresource)


def _encoded(value: Object) -> bytes:
    """JSON whose text is the same if the values are; in Python, `1` equals `True`."""
    return msgspec.json.encode(value, order="sorted")
