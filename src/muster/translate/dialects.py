"""The registry of dialects: to which group a pod belongs, and which groups a change touches.

A dialect is a module with a `Reader`, which keeps what it has read: a change of one pod costs one pod,
whatever the size of its gang. Adding a dialect adds its file, a member of `Dialect`, and its lines in
`_READERS`, `group_of` and `keys_touched` here.

A pod belongs to the PodGroup that its label names, or to the gang that it describes itself (`described.py`).
Otherwise it belongs to the JobSet or Job that controls it, if that is a gang. Otherwise it is a gang of one.
A pod whose Job or JobSet has not been seen yet belongs to no gang: as a gang of one it would be bound alone a
moment before its gang is known. (If the world is known to be complete, no object is still to be seen.)
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any, Final, Protocol

from muster import names
from muster.api.base import Kind, Object, Resource, controller_of, mark
from muster.api.batch_v1 import Job
from muster.api.core_v1 import (
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodSpec,
    PodTemplate,
    ResourceQuota,
    ResourceQuotaSpec,
)
from muster.api.fields import UNREADABLE, InvalidObject, convert
from muster.api.jobset_v1alpha2 import JobSet
from muster.api.kinds import (
    CLUSTER_NETWORK_TOPOLOGY,
    JOB,
    JOBSET,
    LIMIT_RANGE,
    NAMESPACE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_GROUP_SIGS,
    PRIORITY_CLASS,
    RESOURCE_QUOTA,
    RUNTIME_CLASS,
    STORAGE_CLASS,
)
from muster.api.koordinator_v1alpha1 import ClusterNetworkTopology
from muster.api.membership import pod_groups, same_membership
from muster.api.muster_v1alpha1 import Source
from muster.api.scheduling import PodGroup
from muster.core.words.gang import Code, Gang, GangId, Gate, PodId
from muster.translate import bare, described, ganggroup, job, jobset, limits, marks, podgroup
from muster.translate.claims import claim_names, templates, volume_facts
from muster.translate.group import NONE_MOVED, Group, Members, ReadGroup, Touched
from muster.translate.identity import Dialect, GroupKey
from muster.translate.podgroup.reading import KINDS
from muster.translate.surroundings import selects_namespaces
from muster.translate.world import World


class DialectReader(Protocol):
    """Reads one group again and again."""

    def read(self, touched: Touched) -> ReadGroup:
        """Returns the group as it is now. The first reading looks at everything, later ones at `touched`."""
        ...

    def renew(self, pod: Pod) -> None:
        """Takes in a newer state of a placed member on a node, if it keeps pods: all else is as it was."""
        ...


_READERS: Final[dict[Dialect, Callable[[GroupKey, World], DialectReader]]] = {
    Dialect.JOBSET: jobset.Reader,
    Dialect.JOB: job.Reader,
    Dialect.POD_GROUP: podgroup.Reader,
    Dialect.KOORDINATOR: podgroup.Reader,
    Dialect.POD: bare.Reader,
}
_RANK: Final = tuple(Dialect)
#: by dialect, the dialects that rank before it and those that rank after it
_ABOVE: Final = {dialect: _RANK[:rank] for rank, dialect in enumerate(_RANK)}
_BELOW: Final = {dialect: _RANK[rank + 1 :] for rank, dialect in enumerate(_RANK)}
KIND_OF: Final[dict[Dialect, Kind[Any]]] = {  # Any: a table of kinds holds kinds of many types
    Dialect.JOBSET: JOBSET,
    Dialect.JOB: JOB,
    Dialect.POD: POD,
    **KINDS,
}
#: Most characters of what a gate says: it may quote what people write.
LONGEST_REFUSAL: Final = 1000
log = logging.getLogger(__name__)
_POD_GROUP_DIALECTS = {kind.group: dialect for dialect, kind in KINDS.items()}


class Reader:
    """Reads the group of one key again and again; members keep their places from one reading to the next."""

    __slots__ = ("_key", "_reader", "_world")

    def __init__(self, key: GroupKey, world: World) -> None:
        self._key, self._world = key, world
        self._reader = _READERS[key.dialect](key, world)

    def read(self, touched: Touched) -> ReadGroup:
        """Returns the group as the world shows it now, and the members whose place has changed.

        None: there is no such gang (any more). The id of the gang may change when a namesake of another
        dialect arrives or leaves; the caller then removes the old id from the core.

        Dialects refuse what they find wrong, with its field (`Gate`). An unexpected error in a dialect makes
        only this gang Invalid.
        """
        try:
            return self._read(touched)
        except UNREADABLE as error:
            key = self._key
            log.exception("%s %s/%s cannot be read", key.dialect.value, key.namespace, key.name)
            self._reader = _READERS[key.dialect](key, self._world)
            why = f"cannot be read: {type(error).__name__}: {error}"
            return _within(_unreadable(key, why, self._world.lease)), NONE_MOVED

    def renew(self, group: Group, old: Pod, new: Pod) -> bool:
        """Takes in a newer state of a running member that says the same; False: the group must be read again.

        `group`: the result of the last reading.
        """
        member = group.members.get(PodId(old.metadata.uid))
        if member is None or member.pod is not old or member.place is None:
            return False
        group.members.renew(new)  # the reader's own, or the union of the members of several PodGroups
        self._reader.renew(new)
        return True

    def _read(self, touched: Touched) -> ReadGroup:
        key, world = self._key, self._world
        if touched.anew:
            self._reader = _READERS[key.dialect](key, world)
        if key.dialect is Dialect.POD:
            pod = world.pods.get((key.namespace, key.name))
            if pod is None or group_of(pod, world) != key:
                return None, NONE_MOVED
        group, moved = self._reader.read(touched)
        if group is not None and (too_much := limits.of_gang(group.gang.pod_sets)) is not None:
            group = replace(group, gang=replace(group.gang, gate=too_much))
        group = _within(group)
        if group is None or not _namesakes(key, _ABOVE, world):
            return group, moved
        # `namespace/name` is the id of the first namesake by dialect; the others use their record's name
        return replace(group, gang=replace(group.gang, id=GangId(f"{key.namespace}/{key.record}"))), moved


def _within(group: Group | None) -> Group | None:
    """Returns the group with as much of its gate's message as a status may have."""
    gate = group.gang.gate if group is not None else None
    if group is None or gate is None or len(gate.message) <= LONGEST_REFUSAL:
        return group
    cut = replace(gate, message=f"{gate.message[: LONGEST_REFUSAL - 1]}…")
    return replace(group, gang=replace(group.gang, gate=cut))


