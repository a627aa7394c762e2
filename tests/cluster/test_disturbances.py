"""What happens around a leader: it stands still, the API server is gone, clocks differ, a node flaps."""

import signal
import subprocess
import time
from collections import Counter
from datetime import UTC, datetime

import pytest

from muster.api.kinds import GANG, LEASE, NODE, POD, POD_GROUP_X
from muster.names import RUNTIME
from muster.runtime.election import Timing
from tests.cluster.conftest import Cluster
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gangs import (
    POD_GROUP_LABEL,
    binds,
    bound,
    bound_at,
    gang,
    given_back_at,
    leads,
    member,
    times,
)
from tests.cluster.goals import note

SIZE, NODES = 400, 8
#: Pods that a leader binds at most that is to be stopped or killed before its gang is whole.
MOST = SIZE - 50


@pytest.fixture(autouse=True)
def seen(plane: ControlPlane) -> None:
    if not plane.audit.is_file():
        pytest.skip("this cluster shows no audit log")


async def test_a_leader_that_is_stopped_across_its_lease_and_continued_does_no_harm(
    cluster: Cluster, plane: ControlPlane
) -> None:
    stopped = await begin(cluster, "paused", f"paused={MOST}")
    since = plane.audit.stat().st_size
    await cluster.make(POD, member("paused", SIZE - 1, test="paused"))
    await begun(cluster, plane, since)
    stopped.send_signal(signal.SIGSTOP)
    early = 0
    try:

        async def taken_over() -> bool:
            nonlocal early
            counted = binds(plane, since)
            if await leads(cluster, stopped):
                early = counted
                return False
            return True

        await cluster.until("another leader is elected", taken_over)
        assert early < SIZE

        async def goes_on() -> bool:
            return binds(plane, since) > early

        await cluster.until("it binds", goes_on, 0.002)
    finally:
        stopped.send_signal(signal.SIGCONT)
    await ends_whole(cluster, plane, "paused")

    async def given_up() -> bool:
        return stopped.poll() is not None

    await cluster.until("the first leader ends", given_up)
    assert not await leads(cluster, stopped)


async def test_the_api_server_is_killed_and_its_history_compacted_in_the_middle_of_a_gang(
    cluster: Cluster, plane: ControlPlane
) -> None:
    if not plane.processes:
        pytest.skip("this cluster is not this test's to kill")
    await begin(cluster, "cut")
    since = plane.audit.stat().st_size
    await cluster.make(POD, member("cut", SIZE - 1, test="cut"))
    await begun(cluster, plane, since)
    plane.kill("kube-apiserver")
    plane.compact()
    plane.restart_api_server()
    await ends_whole(cluster, plane, "cut")


@pytest.mark.parametrize("ahead", [3600.0, -3600.0])
async def test_replicas_whose_clocks_differ_by_two_hours_follow_each_other(
    cluster: Cluster, plane: ControlPlane, ahead: float
) -> None:
    """Each waits by its own monotonic clock, and no date that another has written ends anything early."""
    name = "ahead" if ahead > 0 else "behind"
    first = cluster.daemon("scheduler", ahead=ahead, holds=f"{name}={MOST}")
    await cluster.until("the first leads", lambda: leads(cluster, first))
    terms = (await cluster.client.get(LEASE, "muster-system", "muster-scheduler")).spec.lease_transitions
    second = cluster.daemon("scheduler", ahead=-ahead)
    await fill(cluster, name)
    since = plane.audit.stat().st_size
    await cluster.make(POD, member(name, SIZE - 1, test=name))
    await begun(cluster, plane, since)
    assert await leads(cluster, first)
    first.kill()
    killed = time.time()
    await ends_whole(cluster, plane, name)
    assert await leads(cluster, second)
    lease = await cluster.client.get(LEASE, "muster-system", "muster-scheduler")
    assert lease.spec.lease_transitions == terms + 1
    assert given_back_at(plane, f"{name}-") == []
    took = max(at for _, at in bound_at(plane, f"{name}-")) - killed
    note(
        f"the leader of {SIZE} is killed, its clock {ahead:+.0f} s; all are bound",
        took,
        Timing().duration + 5,
    )


