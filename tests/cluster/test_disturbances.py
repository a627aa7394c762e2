"""What happens around a leader that binds a large gang: it stands still, or the API server is gone."""

import signal
import subprocess
from collections import Counter

import pytest

from muster.api.kinds import LEASE, NODE, POD, POD_GROUP_X
from tests.cluster.conftest import Cluster
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gangs import POD_GROUP_LABEL, bound, bound_at, member

SIZE, NODES = 400, 8


@pytest.fixture(autouse=True)
def seen(plane: ControlPlane) -> None:
    if not plane.audit.is_file():
        pytest.skip("this cluster shows no audit log")


async def test_a_leader_that_is_stopped_across_its_lease_and_continued_does_no_harm(
    cluster: Cluster, plane: ControlPlane
) -> None:
    replicas = await begin(cluster, plane, "paused")
    stopped = replicas[await leader(cluster, replicas)]
    await cluster.make(POD, member("paused", SIZE - 1, test="paused"))
    await begun(cluster, plane)
    stopped.send_signal(signal.SIGSTOP)
    try:

        async def taken_over() -> bool:
            return await leader(cluster, replicas) != stopped.pid

        await cluster.until("another leader is elected", taken_over)
        early = binds(plane)
        assert early < SIZE

        async def goes_on() -> bool:
            return binds(plane) > early

        await cluster.until("it binds", goes_on, 0.002)
    finally:
        stopped.send_signal(signal.SIGCONT)
    await ends_whole(cluster, plane, "paused")

    async def given_up() -> bool:
        return stopped.poll() is not None

    await cluster.until("the first leader ends", given_up)
    assert await leader(cluster, replicas) != stopped.pid


async def test_the_api_server_is_killed_and_its_history_compacted_in_the_middle_of_a_gang(
    cluster: Cluster, plane: ControlPlane
) -> None:
    if not plane.processes:
        pytest.skip("this cluster is not this test's to kill")
    await begin(cluster, plane, "cut")
    await cluster.make(POD, member("cut", SIZE - 1, test="cut"))
    await begun(cluster, plane)
    plane.kill("kube-apiserver")
    plane.compact()
    plane.restart("kube-apiserver")
    await ends_whole(cluster, plane, "cut")


async def begin(cluster: Cluster, plane: ControlPlane, name: str) -> dict[int, subprocess.Popen[bytes]]:
    """A gang that lacks its last pod; the replicas of the scheduler, one of which leads, by process id."""
    cluster.muster("fake-nodes", f"{NODES} x name={name},cpu={SIZE // NODES},memory=64Gi,label:test={name}")
    replicas = {process.pid: process for process in [cluster.daemon("scheduler") for _ in range(2)]}
    cluster.daemon("controllers")
    await cluster.make(POD_GROUP_X, {"metadata": {"name": name}, "spec": {"minMember": SIZE}})
    for index in range(SIZE - 1):
        await cluster.make(POD, member(name, index, test=name))

    async def led() -> bool:
        return bool(await leader(cluster, replicas))

    await cluster.until("a leader", led)
    return replicas


async def begun(cluster: Cluster, plane: ControlPlane) -> None:
    before = binds(plane)

    async def some() -> bool:
        return binds(plane) >= before + 50

    await cluster.until("50 pods are bound", some, 0.002)


def binds(plane: ControlPlane) -> int:
    """How many Bindings the audit log has. (To read its entries would take longer than all binds.)"""
    return plane.audit.read_bytes().count(b'"subresource":"binding"')


async def leader(cluster: Cluster, replicas: dict[int, subprocess.Popen[bytes]]) -> int:
    lease = await cluster.client.get(LEASE, "muster-system", "muster-scheduler")
    return next((pid for pid in replicas if f"_{pid}_" in lease.spec.holder_identity), 0)


async def ends_whole(cluster: Cluster, plane: ControlPlane, name: str) -> None:
    """All pods are bound in the end, none of them twice, and no node has more than it has room for."""

    async def whole() -> bool:
        return await bound(cluster, name) == SIZE

    await cluster.until("all are bound", whole)
    pods = (await cluster.client.list(POD, "default", labels=f"{POD_GROUP_LABEL}={name}")).items
    full = Counter(pod.spec.node_name for pod in pods)
    nodes = (await cluster.client.list(NODE, labels=f"test={name}")).items
    assert full == {node.metadata.name: SIZE // NODES for node in nodes}
    names = [pod for pod, _ in bound_at(plane, f"{name}-")]
    assert len(names) == len(set(names))
