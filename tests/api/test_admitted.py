"""What is added to a pod as it is created: each row is what it says, what there is, and what it has then."""

from typing import Any

import msgspec
import pytest

from muster.api.admitted import admitted
from muster.api.base import Object
from muster.api.core_v1 import LimitRange, PodSpec
from muster.api.node_v1 import RuntimeClass


def limited(resources: Object, *ranges: list[Object], init: bool = False) -> Any:  # Any: JSON
    """The resources of a container, or of an init container, once its pod is there."""
    container = {"name": "c", "resources": resources}
    field = "initContainers" if init else "containers"
    objects = [{"spec": {"limits": items}} for items in ranges]
    spec = admitted(
        msgspec.convert({field: [container]}, PodSpec), msgspec.convert(objects, list[LimitRange]), None
    )
    (found,) = spec.init_containers if init else spec.containers
    return msgspec.to_builtins(found.resources)


def of(**item: Any) -> list[Object]:
    return [{"type": "Container", **item}]


@pytest.mark.parametrize("init", [False, True])
@pytest.mark.parametrize(
    ("resources", "ranges", "then"),
    [
        ({}, [], {}),
        ({}, [[{"type": "Pod", "default": {"cpu": "1"}}]], {}),
        (
            {},
            [of(default={"cpu": "2"}, defaultRequest={"cpu": "1"})],
            {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
        ),
        ({}, [of(default={"cpu": "2"})], {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}),
        ({}, [of(max={"cpu": "4"})], {"requests": {"cpu": "4"}, "limits": {"cpu": "4"}}),
        ({}, [of(min={"cpu": "1"})], {"requests": {"cpu": "1"}}),
        (
            {},
            [of(min={"cpu": "1"}, max={"cpu": "4"}, default={"cpu": "2"})],
            {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}},
        ),
        (
            {"requests": {"cpu": "500m"}},
            [of(default={"cpu": "2"}, defaultRequest={"cpu": "1", "memory": "1Gi"})],
            {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "2"}},
        ),
        (
            {"limits": {"cpu": "3"}},
            [of(default={"cpu": "2"}, defaultRequest={"cpu": "1"})],
            {"requests": {"cpu": "3"}, "limits": {"cpu": "3"}},
        ),
        (
            {},
            [of(defaultRequest={"cpu": "1"}), of(defaultRequest={"cpu": "2", "memory": "1Gi"})],
            {"requests": {"cpu": "1", "memory": "1Gi"}},
        ),
    ],
)
def test_defaults_of_limit_ranges(
    resources: Object, ranges: list[list[Object]], then: Object, init: bool
) -> None:
    assert limited(resources, *ranges, init=init) == then


CLASS = msgspec.convert(
    {
        "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {
            "nodeSelector": {"kata": "yes"},
            "tolerations": [{"key": "kata", "operator": "Exists"}],
        },
    },
    RuntimeClass,
)


def test_overhead_and_nodes_of_a_runtime_class() -> None:
    own = {"nodeSelector": {"zone": "a"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    spec = admitted(msgspec.convert(own, PodSpec), [], CLASS)
    assert spec.overhead == {"cpu": "250m"}
    assert spec.node_selector == {"zone": "a", "kata": "yes"}
    assert [toleration.key for toleration in spec.tolerations] == ["gpu", "kata"]
    assert admitted(spec, [], CLASS) == spec, "what is there already is not added again"


def test_without_anything_to_add_it_is_the_same_spec() -> None:
    spec = PodSpec(node_selector={"a": "b"})
    assert admitted(spec, [], None) is spec
    assert admitted(spec, [LimitRange()], RuntimeClass()) is spec
