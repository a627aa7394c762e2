"""What groups ask of the topology, wherever they write it."""

import json

import pytest

from muster.api import groups
from muster.api.base import Object, Resource
from muster.api.kinds import CLUSTER_NETWORK_TOPOLOGY
from muster.api.koordinator_v1alpha1 import TOPOLOGY_INDEX, TOPOLOGY_SPEC
from muster.core.words.gang import Code, Gather, Strategy
from muster.core.world.nodes import UNLIMITED
from muster.names import EXCLUSIVE
from muster.translate.group import Group
from muster.translate.identity import GroupKey
from muster.translate.touched import keys_touched
from tests.translate.cluster import grouped, jobset, pod, pod_group, pod_spec, read, topology, world

KEY = GroupKey(groups.POD_GROUP, "ns", "g")
TREE = topology(("SpineLayer", "spine"), ("BlockLayer", "block"))
MUST = Gather("BlockLayer", Strategy.MUST_GATHER)


def spec(*rules: Object) -> dict[str, str]:
    return {TOPOLOGY_SPEC: json.dumps({"gatherStrategy": list(rules)})}


def rule(layer: str = "BlockLayer", strategy: str = "MustGather", **more: int) -> Object:
    return {"layer": layer, "strategy": strategy, **more}


def the_group(*objects: Resource, key: GroupKey = KEY) -> Group:
    found = read(key, world(*objects))
    assert found is not None
    return found


def test_on_the_group_or_on_its_pods() -> None:
    group = the_group(TREE, pod_group(annotations=spec(rule())), grouped("a"), grouped("b"))
    assert group.gang.gather == (MUST,)
    assert group.gang.gate is None
    members = [grouped(name, annotations=spec(rule())) for name in "ab"]
    assert the_group(TREE, pod_group(), *members).gang.gather == (MUST,)
    other = grouped("c", annotations=spec(rule("SpineLayer")))
    gate = the_group(TREE, pod_group(), *members, other).gang.gate
    assert gate is not None
    assert gate.message.startswith("its pods differ in ")
    own = pod_group(annotations=spec(rule("BlockLayer", "PreferGather", podCountMultiple=4)))
    assert the_group(TREE, own, *members, other).gang.gather == (
        Gather("BlockLayer", Strategy.PREFER_GATHER, 4),
    )


def test_on_jobsets_their_templates_and_single_pods() -> None:
    key = GroupKey(groups.JOBSET, "ns", "s")
    assert the_group(TREE, jobset(annotations=spec(rule())), key=key).gang.gather == (MUST,)
    template = {"metadata": {"annotations": spec(rule())}, "spec": pod_spec()}
    assert the_group(TREE, jobset(jobs={"w": {"template": template}}), key=key).gang.gather == (MUST,)
    both = {"w": {"template": template}, "c": {}}
    gang = the_group(TREE, jobset(jobs=both), key=key).gang
    assert gang.gather == ()
    assert {each.name: each.gather for each in gang.subgroups} == {"w": (MUST,)}
    assert {each.name: each.subgroup for each in gang.pod_sets} == {"w": "w", "c": ""}
    far = Gather("SpineLayer", Strategy.MUST_GATHER)
    gang = the_group(TREE, jobset(jobs=both, annotations=spec(rule("SpineLayer"))), key=key).gang
    assert (gang.gather, [each.gather for each in gang.subgroups]) == ((far,), [(MUST,)])
    same = {"w": {"template": template}, "c": {"template": template}}
    gang = the_group(TREE, jobset(jobs=same), key=key).gang
    assert (gang.gather, gang.subgroups) == ((MUST,), ())
    single = the_group(TREE, pod("p", annotations=spec(rule())), key=GroupKey(groups.POD, "ns", "p"))
    assert single.gang.gather == (MUST,)


def test_what_only_one_template_says_is_refused_with_its_name_or_as_no_rule_of_a_part() -> None:
    key = GroupKey(groups.JOBSET, "ns", "s")

    def refused(**annotations: str) -> str:
        template = {"metadata": {"annotations": annotations}, "spec": pod_spec()}
        gate = the_group(TREE, jobset(jobs={"w": {"template": template}, "c": {}}), key=key).gang.gate
        assert gate is not None
        assert gate.code is Code.INVALID
        return gate.message

    assert refused(**spec(rule("Rack"))).startswith("w: there is no topology layer Rack; there are ")
    assert refused(**{EXCLUSIVE: "BlockLayer"}) == (
        f"{EXCLUSIVE} is of the whole gang, and of its parts only w name it; "
        "write the same on all, or on the group"
    )


