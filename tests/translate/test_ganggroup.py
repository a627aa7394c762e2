"""GangGroups: several PodGroups that are one gang."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from muster import names
from muster.api import groups
from muster.api.base import Resource
from muster.api.core_v1 import Pod
from muster.api.kinds import POD_GROUP_X
from muster.api.koordinator_v1alpha1 import GROUPS, TOPOLOGY_SPEC
from muster.api.scheduling import PodGroup
from muster.core.words.gang import Code, Gate, Subgroup
from muster.translate.dialects import Reader, group_of
from muster.translate.group import Group, Touched
from muster.translate.identity import GroupKey
from muster.translate.status import gang_spec
from muster.translate.touched import keys_touched
from tests.tiers import examples
from tests.translate.cluster import grouped, pod_group, pod_spec, read, world

MASTER, WORKER = (GroupKey(groups.POD_GROUP, "ns", name) for name in ("master", "worker"))
BOTH = ("ns/master", "ns/worker")
LONELY = (
    f"PodGroup ns/master: {GROUPS} names ns/worker, which does not exist or has another list; "
    "write the same on all"
)


def one_of(name: str, minimum: int, groups: tuple[str, ...] = BOTH, topology: str = "") -> PodGroup:
    annotations = {GROUPS: json.dumps(list(groups))} | ({TOPOLOGY_SPEC: topology} if topology else {})
    return pod_group(name, minimum, annotations=annotations)


def the_gang(*objects: Resource, before: Group | None = None) -> Group:
    group = read(MASTER, world(*objects), before)
    assert group is not None
    return group


def test_podgroups_of_a_ganggroup_are_one_gang_with_a_minimum_for_each() -> None:
    pods = (grouped("m", "master"), *(grouped(f"w{i}", "worker", spec=pod_spec(2)) for i in range(3)))
    found = world(one_of("worker", 2), one_of("master", 1), *pods)
    group = read(MASTER, found)
    assert group is not None
    assert read(WORKER, found) is None
    assert {group_of(pod, found) for pod in pods} == {MASTER}
    assert (group.gang.id, group.gang.min_count, group.gang.gate) == ("ns/master", 3, None)
    sets = [(one.name.rpartition("-")[0], one.count, one.min_count) for one in group.gang.pod_sets]
    assert sets == [("master@ns", 1, 1), ("worker@ns", 3, 2)]
    assert [one["group"] for one in gang_spec(group)["podSets"]] == ["master", "worker"]
    assert (group.record, group.source.name) == ("podgroup-master", "master")
    assert len(group.members) == 4


def test_one_podgroup_of_a_ganggroup_may_have_no_minimum() -> None:
    """Its pods are not waited for, and join as there is room; the gang is over when the others are."""
    master, worker = one_of("master", 1), one_of("worker", 0)
    alone = the_gang(master, worker, grouped("m", "master"))
    assert (alone.gang.gate, alone.gang.min_count) == (None, 1)
    pods = (grouped("w", "worker"), grouped("v", "worker", spec=pod_spec(2)))
    both = the_gang(master, worker, grouped("m", "master"), *pods)
    sets = sorted((one.name.rpartition("-")[0], one.count, one.min_count) for one in both.gang.pod_sets)
    assert (both.gang.gate, both.gang.min_count) == (None, 1)
    assert sets == [("master@ns", 1, 1), ("worker@ns", 1, 0), ("worker@ns", 1, 0)]
    assert the_gang(master, worker, grouped("m", "master", node="n", phase="Succeeded")).finished


def test_pods_of_one_podgroup_that_differ_share_its_minimum() -> None:
    pods = [grouped(f"w{i}", "worker", spec=pod_spec(size)) for i, size in enumerate((2, 2, 2, 8))]
    gang = the_gang(one_of("master", 1), one_of("worker", 2), grouped("m", "master"), *pods).gang
    assert gang.subgroups == (Subgroup("ns/master", 1), Subgroup("ns/worker", 2))
    assert (gang.gate, gang.min_count) == (None, 3)
    sets = [(one.count, one.min_count, one.subgroup) for one in gang.pod_sets]
    assert sets == [(1, 1, "ns/master"), (3, 0, "ns/worker"), (1, 0, "ns/worker")]
    most = {one.name: one.count for one in gang.pod_sets}
    assert gang.met(most)
    assert gang.met({**most, gang.pod_sets[1].name: 1})
    assert not gang.met({**most, gang.pod_sets[1].name: 0})
    assert not gang.met({**most, gang.pod_sets[0].name: 0})


def test_equal_pods_of_two_groups_are_two_sets() -> None:
    group = the_gang(one_of("master", 1), one_of("worker", 1), grouped("m", "master"), grouped("w", "worker"))
    assert len({one.name for one in group.gang.pod_sets}) == 2
    assert len({one.shape for one in group.gang.pod_sets}) == 1


def test_places_stay_with_their_pods() -> None:
    objects = (one_of("master", 1), one_of("worker", 2), grouped("m", "master"))
    first = the_gang(*objects, grouped("b", "worker"), grouped("c", "worker"))
    again = the_gang(*objects, *(grouped(name, "worker") for name in "abc"), before=first)
    places = {member.pod.metadata.name: member.place for member in again.members.values()}
    assert {places[m.pod.metadata.name] == m.place for m in first.members.values()} == {True}


@pytest.mark.parametrize(
    ("groups", "gate"),
    [
        ([one_of("master", 1)], Gate(Code.INVALID, LONELY)),
        ([one_of("master", 1), pod_group("worker", 1)], Gate(Code.INVALID, LONELY)),
        ([one_of("master", 1), one_of("worker", 1, (*BOTH, "ns/x"))], Gate(Code.INVALID, LONELY)),
        (
            [one_of("master", 1, (*BOTH, "z/x", "z/y")), one_of("worker", 1, (*BOTH, "z/x", "z/y"))],
            Gate(Code.INVALID, LONELY.replace("ns/worker", "z/x (and 1 more)")),
        ),
        (
            [one_of("master", 1, ("ns/master", *(f"z/{i}" for i in range(100))))],
            Gate(
                Code.INVALID,
                f"PodGroup ns/master: {GROUPS} names 101 PodGroups; a GangGroup has at most 100",
            ),
        ),
        (
            [one_of("master", 1, ("ns/master", *(f"z/{'x' * 253}{i}" for i in range(200))))],
            Gate(
                Code.INVALID,
                f"PodGroup ns/master: {GROUPS} has 52303 characters; a list has at most 32100",
            ),
        ),
        (
            [one_of("master", 1), one_of("worker", 2)],
            Gate(Code.MEMBERS_MISSING, "PodGroup ns/worker: 1 of 2 pods exist"),
        ),
        (
            [pod_group("master", 1, annotations={GROUPS: "ns/master"})],
            Gate(
                Code.INVALID,
                f"PodGroup ns/master: {GROUPS} is 'ns/master'; write a JSON list of namespace/name, as "
                '["ns/master", "ns/other"]',
            ),
        ),
        (
            [pod_group("master", 1, annotations={GROUPS: '["ns/other"]'})],
            Gate(
                Code.INVALID,
                f"PodGroup ns/master: {GROUPS} names other PodGroups and not ns/master itself",
            ),
        ),
    ],
)
def test_a_ganggroup_with_a_fault_is_gated_with_the_reason(groups: list[PodGroup], gate: Gate) -> None:
    assert the_gang(*groups, grouped("m", "master"), grouped("w", "worker")).gang.gate == gate


@pytest.mark.parametrize("groups", [[one_of("worker", 1)], [pod_group("master", 1), one_of("worker", 1)]])
def test_a_podgroup_that_is_named_by_another_and_does_not_agree_is_a_gang_of_its_own(
    groups: list[PodGroup],
) -> None:
    pods = grouped("m", "master"), grouped("w", "worker")
    alone = read(MASTER, world(*groups[:-1], *pods))
    assert the_gang(*groups, *pods) == alone
    worker = read(WORKER, world(*groups, *pods))
    assert worker is not None
    own = LONELY.replace("Group ns/master", "Group ns/worker").replace("names ns/worker", "names ns/master")
    assert worker.gang.gate == Gate(Code.INVALID, own)


def test_annotations_on_its_pods_alone_are_not_ignored() -> None:
    own, both = {GROUPS: '["ns/master"]'}, {GROUPS: json.dumps(BOTH)}
    assert the_gang(pod_group("master", 1), grouped("m", "master", annotations=own)).gang.gate is None
    group = the_gang(pod_group("master", 1), grouped("m", "master", annotations=both))
    said = f"pod m says in {GROUPS} what PodGroup ns/master does not; write it there"
    assert group.gang.gate == Gate(Code.INVALID, said)
    members = (grouped(name, name, annotations=both) for name in ("master", "worker"))
    assert the_gang(one_of("master", 1), one_of("worker", 1), *members).gang.gate is None


def test_bound_pods_of_a_ganggroup_that_has_ended_stay_members_of_their_podgroups() -> None:
    """As when a PodGroup is deleted, or given another list, under its bound pods."""
    bound, other = grouped("m", "master", node="n"), grouped("w", "worker", node="n")
    found = world(one_of("master", 1), one_of("worker", 1), bound, other)
    assert group_of(other, found) == MASTER
    found.drop(POD_GROUP_X, "ns", "master")
    assert (group_of(bound, found), group_of(other, found)) == (MASTER, WORKER)
    orphan, rest = read(MASTER, found), read(WORKER, found)
    assert orphan is not None
    assert rest is not None
    assert ["bound pods continue, new pods wait for it" in one for one in orphan.warnings] == [True]
    assert [len(orphan.members), len(rest.members)] == [1, 1]


def test_over_several_namespaces_it_lives_at_the_first() -> None:
    both = ("a/worker", "ns/master")
    worker = pod_group("worker", 1, namespace="a", annotations={GROUPS: json.dumps(both)})
    found = world(one_of("master", 1, both), worker, grouped("m", "master"), grouped("w", "worker"))
    key = GroupKey(groups.POD_GROUP, "a", "worker")
    group = read(key, found)
    assert group is not None
    assert (group.namespace, group.record, group.gang.id) == ("a", "podgroup-worker", "a/worker")
    assert group.set_groups == {group.gang.pod_sets[0].name: "ns/master"}
    assert read(MASTER, found) is None
    assert group_of(grouped("m", "master"), found) == key


def test_over_several_namespaces_the_least_priority_counts() -> None:
    """None of them may raise the others' pods above what their own namespace states."""
    both = ("a/worker", "ns/master")

    def priority(worker: dict[str, str], master: dict[str, str]) -> int:
        both_groups = (
            pod_group("worker", 1, namespace="a", annotations={GROUPS: json.dumps(both), **worker}),
            pod_group("master", 1, annotations={GROUPS: json.dumps(both), **master}),
        )
        members = grouped("m", "master", spec=pod_spec(priority=7)), grouped("w", "worker", spec=pod_spec())
        other = replace(members[1], metadata=replace(members[1].metadata, namespace="a"))
        group = read(GroupKey(groups.POD_GROUP, "a", "worker"), world(*both_groups, members[0], other))
        assert group is not None
        return group.gang.priority

    assert priority({}, {}) == 0
    assert priority({names.PRIORITY: "9"}, {}) == 7
    assert priority({names.PRIORITY: "9"}, {names.PRIORITY: "8"}) == 8
    assert priority({}, {names.PRIORITY: "-1"}) == -1


