"""A gang that is read on, change by change, is the gang that one look at the same objects shows.

Readers keep what they have read, so a change of one pod costs one pod. Whatever comes and goes, in whatever
portions it is read, nothing of what was there before may be left. Only the places of pods that no annotation
binds depend on the past (`muster.translate.places`): they stay where they were.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from muster.api import groups
from muster.api.base import Kind, Object, Resource
from muster.api.core_v1 import Pod
from muster.api.kinds import JOB, JOBSET, POD, POD_GROUP_X
from muster.api.koordinator_v1alpha1 import TOPOLOGY_INDEX
from muster.api.storage_v1 import SELECTED_NODE, WAIT_FOR_FIRST_CONSUMER
from muster.core.words.gang import Place, PodId, PodSet
from muster.names import QUEUE
from muster.runtime.mirror import Mirror
from muster.translate.dialects import Reader
from muster.translate.group import Group
from muster.translate.identity import GroupKey
from muster.translate.places import planned
from muster.translate.podgroup.places import Places
from muster.translate.podgroup.reading import Noted, Reading
from muster.translate.world import World
from tests.tiers import examples
from tests.translate.cluster import (
    Objects,
    child,
    grouped,
    job,
    jobset,
    kind_of,
    namespace,
    pod,
    pod_group,
    pod_spec,
    priority_class,
    read,
    read_on,
    world,
)
from tests.translate.test_constraints import claim, storage_class, volume
from tests.translate.test_created import limit_range
from tests.translate.test_quotas import quota

NAMES = 7
KEYS = {
    "PodGroup": GroupKey(groups.POD_GROUP, "ns", "g"),
    "Job": GroupKey(groups.JOB, "ns", "j"),
    "JobSet": GroupKey(groups.JOBSET, "ns", "s"),
}
#: what may become of a pod, by what it is: each step is one that Kubernetes allows
NEXT = {
    "gated": ("waits", "deleted"),
    "waits": ("bound", "bound", "failed", "deleted", "gone"),
    "bound": ("runs", "deleted", "gone"),
    "runs": ("succeeded", "failed", "deleted", "gone"),
    "succeeded": ("gone",),
    "failed": ("gone",),
    "deleted": ("gone",),
}
PHASES = {"runs": "Running", "succeeded": "Succeeded", "failed": "Failed"}


class Cluster:
    """The objects of one gang as they come and go; `draw` decides."""

    def __init__(self, dialect: str, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.dialect, self.draw = dialect, draw
        self.objects: dict[tuple[Kind[Any], str], Resource] = {}
        self.states: dict[str, tuple[str, Object]] = {}
        self.numbers = itertools.count()

    def step(self, group: Group | None) -> None:
        """One change; a pod is bound to the place that it has."""
        if self.draw(st.integers(0, 5)) == 0:
            self._put_group()
            return
        name = f"p{self.draw(st.integers(0, NAMES - 1))}"
        state, fields = self.states.get(name, ("", {}))
        if not state:
            self.states[name] = self.draw(st.sampled_from(["waits", "waits", "gated", "bound"])), self._pod()
        else:
            state = self.draw(st.sampled_from([*NEXT[state], state]))
            if state == "bound":
                members = group.members.values() if group is not None else ()
                where = next((m.place for m in members if m.pod.metadata.name == name), None)
                fields = fields | {"plan": f"1.1/{where.pod_set}/{where.index}" if where is not None else ""}
            self.states[name] = state, fields
        self._show(name)

    def now(self) -> World:
        return world(*self.objects.values())

    def _pod(self) -> Object:
        draw = self.draw
        return {
            "uid": f"uid-{next(self.numbers)}",
            "large": draw(st.booleans()),
            "index": draw(st.none() | st.integers(0, 4)),
            "created": draw(st.integers(0, 2)),
            "queue": draw(st.sampled_from(["", "", "", "a"])),
            "rank": draw(st.sampled_from(["", "", "2"])),
            "of": draw(st.sampled_from(["s-w-0", "s-w-0", "s-w-1", "s-x-0"])),
        }

    def _show(self, name: str) -> None:
        state, fields = self.states[name]
        if state == "gone":
            del self.states[name]
            del self.objects[POD, name]
            return
        gates = {"schedulingGates": [{"name": "later"}]} if state == "gated" else {}
        how: Object = {
            "phase": PHASES.get(state, "Pending"),
            "node": "n" if state in ("bound", "runs", "succeeded") else "",
            "deleting": state == "deleted",
            "plan": fields.get("plan", ""),
            "created": fields["created"],
            "annotations": {TOPOLOGY_INDEX: fields["rank"]} if fields["rank"] else {},
            "spec": pod_spec(2 if fields["large"] and self.dialect == "PodGroup" else 1) | gates,
        }
        found = self._made(name, fields, how)
        meta = replace(found.metadata, uid=fields["uid"], resource_version=str(next(self.numbers)))
        if fields["queue"]:
            meta = replace(meta, labels={**meta.labels, QUEUE: fields["queue"]})
        self.objects[POD, name] = replace(found, metadata=meta)

    def _made(self, name: str, fields: Object, how: Object) -> Pod:
        if self.dialect == "PodGroup":
            return grouped(name, **how)
        return pod(
            name, owner=job("j" if self.dialect == "Job" else fields["of"]), index=fields["index"], **how
        )

    def _put_group(self) -> None:
        draw = self.draw
        status = {
            "succeeded": draw(st.integers(0, 2)),
            "completedIndexes": draw(st.sampled_from(["", "0", "1-2"])),
        }
        made: list[Resource] = []
        if self.dialect == "PodGroup":
            made = [pod_group(minimum=draw(st.integers(0, 5)))]
        elif self.dialect == "Job":
            mode = draw(st.sampled_from(["Indexed", "NonIndexed"]))
            wide, total = draw(st.integers(1, 5)), draw(st.sampled_from([None, 3, 10]))
            made = [job(gang="true", parallelism=wide, completions=total, completionMode=mode, status=status)]
        else:
            parts = {"w": {"replicas": draw(st.integers(1, 2)), "parallelism": 2, "completions": 2}, "x": {}}
            whole = jobset(jobs=parts, status={"restarts": draw(st.integers(0, 1))})
            made = [whole]
            for part, number in draw(st.sets(st.sampled_from([("w", 0), ("w", 1), ("x", 0)]))):
                made.append(child(whole, part, number, attempt=draw(st.integers(0, 1)), status=status))
        for one in made:
            self.objects[kind_of(one), one.metadata.name] = one
        if draw(st.integers(0, 6)) == 0:
            self.objects.pop((kind_of(made[-1]), made[-1].metadata.name))


def objects_of(now: World) -> Objects:
    return {kind: dict(now._objects[kind]) for kind in (POD, JOB, JOBSET, POD_GROUP_X)}


@pytest.mark.parametrize("dialect", KEYS)
@settings(max_examples=examples(30), deadline=None)
@given(data=st.data())
def test_a_gang_that_is_read_on_is_the_gang_of_one_look(dialect: str, data: st.DataObject) -> None:
    cluster, seen = Cluster(dialect, data.draw), World()
    reader = Reader(KEYS[dialect], seen)
    group: Group | None = None
    for _ in range(data.draw(st.integers(1, 8))):
        before = dict(places(group))
        for _ in range(data.draw(st.integers(0, 3))):
            heartbeat(reader, seen, group, cluster)
        for _ in range(data.draw(st.integers(1, 5))):
            cluster.step(group)
        group = read_on(reader, seen, objects_of(cluster.now()))
        fresh = read(KEYS[dialect], cluster.now())
        if group is None or fresh is None:
            assert (group is None) == (fresh is None)
            reader = Reader(KEYS[dialect], seen)
            continue
        same(group, fresh)
        consistent(group, cluster)
        stays(before, group)


@pytest.mark.parametrize("dialect", KEYS)
def test_a_pod_that_loses_its_place_to_another_is_moved_in_its_newest_state(dialect: str) -> None:
    whole = jobset(jobs={"w": {"parallelism": 2, "completions": 2}})
    owner = {"Job": job(gang="true", parallelism=2), "JobSet": child(whole, parallelism=2, completions=2)}
    groups: dict[str, list[Resource]] = {"JobSet": [whole], "PodGroup": [pod_group()]}
    objects = [*groups.get(dialect, []), *([owner[dialect]] if dialect in owner else [])]

    def running(name: str, plan: str = "") -> Pod:
        made: Any = grouped if dialect == "PodGroup" else pod  # Any: two functions with other keywords
        owned = {} if dialect == "PodGroup" else {"owner": owner[dialect]}
        return made(name, node="n", phase="Running", plan=plan, **owned)  # type: ignore[no-any-return]

    seen = World()
    reader, first = Reader(KEYS[dialect], seen), running("b")
    group = read_on(reader, seen, world(*objects, first)._objects)
    assert group is not None
    ((_, place),) = places(group)
    newest = replace(first, metadata=replace(first.metadata, resource_version="2"))
    seen.put(POD, newest)
    assert reader.renew(group, first, newest)
    other = running("a", f"1.1/{place.pod_set}/{place.index}")
    group = read_on(reader, seen, world(*objects, newest, other)._objects)
    assert group is not None
    member = group.members[PodId(first.metadata.uid)]
    assert member.place not in (place, None)
    assert member.pod is newest


def test_a_change_of_a_pod_costs_its_own_pod_set_whatever_others_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Places] = []
    monkeypatch.setattr(Places, "_pod_set", spied(Places._pod_set, made))
    seen, pods = World(), [grouped(f"p{i}", spec=pod_spec(f"{i + 1}m")) for i in range(50)]
    reader = Reader(KEYS["PodGroup"], seen)
    before = read_on(reader, seen, world(pod_group(), *pods)._objects)
    assert len(made) == len(pods)
    made.clear()
    first, objects = pods[0], dict(seen._objects)
    labels = {**first.metadata.labels, "app": "a"}
    newest = replace(first, metadata=replace(first.metadata, resource_version="2", labels=labels))
    after = read_on(reader, seen, {**objects, POD: {**objects[POD], ("ns", "p0"): newest}})
    assert len(made) == 1
    assert before is not None
    assert after is not None
    assert after.gang.pod_sets[0].labels != before.gang.pod_sets[0].labels
    assert after.gang.pod_sets[1:] == before.gang.pod_sets[1:]


def spied(call: Callable[[Places], PodSet], made: list[Places]) -> Callable[[Places], PodSet]:
    def noted(places: Places) -> PodSet:
        made.append(places)
        return call(places)

    return noted


def test_a_quota_that_appears_is_charged_by_pod_sets_that_have_not_changed() -> None:
    seen, objects = World(), [pod_group(), grouped("a"), grouped("b", spec=pod_spec(2))]
    reader = Reader(KEYS["PodGroup"], seen)
    before = read_on(reader, seen, world(*objects)._objects)
    now = world(*objects, quota({"pods": "9"}))
    group = read_on(reader, seen, now._objects)
    assert before is not None
    assert group is not None
    assert not any(each.quotas for each in before.gang.pod_sets)
    assert all(each.quotas for each in group.gang.pod_sets)


def refers(name: str, to: str, cpu: int) -> Pod:
    """A pod that waits, and whose constraints depend on an object of this sort."""
    selecting: Object = {"topologyKey": "zone", "namespaceSelector": {"matchLabels": {"team": "a"}}}
    fields: dict[str, Object] = {
        "claim": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "d"}}]},
        "other claim": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "e"}}]},
        "namespaces": {
            "affinity": {
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [selecting]},
            }
        },
        "class": {"priorityClassName": "high"},
        "nothing": {},
    }
    return grouped(name, spec=pod_spec(cpu, **fields[to]))


NS = namespace("true")
REFERS = ("claim", "other claim", "namespaces", "class", "nothing")
#: objects that a pod may refer to, or that its namespace has; each in two states
REFERRED: dict[str, tuple[Resource, Resource]] = {
    "claim": (claim("v"), claim("w")),
    "other claim": (claim(storage="s", name="e"), claim(name="e")),
    "volume": (volume("a"), volume("b")),
    "class of volumes": (
        storage_class("s", WAIT_FOR_FIRST_CONSUMER),
        storage_class("s", WAIT_FOR_FIRST_CONSUMER, zones=["b"]),
    ),
    "namespaces": (NS, replace(NS, metadata=replace(NS.metadata, labels={"team": "a"}))),
    "class": (priority_class("high", 5), priority_class("high", 7)),
    "quota": (quota({"pods": "9"}), quota({"cpu": "9"})),
    "range": (limit_range("1"), limit_range("2")),
}


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(REFERS), st.integers(1, 3)), min_size=1, max_size=8),
    st.lists(st.dictionaries(st.sampled_from([*REFERRED]), st.integers(0, 1)), min_size=2, max_size=6),
)
def test_pods_that_refer_to_what_changes_are_those_of_one_look(
    pods: list[tuple[str, int]], states: list[dict[str, int]]
) -> None:
    members = [refers(f"p{i}", to, cpu) for i, (to, cpu) in enumerate(pods)]
    seen = World()
    reader = Reader(KEYS["PodGroup"], seen)
    for state in states:
        now = world(pod_group(), *members, *(REFERRED[what][which] for what, which in state.items()))
        group, fresh = read_on(reader, seen, now._objects), read(KEYS["PodGroup"], now)
        assert group is not None
        assert fresh is not None
        assert group.gang == fresh.gang
        same(group, fresh)


@pytest.mark.parametrize(
    ("changed", "read_again"),
    [
        ("claim", {"claim"}),
        ("other claim", {"other claim"}),
        ("volume", {"claim", "other claim"}),
        ("class of volumes", {"claim", "other claim"}),
        ("namespaces", {"namespaces"}),
        ("class", {*REFERS}),
        ("quota", set()),
        ("range", set()),
    ],
)
def test_a_change_reads_only_the_pods_that_refer_to_it(
    monkeypatch: pytest.MonkeyPatch, changed: str, read_again: set[str]
) -> None:
    looked: list[str] = []
    look = Reading._look

    def noted(reading: Reading, pod: Pod) -> Noted:
        looked.append(pod.metadata.name)
        return look(reading, pod)

    pods = {f"p{i}": to for i, to in enumerate(to for to in REFERS for _ in range(5))}
    members = [refers(name, to, i + 1) for i, (name, to) in enumerate(pods.items())]
    seen, states = World(), {what: states[0] for what, states in REFERRED.items()}
    reader = Reader(KEYS["PodGroup"], seen)
    read_on(reader, seen, world(pod_group(), *members, *states.values())._objects)
    objects = {kind: dict(there) for kind, there in seen._objects.items()}
    newest = REFERRED[changed][1]
    objects[kind_of(newest)][newest.metadata.namespace, newest.metadata.name] = newest
    monkeypatch.setattr(Reading, "_look", noted)
    read_on(reader, seen, objects)
    assert sorted(looked) == sorted(name for name, to in pods.items() if to in read_again)


def test_a_node_that_is_chosen_for_a_claim_visits_its_gang_and_reads_no_pod(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Mirror()
    first = claim("v")
    for obj in (pod_group(), volume("a"), first, *(refers(f"p{i}", "claim", i + 1) for i in range(5))):
        cluster.change(kind_of(obj), None, obj)
    (gang,) = cluster.drain(0.0).gangs
    chosen = replace(first, metadata=replace(first.metadata, annotations={SELECTED_NODE: "n"}))
    monkeypatch.delattr(Reading, "_look")
    cluster.change(kind_of(first), first, chosen)
    assert [*cluster.drain(1.0).gangs] == [gang]


def heartbeat(reader: Reader, seen: World, group: Group | None, cluster: Cluster) -> None:
    """A running member changes in nothing but its version: it is renewed, and the group is not read again."""
    running = sorted(group.members.filled) if group is not None else []
    if group is None or not running:
        return
    old = group.members.filled[cluster.draw(st.sampled_from(running))]
    version = str(next(cluster.numbers))
    new = replace(old, metadata=replace(old.metadata, resource_version=version))
    seen.put(POD, new)
    cluster.objects[POD, old.metadata.name] = new
    assert reader.renew(group, old, new)
    assert not reader.renew(group, old, new), "it is not the state that was read"
    assert new in group.members.filled.values()
    assert old not in group.members.filled.values()


def same(group: Group, fresh: Group) -> None:
    """All but places, and what follows from them, is independent of the past."""
    assert group.members.keys() == fresh.members.keys()
    for uid, member in group.members.items():
        assert member.pod == fresh.members[uid].pod
    # which of several pods waits for a place depends on which was first
    assert len(list(places(group))) == len(list(places(fresh)))
    assert dict(group.leaving) == dict(fresh.leaving)
    for field in ("owner", "finished", "controlled", "recreate", "source", "record", "warnings"):
        assert getattr(group, field) == getattr(fresh, field), field
    for field in ("queue", "priority", "limit", "preempts", "submitted", "namespace"):
        assert getattr(group.gang, field) == getattr(fresh.gang, field), field
    if not lost(group, fresh):
        if len(group.retired) == len(fresh.retired):  # a stray pod may hold the place of a done index
            assert group.gang.gate == fresh.gang.gate
        assert [(s.name, s.shape, s.labels) for s in group.gang.pod_sets] == [
            (s.name, s.shape, s.labels) for s in fresh.gang.pod_sets
        ]


def lost(group: Group, fresh: Group) -> bool:
    """Whether places are kept for pods that have been lost: one look does not know of them."""
    return group.gang.min_count != fresh.gang.min_count or sum(
        one.count for one in group.gang.pod_sets
    ) != sum(one.count for one in fresh.gang.pod_sets)


def consistent(group: Group, cluster: Cluster) -> None:
    """What is kept by place agrees with what is kept by pod; a bound pod has the place written on it."""
    held = {member.place: member.pod for member in group.members.values() if member.place is not None}
    assert len(held) == sum(member.place is not None for member in group.members.values())
    assert group.members.filled == {place: one for place, one in held.items() if one.spec.node_name}
    assert group.members.ready == {place: one for place, one in held.items() if not one.spec.node_name}
    counts = {one.name: one.count for one in group.gang.pod_sets}
    assert all(0 <= place.index < counts[place.pod_set] for place in (*held, *group.retired))
    assert not group.retired & held.keys()
    written: dict[Place, list[Pod]] = {}
    for member in group.members.values():
        place = planned(member.pod)
        if member.place is not None and place is not None and place.index < counts.get(place.pod_set, 0):
            written.setdefault(place, []).append(member.pod)
    for place, pods in written.items():
        if len(pods) == 1 and held.get(place) is not pods[0]:
            assert place in held, "only another pod with the same place written on it goes first"
    for one in group.gang.pod_sets:
        if one.ranks:
            assert [r for r in one.ranks if r == 2] == [
                2
                for at, of in held.items()
                if at.pod_set == one.name and TOPOLOGY_INDEX in of.metadata.annotations
            ]


def places(group: Group | None) -> Iterator[tuple[str, Place]]:
    for uid, member in group.members.items() if group is not None else ():
        if member.place is not None:
            yield uid, member.place


def stays(before: dict[str, Place], group: Group) -> None:
    """A pod moves only if its place is gone, or another pod has it by annotation."""
    counts = {one.name: one.count for one in group.gang.pod_sets}
    for uid, place in places(group):
        was = before.get(uid)
        if was is None or was == place or planned(group.members[uid].pod) == place:  # type: ignore[index]
            continue
        holder = group.members.filled.get(was) or group.members.ready.get(was)
        assert was.index >= counts.get(was.pod_set, 0) or (holder is not None and planned(holder) == was)
