"""The condition that autoscalers look at, on the embedded store with the real core, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from muster.api import kinds
from muster.api.base import condition
from muster.api.core_v1 import Pod
from muster.core.cycle import Scheduler
from muster.embedded.client import LocalClient
from muster.journal import Tee
from muster.kube.errors import Forbidden
from muster.kube.informers import Informers
from muster.names import QUEUE
from muster.runtime.budget import WriteBudget
from muster.runtime.group_events import GroupEvents
from muster.runtime.leader import Term
from muster.runtime.loop import run
from muster.runtime.reports.conditions import IN_FLIGHT, MISSING, ConditionReports
from muster.runtime.starts import Decisions
from muster.runtime.watched import WatchedMirror
from muster.translate.disclosure import EVERYTHING
from tests.runtime.test_loop import Cluster, pod

pytestmark = pytest.mark.looptime


@dataclass
class Scheduled(Cluster):
    def __post_init__(self) -> None:
        super().__init__()

    def gang(self, name: str, size: int, cpu: str = "1", **spec: object) -> None:
        self.create(kinds.POD_GROUP_X, {"metadata": {"name": name}, "spec": {"minMember": size}})
        for index in range(size):
            self.member(name, index, cpu)

    def member(self, name: str, index: int, cpu: str = "1", **labels: str) -> None:
        label = {"scheduling.x-k8s.io/pod-group": name, **labels}
        self.create(kinds.POD, pod(f"{name}-{index}", cpu, labels=label))

    async def reasons(self) -> dict[str, str]:
        """The reason for which each pod is not scheduled, by name."""
        found = {}
        for each in await self.all(kinds.POD):
            told = condition(each.status.conditions, "PodScheduled")
            if told is not None and told.status == "False":
                found[each.metadata.name] = told.reason
        return found

    async def events(self) -> list[tuple[str, str, str, int]]:
        """Kind, name, reason and count of all Events, in order of creation."""
        found = []
        for each in sorted(await self.all(kinds.EVENT), key=lambda e: int(e.metadata.resource_version)):
            whole = await self.client.get_json(kinds.EVENT, each.metadata.namespace, each.metadata.name)
            about = whole["involvedObject"]
            found.append((about["kind"], about["name"], whole["reason"], whole["count"]))
        return found


@asynccontextmanager
async def scheduled() -> AsyncIterator[Scheduled]:
    cluster = Scheduled()
    informers, core, decisions = Informers(cluster.client), Scheduler(), Decisions()
    mirror = WatchedMirror(informers)
    events = GroupEvents(mirror, decisions, EVERYTHING, WriteBudget())
    parts = (
        informers.run(),
        events.run(cluster.client, cluster.clock),
        run(
            cluster.client,
            informers,
            cluster.clock,
            Term(1, sole=True),
            scheduler=core,
            journal=Tee((decisions, events)),
            mirror=mirror,
            reports=[ConditionReports(core, mirror, WriteBudget())],
        ),
    )
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        yield cluster
    finally:
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(result, asyncio.CancelledError), result
        cluster.store.close()


async def test_pods_of_a_gang_that_waits_for_nodes_are_unschedulable_and_a_new_node_is_used_at_once() -> None:
    async with scheduled() as cluster:
        cluster.node("a", cpu=2)
        size = IN_FLIGHT + 5
        cluster.gang("large", size)
        await asyncio.sleep(1)
        assert await cluster.reasons() == {}, "it may start soon"
        await asyncio.sleep(10)
        assert await cluster.reasons() == {f"large-{index}": "Unschedulable" for index in range(size)}
        revision = cluster.store.revision
        await asyncio.sleep(60)
        assert cluster.store.revision == revision, "nothing is written again"
        cluster.node("b", cpu=64)
        await asyncio.sleep(1)
        assert len(await cluster.bound()) == size


async def test_no_member_of_a_gang_that_may_not_start_asks_for_nodes() -> None:
    async with scheduled() as cluster:
        cluster.node("a", cpu=2)
        cluster.create(kinds.QUEUE, {"metadata": {"name": "q"}, "spec": {"capability": {"cpu": "8"}}})
        cluster.gang("fits", 4)
        for index in range(2):
            cluster.create(kinds.POD_GROUP_X, {"metadata": {"name": f"g{index}", "labels": {QUEUE: "q"}}})
        await asyncio.sleep(5)
        patch = {"spec": {"minMember": 4}}
        await cluster.client.patch(kinds.POD_GROUP_X, "default", "g0", patch)
        for index in range(4):
            cluster.member("g0", index)
        await asyncio.sleep(10)
        assert set((await cluster.reasons()).values()) == {"Unschedulable"}
        assert len(await cluster.reasons()) == 8
        await cluster.client.patch(kinds.QUEUE, "", "q", {"spec": {"capability": {"cpu": "3"}}})
        await asyncio.sleep(10)
        reasons = await cluster.reasons()
        assert {reasons[f"g0-{index}"] for index in range(4)} == {"QuotaExceeded"}
        assert {reasons[f"fits-{index}"] for index in range(4)} == {"Unschedulable"}
        await cluster.client.patch(kinds.QUEUE, "", "q", {"spec": {"capability": {"cpu": "8"}}})
        await asyncio.sleep(10)
        assert set((await cluster.reasons()).values()) == {"Unschedulable"}


async def test_the_pods_of_an_invalid_gang_say_so_and_ask_for_no_nodes() -> None:
    async with scheduled() as cluster:
        cluster.node("a", cpu=2)
        cluster.gang("wrong", 3)
        await cluster.client.patch(
            kinds.POD_GROUP_X, "default", "wrong", {"metadata": {"labels": {QUEUE: "none"}}}
        )
        await asyncio.sleep(10)
        assert await cluster.reasons() == {f"wrong-{index}": "Invalid" for index in range(3)}
        revision = cluster.store.revision
        await asyncio.sleep(60)
        assert cluster.store.revision == revision, "nothing is written again"


@pytest.mark.parametrize("absent", [True, False])
async def test_pods_that_wait_for_others_or_for_their_group_say_so_after_a_while(*, absent: bool) -> None:
    async with scheduled() as cluster:
        cluster.node("a", cpu=9)
        if absent:
            cluster.member("g", 0)
        else:
            cluster.gang("g", 1)
            await cluster.client.patch(kinds.POD_GROUP_X, "default", "g", {"spec": {"minMember": 3}})
        await asyncio.sleep(MISSING - 5)
        assert await cluster.reasons() == {}, "most gangs get all of their pods"
        cluster.member("g", 1)
        await asyncio.sleep(MISSING - 5)
        assert await cluster.reasons() == {}, "another one has come"
        await asyncio.sleep(10)
        assert await cluster.reasons() == {f"g-{index}": "MembersMissing" for index in range(2)}
        revision = cluster.store.revision
        await asyncio.sleep(60)
        assert cluster.store.revision == revision, "nothing is written again"
        if absent:
            cluster.create(kinds.POD_GROUP_X, {"metadata": {"name": "g"}, "spec": {"minMember": 2}})
        else:
            cluster.member("g", 2)
        await asyncio.sleep(5)
        assert len(await cluster.bound()) == 2 + (not absent)


@pytest.mark.parametrize("refused", [True, False], ids=["refused", "without effect"])
async def test_a_condition_that_is_not_taken_is_written_again_after_pauses_that_grow(
    refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scheduled() as cluster:
        written: list[float] = []

        async def patch(kind: Any, namespace: str, name: str, body: Any, *, subresource: str = "") -> Any:
            if (kind, name, subresource) != (kinds.POD, "g-0", "status"):
                return await LocalClient.patch(
                    cluster.client, kind, namespace, name, body, subresource=subresource
                )
            written.append(cluster.clock.monotonic())
            if refused:
                raise Forbidden("denied by a webhook")
            return await cluster.client.get(kind, namespace, name)

        monkeypatch.setattr(cluster.client, "patch", patch)
        cluster.node("a", cpu=1)
        cluster.gang("g", 2)
        await asyncio.sleep(200)
        assert await cluster.reasons() == {"g-1": "Unschedulable"}, "the others are told"
        assert len(written) < 12
        pauses = [after - before for before, after in pairwise(written)]
        assert pauses[-1] > 30


async def test_each_lasting_change_of_a_gang_is_one_event_on_its_group() -> None:
    async with scheduled() as cluster:
        cluster.node("a", cpu=4)
        cluster.gang("first", 3)
        await asyncio.sleep(5)
        assert await cluster.events() == [("PodGroup", "first", "Started", 1)], "it was created within 2 s"
        cluster.gang("second", 3)
        cluster.create(kinds.POD, pod("alone", "9"))
        await asyncio.sleep(5)
        waits = [("PodGroup", "second", "InsufficientCapacity", 1), ("Pod", "alone", "NothingMatches", 1)]
        assert sorted((await cluster.events())[1:]) == sorted(waits)
        for index in range(2):
            await cluster.client.delete(kinds.POD, "default", f"first-{index}", grace_period=0)
            cluster.member("first", index)
            await asyncio.sleep(5)
        events = await cluster.events()
        assert len(events) == 3
        assert ("PodGroup", "first", "Started", 3) in events, "the same again is counted"


def _nominations(pods: Iterable[Pod]) -> dict[str, str]:
    return {
        pod.metadata.name: pod.status.nominated_node_name for pod in pods if pod.status.nominated_node_name
    }


@pytest.mark.parametrize("loses", [False, True])
async def test_while_victims_leave_each_pod_shows_the_node_that_it_will_have(*, loses: bool) -> None:
    async with scheduled() as cluster:
        cluster.node("a", cpu=2)
        cluster.gang("low", 2)
        await cluster.until(lambda: _all_bound(cluster, 2))
        cluster.create(kinds.PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 100})
        cluster.create(kinds.POD_GROUP_X, {"metadata": {"name": "high"}, "spec": {"minMember": 2}})
        for index in range(2):
            body = pod(f"high-{index}", labels={"scheduling.x-k8s.io/pod-group": "high"})
            body["spec"]["priorityClassName"] = "high"
            cluster.create(kinds.POD, body)
        await asyncio.sleep(5)  # no kubelet is here, so the victims keep leaving
        assert _nominations(await cluster.all(kinds.POD)) == {"high-0": "a", "high-1": "a"}
        before = {pod.metadata.resource_version for pod in await cluster.all(kinds.POD)}
        await asyncio.sleep(30)
        after = {pod.metadata.resource_version for pod in await cluster.all(kinds.POD)}
        assert after == before, "nothing is written again"
        if loses:
            cluster.registry.delete(kinds.NODE, "", "a")
            await asyncio.sleep(30)
        else:
            for index in range(2):
                await cluster.client.delete(kinds.POD, "default", f"low-{index}", grace_period=0)
            await asyncio.sleep(5)
            assert (await cluster.bound()).items() >= {"high-0": "a", "high-1": "a"}.items()
        assert _nominations(await cluster.all(kinds.POD)) == {}


async def _all_bound(cluster: Scheduled, count: int) -> bool:
    return len(await cluster.bound()) == count
