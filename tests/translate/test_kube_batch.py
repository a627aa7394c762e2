"""kube-batch's PodGroups as gangs: API groups, spellings, and namesakes among those that share a key."""

from collections.abc import Sequence
from itertools import permutations
from typing import Any, Final

import msgspec
import pytest

from muster.api import groups
from muster.api.base import AnyKind, Object, Resource
from muster.api.core_v1 import Pod, ResourceQuota
from muster.api.groups import INCUBATOR, SIGS_DEV, VOLCANO, Dialect
from muster.api.kinds import POD, RESOURCE_QUOTA
from muster.core.words.gang import Code
from muster.runtime.mirror import Mirror
from muster.translate import quotas
from muster.translate.dialects import group_of
from muster.translate.group import Group
from muster.translate.identity import GroupKey
from muster.translate.world import World
from tests.translate.cluster import metadata, pod, pod_spec, priority_class, read, world

KEY: Final = GroupKey(VOLCANO, "ns", "g")
GROUP_NAME: Final = "scheduling.k8s.io/group-name"
ROWS: Final = (INCUBATOR, SIGS_DEV)


def group(row: Dialect, spec: Object | None = None, **meta: Any) -> Resource:  # Any: fields as JSON
    body = {"metadata": {**metadata("g"), "uid": row.name} | meta, "spec": spec or {}}
    found: Resource = msgspec.convert(body, row.kind.type)
    return found


def members(*names: str) -> list[Pod]:
    return [pod(name, annotations={GROUP_NAME: "g"}) for name in names]


def resource_quota(hard: Object) -> ResourceQuota:
    return msgspec.convert({"metadata": metadata("q"), "spec": {"hard": hard}}, ResourceQuota)


def gang(found: World) -> Group:
    read_ = read(KEY, found)
    assert read_ is not None
    return read_


def put(found: World, row: Dialect, spec: Object | None = None, **meta: Any) -> None:  # Any: fields as JSON
    found.put(row.kind, group(row, spec, **meta))


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("field", ["minMember", "minMembers"])
def test_pods_that_name_it_by_annotation_are_one_gang(row: Dialect, field: str) -> None:
    pods = members(*"abc")
    found = world(*pods)
    assert {group_of(each, found) for each in pods} == {KEY}
    alone = gang(found).gang.gate
    assert alone is not None
    assert alone.code is Code.MEMBERS_MISSING, "the object may come after its pods"
    assert all(each.kind.group in alone.message for each in (VOLCANO, *ROWS)), "it may be any of these"
    put(found, row, {field: 3, "queue": "ml"})
    whole = gang(found)
    assert whole.gang.gate is None
    assert (whole.gang.min_count, whole.gang.queue) == (3, "ml")
    assert (whole.source.api_version, whole.source.uid) == (row.kind.api_version, row.name)
    put(found, row, {field: 4})
    lacking = gang(found).gang.gate
    assert lacking is not None
    assert (lacking.code, lacking.message) == (Code.MEMBERS_MISSING, "3 of 4 pods exist")


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"minMember": 2, "minMembers": 3}, "spec.minMember is 2, and spec.minMembers is 3"),
        ({"minMember": -1}, "spec.minMember is -1"),
        ({"minMembers": -1}, "spec.minMembers is -1"),
        ({"minMembers": 2**31 - 1}, "spec.minMembers is 2147483647"),
    ],
)
def test_a_minimum_that_cannot_be_honoured_is_refused(row: Dialect, spec: Object, message: str) -> None:
    found = world(*members("a"))
    put(found, row, spec)
    gate = gang(found).gang.gate
    assert gate is not None
    assert gate.code is Code.INVALID
    assert gate.message.startswith(message)


@pytest.mark.parametrize("row", ROWS)
def test_both_spellings_may_say_the_same(row: Dialect) -> None:
    found = world(*members("a"))
    put(found, row, {"minMember": 1, "minMembers": 1})
    assert gang(found).gang.gate is None


@pytest.mark.parametrize("row", ROWS)
def test_its_priority_class_counts(row: Dialect) -> None:
    found = world(*members("a"), priority_class("high", 900))
    put(found, row, {"minMember": 1, "priorityClassName": "high"})
    assert gang(found).gang.priority == 900


@pytest.mark.parametrize("row", ROWS)
def test_minimal_resources_change_nothing(row: Dialect) -> None:
    found = world(*members("a"))
    put(found, row, {"minMember": 1})
    before = gang(found).gang
    put(found, row, {"minMember": 1, "minResources": {"cpu": 1000}})
    assert gang(found).gang == before


@pytest.mark.parametrize("row", ROWS)
def test_succeeded_members_count_towards_the_minimum(row: Dialect) -> None:
    done = pod("a", annotations={GROUP_NAME: "g"}, phase="Succeeded", node="n")
    found = world(done, *members("b"))
    put(found, row, {"minMember": 2})
    assert gang(found).gang.gate is None