def _unreadable(key: GroupKey, why: str, lease: str) -> Group:
    """Returns a gang of which only the name is known. Its pods on nodes are still charged to it."""
    kind = KIND_OF[key.dialect]
    return Group(
        gang=Gang(
            id=GangId("/".join(filter(None, (key.namespace, key.name, key.stage)))),
            pod_sets=(),
            min_count=1,  # a gang with minimum 0 would get no reason why it waits
            submitted=0.0,
            gate=Gate(Code.INVALID, why),
            namespace=key.namespace,
        ),
        namespace=key.namespace,
        record=key.record,
        lease=lease,
        source=Source(api_version=kind.api_version, kind=kind.kind, name=key.name)
        if kind is not POD
        else Source(),
        owner=None,
        members=Members(),
        retired=frozenset(),
        finished=False,
        controlled=False,
    )


def group_of(pod: Pod, world: World) -> GroupKey | None:
    """Returns the group of a pod; None = not muster's to place, or its owner has not been seen yet."""
    meta = pod.metadata
    alone = GroupKey(Dialect.POD, meta.namespace, meta.name)
    if world.victims and world.evictable(pod):
        return alone
    if not world.schedules(pod):
        return None
    for api_group, name in pod_groups(meta.labels, meta.annotations):
        return podgroup.key_of(_POD_GROUP_DIALECTS[api_group], meta.namespace, name, world)
    controller = controller_of(pod)
    if controller is None or not JOB.matches(controller):
        return alone
    parent = world.jobs.get(its_name := (meta.namespace, controller.name))
    if parent is None or parent.metadata.uid != controller.uid:
        return alone if world.whole else None
    if its_name not in world.groups_of_jobs:
        world.groups_of_jobs[its_name] = _group_of_job(parent, world)
    known, group = world.groups_of_jobs[its_name]
    return (group or alone) if known else None


