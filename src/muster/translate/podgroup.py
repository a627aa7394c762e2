"""PodGroups, of scheduler-plugins and of Koordinator: gangs of whatever pods name them.

The demand is only known from the pods, so the gang waits until `minMember` of them are there. Pods of
equal shape form a pod set, which is named after its shape and not after a pod or a number: pods come and
go, and the places that are written on bound pods must mean the same for ever. Pods that look at labels which
they carry themselves (to spread, or to keep each other off) are alike only if they are alike in those.

A pod that has succeeded counts towards the minimum as one that runs does, and so does one that failed
with nobody to make another. A PodGroup that a pod names and that is not there (the object may be
applied after the pods) is a gang that waits: MembersMissing.

A bound pod that is lost (deleted, or its node is gone) leaves its place to a successor of equal shape, as
long as the group has fewer pods than its minimum. That there was such a place is known from the last
reading alone: after a change of leader only the claim is left.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import lru_cache
from typing import Final

from muster import names
from muster.api.base import Kind, controller_of
from muster.api.core_v1 import Pod
from muster.api.kinds import JOB, POD_GROUP_SIGS, POD_GROUP_X
from muster.api.koordinator_v1alpha1 import GROUPS
from muster.api.muster_v1alpha1 import Source
from muster.api.scheduling import PodGroup
from muster.core.gang import (
    Code,
    Gang,
    GangId,
    Gate,
    Labels,
    NodeTerm,
    Place,
    PodId,
    PodSet,
    Requirement,
    Shape,
    Toleration,
)
from muster.translate import ganggroup, marks, network
from muster.translate.demand import MOST_PLACES, ours
from muster.translate.filling import job_finished
from muster.translate.group import Group, Member
from muster.translate.identity import Dialect, GroupKey
from muster.translate.places import Block, fill, planned
from muster.translate.pods import asked, live, occupies, scheduling_gates
from muster.translate.priority import chosen, may_preempt, priority
from muster.translate.running import SILENT, limit_of_all, marked, pod_limit, run
from muster.translate.world import World

KINDS: dict[Dialect, Kind[PodGroup]] = {
    Dialect.POD_GROUP: POD_GROUP_X,
    Dialect.KOORDINATOR: POD_GROUP_SIGS,
}


def read(key: GroupKey, world: World, before: Group | None = None) -> Group | None:
    """The gang of a PodGroup or a GangGroup, or of the pods that name a PodGroup that is not there."""
    kind = KINDS[key.dialect]
    here = key.namespace, key.name
    groups = [group for group in world.naming(kind, *here) if ganggroup.home(group) == here]
    if groups:
        several = len(groups) > 1 or len(ganggroup.named(groups[0])) > 1
        readings = [_read(kind, _name(group), world, before, several) for group in groups]
    else:
        readings = [_read(kind, here, world, before, several=False)]
        if here in world.pod_groups(kind) or readings[0].empty:
            return None  # it is part of another gang, or there is nothing
    members = {uid: member for one in readings for uid, member in one.members.items()}
    pods = [pod for one in readings for pod in one.pods.ready]
    topology = network.wish((group.metadata for group in groups), (pod.metadata for pod in pods), world)
    queue, quarrel = marks.queue([group.metadata for group in groups], (pod.metadata for pod in pods))
    by_place = {member.place: member.pod for member in members.values() if member.place is not None}
    numbers = [number for pod in pods if isinstance(number := priority(pod.spec, world), int)]
    said = chosen((group.metadata for group in groups), world)
    source = next((group for group in groups if _name(group) == here), None)
    gang = Gang(
        id=GangId(f"{key.namespace}/{key.name}"),
        pod_sets=tuple(network.ranked(pod_set, by_place) for one in readings for pod_set in one.pod_sets),
        min_count=sum(one.least for one in readings),
        submitted=min(_submitted(one.group, one.pods) for one in readings),
        priority=said if isinstance(said, int) else max(numbers, default=0),
        queue=queue,
        namespace=key.namespace,
        gate=topology.refusal
        or quarrel
        or _disagreement(groups, kind, world)
        or next(filter(None, (_gate(key, one, len(readings) > 1, world) for one in readings)), None),
        preempts=all(may_preempt(pod.spec, world) for pod in pods),
        limit=limit_of_all(pod_limit(member.pod) for member in members.values()),
    )
    own, runs = SILENT, [run(pod.metadata) for pod in pods]
    if len(groups) == 1:
        own = run(groups[0].metadata)
    else:  # of several the most careful counts, as of pods
        runs += [run(group.metadata) for group in groups]
    return Group(
        gang=marked(topology.of(gang), own, runs),
        namespace=key.namespace,
        record=key.record,
        source=Source(
            api_version=kind.api_version,
            kind=kind.kind,
            name=key.name,
            uid=source.metadata.uid if source is not None else "",
        ),
        owner=None,
        members=members,
        retired=frozenset(place for one in readings for place in one.places.retired),
        finished=all(one.finished for one in readings),
        controlled=bool(members) and all(controller_of(m.pod) is not None for m in members.values()),
        # what is recorded for making pods anew is of one namespace
        recreate=all(_may_be_recreated(one.group, one.members.values()) for one in readings)
        and all(one.name[0] == key.namespace for one in readings),
        leaving={uid: pod for one in readings for uid, pod in one.pods.leaving.items()},
        set_groups={
            pod_set.name: one.name[1] if one.name[0] == key.namespace else "/".join(one.name)
            for one in readings
            for pod_set in one.pod_sets
            if one.name != here
        },
        warnings=topology.warnings,
    )


def key_of(dialect: Dialect, namespace: str, name: str, world: World) -> GroupKey:
    """The gang of pods that name this PodGroup."""
    group = world.pod_groups(KINDS[dialect]).get((namespace, name))
    return GroupKey(dialect, *(ganggroup.home(group) if group is not None else (namespace, name)))


@dataclass(frozen=True, slots=True)
class _Reading:
    """One PodGroup: what there is of it."""

    name: ganggroup.Name
    group: PodGroup | None
    pods: "_Pods"
    places: "_Places"
    #: its minMember
    wanted: int
    #: one of several of a gang, whose minima hold one by one
    several: bool

    @property
    def there(self) -> int:
        return len(self.pods.ready) + len(self.pods.ended)

    @property
    def empty(self) -> bool:
        pods = self.pods
        return self.group is None and not (pods.ready or pods.gated or pods.ended or pods.leaving)

    @property
    def members(self) -> dict[PodId, Member]:
        return {PodId(pod.metadata.uid): Member(pod, None) for pod in self.pods.gated} | self.places.members

    @property
    def least(self) -> int:
        """A place that nobody fills any more counts as satisfied and must not stand for a member."""
        return self.wanted + self.places.abandoned

    @property
    def pod_sets(self) -> list[PodSet]:
        """Its minimum is that of its only pod set; with several it needs all their pods."""
        sets = self.places.pod_sets
        if not self.several:
            return sets
        least = [min(self.least, sets[0].count)] if len(sets) == 1 else [one.count for one in sets]
        return [replace(one, min_count=n, namespace=self.name[0]) for one, n in zip(sets, least, strict=True)]

    @property
    def finished(self) -> bool:
        pods = self.pods
        return bool(pods.ended) and not self.members and not pods.leaving and self.there >= self.wanted


def _read(
    kind: Kind[PodGroup], name: ganggroup.Name, world: World, before: Group | None, several: bool
) -> _Reading:
    group = world.pod_groups(kind).get(name)
    named = world.pods_in(kind, *name)
    pods = _sort([pod for pod in named if ours(pod.spec.scheduler_name, world)], world)
    there = len(pods.ready) + len(pods.ended)
    wanted = group.spec.min_member if group is not None else there
    # each of several PodGroups has its own pod sets, also of equal pods; "@" is in no name of Kubernetes
    prefix = f"{name[1]}@{name[0]}" if several else _PODS
    if several and before is not None:
        own = tuple(one for one in before.gang.pod_sets if one.name.rpartition("-")[0] == prefix)
        before = replace(before, gang=replace(before.gang, pod_sets=own))
    return _Reading(name, group, pods, _place(pods, before, wanted - there, world, prefix), wanted, several)


def _name(group: PodGroup) -> ganggroup.Name:
    return group.metadata.namespace, group.metadata.name


def _disagreement(groups: Sequence[PodGroup], kind: Kind[PodGroup], world: World) -> Gate | None:
    """What is wrong with the lists of a GangGroup."""
    for group in groups:
        if why := ganggroup.error(group):
            return Gate(Code.INVALID, f"PodGroup {group.key}: {why}")
    wanted = sorted({name for group in groups for name in ganggroup.named(group)})
    if len(wanted) < 2:
        return None
    there = world.pod_groups(kind)
    for name in wanted:
        called = "/".join(name)
        if name not in there:
            return Gate(Code.MEMBERS_MISSING, f"there is no PodGroup {called} yet, which its GangGroup names")
        if list(ganggroup.named(there[name])) != wanted:
            message = f"its PodGroups differ in {GROUPS}: {called} does not name all of {len(wanted)}"
            return Gate(Code.INVALID, message)
    return None


def _may_be_recreated(group: PodGroup | None, members: Iterable[Member]) -> bool:
    """Each member without a controller says so; one that says nothing is as its group says."""
    default = marks.mark(group.metadata, names.ON_PARTIAL) if group is not None else None
    return all(
        (marks.mark(member.pod.metadata, names.ON_PARTIAL) or default) == marks.RECREATE
        for member in members
        if controller_of(member.pod) is None
    )


_PODS: Final = "pods"


@lru_cache(maxsize=4096)
def pod_set_name(shape: Shape, labels: Labels = (), *, namespaces: bool = False) -> str:
    """The same for the same shape, for ever: it is written on bound pods.

    `labels` are those of its own that it looks at. The namespaces that its terms mean come and go, so they
    only count where two sets of a gang differ in nothing else.
    """
    text = _told(shape if namespaces else _anywhere(shape)) + (repr(labels) if labels else "")
    return f"{_PODS}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


#: Fields that stand in names since there were names; others only if they have not their default.
_ALWAYS: Final = {
    Shape: ("requests", "selector", "affinity", "tolerations"),
    Toleration: ("key", "value", "effect"),
    NodeTerm: ("labels", "fields"),
    Requirement: ("key", "operator", "values"),
}


def _told(value: object) -> str:
    """As `repr` would, without fields that have their default: new ones change no name."""
    if isinstance(value, tuple):
        inner = ", ".join(map(_told, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if not is_dataclass(value) or isinstance(value, type):
        return repr(value)
    always = _ALWAYS.get(type(value), ())
    said = (
        f"{field.name}={_told(found)}"
        for field in fields(value)
        if (found := getattr(value, field.name)) != field.default or field.name in always
    )
    return f"{type(value).__name__}({', '.join(said)})"


def _anywhere(shape: Shape) -> Shape:
    return replace(
        shape,
        near=tuple(replace(term, namespaces=None) for term in shape.near),
        apart=tuple(replace(term, namespaces=None) for term in shape.apart),
        drawn=tuple((weight, replace(term, namespaces=None)) for weight, term in shape.drawn),
    )


def _looked_at(shape: Shape, labels: Mapping[str, str]) -> Labels:
    """Of a pod's own labels those that its terms look at."""
    terms = [term.labels for term in (*shape.near, *shape.apart, *(term for _, term in shape.drawn))]
    terms += [spread.labels for spread in shape.spread]
    keys = {requirement.key for requirements in terms for requirement in requirements}
    return tuple(sorted((key, labels[key]) for key in keys if key in labels))


