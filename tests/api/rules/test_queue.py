"""What a queue is completed with, and what it must look like."""

from typing import Any

import pytest

from muster.api import kinds, rules
from muster.api.base import Object


def queue(name: str = "a", **spec: Any) -> Object:  # Any: JSON
    return rules.default(kinds.QUEUE, {"kind": "Queue", "metadata": {"name": name}, "spec": spec})


def errors(obj: Object) -> list[str]:
    return [str(error) for error in rules.validate(kinds.QUEUE, obj, None)]


def test_defaults() -> None:
    assert queue()["spec"] == {"parent": "root", "weight": 1, "order": "priority", "reclaimable": True}
    assert (
        rules.default(kinds.QUEUE, {"kind": "Queue", "metadata": {"name": "a"}})["spec"]["parent"] == "root"
    )
    assert errors(queue()) == []


def test_everything_at_once() -> None:
    spec: Object = {
        "parent": "research",
        "weight": 3,
        "guarantee": {"nvidia.com/gpu": 8},
        "deserved": {"nvidia.com/gpu": 16},
        "capability": {"nvidia.com/gpu": 32, "cpu": "500m"},
        "order": "fair",
        "reclaimable": False,
        "closed": True,
        "allow": {"namespaces": ["ml"], "users": []},
        "maxGangs": 100,
        "maxPriority": -(2**31),
        "maxExclusiveLayer": "Rack",
    }
    assert errors(queue(**spec)) == []


@pytest.mark.parametrize(
    ("obj", "error"),
    [
        (queue("root"), "metadata.name: Invalid value: 'root': this is the name of the tree's root"),
        (queue("a" * 64), "metadata.name: Too long: 64 characters; labels name queues, so at most 63"),
        (queue(parent="a"), "spec.parent: Invalid value: 'a': a queue cannot be its own parent"),
        (queue(weight=0), "spec.weight: Invalid value: 0: write a number from 1 to 1000000"),
        (queue(maxGangs=-1), "spec.maxGangs: Invalid value: -1: must not be negative"),
        *(
            (
                queue(maxPriority=number),
                f"spec.maxPriority: Invalid value: {number}: write a number from -2147483648 to 2147483647",
            )
            for number in (-(2**31) - 1, 2**31)
        ),
        *(
            (
                queue(maxExclusiveLayer=name),
                f"spec.maxExclusiveLayer: Invalid value: {name!r}: write the name of a layer of the Cluster",
            )
            for name in ("a rack", "-", "Rack/", "r" * 64)
        ),
        *(
            (
                queue(maxExclusiveLayer=name),
                f"spec.maxExclusiveLayer: Invalid value: {name!r}: the whole cluster is no domain to have",
            )
            for name in ("ClusterTopologyLayer", "clustertopologylayer")
        ),
        (queue(order="lifo"), "spec.order: Unsupported value: 'lifo': supported values: 'priority', 'fifo'"),
        (queue(guarantee={"cpu": "-1"}), "spec.guarantee.cpu: Invalid value: -1: must not be negative"),
        (queue(deserved={"cpu": "lots"}), "spec.deserved.cpu: Invalid value: 'lots' is not a quantity"),
        (
            queue(guarantee={"cpu": 4}, capability={"cpu": "3500m"}),
            "spec.guarantee.cpu: Invalid value: 4: is above the queue's capability, 3500m",
        ),
        (
            queue(guarantee={"cpu": 4}, deserved={"cpu": 2}),
            "spec.guarantee.cpu: Invalid value: 4: is above the queue's deserved, 2",
        ),
        (
            queue(deserved={"cpu": 4}, capability={"cpu": 2}),
            "spec.deserved.cpu: Invalid value: 4: is above the queue's capability, 2",
        ),
    ],
)
def test_refused(obj: Object, error: str) -> None:
    (found,) = errors(obj)
    assert found.replace('"', "'").startswith(error)
