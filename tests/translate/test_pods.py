"""Shapes of pods, what is refused, and what occupies a node."""

import re
from typing import Any

import pytest

from muster import names
from muster.api.base import Object
from muster.core.words.events import Footprint, PodsBound
from muster.core.words.gang import (
    Code,
    Effect,
    GangId,
    NodeName,
    NodeTerm,
    Operator,
    Place,
    PodId,
    Requirement,
    Shape,
    Toleration,
)
from muster.translate.pods import asked, live, occupies, pod_bound
from tests.translate.cluster import pod, pod_spec, template

CPU = (("cpu", 1000),)


def node_affinity(*terms: Object) -> Object:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


ZONE = {"key": "zone", "operator": "In", "values": ["b", "a"]}
NAME = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

SHAPES: dict[str, tuple[Object, Shape]] = {
    "plain": ({}, Shape(CPU)),
    "selector, sorted": (
        {"nodeSelector": {"b": "2", "a": "1"}},
        Shape(CPU, selector=(("a", "1"), ("b", "2"))),
    ),
    "affinity on labels and on the name": (
        node_affinity({"matchExpressions": [ZONE]}, {"matchFields": [NAME]}),
        Shape(
            CPU,
            affinity=(
                NodeTerm(labels=(Requirement("zone", Operator.IN, ("a", "b")),)),
                NodeTerm(fields=(Requirement("metadata.name", Operator.IN, ("n1",)),)),
            ),
        ),
    ),
    "an empty term matches nothing": (node_affinity({}), Shape(CPU, affinity=())),
    "an empty term beside another adds nothing": (
        node_affinity({}, {"matchExpressions": [ZONE]}),
        Shape(CPU, affinity=(NodeTerm(labels=(Requirement("zone", Operator.IN, ("a", "b")),)),)),
    ),
    "tolerations": (
        {
            "tolerations": [
                {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "team", "value": "a"},
                {"operator": "Exists"},
                {"key": "sla", "operator": "Gt", "value": "950"},
            ]
        },
        Shape(
            CPU,
            tolerations=(
                Toleration("", None, None),
                Toleration("sla", "950", None, Operator.GT),
                Toleration("gpu", None, Effect.NO_SCHEDULE),
                Toleration("team", "a", None),
            ),
        ),
    ),
}


@pytest.mark.parametrize(("fields", "expected"), SHAPES.values(), ids=SHAPES.keys())
def test_shape(fields: Object, expected: Shape) -> None:
    shape, refusal = asked(template(pod_spec(**fields)))
    assert refusal is None
    assert shape.requests == expected.requests
    assert shape.selector == expected.selector
    assert shape.affinity == expected.affinity
    assert set(shape.tolerations) == set(expected.tolerations)


def port(**fields: Any) -> Object:
    return {"containers": [{"name": "c", "ports": [fields]}]}


