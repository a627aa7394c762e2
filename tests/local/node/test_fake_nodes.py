"""Simulated nodes on an API server that has no node agent, in virtual time."""

import asyncio

import pytest

from muster.api import kinds
from muster.api.base import Object
from muster.kube.errors import Conflict, ServerError
from muster.kube.informers import Informers
from muster.local import nodespec
from muster.local.client import LocalClient
from muster.local.node.fake_nodes import LEASES, RENEW, FakeNodes, OthersNode
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
    with pytest.raises(OthersNode, match="node-1 is there and not simulated"):
        await FakeNodes(cluster.client, informers, specs, cluster.clock).run()
    assert cluster.store.revision == before
