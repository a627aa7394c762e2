"""What would happen: the scheduler itself, asked about a cluster as it is and some objects more.

A mirror is filled with the objects of the cluster and with those that are proposed; a new scheduler is told
and asked what a live one would be. Nothing is written anywhere. Objects that controllers would make of a
proposed one at once are thought of as made: a gang is planned from its templates, as one that
`muster submit` creates, and the pods of an independent Job or JobSet are named after the places they fill.

What is in the cluster already is not proposed again: such a job or pod is planned as it stands there. Any
other object (a Queue, a PodGroup) takes the place of its namesake.

Where somebody in the cluster waits, the same is asked of the cluster as it is, and from both answers the
clock is let run on (`forecast.py`): whose start comes later is delayed by what is proposed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from math import inf
from typing import Any, Final

import msgspec

from muster import names
from muster.api import kinds
from muster.api.base import Object, ObjectMeta, Resource
from muster.api.batch_v1 import Job
from muster.api.core_v1 import Pod
from muster.api.fields import InvalidObject, convert
from muster.api.jobset_v1alpha2 import JobSet
from muster.app.forecast import starts
from muster.core.decisions import Assign, Evict, Explanation, Victim
from muster.core.decisions import Decision as Decided
from muster.core.events import Event, PlanFound
from muster.core.gang import Code, GangId, Gate, Place
from muster.core.gangs import stands
from muster.core.scheduler import Config, Scheduler
from muster.runtime.mirror import WATCHED, Mirror
from muster.runtime.plan import PodRef
from muster.translate import job, jobset
from muster.translate.group import Group
from muster.translate.pods import occupies
from muster.translate.status import explained
from muster.translate.world import World
from muster.workloads import demand
from muster.workloads.snapshot import Name, Objects

#: Gangs of each queue that are told what would start them.
REMEDIES: Final = 20
#: Cycles in which exact searches that were put off have their turn.
CYCLES: Final = 100


class Outcome(StrEnum):
    PLACE = "place"
    PREEMPT = "preempt"
    WAIT = "wait"
    INVALID = "invalid"


class Cost(msgspec.Struct, frozen=True, rename="camel"):
    """What evicting the victims would lose."""

    gpu_seconds: float = 0.0


class Delay(msgspec.Struct, frozen=True):
    """Another gang, and the seconds by which it would start later; None: it is not known when it would."""

    gang: str
    by: float | None


class Decision(msgspec.Struct, frozen=True, rename="camel"):
    """What would become of one gang (docs/names.md); `reason` is an explanation as JSON."""

    gang: str
    outcome: Outcome
    #: `namespace/pod` → node; places of templates are `namespace/group/podset-index`
    assignments: dict[str, str] = {}
    #: `namespace/pod`
    victims: list[str] = []
    cost: Cost = Cost()
    reason: Object | None = None
    delays: list[Delay] = []


@dataclass(slots=True)
class Plan:
    """A decision per gang that was proposed, then one per waiting gang of the cluster, in deciding order."""

    decisions: list[Decision]
    #: how many of them were proposed
    proposed: int
    #: when that is, seconds since the epoch
    now: float
    #: of gangs of the cluster: those that start, or make room for themselves, without what is proposed
    before: Mapping[str, Outcome] = field(default_factory=dict)
    #: what there is to say about the objects
    notes: list[str] = field(default_factory=list)


def plan(
    proposed: Objects, cluster: Objects, now: float | None = None, schedulers: frozenset[str] | None = None
) -> Plan:
    """`now` in seconds since the epoch; None: the newest time that the cluster's objects tell.

    `schedulers`: values of `spec.schedulerName` that make a pod ours; None = all.
    """
    at = latest(cluster) if now is None else now
    notes = [*_notes(cluster, "in the snapshot"), *_notes(proposed, "that are not planned")]
    picture = _Picture(schedulers)
    picture.put_all(cluster)
    as_it_is = picture.events(at)
    own, refusals = _propose(picture, proposed, at, notes)
    core = _scheduler(Config(remedies=REMEDIES), [*as_it_is, *picture.events(at)])
    decided = _decide(core, at)
    found = Plan(*_decisions(decided, core, picture.mirror.groups, own, refusals), at, notes=notes)
    waiting = {GangId(decision.gang) for decision in found.decisions[found.proposed :]}
    if waiting:
        then = starts(core, decided, at, waiting)
        _compare(found, waiting, then, _scheduler(Config(explain=False), as_it_is))
    return found


def _scheduler(config: Config, events: Iterable[Event]) -> Scheduler:
    core = Scheduler(config)
    for event in events:
        core.apply(event)
    return core


def _decide(core: Scheduler, now: float) -> list[Decided]:
    decisions = core.decide(now)
    for _ in range(CYCLES):
        if not core.fit.exact.behind:
            break
        decisions += core.decide(now)
    return decisions


def _compare(found: Plan, waiting: set[GangId], then: Mapping[GangId, float], core: Scheduler) -> None:
    """Says what is different from the cluster as it is; delays are told with the first gang that starts."""
    decided = _decide(core, found.now)
    told = _Told(decided)
    found.before = {
        str(gang): Outcome.PREEMPT if gang in told.evictions else Outcome.PLACE for gang in told.assigned
    }
    before = starts(core, decided, found.now, waiting)
    delays = [
        Delay(str(gang), None if gang not in then else then[gang] - at)
        for gang, at in sorted(before.items())
        if then.get(gang, inf) > at
    ]
    causes = [n for n, each in enumerate(found.decisions[: found.proposed]) if each.assignments]
    if delays and causes:
        found.decisions[causes[0]] = msgspec.structs.replace(found.decisions[causes[0]], delays=delays)


def latest(objects: Objects) -> float:
    """The newest time of creation or start; 0 if none tells one."""
    times = [resource.metadata.creation_timestamp for resource in objects.items.values()]
    times += [pod.status.start_time for pod in objects.items.values() if isinstance(pod, Pod)]
    return max((time.timestamp() for time in times if time is not None), default=0.0)


def _notes(objects: Objects, where: str) -> Iterator[str]:
    if objects.ignored:
        count = sum(objects.ignored.values())
        some = ", ".join(f"{n} × {what}" for what, n in objects.ignored.most_common(5))
        yield f"left out: {count} object{'s' * (count != 1)} of other kinds {where}: {some}" + (
            " and others" if len(objects.ignored) > 5 else ""
        )
    if objects.repeated:
        yield f"objects that come more than once {where}: {objects.repeated}; the last of each counts"


class _Picture:
    """A cluster that is only thought of, and what a scheduler is told of it."""

    def __init__(self, schedulers: frozenset[str] | None) -> None:
        self.mirror = Mirror(schedulers, whole=True)
        self.known: dict[Name, Resource] = {}

    def put_all(self, objects: Objects) -> None:
        """Owners before what they own, so that each pod is read once."""
        rank = {kind: number for number, kind in enumerate(WATCHED)}
        for name in sorted(objects.items, key=lambda name: (rank[name[0]], *name[1:])):
            self.put(name, objects.items[name])

    def put(self, name: Name, resource: Resource) -> None:
        self.mirror.change(name[0], self.known.get(name), resource)
        self.known[name] = resource

    def events(self, now: float) -> list[Event]:
        """What has changed since the last call, and the open plans, which may be told twice."""
        changes = self.mirror.drain(now).events
        planned = [gang for gang in self.mirror.planned() if gang in self.mirror.groups]
        return [*changes, *(self._plan_found(gang) for gang in planned)]

    def _plan_found(self, gang: GangId) -> PlanFound:
        """As a new leader tells of an open plan: its places, and its victims that are still there."""
        plan = self.mirror.plans(gang)[-1]
        victims = []
        for victim in plan.victims:
            pods = frozenset(pod.uid for pod in victim.pods if self._occupies(pod))
            if pods:
                victims.append(Victim(victim.gang, frozenset() if victim.whole else pods, victim.work_lost))
        return PlanFound(gang, plan.nodes, tuple(victims))

    def _occupies(self, ref: PodRef) -> bool:
        namespace, _, name = ref.key.partition("/")
        pod = self.known.get((kinds.POD, namespace, name))
        return isinstance(pod, Pod) and pod.metadata.uid == ref.uid and occupies(pod)


# -- what is proposed


def _propose(
    picture: _Picture, proposed: Objects, now: float, notes: list[str]
) -> tuple[set[str], dict[GangId, Gate]]:
    """Puts proposed objects in. Returns their uids, and jobs of which no pod would be made, with why."""
    # later than anything there: who waits already comes first
    created = datetime.fromtimestamp(now, UTC) + timedelta(microseconds=1)
    uids: set[str] = set()
    refusals: dict[GangId, Gate] = {}
    there = []
    fresh = Objects()
    for name, resource in proposed.items.items():
        old = picture.known.get(name)
        if old is not None and isinstance(resource, Pod | Job | JobSet):
            there.append(resource.key)
            uids.add(old.metadata.uid)
            continue
        resource = _successor(old, resource) if old is not None else _created(resource, created)
        uids.add(resource.metadata.uid)
        fresh.items[name] = resource
    if there:
        shown = ", ".join(sorted(there)[:5]) + (f" and {len(there) - 5} more" if len(there) > 5 else "")
        notes.append(f"in the cluster already, and planned as they stand there: {shown}")
    jobs = {name: each for name, each in fresh.items.items() if isinstance(each, Job | JobSet)}
    picture.put_all(Objects({name: each for name, each in fresh.items.items() if name not in jobs}))
    for name, owner in jobs.items():
        if _is_gang(owner, picture.mirror.world):
            picture.put(name, _admitted(owner))
        elif owner.spec.suspend:
            refusals[GangId(owner.key)] = Gate(
                Code.GATED, "spec.suspend is true; set it to false to let it start"
            )
        else:
            try:
                pods = [*_pods(name, owner)]
            except InvalidObject as error:
                refusals[GangId(owner.key)] = Gate(Code.INVALID, str(error))
                continue
            for pod in pods:
                uids.add(pod.metadata.uid)
                picture.put((kinds.POD, pod.metadata.namespace, pod.metadata.name), pod)
    return uids, refusals


def _created(resource: Resource, now: datetime) -> Resource:
    meta = resource.metadata
    if meta.creation_timestamp is not None:
        return resource
    return msgspec.structs.replace(resource, metadata=msgspec.structs.replace(meta, creation_timestamp=now))


def _successor(old: Resource, new: Resource) -> Resource:
    """An edit: the same object, with a new spec."""
    was = old.metadata
    meta = msgspec.structs.replace(
        new.metadata,
        uid=was.uid,
        resource_version=was.resource_version,
        creation_timestamp=was.creation_timestamp,
    )
    status = getattr(old, "status", None)
    return msgspec.structs.replace(new, metadata=meta, **({} if status is None else {"status": status}))


def _is_gang(owner: Job | JobSet, world: World) -> bool:
    if isinstance(owner, JobSet):
        return bool(jobset.keys(owner, world))
    return job.is_gang(owner, world)


def _admitted(owner: Job | JobSet) -> Job | JobSet:
    """As `muster submit` creates it, so that it is planned from its templates; the user's suspend stays."""
    if owner.spec.suspend:
        return owner
    labels = {**owner.metadata.labels, names.ADMISSION: "gang"}
    return msgspec.structs.replace(
        owner,
        metadata=msgspec.structs.replace(owner.metadata, labels=labels),
        spec=msgspec.structs.replace(owner.spec, suspend=True),
    )


