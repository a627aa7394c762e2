"""Simulated nodes on an API server that has no node agent, in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from muster.api import kinds
from muster.api.base import Object
from muster.embedded import nodespec
from muster.embedded.client import LocalClient
from muster.embedded.node.fake_nodes import LEASES, RENEW, FakeNodes, OthersNode
from muster.kube.errors import Conflict, ServerError
from muster.kube.informers import Informers
from muster.names import PRETEND
from tests.runtime.test_loop import Cluster

pytestmark = pytest.mark.looptime


def pod(name: str, node: str, pretend: str) -> Object:
    return {
        "metadata": {"name": name, "annotations": {PRETEND: pretend}},
        "spec": {"nodeName": node, "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    }


class Refusing(LocalClient):
    """Refuses every third renewal of a Lease, and the first three writes of a node."""

    renewals = nodes = 0

    async def patch(self, kind, namespace, name, patch, *, subresource=""):  # type: ignore[no-untyped-def]
        if kind is kinds.LEASE:
            self.renewals += 1
            if self.renewals % 3 == 1:
                raise ServerError("busy")
        if kind is kinds.NODE:
            self.nodes += 1
            if self.nodes <= 3:
                raise Conflict("another controller has written it")
        return await super().patch(kind, namespace, name, patch, subresource=subresource)


async def test_the_nodes_stay_ready_and_their_pods_run_and_end() -> None:
    cluster = Cluster()
    client = Refusing(cluster.registry)
    cluster.create(kinds.NAMESPACE, {"metadata": {"name": LEASES}})
    informers = Informers(client, cluster.clock)
    specs = nodespec.read("2 x cpu=4,memory=8Gi,runtime=none")
    playing = FakeNodes(client, informers, specs, cluster.clock)
    tasks = [asyncio.create_task(informers.run()), asyncio.create_task(playing.run())]
    await playing.ready.wait()
    nodes = (await client.list(kinds.NODE)).items
    assert [node.metadata.name for node in nodes] == ["node-0", "node-1"]
    assert {condition.status for node in nodes for condition in node.status.conditions} == {"True"}
    cluster.create(kinds.POD, pod("mine", "node-1", "run=30s,exit=3"))
    cluster.node("elsewhere")
    cluster.create(kinds.POD, pod("others", "elsewhere", "run=1s"))
    await asyncio.sleep(5)
    assert (await client.get(kinds.POD, "default", "mine")).status.phase == "Running"
    await asyncio.sleep(60)
    assert (await client.get(kinds.POD, "default", "mine")).status.phase == "Failed"
    assert (await client.get(kinds.POD, "default", "others")).status.phase == "Pending"
    leases = (await client.list(kinds.LEASE, LEASES)).items
    assert [lease.metadata.name for lease in leases] == ["node-0", "node-1"]
    for lease in leases:
        assert lease.spec.renew_time is not None
        assert (cluster.clock.now() - lease.spec.renew_time).total_seconds() <= 2 * RENEW
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_node_of_others_is_left_alone() -> None:
    """Its pods are real: they must not be reported as running, or deleted by force."""
    cluster = Cluster()
    cluster.node("node-1", cpu=64)
    informers = Informers(cluster.client, cluster.clock)
    specs = nodespec.read("2 x cpu=4,memory=8Gi,runtime=none")
    before = cluster.store.revision
    with pytest.raises(OthersNode, match="node-1 exists and is not simulated"):
        await FakeNodes(cluster.client, informers, specs, cluster.clock).run()
    assert cluster.store.revision == before


async def test_pods_take_their_time_to_end_and_may_be_stuck() -> None:
    async with playing("1 x name=fake,cpu=2,runtime=none") as cluster:
        for name, text in (("slow", "stop=30s"), ("stuck", "stop=never")):
            cluster.create(kinds.POD, pod(name, "fake-0", text))
            await asyncio.sleep(1)
            await cluster.client.delete(kinds.POD, "default", name, grace_period=5)

        async def names() -> list[str]:
            return sorted(each.metadata.name for each in await cluster.all(kinds.POD))

        await asyncio.sleep(25)
        assert await names() == ["slow", "stuck"]
        await asyncio.sleep(10)
        assert await names() == ["stuck"]
        await asyncio.sleep(3600)
        assert await names() == ["stuck"]
        await cluster.client.delete(kinds.POD, "default", "stuck", grace_period=0)
        assert await names() == []


@asynccontextmanager
async def playing(nodes: str) -> AsyncIterator[Cluster]:
    cluster = Cluster()
    informers = Informers(cluster.client, cluster.clock)
    fake = FakeNodes(cluster.client, informers, nodespec.parse(nodes), cluster.clock)
    tasks = [asyncio.create_task(part) for part in (informers.run(), fake.run())]
    await fake.ready.wait()
    try:
        yield cluster
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_node_that_two_schedulers_have_filled_refuses_what_it_has_no_room_for() -> None:
    def asking(name: str, cpu: str) -> Object:
        body = pod(name, "fake-0", "")
        body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
        return body

    async with playing("1 x name=fake,cpu=2,runtime=none") as cluster:

        async def shown() -> dict[str, tuple[str, str]]:
            await asyncio.sleep(1)
            pods = await cluster.all(kinds.POD)
            return {each.metadata.name: (each.status.phase, each.status.reason) for each in pods}

        for name, cpu in (("a", "1500m"), ("b", "1"), ("c", "500m")):
            cluster.create(kinds.POD, asking(name, cpu))
            await asyncio.sleep(1)
        assert await shown() == {"a": ("Running", ""), "b": ("Failed", "OutOfcpu"), "c": ("Running", "")}
        await cluster.client.delete(kinds.POD, "default", "a", grace_period=0)
        await asyncio.sleep(1)
        cluster.create(kinds.POD, asking("d", "1500m"))
        assert (await shown())["d"] == ("Running", "")