def _common(pods: Sequence[Pod]) -> Labels:
    """The labels that are the same on all of these pods."""
    same = set(pods[0].metadata.labels.items())
    for pod in pods[1:]:
        same &= pod.metadata.labels.items()
    return tuple(sorted(same))


@dataclass(slots=True)
class _Pods:
    """The pods of a group by what they mean to it, in order of name."""

    ready: list[Pod] = field(default_factory=list)
    gated: list[Pod] = field(default_factory=list)
    #: succeeded, or failed with nobody to make another
    ended: list[Pod] = field(default_factory=list)
    leaving: dict[PodId, Pod] = field(default_factory=dict)


def _sort(pods: list[Pod], world: World) -> _Pods:
    found = _Pods()
    for pod in pods:
        if pod.terminal:
            if _for_good(pod, world):
                found.ended.append(pod)
        elif not live(pod):
            if occupies(pod):
                found.leaving[PodId(pod.metadata.uid)] = pod
        elif scheduling_gates(pod.spec):
            found.gated.append(pod)
        else:
            found.ready.append(pod)
    return found


def _for_good(pod: Pod, world: World) -> bool:
    """Whether an ended pod will have no successor."""
    controller = controller_of(pod)
    if pod.status.phase == "Succeeded" or controller is None:
        return True
    if controller.kind != JOB.kind:
        return False
    job = world.jobs.get((pod.metadata.namespace, controller.name))
    return job is None or job.metadata.uid != controller.uid or job_finished(job)


