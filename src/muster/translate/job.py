"""Reads Jobs (`batch/v1`) as gangs, and assembles the gang of any object with `spec.suspend`.

A Job has p = min(parallelism, completions) places. Its demand is known from its template, before
any pod exists.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from muster import names
from muster.api.base import Kind, Resource, controller_of, mark
from muster.api.batch_v1 import CONTROLLER_UID, JOB_NAME, LEGACY_CONTROLLER_UID, LEGACY_JOB_NAME, Job
from muster.api.core_v1 import Pod
from muster.api.jobset_v1alpha2 import JobSet
from muster.api.kinds import JOB, JOBSET
from muster.api.muster_v1alpha1 import Source
from muster.core.words.gang import MOST_PLACES, Code, Gang, GangId, Gate, PodSet
from muster.translate import marks, network
from muster.translate.demand import Part, asks_for_gang, demand
from muster.translate.filling import Block, Filled, job_finished
from muster.translate.group import NONE_MOVED, Group, Owner, ReadGroup, Touched
from muster.translate.identity import GroupKey
from muster.translate.priority import chosen
from muster.translate.running import limit_of_all, marked, reported, run
from muster.translate.surroundings import Made
from muster.translate.world import World

#: The pod set of a Job that is a gang of its own.
MAIN: Final = "main"


class Reader:
    """Reads a Job that is a gang: requested by `muster.dev/gang`, on itself or on its namespace."""

    def __init__(self, key: GroupKey, world: World) -> None:
        self._key, self._world = key, world
        self._filled = Filled(key.namespace, world)

    def read(self, touched: Touched) -> ReadGroup:
        key, world, filled = self._key, self._world, self._filled
        job = world.jobs.get((key.namespace, key.name))
        if job is None or not is_gang(job, world):
            return None, NONE_MOVED
        asks = demand(job.spec, world, Made(key.namespace, _added(job)))
        if asks.places <= MOST_PLACES:
            filled.take(job, Block(MAIN, 0, asks.places))
        else:
            filled.forget(key.name)
        for name in touched.pods:
            filled.note(name)
        moved = filled.settle()
        controller = controller_of(job)
        owner = owner_of(job, JOB) if controller is None else None
        group = assemble(
            key,
            job,
            JOB,
            {MAIN: Part(asks, 1)},
            filled,
            owner,
            job.spec.suspend,
            world,
            finished=job_finished(job),
        )
        return group, moved

    def renew(self, pod: Pod) -> None:
        self._filled.renew(pod)


def is_gang(job: Job, world: World) -> bool:
    """Whether a Job is a gang of its own. A Job of a JobSet belongs to the JobSet's gang."""
    controller = controller_of(job)
    if controller is not None and controller.kind == JOBSET.kind:
        return False
    return asks_for_gang(job.metadata, [job.spec.template], world)


def _added(job: Job) -> dict[str, str]:
    """Returns the labels that the Job controller adds to its pods."""
    return {
        JOB_NAME: job.metadata.name,
        LEGACY_JOB_NAME: job.metadata.name,
        CONTROLLER_UID: job.metadata.uid,
        LEGACY_CONTROLLER_UID: job.metadata.uid,
    }


def owner_of(resource: Job | JobSet, kind: Kind[Any]) -> Owner:  # Any: Job or JobSet
    meta = resource.metadata
    return Owner(
        kind=kind,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        suspended=resource.spec.suspend,
        admission=mark(meta, names.ADMISSION) == "gang",
    )


