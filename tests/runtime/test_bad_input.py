"""What people do to gangs while they are placed: muster stays up, and each gang says what is wrong."""

import asyncio
from typing import Any

import pytest

from muster.api import kinds
from muster.api.base import Kind, Object
from muster.api.muster_v1alpha1 import Gang
from muster.embedded.client import LocalClient
from tests.runtime.test_loop import Cluster, _planned, cluster, pod, scheduler

__all__ = ["cluster"]
pytestmark = pytest.mark.looptime

LABEL = "scheduling.x-k8s.io/pod-group"
#: Groups that cannot start, at once.
GARBAGE = 2_000


def group(name: str, minimum: Any, **metadata: Any) -> Object:  # Any: what people write
    return {"metadata": {"name": name, **metadata}, "spec": {"minMember": minimum}}


def member(name: str, index: int, cpu: str = "1") -> Object:
    return pod(f"{name}-{index}", cpu, labels={LABEL: name})


def gang(cluster: Cluster, name: str, size: int, cpu: str = "1") -> None:
    cluster.create(kinds.POD_GROUP_X, group(name, size))
    for index in range(size):
        cluster.create(kinds.POD, member(name, index, cpu))


async def bound(cluster: Cluster, name: str) -> list[str]:
    return sorted(pod for pod in await cluster.bound() if pod.startswith(f"{name}-"))


async def record(cluster: Cluster, name: str) -> Gang:
    found: Gang = await cluster.client.get(kinds.GANG, "default", f"podgroup-{name}")
    return found


async def told(cluster: Cluster, name: str) -> tuple[str, str]:
    """Phase and reason."""
    status = (await record(cluster, name)).status
    return status.phase, status.reason.code if status.reason is not None else ""


async def stands(cluster: Cluster, name: str, size: int) -> bool:
    return len(await bound(cluster, name)) == size and not await _planned(cluster)


async def another_starts(cluster: Cluster) -> None:
    """The scheduler is up, and has room for others."""
    gang(cluster, "other", 2)
    await cluster.until(lambda: stands(cluster, "other", 2))


async def test_a_running_gang_that_shrinks_keeps_its_pods(cluster: Cluster) -> None:
    cluster.node("node-0", 8)
    async with scheduler(cluster):
        gang(cluster, "g", 4)
        await cluster.until(lambda: stands(cluster, "g", 4))
        cluster.registry.patch(kinds.POD_GROUP_X, "default", "g", {"spec": {"minMember": 2}})
        await cluster.client.delete(kinds.POD, "default", "g-3", grace_period=0)
        await asyncio.sleep(30)
        assert await bound(cluster, "g") == ["g-0", "g-1", "g-2"]
        assert await told(cluster, "g") == ("Standing", "")
        await another_starts(cluster)


@pytest.mark.parametrize("fits", [True, False])
async def test_a_running_gang_that_grows_gets_more_places_or_says_why_not(
    cluster: Cluster, fits: bool
) -> None:
    cluster.node("node-0", 8)
    async with scheduler(cluster):
        gang(cluster, "g", 3)
        await cluster.until(lambda: stands(cluster, "g", 3))
        cluster.registry.patch(kinds.POD_GROUP_X, "default", "g", {"spec": {"minMember": 5}})
        for index in (3, 4):
            cluster.create(kinds.POD, member("g", index, "1" if fits else "9"))
        await asyncio.sleep(90)
        assert len(await bound(cluster, "g")) == (5 if fits else 3), "what runs goes on"
        phase, reason = await told(cluster, "g")
        assert (phase, bool(reason)) == (("Standing", False) if fits else ("Degraded", True))
        await another_starts(cluster)


@pytest.mark.parametrize("all_of_them", [True, False])
async def test_members_that_are_created_again_under_their_names_are_bound_again(
    cluster: Cluster, all_of_them: bool
) -> None:
    cluster.node("node-0", 8)
    async with scheduler(cluster):
        gang(cluster, "g", 3)
        await cluster.until(lambda: stands(cluster, "g", 3))
        before = {pod.metadata.name: pod.metadata.uid for pod in await cluster.all(kinds.POD)}
        for index in range(3 if all_of_them else 1):
            await cluster.client.delete(kinds.POD, "default", f"g-{index}", grace_period=0)
            cluster.create(kinds.POD, member("g", index))
        await cluster.until(lambda: stands(cluster, "g", 3))
        after = {pod.metadata.name: pod.metadata.uid for pod in await cluster.all(kinds.POD)}
        assert sum(before[name] != after[name] for name in after) == (3 if all_of_them else 1)
        await another_starts(cluster)


