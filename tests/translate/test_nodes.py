"""Nodes as the core is told of them."""

from typing import Any

import msgspec
import pytest

from muster.api.base import Object
from muster.api.core_v1 import Node
from muster.core.words.events import NodeChanged
from muster.core.words.gang import Effect, NodeName, Taint
from muster.translate.nodes import node_changed


def node(*, ready: str | None = "True", **fields: Any) -> Node:
    conditions = [{"type": "Ready", "status": ready}] if ready else []
    obj: Object = {
        "metadata": {"name": "n", "labels": {"b": "2", "a": "1"}},
        "spec": fields,
        "status": {
            "capacity": {"cpu": 8},
            "allocatable": {"memory": "1500Ki", "cpu": "3500m", "pods": "110", "nvidia.com/gpu": 0},
            "conditions": conditions,
        },
    }
    return msgspec.convert(obj, Node)


def test_allocatable_is_the_capacity_rounded_down() -> None:
    assert node_changed(node()) == NodeChanged(
        NodeName("n"),
        capacity=(("cpu", 3500), ("memory", 1500 * 1024), ("pods", 110)),
        labels=(("a", "1"), ("b", "2")),
    )


def test_a_node_that_states_its_capacity_alone_can_use_all_of_it() -> None:
    bare = msgspec.convert({"status": {"capacity": {"cpu": 8, "pods": 110}}}, Node)
    assert node_changed(bare).capacity == (("cpu", 8000), ("pods", 110))


@pytest.mark.parametrize(
    ("key", "fields", "told"),
    [
        ("node.kubernetes.io/unschedulable", {"unschedulable": True}, False),
        ("node.kubernetes.io/unschedulable", {}, True),
        ("node.kubernetes.io/not-ready", {"ready": "False"}, False),
        ("node.kubernetes.io/unreachable", {"ready": "Unknown"}, False),
        ("node.kubernetes.io/not-ready", {}, True),
        ("node.kubernetes.io/disk-pressure", {"ready": "False", "unschedulable": True}, True),
    ],
)
def test_a_taint_that_repeats_a_state_is_no_obstacle_of_its_own(
    key: str, fields: dict[str, Any], told: bool
) -> None:
    found = node_changed(node(taints=[{"key": key}], **fields)).taints
    assert found == ((Taint(key, "", Effect.NO_SCHEDULE),) if told else ())


def test_cordon_and_taints() -> None:
    taints = [{"key": "gpu", "value": "yes", "effect": "NoExecute"}, {"key": "x", "effect": "Unheard"}]
    event = node_changed(node(unschedulable=True, taints=taints))
    assert event.cordoned
    assert event.taints == (Taint("gpu", "yes", Effect.NO_EXECUTE),)


def test_a_node_is_ready_only_if_it_says_so() -> None:
    assert node_changed(node(ready="True")).ready
    assert not node_changed(node(ready="False")).ready
    assert not node_changed(node(ready="Unknown")).ready
    assert not node_changed(node(ready=None)).ready


def test_a_capacity_that_cannot_be_read_is_none() -> None:
    broken = msgspec.convert({"status": {"allocatable": {"cpu": "many", "pods": 3}}}, Node)
    assert node_changed(broken).capacity == (("pods", 3),)