def keys_touched(kind: Kind[Any], old: Resource | None, new: Resource | None, world: World) -> set[GroupKey]:
    """Returns groups to read again after `world` took in the change from `old` to `new`. Any: any kind."""
    keys: set[GroupKey] = set()
    if kind is POD and isinstance(new, Pod) and (old is None or _in_same_group(old, new, world)):
        keys.update(_of_pod(new, world))
        if old is not None:
            return keys  # no gang begins or ceases to exist, so those of the same name keep their ids
        keys.update(_of_others(new, world))
    else:
        for obj in filter(None, (old, new)):
            keys.update(_touched_by(kind, obj, world))
    if kind is JOB or kind is JOBSET:
        if old is None or new is None or not _same_marks(old, new) or regrouped(kind, old, new, world):
            keys.update(_of_pods(new or old, world))
    elif kind is NAMESPACE:
        if regrouped(kind, old, new, world):
            keys.update(_of_namespace((new or old).metadata.name, world))  # type: ignore[union-attr]
        if relabelled(old, new):
            keys.update(_looking(world, selects_namespaces))
    elif kind in (PERSISTENT_VOLUME_CLAIM, PERSISTENT_VOLUME, STORAGE_CLASS):
        if old is None or new is None or volume_facts(old) != volume_facts(new):
            if kind is STORAGE_CLASS:
                keys.update(_looking(world, lambda spec: any(claim_names(spec))))
            for claim in {name for obj in (old, new) for name in _claims(obj, world)}:
                for user, of in world.users_of(claim):
                    keys.update(_reading(of, user, world))
    elif kind is RESOURCE_QUOTA:
        if _quota_spec(old) != _quota_spec(new):
            keys.update(_of_namespace((new or old).metadata.namespace, world))  # type: ignore[union-attr]
    elif kind is LIMIT_RANGE:
        if getattr(old, "spec", None) != getattr(new, "spec", None):
            keys.update(_of_namespace((new or old).metadata.namespace, world))  # type: ignore[union-attr]
    elif kind is RUNTIME_CLASS:
        name = (new or old).metadata.name  # type: ignore[union-attr]
        keys.update(_looking(world, lambda spec: spec.runtime_class_name == name))
    elif kind is PRIORITY_CLASS or (kind is CLUSTER_NETWORK_TOPOLOGY and _layers(old) != _layers(new)):
        keys.update(everything(world))
    return keys.union(*(_namesakes(key, _BELOW, world) for key in keys))


def regrouped(kind: Kind[Any], old: Resource | None, new: Resource | None, world: World) -> bool:
    """Whether Jobs that exist form, or belong to, another gang with this change. Any: any kind."""
    if kind is NAMESPACE:
        return _gang_by_default(old) != _gang_by_default(new)
    if isinstance(old, JobSet) and isinstance(new, JobSet):
        return jobset.keys(old, world) != jobset.keys(new, world)
    if isinstance(old, Job) and isinstance(new, Job):
        return _group_of_job(old, world) != _group_of_job(new, world)
    return False


def relabelled(old: Resource | None, new: Resource | None) -> bool:
    """Whether a namespace was created, deleted or relabelled: selectors may then select others."""
    return old is None or new is None or old.metadata.labels != new.metadata.labels


def pods_looking_at_namespaces(world: World) -> Iterator[Pod]:
    """Yields pods on nodes whose constraints depend on which namespaces exist."""
    return (pod for pod in world.pods.values() if pod.spec.node_name and selects_namespaces(pod.spec))


def _claims(obj: Resource | None, world: World) -> Iterator[tuple[str, str]]:
    """Yields namespace and name of the claim that an object is, or of those that name a volume."""
    if isinstance(obj, PersistentVolumeClaim):
        yield obj.metadata.namespace, obj.metadata.name
    elif isinstance(obj, PersistentVolume):
        yield from world.claims_on(obj.metadata.name)


