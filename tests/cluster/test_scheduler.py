"""`muster scheduler` on a real API server: processes of muster, nodes that `muster fake-nodes` plays."""

import pytest

from muster.api.base import Object
from muster.api.kinds import GANG, LEASE, NODE, POD, POD_GROUP_X
from muster.names import SCHEDULER
from tests.cluster.conftest import Cluster
from tests.cluster.control_plane import ControlPlane

POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"


def member(gang: str, index: int, cpu: str = "1") -> Object:
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"name": f"{gang}-{index}", "labels": {POD_GROUP_LABEL: gang}},
        "spec": {"schedulerName": SCHEDULER, "restartPolicy": "Never", "containers": [container]},
    }


async def gang(cluster: Cluster, name: str, size: int) -> None:
    await cluster.make(POD_GROUP_X, {"metadata": {"name": name}, "spec": {"minMember": size}})
    for index in range(size):
        await cluster.make(POD, member(name, index))


async def bound(cluster: Cluster, name: str) -> int:
    pods = await cluster.client.list(POD, "default", labels=f"{POD_GROUP_LABEL}={name}")
    return sum(bool(pod.spec.node_name) for pod in pods.items)


async def test_of_two_gangs_that_fit_singly_one_starts_whole_and_the_other_says_why_not(
    cluster: Cluster,
) -> None:
    cluster.muster("fake-nodes", "2 x cpu=4,memory=8Gi")
    cluster.muster("scheduler")
    cluster.muster("controllers")

    async def nodes() -> bool:
        return len((await cluster.client.list(NODE)).items) == 2

    await cluster.until("two nodes", nodes)
    await gang(cluster, "first", 6)
    await gang(cluster, "second", 6)

    async def running() -> bool:
        pods = (await cluster.client.list(POD, "default", labels=f"{POD_GROUP_LABEL}=first")).items
        return sum(pod.status.phase == "Running" for pod in pods) == 6

    await cluster.until("the first gang runs", running)

    async def told() -> str:
        record = await cluster.client.get(GANG, "default", "podgroup-second")
        return record.status.reason.code if record.status.reason is not None else ""

    assert await cluster.until("the second gang is told why it waits", told) == "InsufficientCapacity"
    assert await bound(cluster, "second") == 0
    for index in range(6):
        await cluster.client.delete(POD, "default", f"first-{index}", grace_period=0)

    async def follows() -> bool:
        return await bound(cluster, "second") == 6

    await cluster.until("the second gang is bound", follows)
    lease = await cluster.client.get(LEASE, "muster-system", "muster-scheduler")
    assert lease.spec.holder_identity


async def test_a_leader_that_is_killed_in_the_middle_of_a_gang_is_followed_by_one_that_completes_it(
    cluster: Cluster, plane: ControlPlane
) -> None:
    """Judged by the audit log: no pod is bound twice. (A bind may have no answer: its client died.)"""
    if not plane.audit.is_file():
        pytest.skip("this cluster shows no audit log")
    size = 300
    cluster.muster("fake-nodes", "3 x name=big,cpu=64,memory=64Gi,pods=110")
    schedulers = {process.pid: process for process in [cluster.muster("scheduler") for _ in range(2)]}
    cluster.muster("controllers")
    await cluster.make(POD_GROUP_X, {"metadata": {"name": "large"}, "spec": {"minMember": size}})
    for index in range(size - 1):  # it waits for its last pod
        await cluster.make(POD, member("large", index, "100m"))

    async def leader() -> int:
        lease = await cluster.client.get(LEASE, "muster-system", "muster-scheduler")
        return next((pid for pid in schedulers if f"_{pid}_" in lease.spec.holder_identity), 0)

    leads = await cluster.until("a leader", leader)
    await cluster.make(POD, member("large", size - 1, "100m"))

    async def begun() -> bool:
        return len(binds(plane)) >= 20  # the log is a local file, so this is quicker than the scheduler

    await cluster.until("the first pods are bound", begun, 0.005)
    schedulers[leads].kill()
    first = len(binds(plane))

    async def whole() -> bool:
        return await bound(cluster, "large") == size

    await cluster.until(f"all are bound ({first} were when the leader was killed)", whole)
    assert await leader() not in (0, leads)
    assert len(binds(plane)) == len(set(binds(plane)))


def binds(plane: ControlPlane) -> list[str]:
    """The pods of the large gang in the order in which the server bound them."""
    found = []
    for entry in plane.writes():
        match entry:
            case {
                "objectRef": {"resource": "pods", "subresource": "binding", "name": str(name)},
                "responseStatus": {"code": 201},
            } if name.startswith("large-"):
                found.append(name)
    return found
