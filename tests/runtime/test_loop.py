"""The live scheduler on the embedded store, with the real core and controllers, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from muster.api import kinds
from muster.api.base import Kind, Object
from muster.api.core_v1 import Pod
from muster.controllers import driver
from muster.controllers.job import CONTROLLER as JOBS
from muster.controllers.jobset import controller as jobset_controller
from muster.embedded.client import LocalClient
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from muster.kube.errors import Forbidden, ServerError, Unanswered, Unreachable
from muster.names import ADMISSION, EPOCH, GANG, PLAN, QUEUE
from muster.runtime.leader import Deposed, Term
from muster.runtime.loop import run
from tests.informed import informed

pytestmark = pytest.mark.looptime
START = datetime(2026, 1, 1, tzinfo=UTC)


class LoopClock:
    """The loop's own time, which looptime makes virtual."""

    #: seconds by which the wall clock is wrong
    ahead = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self.monotonic() + self.ahead)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Cluster:
    def __init__(self, path: Path | str = ":memory:") -> None:
        self.clock = LoopClock()
        self.store = Store(path)
        self.registry = Registry(self.store, clock=self.clock)
        self.client = LocalClient(self.registry)

    def node(self, name: str, cpu: int = 4) -> None:
        body = {
            "metadata": {"name": name},
            "status": {
                "capacity": {"cpu": str(cpu), "pods": "110"},
                "allocatable": {"cpu": str(cpu), "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        self.registry.create(kinds.NODE, "", body)

    def create(self, kind: Kind[Any], body: Object) -> None:
        self.registry.create(kind, "default", body)

    async def all(self, kind: Kind[Any]) -> list[Any]:
        return (await self.client.list(kind)).items

    async def bound(self) -> dict[str, str]:
        pods: list[Pod] = await self.all(kinds.POD)
        return {pod.metadata.name: pod.spec.node_name for pod in pods if pod.spec.node_name}

    async def until(self, what: Callable[[], Any], seconds: float = 60.0, pause: float = 0.05) -> None:
        """Waits, in virtual time, for what must come true."""
        for _ in range(int(seconds / pause)):
            if await what():
                return
            await asyncio.sleep(pause)
        raise AssertionError(f"not within {seconds} s")


@asynccontextmanager
async def scheduler(cluster: Cluster, epoch: int = 1, *, controllers: bool = True) -> AsyncIterator[None]:
    leading = asyncio.Event()
    term = Term(epoch, sole=True)
    tasks = [asyncio.create_task(informed(run, cluster.client, cluster.clock, term, leading=leading))]
    if controllers:
        both: list[driver.Controller[Any]] = [JOBS, jobset_controller()]
        tasks.append(asyncio.create_task(informed(driver.run, cluster.client, both, cluster.clock)))
    try:
        await asyncio.wait([asyncio.create_task(leading.wait()), *tasks], return_when=asyncio.FIRST_COMPLETED)
        yield
    finally:
        for task in tasks:
            if task.done():
                task.result()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    made = Cluster()
    yield made
    made.store.close()


def pod(name: str, cpu: str = "1", **metadata: Any) -> Object:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name, **metadata}, "spec": {"containers": [container]}}


def jobset(name: str, workers: int, cpu: str = "1", *, suspend: bool = True) -> Object:
    template = {
        "spec": {
            "parallelism": workers,
            "completions": workers,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "template": {"spec": pod("", cpu)["spec"] | {"restartPolicy": "Never"}},
        }
    }
    annotations = {GANG: "true"} | ({ADMISSION: "gang"} if suspend else {})
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "suspend": suspend,
            "replicatedJobs": [{"name": "workers", "replicas": 1, "template": template}],
        },
    }


async def test_a_pod_of_its_own_is_bound_without_a_record(cluster: Cluster) -> None:
    cluster.node("node-0")
    async with scheduler(cluster):
        cluster.create(kinds.POD, pod("alone"))
        await cluster.until(cluster.bound)
    (found,) = await cluster.all(kinds.POD)
    assert found.spec.node_name == "node-0"
    assert found.metadata.annotations[PLAN].startswith("1.0/")
    assert not await cluster.all(kinds.GANG)


