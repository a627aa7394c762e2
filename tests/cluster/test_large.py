"""A gang of ten thousand members with names of 60 characters, whose leader is killed."""

import signal
from collections import Counter
from time import monotonic
from typing import Any, Final

import pytest

from muster.api.base import Kind, Object
from muster.api.kinds import GANG, GANG_PLAN, LEASE, POD, POD_GROUP_X
from muster.kube.errors import NotFound
from tests.cluster.conftest import Cluster
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gangs import bound, bound_at, member

SIZE, NODES = 10_000, 100
#: Characters of the gang's name, such that its pods' names have 60.
NAME: Final = ("a-gang-with-a-name-as-long-as-people-and-their-tools-make" + "x" * 9)[:54]
#: The most that etcd takes in one request, and an object in its annotations.
MOST_BYTES, MOST_ANNOTATIONS = 1_572_864, 262_144


async def test_ten_thousand_members_with_long_names_are_whole_though_their_leader_is_killed(
    cluster: Cluster, plane: ControlPlane
) -> None:
    if not plane.audit.is_file():
        pytest.skip("this cluster shows no audit log")
    began = monotonic()

    def step(what: str) -> None:
        print(f"{monotonic() - began:.0f} s: {what}", flush=True)

    cluster.muster("fake-nodes", f"{NODES} x name=large,cpu=8,memory=64Gi,pods=110,label:test=large")
    replicas = {process.pid: process for process in [cluster.daemon("scheduler") for _ in range(2)]}
    cluster.daemon("controllers")
    await cluster.make(POD_GROUP_X, {"metadata": {"name": NAME}, "spec": {"minMember": SIZE}})
    bodies: list[Object] = [member(NAME, index, "10m", "large") for index in range(SIZE)]
    for index, body in enumerate(bodies):
        body["metadata"]["name"] = f"{NAME}-{index:05}"
    assert {len(body["metadata"]["name"]) for body in bodies} == {60}
    await cluster.make_all(POD, bodies[:-1])
    step("all pods but one are there")
    since = plane.audit.stat().st_size
    largest = Counter[str]()

    async def recorded() -> bool:
        """Notes the plans' sizes as they come and go."""
        kinds: tuple[Kind[Any], ...] = (GANG, GANG_PLAN)
        for kind in kinds:
            for item in (await cluster.client.list(kind, "default")).items:
                await measure(cluster, kind, item.metadata.name, largest)
        return largest["GangPlan"] > 0

    await cluster.make(POD, bodies[-1])
    await cluster.until("the plan is recorded", recorded, 0.05)
    step("the plan is recorded")

    async def begun() -> bool:
        with plane.audit.open("rb") as log:
            log.seek(since)
            return log.read().count(b'"subresource":"binding"') >= SIZE // 2

    await cluster.until("half of them are bound", begun, 0.2)
    lease = await cluster.client.get(LEASE, "muster-system", "muster-scheduler")
    (leads,) = (pid for pid in replicas if f"_{pid}_" in lease.spec.holder_identity)
    replicas[leads].send_signal(signal.SIGKILL)
    step("half of them are bound, and the leader is killed")

    async def whole() -> bool:
        return await bound(cluster, NAME) == SIZE

    await cluster.until("all are bound", whole, 2.0)
    step("all are bound")
    names = [pod for pod, _ in bound_at(plane, NAME, since)]
    assert len(names) == len(set(names))

    async def stands() -> bool:
        record = await cluster.client.get(GANG, "default", f"podgroup-{NAME}")
        plans = (await cluster.client.list(GANG_PLAN, "default")).items
        own = [plan for plan in plans if plan.metadata.name.startswith(record.metadata.name)]
        return record.status.phase == "Standing" and not own

    await cluster.until("the gang stands", stands, 1.0)
    step("the gang stands")
    await measure(cluster, GANG, f"podgroup-{NAME}", largest)
    print(f"the largest objects, in bytes: {dict(largest)}")
    assert max(largest.values()) < MOST_BYTES


async def measure(cluster: Cluster, kind: Any, name: str, largest: Counter[str]) -> None:
    """Notes the size of an object as JSON. No annotations come near their bound."""
    try:
        body = await cluster.client.get_json(kind, "default", name)
    except NotFound:
        return
    size = len(str(body))
    largest[kind.kind] = max(largest[kind.kind], size)
    assert len(str(body["metadata"].get("annotations", ""))) < MOST_ANNOTATIONS