@dataclass(slots=True)
class _Places:
    pod_sets: list[PodSet] = field(default_factory=list)
    members: dict[PodId, Member] = field(default_factory=dict)
    retired: set[Place] = field(default_factory=set)
    #: of the retired places, those that no pod has: a bound pod of a higher index still runs
    abandoned: int = 0
    #: places whose pod was lost, and that wait for another
    awaited: int = 0


def _place(pods: _Pods, before: Group | None, lacking: int, world: World, prefix: str) -> _Places:
    """`lacking`: how many pods fewer there are than the minimum; `prefix`: what pod sets are called by."""
    by_shape: dict[tuple[Shape, Labels], list[Pod]] = {}
    for pod in sorted((*pods.ready, *pods.ended), key=lambda pod: pod.metadata.name):
        shape = asked(pod, world).shape
        by_shape.setdefault((shape, _looked_at(shape, pod.metadata.labels)), []).append(pod)
    lost = _lost(pods, before)
    earlier = {pod_set.name: pod_set for pod_set in (before.gang.pod_sets if before is not None else ())}
    for pod_set in earlier.values():
        if pod_set.name in lost:
            by_shape.setdefault((pod_set.shape, _looked_at(pod_set.shape, dict(pod_set.labels))), [])
    places = _Places()
    taken_names: set[str] = set()
    for (shape, looked_at), alike in by_shape.items():
        name = pod_set_name(shape, looked_at)
        if name in taken_names:
            name = pod_set_name(shape, looked_at, namespaces=True)
        taken_names.add(name)
        name = prefix + name.removeprefix(_PODS)
        labels = _common(alike) if alike else earlier[name].labels if name in earlier else looked_at
        gaps = lost.get(name, [])
        count = max(_count(name, alike), 1 + max(gaps, default=-1))
        # those that run claim their places before those that have ended
        block = Block(name, 0, count, sorted(alike, key=lambda pod: pod.terminal), lost=gaps)
        found = fill(block, before)
        places.pod_sets.append(PodSet(name, shape, count, labels=labels))
        vacant = [Place(name, gap) for gap in gaps if Place(name, gap) not in found.values()]
        awaited = vacant[: max(lacking - places.awaited, 0)]
        taken: set[Place | None] = set(awaited)
        for pod in alike:
            place = found[PodId(pod.metadata.uid)]
            if not pod.terminal:
                places.members[PodId(pod.metadata.uid)] = Member(pod, place)
                taken.add(place)
        places.retired |= {Place(name, index) for index in range(count)} - taken
        places.abandoned += count - len(alike) - len(awaited)
        places.awaited += len(awaited)
    return places