async def test_a_pod_that_fits_nowhere_says_why_in_its_condition(cluster: Cluster) -> None:
    cluster.node("node-0")
    async with scheduler(cluster):
        cluster.create(kinds.POD, pod("big", "9"))
        await asyncio.sleep(5)
    (found,) = await cluster.all(kinds.POD)
    (condition,) = [c for c in found.status.conditions if c.type == "PodScheduled"]
    assert (condition.status, condition.reason) == ("False", "Unschedulable")
    assert condition.message.startswith("NothingMatches: ")


async def test_a_suspended_jobset_is_resumed_with_a_plan_and_bound_whole(cluster: Cluster) -> None:
    cluster.node("node-0")
    cluster.node("node-1")
    async with scheduler(cluster):
        cluster.create(kinds.JOBSET, jobset("train", 6))

        async def stands() -> bool:
            gangs = await cluster.all(kinds.GANG)
            return bool(gangs) and gangs[0].status.phase == "Standing"

        await cluster.until(stands)
        await asyncio.sleep(1)
    assert len(await cluster.bound()) == 6
    assert not await _planned(cluster)
    (found,) = await cluster.all(kinds.GANG)
    assert (found.status.epoch, found.status.attempt) == (1, 1)


async def test_pods_of_a_pod_group_wait_for_each_other(cluster: Cluster) -> None:
    cluster.node("node-0")
    group = {"metadata": {"name": "g"}, "spec": {"minMember": 3}}
    labels = {"scheduling.x-k8s.io/pod-group": "g"}
    async with scheduler(cluster):
        cluster.create(kinds.POD_GROUP_X, group)
        cluster.create(kinds.POD, pod("a", labels=labels))
        cluster.create(kinds.POD, pod("b", labels=labels))
        await asyncio.sleep(5)
        assert not await cluster.bound()
        cluster.create(kinds.POD, pod("c", labels=labels))

        async def whole() -> bool:
            return len(await cluster.bound()) == 3 and not await _planned(cluster)

        await cluster.until(whole)
    (found,) = await cluster.all(kinds.GANG)
    assert found.status.phase == "Standing"


async def test_gangs_that_pods_describe_wait_for_each_other(cluster: Cluster) -> None:
    cluster.node("node-0")
    prefix, both = "gang.scheduling.koordinator.sh", '["default/m", "default/w"]'

    def member(name: str, gang: str, least: str) -> Any:  # Any: JSON
        said = {f"{prefix}/name": gang, f"{prefix}/min-available": least, f"{prefix}/groups": both}
        return pod(name, annotations=said)

    async with scheduler(cluster):
        cluster.create(kinds.POD, member("m-0", "m", "1"))
        cluster.create(kinds.POD, member("w-0", "w", "2"))
        await asyncio.sleep(5)
        assert not await cluster.bound()
        (found,) = await cluster.all(kinds.GANG)
        assert found.status.reason.message == "PodGroup default/w: 1 of 2 pods exist"
        cluster.create(kinds.POD, member("w-1", "w", "2"))

        async def whole() -> bool:
            return await _whole(cluster, 3)

        await cluster.until(whole)
    (found,) = await cluster.all(kinds.GANG)
    assert (found.metadata.name, found.status.phase) == ("koordinator-m", "Standing")


async def test_pods_above_the_minimum_that_do_not_fit_get_a_reason(cluster: Cluster) -> None:
    cluster.node("node-0")
    labels = {"scheduling.x-k8s.io/pod-group": "g"}
    async with scheduler(cluster):
        cluster.create(kinds.POD_GROUP_X, {"metadata": {"name": "g"}, "spec": {"minMember": 2}})
        for name in "abcde":
            cluster.create(kinds.POD, pod(name, labels=labels, cpu="2"))

        async def told() -> bool:
            gangs = await cluster.all(kinds.GANG)
            return bool(gangs) and gangs[0].status.phase == "Standing" and bool(gangs[0].status.reason)

        await cluster.until(told)
        (found,) = await cluster.all(kinds.GANG)
        assert found.status.reason.code == "InsufficientCapacity"
        assert found.status.reason.message.startswith("its minimum runs, and 3 more pods wait: 2 CPUs asked")
        cluster.node("node-1")
        cluster.node("node-2")

        async def silent() -> bool:
            (gang,) = await cluster.all(kinds.GANG)
            return len(await cluster.bound()) == 5 and gang.status.reason is None

        await cluster.until(silent)