async def test_a_group_that_is_deleted_under_running_pods_leaves_them_alone(cluster: Cluster) -> None:
    cluster.node("node-0", 8)
    async with scheduler(cluster):
        gang(cluster, "g", 3)
        await cluster.until(lambda: stands(cluster, "g", 3))
        await cluster.client.delete(kinds.POD_GROUP_X, "default", "g")
        await asyncio.sleep(30)
        assert len(await bound(cluster, "g")) == 3
        await another_starts(cluster)


async def test_a_group_that_is_deleted_while_its_start_is_undone_does_not_get_its_pods_back(
    cluster: Cluster,
) -> None:
    cluster.node("node-0", 8)
    async with scheduler(cluster):
        gang(cluster, "g", 3)
        await cluster.until(lambda: _planned(cluster), pause=0.001)
        await cluster.client.delete(kinds.POD_GROUP_X, "default", "g")
        for index in range(3):
            await cluster.client.delete(kinds.POD, "default", f"g-{index}", grace_period=0)
        await asyncio.sleep(90)
        assert not await bound(cluster, "g")
        assert not await _planned(cluster)
        await another_starts(cluster)


async def test_a_gang_starts_though_thousands_of_groups_are_garbage(cluster: Cluster) -> None:
    """Groups without pods, with minima that no cluster has, and pods that no node has room for."""
    cluster.node("node-0", 8)
    for number in range(GARBAGE):
        name = f"garbage{number}"
        cluster.create(kinds.POD_GROUP_X, group(name, (2, 2**31 - 1, 1, 50_001)[number % 4]))
        if number % 4 == 2:
            cluster.create(kinds.POD, member(name, 0, "999"))
    async with scheduler(cluster, controllers=False):
        await another_starts(cluster)
        for name in ("garbage2", f"garbage{GARBAGE - 2}"):
            assert await told(cluster, name) == ("Waiting", "NothingMatches")
        assert len(await cluster.bound()) == 2


async def test_a_node_that_flaps_costs_no_running_gang_anything_and_others_start(cluster: Cluster) -> None:
    """It is not ready, ready, gone and there again, sixty times in a minute."""
    cluster.node("node-0", 3)
    cluster.node("node-1", 2)
    async with scheduler(cluster):
        gang(cluster, "g", 3)
        await cluster.until(lambda: stands(cluster, "g", 3))
        before = {pod.metadata.uid for pod in await cluster.all(kinds.POD)}
        gang(cluster, "waits", 5)
        for second in range(60):
            ready = "False" if second % 2 else "True"
            status = {"conditions": [{"type": "Ready", "status": ready}]}
            cluster.registry.patch(kinds.NODE, "", "node-0", {"status": status}, subresource="status")
            if second % 10 == 9:
                await cluster.client.delete(kinds.NODE, "", "node-0")
                await asyncio.sleep(0.1)
                cluster.node("node-0", 3)
            await asyncio.sleep(0.9)
        pods = await cluster.all(kinds.POD)
        assert before <= {pod.metadata.uid for pod in pods}, "muster evicts nothing because of a node"
        assert await bound(cluster, "waits") == []
        assert await told(cluster, "waits") == ("Waiting", "InsufficientCapacity")
        assert (await told(cluster, "g"))[0] == "Standing"
        await another_starts(cluster)


@pytest.mark.parametrize("ahead", [3600.0, -3600.0])
async def test_a_leader_whose_clock_is_an_hour_off_goes_on_where_the_other_stopped(
    cluster: Cluster, ahead: float
) -> None:
    cluster.node("node-0", 8)
    async with scheduler(cluster):
        gang(cluster, "g", 4)
        gang(cluster, "waits", 9)
        await cluster.until(lambda: _planned(cluster), pause=0.001)
    cluster.clock.ahead = ahead
    async with scheduler(cluster, epoch=2):
        await cluster.until(lambda: stands(cluster, "g", 4))
        await asyncio.sleep(30)
        assert (await told(cluster, "waits"))[0] == "Waiting"
        await another_starts(cluster)
    cluster.clock.ahead = 0.0
    async with scheduler(cluster, epoch=3):
        for index in range(4):
            await cluster.client.delete(kinds.POD, "default", f"g-{index}", grace_period=0)
        gang(cluster, "last", 6)
        await cluster.until(lambda: stands(cluster, "last", 6))


class Busy(LocalClient):
    """An API server that takes a second for each record of a gang that only waits."""

    async def create(self, kind: Kind[Any], namespace: str, obj: Object) -> Any:
        if kind is kinds.GANG and "plan" not in obj:
            await asyncio.sleep(1)
        return await super().create(kind, namespace, obj)


async def test_a_gang_starts_before_the_reasons_of_those_that_wait_are_written(cluster: Cluster) -> None:
    cluster.client = Busy(cluster.registry)
    cluster.node("node-0", 8)
    for number in range(500):
        cluster.create(kinds.POD_GROUP_X, group(f"garbage{number}", 2))
        cluster.create(kinds.POD, member(f"garbage{number}", 0))
    async with scheduler(cluster, controllers=False):
        await cluster.until(lambda: cluster.all(kinds.GANG))
        gang(cluster, "other", 2)
        await cluster.until(lambda: stands(cluster, "other", 2), 3)


