from typing import Any

import pytest

from muster.api.rules.cluster import (
    default_namespace,
    default_node,
    default_service,
    validate_node,
    validate_service,
)


def test_a_namespace_is_labelled_with_its_name() -> None:
    made = default_namespace({"metadata": {"name": "team"}})
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team"}
    assert made["status"] == {"phase": "Active"}


def test_a_nodes_capacity_is_allocatable_unless_it_says_otherwise() -> None:
    made = default_node({"metadata": {"name": "n"}, "status": {"capacity": {"cpu": 4}}})
    assert made["status"]["allocatable"] == {"cpu": 4}
    assert made["metadata"]["labels"] == {"kubernetes.io/hostname": "n"}
    status = {"capacity": {"cpu": 4}, "allocatable": {"cpu": 3}}
    assert default_node({"metadata": {"name": "n"}, "status": status})["status"]["allocatable"] == {"cpu": 3}


@pytest.mark.parametrize(
    ("obj", "error"),
    [
        ({"status": {"capacity": {"cpu": "4", "nvidia.com/gpu": 8}}}, ""),
        ({"status": {"capacity": {"cpu": "many"}}}, "status.capacity.cpu: Invalid value"),
        ({"status": {"allocatable": {"cpu": "-1"}}}, "status.allocatable.cpu: Invalid value: -1"),
        ({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, ""),
        ({"spec": {"taints": [{"key": "a", "effect": "Never"}]}}, "spec.taints[0].effect: Unsupported value"),
        ({"spec": {"taints": [{"key": "a b", "effect": "NoSchedule"}]}}, "spec.taints[0].key: Invalid value"),
    ],
)
def test_nodes(obj: Any, error: str) -> None:
    found = [str(e) for e in validate_node(obj, None)]
    assert (error in found[0] and len(found) == 1) if error else not found, found


def test_services_are_headless() -> None:
    made = default_service({"metadata": {"name": "s"}})
    assert made["spec"] == {"type": "ClusterIP", "clusterIP": "None"}
    assert validate_service(made, made) == []
    (error,) = validate_service({"spec": {"clusterIP": "10.0.0.1"}}, made)
    assert str(error) == "spec.clusterIP: Invalid value: field is immutable"