def _pods(name: Name, owner: Job | JobSet) -> Iterator[Pod]:
    """The pods that are made at once, each with the name of its place."""
    kind, namespace, group = name
    value: Object = {**msgspec.to_builtins(owner), "kind": kind.kind}
    for pod_set in demand.pod_sets(value):
        if pod_set.stage and not _first(owner, pod_set.stage):
            continue
        set_name = pod_set.name if isinstance(owner, JobSet) else job.MAIN
        template: Mapping[str, Any] = pod_set.template  # Any: JSON
        metadata = _inheriting(template.get("metadata") or {}, owner.metadata)
        for index in range(pod_set.count):
            pod = f"{group}/{set_name}-{index}"
            yield convert(
                {
                    "metadata": {
                        **metadata,
                        "name": pod,
                        "namespace": namespace,
                        "uid": f"{kind.kind}/{namespace}/{pod}",
                        "creationTimestamp": owner.metadata.creation_timestamp,
                    },
                    "spec": template.get("spec", {}),
                },
                Pod,
            )


def _inheriting(metadata: Mapping[str, Any], owner: ObjectMeta) -> dict[str, Any]:  # Any: JSON
    """A pod's metadata, with the marks of its Job or JobSet, which speaks for it where it says nothing."""
    own = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}
    marks = {key: value for key, value in (owner.annotations | owner.labels).items() if key in _INHERITED}
    fresh = {key: value for key, value in marks.items() if key not in own}
    return {**metadata, "annotations": {**(metadata.get("annotations") or {}), **fresh}}