def test_a_change_touches_the_podgroups_that_agree_with_what_was_or_is_written() -> None:
    old, new = pod_group("worker", 1), one_of("worker", 1)
    found = world(one_of("master", 1), old)
    assert keys_touched(POD_GROUP_X, None, old, found) == {WORKER}
    found.put(POD_GROUP_X, new)
    assert keys_touched(POD_GROUP_X, old, new, found) == {MASTER, WORKER}
    found.drop(POD_GROUP_X, "ns", "worker")
    assert keys_touched(POD_GROUP_X, new, None, found) == {MASTER, WORKER}


_OURS = ("ns/a", "ns/b")
_THEIRS = ("ns/a", "ns/b", "z/a", "z/b")
_LISTS = st.one_of(
    st.lists(st.sampled_from(_THEIRS), max_size=5).map(json.dumps),
    st.sampled_from(["[", "[1]", '["ns/a/b"]', "null", "x" * 40_000]),
)
_MARKS = st.dictionaries(
    st.sampled_from([names.PRIORITY, names.PREEMPTIBLE, names.QUEUE, names.HOLD, names.EXCLUSIVE]),
    st.sampled_from(["-1000", "1000", "true", "false", "other"]),
)


@given(
    st.lists(st.lists(st.sampled_from(_OURS), max_size=2).map(json.dumps), min_size=2, max_size=2),
    st.lists(st.tuples(st.sampled_from("ab"), _LISTS, _MARKS, st.booleans()), max_size=8),
)
@settings(max_examples=examples(200), deadline=None)
def test_whatever_another_namespace_writes_changes_and_touches_nothing(
    ours: list[str], theirs: list[tuple[str, str, dict[str, str], bool]]
) -> None:
    """The other namespace has PodGroups, with lists and marks, that come, change and go."""
    mine = [pod_group(name, 1, annotations={GROUPS: text}) for name, text in zip("ab", ours, strict=True)]
    pods = [grouped(f"{name}-{i}", name, node="n" if i else "") for name in "ab" for i in range(2)]
    keys = [GroupKey(groups.POD_GROUP, "ns", name) for name in "ab"]
    found, alone = world(*mine, *pods), world(*mine, *pods)
    before = [read(key, alone) for key in keys]
    readers = [Reader(key, found) for key in keys]
    for reader in readers:
        reader.read(Touched())
    for name, text, marks, comes in theirs:
        old = found.groups_of(groups.POD_GROUP).get(("z", name))
        new = pod_group(name, 1, namespace="z", annotations={GROUPS: text, **marks}) if comes else None
        if new is not None:
            found.put(POD_GROUP_X, new)
        elif old is not None:
            found.drop(POD_GROUP_X, "z", name)
        else:
            continue
        touched = keys_touched(POD_GROUP_X, old, new, found)
        assert {key.namespace for key in touched} == {"z"}
        assert [reader.read(Touched())[0] for reader in readers] == before
        for key in touched:
            group = read(key, found)
            assert group is None or all(one.pod.metadata.namespace == "z" for one in group.members.values())
            assert group is None or group.namespace == "z"


