"""What Koordinator promises of gangs, in its own objects, on the embedded store with the real core."""

import asyncio

import pytest

from muster.api import kinds
from muster.api.base import Object, condition
from muster.api.core_v1 import Pod
from tests.runtime.reports.test_conditions import Scheduled, scheduled
from tests.runtime.test_loop import pod

pytestmark = pytest.mark.looptime

LABEL = "pod-group.scheduling.sigs.k8s.io"
#: the node with so many CPUs that each test has
CPUS = 4


def group(
    cluster: Scheduled, name: str, least: int, annotations: Object | None = None, **spec: object
) -> None:
    marks = {f"gang.scheduling.koordinator.sh/{key}": value for key, value in (annotations or {}).items()}
    cluster.create(
        kinds.POD_GROUP_SIGS,
        {"metadata": {"name": name, "annotations": marks}, "spec": {"minMember": least, **spec}},
    )


def members(cluster: Scheduled, name: str, count: int, priority: str = "") -> None:
    for index in range(count):
        body = pod(f"{name}-{index}", labels={LABEL: name})
        body["spec"] |= {"priorityClassName": priority} if priority else {}
        cluster.create(kinds.POD, body)


def classes(cluster: Scheduled) -> None:
    for name, value in (("mid", 50), ("high", 100)):
        cluster.create(kinds.PRIORITY_CLASS, {"metadata": {"name": name}, "value": value})


async def victims(cluster: Scheduled) -> list[str]:
    return sorted(
        each.metadata.name
        for each in await cluster.all(kinds.POD)
        if condition(each.status.conditions, "DisruptionTarget") is not None
    )


async def nominated(cluster: Scheduled) -> dict[str, str]:
    pods: list[Pod] = await cluster.all(kinds.POD)
    return {p.metadata.name: p.status.nominated_node_name for p in pods if p.status.nominated_node_name}


async def test_pods_above_the_minimum_are_the_victims_where_they_suffice() -> None:
    async with scheduled() as cluster:
        cluster.node("a", cpu=CPUS)
        classes(cluster)
        group(cluster, "low", 2)
        members(cluster, "low", 4)
        await asyncio.sleep(5)
        assert len(await cluster.bound()) == CPUS
        group(cluster, "high", 2)
        members(cluster, "high", 2, "high")
        await asyncio.sleep(5)
        assert await victims(cluster) == ["low-2", "low-3"]
        assert await nominated(cluster) == {"high-0": "a", "high-1": "a"}


async def test_no_two_gangs_are_nominated_to_the_same_room() -> None:
    """Koordinator clears the nominations of lower priority on the nodes that a preemptor takes.

    Here a nomination stands for a hold, which no other gang takes. Once that gang runs it may be a victim.
    """
    async with scheduled() as cluster:
        cluster.node("a", cpu=CPUS)
        classes(cluster)
        group(cluster, "low", 4)
        members(cluster, "low", 4)
        await asyncio.sleep(5)
        group(cluster, "mid", 4)
        members(cluster, "mid", 4, "mid")
        await asyncio.sleep(5)  # no kubelet is here, so the victims keep leaving
        assert await nominated(cluster) == {f"mid-{index}": "a" for index in range(4)}
        group(cluster, "high", 4)
        members(cluster, "high", 4, "high")
        await asyncio.sleep(30)
        assert await nominated(cluster) == {f"mid-{index}": "a" for index in range(4)}
        for index in range(4):
            await cluster.client.delete(kinds.POD, "default", f"low-{index}", grace_period=0)
        await asyncio.sleep(30)
        assert await nominated(cluster) == {f"high-{index}": "a" for index in range(4)}
        assert await victims(cluster) == [f"mid-{index}" for index in range(4)]


@pytest.mark.parametrize("mode", ["Strict", "NonStrict"])
async def test_in_both_modes_no_member_holds_a_node_while_others_do_not_fit(mode: str) -> None:
    async with scheduled() as cluster:
        cluster.node("a", cpu=CPUS)
        group(cluster, "big", 5, {"mode": mode}, scheduleTimeoutSeconds=1, minResources={"cpu": "1000"})
        members(cluster, "big", 5)
        await asyncio.sleep(5)
        assert await cluster.bound() == {}
        group(cluster, "small", 4)
        members(cluster, "small", 4)
        await asyncio.sleep(5)
        assert len(await cluster.bound()) == CPUS, "the whole node is free for them"


@pytest.mark.parametrize("policy", ["once-satisfied", "only-waiting", "waiting-and-running"])
async def test_a_waiting_time_ends_no_gang_and_a_late_member_completes_it(policy: str) -> None:
    """Neither does `minResources` hold it up: its pods say what they need."""
    async with scheduled() as cluster:
        cluster.node("a", cpu=CPUS)
        group(
            *(cluster, "late", 2, {"match-policy": policy}),
            scheduleTimeoutSeconds=1,
            minResources={"cpu": "1000"},
        )
        members(cluster, "late", 1)
        await asyncio.sleep(60)
        assert await cluster.bound() == {}
        cluster.create(kinds.POD, pod("late-1", labels={LABEL: "late"}))
        await asyncio.sleep(5)
        assert sorted(await cluster.bound()) == ["late-0", "late-1"]


async def test_a_gang_whose_pods_never_preempt_waits() -> None:
    async with scheduled() as cluster:
        cluster.node("a", cpu=CPUS)
        classes(cluster)
        group(cluster, "low", 4)
        members(cluster, "low", 4)
        await asyncio.sleep(5)
        never = {"metadata": {"name": "never"}, "value": 100, "preemptionPolicy": "Never"}
        cluster.create(kinds.PRIORITY_CLASS, never)
        group(cluster, "high", 2)
        members(cluster, "high", 2, "never")
        await asyncio.sleep(30)
        assert (await victims(cluster), await nominated(cluster)) == ([], {})