async def _whole(cluster: Cluster, size: int) -> bool:
    pods: list[Pod] = await cluster.all(kinds.POD)
    alive = [p for p in pods if p.spec.node_name and not p.terminal and not p.metadata.deletion_timestamp]
    return len(alive) == size and not await _planned(cluster)


async def test_a_lost_pod_of_a_standing_gang_is_replaced_on_its_node_without_a_plan(cluster: Cluster) -> None:
    cluster.node("node-0", 2)
    cluster.node("node-1", 2)
    async with scheduler(cluster):
        body = jobset("train", 4)
        body["spec"]["replicatedJobs"][0]["template"]["spec"]["backoffLimit"] = 3
        cluster.create(kinds.JOBSET, body)
        await cluster.until(lambda: _whole(cluster, 4))
        lost: Pod = (await cluster.all(kinds.POD))[0]
        failed = {"status": {"phase": "Failed"}}
        cluster.registry.patch(kinds.POD, "default", lost.metadata.name, failed, subresource="status")
        await asyncio.sleep(30)  # the Job controller's own back-off
        assert await _whole(cluster, 4)
    (found,) = await cluster.all(kinds.GANG)
    assert found.status.attempt == 1
    assert sorted((await cluster.bound()).values()) == ["node-0"] * (
        2 + (lost.spec.node_name == "node-0")
    ) + ["node-1"] * (2 + (lost.spec.node_name == "node-1"))


async def test_a_pod_that_its_node_refused_is_replaced_elsewhere_if_another_scheduler_has_filled_it(
    cluster: Cluster,
) -> None:
    """As a kubelet refuses it: Failed, OutOfcpu."""
    cluster.node("node-0", 2)
    async with scheduler(cluster):
        body = jobset("train", 2)
        body["spec"]["replicatedJobs"][0]["template"]["spec"]["backoffLimit"] = 3
        cluster.create(kinds.JOBSET, body)
        await cluster.until(lambda: _whole(cluster, 2))
        cluster.node("node-1", 2)
        foreign = pod("foreign")
        foreign["spec"] |= {"schedulerName": "other", "nodeName": "node-0"}
        cluster.create(kinds.POD, foreign)
        refused: Pod = next(pod for pod in await cluster.all(kinds.POD) if pod.metadata.name != "foreign")
        failed = {"status": {"phase": "Failed", "reason": "OutOfcpu"}}
        cluster.registry.patch(kinds.POD, "default", refused.metadata.name, failed, subresource="status")
        await asyncio.sleep(30)  # the Job controller's own back-off
    pods = [pod for pod in await cluster.all(kinds.POD) if not pod.terminal]
    assert sorted(pod.spec.node_name for pod in pods) == ["node-0", "node-0", "node-1"]


async def test_a_jobset_that_restarts_is_a_new_attempt_with_a_new_plan(cluster: Cluster) -> None:
    cluster.node("node-0")
    async with scheduler(cluster):
        body = jobset("train", 3)
        body["spec"]["failurePolicy"] = {"maxRestarts": 2}
        cluster.create(kinds.JOBSET, body)
        await cluster.until(lambda: _whole(cluster, 3))
        lost: Pod = (await cluster.all(kinds.POD))[0]
        failed = {"status": {"phase": "Failed"}}
        cluster.registry.patch(kinds.POD, "default", lost.metadata.name, failed, subresource="status")
        for _ in range(100):  # the node lets go of pods that are deleted
            await asyncio.sleep(0.1)
            for pod_ in await cluster.all(kinds.POD):
                if pod_.metadata.deletion_timestamp and not pod_.terminal:
                    cluster.registry.patch(
                        kinds.POD, "default", pod_.metadata.name, failed, subresource="status"
                    )
        assert await _whole(cluster, 3)
    (found,) = await cluster.all(kinds.GANG)
    assert (found.status.phase, found.status.attempt) == ("Standing", 2)


