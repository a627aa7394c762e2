"""Kubernetes' own PodGroups and Workloads as its API server checks them."""

from typing import Any

import pytest

from muster.api import rules
from muster.api.base import Object
from muster.api.fields import Finding
from muster.api.kinds import POD_GROUP_K8S, WORKLOAD
from muster.api.rules import podgroup

GANG: Object = {"schedulingPolicy": {"gang": {"minCount": 2}}}
BASIC: Object = {"schedulingPolicy": {"basic": {}}}


def group(spec: Object, old: Object | None = None) -> list[str]:
    """What is wrong with a PodGroup of this spec, as `field: message`."""
    return told(rules.validate(POD_GROUP_K8S, named(spec), named(old) if old is not None else None))


def workload(*templates: Object, old: tuple[Object, ...] | None = None, **spec: Any) -> list[str]:
    before = named({"podGroupTemplates": [*old]}) if old is not None else None
    return told(rules.validate(WORKLOAD, named({"podGroupTemplates": [*templates], **spec}), before))


def named(spec: Object) -> Object:
    return {"kind": "X", "metadata": {"name": "g", "namespace": "ns"}, "spec": spec}


def told(found: list[Finding]) -> list[str]:
    return [f"{'.'.join(map(str, each.path))}: {each.message}" for each in found]


@pytest.mark.parametrize(
    "spec",
    [
        GANG,
        BASIC,
        GANG | {"schedulingConstraints": {"topology": [{"key": "example.com/rack"}]}},
        GANG | {"disruptionMode": {"all": {}}, "priorityClassName": "high", "preemptionPolicy": "Never"},
        GANG | {"resourceClaims": [{"name": "a", "resourceClaimName": "b"}]},
    ],
)
def test_what_kubernetes_accepts_is_accepted(spec: Object) -> None:
    assert group(spec) == []
    assert workload({"name": "t", **spec}) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, "schedulingPolicy: Invalid value: must specify one of: `basic`, `gang`"),
        ({"schedulingPolicy": {}}, "schedulingPolicy: Invalid value: must specify one of"),
        ({"schedulingPolicy": GANG["schedulingPolicy"] | BASIC["schedulingPolicy"]}, "must specify one of"),
        ({"schedulingPolicy": {"gang": {}}}, "schedulingPolicy.gang.minCount: Required value"),
        ({"schedulingPolicy": {"gang": {"minCount": 0}}}, "gang.minCount: Invalid value: 0: must be greater"),
        (
            GANG | {"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
            "schedulingConstraints.topology.1: Too many: must have at most 1 item",
        ),
        (GANG | {"schedulingConstraints": {"topology": [{"key": "a b"}]}}, "topology.0.key: Invalid value"),
        (GANG | {"disruptionMode": {}}, "disruptionMode: Invalid value: must specify one of"),
        (GANG | {"priority": 2_000_000_000}, "priority: Invalid value: 2000000000"),
        (GANG | {"priorityClassName": "A b"}, "priorityClassName: Invalid value"),
        (GANG | {"preemptionPolicy": "Maybe"}, "preemptionPolicy: Unsupported value"),
        (GANG | {"resourceClaims": [{"name": c} for c in "abcde"]}, "resourceClaims: Too many: 5"),
        (GANG | {"parentCompositePodGroupName": "p"}, "parentCompositePodGroupName: Forbidden"),
    ],
)
def test_what_kubernetes_refuses_is_refused(spec: Object, expected: str) -> None:
    assert any(expected in each for each in group(spec)), group(spec)
    assert any(expected in each for each in workload({"name": "t", **spec}))


def test_of_a_group_only_the_minimum_may_change() -> None:
    assert group({"schedulingPolicy": {"gang": {"minCount": 5}}}, GANG) == []
    (error,) = group(BASIC, GANG)
    assert "policy is immutable" in error
    for field, value in (
        ("schedulingConstraints", {"topology": [{"key": "a"}]}),
        ("disruptionMode", {"all": {}}),
        ("priorityClassName", "high"),
        ("priority", 1),
        ("preemptionPolicy", "Never"),
        ("workloadRef", {"workloadName": "w", "templateName": "t"}),
        ("resourceClaims", [{"name": "a"}]),
    ):
        for new, old in ((GANG | {field: value}, GANG), (GANG, GANG | {field: value})):
            assert group(new, old) == [f"spec.{field}: Invalid value: field is immutable"]


def test_a_group_is_disrupted_pod_by_pod_by_default() -> None:
    assert rules.default(POD_GROUP_K8S, named({**GANG}))["spec"]["disruptionMode"] == {"single": {}}


def test_a_workload() -> None:
    one, two = {"name": "a", **GANG}, {"name": "b", **BASIC}
    assert workload(one, two) == []
    assert "Required value" in workload()[0]
    assert "Forbidden: composite groups" in workload(compositePodGroupTemplates=[{"name": "c"}])[0]
    assert "Too many: 9" in workload(*({"name": f"t{i}", **GANG} for i in range(9)))[0]
    assert "Duplicate value" in workload(one, one)[0]
    assert "Invalid value" in workload({**one, "name": "A"})[0]
    assert "neither added nor removed" in workload(one, old=(one, two))[0]
    assert "multiple priority" in workload(one, two | {"priorityClassName": "high"})[0]
    assert workload({"name": "a", "schedulingPolicy": {"gang": {"minCount": 7}}}, old=(one,)) == []
    frozen = workload(one, old=(one,), controllerRef={"kind": "Job", "name": "j"})
    assert frozen == ["spec.controllerRef: Invalid value: field is immutable"]


@pytest.mark.parametrize(
    ("scheduling", "old", "expected"),
    [
        ({"schedulingPolicy": {"gang": {}}}, None, []),
        ({"schedulingPolicy": {"gang": {"minCount": 2}}}, {"schedulingPolicy": {"gang": {}}}, []),
        ({"disruptionMode": {"single": {}}}, None, []),
        ({"schedulingPolicy": {"gang": {"minCount": 5}}}, None, ["must not exceed parallelism (3)"]),
        ({"schedulingPolicy": {"gang": {"minCount": 0}}}, None, ["must be greater than or equal to 1"]),
        ({"schedulingPolicy": "gang"}, None, ["Expected `object"]),
        ({"schedulingPolicy": {}}, None, ["must specify one of"]),
        ({"schedulingPolicy": {"basic": {}}}, {"schedulingPolicy": {"gang": {}}}, ["policy is immutable"]),
        (None, {"schedulingPolicy": {"gang": {}}}, ["cannot be added or removed"]),
    ],
)
def test_what_a_job_says_of_its_group(scheduling: Any, old: Any, expected: list[str]) -> None:
    spec = {"parallelism": 3, **({"scheduling": scheduling} if scheduling is not None else {})}
    before = {"parallelism": 3, "scheduling": old} if old is not None else None
    found = told(podgroup.validate_job(spec, before, ("spec", "scheduling")))
    assert len(found) == len(expected), found
    assert all(words in each for words, each in zip(expected, found, strict=True)), found
