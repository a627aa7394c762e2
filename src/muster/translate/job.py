"""Reads Jobs (`batch/v1`) as gangs, and assembles the gang of any object with `spec.suspend`.

A Job has p = min(parallelism, completions) places. Its demand is known from its template, before
any pod exists.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from muster import names
from muster.api import foreign_marks
from muster.api.base import Kind, at, controller_of, mark
from muster.api.batch_v1 import CONTROLLER_UID, JOB_NAME, LEGACY_CONTROLLER_UID, LEGACY_JOB_NAME, Job
from muster.api.core_v1 import Pod
from muster.api.groups import Dialect
from muster.api.jobset_v1alpha2 import JobSet
from muster.api.kinds import JOB, JOBSET
from muster.api.muster_v1alpha1 import Source
from muster.api.named_queue import stated_queue
from muster.api.times import seconds
from muster.core.words.gang import MOST_PLACES, Code, Gang, GangId, Gate, PodSet, Shape
from muster.translate import common_shape, marks, network
from muster.translate.demand import Part, asks_for_gang, demand
from muster.translate.filling import Block, Filled, job_finished
from muster.translate.group import NONE_MOVED, Group, Owner, ReadGroup, Touched
from muster.translate.identity import GroupKey
from muster.translate.pods import Asked
from muster.translate.priority import ranked
from muster.translate.registration import Registration
from muster.translate.running import limit_of_all, marked, reported, run
from muster.translate.surroundings import Made
from muster.translate.world import World

#: Most ways in which the waiting pods of one pod set may differ in what they ask of a node.
MOST_WAYS: Final = 32

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
        if asks.refusal is None and _scheduled(job):
            told = f"spec.scheduling makes it a gang of Kubernetes' own, and {names.GANG} one of muster's"
            asks = replace(asks, refusal=Gate(Code.INVALID, f"{told}; take one away"))
        if asks.places <= MOST_PLACES:
            filled.take(job, Block(MAIN, 0, asks.places))
        else:
            filled.forget(key.name)
        if touched.others:
            filled.ask_again(touched.others)
        for name in touched.pods:
            filled.note(name)
        moved = filled.settle()
        controller = controller_of(job)
        owner = owner_of(job, JOB) if controller is None else None
        read = GroupObject(key, job, JOB, owner, job_finished(job))
        return assemble(read, {MAIN: Part(asks, 1)}, filled, world), moved

    def renew(self, pod: Pod) -> None:
        self._filled.renew(pod)


def _exists(_: Dialect, namespace: str, name: str, world: World) -> bool:
    return (job := world.jobs.get((namespace, name))) is not None and is_gang(job, world)


REGISTRATION: Final = Registration(Reader, _exists)


def is_gang(job: Job, world: World) -> bool:
    """Whether a Job is a gang of its own. A Job of a JobSet belongs to the JobSet's gang."""
    controller = controller_of(job)
    if controller is not None and JOBSET.matches(controller):
        return False
    if _scheduled(job) and marks.own_gang(job.metadata) is None:
        return False  # its namespace's mark does not count: a group of its own is made for it
    return asks_for_gang(job.metadata, [job.spec.template], world)


def _scheduled(job: Job) -> bool:
    """Whether the Job controller makes a gang of Kubernetes' own of its pods."""
    return controller_of(job) is None and "gang" in at(job.spec.scheduling or {}, "schedulingPolicy")


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


@dataclass(frozen=True, slots=True)
class GroupObject:
    """A Job or a JobSet that is a gang, or of which a stage is one."""

    key: GroupKey
    resource: Job | JobSet
    kind: Kind[Any]  # Any: Job or JobSet
    #: None: a controller above it decides when it starts
    owner: Owner | None
    finished: bool

    @property
    def suspended(self) -> bool:
        return self.resource.spec.suspend

    @property
    def admission(self) -> bool:
        """Whether muster may unsuspend it."""
        return self.owner is not None and self.owner.admission