async def test_the_next_leader_goes_on_where_the_first_was_killed(cluster: Cluster) -> None:
    cluster.node("node-0")
    async with scheduler(cluster):
        cluster.create(kinds.JOBSET, jobset("train", 3))
        await cluster.until(lambda: _planned(cluster), pause=0.001)
    assert not await _whole(cluster, 3)
    async with scheduler(cluster, epoch=2):
        await cluster.until(lambda: _whole(cluster, 3))


async def _planned(cluster: Cluster) -> bool:
    gangs = await cluster.all(kinds.GANG)
    return bool(await cluster.all(kinds.GANG_PLAN)) or any(gang.plan is not None for gang in gangs)


async def test_stages_of_a_jobset_are_gangs_of_their_own(cluster: Cluster) -> None:
    cluster.node("node-0", 3)
    body = jobset("train", 2)
    (workers,) = body["spec"]["replicatedJobs"]
    late = {**workers, "name": "late", "dependsOn": [{"name": "workers", "status": "Complete"}]}
    body["spec"]["replicatedJobs"].append(late)
    async with scheduler(cluster):
        cluster.create(kinds.JOBSET, body)
        await cluster.until(lambda: _whole(cluster, 2))
        assert all("-workers-" in name for name in await cluster.bound())
        for name in await cluster.bound():
            done = {"status": {"phase": "Succeeded"}}
            cluster.registry.patch(kinds.POD, "default", name, done, subresource="status")
        await asyncio.sleep(5)
        assert await _whole(cluster, 2)
    gangs = {gang.metadata.name: gang.status.phase for gang in await cluster.all(kinds.GANG)}
    assert gangs["jobset-train.late"] == "Standing"


async def test_a_leader_that_loses_its_lease_stops_and_the_next_one_leads(cluster: Cluster) -> None:
    cluster.node("node-0")
    cluster.create(kinds.POD, pod("waits", "9"))
    holder = 1
    term = Term(1, fresh=lambda: holder == 1)
    first = asyncio.create_task(informed(run, cluster.client, cluster.clock, term))
    await asyncio.sleep(1)
    leading, holder = asyncio.Event(), 2
    second = asyncio.create_task(informed(run, cluster.client, cluster.clock, Term(2), leading=leading))
    with pytest.raises(Deposed, match="the term of epoch 1 cannot be proven any more"):
        await first
    await leading.wait()
    cluster.create(kinds.POD, pod("fits"))
    await cluster.until(cluster.bound)
    second.cancel()
    with suppress(asyncio.CancelledError):
        await second


@pytest.mark.parametrize("sole", [True, False])
async def test_epochs_on_objects_depose_no_leader(cluster: Cluster, sole: bool) -> None:
    """An annotation on another scheduler's pod, a Gang's status, a GangPlan: before and after a restart."""
    cluster.node("node-0")
    foreign = pod("foreign", annotations={EPOCH: "999999"})
    cluster.create(kinds.POD, foreign | {"spec": {**foreign["spec"], "schedulerName": "other"}})
    cluster.create(kinds.POD, pod("unreadable", annotations={EPOCH: "9" * 5000}))
    spec = {"queue": "default", "minCount": 1, "podSets": []}
    cluster.create(kinds.GANG, {"metadata": {"name": "jobset-g"}, "spec": spec})
    cluster.registry.patch(kinds.GANG, "default", "jobset-g", {"status": {"epoch": 999_999}})
    plan_spec = {"gang": "jobset-g", "epoch": 999_999, "attempt": 1, "blob": "e30="}
    cluster.create(kinds.GANG_PLAN, {"metadata": {"name": "jobset-g-1"}, "spec": plan_spec})
    for epoch in (1, 2):
        name = f"fits-{epoch}"
        leading = asyncio.Event()
        term = Term(epoch, sole=sole)
        leader = asyncio.create_task(informed(run, cluster.client, cluster.clock, term, leading=leading))
        await asyncio.wait([leader, asyncio.create_task(leading.wait())], return_when=asyncio.FIRST_COMPLETED)
        cluster.create(kinds.POD, pod(name))

        async def starts(name: str = name) -> bool:
            return name in await cluster.bound()

        await cluster.until(starts)
        leader.cancel()
        with suppress(asyncio.CancelledError):
            await leader
    (one, *_) = [found for found in await cluster.all(kinds.POD) if found.metadata.name == "fits-2"]
    assert one.metadata.annotations[PLAN].startswith("2.0/")