class OldDefinition(LocalClient):
    """An API server whose definition of Gangs knows no plans: it drops the field, as a schema does."""

    async def create(self, kind: Kind[Any], namespace: str, obj: Object) -> Any:
        return await super().create(kind, namespace, self._pruned(kind, obj))

    async def patch(self, kind: Kind[Any], namespace: str, name: str, patch: Any, **how: Any) -> Any:
        return await super().patch(kind, namespace, name, self._pruned(kind, patch), **how)

    @staticmethod
    def _pruned(kind: Kind[Any], body: Any) -> Any:
        if kind is kinds.GANG and isinstance(body, dict):
            return {key: value for key, value in body.items() if key != "plan"}
        if kind is kinds.GANG and isinstance(body, list):  # a JSON patch
            return [each for each in body if each["op"] == "test" or each["path"] != "/plan"]
        return body


async def test_gangs_whose_definition_is_of_an_earlier_version_do_not_start_without_a_plan(
    cluster: Cluster,
) -> None:
    cluster.client = OldDefinition(cluster.registry)
    cluster.node("node-0", 8)
    async with scheduler(cluster):
        gang(cluster, "g", 3)
        cluster.create(kinds.POD, pod("alone"))
        await asyncio.sleep(60)
        assert [*await cluster.bound()] == ["alone"], "a gang without a plan could be left in part"
        assert await told(cluster, "g") == ("Waiting", "CommitFailed")
        writes = cluster.store.revision
        await asyncio.sleep(60)
        assert cluster.store.revision - writes < 20


@pytest.mark.parametrize("on_partial", ["recreate", "keep"])
async def test_pods_that_their_nodes_refuse_are_created_again_and_bound_elsewhere(
    cluster: Cluster, on_partial: str
) -> None:
    """As a kubelet refuses them when another scheduler was faster. With `keep`, the gang says so."""
    for number in range(3):
        cluster.node(f"node-{number}", 2)
    async with scheduler(cluster):
        marks = {"muster.dev/on-partial": on_partial}
        cluster.create(kinds.POD_GROUP_X, group("g", 4, annotations=marks))
        for index in range(4):
            cluster.create(kinds.POD, member("g", index))
        await cluster.until(lambda: stands(cluster, "g", 4))
        before = {pod.metadata.name: pod.metadata.uid for pod in await cluster.all(kinds.POD)}
        refused = [name for name, node in (await cluster.bound()).items() if node == "node-0"]
        assert len(refused) == 2
        await refuse(cluster, refused)
        if on_partial == "keep":
            await asyncio.sleep(10)
            assert await told(cluster, "g") == ("Degraded", "MembersMissing")
            for name in refused:
                await cluster.client.delete(kinds.POD, "default", name, grace_period=0)
                cluster.create(kinds.POD, member("g", int(name[-1])))

        async def whole() -> bool:
            pods = [pod for pod in await cluster.all(kinds.POD) if not pod.terminal]
            return sum(bool(pod.spec.node_name) for pod in pods) == 5 and not await _planned(cluster)

        await cluster.until(whole)
        assert {(await cluster.bound())[name] for name in refused} == {"node-2"}
        await cluster.until(lambda: _says(cluster, "Standing"))
        after = {pod.metadata.name: pod.metadata.uid for pod in await cluster.all(kinds.POD)}
        assert {name for name in before if before[name] != after[name]} == {*refused}, "the others go on"


async def test_pods_that_their_nodes_refuse_again_and_again_are_created_less_and_less_often(
    cluster: Cluster,
) -> None:
    cluster.node("node-0", 2)
    async with scheduler(cluster):
        gang(cluster, "g", 2)
        uids = set()
        for _ in range(2400):
            lives = [pod for pod in await cluster.all(kinds.POD) if pod.spec.node_name and not pod.terminal]
            uids |= {pod.metadata.uid for pod in lives}
            await refuse(cluster, [pod.metadata.name for pod in lives], foreign=False)
            await asyncio.sleep(0.25)
        assert 4 <= len(uids) <= 40, "in ten minutes"


async def refuse(cluster: Cluster, names: list[str], *, foreign: bool = True) -> None:
    """Another scheduler's pod fills node-0, and the node refuses these pods."""
    if foreign:
        other = pod("foreign", "2")
        other["spec"] |= {"schedulerName": "another", "nodeName": "node-0"}
        cluster.create(kinds.POD, other)
    status = {"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: OutOfcpu"}
    for name in names:
        cluster.registry.patch(kinds.POD, "default", name, {"status": status}, subresource="status")


async def _says(cluster: Cluster, phase: str) -> bool:
    return (await told(cluster, "g"))[0] == phase
