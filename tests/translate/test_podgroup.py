"""PodGroups as gangs: demand from the pods, what is missing, which pods have ended for good."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster import names
from muster.api import groups
from muster.api.base import Kind, Resource
from muster.api.core_v1 import PersistentVolumeClaim, Pod
from muster.api.groups import Dialect
from muster.api.kinds import PERSISTENT_VOLUME_CLAIM, POD, POD_GROUP_SIGS, POD_GROUP_X, PRIORITY_CLASS
from muster.api.scheduling import PodGroup
from muster.core.words.gang import Code, Gate, Labels, Place, Shape
from muster.translate.dialects import group_of
from muster.translate.group import Group
from muster.translate.identity import GroupKey
from muster.translate.podgroup import reading
from muster.translate.podgroup.facts import Said, said
from muster.translate.podgroup.places import Places
from muster.translate.podgroup.pod_sets import pod_set_name
from muster.translate.pods import asked
from muster.translate.world import World
from tests.tiers import examples
from tests.translate.cluster import (
    START,
    grouped,
    job,
    pod_group,
    pod_spec,
    priority_class,
    read,
    template,
    world,
)

KEY = GroupKey(groups.POD_GROUP, "ns", "g")
NAME = pod_set_name(asked(template(pod_spec())).shape)


def the_gang(*objects: Resource, before: Group | None = None) -> Group:
    group = read(KEY, world(*objects), before)
    assert group is not None
    return group


def places(group: Group) -> dict[str, int]:
    return {
        member.pod.metadata.name: member.place.index
        for member in group.members.values()
        if member.place is not None
    }


def test_labels_that_a_pod_no_longer_has_are_forgotten() -> None:
    kept = Places(Shape(()), (), World())
    for number in range(100):
        waiting = grouped("a")
        labels = {**waiting.metadata.labels, "step": str(number)}
        metadata = msgspec.structs.replace(waiting.metadata, labels=labels)
        kept.put(msgspec.structs.replace(waiting, metadata=metadata))
    assert len(kept._labels) == len(labels)


def test_bare_pods_have_places_by_name() -> None:
    group = the_gang(pod_group(minimum=2), grouped("b"), grouped("c"), grouped("a", created=9))
    assert places(group) == {"a": 0, "b": 1, "c": 2}
    assert [(one.name, one.count, one.min_count) for one in group.gang.pod_sets] == [(NAME, 3, 0)]
    assert group.gang.min_count == 2
    assert group.gang.gate is None
    assert group.gang.submitted == START.timestamp()
    assert (group.record, group.gang.id) == ("podgroup-g", "ns/g")
    assert (group.source.api_version, group.source.uid) == ("scheduling.x-k8s.io/v1alpha1", "uid-g")
    assert group.owner is None
    assert not group.controlled


@pytest.mark.parametrize(
    ("kind", "dialect", "record"),
    [(POD_GROUP_X, groups.POD_GROUP, "podgroup-g"), (POD_GROUP_SIGS, groups.KOORDINATOR, "koordinator-g")],
)
def test_both_groups(kind: Kind[PodGroup], dialect: Dialect, record: str) -> None:
    member = grouped("a", api=kind)
    found = world(member)
    found.put(kind, pod_group(minimum=1))
    key = group_of(member, found)
    assert key == GroupKey(dialect, "ns", "g")
    group = read(key, found)
    assert group is not None
    assert group.record == record
    assert group.source.api_version == kind.api_version
    assert list(group.members) == ["uid-a"]


@pytest.mark.parametrize(
    "fields", [{"min_resources": {"cpu": "1000"}}, {"schedule_timeout_seconds": 1}], ids=["least", "time"]
)
def test_what_says_nothing_of_a_gang_that_starts_whole(fields: dict[str, Any]) -> None:  # Any: of a spec
    """Its pods say what they need, and while it waits it holds nothing."""
    plain = pod_group("g", 2)
    told = msgspec.structs.replace(plain, spec=msgspec.structs.replace(plain.spec, **fields))
    pods = [grouped("a", "g"), grouped("b", "g")]
    assert the_gang(plain, *pods).gang == the_gang(told, *pods).gang


def test_pods_that_differ_in_nothing_but_the_namespaces_they_mean_are_different_pod_sets() -> None:
    def near(**term: Any) -> Any:
        rule = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}, **term}
        weighted = [{"weight": 1, "podAffinityTerm": rule}]
        return pod_spec(
            affinity={"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}
        )

    pods = [
        grouped("a", spec=near(namespaces=["ns"])),
        grouped("b", spec=near(namespaceSelector={})),  # all of them
        grouped("c", spec=near(namespaces=["other"])),
    ]
    group = the_gang(pod_group(minimum=3), *pods)
    assert len({pod_set.name for pod_set in group.gang.pod_sets}) == 3


def test_pods_of_different_shape_are_different_pod_sets_in_order_of_name() -> None:
    large = pod_spec(4)
    group = the_gang(pod_group(minimum=3), grouped("b"), grouped("a", spec=large), grouped("c"))
    assert [(one.shape.requests, one.count) for one in group.gang.pod_sets] == [
        ((("cpu", 4000),), 1),
        ((("cpu", 1000),), 2),
    ]
    assert places(group) == {"a": 0, "b": 0, "c": 1}


def test_a_pod_set_keeps_its_name_when_another_shape_comes() -> None:
    before = the_gang(pod_group(), grouped("b"), grouped("c"))
    after = the_gang(pod_group(), grouped("a", spec=pod_spec(4)), grouped("b"), grouped("c"))
    assert before.gang.pod_sets[0].name == after.gang.pod_sets[1].name


@pytest.mark.parametrize(
    ("minimum", "pods", "expected"),
    [
        (3, [grouped("a"), grouped("b")], Gate(Code.MEMBERS_MISSING, "2 of 3 pods exist")),
        (1, [], Gate(Code.MEMBERS_MISSING, "0 of 1 pods exist")),
        (2, [grouped("a"), grouped("b", phase="Succeeded")], None),
        (2, [grouped("a"), grouped("b", phase="Failed")], None),
        (2, [grouped("a"), grouped("b", deleting=True)], Gate(Code.MEMBERS_MISSING, "1 of 2 pods exist")),
        (
            2,
            [grouped("a"), grouped("b", spec=pod_spec(schedulingGates=[{"name": "x/y"}]))],
            Gate(Code.GATED, "scheduling gates keep 1 of its 2 pods; 2 must have none"),
        ),
        (1, [grouped("a"), grouped("b", spec=pod_spec(schedulingGates=[{"name": "x/y"}]))], None),
        (
            -1,
            [grouped("a")],
            Gate(Code.INVALID, "spec.minMember is -1; write how many pods must run together"),
        ),
        (
            1,
            [grouped("a", spec=pod_spec(priorityClassName="x"))],
            Gate(Code.INVALID, "pod a: PriorityClass x does not exist"),
        ),
        (
            1,
            [grouped("a", spec=pod_spec(resourceClaims=[{"name": "x"}]))],
            Gate(
                Code.INVALID,
                "pod a: resourceClaims x: it needs either resourceClaimTemplateName or resourceClaimName",
            ),
        ),
    ],
)
def test_gates(minimum: int, pods: list[Pod], expected: Gate | None) -> None:
    assert the_gang(pod_group(minimum=minimum), *pods).gang.gate == expected


def test_marks_on_the_group() -> None:
    assert the_gang(pod_group(labels={names.QUEUE: "ml"})).gang.queue == "ml"
    held = the_gang(pod_group(annotations={names.HOLD: "true"})).gang.gate
    assert held is not None
    assert held.code is Code.GATED
    unread = the_gang(pod_group(annotations={names.HOLD: "yes"})).gang.gate
    assert unread == Gate(Code.INVALID, f'{names.HOLD} is \'yes\'; write "true" or "false"')


@pytest.mark.parametrize(
    ("group", "pods", "recreate"),
    [
        ({}, [{}, {}], True),
        ({names.ON_PARTIAL: "recreate"}, [{}, {}], True),
        ({names.ON_PARTIAL: "keep"}, [{}, {}], False),
        ({names.ON_PARTIAL: "recreate"}, [{names.ON_PARTIAL: "keep"}, {}], False),
        ({names.ON_PARTIAL: "keep"}, [{names.ON_PARTIAL: "recreate"}, {}], False),
        ({names.ON_PARTIAL: "keep"}, [{names.ON_PARTIAL: "recreate"}] * 2, True),
        ({}, [{names.ON_PARTIAL: "keep"}, {}], False),
    ],
)
def test_members_without_a_controller_may_be_recreated_unless_one_is_to_be_kept(
    group: dict[str, str], pods: list[dict[str, str]], recreate: bool
) -> None:
    members = [grouped(f"p{i}", annotations=marks) for i, marks in enumerate(pods)]
    assert the_gang(pod_group(annotations=group), *members).recreate is recreate


def test_on_partial_is_keep_or_recreate() -> None:
    gate = the_gang(
        pod_group(annotations={names.ON_PARTIAL: "restart"}), grouped("a"), grouped("b")
    ).gang.gate
    assert gate == Gate(Code.INVALID, "muster.dev/on-partial is 'restart'; write keep or recreate")


def test_a_podgroup_that_is_not_there_is_waited_for() -> None:
    group = the_gang(grouped("a", created=5), grouped("b", created=3))
    assert group.gang.gate == Gate(
        Code.MEMBERS_MISSING,
        "there is no PodGroup g of scheduling.x-k8s.io, which its pods name (2 so far)",
    )
    assert group.gang.submitted == START.timestamp() + 3
    assert group.source.uid == ""
    assert group.warnings == ()
    assert read(KEY, world()) is None


def test_a_podgroup_that_is_deleted_under_its_pods_is_missed() -> None:
    group = the_gang(grouped("a", node="n"), grouped("b"))
    [warning] = group.warnings
    assert warning.startswith(
        "there is no PodGroup g of scheduling.x-k8s.io, which its pods name: bound pods"
    )
    assert the_gang(pod_group(minimum=1), grouped("a", node="n"), before=group).warnings == ()


def test_a_succeeded_pod_retires_its_place() -> None:
    done = grouped("a", node="n", plan=f"1.1/{NAME}/1", phase="Succeeded")
    group = the_gang(pod_group(minimum=3), done, grouped("b"), grouped("c"))
    assert group.retired == {Place(NAME, 1)}
    assert places(group) == {"b": 0, "c": 2}
    assert group.gang.min_count == 3


def test_a_failed_pod_with_a_controller_that_goes_on_is_waited_for() -> None:
    going_on = job()
    failed = grouped("a", owner=going_on, phase="Failed")
    group = the_gang(pod_group(minimum=2), going_on, failed, grouped("b", owner=going_on))
    assert group.gang.gate == Gate(Code.MEMBERS_MISSING, "1 of 2 pods exist")
    assert group.controlled
    failed_job = job(status={"conditions": [{"type": "Failed", "status": "True"}]})
    assert the_gang(pod_group(minimum=2), failed_job, failed, grouped("b")).gang.gate is None


def test_a_place_that_lost_its_pod_does_not_pass_for_a_member() -> None:
    """A bound pod keeps its number when those below are gone; the gap counts neither way."""
    kept = grouped("c", node="n", plan=f"1.1/{NAME}/2")
    group = the_gang(pod_group(minimum=2), kept, grouped("d"))
    assert places(group) == {"c": 2, "d": 0}
    assert group.gang.pod_sets[0].count == 3
    assert group.retired == {Place(NAME, 1)}
    assert group.gang.min_count == 3


def bound(name: str, index: int, **more: Any) -> Pod:
    return grouped(name, node="n", plan=f"1.1/{NAME}/{index}", **more)


def test_the_place_of_a_lost_member_waits_for_its_successor() -> None:
    group = pod_group(minimum=3)
    whole = the_gang(group, *(bound(name, index) for index, name in enumerate("abc")))
    first, last = bound("a", 0), bound("c", 2)
    lacking = the_gang(group, first, last, before=whole)
    assert lacking.gang.gate is None, "what is lacking has its place"
    assert lacking.gang.pod_sets == whole.gang.pod_sets
    assert lacking.gang.min_count == 3
    assert lacking.retired == frozenset()
    again = the_gang(group, first, last, before=lacking)
    assert again.gang == lacking.gang, "and keeps it"
    refilled = the_gang(group, first, last, grouped("a-new"), before=again)
    assert places(refilled) == {"a": 0, "c": 2, "a-new": 1}
    assert refilled.gang == whole.gang


def test_the_place_of_a_lost_member_is_kept_if_no_pod_says_which_it_has() -> None:
    """The gang was bound before muster came. The pod that is lost may be any of them."""
    group = pod_group(minimum=3)
    for lost in "abc":
        whole = the_gang(group, *(grouped(name, node="n") for name in "abc"))
        rest = [grouped(name, node="n") for name in "abc" if name != lost]
        lacking = the_gang(group, *rest, before=whole)
        assert lacking.gang.gate is None
        assert (lacking.gang.pod_sets, lacking.gang.min_count) == (whole.gang.pod_sets, 3)
        assert places(lacking) == {name: place for name, place in places(whole).items() if name != lost}
        refilled = the_gang(group, *rest, grouped("new"), before=lacking)
        assert places(refilled)["new"] == places(whole)[lost]
        assert refilled.gang == whole.gang


def test_without_a_minimum_any_pod_starts_by_itself() -> None:
    """`minMember: 0`, or none at all."""
    group = the_gang(pod_group(minimum=0), grouped("a"), grouped("b", spec=pod_spec(2)))
    assert (group.gang.gate, group.gang.min_count, group.finished) == (None, 1, False)
    assert [one.min_count for one in group.gang.pod_sets] == [0, 0]
    nothing = the_gang(pod_group(minimum=0))
    assert (nothing.gang.gate, nothing.finished) == (Gate(Code.MEMBERS_MISSING, "0 of 1 pods exist"), False)
    assert the_gang(pod_group(minimum=0), grouped("a", node="n", phase="Succeeded")).finished


def test_of_several_lost_members_as_many_are_awaited_as_the_minimum_lacks() -> None:
    group = pod_group(minimum=2)
    whole = the_gang(group, *(bound(name, index) for index, name in enumerate("abcd")))
    (left,) = [bound("d", 3)]
    lacking = the_gang(group, left, before=whole)
    assert lacking.gang.gate is None
    assert lacking.retired == {Place(NAME, 1), Place(NAME, 2)}
    assert lacking.gang.min_count == 4, "one runs, one is awaited, two are gone"
    enough = the_gang(group, left, grouped("e"), before=lacking)
    assert places(enough) == {"d": 3, "e": 0}


def test_a_pod_that_never_ran_is_not_awaited() -> None:
    group = pod_group(minimum=3)
    waiting = the_gang(group, bound("a", 0), grouped("b"), grouped("c"))
    gate = Gate(Code.MEMBERS_MISSING, "2 of 3 pods exist")
    assert the_gang(group, bound("a", 0), grouped("b"), before=waiting).gang.gate == gate
    whole = the_gang(group, bound("a", 0), bound("b", 1), bound("c", 2))
    none = the_gang(group, grouped("x"), before=whole)
    assert none.gang.gate == Gate(Code.MEMBERS_MISSING, "1 of 3 pods exist"), "all are lost: it starts again"


def test_a_successor_of_another_shape_takes_no_place_of_the_lost() -> None:
    group = pod_group(minimum=2)
    whole = the_gang(group, bound("a", 0), bound("b", 1))
    lacking = the_gang(group, bound("a", 0), before=whole)
    other = grouped("b", spec=pod_spec(cpu="2"))
    changed = the_gang(group, bound("a", 0), other, before=lacking)
    assert changed.retired == {Place(NAME, 1)}
    assert (changed.gang.min_count, changed.gang.gate) == (3, None)


def test_the_last_of_its_shape_is_awaited_too() -> None:
    group = pod_group(minimum=2)
    large = pod_spec(cpu="2")
    name = pod_set_name(asked(template(large)).shape)
    whole = the_gang(group, bound("a", 0), grouped("b", spec=large, node="n", plan=f"1.1/{name}/0"))
    lacking = the_gang(group, bound("a", 0), before=whole)
    assert {one.name: one.count for one in lacking.gang.pod_sets} == {NAME: 1, name: 1}
    assert lacking.gang.gate is None


def test_an_annotation_with_an_absurd_number_costs_nothing() -> None:
    group = the_gang(pod_group(minimum=1), grouped("a", plan=f"1.1/{NAME}/999999999"))
    assert places(group) == {"a": 0}


def test_finished_once_enough_have_ended_and_none_is_left() -> None:
    ended = [grouped("a", phase="Succeeded"), grouped("b", phase="Failed")]
    assert the_gang(pod_group(minimum=2), *ended).finished
    assert not the_gang(pod_group(minimum=3), *ended).finished
    assert not the_gang(pod_group(minimum=2), *ended, grouped("c")).finished
    assert not the_gang(pod_group(minimum=1)).finished


def test_places_stay_when_a_pod_with_a_lower_name_comes() -> None:
    before = the_gang(pod_group(), grouped("b"), grouped("c"))
    assert places(the_gang(pod_group(), grouped("a"), grouped("b"), grouped("c"), before=before)) == {
        "a": 2,
        "b": 0,
        "c": 1,
    }


def test_pods_of_another_scheduler_are_not_members() -> None:
    theirs = grouped("a", spec=pod_spec(schedulerName="default-scheduler"))
    ours = grouped("b", spec=pod_spec(schedulerName="muster"))
    group = read(KEY, world(pod_group(), theirs, ours, schedulers=frozenset({"muster"})))
    assert group is not None
    assert list(group.members) == ["uid-b"]


def _claim(volume: str) -> PersistentVolumeClaim:
    obj = {"metadata": {"name": "c", "namespace": "ns"}, "spec": {"volumeName": volume}}
    return msgspec.convert(obj, PersistentVolumeClaim)


_PODS = st.builds(
    lambda name, cpus, claim, rank, share, created: grouped(
        name,
        created=created,
        annotations={names.GPU_SHARE: share} if share else None,
        spec=pod_spec(
            cpus,
            priorityClassName=rank,
            volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}] if claim else [],
        ),
    ),
    st.sampled_from("abc"),
    st.sampled_from([1, 2]),
    st.booleans(),
    st.sampled_from(["", "high"]),
    st.sampled_from(["", "250", "much"]),
    st.integers(0, 2),
)
_CLASSES = st.builds(lambda value: (PRIORITY_CLASS, priority_class("high", value)), st.integers(1, 3))
_CLAIMS = st.builds(lambda volume: (PERSISTENT_VOLUME_CLAIM, _claim(volume)), st.sampled_from(["", "v"]))
_MINIMA = st.builds(lambda least: (POD_GROUP_X, pod_group(minimum=least)), st.integers(1, 3))


def test_pods_of_one_template_are_read_once_also_when_they_are_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counted(pod: Pod, seen: World) -> tuple[Shape, Labels, Said]:
        asked.append(pod.metadata.name)
        return said(pod, seen)

    monkeypatch.setattr(reading, "said", counted)
    found = world(pod_group(minimum=3))
    one = reading.Reading(groups.POD_GROUP, ("ns", "g"), found, several=False)
    for name in "abc":
        found.put(POD, grouped(name))
        one.note_changed(name)
    one.settle()
    for index, name in enumerate("abc"):
        found.put(POD, grouped(name, node="n", plan=f"1.1/{NAME}/{index}"))
        one.note_changed(name)
    one.settle()
    assert asked == ["a"]
    assert {place.index: pod.metadata.name for place, pod in one.members.filled.items()} == {
        0: "a",
        1: "b",
        2: "c",
    }
    found.put(POD, grouped("c", node="n", plan=f"1.1/{NAME}/2", annotations={names.HOLD: "true"}))
    one.note_changed("c")
    assert asked == ["a", "c"]


@given(
    st.lists(
        st.tuples(st.one_of(_PODS.map(lambda one: (POD, one)), _CLASSES, _CLAIMS, _MINIMA), st.booleans()),
        max_size=12,
    )
)
@settings(max_examples=examples(150), deadline=None)
def test_a_group_of_which_each_pod_is_read_once_is_that_of_a_fresh_look(
    changes: list[tuple[tuple[Any, Resource], bool]],
) -> None:
    """Whatever comes, changes and goes, in any order, and read after each change."""
    found, there = World(), dict[tuple[Any, str], Resource]()
    for (kind, obj), comes in changes:
        name = obj.metadata.name
        if comes:
            found.put(kind, obj)
            there[kind, name] = obj
        elif there.pop((kind, name), None) is not None:
            found.drop(kind, obj.metadata.namespace, name)
        fresh = World()
        for (other, _), one in there.items():
            fresh.put(other, one)
        assert read(KEY, found) == read(KEY, fresh)