async def test_a_node_that_flaps_delays_no_other_gang_and_is_used_once_it_stays(
    cluster: Cluster, plane: ControlPlane
) -> None:
    cluster.muster("fake-nodes", "1 x name=calm,cpu=8,memory=8Gi,label:test=calm")
    cluster.daemon("scheduler")
    cluster.daemon("controllers")
    await cluster.make(
        NODE, {"metadata": {"name": "flapping", "labels": {"test": "flapping", RUNTIME: "none"}}}
    )
    flips = 0

    async def flip() -> None:
        nonlocal flips
        flips += 1
        await report()

    async def report() -> None:
        """The node's condition. One that is not repeated becomes Unknown after some seconds."""
        room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        ready = {
            "type": "Ready",
            "status": "True" if flips % 2 else "False",
            "lastHeartbeatTime": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        status = {"capacity": room, "allocatable": room, "conditions": [ready]}
        await cluster.client.patch(NODE, "", "flapping", {"status": status}, subresource="status")

    await flip()
    await gang(cluster, "never", 6, test="flapping")  # too large for it, flapping or not
    await gang(cluster, "delayed", 4, test="flapping")
    for number in range(4):
        await gang(cluster, f"calm-{number}", 2, test="calm")

    async def calm_ones_are_bound() -> bool:
        await flip()
        return all([await bound(cluster, f"calm-{number}") == 2 for number in range(4)])

    await cluster.until("the others start while it flaps", calm_ones_are_bound)
    while flips < 61 or flips % 2 == 0:  # the last one is that it is ready
        await flip()

    async def late_one_is_bound() -> bool:
        await report()
        return await bound(cluster, "delayed") == 4

    await cluster.until("the gang for it starts", late_one_is_bound)

    async def told() -> bool:
        await report()
        record = await cluster.client.get(GANG, "default", "podgroup-never")
        return record.status.phase == "Waiting" and "InsufficientCapacity" in str(record.status)

    await cluster.until("the other is told why it waits", told)
    names = [pod for pod, _ in bound_at(plane, "delayed-")]
    returned = [
        pod for pod, _ in given_back_at(plane, "delayed-")
    ]  # if it was bound in part while the node left
    assert sorted(names) == sorted([*returned, *(f"delayed-{index}" for index in range(4))])
    writes = len(times(plane, "patch", "gangs", "podgroup-never"))
    print(f"{flips} changes of the node, and {writes} writes about the gang that waits for it")
    assert writes < flips


async def begin(cluster: Cluster, name: str, holds: str = "") -> subprocess.Popen[bytes]:
    """A gang that lacks its last pod, and two replicas of the scheduler; returns the one that leads."""
    first = cluster.daemon("scheduler", holds=holds)
    await cluster.until("the first leads", lambda: leads(cluster, first))
    cluster.daemon("scheduler")
    await fill(cluster, name)
    return first


async def fill(cluster: Cluster, name: str) -> None:
    """Nodes, and a gang for them that lacks its last pod."""
    cluster.muster("fake-nodes", f"{NODES} x name={name},cpu={SIZE // NODES},memory=64Gi,label:test={name}")
    cluster.daemon("controllers")
    await cluster.make(POD_GROUP_X, {"metadata": {"name": name}, "spec": {"minMember": SIZE}})
    for index in range(SIZE - 1):
        await cluster.make(POD, member(name, index, test=name))


async def begun(cluster: Cluster, plane: ControlPlane, since: int) -> None:
    async def some() -> bool:
        return binds(plane, since) >= 50

    await cluster.until("50 pods are bound", some, 0.002)


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
