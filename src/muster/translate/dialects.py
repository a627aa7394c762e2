"""The registry of dialects: how their gangs are read, and to which group a pod belongs.

A dialect is a row of the table in `muster.api.groups` and a module here with a `Reader`; `REGISTERED` joins
them. A reader keeps what it has read: a change of one pod costs one pod, whatever the size of its gang.

A pod whose Job or JobSet has not been seen yet belongs to no gang: as a gang of one it would be bound alone a
moment before its gang is known. (If the world is known to be complete, no object is still to be seen.) A pod
whose group makes no gang (Kubernetes' policy *basic*) is what it would be without that group.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from muster.api import groups
from muster.api.base import controller_of
from muster.api.batch_v1 import Job
from muster.api.core_v1 import Pod
from muster.api.fields import UNREADABLE
from muster.api.groups import Dialect
from muster.api.kinds import JOB, JOBSET
from muster.api.muster_v1alpha1 import Source
from muster.core.words.gang import Code, Gang, GangId, Gate, PodId
from muster.translate import bare, job, jobset, limits, podgroup
from muster.translate.group import NONE_MOVED, Group, Members, ReadGroup, Touched
from muster.translate.identity import GroupKey
from muster.translate.registration import Registration
from muster.translate.world import World

#: by dialect, the dialects that rank before it and those that rank after it
_ABOVE: Final = {row: groups.OF_GANGS[:rank] for rank, row in enumerate(groups.OF_GANGS)}
_BELOW: Final = {row: groups.OF_GANGS[rank + 1 :] for rank, row in enumerate(groups.OF_GANGS)}
#: Most characters of what a gate says: it may quote what people write.
LONGEST_REFUSAL: Final = 1000
log = logging.getLogger(__name__)


class Reader:
    """The reader of one group. Members keep their places between two readings."""

    __slots__ = ("_key", "_reader", "_world")

    def __init__(self, key: GroupKey, world: World) -> None:
        self._key, self._world = key, world
        self._reader = REGISTERED[key.dialect].reader(key, world)

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
            log.exception("%s %s/%s cannot be read", key.dialect.name, key.namespace, key.name)
            self._reader = REGISTERED[key.dialect].reader(key, self._world)
            why = f"cannot be read: {type(error).__name__}: {error}"
            return _within(_unreadable(key, why, self._world.lease)), NONE_MOVED

    def renew(self, group: Group, old: Pod, new: Pod) -> bool:
        """Replaces a running member by its newer state, from which the same gang is read.

        Returns False if the group must be read again.

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
            self._reader = REGISTERED[key.dialect].reader(key, world)
        if key.dialect is groups.POD and not _exists(groups.POD, key, world):
            return None, NONE_MOVED
        group, moved = self._reader.read(touched)
        if group is not None and (too_much := limits.of_gang(group.gang.pod_sets)) is not None:
            group = replace(group, gang=replace(group.gang, gate=too_much))
        group = _within(group)
        if group is None or not rivals(key, world, above=True):
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
    kind = key.dialect.kind
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
        if key.dialect is not groups.POD
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
    alone = GroupKey(groups.POD, meta.namespace, meta.name)
    if world.victims and world.evictable(pod):
        return alone
    if not world.schedules(pod):
        return None
    if (named := world.grouped(pod)) is not None:
        if _owner_awaited(pod, named, world):
            return None
        return podgroup.key_of(named.dialect, meta.namespace, named.name, world)
    controller = controller_of(pod)
    if controller is None or not JOB.matches(controller):
        return alone
    parent = world.jobs.get(its_name := (meta.namespace, controller.name))
    if parent is None or parent.metadata.uid != controller.uid:
        return alone if world.whole else None
    if its_name not in world.groups_of_jobs:
        world.groups_of_jobs[its_name] = group_of_job(parent, world)
    known, group = world.groups_of_jobs[its_name]
    return (group or alone) if known else None


def _owner_awaited(pod: Pod, named: groups.Named, world: World) -> bool:
    """Whether the group that the pod names owns it, and has not been seen yet: it may free its pods."""
    name, owners = (pod.metadata.namespace, named.name), pod.metadata.owner_references
    if world.whole or not owners or name in world.groups_of(named.dialect):
        return False
    rows = groups.SHARING[named.dialect]
    return any(row.kind.matches(owner) and owner.name == named.name for row in rows for owner in owners)


def group_of_job(parent: Job, world: World) -> tuple[bool, GroupKey | None]:
    """Returns whether all of a Job's owners have been seen, and the gang that its pods belong to."""
    meta = parent.metadata
    controller = controller_of(parent)
    if controller is None or not JOBSET.matches(controller):
        return True, GroupKey(groups.JOB, meta.namespace, meta.name) if job.is_gang(parent, world) else None
    owner = world.jobsets.get((meta.namespace, controller.name))
    if owner is None or owner.metadata.uid != controller.uid:
        return world.whole, None
    return True, jobset.key_of(owner, parent, world)


def rivals(key: GroupKey, world: World, *, above: bool = False) -> list[GroupKey]:
    """Returns the gangs with the same id that exist in the dialects above, or below, this one."""
    if key.stage:
        return []
    others = (_ABOVE if above else _BELOW)[key.dialect]
    return [key._replace(dialect=other) for other in others if _exists(other, key, world)]


def _exists(dialect: Dialect, key: GroupKey, world: World) -> bool:
    """Whether the gang of this dialect exists that has the namespace and the name of `key`."""
    return REGISTERED[dialect].exists(dialect, key.namespace, key.name, world)


def _is_alone(dialect: Dialect, namespace: str, name: str, world: World) -> bool:
    """Whether there is such a pod, and it is a gang of one."""
    pod = world.pods.get((namespace, name))
    return pod is not None and group_of(pod, world) == GroupKey(dialect, namespace, name)


REGISTERED: Final[Mapping[Dialect, Registration]] = {
    groups.JOBSET: jobset.REGISTRATION,
    groups.JOB: job.REGISTRATION,
    groups.POD_GROUP: podgroup.REGISTRATION,
    groups.KOORDINATOR: podgroup.REGISTRATION,
    groups.VOLCANO: podgroup.REGISTRATION,
    groups.NATIVE: podgroup.REGISTRATION,
    groups.POD: Registration(bare.Reader, _is_alone),
}