def assemble(
    read: GroupObject,
    parts: dict[str, Part],
    filled: Filled,
    world: World,
    *,
    order: Gate | None = None,
    limit: float | None = None,
) -> Group:
    """Returns the gang of a Job, a JobSet or one stage of it.

    `order`: the gate if another stage starts first. `limit`: seconds after which the whole gang ends, if
    its Jobs are not ended before.
    """
    key, meta = read.key, read.resource.metadata
    rules = {name: network.rules(part.demand.metadata) for name, part in parts.items() if part.count}
    topology = network.wish(network.rules(meta), rules, world)
    of_pods = (stated_queue(part.demand.metadata) for part in parts.values())
    queue, quarrel = marks.queue([stated_queue(meta)], of_pods, meta.namespace, world)
    # the highest: a gang must not be preempted through its least important member
    highest = max((part.demand.priority for part in parts.values()), default=0)
    rank = ranked([meta], highest, meta.namespace, queue, world)
    uncreated = _uncreated(parts, filled)
    gate = (
        marks.refusal(meta)
        or rank.refusal
        or quarrel
        or topology.refusal
        or _gate(read, parts, filled, uncreated, order)
    )
    pod_sets = _pod_sets(parts, filled, uncreated)
    gang = Gang(
        id=GangId("/".join(filter(None, (key.namespace, key.name, key.stage)))),
        pod_sets=pod_sets,
        # a gang with minimum 0 would get no reason why it waits
        min_count=sum(pod_set.count for pod_set in pod_sets)
        or int(gate is not None and gate.code is Code.INVALID),
        submitted=seconds(meta.creation_timestamp),
        priority=rank.number,
        queue=queue,
        gate=gate,
        namespace=key.namespace,
        preempts=rank.preempts and all(part.demand.preempts for part in parts.values()),
        limit=_sooner(limit, limit_of_all(parts[pod_set.name].demand.limit for pod_set in pod_sets)),
    )
    gang = marked(topology.of(gang), run(meta), (run(part.demand.metadata) for part in parts.values()))
    kind = read.kind
    return Group(
        gang=reported(gang, filled.members.saved.values()),
        namespace=key.namespace,
        record=key.record,
        source=Source(api_version=kind.api_version, kind=kind.kind, name=meta.name, uid=meta.uid),
        owner=read.owner,
        members=filled.members,
        retired=frozenset(filled.retired),
        finished=read.finished,
        controlled=True,
        leaving=filled.leaving,
        lease=world.lease,
        warnings=(*rank.warnings, *topology.warnings, *_foreign(read.resource, parts)),
    )


def _foreign(resource: Job | JobSet, parts: Mapping[str, Part]) -> tuple[str, ...]:
    """Returns what it says of marks of other schedulers, on itself and on its templates."""
    found = [*marks.foreign(resource)]
    for part in parts.values():
        found += foreign_marks.of(part.demand.metadata, "Pod")
    return foreign_marks.sentences(found)


def _pod_sets(parts: dict[str, Part], filled: Filled, uncreated: Mapping[str, int]) -> tuple[PodSet, ...]:
    """Returns none if there are too many pods: a gang that is refused anyway must not cost such arrays."""
    if sum(part.count for part in parts.values()) > MOST_PLACES:
        return ()
    return tuple(
        PodSet(
            name,
            _shape(part.demand.shape, filled.asks.get(name, {}), uncreated[name]),
            part.count,
            part.count,
            labels=part.demand.labels,
            uncreated=uncreated[name] if part.demand.quotas else 0,
            quotas=part.demand.quotas,
        )
        for name, part in parts.items()
        if part.count
    )


def _shape(template: Shape, asks: Mapping[Asked, int], uncreated: int) -> Shape:
    """Returns what the places that are to be filled ask for: as their pods say, or else their template.

    Pods may differ from their template: admission has changed them, or the template has changed since.
    """
    if len(asks) > MOST_WAYS:  # the gang is refused
        return template
    own = frozenset(common_shape.as_created(one.shape, template) for one in asks)
    return common_shape.all_of(own | {template} if uncreated or not own else own)


def _gate(
    read: GroupObject,
    parts: dict[str, Part],
    filled: Filled,
    uncreated: Mapping[str, int],
    order: Gate | None,
) -> Gate | None:
    """Returns the first gate that its pods, its state or the order of stages give."""
    total = sum(part.count for part in parts.values())
    forbidden = (parts[name].demand.forbidden for name, count in uncreated.items() if count)
    return (
        _refused(parts, total)
        or marks.hold(read.resource.metadata)
        or _suspended(read)
        or _gated(parts, filled, read.suspended)
        or _unable(filled)
        or order
        or (None if read.admission else _missing(total, filled))
        or next(filter(None, forbidden), None)
    )


def _refused(parts: dict[str, Part], total: int) -> Gate | None:
    for name, part in parts.items():
        if part.demand.refusal is not None:
            gate = part.demand.refusal
            return gate if name == MAIN else replace(gate, message=f"{name}: {gate.message}")
    if total > MOST_PLACES:
        return Gate(Code.INVALID, f"{total} pods at once; muster plans at most {MOST_PLACES} for one gang")
    return None


def _suspended(read: GroupObject) -> Gate | None:
    if read.suspended and not read.admission:
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


def _unable(filled: Filled) -> Gate | None:
    """Returns why a pod that exists must not be bound, whatever its template says."""
    for name, asks in sorted(filled.asks.items()):
        if len(asks) > MOST_WAYS:
            ways = f"the pods of {name} differ from their template in {len(asks)} ways"
            return Gate(Code.INVALID, f"{ways}; muster places at most {MOST_WAYS} in one gang")
        if len({one.shape.claims for one in asks}) > 1:
            told = (
                f"the resourceClaims of the pods of {name} ask for different devices; delete these pods, so"
            )
            return Gate(Code.INVALID, f"{told} that their claims are made from the template as it is now")
    refusals = {one.refusal for asks in filled.asks.values() for one in asks if one.refusal is not None}
    return min(refusals, key=lambda gate: (gate.code is not Code.INVALID, gate.message), default=None)


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
