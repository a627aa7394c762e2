"""Which devices nodes have, of which kinds, and how often expressions are evaluated."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api.base import Object
from muster.api.fields import convert
from muster.api.kinds import RESOURCE_SLICE
from muster.api.resource_v1 import Device, ResourceClaimSpec, ResourceSlice
from muster.core.words.devices import DeviceKind
from muster.kube.decode import decode
from muster.translate.devices import kinds as kinds_of_devices
from muster.translate.devices.claims import asked
from muster.translate.devices.kinds import MOST, Kinds, Wanted, devices_of, elsewhere, left_out
from tests.tiers import examples

NVIDIA: Final = 'device.driver == "gpu.nvidia.com"'
A100: Final = 'device.attributes["gpu.nvidia.com"].product == "A100"'
SERIAL: Final = 'cel.bind(d, device.attributes["gpu.nvidia.com"], d.uuid == "u3")'


def gpu(number: int, product: str = "A100", **more: Any) -> Object:  # Any: fields as JSON
    attributes = {
        "product": {"string": product},
        "uuid": {"string": f"u{number}"},
        "root": {"int": number % 2},
    }
    return {"name": f"gpu-{number}", "attributes": attributes, **more}


def a_slice(*devices: Object, pool: str = "n0", **spec: Any) -> ResourceSlice:  # Any: fields as JSON
    pooled = {"name": pool, "generation": 1, "resourceSliceCount": 1}
    made = {"driver": "gpu.nvidia.com", "nodeName": "n0", "pool": pooled, "devices": list(devices), **spec}
    return convert({"metadata": {"name": f"s-{pool}"}, "spec": made}, ResourceSlice)


def wanted(
    *expressions: str, constraints: Sequence[Object] = (), tolerations: Sequence[Object] = ()
) -> Wanted:
    request = {
        "deviceClassName": "gpu",
        "selectors": [{"cel": {"expression": each}} for each in expressions],
        "tolerations": list(tolerations),
    }
    claim = {"requests": [{"name": "r", "exactly": request}], "constraints": list(constraints)}
    found = Wanted()
    found.add_class("gpu", [NVIDIA])
    found.add(asked("c", convert({"devices": claim}, ResourceClaimSpec)))
    return found


def answered(kinds: Kinds) -> int:
    """Answer all questions as the expressions of these tests mean them; how many there were."""
    asked_now = [(text, of) for text, devices in kinds.unanswered() for of in devices]
    for text, of in asked_now:
        own = of.attributes.get("gpu.nvidia.com", {})
        holds = {
            NVIDIA: of.driver == "gpu.nvidia.com",
            A100: own.get("product") == "A100",
            SERIAL: own.get("uuid") == "u3",
        }
        kinds.tell(text, [of], [holds[text]])
    assert len({(text, repr(of)) for text, of in asked_now}) == len(asked_now)
    return len(asked_now)


def told(kinds: Kinds) -> dict[int, DeviceKind]:
    return {event.id: event.kind for event in kinds.events()}


def test_an_expression_is_evaluated_once_for_each_kind() -> None:
    kinds = Kinds()
    assert kinds.want(wanted(A100))
    for node in range(50):
        each = [gpu(8 * node + i, "A100" if i < 4 else "H100") for i in range(8)]
        event, omitted = devices_of(f"n{node}", [a_slice(*each, pool=f"n{node}")], kinds.of)
        assert ([kind for _, kind in event.devices], omitted) == ([0, 0, 0, 0, 1, 1, 1, 1], {})
    assert answered(kinds) == 3, "two expressions and two kinds, which one of them does not tell apart"
    found = told(kinds)
    assert [len(kind.answers) for kind in found.values()] == [2, 1]
    assert told(kinds) == {}, "nothing is new"
    assert answered(kinds) == 0


def test_until_it_is_evaluated_an_expression_holds_of_no_device() -> None:
    kinds = Kinds()
    kinds.want(wanted(A100))
    devices_of("n0", [a_slice(gpu(0))], kinds.of)
    assert [kind.answers for kind in told(kinds).values()] == [frozenset()]
    answered(kinds)
    (kind,) = told(kinds).values()
    assert "deviceclass/gpu" in kind.answers


def test_a_new_expression_changes_kinds_and_no_node() -> None:
    kinds = Kinds()
    kinds.want(wanted(A100))
    before, _ = devices_of("n0", [a_slice(gpu(0), gpu(1))], kinds.of)
    answered(kinds)
    told(kinds)
    more = wanted(A100)
    more.add_class("other", [A100, NVIDIA])
    assert not kinds.want(more)
    assert "deviceclass/other" in told(kinds)[0].answers
    assert devices_of("n0", [a_slice(gpu(0), gpu(1))], kinds.of)[0] == before
    assert kinds.want(wanted(SERIAL)), "it looks at what each device has alone"
    now, _ = devices_of("n0", [a_slice(gpu(0), gpu(3))], kinds.of)
    assert len({kind for _, kind in now.devices}) == 2
    assert {text for text, _ in kinds.unanswered()} == {SERIAL}, "what is known stays known"
    found = told(kinds)
    assert all("deviceclass/gpu" in kind.answers for kind in found.values())
    answered(kinds)
    assert sorted(len(kind.answers) for kind in (found | told(kinds)).values()) == [1, 2]


def test_attributes_of_constraints_and_taints_tell_kinds_apart() -> None:
    kinds = Kinds()
    tolerations = [{"key": "bad", "operator": "Exists"}]
    kinds.want(wanted(constraints=[{"matchAttribute": "gpu.nvidia.com/root"}], tolerations=tolerations))
    taints = [{"key": "bad", "effect": "NoSchedule"}, {"key": "told", "effect": "None"}]
    each = (
        gpu(0),
        gpu(1),
        gpu(2),
        gpu(3, taints=taints),
        gpu(5, taints=[{"key": "x", "effect": "NoExecute"}]),
    )
    event, _ = devices_of("n0", [a_slice(*each)], kinds.of)
    assert [kind for _, kind in event.devices] == [0, 1, 0, 2, 3]
    found = told(kinds)
    root = "gpu.nvidia.com/root"
    assert [found[i].attributes for i in range(4)] == [((root, f"int:{i}"),) for i in (0, 1, 1, 1)]
    assert [found[i].tainted for i in range(4)] == [False, False, True, True]
    assert [any(a.startswith("tolerates/") for a in found[i].answers) for i in range(4)] == [
        True,
        True,
        True,
        False,
    ]


def test_counters_are_named_within_the_node() -> None:
    kinds = Kinds()
    counters = [{"name": "gpu-0", "counters": {"memory": {"value": "40Gi"}, "odd": {"value": "1.5"}}}]
    part: Any = {
        "consumesCounters": [
            {"counterSet": "gpu-0", "counters": {"memory": {"value": "1"}, "odd": {"value": "0.5"}}}
        ]
    }
    first, _ = devices_of("n0", [a_slice(gpu(0, **part), pool="n0", sharedCounters=counters)], kinds.of)
    other, _ = devices_of("n1", [a_slice(gpu(1, **part), pool="n1", sharedCounters=counters)], kinds.of)
    assert first.counters == (
        ("gpu.nvidia.com/0/gpu-0/memory", 40 * 2**30),
        ("gpu.nvidia.com/0/gpu-0/odd", 1),
    )
    assert first.counters == other.counters
    assert [kind for _, kind in (*first.devices, *other.devices)] == [0, 0]
    both, _ = devices_of("n0", [a_slice(pool=p, sharedCounters=counters) for p in ("a", "b")], kinds.of)
    assert len(both.counters) == 4
    (kind,) = told(kinds).values()
    assert kind.consumes == (("gpu.nvidia.com/0/gpu-0/memory", 1), ("gpu.nvidia.com/0/gpu-0/odd", 1))


@pytest.mark.parametrize("value", ["9" * 40, "8Ei", "-1", "much", "1e999", "", "1n", 7])
def test_absurd_amounts_never_seem_more_than_there_is(value: Any) -> None:
    kinds = Kinds()
    amount = {"x": {"value": value}}
    part: Any = {"consumesCounters": [{"counterSet": "c", "counters": amount}]}
    event, _ = devices_of(
        "n0",
        [a_slice(*(gpu(i, **part) for i in range(128)), sharedCounters=[{"name": "c", "counters": amount}])],
        kinds.of,
    )
    there = dict(event.counters).get("gpu.nvidia.com/0/c/x", 0)
    (kind,) = told(kinds).values()
    takes = dict(kind.consumes).get("gpu.nvidia.com/0/c/x", 0)
    assert 0 <= there <= MOST
    assert 0 <= takes <= MOST + 1
    assert value == 7 or there == 0 or there == MOST
    assert len(event.devices) == 128


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"bindingConditions": ["a"]}, "bindingConditions"),
        ({"bindingFailureConditions": ["a"]}, "bindingConditions"),
        ({"bindsToNode": True}, "bindsToNode"),
        ({"nodeAllocatableResources": {"cpu": {}}}, "nodeAllocatableResources"),
        ({"allowMultipleAllocations": True}, "allowMultipleAllocations"),
        ({"consumesCounters": [{"counterSet": "c", "compatibilityGroups": ["g"]}]}, "compatibilityGroups"),
        ({"attributes": {"links": {"ints": [1]}}}, ""),
    ],
)
def test_devices_that_are_not_given_out_are_counted_by_their_reason(fields: Object, reason: str) -> None:
    device = convert(gpu(0) | fields, Device)
    said = (
        f"{reason} {'is' if reason.startswith(('binds', 'allow')) else 'are'} not supported yet"
        if reason
        else ""
    )
    assert left_out(device) == said
    _, omitted = devices_of("n0", [a_slice(gpu(0) | fields, gpu(1))], Kinds().of)
    assert omitted == ({said: 1} if reason else {})


def test_a_device_that_is_not_given_out_is_withheld_and_takes_nothing_of_counters() -> None:
    kinds = Kinds()
    kinds.want(wanted(A100))
    part = {"counterSet": "c", "counters": {"memory": {"value": "1"}}}
    there = a_slice(gpu(0) | {"allowMultipleAllocations": True, "consumesCounters": [part]}, gpu(1))
    event, _ = devices_of("n0", [there], kinds.of)
    answered(kinds)
    found = told(kinds)
    assert [(found[kind].withheld, found[kind].consumes) for _, kind in event.devices] == [
        (True, ()),
        (False, ()),
    ]
    assert found[event.devices[0][1]].answers == found[event.devices[1][1]].answers != frozenset()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, ""),
        ({"nodeName": ""}, "it names no node"),
        ({"nodeName": "", "allNodes": True}, "allNodes is not supported yet"),
        ({"nodeName": "", "nodeSelector": {}}, "nodeSelector is not supported yet"),
        ({"nodeName": "", "perDeviceNodeSelection": True}, "perDeviceNodeSelection is not supported yet"),
    ],
)
def test_devices_of_no_single_node_are_refused_by_name(fields: Object, reason: str) -> None:
    assert elsewhere(a_slice(gpu(0), **fields)) == reason


def test_kinds_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds_of_devices, "MOST_KINDS", 5)
    kinds = Kinds()
    kinds.want(wanted(SERIAL))
    event, omitted = devices_of("n0", [a_slice(*(gpu(i) for i in range(8)))], kinds.of)
    assert (len(event.devices), omitted) == (5, {"there are too many kinds of devices": 3})


def test_kinds_of_one_node_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds_of_devices, "MOST_OF_NODE", 5)
    kinds = Kinds()
    kinds.want(wanted(SERIAL))
    event, omitted = devices_of(
        "n0", [a_slice(*(gpu(i) for i in range(8)), gpu(0) | {"name": "same"})], kinds.of
    )
    assert (len(event.devices), omitted) == (6, {"there are too many kinds of devices on its node": 3})
    event, omitted = devices_of("n1", [a_slice(*(gpu(i) for i in range(8, 12)))], kinds.of)
    assert (len(event.devices), omitted) == (4, {})


def test_equal_attributes_of_devices_are_in_memory_once() -> None:
    bodies = [msgspec.json.encode(a_body(i)) for i in range(2)]
    one, other = (decode(RESOURCE_SLICE, body) for body in bodies)
    assert one == msgspec.json.decode(bodies[0], type=ResourceSlice)
    (this,), (that,) = one.spec.devices, other.spec.devices
    assert this.attributes["product"] is that.attributes["product"]
    assert this.capacity["memory"] is that.capacity["memory"]
    assert this.attributes["uuid"] != that.attributes["uuid"]


def a_body(number: int) -> Object:
    spec = {"driver": "d", "devices": [gpu(number, capacity={"memory": {"value": "40Gi"}})]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": spec,
    }


EXPRESSIONS: Final = st.lists(st.sampled_from([A100, SERIAL, NVIDIA]), max_size=2)


@given(
    st.lists(st.tuples(EXPRESSIONS, st.booleans(), st.booleans()), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["A100", "H100"]), st.booleans()), max_size=6),
)
@settings(max_examples=examples(150), deadline=None)
def test_kinds_know_of_each_device_what_holds_of_it(
    wishes: list[tuple[list[str], bool, bool]], given_: list[tuple[int, str, bool]]
) -> None:
    """Whatever is asked one after the other: what the core is told is as if only the last were asked."""
    devices = [
        gpu(number, product, taints=[{"key": "bad", "effect": "NoExecute"}] if tainted else [])
        for number, product, tainted in given_
    ]
    devices = [dict(each, name=f"d{i}") for i, each in enumerate(devices)]
    kinds, known = Kinds(), dict[int, DeviceKind]()
    event = None
    for expressions, constrained, tolerant in wishes:
        constraints = [{"matchAttribute": "gpu.nvidia.com/root"}] if constrained else []
        tolerations = [{"operator": "Exists"}] if tolerant else []
        anew = kinds.want(wanted(*expressions, constraints=constraints, tolerations=tolerations))
        if anew or event is None:
            event, _ = devices_of("n0", [a_slice(*devices)], kinds.of)
        answered(kinds)
        known |= told(kinds)
    assert event is not None
    for (_, kind), each in zip(event.devices, devices, strict=True):
        seen = known[kind]
        number = int(each["attributes"]["uuid"]["string"][1:])
        own = {A100: each["attributes"]["product"]["string"] == "A100", NVIDIA: True, SERIAL: number == 3}
        holds = sum(own[text] for text in {*expressions})
        assert len([name for name in seen.answers if name.startswith("cel/")]) == holds
        assert "deviceclass/gpu" in seen.answers
        assert seen.tainted == bool(each["taints"])
        assert any(name.startswith("tolerates/") for name in seen.answers) == tolerant
        assert seen.attributes == ((("gpu.nvidia.com/root", f"int:{number % 2}"),) if constrained else ())