async def test_unbound_pods_that_no_earlier_leader_has_seen_are_not_fenced(cluster: Cluster) -> None:
    cluster.create(kinds.POD, pod("seen"))
    term = Term(2, seen=cluster.store.revision)
    cluster.create(kinds.POD, pod("new"))
    leading = asyncio.Event()
    leader = asyncio.create_task(informed(run, cluster.client, cluster.clock, term, leading=leading))
    await leading.wait()
    marks = {found.metadata.name: found.metadata.annotations for found in await cluster.all(kinds.POD)}
    assert {name for name in marks if EPOCH in marks[name]} == {"seen"}
    cluster.node("node-0")

    async def both() -> bool:
        return {*await cluster.bound()} == {"seen", "new"}

    await cluster.until(both)
    leader.cancel()
    with suppress(asyncio.CancelledError):
        await leader


class Refusing(LocalClient):
    """Refuses patches of the objects of which the name begins with `prefix`, or swallows them."""

    def __init__(self, registry: Registry, prefix: str, answer: Exception | None) -> None:
        super().__init__(registry)
        self.prefix, self.answer = prefix, answer

    async def patch(self, kind: Kind[Any], namespace: str, name: str, patch: Any, **how: Any) -> Any:
        if self.prefix and name.startswith(self.prefix) and not how.get("subresource"):
            if self.answer is not None:
                raise self.answer
            return await self.get(kind, namespace, name)
        return await super().patch(kind, namespace, name, patch, **how)