def _lost(pods: _Pods, before: Group | None) -> dict[str, list[int]]:
    """Places, by pod set, whose pod ran in the last reading and is no more, or was awaited then already."""
    if before is None or not any(pod.spec.node_name for pod in pods.ready):
        return {}
    here = {pod.metadata.uid for pod in (*pods.ready, *pods.ended)}
    had = {member.place: member.pod for member in before.members.values()}
    found: dict[str, list[int]] = {}
    for pod_set in before.gang.pod_sets:
        for index in range(pod_set.count):
            place = Place(pod_set.name, index)
            pod = had.get(place)
            gone = pod is None or (bool(pod.spec.node_name) and pod.metadata.uid not in here)
            if gone and place not in before.retired:
                found.setdefault(pod_set.name, []).append(index)
    return found


def _count(pod_set: str, pods: list[Pod]) -> int:
    """One place per pod, and those up to the highest that is written on a bound pod."""
    written = (place.index for place in map(planned, pods) if place is not None and place.pod_set == pod_set)
    return max(len(pods), 1 + max((index for index in written if index < MOST_PLACES), default=-1))


def _submitted(group: PodGroup | None, pods: _Pods) -> float:
    """The group's age, or that of the oldest pod."""
    if group is not None:
        created = [group.metadata.creation_timestamp]
    else:
        created = [pod.metadata.creation_timestamp for pod in (*pods.ready, *pods.gated, *pods.ended)]
    return min((time.timestamp() for time in created if time is not None), default=0.0)