#: Marks of a Job or JobSet that hold for its independent pods, too.
_INHERITED: Final = (names.QUEUE, names.HOLD, names.PRIORITY)


def _first(owner: Job | JobSet, stage: str) -> bool:
    """Whether a replicated job of an order starts before any other has."""
    assert isinstance(owner, JobSet), "only JobSets have stages"
    replicated = owner.spec.replicated_jobs
    if owner.spec.startup_policy.startup_policy_order == "InOrder":
        return replicated[0].name == stage
    return not next(each.depends_on for each in replicated if each.name == stage)


# -- what was decided


def _decisions(
    decided: Sequence[Decided],
    core: Scheduler,
    groups: Mapping[GangId, Group],
    own: set[str],
    refusals: Mapping[GangId, Gate],
) -> tuple[list[Decision], int]:
    """Those of proposed gangs first, and how many these are."""
    told = _Told(decided)
    states = core.gangs
    served = [state.id for state in core.served if state.id in groups]
    order = dict.fromkeys([*served, *sorted(groups)])  # those that lack nothing come last
    ours = {gang for gang in order if _is_of(groups[gang], own)}
    first, rest = [], []
    for gang, gate in refusals.items():
        first.append(_decision_of(gang, {}, told, Explanation(gate.code, "gate", gate.message)))
    for gang in order:
        state = states.get(gang)
        reason = state.explanation if state is not None else None
        if gang in ours:
            reason = reason or _gated(groups[gang])
            first.append(_decision_of(gang, groups, told, reason))
        elif gang in told.assigned or (reason is not None and state is not None and not stands(state)):
            rest.append(_decision_of(gang, groups, told, reason))
    return [*first, *rest], len(first)


