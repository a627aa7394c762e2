"""What claims ask for, in the core's words, and what is refused by name."""

from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api.base import Object
from muster.api.core_v1 import Toleration
from muster.api.fields import InvalidObject, convert
from muster.api.resource_v1 import DeviceTaint, ResourceClaimSpec
from muster.core.words.devices import ALL, ClaimShape, DeviceAsk, DeviceConstraint, DeviceRequest
from muster.translate.devices.claims import asked, counts, expression_name, least, tolerates
from tests.tiers import examples

A100: Final = 'device.attributes["gpu.nvidia.com"].productName == "A100"'


def spec(*requests: Object, **more: Any) -> ResourceClaimSpec:  # Any: fields as JSON
    return convert({"devices": {"requests": list(requests), **more}}, ResourceClaimSpec)


def exactly(name: str = "gpu", **fields: Any) -> Object:  # Any: fields as JSON
    return {"name": name, "exactly": {"deviceClassName": "gpu.nvidia.com", **fields}}


def selector(expression: str = A100) -> Object:
    return {"cel": {"expression": expression}}


def one_of(name: str = "gpu", *alternatives: Object) -> Object:
    return {"name": name, "firstAvailable": list(alternatives)}


def alternative(name: str, of: str = "gpu.nvidia.com", **fields: Any) -> Object:  # Any: fields as JSON
    return {"name": name, "deviceClassName": of, **fields}


def test_requests_constraints_and_the_questions_behind_their_answers() -> None:
    nics = exactly("nic", count=2, selectors=[selector(), selector()])
    gpus = one_of("gpu", alternative("big", allocationMode="All"), alternative("two", "mig", count=2))
    tolerant = exactly("odd", tolerations=[{"key": "broken", "operator": "Exists"}])
    found = asked(
        "mine",
        spec(
            *(nics, gpus, tolerant),
            constraints=[
                {"requests": ["nic", "gpu/big"], "matchAttribute": "resource.kubernetes.io/pcieRoot"},
                {"distinctAttribute": "a.b/c"},
            ],
        ),
    )
    of_class, cel = "deviceclass/gpu.nvidia.com", expression_name(A100)
    (toleration,) = found.tolerations
    assert found.shape == ClaimShape(
        "mine",
        (
            DeviceRequest("nic", (DeviceAsk((of_class, cel), 2),)),
            DeviceRequest(
                "gpu",
                (DeviceAsk((of_class,), ALL, "", "big"), DeviceAsk(("deviceclass/mig",), 2, "", "two")),
            ),
            DeviceRequest("odd", (DeviceAsk((of_class,), 1, toleration),)),
        ),
        (
            DeviceConstraint("resource.kubernetes.io/pcieRoot", ("gpu/big", "nic")),
            DeviceConstraint("a.b/c", (), distinct=True),
        ),
    )
    assert found.expressions == {cel: A100}
    assert found.tolerations == {toleration: (Toleration(key="broken", operator="Exists"),)}
    assert found.attributes == {"resource.kubernetes.io/pcieRoot", "a.b/c"}
    assert found.classes == {"gpu.nvidia.com", "mig"}


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ([exactly()], {"deviceclass/gpu.nvidia.com": 1}),
        ([exactly("a", count=3), exactly("b", allocationMode="All")], {"deviceclass/gpu.nvidia.com": 4}),
        (
            [one_of("a", alternative("x", count=4), alternative("y", count=2))],
            {"deviceclass/gpu.nvidia.com": 2},
        ),
        ([one_of("a", alternative("x"), alternative("y", "mig"))], {}),
        (
            [exactly("b", deviceClassName="nic"), exactly()],
            {"deviceclass/gpu.nvidia.com": 1, "deviceclass/nic": 1},
        ),
        ([], {}),
    ],
)
def test_queues_count_what_any_allocation_takes_at_least(
    requests: list[Object], expected: dict[str, int]
) -> None:
    assert least([asked("c", spec(*requests)).shape]) == tuple(expected.items())
    twice = tuple((name, 2 * number) for name, number in expected.items())
    assert least([asked(name, spec(*requests)).shape for name in "ab"]) == twice


