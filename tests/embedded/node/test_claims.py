"""A pod starts once its claims are allocated for its node and reserved for it, and is told its devices."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from muster.api.base import Object
from muster.api.core_v1 import Container, Pod
from muster.api.kinds import DEVICE_CLASS, EVENT, NODE, RESOURCE_CLAIM, RESOURCE_SLICE
from muster.api.resource_v1 import ResourceClaim, ResourceSlice
from muster.embedded.devicespec import DeviceSpec, slices
from muster.embedded.node import claims
from muster.embedded.node.environment import NOTHING, Lookup
from muster.embedded.node.isolation import Isolation
from muster.embedded.nodespec import NodeSpec
from tests.embedded.node.conftest import HERE, Cluster
from tests.embedded.node.virtual import VirtualClock

DRIVER = "gpu.example.com"
GPUS = DeviceSpec(DRIVER, 4, DRIVER)
SPEC: Object = {
    "devices": {"requests": [{"name": each, "exactly": {"deviceClassName": DRIVER}} for each in ("a", "b")]}
}
HERE_ONLY = {
    "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["here"]}]}]
}


def result(request: str, number: int, pool: str = "here") -> Object:
    return {"request": request, "driver": DRIVER, "pool": pool, "device": f"gpu-{number}"}


def pod(**more: Any) -> Pod:
    spec = {
        "nodeName": "here",
        "resourceClaims": [{"name": "gpus", "resourceClaimName": "shared"}],
        "containers": [{"name": "main"}],
        **more.pop("spec", {}),
    }
    return msgspec.convert(
        {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": spec, **more}, Pod
    )


def claim(
    *results: Object, reserved: str = "u", selector: Object | None = None, **meta: Any
) -> ResourceClaim:
    status: Object = {}
    if results:
        status["allocation"] = {"devices": {"results": [*results]}}
        if selector is not None:
            status["allocation"]["nodeSelector"] = selector
    if reserved:
        status["reservedFor"] = [{"resource": "pods", "name": "p", "uid": reserved}]
    metadata = {"name": "shared", "namespace": "ns", "uid": "c", **meta}
    return msgspec.convert({"metadata": metadata, "spec": SPEC, "status": status}, ResourceClaim)


def lookup(*found: ResourceClaim, labels: dict[str, str] | None = None) -> Lookup:
    by_name = {each.metadata.name: each for each in found}
    published = [msgspec.convert(each, ResourceSlice) for each in slices("here", [GPUS])]
    return msgspec.structs.replace(
        NOTHING, claim=by_name.get, slices=lambda: published, node_labels=labels or {}
    )


MADE = [{"name": "gpus", "resourceClaimTemplateName": "t"}]


@pytest.mark.parametrize(
    ("of_pod", "found", "expected"),
    [
        ({}, [claim(result("a", 0))], ""),
        ({}, [claim(result("a", 0), selector=HERE_ONLY)], ""),
        ({"spec": {"resourceClaims": []}}, [], ""),
        ({}, [], "ResourceClaim shared not found"),
        ({}, [claim(reserved="")], "ResourceClaim shared is not allocated"),
        ({}, [claim(result("a", 0), reserved="other")], "which is not reserved for it"),
        ({}, [claim(result("a", 0), selector={"nodeSelectorTerms": [{}]})], "other nodes than here"),
        (
            {},
            [
                claim(
                    result("a", 0),
                    selector={"nodeSelectorTerms": [{"matchFields": [{"key": "a", "operator": "?"}]}]},
                )
            ],
            "other nodes than here",
        ),
        ({"spec": {"resourceClaims": MADE}}, [], "claim gpus: no ResourceClaim has been made"),
        (
            {
                "spec": {"resourceClaims": MADE},
                "status": {"resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": "shared"}]},
            },
            [claim(result("a", 0))],
            "was not created for this pod",
        ),
        (
            {
                "spec": {"resourceClaims": MADE},
                "status": {"resourceClaimStatuses": [{"name": "gpus"}]},
            },
            [],
            "",
        ),
    ],
)
def test_what_a_pod_lacks(of_pod: Any, found: list[ResourceClaim], expected: str) -> None:
    why = claims.refusal(pod(**of_pod), lookup(*found))
    assert expected in why
    assert bool(why) is bool(expected)


@pytest.mark.parametrize(
    ("uses", "expected"),
    [
        ([], {}),
        (
            [{"name": "gpus"}],
            {
                "MUSTER_DEVICES": "gpu.example.com/here/gpu-1,gpu.example.com/here/gpu-3",
                "CUDA_VISIBLE_DEVICES": "1,3",
            },
        ),
        (
            [{"name": "gpus", "request": "b"}],
            {"MUSTER_DEVICES": "gpu.example.com/here/gpu-3", "CUDA_VISIBLE_DEVICES": "3"},
        ),
        ([{"name": "gpus", "request": "c"}], {}),
        ([{"name": "others"}], {}),
    ],
)
def test_a_container_is_told_the_devices_of_its_claims(uses: list[Object], expected: dict[str, str]) -> None:
    container = msgspec.convert({"name": "main", "resources": {"claims": uses}}, Container)
    found = lookup(claim(result("a", 1), result("b/first", 3)))
    assert claims.environment(pod(), container, found) == expected


def test_devices_without_a_number_are_no_gpus() -> None:
    container = msgspec.convert({"name": "main", "resources": {"claims": [{"name": "gpus"}]}}, Container)
    told = claims.environment(pod(), container, lookup(claim(result("a", 1, pool="elsewhere"))))
    assert told == {"MUSTER_DEVICES": "gpu.example.com/elsewhere/gpu-1"}


async def allocate(cluster: Cluster, name: str) -> None:
    uid = (await cluster.get("p")).metadata.uid
    status = {
        "allocation": {"devices": {"results": [result("a", 2)]}, "nodeSelector": HERE_ONLY},
        "reservedFor": [{"resource": "pods", "name": "p", "uid": uid}],
    }
    await cluster.client.patch(RESOURCE_CLAIM, "default", name, {"status": status}, subresource="status")


USES: Object = {
    "resourceClaims": [{"name": "gpus", "resourceClaimName": "shared"}],
    "container": {"resources": {"claims": [{"name": "gpus"}]}},
}


async def told(cluster: Cluster, text: str) -> None:
    """Waits for the Event that says what the pod lacks."""
    while True:
        events = (await cluster.client.list(EVENT, "default")).items
        if any(each.reason == claims.FAILED and text in each.message for each in events):
            return
        await asyncio.sleep(0.01)


async def test_a_process_waits_for_its_devices_and_gets_them(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.embedded.node.pod.CONFIG_RETRY", 0.01)
    cluster.nodes = [msgspec.structs.replace(HERE, devices=(GPUS,))]
    await cluster.client.create(RESOURCE_CLAIM, "default", {"metadata": {"name": "shared"}, "spec": SPEC})
    async with cluster.running():
        command = ["sh", "-c", "echo $MUSTER_DEVICES $CUDA_VISIBLE_DEVICES"]
        await cluster.submit("p", command, **USES)
        await told(cluster, "ResourceClaim shared is not allocated")
        assert (await cluster.get("p")).status.phase in ("", "Pending")
        await allocate(cluster, "shared")
        await cluster.ended("p")
        assert await cluster.output("p") == "gpu.example.com/here/gpu-2 2\n"


async def test_a_simulated_pod_waits_for_its_devices(tmp_path: Path) -> None:
    clock = VirtualClock()
    node = NodeSpec("here", {"cpu": 64}, runtime="none", devices=(GPUS,))
    cluster = Cluster(tmp_path, Isolation(namespaces=False), [node], clock)
    await cluster.client.create(RESOURCE_CLAIM, "default", {"metadata": {"name": "shared"}, "spec": SPEC})
    async with cluster.running():
        await cluster.submit("p", **USES)
        await told(cluster, "ResourceClaim shared is not allocated")
        await allocate(cluster, "shared")
        clock.advance(5.0)
        await cluster.started("p")


async def test_a_nodes_devices_are_published_and_follow_their_description(tmp_path: Path) -> None:
    nic = DeviceSpec("nic.example.com", 1, "nic", "example.com/nic")
    node = NodeSpec("here", {"cpu": 64}, runtime="none", devices=(GPUS, nic))
    cluster = Cluster(tmp_path, Isolation(namespaces=False), [node], VirtualClock())
    await cluster.client.create(DEVICE_CLASS, "", {"metadata": {"name": DRIVER}, "spec": {}})

    async def published() -> dict[str, tuple[int, int]]:
        """Generation and number of devices, by slice."""
        found = (await cluster.client.list(RESOURCE_SLICE)).items
        return {each.metadata.name: (each.spec.pool.generation, len(each.spec.devices)) for each in found}

    async with cluster.running():
        assert await published() == {"here-gpu.example.com": (1, 4), "here-nic.example.com": (1, 1)}
    here = await cluster.client.get(NODE, "", "here")
    [found, _] = (await cluster.client.list(RESOURCE_SLICE)).items
    assert [each.uid for each in found.metadata.owner_references] == [here.metadata.uid]
    async with cluster.running():
        assert (await published())["here-gpu.example.com"] == (1, 4)
    more = msgspec.structs.replace(GPUS, count=8)
    renamed = msgspec.structs.replace(nic, extended_resource_name="")
    cluster.nodes = [msgspec.structs.replace(node, devices=(more, renamed))]
    async with cluster.running():
        assert (await published())["here-gpu.example.com"] == (2, 8)
    classes = {each.metadata.name: each.spec for each in (await cluster.client.list(DEVICE_CLASS)).items}
    assert classes[DRIVER].selectors == [], "it is not muster's"
    assert classes["nic"].extended_resource_name == ""
    assert len(classes["nic"].selectors) == 1
    cluster.nodes = [msgspec.structs.replace(node, devices=(more,))]
    async with cluster.running():
        assert [*await published()] == ["here-gpu.example.com"]