def _gate(key: GroupKey, one: _Reading, several: bool, world: World) -> Gate | None:
    wanted = one.wanted - one.places.awaited
    gate = (
        _refused(one.group, one.pods, wanted, world)
        or _held(one.group)
        or _missing(key, one.group, one.pods, wanted)
    )
    if gate is None or not several:
        return gate
    return replace(gate, message=f"PodGroup {'/'.join(one.name)}: {gate.message}")


def _refused(group: PodGroup | None, pods: _Pods, wanted: int, world: World) -> Gate | None:
    if group is not None:
        if gate := marks.refusal(group.metadata):
            return gate
        if isinstance(number := chosen([group.metadata], world), Gate):
            return number
        if wanted < 1:
            return Gate(Code.INVALID, f"spec.minMember is {wanted}; write how many pods must run together")
    if len(pods.ready) + len(pods.ended) > MOST_PLACES:
        return Gate(Code.INVALID, f"more than {MOST_PLACES} pods name it; make several groups of them")
    for pod in pods.ready:
        if pod.spec.node_name:
            continue
        number = priority(pod.spec, world)
        gate = (
            marks.refusal(pod.metadata, of_pods=True)
            or asked(pod, world).refusal
            or (number if isinstance(number, Gate) else None)
        )
        if gate is not None:
            return Gate(gate.code, f"pod {pod.metadata.name}: {gate.message}")
    return None


def _held(group: PodGroup | None) -> Gate | None:
    return marks.hold(group.metadata) if group is not None else None


def _missing(key: GroupKey, group: PodGroup | None, pods: _Pods, wanted: int) -> Gate | None:
    there = len(pods.ready) + len(pods.ended)
    if group is None:
        return Gate(
            Code.MEMBERS_MISSING,
            f"there is no PodGroup {key.name} of {KINDS[key.dialect].group}, which its pods name "
            f"({there + len(pods.gated)} so far)",
        )
    if there >= wanted:
        return None
    if there + len(pods.gated) >= wanted:
        return Gate(
            Code.GATED, f"{len(pods.gated)} of its pods have scheduling gates; {wanted} must have none"
        )
    return Gate(Code.MEMBERS_MISSING, f"{there} of {wanted} pods exist")