@pytest.mark.parametrize(
    ("requests", "more", "message"),
    [
        ([exactly(adminAccess=True)], {}, "request gpu: adminAccess is not supported yet"),
        (
            [exactly(capacity={"requests": {"memory": "1Gi", "cores": 1}})],
            {},
            "request gpu: capacity cores, memory of a shared device is not supported yet",
        ),
        ([exactly(derivedAttributes=[{"name": "x", "expression": "1"}])], {}, "derivedAttributes are not"),
        ([exactly(allocationMode="Most")], {}, "allocationMode 'Most' is not one of ExactCount, All"),
        ([exactly(count=0)], {}, "count is 0; a claim may have 1 to 32 devices"),
        ([exactly(count=2**40)], {}, "a claim may have 1 to 32 devices"),
        ([exactly("a", count=20), exactly("b", count=20)], {}, "they ask for 40 devices"),
        ([exactly(deviceClassName="")], {}, "request gpu: deviceClassName is missing"),
        ([exactly(selectors=[{}])], {}, r"request gpu: selectors\[0\] has no cel.expression"),
        ([exactly(tolerations=[{"key": "a", "operator": "Gt"}])], {}, "operator 'Gt' of a toleration"),
        ([{"name": "gpu"}], {}, "request gpu: it needs either exactly or firstAvailable"),
        ([{**exactly(), **one_of("gpu", alternative("x"))}], {}, "either exactly or firstAvailable"),
        ([exactly(), exactly()], {}, "two have one name"),
        ([one_of("gpu", alternative("x"), alternative("x"))], {}, "two alternatives have one name"),
        ([one_of("gpu", *(alternative(str(i)) for i in range(9)))], {}, "at most 8"),
        ([one_of("gpu", alternative("x", adminAccess=True))], {}, "request gpu/x: adminAccess"),
        ([exactly(str(i)) for i in range(33)], {}, "there are 33, at most 32"),
        (
            [exactly(str(i), selectors=[selector(f"{i}{j}") for j in range(13)]) for i in range(5)],
            {},
            "requests: they have 65 different expressions and lists of tolerations; at most 64 are read",
        ),
        (
            [exactly("a", tolerations=[{"key": "k"}], selectors=[selector(str(j)) for j in range(64)])],
            {},
            "they have 65 different",
        ),
        ([exactly()], {"constraints": [{"matchAttribute": "a/b"}] * 33}, "there are 33, at most 32"),
        ([exactly()], {"constraints": [{}]}, "either matchAttribute or distinctAttribute"),
        ([exactly()], {"constraints": [{"matchAttribute": "a/b", "distinctAttribute": "a/b"}]}, "either"),
        (
            [exactly()],
            {"constraints": [{"matchAttribute": "a/b", "requests": ["other"]}]},
            "constraint on a/b: there is no request other",
        ),
    ],
)
def test_what_muster_does_not_decide_is_refused_by_name(
    requests: list[Object], more: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        asked("c", spec(*requests, **more))


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "key": "k"}, True),
        ({"operator": "Exists", "key": "other"}, False),
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "value": "v", "operator": "Equal", "effect": "NoSchedule"}, True),
        ({"key": "k", "value": "w"}, False),
        ({"key": "k", "value": "v", "effect": "NoExecute"}, False),
    ],
)
def test_tolerations_of_taints(toleration: Object, expected: bool) -> None:
    taint = DeviceTaint(key="k", value="v", effect="NoSchedule")
    made = (convert(toleration, Toleration),)
    assert tolerates(made, [taint]) is expected
    assert not tolerates(made, [taint, DeviceTaint(key="x", effect="NoExecute")]) or not toleration.get("key")
    assert tolerates((), [])
    assert [
        counts(DeviceTaint(key="k", effect=effect)) for effect in ("NoSchedule", "NoExecute", "None")
    ] == [
        True,
        True,
        False,
    ]


JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["name", "exactly", "firstAvailable", "count", "deviceClassName", "selectors", "cel"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(JSON, max_size=3), st.lists(JSON, max_size=2))
@settings(max_examples=examples(200), deadline=None)
def test_any_claim_is_translated_or_refused(requests: list[Any], constraints: list[Any]) -> None:
    try:
        made = spec(*requests, constraints=constraints)
    except InvalidObject:
        return
    try:
        found = asked("c", made)
    except ValueError:
        return
    assert hash(found.shape) is not None
    assert all(number > 0 for _, number in least([found.shape]))