def test_its_queue_is_one() -> None:
    both, queue = {GROUPS: json.dumps(BOTH)}, "muster.dev/queue"
    pods = (grouped("m", "master"), grouped("w", "worker"))
    worker = pod_group("worker", 1, annotations=both, labels={queue: "a"})
    assert the_gang(one_of("master", 1), worker, *pods).gang.queue == "a"
    master = pod_group("master", 1, annotations={**both, queue: "b"})
    gate = the_gang(master, worker, *pods).gang.gate
    assert gate == Gate(Code.INVALID, "its PodGroups name different queues (a, b), and a gang waits in one")


def test_topology_is_of_each_podgroup_unless_all_say_the_same() -> None:
    must = json.dumps({"gatherStrategy": [{"layer": "NodeTopologyLayer", "strategy": "MustGather"}]})
    prefer = must.replace("Must", "Prefer")
    pods = (grouped("m", "master"), grouped("w", "worker"), grouped("v", "worker", spec=pod_spec(2)))

    def rules(master: str, worker: str, *pods: Pod) -> tuple[list[str], dict[str, list[str]]]:
        groups = one_of("master", 1, topology=master), one_of("worker", 2, topology=worker)
        gang = the_gang(*groups, *pods).gang
        assert gang.gate is None
        assert {each.name: each.min_count for each in gang.subgroups} == {"ns/master": 1, "ns/worker": 2}
        own = {
            each.name.removeprefix("ns/"): [rule.strategy.value for rule in each.gather if rule.strategy]
            for each in gang.subgroups
        }
        return [rule.strategy.value for rule in gang.gather if rule.strategy], own

    assert rules(must, must, *pods) == (["MustGather"], {"master": [], "worker": []})
    assert rules(must, "", *pods) == ([], {"master": ["MustGather"], "worker": []})
    assert rules("", must, *pods) == ([], {"master": [], "worker": ["MustGather"]})
    assert rules(must, prefer, *pods) == ([], {"master": ["MustGather"], "worker": ["PreferGather"]})
    told = [
        replace(pod, metadata=replace(pod.metadata, annotations={TOPOLOGY_SPEC: must})) for pod in pods[1:]
    ]
    assert rules("", "", pods[0], *told) == ([], {"master": [], "worker": ["MustGather"]})
    groups = (one_of("master", 1), one_of("worker", 2))
    gate = the_gang(*groups, *pods[:2], told[1]).gang.gate
    assert gate is not None
    assert gate.message == (
        f"PodGroup ns/worker: its pods differ in {TOPOLOGY_SPEC}, and some have none; write it on the "
        "PodGroup, or make a PodGroup of each sort"
    )
