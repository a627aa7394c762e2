"""Reads PodGroups, of scheduler-plugins and of Koordinator: gangs of all pods that name them.

Only the pods state the demand, so the gang waits until `minMember` of them exist. Pods of equal shape form a
pod set (`pod_sets.py`), and each pod has a place in it (`places.py`). Several PodGroups of one GangGroup form
one gang; the minimum of each PodGroup holds by itself.

A gang that pods describe, without a PodGroup, is read as if a PodGroup with the same content existed
(`translate/described.py`). If a pod names by label a PodGroup that does not exist (the object may be
applied after the pods), its gang waits: MembersMissing.
"""

from collections import ChainMap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from muster.api import foreign_marks
from muster.api.base import Resource
from muster.api.core_v1 import Pod
from muster.api.groups import Dialect
from muster.api.marks import KEEP, ON_PARTIAL
from muster.api.muster_v1alpha1 import Source
from muster.core.words.gang import Gang, GangId, Gate
from muster.translate import ganggroup, marks, network
from muster.translate.group import Group, ReadGroup, Touched, all_of
from muster.translate.identity import GroupKey
from muster.translate.podgroup.facts import Said
from muster.translate.podgroup.gates import disagreement, gate_of, orphaned, unheld
from muster.translate.podgroup.reading import Reading
from muster.translate.priority import Ranked, ranked
from muster.translate.registration import Registration
from muster.translate.running import SILENT, limit_of_all, marked, run
from muster.translate.world import World


class Reader:
    """Reads the gang of a PodGroup or a GangGroup, or of pods that name a PodGroup that does not exist."""

    def __init__(self, key: GroupKey, world: World) -> None:
        self._key, self._world = key, world
        self._readings: dict[ganggroup.Name, Reading] = {}

    def read(self, touched: Touched) -> ReadGroup:
        key, world = self._key, self._world
        kind, here = key.dialect.kind, (key.namespace, key.name)
        named = world.together(kind, *here)
        if named[0] != here:
            named = ()  # it is read at another PodGroup
        # a PodGroup that is not there has the pods that name it nevertheless
        readings = self._look(named, len(named) > 1, touched)
        moved = frozenset().union(*(one.moved for one in readings))
        for one in readings:
            one.moved.clear()
        readings = [one for one in readings if not one.empty]
        groups = [one.group for one in readings if one.group is not None]
        if not readings or world.frees(key.dialect, *here):
            return None, moved
        said = list(dict.fromkeys(said for one in readings for said in one.said))
        kept = {kept for one in readings for kept in one.kept}
        topology = _topology(readings, world)
        queue, quarrel = marks.queue(
            (one.queue for one in readings), (one.queue for one in said), key.namespace, world
        )
        rank = _rank(readings, queue, world)
        source, of = (groups[0] if groups else None), world.describing(key.dialect, *here).kind
        gang = Gang(
            id=GangId(f"{key.namespace}/{key.name}"),
            pod_sets=tuple(pod_set for one in readings for pod_set in one.pod_sets),
            min_count=sum(one.least for one in readings),
            submitted=min(one.submitted for one in readings),
            priority=rank.number,
            queue=queue,
            namespace=key.namespace,
            gate=topology.refusal
            or quarrel
            or disagreement(readings, world.groups_of(key.dialect))
            or next(filter(None, (gate_of(key, one, world) for one in readings)), None),
            preempts=rank.preempts
            and all(one.asked.preempts for one in readings if one.asked is not None)
            and all(one.preempts for one in said),
            indivisible=any(one.asked.indivisible for one in readings if one.asked is not None),
            limit=limit_of_all(one.limit for one in kept),
            subgroups=tuple(subgroup for one in readings for subgroup in one.subgroups),
        )
        own, runs = SILENT, [one.run for one in said]
        if len(groups) == 1:
            own = run(groups[0].metadata)
        else:  # of several groups the most careful counts, as among pods
            runs += [run(group.metadata) for group in groups]
        group = Group(
            gang=marked(topology.of(gang), own, runs),
            namespace=key.namespace,
            record=key.record,
            source=Source(
                api_version=of.api_version,
                kind=of.kind,
                name=key.name,
                uid=source.metadata.uid if source is not None else "",
            ),
            owner=None,
            members=all_of([one.members for one in readings]),
            retired=frozenset().union(*(one.retired for one in readings)),
            finished=all(one.finished for one in readings),
            controlled=bool(kept) and all(one.controlled for one in kept),
            # the record for re-creating pods belongs to one namespace
            recreate=all(map(_may_be_recreated, readings))
            and all(one.name[0] == key.namespace for one in readings),
            rejected=tuple(pod for one in readings for pod in one.rejected()),
            lease=world.lease,
            leaving=ChainMap(*(one.leaving for one in readings)),
            set_groups={
                pod_set.name: one.name[1] if one.name[0] == key.namespace else "/".join(one.name)
                for one in readings
                for pod_set in one.places
                if one.name != here
            },
            warnings=(
                *rank.warnings,
                *topology.warnings,
                *chain.from_iterable(one.asked.warnings for one in readings if one.asked is not None),
                *_foreign(groups, said),
                *chain.from_iterable(orphaned(key, one) for one in readings),
                *dict.fromkeys(chain.from_iterable(unheld(one, world) for one in readings)),
            ),
        )
        return group, moved

    def renew(self, pod: Pod) -> None:
        for one in self._readings.values():
            one.renew(pod)

    def _look(self, names: Sequence[ganggroup.Name], several: bool, touched: Touched) -> list[Reading]:
        """Returns the readings of these PodGroups, up to date with what was touched."""
        known, self._readings = self._readings, {}
        for name in names:
            one = known.get(name)
            if one is None or one.several != several:
                one = Reading(self._key.dialect, name, self._world, several=several)
            else:
                if touched.others:
                    one.note_referring(touched.others)
                for pod in touched.pods:
                    one.note_changed(pod)
            one.settle()
            self._readings[name] = one
        return [*self._readings.values()]