REFUSED: dict[str, tuple[Object, str]] = {
    "claims of a container": (
        {"containers": [{"name": "c", "resources": {"claims": [{"name": "gpu"}]}}]},
        "resourceClaims",
    ),
    "devices without a claim": (
        {"containers": [{"name": "c", "resources": {"limits": {"deviceclass/gpu": 1}}}]},
        "deviceclass/gpu is not a resource; write resourceClaims",
    ),
    "affinity without a domain": (
        {"affinity": {"podAffinity": {REQUIRED: [{}]}}},
        "a term of podAffinity has",
    ),
    "anti-affinity without a domain": (
        {"affinity": {"podAntiAffinity": {REQUIRED: [{}]}}},
        "a term of podAntiAffinity has no topologyKey",
    ),
    "an operator of pods' labels": (
        {
            "topologySpreadConstraints": [
                {"topologyKey": "zone", "labelSelector": {"matchExpressions": [ZONE | {"operator": "Gt"}]}}
            ]
        },
        "operator 'Gt' of the label selector on 'zone' is not one of In, NotIn",
    ),
    "skew": ({"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 0}]}, "maxSkew .* is 0"),
    "whether a spread is required": (
        {"topologySpreadConstraints": [{"topologyKey": "zone", "whenUnsatisfiable": "Maybe"}]},
        "whenUnsatisfiable is 'Maybe'; write DoNotSchedule or ScheduleAnyway",
    ),
    "policy": (
        {"topologySpreadConstraints": [{"topologyKey": "zone", "nodeTaintsPolicy": "Yes"}]},
        "nodeTaintsPolicy of the spread by zone is 'Yes'; write Honor or Ignore",
    ),
    "ephemeral claim": ({"volumes": [{"name": "d", "ephemeral": {}}]}, "volume d"),
    "operator": (
        node_affinity({"matchExpressions": [ZONE | {"operator": "Near"}]}),
        "operator 'Near' of node affinity on 'zone' is not one of In, NotIn",
    ),
    "toleration's operator": (
        {"tolerations": [{"key": "sla", "operator": "Ge", "value": "5"}]},
        "operator 'Ge' of the toleration of 'sla' is not one of Equal, Exists, Gt, Lt",
    ),
    "toleration's number": (
        {"tolerations": [{"key": "sla", "operator": "Gt", "value": "0.5"}]},
        "operator Gt of the toleration of 'sla' compares integers, and its value is '0.5'",
    ),
    "toleration's effect": ({"tolerations": [{"key": "a", "effect": "Never"}]}, "effect 'Never'"),
    "quantity": ({"containers": [{"name": "c", "resources": {"requests": {"cpu": "x"}}}]}, "'x' is not"),
}


@pytest.mark.parametrize(("fields", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_an_unsupported_feature_of_a_pod_is_refused_by_name(fields: Object, message: str) -> None:
    _, refusal = asked(template(pod_spec() | fields))
    assert refusal is not None
    assert refusal.code is Code.INVALID
    assert re.search(message, refusal.message)


def test_harmless_volumes_and_ports_are_not_refused() -> None:
    volumes = [{"name": "a", "emptyDir": {}}, {"name": "b", "configMap": {"name": "x"}}]
    assert asked(template(port(containerPort=80) | {"volumes": volumes})).refusal is None


def test_pods_of_one_template_share_one_shape() -> None:
    def one(name: str) -> Object:
        containers = [{"name": "c", "env": [{"name": "ME", "value": name}], "command": [name]}]
        return {"containers": containers, "hostname": name}

    assert asked(template(one("a"))).shape is asked(template(one("b"))).shape


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_a_share_of_a_gpu_is_asked_for_by_a_mark(where: str) -> None:
    shape, refusal = asked(template(pod_spec(), **{where: {names.GPU_SHARE: "250"}}))
    assert refusal is None
    assert shape == Shape((*CPU, (names.GPU_SHARE, 250)))
    assert shape.gpu_share == 250
    assert asked(template(pod_spec())).shape.gpu_share == 0


@pytest.mark.parametrize("text", ["0", "1001", "0.25", "-1", "", "all", "²", "9" * 5000])
def test_a_share_is_a_number_of_thousandths(text: str) -> None:
    shape, refusal = asked(template(pod_spec(), labels={names.GPU_SHARE: text}))
    assert refusal is not None
    assert refusal.message.endswith('write thousandths of one GPU, "1" to "1000"')
    assert shape.gpu_share == 0


def test_whole_gpus_and_a_share_are_not_for_one_pod() -> None:
    whole = {"containers": [{"name": "c", "resources": {"limits": {names.GPU: "1"}}}]}
    refusal = asked(template(whole, labels={names.GPU_SHARE: "250"})).refusal
    assert refusal is not None
    assert "ask for no whole nvidia.com/gpu" in refusal.message
    resource = {"containers": [{"name": "c", "resources": {"limits": {names.GPU_SHARE: "250"}}}]}
    refusal = asked(template(resource)).refusal
    assert refusal is not None
    assert "is not a resource; write it as a label" in refusal.message


@pytest.mark.parametrize(("text", "device"), [("3", 3), ("256", None), ("-1", None), ("x", None)])
def test_the_device_of_a_bound_pod_is_on_record(text: str, device: int | None) -> None:
    one = pod(node="n", labels={names.GPU_SHARE: "250"}, annotations={names.GPU_DEVICE: text})
    assert pod_bound(one).requests == (*CPU, (names.GPU_SHARE, 250))
    assert pod_bound(one).footprint == Footprint("ns", ((names.GPU_SHARE, "250"),), device=device)


@pytest.mark.parametrize(
    ("node", "phase", "deleting", "occupied", "lively"),
    [
        ("", "Pending", False, False, True),
        ("n", "Pending", False, True, True),
        ("n", "Running", False, True, True),
        ("n", "Running", True, True, False),
        ("n", "Succeeded", False, False, False),
        ("n", "Failed", True, False, False),
        ("", "Pending", True, False, False),
    ],
)
def test_ended_pods_occupy_no_node_and_only_live_ones_fill_a_place(
    node: str, phase: str, deleting: bool, occupied: bool, lively: bool
) -> None:
    one = pod(node=node, phase=phase, deleting=deleting)
    assert (occupies(one), live(one)) == (occupied, lively)


def test_the_event_of_a_bound_pod() -> None:
    place = Place("w", 1)
    made = pod(node="n")
    created = made.metadata.creation_timestamp
    assert created is not None
    assert pod_bound(made, GangId("ns/s"), place) == PodsBound(
        {PodId("uid-a"): place}, NodeName("n"), CPU, GangId("ns/s"), Footprint("ns"), created.timestamp()
    )
    assert pod_bound(pod(node="n")).gang is None


def test_a_pod_is_bound_since_its_condition_says_so() -> None:
    said = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:10:00Z"}
    assert pod_bound(pod(node="n", conditions=[said])).at == 1767226200.0


def test_a_number_that_is_larger_than_any_may_be_is_refused() -> None:
    shape, refusal = asked(pod(spec=pod_spec(2**70)))
    assert shape == Shape(requests=())
    assert refusal is not None
    assert (refusal.code, "larger than any may be" in refusal.message) == (Code.INVALID, True)