def _looking(world: World, look: Callable[[PodSpec], bool]) -> Iterator[GroupKey]:
    """Yields groups of pods and templates whose specs `look` accepts. A scan: these objects rarely change."""
    for pod in world.pods.values():
        if look(pod.spec):
            yield from _reading(POD, pod, world)
    for one in world.jobs.values():
        if any(map(look, _specs([one.spec.template]))):
            yield from _touched_by(JOB, one, world)
    for owner in world.jobsets.values():
        if any(map(look, _specs(templates(owner)))):
            yield from _touched_by(JOBSET, owner, world)


def _specs(templates: Iterable[Object]) -> Iterator[PodSpec]:
    """Yields the specs of templates that can be read; the others are refused in any case."""
    for template in templates:
        with suppress(InvalidObject):
            yield convert(template, PodTemplate).spec


def _touched_by(kind: Kind[Any], obj: Resource, world: World) -> Iterator[GroupKey]:  # Any: any kind
    """Yields the groups that read this object, except those that only its creation or deletion concerns."""
    meta = obj.metadata
    if kind is POD:
        assert isinstance(obj, Pod)
        yield from _of_pod(obj, world)
        yield from _of_others(obj, world)
        # the pod may have been a gang of one until now
        yield GroupKey(Dialect.POD, meta.namespace, meta.name)
    elif kind is JOB:
        assert isinstance(obj, Job)
        yield GroupKey(Dialect.JOB, meta.namespace, meta.name)
        _, group = _group_of_job(obj, world)
        if group is not None:
            yield group
    elif kind is JOBSET:
        assert isinstance(obj, JobSet)
        yield GroupKey(Dialect.JOBSET, meta.namespace, meta.name)
        yield from jobset.possible(obj)
    elif kind.kind == "PodGroup":
        assert isinstance(obj, PodGroup)
        dialect = _POD_GROUP_DIALECTS[kind.group]
        said, groups = (obj, *world.described(kind, meta.namespace, meta.name)), world.pod_groups(kind)
        yield GroupKey(dialect, meta.namespace, meta.name)
        for name in chain.from_iterable(ganggroup.agreeing(group, groups) for group in said):
            yield GroupKey(dialect, *name)


def _reading(kind: Kind[Any], obj: Resource, world: World) -> Iterator[GroupKey]:  # Any: any kind
    """As `_touched_by`, if the object itself has not changed: a pod is of no other group than before."""
    return _of_pod(obj, world) if isinstance(obj, Pod) else _touched_by(kind, obj, world)


def _of_pod(pod: Pod, world: World) -> Iterator[GroupKey]:
    """Yields the groups that read this pod."""
    if (key := group_of(pod, world)) is not None:
        yield key
    if described.gang_of(pod):
        yield from _touched_by(POD_GROUP_SIGS, described.told_by(pod), world)


def _of_others(pod: Pod, world: World) -> Iterator[GroupKey]:
    """Yields the PodGroup that a pod of another scheduler names if it came first or went last of its pods.

    A PodGroup that only such pods name is no gang (`Reading.empty`).
    """
    if world.schedules(pod):
        return
    for api_group, name in pod_groups(pod.metadata.labels, pod.metadata.annotations)[:1]:
        dialect, namespace = _POD_GROUP_DIALECTS[api_group], pod.metadata.namespace
        if len(world.pods_in(KINDS[dialect], namespace, name)) <= 1:
            yield podgroup.key_of(dialect, namespace, name, world)


def _group_of_job(parent: Job, world: World) -> tuple[bool, GroupKey | None]:
    """Returns whether all of a Job's owners have been seen, and the gang that its pods belong to."""
    meta = parent.metadata
    controller = controller_of(parent)
    if controller is None or not JOBSET.matches(controller):
        return True, GroupKey(Dialect.JOB, meta.namespace, meta.name) if job.is_gang(parent, world) else None
    owner = world.jobsets.get((meta.namespace, controller.name))
    if owner is None or owner.metadata.uid != controller.uid:
        return world.whole, None
    return True, jobset.key_of(owner, parent, world)


