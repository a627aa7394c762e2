"""Kubernetes' own PodGroups: gangs, groups whose pods are none, and what their fields ask for."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from muster import names
from muster.api import groups
from muster.api.base import Object, ObjectMeta, Resource
from muster.api.core_v1 import Namespace, Pod
from muster.api.fields import convert
from muster.api.kinds import JOB, POD, POD_GROUP_K8S
from muster.api.koordinator_v1alpha1 import GROUPS
from muster.core.words.gang import MOST_PLACES, Code, Gang, Gather, Strategy
from muster.translate.dialects import group_of
from muster.translate.group import Group
from muster.translate.identity import GroupKey
from muster.translate.pods import IN_GROUP, pod_bound
from muster.translate.touched import keys_touched, regrouped
from muster.translate.world import World
from tests.translate.cluster import (
    grouped,
    job,
    metadata,
    native_group,
    pod,
    pod_spec,
    priority_class,
    read,
    topology,
    world,
)

KEY = GroupKey(groups.NATIVE, "ns", "g")
ALONE = GroupKey(groups.POD, "ns", "a")
OF_JOB = GroupKey(groups.JOB, "ns", "j")


def member(name: str = "a", **fields: Any) -> Pod:
    """A pod whose spec names the group g. Any: what `pod` takes."""
    return grouped(name, api=POD_GROUP_K8S, **fields)


def the_group(*objects: Resource) -> Group:
    group = read(KEY, world(*objects))
    assert group is not None
    return group


def the_gang(*objects: Resource) -> Gang:
    return the_group(*objects).gang


def domain(key: str) -> Object:
    return {"topology": [{"key": key}]}


def test_a_gang_has_the_minimum_of_its_group_and_all_pods_that_name_it() -> None:
    group = the_group(native_group(minimum=2), member("a"), member("b"), member("c"))
    assert group.gang.min_count == 2
    assert sum(each.count for each in group.gang.pod_sets) == 3
    assert group.gang.gate is None
    assert (group.record, group.gang.id) == ("native-g", "ns/g")
    assert (group.source.api_version, group.source.uid) == ("scheduling.k8s.io/v1beta1", "uid-g")
    assert not group.gang.indivisible


@given(least=st.integers(1, 6), there=st.integers(0, 6))
def test_it_waits_for_its_group_and_for_as_many_pods_as_its_minimum(least: int, there: int) -> None:
    pods = [member(f"p{number}") for number in range(there)]
    gate = the_gang(native_group(minimum=least), *pods).gate
    assert (gate is None) == (there >= least)
    if gate is not None:
        assert (gate.code, gate.message) == (Code.MEMBERS_MISSING, f"{there} of {least} pods exist")
    if pods:
        absent = the_gang(*pods).gate
        assert absent is not None
        assert absent.code is Code.MEMBERS_MISSING
        assert absent.message.startswith("there is no PodGroup g of scheduling.k8s.io")


def test_its_minimum_may_change() -> None:
    pods = [member("a"), member("b"), member("c")]
    before = the_group(native_group(minimum=3), *pods)
    after = read(KEY, world(native_group(minimum=1), *pods), before)
    assert after is not None
    assert (before.gang.min_count, after.gang.min_count) == (3, 1)


@pytest.mark.parametrize("gang", ["", "true"])
def test_pods_of_a_basic_group_are_what_they_would_be_without_it(gang: str) -> None:
    """With the gate WorkloadWithJob, Kubernetes puts the pods of every Job into such a group."""
    parent = job(gang=gang, parallelism=2, completions=2)
    pods = [member("a", owner=parent), member("b", owner=parent)]
    there = world(native_group(), parent, *pods)
    assert group_of(pods[0], there) == (OF_JOB if gang else ALONE)
    assert read(KEY, there) is None
    found = read(OF_JOB if gang else ALONE, there)
    assert found is not None
    assert found.gang.gate is None
    assert len(found.members) == (2 if gang else 1)


def test_a_basic_group_takes_no_name_from_its_namesakes() -> None:
    there = world(native_group("a"), pod("a"))
    found = read(ALONE, there)
    assert found is not None
    assert found.gang.id == "ns/a"


@pytest.mark.parametrize("gang", ["", "true"])
def test_a_group_that_comes_changes_or_goes_moves_its_pods(gang: str) -> None:
    parent = job(gang=gang, parallelism=1, completions=1)
    one, there = member("a", owner=parent), world()
    without = OF_JOB if gang else ALONE
    there.put(JOB, parent)
    there.put(POD, one)
    assert group_of(one, there) == KEY, "it may come after its pods"
    for new in (native_group(), native_group(minimum=1), native_group(), None):
        old = there.groups_of(groups.NATIVE).get(("ns", "g"))
        if new is None:
            there.drop(POD_GROUP_K8S, "ns", "g")
        else:
            there.put(POD_GROUP_K8S, new)
        assert regrouped(POD_GROUP_K8S, old, new, there)
        assert {KEY, without} <= keys_touched(POD_GROUP_K8S, old, new, there)
        freed = new is not None and new.spec.scheduling_policy.basic is not None
        assert group_of(one, there) == (without if freed else KEY)


def test_a_pod_that_its_group_owns_waits_until_that_is_seen() -> None:
    owner = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "name": "g", "uid": "uid-g"}
    meta = metadata("a") | {"ownerReferences": [owner]}
    owners = convert(meta, ObjectMeta).owner_references
    one = replace(member("a"), metadata=replace(member("a").metadata, owner_references=owners))
    assert group_of(one, world(one)) is None
    assert group_of(one, world(one, native_group())) == ALONE
    assert group_of(one, world(one, native_group(minimum=1))) == KEY
    whole = World(whole=True)
    whole.put(POD, one)
    assert group_of(one, whole) == KEY


def test_the_priority_of_the_group_counts_and_not_that_of_its_pods() -> None:
    classes = [priority_class("high", 1000), priority_class("low", 10)]
    pods = [member("a", spec=pod_spec(priority=10)), member("b", spec=pod_spec(priority=10))]
    for spec, expected in (({"priority": 1000}, 1000), ({"priorityClassName": "high"}, 1000), ({}, 10)):
        assert the_gang(*classes, native_group(minimum=2, **spec), *pods).priority == expected
    found = read(ALONE, world(*classes, native_group(priority=1000), *pods))
    assert found is not None
    assert found.gang.priority == 1000, "also if its pods are no gang"


@pytest.mark.parametrize("alone", [False, True])
def test_its_policy_says_whether_it_preempts(alone: bool) -> None:
    key, least = (ALONE, 0) if alone else (KEY, 1)
    for policy, of_pods, expected in (
        ("Never", "PreemptLowerPriority", False),
        ("PreemptLowerPriority", "Never", False),
        (None, "Never", False),
        (None, "PreemptLowerPriority", True),
    ):
        spec = {} if policy is None else {"preemptionPolicy": policy}
        one = member("a", spec=pod_spec(preemptionPolicy=of_pods))
        found = read(key, world(native_group(minimum=least, **spec), one))
        assert found is not None
        assert found.gang.preempts is expected


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("number", [{}, {"priority": 1000}])
def test_it_preempts_only_if_its_class_allows_it(number: Object, alone: bool) -> None:
    key, least = (ALONE, 0) if alone else (KEY, 1)
    classes = [priority_class("high", 1000), priority_class("patient", 1000, preemption="Never")]
    for name, expected in (("high", True), ("patient", False)):
        stated = native_group(minimum=least, priorityClassName=name, **number)
        found = read(key, world(*classes, stated, member("a")))
        assert found is not None
        assert (found.gang.priority, found.gang.preempts) == (1000, expected)


def test_a_gang_that_is_disrupted_as_one_is_evicted_as_one() -> None:
    for mode, expected in (({"all": {}}, True), ({"single": {}}, False), (None, False)):
        spec: dict[str, Any] = {} if mode is None else {"disruptionMode": mode}
        assert the_gang(native_group(minimum=1, **spec), member("a")).indivisible is expected


def test_a_topology_key_that_is_a_layers_label_is_that_layer() -> None:
    layers = topology(("Spine", "spine"), ("Rack", "example.com/rack"))
    group = native_group(minimum=1, schedulingConstraints=domain("example.com/rack"))
    gang = the_gang(layers, group, member("a"))
    assert gang.gather == (Gather("Rack", Strategy.MUST_GATHER),)
    assert not gang.pod_sets[0].shape.pod_affinity


def test_pods_select_their_fellows_in_the_domain_of_another_key() -> None:
    group = native_group(minimum=2, schedulingConstraints=domain("zone"))
    pods = [member("a"), member("b", spec=pod_spec(2), node="n")]
    gang = the_gang(group, *pods)
    assert gang.gather == ()
    bound = pod_bound(pods[1], world=world(*pods)).footprint
    for each in gang.pod_sets:
        (term,) = each.shape.pod_affinity
        assert term.key == "zone"
        assert term.namespaces == ("ns",)
        assert (IN_GROUP, "g") in each.labels
        assert list(each.labels) == sorted(each.labels)
    assert (IN_GROUP, "g") in bound.labels
    without = the_gang(native_group(minimum=2), *pods)
    assert [each.name for each in without.pod_sets] == [each.name for each in gang.pod_sets]


def test_a_basic_group_with_a_topology_starts_pod_by_pod_in_one_domain() -> None:
    gang = the_gang(native_group(schedulingConstraints=domain("zone")), member("a"), member("b"))
    assert gang.min_count == 1
    assert gang.gate is None
    assert gang.pod_sets[0].shape.pod_affinity


REFUSED: dict[str, tuple[Object, str]] = {
    "no policy": ({"schedulingPolicy": {}}, "schedulingPolicy has neither gang nor basic"),
    "two policies": (
        {"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}},
        "schedulingPolicy has both gang and basic",
    ),
    "no minimum": ({"schedulingPolicy": {"gang": {}}}, "minCount is 0; write how many"),
    "a minimum below zero": ({"schedulingPolicy": {"gang": {"minCount": -3}}}, "minCount is -3; write how"),
    "a parent": ({"parentCompositePodGroupName": "p"}, f"CompositePodGroup.*{GROUPS}"),
    "claims": ({"resourceClaims": [{"name": "gpus"}]}, "resourceClaims gpus .* is not supported yet"),
    "two domains": (
        {"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
        "topology has 2 constraints; write one",
    ),
    "no key": ({"schedulingConstraints": domain("")}, r"topology\[0\].key is ''; write the key of a node"),
    "a key that is none": ({"schedulingConstraints": domain("a b")}, r"topology\[0\].key is 'a b'"),
    "a class": ({"priorityClassName": "none"}, "PriorityClass none does not exist"),
}


@pytest.mark.parametrize(("spec", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_honoured_is_refused_by_its_field(spec: Object, message: str) -> None:
    gate = the_gang(native_group(minimum=1, **spec), member("a")).gate
    assert gate is not None
    assert gate.code is Code.INVALID
    assert re.search(message, gate.message), gate.message


@given(least=st.integers(1, 2**31 - 1), also=st.integers(0, 2**31 - 1))
def test_minima_above_what_a_gang_may_have_are_refused_and_its_record_can_be_read(
    least: int, also: int
) -> None:
    pods = [member("a"), grouped("b", "h", api=POD_GROUP_K8S)]
    gang = the_gang(native_group(minimum=least), *pods)
    assert (gang.gate is not None and gang.gate.code is Code.INVALID) == (least > MOST_PLACES)
    assert gang.min_count <= MOST_PLACES
    parts = [native_group("g", minimum=least), native_group("h", minimum=also)]
    both = {GROUPS: '["ns/g", "ns/h"]'}
    parts = [replace(p, metadata=replace(p.metadata, annotations=both)) for p in parts]
    gang = the_gang(*parts, *pods)
    assert (gang.gate is not None and gang.gate.code is Code.INVALID) == (least + also > MOST_PLACES)
    assert gang.min_count <= 2 * MOST_PLACES


def test_groups_that_name_each_other_are_one_gang() -> None:
    """What a CompositePodGroup of all its groups would be."""
    both = '["ns/g", "ns/h"]'
    parts = []
    for name in ("g", "h"):
        part = native_group(name, minimum=1, schedulingConstraints=domain("zone"))
        parts.append(replace(part, metadata=replace(part.metadata, annotations={GROUPS: both})))
    pods = [member("a"), grouped("b", "h", api=POD_GROUP_K8S)]
    gang = the_gang(*parts, *pods)
    assert gang.gate is None
    assert [(each.name, each.min_count) for each in gang.subgroups] == [("ns/g", 1), ("ns/h", 1)]
    assert [each.shape.pod_affinity[0].labels[0].values for each in gang.pod_sets] == [("g",), ("h",)]


def test_a_basic_group_among_others_is_a_part_of_their_gang() -> None:
    """Otherwise the pods of the others would belong to nothing."""
    both = '["ns/g", "ns/h"]'
    parts = [native_group("g"), native_group("h", minimum=1)]
    parts = [replace(p, metadata=replace(p.metadata, annotations={GROUPS: both})) for p in parts]
    pods = [member("a"), grouped("b", "h", api=POD_GROUP_K8S)]
    there = world(*parts, *pods)
    assert [group_of(each, there) for each in pods] == [KEY, KEY]
    gang = the_gang(*parts, *pods)
    assert gang.gate is None
    assert gang.min_count == 1


def test_what_says_nothing_of_the_gang_itself() -> None:
    ref = {"workloadName": "w", "templateName": "t"}
    assert the_gang(native_group(minimum=1, workloadRef=ref), member("a")) == the_gang(
        native_group(minimum=1), member("a")
    )


GANG: Object = {"schedulingPolicy": {"gang": {}}}


def test_a_job_with_a_gang_of_its_own_is_none_of_its_namespaces() -> None:
    """The Job controller makes the PodGroup; the pods that name it are its gang."""
    namespace = Namespace(metadata=ObjectMeta(name="ns", labels={names.GANG: "true"}))
    for scheduling, expected in ((GANG, False), ({"schedulingPolicy": {"basic": {}}}, True)):
        there = world(namespace, job(scheduling=scheduling))
        assert (read(OF_JOB, there) is not None) == expected


def test_a_job_that_asks_for_two_gangs_is_refused() -> None:
    found = read(OF_JOB, world(job(gang="true", scheduling=GANG)))
    assert found is not None
    assert found.gang.gate is not None
    assert found.gang.gate.code is Code.INVALID
    assert "spec.scheduling makes it a gang" in found.gang.gate.message
