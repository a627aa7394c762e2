"""Ten thousand at once: members of one gang with long names, whose leader is killed; groups of garbage."""

import asyncio
import signal
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import pytest

from muster.api.base import Kind, Object
from muster.api.kinds import GANG, GANG_PLAN, LEASE, NODE, POD, POD_GROUP_X
from muster.kube.errors import NotFound
from tests.cluster.conftest import CRD, Cluster, open_definition
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gangs import bound, bound_at, gang, member

SIZE, NODES = 10_000, 100
GARBAGE: Final = 10_000
#: Characters of the gang's name, such that its pods' names have 60.
NAME: Final = ("a-gang-with-a-name-as-long-as-people-and-their-tools-make" + "x" * 9)[:54]
#: Seconds until so many are there on a machine with two busy cores.
PATIENCE: Final = 600.0
#: The most that etcd takes in one request, and an object in its annotations.
MOST_BYTES, MOST_ANNOTATIONS = 1_572_864, 262_144


async def make_all(cluster: Cluster, kind: Kind[Any], bodies: Iterable[Object]) -> None:
    """Creates these objects, not more of them at a time than there are connections."""
    waiting = iter(bodies)

    async def work() -> None:
        for body in waiting:
            await cluster.make(kind, body)

    await asyncio.gather(*(work() for _ in range(50)))


async def test_ten_thousand_members_with_long_names_are_whole_though_their_leader_is_killed(
    cluster: Cluster, plane: ControlPlane
) -> None:
    if not plane.audit.is_file():
        pytest.skip("this cluster shows no audit log")
    cluster.muster("fake-nodes", f"{NODES} x name=large,cpu=8,memory=64Gi,pods=110,label:test=large")
    replicas = {process.pid: process for process in [cluster.daemon("scheduler") for _ in range(2)]}
    cluster.daemon("controllers")
    await cluster.make(POD_GROUP_X, {"metadata": {"name": NAME}, "spec": {"minMember": SIZE}})
    bodies: list[Object] = [member(NAME, index, "10m", "large") for index in range(SIZE)]
    for index, body in enumerate(bodies):
        body["metadata"]["name"] = f"{NAME}-{index:05}"
    assert {len(body["metadata"]["name"]) for body in bodies} == {60}
    await make_all(cluster, POD, bodies[:-1])
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

    async def begun() -> bool:
        return plane.audit.read_bytes().count(b'"subresource":"binding"') >= before + 2_000

    before = 0
    await cluster.until("2,000 are bound", begun, 0.2)
    lease = await cluster.client.get(LEASE, "muster-system", "muster-scheduler")
    (leads,) = (pid for pid in replicas if f"_{pid}_" in lease.spec.holder_identity)
    replicas[leads].send_signal(signal.SIGKILL)

    async def whole() -> bool:
        return await bound(cluster, NAME) == SIZE

    await cluster.until("all are bound", whole, 2.0, PATIENCE)
    names = [pod for pod, _ in bound_at(plane, NAME)]
    assert len(names) == len(set(names))

    async def stands() -> bool:
        record = await cluster.client.get(GANG, "default", f"podgroup-{NAME}")
        return record.status.phase == "Standing" and not (await cluster.client.list(GANG_PLAN)).items

    await cluster.until("the gang stands", stands, 1.0, PATIENCE)
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


async def test_among_ten_thousand_groups_of_garbage_a_gang_starts_and_each_says_why_it_waits(
    cluster: Cluster,
) -> None:
    """Minima that no cluster has, pods that no node has room for, and groups without pods."""
    cluster.muster("fake-nodes", "1 x name=clean,cpu=8,memory=8Gi,label:test=clean")

    async def ready() -> bool:
        return len((await cluster.client.list(NODE, labels="test=clean")).items) == 1

    await cluster.until("a node", ready)
    names = [f"garbage-{number:05}" for number in range(GARBAGE)]
    minima = (2, 2**31 - 1, 1, 50_001)
    await make_all(
        cluster,
        POD_GROUP_X,
        (
            {"metadata": {"name": name}, "spec": {"minMember": minima[number % 4]}}
            for number, name in enumerate(names)
        ),
    )
    with_pods = names[2::20]
    await make_all(cluster, POD, (member(name, 0, "999", "clean") for name in with_pods))
    daemon = cluster.daemon("scheduler")
    cluster.daemon("controllers")
    await gang(cluster, "clean", 3, test="clean")

    async def starts() -> bool:
        return await bound(cluster, "clean") == 3

    await cluster.until("the gang starts", starts)

    async def told() -> bool:
        gangs = (await cluster.client.list(GANG, "default")).items
        reasons = {g.metadata.name: g.status.reason.code for g in gangs if g.status.reason is not None}
        return all(reasons.get(f"podgroup-{name}") == "NothingMatches" for name in with_pods)

    await cluster.until("each has its reason", told, 1.0, PATIENCE)
    assert daemon.poll() is None


async def test_a_kind_that_the_cluster_has_in_another_version_is_off_and_the_rest_is_scheduled(
    cluster: Cluster,
) -> None:
    """Its definition is replaced while muster runs. Pods of its groups say that they wait for the group."""
    cluster.muster("fake-nodes", "1 x name=version,cpu=8,memory=8Gi,label:test=version")
    definition = open_definition(POD_GROUP_X)
    (version,) = definition["spec"]["versions"]
    name = definition["metadata"]["name"]
    daemon = cluster.daemon("scheduler")
    await gang(cluster, "before", 2, test="version")

    async def before() -> bool:
        return await bound(cluster, "before") == 2

    await cluster.until("a gang starts", before)
    other = {**version, "name": "v1beta9", "storage": False}
    both = [{**version, "served": False}, other]
    try:
        await cluster.client.patch(CRD, "", name, {"spec": {"versions": both}})
        for index in range(2):
            await cluster.make(POD, member("late", index, test="version"))
        alone = member("alone", 0, test="version")
        alone["metadata"]["labels"] = {}
        await cluster.make(POD, alone)

        async def starts() -> bool:
            return bool((await cluster.client.get(POD, "default", "alone-0")).spec.node_name)

        await cluster.until("a pod of its own starts", starts)

        async def told() -> bool:
            found = (await cluster.client.get(GANG, "default", "podgroup-late")).status.reason
            return found is not None and found.code == "MembersMissing"

        await cluster.until("the gang says what it lacks", told)
        assert await bound(cluster, "late") == 0
        assert await bound(cluster, "before") == 2
        assert daemon.poll() is None
    finally:
        await cluster.client.patch(CRD, "", name, {"spec": {"versions": [version]}})
    group = {"metadata": {"name": "late"}, "spec": {"minMember": 2}}

    async def made() -> bool:
        await cluster.make(POD_GROUP_X, group)
        return True

    await cluster.until("the version is served again", made)

    async def late() -> bool:
        return await bound(cluster, "late") == 2

    await cluster.until("its gang starts", late)
