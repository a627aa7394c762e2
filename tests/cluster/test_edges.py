"""Around the start of a gang: a node that another scheduler has filled, victims that do not go, volumes."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from muster.api.base import Kind, Object, Resource
from muster.api.kinds import (
    GANG,
    JOB,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_GROUP_X,
    STORAGE_CLASS,
)
from muster.api.storage_v1 import SELECTED_NODE, WAIT_FOR_FIRST_CONSUMER
from muster.kube import config
from muster.kube.errors import NotFound
from muster.kube.http import HttpClient
from muster.names import GANG as IS_GANG
from tests.cluster.conftest import Cluster
from tests.cluster.gangs import POD_GROUP_LABEL, bound, gang, member
from tests.cluster.leaders import leading

PRIORITY_CLASS: Final = Kind(
    "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False, Resource, status=False
)


async def nodes_are(cluster: Cluster, test: str, count: int) -> None:
    async def there() -> bool:
        return len((await cluster.client.list(NODE, labels=f"test={test}")).items) == count

    await cluster.until(f"{count} nodes", there)


async def told(cluster: Cluster, record: str) -> tuple[str, str, str]:
    """Phase, code and message of a gang."""
    status = (await cluster.client.get(GANG, "default", record)).status
    return status.phase, *((status.reason.code, status.reason.message) if status.reason else ("", ""))


class Overtaken(HttpClient):
    """A client before whose first bind another scheduler binds a pod, which starts, to the same node."""

    def __init__(self, kubeconfig: Path, cluster: Cluster, rival: str) -> None:
        super().__init__(config.load(str(kubeconfig)))
        self.cluster, self.rival, self.first = cluster, rival, asyncio.Lock()
        #: the reasons of pods that muster has deleted
        self.deleted: set[str] = set()

    async def delete(
        self, kind: Kind[Any], namespace: str, name: str, **how: Any
    ) -> None:  # Any: see HttpClient
        if kind is POD:
            self.deleted.add((await self.get(POD, namespace, name)).status.reason)
        await super().delete(kind, namespace, name, **how)

    async def bind(self, namespace: str, name: str, binding: Object) -> None:
        async with self.first:
            if rival := self.rival:
                self.rival = ""
                await self.cluster.client.bind("default", rival, {**binding, "metadata": {"name": rival}})

                async def runs() -> bool:
                    return (await self.cluster.client.get(POD, "default", rival)).status.phase == "Running"

                await self.cluster.until("the other pod runs", runs)
        await super().bind(namespace, name, binding)


@pytest.mark.parametrize("sort", ["job", "bare"])
async def test_a_node_that_another_scheduler_fills_refuses_a_member_and_the_gang_becomes_whole(
    cluster: Cluster, sort: str
) -> None:
    """Both bind in the same moment; the node (`muster fake-nodes`) says OutOfcpu, as a kubelet does."""
    test = f"raced-{sort}"
    cluster.muster("fake-nodes", f"3 x name={test},cpu=2,memory=8Gi,label:test={test}")
    await nodes_are(cluster, test, 3)
    rival = member(f"rival-{sort}", 0, "2", test)
    rival["metadata"]["labels"] = {}
    rival["spec"]["schedulerName"] = "another"
    await cluster.make(POD, rival)
    client = Overtaken(cluster.chart.kubeconfig("scheduler"), cluster, f"rival-{sort}-0")
    seen: set[str] = set()
    try:
        async with leading(client):
            if sort == "bare":
                await gang(cluster, test, 4, test=test)
            else:
                await cluster.make(JOB, job(test, 4))

            async def whole() -> bool:
                label = "edge" if sort == "job" else POD_GROUP_LABEL
                pods = (await cluster.client.list(POD, "default", labels=f"{label}={test}")).items
                seen.update(pod.status.reason for pod in pods)
                return sum(pod.status.phase == "Running" for pod in pods) == 4

            await cluster.until("four pods of the gang run", whole, 0.02)
            assert "OutOfcpu" in seen | client.deleted
    finally:
        if sort == "job":
            await cluster.client.delete(JOB, "default", test)


def job(name: str, size: int) -> Object:
    template = member(name, 0, test=name)
    return {
        "metadata": {"name": name, "annotations": {IS_GANG: "true"}},
        "spec": {
            "parallelism": size,
            "completions": size,
            "completionMode": "Indexed",
            "template": {
                "metadata": {"labels": {"edge": name}},
                "spec": template["spec"],
            },
        },
    }


async def test_a_gang_whose_victim_is_stuck_says_so_and_starts_once_it_is_gone(cluster: Cluster) -> None:
    """A victim that does not end keeps nobody else waiting, and a new leader goes on with it."""
    cluster.muster("fake-nodes", "2 x name=stuck,cpu=2,memory=8Gi,label:test=stuck")
    await nodes_are(cluster, "stuck", 2)
    first = cluster.daemon("scheduler")
    cluster.daemon("controllers")
    for name, value in (("edge-low", 1), ("edge-high", 1000)):
        await cluster.make(PRIORITY_CLASS, {"metadata": {"name": name}, "value": value})

    async def make(name: str, size: int, priority: str, cpu: str = "1", **annotations: str) -> None:
        await cluster.make(POD_GROUP_X, {"metadata": {"name": name}, "spec": {"minMember": size}})
        for index in range(size):
            body = member(name, index, cpu, "stuck", **annotations)
            body["spec"] |= {"priorityClassName": priority, "terminationGracePeriodSeconds": 1}
            await cluster.make(POD, body)

    await make("victim", 3, "edge-low", pretend="stop=never")
    await cluster.until("the victim stands", lambda: _stands(cluster, "victim", 3))
    await make("heir", 4, "edge-high")

    async def leaving() -> bool:
        pods = (await cluster.client.list(POD, "default", labels=f"{POD_GROUP_LABEL}=victim")).items
        return all(pod.metadata.deletion_timestamp is not None for pod in pods)

    await cluster.until("the victim is evicted", leaving)

    async def waits() -> bool:
        phase, code, message = await told(cluster, "podgroup-heir")
        return (phase, code) == ("Nominated", "WaitingForVictims") and "default/victim-" in message

    await cluster.until("its heir says for whom it waits", waits)
    first.terminate()
    cluster.daemon("scheduler")
    await cluster.client.patch(NODE, "", "stuck-0", {"metadata": {"labels": {"free": "yes"}}})
    assert await bound(cluster, "heir") == 0
    cluster.muster("fake-nodes", "1 x name=beside,cpu=2,memory=8Gi,label:test=beside")
    await gang(cluster, "beside", 2, test="beside")
    await cluster.until("another gang starts", lambda: _stands(cluster, "beside", 2))
    await cluster.until("its heir still says for whom it waits", waits)
    for index in range(3):
        await cluster.client.delete(POD, "default", f"victim-{index}", grace_period=0)
    await cluster.until("its heir has the room", lambda: _stands(cluster, "heir", 4))


async def test_volumes_that_wait_for_their_first_consumer_are_made_where_the_gang_goes(
    cluster: Cluster,
) -> None:
    """The cluster's own volume controller binds the claims; the test is the provisioner."""
    cluster.muster("fake-nodes", "2 x name=disk,cpu=2,memory=8Gi,label:test=disk")
    await nodes_are(cluster, "disk", 2)
    cluster.daemon("scheduler")
    cluster.daemon("controllers")
    late = {"provisioner": "disk.test.muster.dev", "volumeBindingMode": WAIT_FOR_FIRST_CONSUMER}
    await cluster.make(STORAGE_CLASS, {"metadata": {"name": "edge-late"}, **late})
    names = [f"disk-{index}" for index in range(4)]
    for name in names:
        spec = {
            "storageClassName": "edge-late",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
        await cluster.make(PERSISTENT_VOLUME_CLAIM, {"metadata": {"name": name}, "spec": spec})
    await cluster.make(POD_GROUP_X, {"metadata": {"name": "disk"}, "spec": {"minMember": 4}})
    for index, name in enumerate(names):
        body = member("disk", index, test="disk")
        body["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        await cluster.make(POD, body)
    chosen: dict[str, str] = {}

    async def all_chosen() -> bool:
        for claim in (await cluster.client.list(PERSISTENT_VOLUME_CLAIM, "default")).items:
            node = claim.metadata.annotations.get(SELECTED_NODE, "")
            if node and claim.metadata.name in names:
                chosen[claim.metadata.name] = node
        return chosen.keys() == set(names)

    try:
        await cluster.until("each claim has a node", all_chosen)
        assert sorted(chosen.values()) == ["disk-0", "disk-0", "disk-1", "disk-1"]
        for name in names[:3]:
            await provision(cluster, name, chosen[name])

        async def three() -> bool:
            claims = (await cluster.client.list(PERSISTENT_VOLUME_CLAIM, "default")).items
            own = [claim for claim in claims if claim.metadata.name in names]
            return sum(bool(claim.spec.volume_name) for claim in own) == 3

        await cluster.until("three claims are bound", three)
        assert await bound(cluster, "disk") == 0, "one volume is missing"
        await provision(cluster, names[3], chosen[names[3]])
        await cluster.until("the gang stands", lambda: _stands(cluster, "disk", 4))
        for pod in (await cluster.client.list(POD, "default", labels=f"{POD_GROUP_LABEL}=disk")).items:
            assert pod.spec.node_name == chosen[pod.metadata.name]
    finally:
        for name in names:
            for kind, namespace in ((PERSISTENT_VOLUME_CLAIM, "default"), (PERSISTENT_VOLUME, "")):
                await remove(cluster, kind, namespace, name)
        await cluster.client.delete(STORAGE_CLASS, "", "edge-late")


async def provision(cluster: Cluster, claim: str, node: str) -> None:
    """Makes the volume, as an external provisioner does: reserved for the claim, usable on the node."""
    on = {"key": "metadata.name", "operator": "In", "values": [node]}
    spec = {
        "storageClassName": "edge-late",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "claimRef": {"namespace": "default", "name": claim},
        "csi": {"driver": "disk.test.muster.dev", "volumeHandle": claim},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchFields": [on]}]}},
    }
    await cluster.make(PERSISTENT_VOLUME, {"metadata": {"name": claim}, "spec": spec})


async def remove(cluster: Cluster, kind: Kind[Any], namespace: str, name: str) -> None:
    with suppress(NotFound):
        await cluster.client.patch(kind, namespace, name, {"metadata": {"finalizers": None}})
        await cluster.client.delete(kind, namespace, name)


async def _stands(cluster: Cluster, name: str, size: int) -> bool:
    return await bound(cluster, name) == size and (await told(cluster, f"podgroup-{name}"))[0] == "Standing"