def test_pods_of_one_podgroup_of_which_only_some_have_a_rule_are_refused() -> None:
    gate = the_group(TREE, pod_group(), grouped("a", annotations=spec(rule())), grouped("b")).gang.gate
    assert gate is not None
    assert gate.message == (
        f"its pods differ in {TOPOLOGY_SPEC}, and some have none; write it on the PodGroup, or make a "
        "PodGroup of each sort"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Input data was truncated"),
        ('{"gatherStrategy": 3}', "Expected `array`, got `int` - at `$.gatherStrategy`"),
        ('{"gatherStrategy": [{"layer": ""}]}', "gatherStrategy[0].layer is missing"),
        (
            '{"gatherStrategy": [{"layer": "BlockLayer", "strategy": "Must"}]}',
            "gatherStrategy[0].strategy is 'Must'; write MustGather or PreferGather",
        ),
        (
            '{"gatherStrategy": [{"layer": "BlockLayer"}]}',
            "gatherStrategy[0] has neither strategy nor podCountMultiple",
        ),
        (
            '{"gatherStrategy": [{"layer": "BlockLayer", "strategy": "MustGather", "podCountMultiple": -4}]}',
            "gatherStrategy[0].podCountMultiple is -4; write a number above 1",
        ),
        (
            json.dumps({"gatherStrategy": [{"layer": "x", "strategy": "MustGather"}] * 33}),
            "gatherStrategy has 33 rules; write at most 32",
        ),
        (
            json.dumps({"gatherStrategy": [{"layer": "x" * 254, "strategy": "MustGather"}]}),
            "gatherStrategy[0].layer has 254 characters; it has at most 253",
        ),
        (" " * 16_385, "has 16385 characters; write at most 16384"),
    ],
)
def test_a_topology_annotation_that_cannot_be_read_gates_the_gang(text: str, message: str) -> None:
    group = the_group(TREE, pod_group(annotations={TOPOLOGY_SPEC: text}), grouped("a"), grouped("b"))
    gate = group.gang.gate
    assert gate is not None
    assert (gate.code, gate.message) == (Code.INVALID, f"{TOPOLOGY_SPEC}: {message}")


def test_layers_that_are_not_there() -> None:
    members = (grouped("a"), grouped("b"))
    rules = spec(rule("spineLayer"), rule("AcceleratorLayer", "PreferGather"))
    group = the_group(TREE, pod_group(annotations=rules), *members)
    assert group.gang.gather == (Gather("SpineLayer", Strategy.MUST_GATHER),)
    assert group.gang.gate is None
    assert group.warnings == (
        "layer spineLayer is called SpineLayer here, and taken for it",
        "there is no topology layer AcceleratorLayer, its preference is ignored",
    )


def test_a_spec_without_rules_asks_for_nothing_and_gets_a_warning() -> None:
    group = the_group(
        TREE, pod_group(annotations={TOPOLOGY_SPEC: '{"gather": []}'}), grouped("a"), grouped("b")
    )
    assert (group.gang.gather, group.gang.gate) == ((), None)
    assert group.warnings == (f"{TOPOLOGY_SPEC} has no gatherStrategy, and asks for nothing",)


NONE = "there is no topology layer Rack; there are ClusterTopologyLayer, "
BY = "NodeTopologyLayer (layers are defined by the ClusterNetworkTopology default)"
BROKEN = "the ClusterNetworkTopology default cannot be used: "


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ([TREE], f"{NONE}SpineLayer, BlockLayer, NodeTopologyLayer"),
        ([], NONE + BY),
        ([topology(("Rack", "rack"), name="other")], NONE + BY),
        (
            [topology(("A", "a"), ("A", "b"))],
            f"{BROKEN}spec.networkTopologySpec[1]: layer A occurs twice",
        ),
    ],
)
def test_a_required_layer_that_is_not_there(tree: list[Resource], message: str) -> None:
    required = pod_group(annotations=spec(rule("Rack")))
    gate = the_group(*tree, required, grouped("a"), grouped("b")).gang.gate
    assert gate is not None
    assert (gate.code, gate.message) == (Code.INVALID, message)


def test_groups_are_read_again_when_the_topology_changes() -> None:
    found = world(pod_group(annotations=spec(rule())), grouped("a"), grouped("b"))
    found.put(CLUSTER_NETWORK_TOPOLOGY, TREE)
    assert KEY in keys_touched(CLUSTER_NETWORK_TOPOLOGY, None, TREE, found)


def test_the_index_orders_pods() -> None:
    indexed = [
        grouped(name, annotations={TOPOLOGY_INDEX: index}) for name, index in zip("abc", "201", strict=True)
    ]
    (pods,) = the_group(pod_group(), *indexed, grouped("d")).gang.pod_sets
    assert pods.ranks == (2, 0, 1, UNLIMITED)
    (pods,) = the_group(pod_group(), grouped("a"), grouped("b")).gang.pod_sets
    assert pods.ranks == ()