def _exists(dialect: Dialect, namespace: str, name: str, world: World) -> bool:
    kind, here = dialect.kind, (namespace, name)
    if here in world.groups_of(dialect):
        return world.together(kind, *here)[0] == here and not world.frees(dialect, *here)
    return bool(world.pods_in(kind, *here))


def _agreeing(dialect: Dialect, group: Resource, world: World) -> Iterator[GroupKey]:
    """Yields the PodGroups with which it forms a GangGroup, or did, or would as its pods describe it."""
    kind, known = dialect.kind, world.groups_of(dialect)
    said = (group, *world.described(kind, group.metadata.namespace, group.metadata.name))
    for name in chain.from_iterable(ganggroup.agreeing(one, known) for one in said):
        yield GroupKey(dialect, *name)


REGISTRATION: Final = Registration(Reader, _exists, _agreeing)


def key_of(dialect: Dialect, namespace: str, name: str, world: World) -> GroupKey:
    """Returns the gang of the pods that name this PodGroup."""
    return GroupKey(dialect, *world.together(dialect.kind, namespace, name)[0])


def _topology(readings: Sequence[Reading], world: World) -> network.Wish:
    """Returns the rules of the PodGroups. One that has neither pods nor rules says nothing yet."""
    parts: dict[str, network.Rules] = {}
    for one in readings:
        found = network.of_pods(
            one.group.metadata if one.group is not None else None, {said.rules for said in one.said}
        )
        if isinstance(found, Gate):
            whose = f"PodGroup {'/'.join(one.name)}: " if one.several else ""
            return network.Wish(refusal=replace(found, message=whose + found.message))
        if one.said or any(found):
            parts["/".join(one.name)] = found
    wish = network.wish(("", ""), parts, world)
    for one in readings:
        if layer := world.layers.labels.of_label(one.domain):
            wish = network.within(wish, layer, "/".join(one.name) if one.several else "")
    return wish


def _foreign(groups: Sequence[Resource], said: Sequence[Said]) -> dict[str, None]:
    """Returns what is said of marks of other schedulers, on the groups and on their pods: each once."""
    of_groups = foreign_marks.sentences(marks.foreign(*groups))
    return dict.fromkeys((*of_groups, *chain.from_iterable(one.foreign for one in said)))


def _rank(readings: Sequence[Reading], queue: str, world: World) -> Ranked:
    """Returns the priority that the groups of a namespace choose, else the highest of their pods.

    Of several namespaces the least counts: none may raise the pods of another. Each may forbid preemption.
    """
    of_namespaces: dict[str, list[Reading]] = {}
    for one in readings:
        of_namespaces.setdefault(one.name[0], []).append(one)
    ranks = [_rank_in(there, name, queue, world) for name, there in of_namespaces.items()]
    least = min(ranks, key=lambda rank: rank.number)
    return least._replace(preempts=all(rank.preempts for rank in ranks))


def _rank_in(readings: Sequence[Reading], namespace: str, queue: str, world: World) -> Ranked:
    owners = [one.group.metadata for one in readings if one.group is not None]
    asked = [one.asked for one in readings if one.asked is not None]
    said = chain.from_iterable(one.said for one in readings)
    highest = max((one.priority for one in said if one.priority is not None), default=0)
    first = next((each for each in asked if each.priority_class or each.priority is not None), None)
    return ranked(owners, highest, namespace, queue, world, first)


def _may_be_recreated(one: Reading) -> bool:
    """Whether no member without a controller is to be kept; one that says nothing follows its group.

    Without its group object a gang may not: if that were deleted, too, its user would want the pods to end.
    """
    if one.group is None:
        return False
    default = ON_PARTIAL.get(one.group.metadata)
    return not any((kept.on_partial or default) == KEEP for kept in one.kept if not kept.controlled)
