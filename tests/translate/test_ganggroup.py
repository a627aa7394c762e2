"""GangGroups: several PodGroups that are one gang."""

import json

import pytest

from muster.api.base import Resource
from muster.api.kinds import POD_GROUP_SIGS, POD_GROUP_X
from muster.api.koordinator_v1alpha1 import GROUPS, TOPOLOGY_SPEC
from muster.api.scheduling import PodGroup
from muster.core.words.gang import Code, Gate
from muster.translate.dialects import group_of, keys_touched
from muster.translate.group import Group
from muster.translate.identity import Dialect, GroupKey
from muster.translate.status import gang_spec
from tests.translate.cluster import grouped, pod_group, pod_spec, read, world

MASTER, WORKER = (GroupKey(Dialect.POD_GROUP, "ns", name) for name in ("master", "worker"))
BOTH = ("ns/master", "ns/worker")


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
        (
            [one_of("master", 1)],
            Gate(Code.MEMBERS_MISSING, "there is no PodGroup ns/worker yet, which its GangGroup names"),
        ),
        (
            [one_of("worker", 1)],
            Gate(Code.MEMBERS_MISSING, "there is no PodGroup ns/master yet, which its GangGroup names"),
        ),
        (
            [one_of("master", 1), pod_group("worker", 1)],
            Gate(Code.INVALID, f"its PodGroups differ in {GROUPS}: ns/worker does not name all of 2"),
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


def test_annotations_on_its_pods_alone_are_not_ignored() -> None:
    own, both = {GROUPS: '["ns/master"]'}, {GROUPS: json.dumps(BOTH)}
    assert the_gang(pod_group("master", 1), grouped("m", "master", annotations=own)).gang.gate is None
    group = the_gang(pod_group("master", 1), grouped("m", "master", annotations=both))
    said = f"pod m says in {GROUPS} what PodGroup ns/master does not; write it there"
    assert group.gang.gate == Gate(Code.INVALID, said)
    members = (grouped(name, name, annotations=both) for name in ("master", "worker"))
    assert the_gang(one_of("master", 1), one_of("worker", 1), *members).gang.gate is None


def test_pods_of_a_ganggroup_whose_first_podgroup_is_not_there_are_its_members() -> None:
    """As when it is deleted under its bound pods, or applied after them."""
    worker, bound, other = one_of("worker", 1), grouped("m", "master", node="n"), grouped("w", "worker")
    assert group_of(bound, world(worker, bound)) == MASTER
    found = the_gang(worker, bound, other)
    assert sorted(member.pod.metadata.name for member in found.members.values()) == ["m", "w"]
    assert found.gang.gate == Gate(
        Code.MEMBERS_MISSING, "there is no PodGroup ns/master yet, which its GangGroup names"
    )
    assert "bound pods continue, new pods wait for it" in found.warnings[0]
    alone = the_gang(worker, other)
    assert (alone.gang.min_count, alone.warnings) == (1, ())


def test_a_ganggroup_without_its_first_podgroup_shares_its_id_with_no_namesake() -> None:
    first, second = one_of("worker", 1), one_of("master", 1, ())
    names = GroupKey(Dialect.KOORDINATOR, "ns", "master")
    found = world(first)
    found.put(POD_GROUP_SIGS, second)
    ids = [group.gang.id for key in (MASTER, names) if (group := read(key, found)) is not None]
    assert ids == ["ns/master", "ns/koordinator-master"]
    assert keys_touched(POD_GROUP_X, first, None, found) >= {MASTER, names}


def test_over_several_namespaces_it_lives_at_the_first() -> None:
    both = ("a/worker", "ns/master")
    worker = pod_group("worker", 1, namespace="a", annotations={GROUPS: json.dumps(both)})
    found = world(one_of("master", 1, both), worker, grouped("m", "master"), grouped("w", "worker"))
    key = GroupKey(Dialect.POD_GROUP, "a", "worker")
    group = read(key, found)
    assert group is not None
    assert (group.namespace, group.record, group.gang.id) == ("a", "podgroup-worker", "a/worker")
    assert group.set_groups == {group.gang.pod_sets[0].name: "ns/master"}
    assert read(MASTER, found) is None
    assert group_of(grouped("m", "master"), found) == key


def test_a_change_of_one_touches_the_gang_of_all() -> None:
    old, new = pod_group("worker", 1), one_of("worker", 1)
    found = world(one_of("master", 1), old)
    assert MASTER in keys_touched(POD_GROUP_X, None, old, found)
    found.put(POD_GROUP_X, new)
    assert {MASTER, WORKER} <= keys_touched(POD_GROUP_X, old, new, found)
    found.drop(POD_GROUP_X, "ns", "worker")
    assert MASTER in keys_touched(POD_GROUP_X, new, None, found)


def test_its_queue_is_one() -> None:
    both, queue = {GROUPS: json.dumps(BOTH)}, "muster.dev/queue"
    pods = (grouped("m", "master"), grouped("w", "worker"))
    worker = pod_group("worker", 1, annotations=both, labels={queue: "a"})
    assert the_gang(one_of("master", 1), worker, *pods).gang.queue == "a"
    master = pod_group("master", 1, annotations={**both, queue: "b"})
    gate = the_gang(master, worker, *pods).gang.gate
    assert gate == Gate(Code.INVALID, "its PodGroups name different queues (a, b), and a gang waits in one")


def test_topology_is_of_the_whole_gang() -> None:
    near = json.dumps({"gatherStrategy": [{"layer": "NodeTopologyLayer", "strategy": "MustGather"}]})
    pods = (grouped("m", "master"), grouped("w", "worker"))
    one = the_gang(one_of("master", 1, topology=near), one_of("worker", 1), *pods)
    assert one.gang.gather[0].layer == "NodeTopologyLayer"
    other = near.replace("Must", "Prefer")
    groups = (one_of("master", 1, topology=near), one_of("worker", 1, topology=other))
    gate = the_gang(*groups, *pods).gang.gate
    assert gate is not None
    assert gate.message == f"its groups differ in {TOPOLOGY_SPEC}; write the same on all"
