"""`muster nodes` has a column for each resource that tells something."""

from muster.cli.nodes import columns


def test_storage_has_a_column_once_a_pod_requests_it() -> None:
    node = {"ephemeral-storage": 100, "pods": 110, "nvidia.com/gpu": 8, "memory": 1, "cpu": 1000}
    plain = ["cpu", "memory", "nvidia.com/gpu", "pods"]
    assert columns([(node, {"pods": 1}), (node, {})]) == plain
    assert columns([(node, {}), (node, {"ephemeral-storage": 1})]) == [*plain, "ephemeral-storage"]
    assert columns([]) == []
