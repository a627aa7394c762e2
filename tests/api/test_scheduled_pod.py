"""What the scheduler keeps of a pod: all that it decides by, and equal parts once."""

import tracemalloc
from typing import Any

import msgspec
import pytest

from muster.api.base import Object
from muster.api.core_v1 import Pod
from muster.api.kinds import POD
from muster.api.requests import as_it_runs
from muster.api.scheduled_pod import REMEMBERED, SCHEDULED_POD
from muster.kube.decode import decode, decode_list
from muster.translate.claims import claim_names
from muster.translate.pods import asked, bound_at, rejected

STARTED = "2026-01-01T00:00:00Z"


def pod(name: str = "a", node: str = "n", **more: Any) -> Object:
    container = {
        "name": "main",
        "image": "image",
        "command": ["sleep"],
        "env": [{"name": "A", "value": name}],
        "resources": {"requests": {"cpu": "1"}},
        "ports": [{"hostPort": 80, "containerPort": 80}],
    }
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": {"app": "x"}},
        "spec": {
            "nodeName": node,
            "schedulerName": "muster",
            "containers": [container],
            "initContainers": [{"name": "side", "restartPolicy": "Always"}],
            "nodeSelector": {"pool": "batch"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "volumes": [
                {"name": "token", "projected": {"sources": []}},
                {"name": "data", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
                {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
            ],
            **more.get("spec", {}),
        },
        "status": {
            "phase": "Running",
            "startTime": STARTED,
            "podIP": "10.0.0.1",
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": STARTED}],
            "containerStatuses": [{"name": "main", "image": "image", "state": {"running": {}}}],
            **more.get("status", {}),
        },
    }


def read(obj: Object) -> tuple[Pod, Pod]:
    """The pod with all fields, and as the scheduler keeps it."""
    raw = msgspec.json.encode(obj)
    return decode(POD, raw), decode(SCHEDULED_POD, raw)


RESIZED = {
    "containerStatuses": [
        {"name": "main", "allocatedResources": {"cpu": "4"}, "resources": {"requests": {"cpu": "4"}}}
    ]
}
REFUSED = {"phase": "Failed", "message": "Pod was rejected: OutOfcpu", "containerStatuses": []}
FAILED = {**REFUSED, "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 1}}}]}


@pytest.mark.parametrize(
    "obj",
    [
        pod(),
        pod(node=""),
        pod(status=RESIZED),
        pod(status=REFUSED),
        pod(status=FAILED),
        pod(spec={"overhead": {"cpu": "1"}, "hostNetwork": True, "priority": 3}),
        pod(spec={"resources": {"requests": {"cpu": "3"}}, "schedulingGates": [{"name": "g"}]}),
    ],
)
def test_a_scheduled_pod_keeps_every_field_that_decisions_depend_on(obj: Object) -> None:
    whole, kept = read(obj)
    assert asked(as_it_runs(kept)) == asked(as_it_runs(whole))
    assert [*claim_names(kept.spec)] == [*claim_names(whole.spec)] == ["data"]
    assert kept.metadata == whole.metadata
    assert kept.status.conditions == whole.status.conditions
    assert (kept.terminal, rejected(kept), bound_at(kept)) == (
        whole.terminal,
        rejected(whole),
        bound_at(whole),
    )
    for field in ("node_name", "scheduler_name", "scheduling_gates", "priority", "affinity"):
        assert getattr(kept.spec, field) == getattr(whole.spec, field)


def test_a_scheduled_pod_drops_the_fields_that_only_nodes_read() -> None:
    _, kept = read(pod())
    (container,) = kept.spec.containers
    assert not any((container.image, container.command, container.env))
    assert [volume["name"] for volume in kept.spec.volumes] == ["data", "scratch"]
    assert kept.status.container_statuses == []


def test_pods_of_one_template_share_their_parts() -> None:
    (_, one), (_, other) = read(pod("a", "n1")), read(pod("b", "n2"))
    assert (one.spec.node_name, other.spec.node_name) == ("n1", "n2")
    assert one.spec.containers is other.spec.containers
    assert one.metadata.labels is other.metadata.labels
    assert one.status is other.status


@pytest.mark.parametrize(
    "more",
    [
        {"spec": {"volumes": [{"name": "v", "ephemeral": {"size": 10**30}}]}},
        {
            "spec": {
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data", "x": -(10**19)}}]
            }
        },
        {"spec": {"-hostname": 10**30}},
        {"status": {"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": 10**30}}]}},
    ],
)
def test_numbers_that_nothing_packs_make_neither_the_pod_nor_its_list_unreadable(more: Object) -> None:
    whole, kept = read(pod(**more))
    assert (kept.key, kept.spec.node_name) == (whole.key, "n")
    listed = decode_list(
        SCHEDULED_POD, msgspec.json.encode({"metadata": {}, "items": [pod("b"), pod(**more)]})
    )
    assert [each.metadata.name for each in listed.items] == ["b", "a"]


def test_pods_that_are_gone_leave_no_more_than_so_many_bytes() -> None:
    tracemalloc.start()
    try:
        for number in range(2 * REMEMBERED // 2**20 + 8):
            obj = pod(spec={"nodeSelector": {"a": f"{number}" + "x" * 2**20}})
            obj["metadata"]["annotations"] = {"a": f"{number}" + "x" * 2**20}
            decode(SCHEDULED_POD, msgspec.json.encode(obj))
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert left < 4 * REMEMBERED  # a spec is remembered with its key


def test_lists_and_damaged_pods_are_kept_in_the_same_way() -> None:
    items = [pod("a"), pod("b", spec={"priority": "high"})]
    raw = msgspec.json.encode({"metadata": {"resourceVersion": "7"}, "items": items})
    found = decode_list(SCHEDULED_POD, raw)
    assert found.metadata.resource_version == "7"
    assert [bool(each.metadata.unreadable) for each in found.items] == [False, True]
    assert all(each.status is found.items[0].status for each in found.items)
