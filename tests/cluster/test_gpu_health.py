"""Unhealthy GPUs that a node reports, on a real API server, with the rights of the chart's optional part."""

from collections.abc import AsyncIterator

import pytest

from muster.api.kinds import GANG, NODE, POD, POD_GROUP_X
from muster.controllers.gpu_health import TAINT, UNHEALTHY
from tests.cluster.chart import ASLEEP, Chart, install
from tests.cluster.conftest import Cluster
from tests.cluster.gangs import member


@pytest.fixture
async def watched(cluster: Cluster, chart: Chart) -> AsyncIterator[Cluster]:
    """The cluster with the controller `gpuhealth` switched on, and two nodes with GPUs."""
    only = "controllers.config.only={gang,podgroup,gpuhealth}"
    install(cluster.kubeconfig, chart.home, *ASLEEP, only)
    await cluster.may("controllers", "patch", "nodes")
    cluster.muster("fake-nodes", "2 x name=gpus,cpu=8,memory=8Gi,nvidia.com/gpu=8,label:test=gpus")
    cluster.daemon("scheduler")
    cluster.daemon("controllers")
    try:
        yield cluster
    finally:
        install(cluster.kubeconfig, chart.home, *ASLEEP)


async def test_a_node_is_kept_free_while_it_reports_unhealthy_gpus_and_used_afterwards(
    watched: Cluster,
) -> None:
    cluster = watched
    await training(cluster, "ranks", 2)  # each fills a node

    async def running() -> dict[str, str]:
        pods = (await cluster.client.list(POD, "default")).items
        where = {pod.metadata.name: pod.spec.node_name for pod in pods if pod.status.phase == "Running"}
        return where if len(where) == 2 else {}

    sick = (await cluster.until("both run", running))["ranks-0"]
    await report(cluster, sick, "True")

    async def quarantined() -> bool:
        return TAINT in await taints(cluster, sick)

    await cluster.until("the node is in quarantine", quarantined)

    async def told() -> bool:
        record = await cluster.client.get(GANG, "default", "podgroup-ranks")
        found = [each for each in record.status.conditions if each.type == "GpuHealthy"]
        return [each.status for each in found] == ["False"] and sick in found[0].message

    await cluster.until("the gang's record names the node", told)
    for index in range(2):
        await cluster.client.delete(POD, "default", f"ranks-{index}", grace_period=0)
    await training(cluster, "next", 2)

    async def waits() -> bool:
        record = await cluster.client.get(GANG, "default", "podgroup-next")
        return record.status.phase == "Waiting"

    await cluster.until("the next one waits", waits)
    await report(cluster, sick, "False")

    async def used() -> bool:
        pods = [await cluster.client.get(POD, "default", f"next-{index}") for index in range(2)]
        where = {pod.spec.node_name for pod in pods}
        return sick in where and len(where) == 2 and TAINT not in await taints(cluster, sick)

    await cluster.until("the node is used again", used)


async def training(cluster: Cluster, name: str, size: int) -> None:
    """A gang of which each pod takes all GPUs of a node."""
    await cluster.make(POD_GROUP_X, {"metadata": {"name": name}, "spec": {"minMember": size}})
    for index in range(size):
        body = member(name, index, test="gpus")
        (container,) = body["spec"]["containers"]
        container["resources"]["limits"] = {"nvidia.com/gpu": "8"}
        container["resources"]["requests"]["nvidia.com/gpu"] = "8"
        await cluster.make(POD, body)


async def report(cluster: Cluster, node: str, status: str) -> None:
    """What a detector writes: one condition of the node."""
    found = (await cluster.client.get_json(NODE, "", node))["status"]["conditions"]
    others = [each for each in found if each["type"] != UNHEALTHY]
    told = {"type": UNHEALTHY, "status": status, "reason": "Xid", "message": "XID 79"}
    body = {"status": {"conditions": [*others, told]}}
    await cluster.client.patch(NODE, "", node, body, subresource="status")


async def taints(cluster: Cluster, node: str) -> list[str]:
    return [taint.key for taint in (await cluster.client.get(NODE, "", node)).spec.taints]
