"""Which groups are to be read again after a change of an object: for each kind, what its objects touch.

`keys_touched` looks the kind up in `_TOUCHED`. An object that is neither a group nor a pod touches the groups
whose pods or templates refer to it, or all groups of its namespace.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from muster import names
from muster.api import groups, kinds
from muster.api.base import AnyKind, Object, Resource, mark
from muster.api.batch_v1 import Job
from muster.api.core_v1 import (
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodSpec,
    PodTemplate,
)
from muster.api.fields import InvalidObject, convert
from muster.api.groups import Dialect
from muster.api.jobset_v1alpha2 import JobSet
from muster.translate import described, jobset, marks, podgroup
from muster.translate.claims import claim_names, templates, volume_facts
from muster.translate.devices.counted import by_class
from muster.translate.dialects import REGISTERED, group_of, group_of_job, rivals
from muster.translate.identity import GroupKey
from muster.translate.surroundings import selects_namespaces
from muster.translate.world import World


def keys_touched(kind: AnyKind, old: Resource | None, new: Resource | None, world: World) -> set[GroupKey]:
    """Returns groups to read again after `world` took in the change from `old` to `new`."""
    if isinstance(old, Pod) and isinstance(new, Pod) and _in_same_group(old, new, world):
        return {*_of_pod(new, world)}  # no gang begins or ceases to exist, so namesakes keep their ids
    keys = {*_TOUCHED[kind](kind, old, new, world)}
    return keys.union(*(rivals(key, world) for key in keys))


def regrouped(kind: AnyKind, old: Resource | None, new: Resource | None, world: World) -> bool:
    """Whether Jobs or pods that exist form, or belong to, another gang with this change."""
    if kind is kinds.NAMESPACE:
        return _gang_by_default(old) != _gang_by_default(new)
    if kind in groups.OF_NAMED:
        row = groups.BY_KIND[kind]
        return row.frees(old) != row.frees(new)
    if isinstance(old, JobSet) and isinstance(new, JobSet):
        return jobset.keys(old, world) != jobset.keys(new, world)
    if isinstance(old, Job) and isinstance(new, Job):
        return group_of_job(old, world) != group_of_job(new, world)
    return False


def relabelled(old: Resource | None, new: Resource | None) -> bool:
    """Whether a namespace was created, deleted or relabelled: selectors may then select others."""
    return old is None or new is None or old.metadata.labels != new.metadata.labels


def pods_looking_at_namespaces(world: World) -> Iterator[Pod]:
    """Yields pods on nodes whose constraints depend on which namespaces exist."""
    return (pod for pod in world.pods.values() if pod.spec.node_name and selects_namespaces(pod.spec))


def pods_below(obj: Resource, world: World) -> Iterator[Pod]:
    """Yields the pods of a Job, or of the Jobs of a JobSet."""
    for one in [obj] if isinstance(obj, Job) else world.jobs_of(obj):
        yield from world.pods_of(one)


def everything(world: World) -> Iterator[GroupKey]:
    """Yields every possible key. A scan: priority classes, and bounds of queues, hardly ever change."""
    for kind in groups.BY_KIND:
        for obj in world.all_of(kind):
            yield from _touched_by(kind, obj, world)


def _by_pod(_: AnyKind, old: Resource | None, new: Resource | None, world: World) -> Iterator[GroupKey]:
    if old is None:
        assert isinstance(new, Pod)
        yield from _of_pod(new, world)
        yield from _of_others(new, world)
        return
    for pod in filter(None, (old, new)):
        yield from _touched_by(kinds.POD, pod, world)


def _by_group(kind: AnyKind, old: Resource | None, new: Resource | None, world: World) -> Iterator[GroupKey]:
    for obj in filter(None, (old, new)):
        yield from _touched_by(kind, obj, world)
    if regrouped(kind, old, new, world):
        meta, named = _latest(old, new).metadata, groups.BY_KIND[kind].naming.kind
        for pod in world.naming(named, meta.namespace, meta.name):
            yield from _touched_by(kinds.POD, pod, world)
            for owner in world.owners_of(pod):
                yield from _touched_by(kinds.JOB if isinstance(owner, Job) else kinds.JOBSET, owner, world)


def _by_owner(kind: AnyKind, old: Resource | None, new: Resource | None, world: World) -> Iterator[GroupKey]:
    yield from _by_group(kind, old, new, world)
    if old is None or new is None or not _same_marks(old, new) or regrouped(kind, old, new, world):
        for pod in pods_below(_latest(old, new), world):
            yield from _touched_by(kinds.POD, pod, world)  # as a member, and as a gang of one


def _by_namespace(
    kind: AnyKind, old: Resource | None, new: Resource | None, world: World
) -> Iterator[GroupKey]:
    if regrouped(kind, old, new, world):
        yield from _in_namespace(_latest(old, new).metadata.name, world)
    if relabelled(old, new):
        yield from _looking(world, selects_namespaces)


def _by_volume(kind: AnyKind, old: Resource | None, new: Resource | None, world: World) -> Iterator[GroupKey]:
    if old is not None and new is not None and volume_facts(old) == volume_facts(new):
        return
    if kind is kinds.STORAGE_CLASS:
        yield from _looking(world, lambda spec: any(claim_names(spec)))
    for claim in {name for obj in (old, new) for name in _claims(obj, world)}:
        for user, of in world.users_of(claim):
            yield from _reading(of, user, world)


def _by_devices(
    kind: AnyKind, old: Resource | None, new: Resource | None, world: World
) -> Iterator[GroupKey]:
    """Yields what a claim of devices, or a template of one, touches; claims change with their allocation."""
    meta = _latest(old, new).metadata
    for user, of in world.asking_for(kind, meta.namespace, meta.name):
        yield from _reading(of, user, world)


def _by_device_class(
    _: AnyKind, old: Resource | None, new: Resource | None, world: World
) -> Iterator[GroupKey]:
    if getattr(old, "spec", None) != getattr(new, "spec", None):
        yield from asking_for_devices(world)


def asking_for_devices(world: World) -> Iterator[GroupKey]:
    """Yields the groups whose pods have claims of devices, or name classes of these. A scan."""
    return _looking(world, lambda spec: bool(spec.resource_claims) or any(by_class(spec)))


def _by_bounds(_: AnyKind, old: Resource | None, new: Resource | None, world: World) -> Iterator[GroupKey]:
    """Yields what a ResourceQuota or LimitRange touches; the status of a quota changes with every pod."""
    if getattr(old, "spec", None) != getattr(new, "spec", None):
        yield from _in_namespace(_latest(old, new).metadata.namespace, world)


def _by_runtime_class(
    _: AnyKind, old: Resource | None, new: Resource | None, world: World
) -> Iterator[GroupKey]:
    name = _latest(old, new).metadata.name
    return _looking(world, lambda spec: spec.runtime_class_name == name)


def _by_priority_class(
    _: AnyKind, old: Resource | None, new: Resource | None, world: World
) -> Iterator[GroupKey]:
    return everything(world)


def _by_topology(_: AnyKind, old: Resource | None, new: Resource | None, world: World) -> Iterator[GroupKey]:
    """Yields what a ClusterNetworkTopology touches; its status changes with every node."""
    if getattr(old, "spec", None) != getattr(new, "spec", None):
        yield from everything(world)


#: by kind, the groups to read again after a change of an object, besides those of the same name
_TOUCHED: Final[
    Mapping[AnyKind, Callable[[AnyKind, Resource | None, Resource | None, World], Iterator[GroupKey]]]
] = {
    **dict.fromkeys(groups.OF_NAMED, _by_group),
    kinds.POD: _by_pod,
    kinds.JOB: _by_owner,
    kinds.JOBSET: _by_owner,
    kinds.NAMESPACE: _by_namespace,
    kinds.PERSISTENT_VOLUME_CLAIM: _by_volume,
    kinds.PERSISTENT_VOLUME: _by_volume,
    kinds.STORAGE_CLASS: _by_volume,
    kinds.RESOURCE_CLAIM: _by_devices,
    kinds.RESOURCE_CLAIM_TEMPLATE: _by_devices,
    kinds.DEVICE_CLASS: _by_device_class,
    kinds.RESOURCE_QUOTA: _by_bounds,
    kinds.LIMIT_RANGE: _by_bounds,
    kinds.RUNTIME_CLASS: _by_runtime_class,
    kinds.PRIORITY_CLASS: _by_priority_class,
    kinds.CLUSTER_NETWORK_TOPOLOGY: _by_topology,
}


def _latest(old: Resource | None, new: Resource | None) -> Resource:
    latest = new or old
    assert latest is not None, "a change has an object"
    return latest


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
            yield from _reading(kinds.POD, pod, world)
    for one in world.jobs.values():
        if any(map(look, _specs([one.spec.template]))):
            yield from _touched_by(kinds.JOB, one, world)
    for owner in world.jobsets.values():
        if any(map(look, _specs(templates(owner)))):
            yield from _touched_by(kinds.JOBSET, owner, world)


def _specs(templates: Iterable[Object]) -> Iterator[PodSpec]:
    """Yields the specs of templates that can be read; the others are refused in any case."""
    for template in templates:
        with suppress(InvalidObject):
            yield convert(template, PodTemplate).spec


def _touched_by(kind: AnyKind, obj: Resource, world: World) -> Iterator[GroupKey]:
    """Yields the groups that read this object, except those that only its creation or deletion concerns."""
    if isinstance(obj, Pod):
        yield from _of_pod(obj, world)
        yield from _of_others(obj, world)
        # the pod may have been a gang of one until now
        yield GroupKey(groups.POD, obj.metadata.namespace, obj.metadata.name)
        return
    yield from _of_group(groups.BY_KIND[kind].naming, obj, world)
    if isinstance(obj, Job) and (group := group_of_job(obj, world)[1]) is not None:
        yield group


def _of_group(row: Dialect, obj: Resource, world: World) -> Iterator[GroupKey]:
    """Yields the groups that a group object may be read as, or as a part of."""
    yield GroupKey(row, obj.metadata.namespace, obj.metadata.name)
    yield from REGISTERED[row].others(row, obj, world)


def _reading(kind: AnyKind, obj: Resource, world: World) -> Iterator[GroupKey]:
    """As `_touched_by`, if the object itself has not changed: a pod is of no other group than before."""
    return _of_pod(obj, world) if isinstance(obj, Pod) else _touched_by(kind, obj, world)


def _of_pod(pod: Pod, world: World) -> Iterator[GroupKey]:
    """Yields the groups that read this pod."""
    if (key := group_of(pod, world)) is not None:
        yield key
    if described.gang_of(pod):
        yield from _of_group(groups.DESCRIBED, described.told_by(pod), world)


def _of_others(pod: Pod, world: World) -> Iterator[GroupKey]:
    """Yields the group that a pod of another scheduler names if it came first or went last of such pods.

    A group that only such pods name is no gang (`Reading.empty`), and one that some of them name is refused.
    """
    if world.schedules(pod) or (named := groups.named(pod)) is None:
        return
    row, namespace = named.dialect, pod.metadata.namespace
    if len(world.strangers_in(row.kind, namespace, named.name)) <= 1:
        yield podgroup.key_of(row, namespace, named.name, world)


def _in_same_group(old: Pod, new: Pod, world: World) -> bool:
    """Whether a pod certainly belongs to the same group as before: the fields that name it are equal."""
    before, now = old.metadata, new.metadata
    return (
        before.owner_references == now.owner_references
        and groups.named_alike(old, new)
        and world.schedules(old) == world.schedules(new)
        and world.evictable(old) == world.evictable(new)
    )


def _same_marks(old: Resource, new: Resource) -> bool:
    """Whether a Job's or JobSet's marks for its independent pods are unchanged."""
    return marks.foreign(old) == marks.foreign(new) and all(
        mark(old.metadata, key) == mark(new.metadata, key)
        for key in (names.QUEUE, names.HOLD, names.PRIORITY)
    )


def _gang_by_default(namespace: Resource | None) -> bool:
    return namespace is not None and marks.own_gang(namespace.metadata) is True


def _in_namespace(namespace: str, world: World) -> Iterator[GroupKey]:
    """Yields every possible key of objects in this namespace. PodGroups are few, and have no index for it."""
    for kind in groups.BY_KIND:
        for obj in world.in_namespace(kind, namespace):
            yield from _touched_by(kind, obj, world)
