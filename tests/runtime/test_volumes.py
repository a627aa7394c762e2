"""Volumes that are made for the node of their first pod, with a provisioner that the test plays."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from muster.api import kinds
from muster.api.base import Object
from muster.api.storage_v1 import SELECTED_NODE, WAIT_FOR_FIRST_CONSUMER
from muster.embedded.verbs.deletion import DeleteOptions
from muster.kube.errors import Forbidden
from tests.runtime.test_loop import Cluster, _planned, cluster, pod, scheduler

__all__ = ["cluster"]
pytestmark = pytest.mark.looptime

GROUP = "scheduling.x-k8s.io/pod-group"


def with_claim(name: str, **metadata: Any) -> Object:  # Any: JSON
    body = pod(name, **metadata)
    body["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{name}"}}]
    return body


def prepare(cluster: Cluster, *pods: str) -> None:
    """A class with a provisioner, and a claim for each of these pods."""
    late = {
        "metadata": {"name": "late"},
        "provisioner": "test",
        "volumeBindingMode": WAIT_FOR_FIRST_CONSUMER,
    }
    cluster.registry.create(kinds.STORAGE_CLASS, "", late)
    for name in pods:
        cluster.create(
            kinds.PERSISTENT_VOLUME_CLAIM,
            {"metadata": {"name": f"data-{name}"}, "spec": {"storageClassName": "late"}},
        )


async def provision(cluster: Cluster, refuses: frozenset[str] = frozenset()) -> None:
    """Makes a local volume for each claim that has a node, one every second, except on some nodes."""
    while True:
        await asyncio.sleep(1)
        for claim in await cluster.all(kinds.PERSISTENT_VOLUME_CLAIM):
            node = claim.metadata.annotations.get(SELECTED_NODE)
            if not node or claim.spec.volume_name:
                continue
            name = claim.metadata.name
            change: Object = {"metadata": {"annotations": {SELECTED_NODE: None}}}
            if node not in refuses:
                terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
                volume = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
                cluster.registry.create(
                    kinds.PERSISTENT_VOLUME, "", {"metadata": {"name": name}, "spec": volume}
                )
                change = {"spec": {"volumeName": name}}
            cluster.registry.patch(kinds.PERSISTENT_VOLUME_CLAIM, "default", name, change)
            break


async def test_a_gang_whose_pods_wait_for_their_volumes_starts_where_these_are_made(cluster: Cluster) -> None:
    for number in (0, 1):
        cluster.node(f"node-{number}", 2)
    names = [f"g-{index}" for index in range(4)]
    prepare(cluster, *names)
    async with scheduler(cluster, controllers=False):
        cluster.create(kinds.POD_GROUP_X, {"metadata": {"name": "g"}, "spec": {"minMember": 4}})
        for name in names:
            cluster.create(kinds.POD, with_claim(name, labels={GROUP: "g"}))
        await asyncio.sleep(5)
        assert not await cluster.bound(), "no pod is bound before its volume is there"
        chosen = await selected(cluster)
        assert sorted(chosen.values()) == ["node-0", "node-0", "node-1", "node-1"]
        provisioner = asyncio.create_task(provision(cluster))
        await cluster.until(lambda: _whole(cluster, 4))
        provisioner.cancel()
        with suppress(asyncio.CancelledError):
            await provisioner
    assert {f"data-{name}": node for name, node in (await cluster.bound()).items()} == chosen


async def test_no_pod_of_a_gang_is_bound_before_the_volumes_of_its_minimum_are_there(
    cluster: Cluster,
) -> None:
    cluster.node("node-0", 4)
    prepare(cluster, "g-0", "g-1")
    async with scheduler(cluster, controllers=False):
        cluster.create(kinds.POD_GROUP_X, {"metadata": {"name": "g"}, "spec": {"minMember": 4}})
        for name in ("g-0", "g-1"):
            cluster.create(kinds.POD, with_claim(name, labels={GROUP: "g"}))
        for name in ("g-2", "g-3"):
            cluster.create(kinds.POD, pod(name, labels={GROUP: "g"}))
        await asyncio.sleep(5)
        assert set((await selected(cluster)).values()) == {"node-0"}
        assert not await cluster.bound(), "the pods without volumes alone are below the minimum"
        provisioner = asyncio.create_task(provision(cluster))
        await cluster.until(lambda: _whole(cluster, 4))
        provisioner.cancel()
        with suppress(asyncio.CancelledError):
            await provisioner


async def test_a_pod_of_its_own_waits_for_its_volume_too(cluster: Cluster) -> None:
    cluster.node("node-0")
    prepare(cluster, "alone")
    async with scheduler(cluster, controllers=False):
        cluster.create(kinds.POD, with_claim("alone"))
        await asyncio.sleep(5)
        assert not await cluster.bound()
        provisioner = asyncio.create_task(provision(cluster))
        await cluster.until(cluster.bound)
        provisioner.cancel()
        with suppress(asyncio.CancelledError):
            await provisioner


async def test_where_no_volume_can_be_made_no_pod_is_bound(cluster: Cluster) -> None:
    for name, cpu in (("full", 2), ("node", 2)):
        cluster.node(name, cpu)
    prepare(cluster, "g-0", "g-1")
    async with scheduler(cluster, controllers=False):
        provisioner = asyncio.create_task(provision(cluster, frozenset({"full"})))
        cluster.create(kinds.POD_GROUP_X, {"metadata": {"name": "g"}, "spec": {"minMember": 2}})
        for name in ("g-0", "g-1"):
            cluster.create(kinds.POD, with_claim(name, labels={GROUP: "g"}))
        await cluster.until(lambda: _whole(cluster, 2), 30)
        provisioner.cancel()
        with suppress(asyncio.CancelledError):
            await provisioner
    assert set((await cluster.bound()).values()) == {"node"}


async def selected(cluster: Cluster) -> dict[str, str]:
    claims = await cluster.all(kinds.PERSISTENT_VOLUME_CLAIM)
    return {claim.metadata.name: claim.metadata.annotations.get(SELECTED_NODE, "") for claim in claims}


async def _whole(cluster: Cluster, size: int) -> bool:
    return len(await cluster.bound()) == size and not await _planned(cluster)


class Admission:
    """Refuses writes of some claims, as an admission webhook or a missing right does, until it is lifted."""

    def __init__(self, cluster: Cluster, *claims: str) -> None:
        self.claims, self.lifted, self.asked = claims, False, 0
        self.patch = cluster.registry.patch
        cluster.registry.patch = self._patch  # type: ignore[method-assign]

    def _patch(self, kind: Any, namespace: str, name: str, *more: Any, **options: Any) -> Any:
        if kind is kinds.PERSISTENT_VOLUME_CLAIM and name in self.claims and not self.lifted:
            self.asked += 1
            raise Forbidden("denied: claims need the label approved")
        return self.patch(kind, namespace, name, *more, **options)


TOLD = "claim data-g-1 is refused by the API server: denied: claims need the label approved"


async def test_a_claim_that_may_not_be_written_is_told_and_delays_no_other_gang(cluster: Cluster) -> None:
    cluster.node("node-0", 2)
    prepare(cluster, "g-0", "g-1")
    admission = Admission(cluster, "data-g-1")
    async with scheduler(cluster, controllers=False):
        cluster.create(kinds.POD_GROUP_X, {"metadata": {"name": "g"}, "spec": {"minMember": 2}})
        for name in ("g-0", "g-1"):
            cluster.create(kinds.POD, with_claim(name, labels={GROUP: "g"}))
        await asyncio.sleep(10)
        [gang] = await cluster.all(kinds.GANG)
        assert (gang.status.phase, gang.status.reason.code) == ("Waiting", "CommitFailed")
        assert gang.status.reason.message == TOLD
        assert not await _planned(cluster), "its nodes are not held while it waits"
        assert 2 <= admission.asked <= 5
        cluster.create(kinds.POD, pod("other", "2"))
        await cluster.until(cluster.bound, 10)
        assert set(await cluster.bound()) == {"other"}
        cluster.registry.delete(kinds.POD, "default", "other", DeleteOptions(grace_period=0))
        provisioner = asyncio.create_task(provision(cluster))
        admission.lifted = True
        await cluster.until(lambda: _whole(cluster, 2), 40)
        provisioner.cancel()
        with suppress(asyncio.CancelledError):
            await provisioner
    [gang] = await cluster.all(kinds.GANG)
    assert gang.status.reason is None


async def test_a_pod_of_its_own_whose_claim_may_not_be_written_says_so_and_holds_no_node(
    cluster: Cluster,
) -> None:
    cluster.node("node-0", 1)
    prepare(cluster, "g-1")
    admission = Admission(cluster, "data-g-1")
    async with scheduler(cluster, controllers=False):
        cluster.create(kinds.POD, with_claim("g-1"))
        await asyncio.sleep(10)
        [found] = await cluster.all(kinds.POD)
        [condition] = [each for each in found.status.conditions if each.type == "PodScheduled"]
        assert condition.message == f"CommitFailed: {TOLD}"
        cluster.create(kinds.POD, pod("other"))
        await cluster.until(cluster.bound, 10)
        assert set(await cluster.bound()) == {"other"}
        cluster.registry.delete(kinds.POD, "default", "other", DeleteOptions(grace_period=0))
        admission.lifted = True
        provisioner = asyncio.create_task(provision(cluster))
        await cluster.until(cluster.bound, 40)
        provisioner.cancel()
        with suppress(asyncio.CancelledError):
            await provisioner


async def test_a_claim_above_the_minimum_that_may_not_be_written_does_not_undo_the_gang(
    cluster: Cluster,
) -> None:
    cluster.node("node-0", 3)
    prepare(cluster, "g-1")
    Admission(cluster, "data-g-1")
    async with scheduler(cluster, controllers=False):
        cluster.create(kinds.POD_GROUP_X, {"metadata": {"name": "g"}, "spec": {"minMember": 2}})
        cluster.create(kinds.POD, with_claim("g-1", labels={GROUP: "g"}))
        for name in ("g-2", "g-3"):
            cluster.create(kinds.POD, pod(name, labels={GROUP: "g"}))
        await asyncio.sleep(100)
        assert set(await cluster.bound()) == {"g-2", "g-3"}
        [gang] = await cluster.all(kinds.GANG)
        assert gang.status.phase == "Standing"
        assert gang.status.reason.message == TOLD
