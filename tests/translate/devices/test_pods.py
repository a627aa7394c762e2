"""Which claims a pod has, and why it must not start for them."""

from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api.base import Object
from muster.api.core_v1 import PodSpec
from muster.api.fields import InvalidObject, convert
from muster.api.resource_v1 import DeviceClass, ResourceClaim, ResourceClaimTemplate
from muster.core.words.gang import Code, Gate
from muster.translate.devices.pods import Known, claims_of
from tests.tiers import examples


def template(name: str, *requests: Object, namespace: str = "ns", **meta: Any) -> ResourceClaimTemplate:
    spec = {"spec": {"devices": {"requests": list(requests)}}}
    body = {"metadata": {"name": name, "namespace": namespace, **meta}, "spec": spec}
    return convert(body, ResourceClaimTemplate)


def exactly(of: str = "gpu", **fields: Any) -> Object:  # Any: fields as JSON
    return {"name": "r", "exactly": {"deviceClassName": of, **fields}}


def a_class(name: str, *selectors: Object) -> DeviceClass:
    return convert({"metadata": {"name": name}, "spec": {"selectors": list(selectors)}}, DeviceClass)


TEMPLATES: Final = [
    template("gpu", exactly()),
    template("four", exactly(count=4)),
    template("admin", exactly(adminAccess=True)),
    template("unknown", exactly("other")),
    template("strange", exactly("strange")),
    template("leaving", exactly(), deletionTimestamp="2026-01-01T00:00:00Z"),
    template("far", exactly(), namespace="other"),
]
KNOWN: Final = Known(
    {(each.metadata.namespace, each.metadata.name): each for each in TEMPLATES},
    {("ns", "mine"): convert({"metadata": {"name": "mine", "namespace": "ns"}}, ResourceClaim)},
    {("", each.metadata.name): each for each in (a_class("gpu"), a_class("strange", {}))},
)


def spec(*claims: Object, used: str = "") -> PodSpec:
    resources = {"claims": [{"name": used}]} if used else {}
    body = {"resourceClaims": list(claims), "containers": [{"name": "c", "resources": resources}]}
    return convert(body, PodSpec)


def of(name: str, template: str = "", claim: str = "") -> Object:
    more = {"resourceClaimTemplateName": template, "resourceClaimName": claim}
    return {"name": name, **{key: value for key, value in more.items() if value}}


def test_a_pod_has_a_claim_of_its_own_from_each_template() -> None:
    found = claims_of(spec(of("a", "gpu"), of("b", "four"), used="b"), "ns", KNOWN)
    assert found.gate is None
    assert [each.shape.name for each in found.asked] == ["a", "b"]
    assert found.asked[1].shape.requests[0].alternatives[0].count == 4
    assert claims_of(spec(), "ns", KNOWN) == ((), None)


NEEDS: Final = "resourceClaims c: it needs either resourceClaimTemplateName or resourceClaimName"


@pytest.mark.parametrize(
    ("made", "code", "message"),
    [
        (spec(of("c", "gone")), Code.GATED, "ResourceClaimTemplate gone does not exist in its namespace"),
        (spec(of("c", "far")), Code.GATED, "ResourceClaimTemplate far does not exist in its namespace"),
        (spec(of("c", "leaving")), Code.GATED, "ResourceClaimTemplate leaving does not exist"),
        (spec(of("c", "unknown")), Code.GATED, "resourceClaims c: DeviceClass other does not exist"),
        (spec(of("c", claim="gone")), Code.GATED, "ResourceClaim gone does not exist in its namespace"),
        (spec(of("c", claim="mine")), Code.INVALID, "ResourceClaim mine can be shared by several pods"),
        (
            spec(of("c", "admin")),
            Code.INVALID,
            "resourceClaims c: ResourceClaimTemplate admin: request r: adminAccess is not supported yet",
        ),
        (spec(of("c", "strange")), Code.GATED, "DeviceClass strange: selectors[0] has no cel.expression"),
        (spec(of("c")), Code.INVALID, NEEDS),
        (spec(of("c", "gpu", "mine")), Code.INVALID, NEEDS),
        (spec({"name": "c", "resourceClaimTemplateName": ["gpu"]}), Code.INVALID, NEEDS),
        (spec(of("c", "gpu"), of("c", "gpu")), Code.INVALID, "two of its resourceClaims have one name"),
        (spec(*(of(str(i), "gpu") for i in range(33))), Code.INVALID, "it has 33 resourceClaims"),
    ],
)
def test_why_a_pod_must_not_start_for_its_claims(made: PodSpec, code: Code, message: str) -> None:
    found = claims_of(made, "ns", KNOWN)
    assert found.asked == ()
    assert isinstance(found.gate, Gate)
    assert found.gate.code is code
    assert message in found.gate.message


ENTRIES: Final = st.dictionaries(
    st.sampled_from(["name", "resourceClaimTemplateName", "resourceClaimName", "x"]),
    st.sampled_from(["gpu", "far", "mine", "", 1, None, ["gpu"], "four", "admin"]),
)


@given(st.lists(ENTRIES, max_size=4))
@settings(max_examples=examples(150), deadline=None)
def test_any_entries_are_claims_or_have_a_reason(entries: list[Any]) -> None:
    try:
        made = spec(*entries)
    except InvalidObject:
        return
    found = claims_of(made, "ns", KNOWN)
    assert (found.gate is None) == (len(found.asked) == len(entries))
    if found.gate is not None:
        assert not found.asked
