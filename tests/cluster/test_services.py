"""Pods of Deployments, which ReplicaSets make, and of StatefulSets, that name a PodGroup."""

from functools import partial

import pytest

from muster.api.base import Kind, Object, Resource
from muster.api.kinds import GANG, POD, POD_GROUP_X
from muster.names import SCHEDULER
from tests.cluster.conftest import Cluster
from tests.cluster.gangs import POD_GROUP_LABEL, bound

KINDS = [
    Kind("apps", "v1", kind, f"{kind.lower()}s", True, Resource) for kind in ("Deployment", "StatefulSet")
]


def serving(kind: Kind[Resource], name: str, replicas: int) -> Object:
    """Its pods belong to the PodGroup of its name."""
    labels = {"app": name, POD_GROUP_LABEL: name}
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    spec: Object = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"schedulerName": SCHEDULER, "containers": [container]},
        },
    }
    if kind.kind == "StatefulSet":
        spec |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    return {"metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("kind", KINDS, ids=[each.kind for each in KINDS])
async def test_its_first_pods_start_whole_and_one_that_is_lost_is_replaced(
    cluster: Cluster, kind: Kind[Resource]
) -> None:
    """Of four pods three have to start together, and there are two places."""
    name = kind.kind.lower()
    cluster.daemon("scheduler")
    cluster.daemon("controllers")
    cluster.muster("fake-nodes", "1 x name=few,cpu=2,memory=8Gi")
    await cluster.make(POD_GROUP_X, {"metadata": {"name": name}, "spec": {"minMember": 3}})
    await cluster.make(kind, serving(kind, name, 4))

    async def waits() -> bool:
        reason = (await cluster.client.get(GANG, "default", f"podgroup-{name}")).status.reason
        return reason is not None and reason.code == "InsufficientCapacity"

    async def has(count: int) -> bool:
        return await bound(cluster, name) == count

    await cluster.until("it waits for a third place", waits)
    assert await bound(cluster, name) == 0
    cluster.muster("fake-nodes", "1 x name=more,cpu=2,memory=8Gi")
    await cluster.until("all four have a node", partial(has, 4))
    first, *_ = (await cluster.client.list(POD, "default", labels=f"app={name}")).items
    await cluster.client.delete(POD, "default", first.metadata.name, grace_period=0)

    async def replaced() -> bool:
        pods = (await cluster.client.list(POD, "default", labels=f"app={name}")).items
        return first.metadata.uid not in {pod.metadata.uid for pod in pods} and await has(4)

    await cluster.until("a new pod has its place", replaced)
    await cluster.client.delete(kind, "default", name)
