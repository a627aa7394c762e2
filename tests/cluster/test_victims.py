"""Pods of other schedulers that an administrator lets muster evict, under the chart's own policies."""

from pathlib import Path

from muster.api.kinds import NAMESPACE, POD, POD_GROUP_X, PRIORITY_CLASS
from muster.kube.errors import NotFound
from tests.cluster.conftest import Cluster
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gangs import bound, member
from tests.cluster.test_two_releases import SECOND, released

CHECKS = "health-checks"


async def test_a_gang_takes_the_place_of_a_pod_in_a_namespace_of_victims(
    cluster: Cluster, plane: ControlPlane, tmp_path: Path
) -> None:
    values = (f"schedulerNames[0]={SECOND}", f"victimNamespaces[0]={CHECKS}")
    async with released(
        cluster, plane, tmp_path, *(f"scheduler.config.{value}" for value in values)
    ) as second:
        cluster.muster("fake-nodes", "1 x name=checked,cpu=2,memory=8Gi,label:test=checked")
        await cluster.make(NAMESPACE, {"metadata": {"name": CHECKS}})
        await cluster.make(PRIORITY_CLASS, {"metadata": {"name": "above-checks"}, "value": 100})
        foreign = member("check", 0, "2", "checked", by="a-providers-own")
        foreign["metadata"]["labels"] = {}
        await cluster.make(POD, foreign, CHECKS)
        target = {"apiVersion": "v1", "kind": "Node", "name": "checked-0"}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "check-0"}, "target": target}
        await cluster.client.bind(CHECKS, "check-0", binding)
        cluster.replica_of(second, "scheduler")
        await cluster.make(POD_GROUP_X, {"metadata": {"name": "urgent"}, "spec": {"minMember": 2}})
        for index in range(2):
            pod = member("urgent", index, "1", "checked", by=SECOND)
            pod["spec"]["priorityClassName"] = "above-checks"
            await cluster.make(POD, pod)

        async def gone() -> bool:
            try:
                await cluster.client.get(POD, CHECKS, "check-0")
            except NotFound:
                return True
            return False

        async def whole() -> bool:
            return await bound(cluster, "urgent") == 2

        await cluster.until("the pod of another scheduler is evicted", gone)
        await cluster.until("the gang has its place", whole)
