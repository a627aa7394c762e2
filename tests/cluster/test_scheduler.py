"""`muster scheduler` on a real API server: processes of muster, nodes that `muster fake-nodes` plays."""

import time
from contextlib import suppress

import pytest

from muster.api.kinds import GANG, LEASE, NAMESPACE, NODE, POD, POD_GROUP_X, SERVICE_ACCOUNT
from muster.kube.errors import NotFound
from muster.runtime.election import Timing
from tests.cluster.conftest import Cluster
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gangs import POD_GROUP_LABEL, bound, bound_at, gang, leads, member
from tests.cluster.goals import note


async def test_of_two_gangs_that_fit_singly_one_starts_whole_and_the_other_says_why_not(
    cluster: Cluster,
) -> None:
    cluster.muster("fake-nodes", "2 x name=two,cpu=4,memory=8Gi,label:test=two")
    cluster.daemon("scheduler")
    cluster.daemon("controllers")

    async def nodes() -> bool:
        return len((await cluster.client.list(NODE, labels="test=two")).items) == 2

    await cluster.until("two nodes", nodes)
    await gang(cluster, "first", 6, test="two")
    await gang(cluster, "second", 6, test="two")

    async def running() -> bool:
        pods = (await cluster.client.list(POD, "default", labels=f"{POD_GROUP_LABEL}=first")).items
        return sum(pod.status.phase == "Running" for pod in pods) == 6

    await cluster.until("the first gang runs", running)

    async def told() -> bool:
        record = await cluster.client.get(GANG, "default", "podgroup-second")
        return record.status.reason is not None and record.status.reason.code == "InsufficientCapacity"

    await cluster.until("the second gang is told why it waits", told)
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
    """Judged by the audit log: no pod is bound twice. (A bind may have no answer.)"""
    if not plane.audit.is_file():
        pytest.skip("this cluster shows no audit log")
    sizes = {"large": 500, "small": 20}
    cluster.muster("fake-nodes", "5 x name=big,cpu=64,memory=64Gi,pods=110")
    first = cluster.daemon("scheduler", holds="large=450")
    cluster.daemon("controllers")
    for name, size in sizes.items():  # each waits for its last pod
        await cluster.make(POD_GROUP_X, {"metadata": {"name": name}, "spec": {"minMember": size}})
        for index in range(size - 1):
            await cluster.make(POD, member(name, index, "100m"))

    await cluster.until("a leader", lambda: leads(cluster, first))
    second = cluster.daemon("scheduler")
    read = plane.audit.stat().st_size  # what other tests did takes longer to read than a gang to be bound
    for name, size in sizes.items():
        await cluster.make(POD, member(name, size - 1, "100m"))

    async def begun() -> bool:
        return len(bound_at(plane, "large-", read)) >= 20  # a local file: quicker than the scheduler

    await cluster.until("the first pods are bound", begun, 0.005)
    first.kill()
    killed, early = time.time(), len(bound_at(plane, "large-"))

    async def whole() -> bool:
        return all([await bound(cluster, name) == size for name, size in sizes.items()])

    await cluster.until(f"all are bound ({early} were when the leader was killed)", whole, 0.5)
    assert await leads(cluster, second)
    for name in sizes:
        names = [pod for pod, _ in bound_at(plane, f"{name}-")]
        assert len(names) == len(set(names))
    took = max(at for name in sizes for _, at in bound_at(plane, f"{name}-")) - killed
    assert early < sizes["large"]
    note(f"the leader is killed at {early} of 500; all are bound", took, Timing().duration + 5)


async def test_a_namespace_goes_away_with_the_gang_in_it(cluster: Cluster) -> None:
    cluster.muster("fake-nodes", "1 x name=ending,cpu=4,memory=8Gi,label:test=ending")
    cluster.daemon("scheduler")
    cluster.daemon("controllers")
    await cluster.make(NAMESPACE, {"metadata": {"name": "ending"}})
    await cluster.until(
        "its service account", lambda: cluster.client.get(SERVICE_ACCOUNT, "ending", "default")
    )
    await cluster.make(POD_GROUP_X, {"metadata": {"name": "last"}, "spec": {"minMember": 2}}, "ending")
    for index in range(2):
        await cluster.make(POD, member("last", index, test="ending"), "ending")

    async def running() -> bool:
        pods = (await cluster.client.list(POD, "ending")).items
        return [pod.status.phase for pod in pods] == ["Running", "Running"]

    await cluster.until("the gang runs", running)
    await cluster.client.delete(NAMESPACE, "", "ending")

    async def gone() -> bool:
        with suppress(NotFound):
            await cluster.client.get(NAMESPACE, "", "ending")
            return False
        return True

    await cluster.until("the namespace is gone", gone)
