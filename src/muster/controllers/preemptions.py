"""The Preemption controller: keeps a record of each eviction that outlives the job.

A Gang says in `status.preemptions` which gang evicted it, when, and what was lost; it is deleted with its
job. This controller copies each entry into a Preemption. The record's name is derived from the gang's uid,
the preemptor and the time, so a crash cannot make a second record: its name exists already. `muster usage`
adds up the records each time it runs, so there is no counter that could be wrong.

A record is kept for `KEPT`, and at most the newest `MOST` of each namespace are kept.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from muster.api.base import Object
from muster.api.kinds import GANG, PREEMPTION
from muster.api.muster_v1alpha1 import Gang, Preemption, PreemptionSpec
from muster.controllers.caches import Caches, Index
from muster.controllers.driver import Change, Controller, Watch
from muster.effects import Create, Delete, Effect, Requeue

#: How long a record is kept.
KEPT: Final = timedelta(weeks=26)
#: Most records in a namespace.
MOST: Final = 1000
#: Index of gangs with preemptions, and of records, by namespace.
NAMESPACE: Final = "preempted in"
#: Longest name of a gang in a record's name; the hash makes the name unique.
_LONGEST: Final = 200


@dataclass(frozen=True, slots=True)
class Observed:
    """One namespace: its gangs that were preempted, and the records."""

    namespace: str
    gangs: tuple[Gang, ...]
    records: tuple[Preemption, ...]


def controller() -> Controller[Observed]:
    """Returns the controller for the driver; its keys are namespaces."""
    indexes = (
        Index(GANG, NAMESPACE, lambda gang: [gang.metadata.namespace] if gang.status.preemptions else []),
        Index(PREEMPTION, NAMESPACE, lambda record: [record.metadata.namespace]),
    )
    watches = (Watch(GANG, _preempted), Watch(PREEMPTION, _namespace))
    return Controller("preemption", watches, observe, reconcile, indexes)


def observe(caches: Caches, key: str) -> Observed | None:
    gangs = sorted(caches[GANG].by(NAMESPACE, key), key=lambda gang: gang.metadata.name)
    records = sorted(caches[PREEMPTION].by(NAMESPACE, key), key=lambda record: record.metadata.name)
    return Observed(key, tuple(gangs), tuple(records)) if gangs or records else None


def reconcile(observed: Observed, now: datetime) -> list[Effect]:
    there = {record.metadata.name: record for record in observed.records}
    wanted = {record.metadata.name: record.spec for record in observed.records}
    wanted |= {name: spec for gang in observed.gangs for name, spec in entries(gang)}
    due = {name: _at(spec, now) + KEPT for name, spec in wanted.items()}
    newest = sorted(wanted, key=lambda name: (due[name], name), reverse=True)[:MOST]
    kept = [name for name in newest if due[name] > now]
    effects: list[Effect] = [
        Create(PREEMPTION, observed.namespace, _record(name, wanted[name]))
        for name in sorted(kept)
        if name not in there
    ]
    for name in sorted(there.keys() - set(kept)):
        effects.append(Delete(PREEMPTION, observed.namespace, name, there[name].metadata.uid))
    return [*effects, Requeue(min(due[name] for name in kept))] if kept else effects


def last_records(gang: Gang, now: datetime) -> list[Effect]:
    """Returns the creations of a gang's records, for execution before the gang is gone."""
    return [
        Create(PREEMPTION, gang.metadata.namespace, _record(name, spec), best_effort=True)
        for name, spec in entries(gang)
        if _at(spec, now) + KEPT > now
    ]


def entries(gang: Gang) -> list[tuple[str, PreemptionSpec]]:
    """Returns the records of the entries of a gang's status, by name; ignores entries that it cannot read."""
    meta, source = gang.metadata, gang.spec.source
    found = []
    for entry in gang.status.preemptions:
        about = {"gang": meta.name, "job": f"{source.kind} {source.name}", "queue": gang.spec.queue}
        try:
            spec = msgspec.convert({**entry, **about}, PreemptionSpec)
        except msgspec.ValidationError:
            continue
        identity = f"{meta.uid} {spec.by} {entry.get('at')}"
        suffix = hashlib.sha256(identity.encode()).hexdigest()[:12]
        found.append((f"{meta.name[:_LONGEST]}-{suffix}", spec))
    return found


def _at(spec: PreemptionSpec, now: datetime) -> datetime:
    """Returns the time of the eviction, at most now: a later time would keep the record for longer."""
    return min(spec.at or now, now)


def _record(name: str, spec: PreemptionSpec) -> Object:
    return {"metadata": {"name": name}, "spec": msgspec.to_builtins(spec)}


def _preempted(change: Change) -> list[str]:
    old = change.old.status.preemptions if change.old is not None else []
    new = change.new.status.preemptions if change.new is not None else []
    return [change.new.metadata.namespace] if new and new != old else []


def _namespace(change: Change) -> list[str]:
    return [change.objects[-1].metadata.namespace]
