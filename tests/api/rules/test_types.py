"""Every field of Kubernetes' own kinds has the type that clients of Kubernetes expect."""

import copy
import json
from fractions import Fraction
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import kinds, quantity, rules
from muster.api.base import Kind, Object
from muster.api.rules import types
from tests.api.rules import official


def test_the_table_is_the_official_clients() -> None:
    assert json.loads(official.FILE.read_text()) == official.derived(), (
        "python -m tests.api.rules.official writes it again"
    )


def test_every_kind_is_in_the_table_or_a_crd() -> None:
    crds = [kind for kind in kinds.ALL if kind.kind not in types._table()]
    assert {kind.kind for kind in crds} == {
        "PodGroup",
        "ElasticQuota",
        "Workload",
        "ClusterNetworkTopology",
        *(kind.kind for kind in kinds.DEFINED),
    }


def pod(**container: Any) -> Object:
    return {"spec": {"containers": [{"name": "m"} | container]}}


def of_container(obj: Object) -> Any:
    return obj["spec"]["containers"][0]


@pytest.mark.parametrize(
    ("written", "answered"),
    [
        (1, "1"),
        (0.5, "500m"),
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1.5", "1500m"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("512Ki", "512Ki"),
        ("1.0000001Ki", "1024000102400n"),
        ("1000", "1k"),
        (1000, "1k"),
        ("1500", "1500"),
        ("1e3", "1e3"),
        ("1.5e3", "1500"),
        ("1E", "1E"),
        ("0.1n", "1n"),
        ("-0.5", "-500m"),
        ("0", "0"),
        ("0Gi", "0"),
        ("+1", "1"),
    ],
)
def test_quantities_are_answered_in_canonical_form(written: Any, answered: str) -> None:
    obj = pod(resources={"requests": {"cpu": written}})
    assert rules.type_(kinds.POD, obj) == []
    assert of_container(obj)["resources"]["requests"]["cpu"] == answered


SUFFIXES: Final = ("", "n", "u", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "e3", "E-3", "e0")


@given(
    number=st.decimals(-(10**6), 10**6, places=3).filter(lambda d: d.is_finite()),
    suffix=st.sampled_from(SUFFIXES),
)
def test_the_canonical_form_is_the_same_amount_and_stays(number: Any, suffix: str) -> None:
    written = f"{number:f}{suffix}"
    answered = quantity.canonical(written)
    assert quantity.canonical(answered) == answered
    exact, after = quantity.parse(written), quantity.parse(answered)
    assert 0 <= abs(after) - abs(exact) < Fraction(1, 10**9), "rounded up to a nano at most"


TEMPLATE: Final = ("template", "spec", "template", "spec")


@pytest.mark.parametrize(
    ("kind", "obj", "at", "answered"),
    [
        (kinds.POD, {"spec": {"overhead": {"cpu": 1}}}, ("spec", "overhead", "cpu"), "1"),
        (kinds.NODE, {"status": {"capacity": {"pods": 110}}}, ("status", "capacity", "pods"), "110"),
        (kinds.RESOURCE_QUOTA, {"spec": {"hard": {"pods": 5}}}, ("spec", "hard", "pods"), "5"),
        (kinds.PDB, {"spec": {"minAvailable": 1}}, ("spec", "minAvailable"), 1),
        (kinds.PDB, {"spec": {"minAvailable": "50%"}}, ("spec", "minAvailable"), "50%"),
        (
            kinds.JOBSET,
            {
                "spec": {
                    "replicatedJobs": [
                        {"template": {"spec": {"template": pod(resources={"limits": {"cpu": 2}})}}}
                    ]
                }
            },
            ("spec", "replicatedJobs", 0, *TEMPLATE, "containers", 0, "resources", "limits", "cpu"),
            "2",
        ),
        (
            kinds.POD,
            {"status": {"containerStatuses": [{"name": "m"}]}},
            ("status", "containerStatuses", 0),
            {"name": "m", "image": "", "imageID": "", "ready": False, "restartCount": 0},
        ),
        (kinds.POD, {"spec": {"unknown": {"a": 1.0}}}, ("spec", "unknown"), {"a": 1.0}),
    ],
)
def test_a_value_is_converted_to_the_type_of_its_field(
    kind: Kind[Any], obj: Object, at: Any, answered: Any
) -> None:
    obj = copy.deepcopy(obj)
    assert rules.type_(kind, obj) == []
    value: Any = obj
    for step in at:
        value = value[step]
    assert (value, type(value)) == (answered, type(answered))


VOLUME: Final = "spec.volumes[0]"
CONTAINER: Final = "spec.containers[0]"
REFERENCE: Final = f"{CONTAINER}.env[0].valueFrom.resourceFieldRef"
NO_QUANTITY: Final = "is not a quantity; write a number such as 500m, 2 or 1.5Gi"


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"volumes": [{"name": "v", "hostPath": {}}]}, f"{VOLUME}.hostPath.path: Required value"),
        (
            {"volumes": [{"name": "v", "hostPath": []}]},
            f"{VOLUME}.hostPath: Invalid value: []: must be a map",
        ),
        (
            {"volumes": [{"name": "v", "configMap": {"items": {}}}]},
            f"{VOLUME}.configMap.items: Invalid value: {{}}: must be a list",
        ),
        (
            {"volumes": [{"name": "v", "secret": {"defaultMode": 2**70}}]},
            f"{VOLUME}.secret.defaultMode: Invalid value: {2**70}: must be an integer of at most 64 bits",
        ),
        (
            {"volumes": [{"name": "v", "secret": {"defaultMode": 0.5}}]},
            f"{VOLUME}.secret.defaultMode: Invalid value: 0.5: must be an integer of at most 64 bits",
        ),
        (
            {"activeDeadlineSeconds": 5.0},
            "spec.activeDeadlineSeconds: Invalid value: 5.0: must be an integer of at most 64 bits",
        ),
        (pod(tty="yes")["spec"], f"{CONTAINER}.tty: Invalid value: yes: must be true or false"),
        (
            pod(env=[{"name": "A", "value": True}])["spec"],
            f'{CONTAINER}.env[0].value: Invalid value: must be a string; write "true" in quotes',
        ),
        (
            pod(livenessProbe={"httpGet": {"port": []}})["spec"],
            f"{CONTAINER}.livenessProbe.httpGet.port: Invalid value: []: must be an integer or a string",
        ),
        (
            pod(livenessProbe={"httpGet": {}})["spec"],
            f"{CONTAINER}.livenessProbe.httpGet.port: Required value",
        ),
        (
            pod(resources={"limits": {"cpu": "much"}})["spec"],
            f"{CONTAINER}.resources.limits.cpu: Invalid value: 'much' {NO_QUANTITY}",
        ),
        (
            pod(env=[{"name": "A", "valueFrom": {"resourceFieldRef": {"divisor": []}}}])["spec"],
            f"{REFERENCE}.divisor: Invalid value: [] {NO_QUANTITY}; {REFERENCE}.resource: Required value",
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_its_field(spec: Object, error: str) -> None:
    assert "; ".join(map(str, rules.type_(kinds.POD, {"spec": copy.deepcopy(spec)}))) == error


def test_a_time_that_is_none() -> None:
    errors = rules.type_(kinds.POD, {"status": {"startTime": "yesterday"}})
    assert str(errors[0]) == (
        "status.startTime: Invalid value: yesterday: must be a time such as 2026-01-31T12:00:00Z"
    )
