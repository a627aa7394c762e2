"""A start that cannot be completed: the gang is given back whole."""

from collections import Counter
from datetime import datetime

import pytest

from muster.api.kinds import NODE, POD, POD_GROUP_X
from tests.cluster.conftest import Cluster
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gangs import POD_GROUP_LABEL, binds, bound, done, given_back_at, leads, member, times
from tests.cluster.goals import note

SIZE, NODES = 500, 10
#: Pods that the leader binds at most before it is killed.
MOST = 450
#: Seconds from the new leader's election until the last bound pod should have been given back.
GIVEN_BACK = 10.0


@pytest.mark.parametrize("killed_at", [150, 350])
async def test_a_gang_whose_leader_was_killed_and_whose_nodes_are_gone_is_given_back_whole(
    cluster: Cluster, plane: ControlPlane, killed_at: int
) -> None:
    """Some of 500 pods are bound when the leader is killed; then half of the nodes are cordoned.

    The half with the fewest pods has the nodes that the gang still lacks, however far its binds came.
    """
    if not plane.audit.is_file():
        pytest.skip("this cluster shows no audit log")
    half = f"half-{killed_at}"
    cluster.muster("fake-nodes", f"{NODES} x name={half},cpu={SIZE // NODES},memory=64Gi,label:test={half}")
    killed = cluster.daemon("scheduler", holds=f"{half}={MOST}")
    cluster.daemon("controllers")
    await cluster.make(POD_GROUP_X, {"metadata": {"name": half}, "spec": {"minMember": SIZE}})
    since = plane.audit.stat().st_size

    async def begun() -> bool:
        return binds(plane, since) >= killed_at

    for index in range(SIZE):
        await cluster.make(POD, member(half, index, test=half))
    await cluster.until(f"{killed_at} pods are bound", begun, 0.002)
    killed.kill()
    used = Counter(node for _, node in (await pods(cluster, half)).values())
    nodes = [node.metadata.name for node in (await cluster.client.list(NODE, labels=f"test={half}")).items]
    for node in sorted(nodes, key=used.__getitem__)[: NODES // 2]:
        await cluster.client.patch(NODE, "", node, {"spec": {"unschedulable": True}})
    before = await pods(cluster, half)
    renewals = len(times(plane, "patch", "leases", "muster-scheduler"))
    cluster.daemon("scheduler")

    async def taken_over() -> bool:
        nonlocal before
        found = await pods(cluster, half)
        if await leads(cluster, killed):
            before = found  # with the last binds of the one that was killed
            return False
        return True

    await cluster.until("another leader is elected", taken_over)
    started = {name for name, node in before.values() if node}
    assert killed_at <= len(started) < SIZE

    async def given_back() -> bool:
        return len(await pods(cluster, half)) == SIZE and await bound(cluster, half) == 0

    await cluster.until("all are given back", given_back)
    elected = times(plane, "patch", "leases", "muster-scheduler")[renewals]
    returned = given_back_at(plane, f"{half}-")
    assert {name for name, _ in returned} == started
    last = max(at for name, _, at in done(plane, "create", "pods") if name in started)
    note(f"{len(started)} of {SIZE} are given back after the election", last - elected, GIVEN_BACK)
    print(spans(plane, elected))
    after = await pods(cluster, half)
    assert {name for name, _ in after.values()} == {name for name, _ in before.values()}
    assert {uid for uid, (name, _) in before.items() if name not in started} <= after.keys()
    for node in nodes:
        await cluster.client.patch(NODE, "", node, {"spec": {"unschedulable": False}})

    async def whole() -> bool:
        return await bound(cluster, half) == SIZE

    await cluster.until("it starts", whole)


def spans(plane: ControlPlane, since: float) -> dict[str, tuple[int, float, float]]:
    """Requests after a time, by verb, resource and status: how many, the first and the last (seconds)."""
    found: dict[str, list[float]] = {}
    for entry in plane.entries():
        match entry:
            case {
                "verb": str(verb),
                "objectRef": {"resource": str(of), **rest},
                "responseStatus": {"code": int(code)},
                "stageTimestamp": str(at),
            } if (after := datetime.fromisoformat(at).timestamp() - since) > 0:
                found.setdefault(f"{verb} {of}/{rest.get('subresource', '')} {code}", []).append(after)
    return {what: (len(at), round(min(at), 2), round(max(at), 2)) for what, at in found.items()}


async def pods(cluster: Cluster, gang: str) -> dict[str, tuple[str, str]]:
    """Name and node of the gang's pods, by uid."""
    found = await cluster.client.list(POD, "default", labels=f"{POD_GROUP_LABEL}={gang}")
    return {pod.metadata.uid: (pod.metadata.name, pod.spec.node_name) for pod in found.items}
