"""As which resource the devices of each class are counted."""

import pytest

from muster.api.fields import convert
from muster.api.resource_v1 import DeviceClass
from muster.core.words.devices import ClaimShape, DeviceAsk, DeviceRequest
from muster.translate.devices.counted import counted_as, renamed, resource_of


def a_class(name: str, extended: str = "", created: str = "2026-01-01T00:00:00Z") -> DeviceClass:
    meta = {"name": name, "creationTimestamp": created}
    return convert({"metadata": meta, "spec": {"extendedResourceName": extended}}, DeviceClass)


def test_a_class_counts_as_the_resource_that_it_names() -> None:
    counted = counted_as([a_class("gpu", "nvidia.com/gpu"), a_class("nic")])
    assert counted == {"gpu": "nvidia.com/gpu"}
    assert resource_of("gpu", counted) == "nvidia.com/gpu"
    assert resource_of("nic", counted) == "deviceclass/nic"


def test_of_several_classes_of_one_name_the_newest_has_it_and_of_equally_old_ones_the_first_by_name() -> None:
    old, new = a_class("a", "e.com/x"), a_class("b", "e.com/x", created="2026-01-02T00:00:00Z")
    for order in ([old, new], [new, old]):
        assert counted_as(order) == {"b": "e.com/x"}
    twins = [a_class("b", "e.com/x"), a_class("a", "e.com/x")]
    assert counted_as(twins) == {"a": "e.com/x"}


@pytest.mark.parametrize(
    "name",
    [
        *("cpu", "memory", "pods", "gpu", "kubernetes.io/x", "deviceclass.resource.kubernetes.io/x"),
        *("deviceclass/x", "muster.dev/gpu-share", "requests.e.com/x", "node.kubernetes.io/x"),
    ],
)
def test_no_class_stands_for_what_nodes_have_by_nature(name: str) -> None:
    assert counted_as([a_class("c", name)]) == {}


def test_claims_of_a_class_ask_for_the_resource_as_which_it_counts() -> None:
    def claim(name: str) -> ClaimShape:
        return ClaimShape("c", (DeviceRequest("r", (DeviceAsk((name, "cel/x"), 2),)),))

    counted = {"gpu": "nvidia.com/gpu"}
    assert renamed(claim("deviceclass/gpu"), counted) == claim("nvidia.com/gpu")
    assert renamed(claim("deviceclass/nic"), counted) == claim("deviceclass/nic")