def _in_same_group(old: Resource, new: Pod, world: World) -> bool:
    """Whether a pod certainly belongs to the same group as before: the fields that name it are equal."""
    assert isinstance(old, Pod)
    before, now = old.metadata, new.metadata
    return (
        before.owner_references == now.owner_references
        and same_membership(before, now)
        and world.schedules(old) == world.schedules(new)
        and world.evictable(old) == world.evictable(new)
    )


def _same_marks(old: Resource, new: Resource) -> bool:
    """Whether a Job's or JobSet's marks for its independent pods are unchanged."""
    return all(
        mark(old.metadata, key) == mark(new.metadata, key)
        for key in (names.QUEUE, names.HOLD, names.PRIORITY)
    )


def pods_below(obj: Resource, world: World) -> Iterator[Pod]:
    """Yields the pods of a Job, or of the Jobs of a JobSet."""
    for one in [obj] if isinstance(obj, Job) else world.jobs_of(obj):
        yield from world.pods_of(one)


def _of_pods(obj: Resource | None, world: World) -> Iterator[GroupKey]:
    """Yields the keys of all pods below a Job or JobSet, as members and as gangs of one."""
    assert obj is not None, "a change has an object"
    for pod in pods_below(obj, world):
        yield from _touched_by(POD, pod, world)


def _quota_spec(quota: Resource | None) -> ResourceQuotaSpec | None:
    return quota.spec if isinstance(quota, ResourceQuota) else None


def _gang_by_default(namespace: Resource | None) -> bool:
    return namespace is not None and marks.own_gang(namespace.metadata) is True


def _layers(topology: Resource | None) -> object:
    """Returns the fields of a ClusterNetworkTopology that are read; its status changes with every node."""
    return topology.spec if isinstance(topology, ClusterNetworkTopology) else None


def _of_namespace(namespace: str, world: World) -> Iterator[GroupKey]:
    """Yields every possible key of objects in this namespace. PodGroups are few, and have no index for it."""
    for dialect in KINDS.values():
        for group in world.pod_groups(dialect).values():
            if group.metadata.namespace == namespace:
                yield from _touched_by(dialect, group, world)
    kinds: tuple[Kind[Any], ...] = (JOBSET, JOB, POD)
    for kind in kinds:
        for obj in world.in_namespace(kind, namespace):
            yield from _touched_by(kind, obj, world)


def everything(world: World) -> Iterator[GroupKey]:
    """Yields every possible key. A scan: priority classes, and bounds of queues, hardly ever change."""
    for dialect in KINDS.values():
        for group in world.pod_groups(dialect).values():
            yield from _touched_by(dialect, group, world)
    for kind, objects in ((JOBSET, world.jobsets), (JOB, world.jobs), (POD, world.pods)):
        for obj in objects.values():
            yield from _touched_by(kind, obj, world)


def _namesakes(key: GroupKey, ranked: Mapping[Dialect, tuple[Dialect, ...]], world: World) -> list[GroupKey]:
    """Returns the gangs with the same id that exist in the dialects that `ranked` names for this one."""
    if key.stage:
        return []
    return [key._replace(dialect=other) for other in ranked[key.dialect] if _exists(other, key, world)]


def _exists(dialect: Dialect, key: GroupKey, world: World) -> bool:
    """Whether the gang of this dialect exists that has the namespace and the name of `key`."""
    name = (key.namespace, key.name)
    if dialect is Dialect.JOBSET:
        found = world.jobsets.get(name)
        return found is not None and key._replace(dialect=dialect) in jobset.keys(found, world)
    if dialect is Dialect.JOB:
        return (parent := world.jobs.get(name)) is not None and job.is_gang(parent, world)
    if dialect is Dialect.POD:
        pod = world.pods.get(name)
        return pod is not None and group_of(pod, world) == key._replace(dialect=dialect)
    kind = KINDS[dialect]
    if name in world.pod_groups(kind):
        return world.together(kind, *name)[0] == name
    return any(map(world.schedules, world.pods_in(kind, *name).values()))
