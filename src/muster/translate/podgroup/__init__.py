"""Reads PodGroups, of scheduler-plugins and of Koordinator: gangs of all pods that name them.

Only the pods state the demand, so the gang waits until `minMember` of them exist. Pods of
equal shape form a pod set (`pod_sets.py`), and each pod has a place in it (`places.py`). Several PodGroups of
one GangGroup form one gang; each PodGroup's minimum holds separately.

A gang that pods describe, without a PodGroup, is read as if a PodGroup with the same content existed
(`translate/described.py`). If a pod names by label a PodGroup that does not exist (the object may be
applied after the pods), its gang waits: MembersMissing.
"""

from collections.abc import Iterable

from muster import names
from muster.api.base import controller_of, mark
from muster.api.muster_v1alpha1 import Source
from muster.api.scheduling import PodGroup
from muster.core.words.gang import Gang, GangId
from muster.translate import ganggroup, marks, network
from muster.translate.group import Group, Member
from muster.translate.identity import Dialect, GroupKey
from muster.translate.podgroup.facts import facts
from muster.translate.podgroup.gates import disagreement, gate_of
from muster.translate.podgroup.members import Pods
from muster.translate.podgroup.reading import KINDS, read_one
from muster.translate.priority import chosen
from muster.translate.running import SILENT, limit_of_all, marked, pod_limit, run
from muster.translate.world import World


def read(key: GroupKey, world: World, before: Group | None = None) -> Group | None:
    """Returns the gang of a PodGroup or a GangGroup, or of pods that name a PodGroup that does not exist."""
    kind = KINDS[key.dialect]
    here = key.namespace, key.name
    groups = [group for group in world.naming(kind, *here) if ganggroup.home(group) == here]
    if groups:
        several = len(groups) > 1 or len(ganggroup.named(groups[0])) > 1
        readings = [read_one(kind, _name(group), world, before, several) for group in groups]
    else:
        readings = [read_one(kind, here, world, before, several=False)]
        if here in world.pod_groups(kind) or readings[0].empty:
            return None  # part of another gang, or nothing to read
    members = {uid: member for one in readings for uid, member in one.members.items()}
    pods = [pod for one in readings for pod in one.pods.ready]
    topology = network.wish((group.metadata for group in groups), (pod.metadata for pod in pods), world)
    queue, quarrel = marks.queue([group.metadata for group in groups], (pod.metadata for pod in pods))
    by_place = {member.place: member.pod for member in members.values() if member.place is not None}
    said_by = [facts(pod, world) for pod in pods]
    numbers = [one.priority for one in said_by if one.priority is not None]
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
        or disagreement(groups, kind, world)
        or next(filter(None, (gate_of(key, one, len(readings) > 1, world) for one in readings)), None),
        preempts=all(one.preempts for one in said_by),
        limit=limit_of_all(pod_limit(member.pod) for member in members.values()),
    )
    own, runs = SILENT, [one.run for one in said_by]
    if len(groups) == 1:
        own = run(groups[0].metadata)
    else:  # of several groups the most careful counts, as among pods
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
        # the record for re-creating pods belongs to one namespace
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
    """Returns the gang of the pods that name this PodGroup."""
    group = world.pod_groups(KINDS[dialect]).get((namespace, name))
    return GroupKey(dialect, *(ganggroup.home(group) if group is not None else (namespace, name)))


def _name(group: PodGroup) -> ganggroup.Name:
    return group.metadata.namespace, group.metadata.name


def _may_be_recreated(group: PodGroup | None, members: Iterable[Member]) -> bool:
    """Whether each member without a controller says so; a member that says nothing follows its group."""
    default = mark(group.metadata, names.ON_PARTIAL) if group is not None else None
    return all(
        (mark(member.pod.metadata, names.ON_PARTIAL) or default) == marks.RECREATE
        for member in members
        if controller_of(member.pod) is None
    )


def _submitted(group: PodGroup | None, pods: Pods) -> float:
    """Returns the creation time of the group, or of the oldest pod."""
    if group is not None:
        created = [group.metadata.creation_timestamp]
    else:
        created = [pod.metadata.creation_timestamp for pod in (*pods.ready, *pods.gated, *pods.ended)]
    return min((time.timestamp() for time in created if time is not None), default=0.0)
