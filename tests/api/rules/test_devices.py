"""Devices and claims are checked as an API server checks them (the cluster tests compare), and completed."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import rules
from muster.api.base import Object
from muster.api.kinds import POD, RESOURCE_CLAIM, RESOURCE_SLICE
from tests.api.rules.devices import CASES, CLASS, DRIVER, Case, claim


def refused(case: Case) -> list[str]:
    """The fields that are refused."""
    obj = copy.deepcopy(case.body)
    found = rules.type_(case.kind, obj)
    if not found:
        found = rules.validate(case.kind, rules.default(case.kind, obj), None)
    return sorted({each.field for each in found})


def bare(field: str) -> str:
    """A field as we write it: keys of maps need no brackets, and a label's value is at its key."""
    return field.replace("[model]", ".model").replace("[memory]", ".memory")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_a_case(case: Case) -> None:
    found = refused(case)
    assert len(found) == len(case.refused)
    for ours, theirs in zip(found, case.refused, strict=True):
        assert ours.startswith(bare(theirs))


def test_a_claim_is_completed() -> None:
    first = {"name": "a", "firstAvailable": [{"name": "b", **CLASS, "tolerations": [{"key": "x"}]}]}
    whole = {"name": "c", "exactly": {**CLASS, "allocationMode": "All"}}
    obj = rules.default(RESOURCE_CLAIM, claim("", requests=[first, whole]).body)
    requests = obj["spec"]["devices"]["requests"]
    assert requests[0]["firstAvailable"][0] == {
        "name": "b",
        **CLASS,
        "allocationMode": "ExactCount",
        "count": 1,
        "tolerations": [{"key": "x", "operator": "Equal"}],
    }
    assert requests[1]["exactly"] == {**CLASS, "allocationMode": "All"}


def test_the_spec_of_a_claim_and_the_place_of_a_slice_stay() -> None:
    old = claim("").body
    new = claim("", requests=[{"name": "other", "exactly": CLASS}]).body
    assert [each.field for each in rules.validate(RESOURCE_CLAIM, new, old)] == ["spec"]
    body = next(case.body for case in CASES if case.kind is RESOURCE_SLICE)
    moved = copy.deepcopy(body)
    moved["spec"]["nodeName"], moved["spec"]["driver"] = "n1", "other.example.com"
    moved["spec"]["pool"]["name"] = "other"
    found = sorted(each.field for each in rules.validate(RESOURCE_SLICE, moved, body))
    assert found == ["spec.driver", "spec.nodeName", "spec.pool.name"]


RESULT = {"request": "gpu", "driver": DRIVER, "pool": "n0", "device": "gpu-0"}
POD_REFERENCE = {"resource": "pods", "name": "p", "uid": "u"}


def with_status(**status: object) -> Object:
    return claim("").body | {"status": status}


def allocation(*results: Object) -> Object:
    return {"devices": {"results": [*results]}}


@pytest.mark.parametrize(
    ("status", "before", "expected"),
    [
        ({"allocation": allocation(RESULT), "reservedFor": [POD_REFERENCE]}, {}, []),
        ({"reservedFor": [POD_REFERENCE]}, {}, ["status.reservedFor"]),
        ({"allocation": allocation(RESULT)}, {"allocation": allocation()}, ["status.allocation"]),
        ({}, {"allocation": allocation(RESULT)}, []),
        ({"allocation": allocation(*[RESULT] * 33)}, {}, ["status.allocation.devices.results"]),
        ({"allocation": allocation(*[RESULT] * 32)}, {}, []),
        (
            {"allocation": allocation(RESULT | {"request": "other"})},
            {},
            ["status.allocation.devices.results[0].request"],
        ),
        (
            {"allocation": allocation(RESULT), "reservedFor": [POD_REFERENCE] * 2},
            {},
            ["status.reservedFor[1]"],
        ),
        (
            {
                "allocation": allocation(RESULT),
                "reservedFor": [POD_REFERENCE | {"uid": f"u{number}"} for number in range(257)],
            },
            {},
            ["status.reservedFor"],
        ),
        (
            {
                "allocation": allocation(RESULT),
                "devices": [{key: RESULT[key] for key in ("driver", "pool")} | {"device": "gpu-1"}],
            },
            {},
            ["status.devices[0]"],
        ),
    ],
)
def test_a_status(status: Object, before: Object, expected: list[str]) -> None:
    found = rules.validate_status(RESOURCE_CLAIM, with_status(**status), with_status(**before))
    assert [each.field for each in found] == expected


def test_what_drivers_report_ends_with_the_allocation() -> None:
    reported = {key: RESULT[key] for key in ("driver", "pool", "device")}
    old = with_status(allocation=allocation(RESULT), devices=[reported])
    new = with_status(devices=[reported])
    assert rules.validate_status(RESOURCE_CLAIM, new, old) == []
    assert new["status"] == {}


def test_a_claim_that_is_being_deleted_gets_no_new_users() -> None:
    held = {"allocation": allocation(RESULT), "reservedFor": [POD_REFERENCE]}
    old, new = with_status(**held), with_status(**held)
    new["metadata"] = new["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert rules.validate_status(RESOURCE_CLAIM, new, old) == []
    new["status"]["reservedFor"] = [POD_REFERENCE, POD_REFERENCE | {"uid": "v"}]
    assert [each.field for each in rules.validate_status(RESOURCE_CLAIM, new, old)] == ["status.reservedFor"]


@pytest.mark.parametrize(
    ("claims", "uses", "expected"),
    [
        ([{"name": "a", "resourceClaimName": "x"}], [{"name": "a"}], []),
        ([{"name": "a", "resourceClaimTemplateName": "x"}], [{"name": "a", "request": "r"}], []),
        ([{"name": "a"}], [], ["spec.resourceClaims[0]"]),
        (
            [{"name": "a", "resourceClaimName": "x", "resourceClaimTemplateName": "y"}],
            [],
            ["spec.resourceClaims[0]"],
        ),
        ([{"name": "A", "resourceClaimName": "x"}], [], ["spec.resourceClaims[0].name"]),
        ([{"name": "a", "resourceClaimName": "x"}] * 2, [], ["spec.resourceClaims[1]"]),
        ([], [{"name": "a"}], ["spec.containers[0].resources.claims[0].name"]),
        (
            [{"name": "a", "resourceClaimName": "x"}],
            [{"name": "a"}, {"name": "a", "request": "r"}],
            ["spec.containers[0].resources.claims"],
        ),
    ],
)
def test_the_claims_of_a_pod(claims: list[Object], uses: list[Object], expected: list[str]) -> None:
    container = {"name": "c", "image": "i", "resources": {"claims": uses}}
    spec = {"containers": [container], "resourceClaims": claims}
    pod: Object = {"kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    assert [each.field for each in rules.validate(POD, rules.default(POD, pod), None)] == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@given(st.sampled_from(CASES), st.data())
def test_any_json_in_place_of_a_part_is_taken_or_refused(case: Case, data: st.DataObject) -> None:
    """It is never an error of ours."""
    body = json.loads(json.dumps(case.body))
    part, steps = body, data.draw(st.integers(1, 6))
    for step in range(steps):
        keys = [*part] if isinstance(part, dict) else range(len(part))
        keys = [key for key in keys if key not in ("kind", "apiVersion", "metadata")]
        if not keys:
            break
        key = data.draw(st.sampled_from(keys))
        if step == steps - 1 or not isinstance(part[key], dict | list):
            part[key] = data.draw(JSON)
            break
        part = part[key]
    refused(case._replace(spec=body["spec"]))
