"""Pods without a group: each is a gang of one.

The bind of the pod is the whole transaction, so the gang has no Gang record (unless it has victims) and its
`Group.source` is empty; the pod's PodScheduled condition gives the reason why it waits.
"""

from dataclasses import replace

from muster.api import foreign_marks, groups
from muster.api.base import ObjectMeta, controller_of, mark
from muster.api.core_v1 import Pod
from muster.api.groups import Asked
from muster.api.muster_v1alpha1 import Source
from muster.api.named_queue import stated_queue
from muster.api.times import seconds
from muster.core.words.gang import FOREIGN, Code, Gang, GangId, Gate, Place, PodId, PodSet
from muster.translate import marks, network, quotas
from muster.translate.group import NONE_MOVED, Group, Members, ReadGroup, Touched
from muster.translate.identity import GroupKey
from muster.translate.job import MAIN
from muster.translate.pods import asked, labels_of, live, occupies, scheduling_gates
from muster.translate.priority import chosen, may_preempt, priority, ranked
from muster.translate.running import marked, pod_limit, run
from muster.translate.start_failures import origin_of
from muster.translate.world import World


class Reader:
    """Reads the gang of one pod. (The registry has already decided that the pod is in no group.)"""

    __slots__ = ("_key", "_world")

    def __init__(self, key: GroupKey, world: World) -> None:
        self._key, self._world = key, world

    def read(self, touched: Touched) -> ReadGroup:
        return _read(self._key, self._world), NONE_MOVED

    def renew(self, pod: Pod) -> None:
        pass  # it keeps no pod


def _read(key: GroupKey, world: World) -> Group | None:
    pod = world.pods.get((key.namespace, key.name))
    if pod is None:
        return None
    meta = pod.metadata
    shape, refusal = asked(pod, world)
    above = [*world.owners_of(pod)]
    owners, foreign = [meta, *(owner.metadata for owner in above)], marks.foreign(pod, *above)
    queue, _ = marks.queue(map(stated_queue, owners), (), key.namespace, world)
    number, group = priority(pod.spec, world), _freed_by(pod, world)
    rank = ranked(owners, number if isinstance(number, int) else 0, key.namespace, queue, world, group)
    unranked = rank.refusal or (number if chosen(owners, world, group) is None else None)
    gates = scheduling_gates(pod.spec)
    topology = network.wish(network.rules(meta), {}, world)
    gate = None
    if not pod.spec.node_name:
        gate = (
            marks.refusal(meta, of_pods=True)
            or _named_gang(meta)
            or marks.ungrouped(foreign)
            or _ungrouped_yet(pod, world)
            or topology.refusal
            or refusal
            or (unranked if isinstance(unranked, Gate) else None)
            or next(filter(None, map(marks.hold, owners)), None)
            or (Gate(Code.GATED, f"scheduling gate {gates}; it must be removed") if gates else None)
            or quotas.forbidden(pod, world)
        )
    uncreated, charges = quotas.proposed([pod], world)
    members = Members()
    if live(pod):
        members.put(pod, None if gates else Place(MAIN, 0))
    gang = Gang(
        id=GangId(f"{key.namespace}/{key.name}"),
        pod_sets=(
            PodSet(MAIN, shape, 1, 1, labels=labels_of(meta.labels), uncreated=uncreated, quotas=charges),
        ),
        min_count=1,
        submitted=seconds(meta.creation_timestamp),
        priority=rank.number,
        queue=queue,
        gate=gate,
        namespace=key.namespace,
        origin=origin_of(pod),
        preempts=rank.preempts and (group is None or group.preempts) and may_preempt(pod.spec, world),
        of_node=pod.of_its_node,
        limit=pod_limit(pod),
    )
    gang = marked(topology.of(gang), run(meta), ())
    if world.evictable(pod):
        gang = replace(gang, queue=FOREIGN, priority=number if isinstance(number, int) else 0, gate=None)
        gang = replace(gang, preempts=False, gather=(), exclusive="")
    return Group(
        gang=gang,
        namespace=key.namespace,
        record=key.record,
        source=Source(),
        owner=None,
        members=members,
        # the successor of a pod that is being deleted is another pod, and another gang
        retired=frozenset() if live(pod) else frozenset({Place(MAIN, 0)}),
        finished=not live(pod) and not occupies(pod),
        controlled=controller_of(pod) is not None,
        leaving={PodId(meta.uid): pod} if occupies(pod) and not live(pod) else {},
        warnings=(*rank.warnings, *foreign_marks.sentences(foreign)),
    )


def _ungrouped_yet(pod: Pod, world: World) -> Gate | None:
    """Returns why a pod waits that another controller has yet to put into a PodGroup; None if none has to.

    The PodGroup may have a minimum, or a queue, that the pod's owners ask for and muster does not read.
    """
    name = pod.spec.scheduler_name
    if name not in world.awaiting or groups.named(pod) is not None:
        return None
    why = f"waits for the PodGroup that a controller makes for pods of schedulerName {name} (awaitPodGroups)"
    return Gate(Code.GATED, why)


def _freed_by(pod: Pod, world: World) -> Asked | None:
    """Returns what the group asks for that the pod names, and whose pods are no gang."""
    if (named := groups.named(pod)) is None or named.dialect.asked is None:
        return None
    group = world.groups_of(named.dialect).get((pod.metadata.namespace, named.name))
    return named.dialect.asked(group) if group is not None else None


def _named_gang(meta: ObjectMeta) -> Gate | None:
    """Returns Invalid if the pod names a gang in a way that could not be read: it would start alone."""
    for key in groups.DESCRIPTIONS:
        if gang := mark(meta, key):
            message = f"{key} is {gang[:80]!r}; write the gang's name in lower-case letters, digits, - and ."
            return Gate(Code.INVALID, message)
    if empty := next((key for key in groups.ANNOTATIONS if meta.annotations.get(key) == ""), None):
        return Gate(Code.INVALID, f"{empty} is empty; write the name of the pod's group, or leave it out")
    return None