def assemble(
    key: GroupKey,
    source: Resource,
    kind: Kind[Any],  # Any: Job or JobSet
    parts: dict[str, Part],
    filled: Filled,
    owner: Owner | None,
    suspended: bool,
    world: World,
    *,
    finished: bool,
    order: Gate | None = None,
    limit: float | None = None,
) -> Group:
    """Returns the gang of a Job, a JobSet or one stage of it.

    `order`: the gate if another stage starts first. `limit`: seconds after which the whole gang is ended, if
    its Jobs are not ended before.
    """
    meta = source.metadata
    total = sum(part.count for part in parts.values())
    topology = network.wish([meta], (network.rules(part.demand.metadata) for part in parts.values()), world)
    queue, quarrel = marks.queue([meta], (marks.own_queue(part.demand.metadata) for part in parts.values()))
    number = chosen([meta], world)
    gate = (
        marks.refusal(meta)
        or (number if isinstance(number, Gate) else None)
        or quarrel
        or topology.refusal
        or _refused(parts, total)
        or marks.hold(meta)
        or _suspended(owner, suspended)
        or _gated(parts, filled, suspended)
        or order
        or (None if owner and owner.admission else _missing(total, filled))
    )
    uncreated = _uncreated(parts, filled)
    forbidden = (parts[name].demand.forbidden for name, count in uncreated.items() if count)
    gate = gate or next(filter(None, forbidden), None)
    # a gang that cannot be planned anyway must not cost arrays of that size
    sets = {name: part for name, part in parts.items() if part.count} if total <= MOST_PLACES else {}
    gang = Gang(
        id=GangId("/".join(filter(None, (key.namespace, key.name, key.stage)))),
        pod_sets=tuple(
            PodSet(
                name,
                part.demand.shape,
                part.count,
                part.count,
                labels=part.demand.labels,
                uncreated=uncreated[name] if part.demand.quotas else 0,
                quotas=part.demand.quotas,
            )
            for name, part in sets.items()
        ),
        # a gang with minimum 0 would get no reason why it waits
        min_count=sum(part.count for part in sets.values())
        or int(gate is not None and gate.code is Code.INVALID),
        submitted=meta.creation_timestamp.timestamp() if meta.creation_timestamp else 0.0,
        # the highest: a gang must not be preempted through its least important member
        priority=number
        if isinstance(number, int)
        else max((part.demand.priority for part in parts.values()), default=0),
        queue=queue,
        gate=gate,
        namespace=key.namespace,
        preempts=all(part.demand.preempts for part in parts.values()),
        limit=_sooner(limit, limit_of_all(part.demand.limit for part in sets.values())),
    )
    gang = marked(topology.of(gang), run(meta), (run(part.demand.metadata) for part in parts.values()))
    return Group(
        gang=reported(gang, filled.members.saved.values()),
        namespace=key.namespace,
        record=key.record,
        source=Source(api_version=kind.api_version, kind=kind.kind, name=meta.name, uid=meta.uid),
        owner=owner,
        members=filled.members,
        retired=frozenset(filled.retired),
        finished=finished,
        controlled=True,
        leaving=filled.leaving,
        warnings=topology.warnings,
    )


def _refused(parts: dict[str, Part], total: int) -> Gate | None:
    for name, part in parts.items():
        if part.demand.refusal is not None:
            gate = part.demand.refusal
            return gate if name == MAIN else replace(gate, message=f"{name}: {gate.message}")
    if total > MOST_PLACES:
        return Gate(Code.INVALID, f"{total} pods at once; muster plans at most {MOST_PLACES} for one gang")
    return None


def _suspended(owner: Owner | None, suspended: bool) -> Gate | None:
    if suspended and not (owner and owner.admission):
        return Gate(Code.GATED, "spec.suspend is true; set it to false to let it start")
    return None


def _gated(parts: dict[str, Part], filled: Filled, suspended: bool) -> Gate | None:
    """Returns the gate for scheduling gates on its pods, or on the template of pods that do not exist yet."""
    gates, where = set(filled.gates.values()), ""
    if suspended and not gates:
        gates, where = {part.demand.gates for part in parts.values()} - {""}, " from its template"
    if not gates:
        return None
    named = ", ".join(sorted(gates))
    return Gate(Code.GATED, f"scheduling gate {named}; it must be removed{where}")


def _uncreated(parts: Mapping[str, Part], filled: Filled) -> dict[str, int]:
    """Returns, by pod set, the number of places whose pod is still to be created."""
    return {
        name: max(part.count - filled.placed[name] - filled.over[name], 0) for name, part in parts.items()
    }


def _missing(total: int, filled: Filled) -> Gate | None:
    """Gates the gang until all its pods exist. Once one is bound, places wait for their replacements."""
    if filled.bound:
        return None
    there = filled.placed.total() + len(filled.retired)
    if there >= total:
        return None
    return Gate(Code.MEMBERS_MISSING, f"{there} of {total} pods exist")


def _sooner(one: float | None, other: float | None) -> float | None:
    return min((limit for limit in (one, other) if limit is not None), default=None)
