"""Devices in `--nodes`, in both forms, and the objects that are published of them."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import rules
from muster.api.base import AnyKind, Object
from muster.api.kinds import DEVICE_CLASS, RESOURCE_SLICE
from muster.embedded import devicespec
from muster.embedded.devicespec import DeviceSpec
from muster.embedded.nodespec import InvalidNodes, parse, read

SHORT = "2 x cpu=8,device:gpu.example.com=8,device:gpu.example.com/clique=a|b,device:gpu.example.com/ecc=true"
LONG = """\
- count: 2
  cpu: 8
  devices:
  - {driver: gpu.example.com, count: 8, attributes: {clique: [a, b], ecc: true}}
- cpu: 1
  devices:
  - driver: nic.example.com
    class: nic
    extendedResourceName: example.com/nic
    attributes: {firmware: {version: 1.2.3}, speed: 400}
    capacity: {bandwidth: 400G}
"""


def file(folder: Path, text: str) -> str:
    path = folder / "nodes.yaml"
    path.write_text(text)
    return str(path)


def test_both_forms_say_the_same(tmp_path: Path) -> None:
    short, long = parse(SHORT), read(file(tmp_path, LONG))
    assert [node.devices for node in short] == [node.devices for node in long[:2]]
    assert short[0].devices == (
        DeviceSpec(
            "gpu.example.com",
            8,
            "gpu.example.com",
            attributes={"clique": [{"string": "a"}, {"string": "b"}], "ecc": [{"bool": True}]},
        ),
    )
    assert short[0].resources["cpu"] == "8"
    assert parse("cpu=8")[0].devices == ()


def test_a_slice_has_each_device_with_its_attributes() -> None:
    node = parse(SHORT)[1]
    [published] = devicespec.slices(node.name, node.devices)
    spec = published["spec"]
    assert (published["metadata"]["name"], spec["nodeName"]) == ("node-1-gpu.example.com", "node-1")
    assert spec["pool"] == {"name": "node-1", "generation": 1, "resourceSliceCount": 1}
    assert [each["name"] for each in spec["devices"]] == [f"gpu-{number}" for number in range(8)]
    attributes = [each["attributes"] for each in spec["devices"]]
    assert [each["clique"]["string"] for each in attributes] == ["a"] * 4 + ["b"] * 4
    assert [each["index"]["int"] for each in attributes] == [*range(8)]


def test_a_class_selects_the_drivers_devices(tmp_path: Path) -> None:
    nodes = read(file(tmp_path, LONG))
    found = devicespec.classes(device for node in nodes for device in node.devices)
    assert {each["metadata"]["name"]: each["spec"] for each in found} == {
        "gpu.example.com": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]},
        "nic": {
            "selectors": [{"cel": {"expression": 'device.driver == "nic.example.com"'}}],
            "extendedResourceName": "example.com/nic",
        },
    }
    [device] = devicespec.slices("n", nodes[2].devices)[0]["spec"]["devices"]
    assert device == {
        "name": "nic-0",
        "attributes": {"index": {"int": 0}, "firmware": {"version": "1.2.3"}, "speed": {"int": 400}},
        "capacity": {"bandwidth": {"value": "400G"}},
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("device:gpu.example.com=129", "device:gpu.example.com: count '129' is not a number from 1 to 128"),
        ("device:gpu.example.com=0", "count '0' is not a number from 1"),
        (
            "device:gpu.example.com=8,device:gpu.example.com/clique=a|b|c",
            "8 devices cannot have 3 values in equal",
        ),
        ("device:a b=8", "device:a b: driver: Invalid value"),
        ("device:=8", "driver is missing"),
        (f"device:gpu.example.com=1,device:gpu.example.com/x={'v' * 65}", "Too long"),
        ("device:gpu.example.com=1,device:gpu.example.com/1x=v", "spec.devices[0].attributes"),
        ("100000 x device:gpu.example.com=128", "more than 1000000 devices"),
    ],
)
def test_a_mistake_is_named(text: str, message: str) -> None:
    with pytest.raises(InvalidNodes) as caught:
        parse(text)
    assert message in str(caught.value)
    assert str(caught.value).startswith("--nodes: group 1: ")


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ("5", "devices: must be a list"),
        ("[5]", "devices[0]: must be keys and values"),
        ("[{drivers: x}]", "devices[0]: unknown key 'drivers'; known: driver, count"),
        ("[{driver: a.b, count: true}]", "count True is not a number"),
        ("[{driver: a.b, attributes: 5}]", "attributes: must be keys and values"),
        ("[{driver: a.b, attributes: {x: []}}]", "1 devices cannot have 0 values"),
        ("[{driver: a.b, attributes: {x: 1.5}}]", "must be a text, a whole number, true, false"),
        ("[{driver: a.b, attributes: {x: {version: 5}}}]", "version"),
        ("[{driver: a.b, capacity: {x: many}}]", "capacity"),
        ("[{driver: a.b, class: A}]", "metadata.name"),
        ("[{driver: a.b, extendedResourceName: gpu}]", "extendedResourceName"),
        ("[{driver: a.b}, {driver: a.b}]", "driver a.b is given twice"),
        ("[{driver: a.b, class: x}, {driver: c.d, class: x}]", "class x is given with another driver"),
    ],
)
def test_a_mistake_in_a_file_is_named(tmp_path: Path, devices: str, message: str) -> None:
    with pytest.raises(InvalidNodes) as caught:
        read(file(tmp_path, f"- {{cpu: 1, devices: {devices}}}"))
    assert message in str(caught.value)


NAME = st.sampled_from(["driver", "count", "class", "extendedResourceName", "attributes", "capacity", "x"])
JSON: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(NAME, JSON))
def test_whatever_is_described_is_published_as_the_api_wants_it_or_is_one_error(stated: Object) -> None:
    with contextlib.suppress(devicespec.InvalidDevices):
        found, others = devicespec.read({"devices": [{"driver": "a.b", **stated}], "cpu": 1})
        assert others == {"cpu": 1}
        objects: list[tuple[AnyKind, Object]] = [
            (RESOURCE_SLICE, body) for body in devicespec.slices("n", found)
        ]
        objects += [(DEVICE_CLASS, body) for body in devicespec.classes(found)]
        for kind, body in objects:
            assert rules.type_(kind, body) == []
            assert rules.validate(kind, rules.default(kind, body), None) == []