@pytest.mark.parametrize(
    "answer",
    [Forbidden("no right to patch pods"), ServerError("the webhook failed"), Unanswered("no answer"), None],
    ids=["a right that is missing", "a webhook", "no answer", "an answer without an effect"],
)
async def test_a_gang_whose_touch_is_refused_waits_alone(
    cluster: Cluster, answer: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.node("node-0")
    group = {"metadata": {"name": "g"}, "spec": {"minMember": 2}}
    cluster.create(kinds.POD_GROUP_X, group)
    for name in ("bad-0", "bad-1"):
        cluster.create(kinds.POD, pod(name, labels={"scheduling.x-k8s.io/pod-group": "g"}))
    client = Refusing(cluster.registry, "bad-1", answer)
    leading = asyncio.Event()
    leader = asyncio.create_task(informed(run, client, cluster.clock, Term(2), leading=leading))
    async with asyncio.timeout(10):
        await leading.wait()
    cluster.create(kinds.POD, pod("fits"))
    await asyncio.sleep(40)
    assert await cluster.bound() == {"fits": "node-0"}
    (found,) = await cluster.all(kinds.GANG)
    why = str(answer) if answer is not None else "the server took it, and the object does not show it"
    assert found.status.reason.code == "CommitFailed"
    assert found.status.reason.message == (
        f"Pod default/bad-1 cannot be marked as taken over by this leader: {why}"
    )
    warned = [record.message for record in caplog.records if "taken over" in record.message]
    assert warned == [f"{found.status.reason.message}; waiting for it: default/g"]
    before = cluster.store.revision
    await asyncio.sleep(60)
    assert cluster.store.revision == before, "nothing has changed, nothing is written"
    client.prefix = ""

    async def whole() -> bool:
        return len(await cluster.bound()) == 3 and not await _planned(cluster)

    await cluster.until(whole, 70)
    leader.cancel()
    with suppress(asyncio.CancelledError):
        await leader


async def test_a_leader_that_cannot_prove_its_lease_writes_nothing(cluster: Cluster) -> None:
    cluster.node("node-0")
    cluster.create(kinds.POD, pod("fits"))
    with pytest.raises(Deposed):
        await informed(run, cluster.client, cluster.clock, Term(1, fresh=lambda: False))
    assert not await cluster.bound()


async def test_queues_share_and_say_how_they_stand(cluster: Cluster) -> None:
    """Weights 3 to 1: b has its quarter, a must wait, and both queues say so."""
    cluster.node("node-0", cpu=16)
    for name, weight in (("a", 3), ("b", 1)):
        cluster.registry.create(kinds.QUEUE, "", {"metadata": {"name": name}, "spec": {"weight": weight}})
    cluster.registry.create(kinds.QUEUE, "", {"metadata": {"name": "c"}, "spec": {"parent": "nowhere"}})

    def submit(name: str, queue: str, workers: int) -> None:
        body = jobset(name, workers)
        body["metadata"]["labels"] = {QUEUE: queue}
        cluster.create(kinds.JOBSET, body)

    async with scheduler(cluster):
        submit("big", "a", 16)
        submit("small", "b", 4)
        submit("lost", "d", 1)
        await asyncio.sleep(10)
        before = cluster.store.revision
        await asyncio.sleep(60)
        assert cluster.store.revision == before, "nothing has changed, nothing is written"
    gangs = {gang.metadata.name: gang for gang in await cluster.all(kinds.GANG)}
    assert gangs["jobset-small"].status.phase == "Standing"
    assert gangs["jobset-big"].spec.queue == "a"
    assert gangs["jobset-big"].status.reason.code == "OverShare"
    assert gangs["jobset-lost"].status.reason.message == "there is no queue d; there are a, b, default"
    queues = {queue.metadata.name: queue.status for queue in await cluster.all(kinds.QUEUE)}
    assert queues["a"].entitled["cpu"] == "12"
    assert (queues["a"].waiting, queues["a"].standing) == (1, 0)
    assert (queues["b"].used["cpu"], queues["b"].entitled["cpu"]) == ("4", "4")
    assert (queues["b"].waiting, queues["b"].standing) == (0, 1)
    (condition,) = queues["c"].conditions
    assert (condition.status, condition.message) == ("False", "its parent nowhere does not exist")


async def test_a_queues_status_is_written_though_the_server_failed_at_first(cluster: Cluster) -> None:
    """And then nothing changes any more: what is written last must be what is so."""
    cluster.node("node-0")
    cluster.registry.create(kinds.QUEUE, "", {"metadata": {"name": "a"}, "spec": {}})
    failures = [Unreachable("no server"), ServerError("not now"), Unanswered("no answer")]
    patch = cluster.client.patch

    async def fails(kind: Any, *arguments: Any, **options: Any) -> Any:
        if kind is kinds.QUEUE and failures:
            raise failures.pop()
        return await patch(kind, *arguments, **options)

    cluster.client.patch = fails  # type: ignore[method-assign]
    async with scheduler(cluster):
        await asyncio.sleep(30)
    (queue,) = await cluster.all(kinds.QUEUE)
    assert not failures
    assert queue.status.entitled["cpu"] == "0"


async def test_a_namespaces_quota_holds_a_gang_back_whole(cluster: Cluster) -> None:
    """No controller keeps the quota's status up to date here, so muster counts the pods itself."""
    cluster.node("node-0", cpu=16)
    body = {"metadata": {"name": "compute"}, "spec": {"hard": {"pods": "6", "requests.cpu": "20"}}}
    cluster.registry.create(kinds.RESOURCE_QUOTA, "default", body)

    async def reason(name: str) -> str:
        gangs = {gang.metadata.name: gang for gang in await cluster.all(kinds.GANG)}
        found = gangs.get(name)
        return found.status.reason.message if found is not None and found.status.reason is not None else ""

    async with scheduler(cluster):
        cluster.create(kinds.JOBSET, jobset("first", 4))
        await cluster.until(cluster.bound)
        cluster.create(kinds.JOBSET, jobset("next", 4))
        await asyncio.sleep(10)
        assert await reason("jobset-next") == (
            "ResourceQuota compute of namespace default has 2 of pods left; "
            "the pods that are to be created ask for 4"
        )
        await cluster.client.delete(kinds.JOBSET, "default", "first")
        for name in await cluster.bound():
            await cluster.client.delete(kinds.POD, "default", name, grace_period=0)

        async def started() -> bool:
            return any(name.startswith("next") for name in await cluster.bound())

        await cluster.until(started)