@pytest.mark.parametrize("row", ROWS)
def test_a_deleted_group_leaves_its_pods(row: Dialect) -> None:
    running = [pod(name, annotations={GROUP_NAME: "g"}, phase="Running", node="n") for name in "ab"]
    found = world(*running)
    put(found, row, {"minMember": 2})
    assert len(gang(found).members.filled) == 2
    found.drop(row.kind, "ns", "g")
    left = gang(found)
    assert len(left.members.filled) == 2, "they are charged to the same gang"
    assert "bound pods continue" in left.warnings[0]


@pytest.mark.parametrize(("policy", "told"), [(None, False), ({"action": "x"}, True)])
def test_a_policy_in_the_spec_is_named_as_not_read(policy: Object | None, told: bool) -> None:
    found = world(*members("a"))
    put(found, INCUBATOR, {"minMember": 1, "policy": policy})
    assert [text.split(";")[0] for text in gang(found).warnings] == ["spec.policy is not read"] * told


@pytest.mark.parametrize("key", groups.ANNOTATIONS)
def test_a_pod_with_an_empty_annotation_does_not_start_alone(key: str) -> None:
    empty = pod("a", annotations={key: ""})
    found = read(GroupKey(groups.POD, "ns", "a"), world(empty))
    assert found is not None
    assert found.gang.gate is not None
    assert found.gang.gate.code is Code.INVALID
    assert found.gang.gate.message.startswith(f"{key} is empty; write the name")


@pytest.mark.parametrize(("schedulers", "held"), [(None, True), (frozenset({"muster"}), False)])
def test_a_cluster_that_holds_no_quota_for_the_total_says_so(
    schedulers: frozenset[str] | None, held: bool
) -> None:
    pods = [pod(name, annotations={GROUP_NAME: "g"}, spec=pod_spec(schedulerName="muster")) for name in "ab"]
    found = world(*pods, schedulers=schedulers)
    put(found, INCUBATOR, {"minMember": 2, "totalResources": {"cpu": 2}})
    assert [text.split(":")[0] for text in gang(found).warnings] == (
        [] if held else ["spec.totalResources is held by the embedded cluster only"]
    )
    assert quotas.held(pods[0], found) == held


def test_pods_that_are_only_proposed_are_not_charged_what_is_held_for_their_group() -> None:
    (member,) = members("a")
    found = world(member)
    found.put(RESOURCE_QUOTA, resource_quota({"pods": "1"}))
    found.uncreated.add(member.metadata.uid)
    put(found, INCUBATOR, {"minMember": 1})
    assert quotas.proposed([member], found)[0] == 1
    put(found, INCUBATOR, {"minMember": 1, "totalResources": {"pods": 1}})
    assert quotas.proposed([member], found)[0] == 0
    found.uncreated.add(INCUBATOR.name)  # the group is only proposed, too
    assert quotas.proposed([member], found)[0] == 1


Shown = dict[str, tuple[list[str], int, str, str]]


def shown(mirror: Mirror) -> Shown:
    mirror.drain(0.0)
    return {
        name: (
            sorted(member.pod.metadata.name for member in found.members.values()),
            found.gang.min_count,
            found.source.api_version,
            found.record,
        )
        for name, found in mirror.groups.items()
    }


def look(history: Sequence[tuple[AnyKind, Resource]], gone: Sequence[AnyKind] = ()) -> tuple[Shown, Shown]:
    """What a mirror shows that is asked after each change, and one that sees only the last states."""
    mirror, fresh = Mirror(), Mirror()
    for kind, new in history:
        mirror.change(kind, None, new)
        shown(mirror)
    for kind in gone:
        mirror.change(kind, next(new for of, new in history if of is kind), None)
        shown(mirror)
    for kind, new in history:
        if kind not in gone:
            fresh.change(kind, None, new)
    return shown(mirror), shown(fresh)


@pytest.mark.parametrize("gone", [(), (VOLCANO,), (INCUBATOR,), (VOLCANO, INCUBATOR), (SIGS_DEV, VOLCANO)])
def test_of_several_groups_of_one_name_the_first_of_the_table_counts(gone: tuple[Dialect, ...]) -> None:
    rows = (VOLCANO, INCUBATOR, SIGS_DEV)
    objects = [(row.kind, group(row, {"minMember": 1 + number})) for number, row in enumerate(rows)]
    pods: list[tuple[AnyKind, Resource]] = [(POD, each) for each in members(*"abc")]
    first = next((row for row in rows if row not in gone), None)
    for order in permutations([*objects, pods[0]]):
        found, expected = look([*order, *pods[1:]], [row.kind for row in gone])
        assert found == expected
        ((_, (names, minimum, version, record)),) = found.items()
        assert (names, record) == (["a", "b", "c"], "volcano-g"), "its record stays, whichever object counts"
        assert first is not None
        assert (minimum, version) == (1 + rows.index(first), first.kind.api_version)


def test_a_group_without_its_own_pods_is_no_gang_beside_its_namesake() -> None:
    found = world()
    for row in (VOLCANO, *ROWS):
        put(found, row, {"minMember": 1})
    assert [row for row in groups.OF_GANGS if read(GroupKey(row, "ns", "g"), found)] == [VOLCANO]