def _gated(group: Group) -> Explanation | None:
    """Of a gang without places, which the scheduler has nothing to say about: why it must not start."""
    gate = group.gang.gate
    if gate is None or any(member.pod.spec.node_name for member in group.members.values()):
        return None
    return Explanation(gate.code, "gate", gate.message)


class _Told:
    """Decisions by the gang that they are for."""

    def __init__(self, decided: Iterable[Decided]) -> None:
        self.assigned: dict[GangId, dict[Place, str]] = {}
        self.evictions: dict[GangId, list[Evict]] = {}
        for decision in decided:
            match decision:
                case Assign(gang=gang, nodes=nodes):
                    self.assigned.setdefault(gang, {}).update(nodes)
                case Evict(beneficiary=gang):
                    self.evictions.setdefault(gang, []).append(decision)


def _is_of(group: Group, uids: set[str]) -> bool:
    return group.source.uid in uids or not uids.isdisjoint(group.members)


def _decision_of(
    gang: GangId, groups: Mapping[GangId, Group], told: _Told, reason: Explanation | None
) -> Decision:
    evictions, assigned = told.evictions.get(gang, []), told.assigned.get(gang)
    if evictions:
        outcome = Outcome.PREEMPT
    elif assigned or reason is None:
        outcome = Outcome.PLACE
    else:
        outcome = Outcome.INVALID if reason.code is Code.INVALID else Outcome.WAIT
    return Decision(
        gang=str(gang),
        outcome=outcome,
        assignments=_assignments(groups[gang], assigned) if assigned else {},
        victims=sorted({pod for evict in evictions for pod in _victims(evict, groups)}),
        cost=Cost(sum(evict.work_lost for evict in evictions)),
        # who is placed may still be told to wait, for victims to go
        reason=None if reason is None or evictions or assigned else explained(reason),
    )


def _assignments(group: Group, assigned: Mapping[Place, str]) -> dict[str, str]:
    pods = {member.place: member.pod.key for member in group.members.values()}
    template = f"{group.namespace}/{group.source.name}"
    return {
        pods.get(place, f"{template}/{place.pod_set}-{place.index}"): assigned[place]
        for place in sorted(assigned)
    }


def _victims(evict: Evict, groups: Mapping[GangId, Group]) -> Iterator[str]:
    for victim in evict.victims:
        group = groups.get(victim.gang)
        for uid, member in group.members.items() if group is not None else ():
            if member.pod.spec.node_name and (not victim.pods or uid in victim.pods):
                yield member.pod.key
