"""A preempted job says by which job, when, and what was lost, in GPU-hours and money; records survive it.

The numbers are those of the chapter's exercise 16.5: 4 GPUs for 5 hours at $3.50 are $70, and $7 with a
checkpoint 30 minutes old.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from muster.api import kinds
from muster.api.base import Object
from muster.app.views import usage
from muster.controllers import driver, gang, garbage, preemptions
from muster.kube.errors import NotFound
from muster.names import ADMISSION, CHECKPOINT, CHECKPOINT_GRACE, CHECKPOINT_REQUESTED, GPU, GPU_PRODUCT
from tests.informed import informed
from tests.runtime.test_loop import START, Cluster, scheduler

pytestmark = pytest.mark.looptime
HOUR = 3600.0
H100 = "NVIDIA-H100-80GB-HBM3"


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    made = Cluster()
    amounts = {"cpu": "32", "pods": "110", GPU: "4"}
    ready = [{"type": "Ready", "status": "True"}]
    status = {"capacity": amounts, "allocatable": amounts, "conditions": ready}
    node = {"metadata": {"name": "n", "labels": {GPU_PRODUCT: H100}}, "status": status}
    made.registry.create(kinds.NODE, "", node)
    made.registry.create(kinds.NAMESPACE, "", {"metadata": {"name": "muster-system"}})
    rates = {"metadata": {"name": "muster-rates"}, "data": {H100: "3.50", "gpu": "1.00"}}
    made.registry.create(kinds.CONFIG_MAP, "muster-system", rates)
    made.registry.create(kinds.PRIORITY_CLASS, "", {"metadata": {"name": "urgent"}, "value": 1000})
    yield made
    made.store.close()


@asynccontextmanager
async def recording(cluster: Cluster) -> AsyncIterator[None]:
    """The controllers that keep records, and a node that ends the pods that are deleted."""
    chosen: list[driver.Controller[Any]] = [
        gang.controller(),
        preemptions.controller(),
        garbage.controller(),
    ]
    task = asyncio.create_task(informed(driver.run, cluster.client, chosen, cluster.clock))
    node = asyncio.create_task(ending(cluster))
    try:
        yield
    finally:
        for each in (task, node):
            each.cancel()
            with suppress(asyncio.CancelledError):
                await each


async def ending(cluster: Cluster) -> None:
    while True:
        for pod in await cluster.all(kinds.POD):
            if pod.metadata.deletion_timestamp is not None:
                with suppress(NotFound):
                    meta = pod.metadata
                    await cluster.client.delete(kinds.POD, meta.namespace, meta.name, grace_period=0)
        await asyncio.sleep(30)


def job(name: str, *, priority: str = "", **annotations: str) -> Object:
    resources = {"limits": {GPU: "1"}, "requests": {GPU: "1", "cpu": "1"}}
    spec = {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "x", "resources": resources}],
        **({"priorityClassName": priority} if priority else {}),
    }
    meta = {
        "name": name,
        "labels": {ADMISSION: "gang", "muster.dev/gang": "true"},
        "annotations": annotations,
    }
    return {
        "metadata": meta,
        "spec": {"parallelism": 4, "completions": 4, "suspend": True, "template": {"spec": spec}},
    }


async def started(cluster: Cluster, name: str) -> None:
    async def runs() -> bool:
        return sum(pod.startswith(f"{name}-") for pod in await cluster.bound()) == 4

    await cluster.until(runs, 900)


async def preempted(cluster: Cluster, name: str) -> list[Object]:
    [found] = [each for each in await cluster.all(kinds.GANG) if each.metadata.name == f"job-{name}"]
    entries: list[Object] = found.status.preemptions
    return entries


async def test_five_hours_of_four_gpus(cluster: Cluster) -> None:
    async with scheduler(cluster), recording(cluster):
        cluster.create(kinds.JOB, job("low"))
        await started(cluster, "low")
        await asyncio.sleep(5 * HOUR)
        cluster.create(kinds.JOB, job("team-b-urgent", priority="urgent"))
        await started(cluster, "team-b-urgent")
        [entry] = await preempted(cluster, "low")
        assert (entry["by"], entry["kind"]) == ("default/team-b-urgent", "preemption")
        assert (entry["gpuHoursLost"], entry["costLost"]) == ("20", "70.00")
        await cluster.client.delete(kinds.JOB, "default", "low", propagation="Background")
        await cluster.client.delete(kinds.JOB, "default", "team-b-urgent", propagation="Background")

        async def gone() -> bool:
            return not await cluster.all(kinds.GANG)

        await cluster.until(gone)
        [week] = usage.added_up(await usage.fetch(cluster.client))
        year, number, _ = START.isocalendar()
        assert usage.summary(week) == {
            "week": f"{year}-W{number:02}",
            "queue": "default",
            "namespace": "default",
            "jobs": 0,
            "gpuHours": "0",
            "cpuHours": "0",
            "cost": None,
            "waitedSeconds": 0.0,
            "preemptions": 1,
            "gpuHoursLost": "20",
            "costLost": "70.00",
            "unpriced": 0,
        }


async def test_with_a_checkpoint_half_an_hour_old(cluster: Cluster) -> None:
    async with scheduler(cluster), recording(cluster):
        cluster.create(kinds.JOB, job("low"))
        await started(cluster, "low")
        await asyncio.sleep(4.5 * HOUR)
        saved = {"metadata": {"annotations": {CHECKPOINT: cluster.clock.now().isoformat()}}}
        await cluster.client.patch(kinds.JOB, "default", "low", saved)
        await asyncio.sleep(0.5 * HOUR)
        cluster.create(kinds.JOB, job("high", priority="urgent"))
        await started(cluster, "high")
        [entry] = await preempted(cluster, "low")
        assert (entry["gpuHoursLost"], entry["costLost"]) == ("2", "7.00")


async def test_a_job_saves_its_work_before_it_is_evicted(cluster: Cluster) -> None:
    async with scheduler(cluster), recording(cluster):
        cluster.create(kinds.JOB, job("low", **{CHECKPOINT_GRACE: "10m"}))
        await started(cluster, "low")
        await asyncio.sleep(5 * HOUR)
        cluster.create(kinds.JOB, job("high", priority="urgent"))

        async def asked() -> bool:
            pods = await cluster.all(kinds.POD)
            return sum(CHECKPOINT_REQUESTED in pod.metadata.annotations for pod in pods) == 4

        await cluster.until(asked)
        await asyncio.sleep(60)
        assert await preempted(cluster, "low") == []
        assert all(name.startswith("low-") for name in await cluster.bound())
        rank0 = min(await cluster.bound())
        saved = {"metadata": {"annotations": {CHECKPOINT: cluster.clock.now().isoformat()}}}
        await cluster.client.patch(kinds.POD, "default", rank0, saved)
        await started(cluster, "high")
        [entry] = await preempted(cluster, "low")
        assert (entry["gpuHoursLost"], entry["costLost"]) == ("0", "0.00")


@pytest.mark.full
async def test_a_job_that_does_not_save_its_work_is_evicted_at_the_end_of_its_grace(cluster: Cluster) -> None:
    async with scheduler(cluster), recording(cluster):
        cluster.create(kinds.JOB, job("low", **{CHECKPOINT_GRACE: "10m"}))
        await started(cluster, "low")
        await asyncio.sleep(5 * HOUR)
        begin = cluster.clock.monotonic()
        cluster.create(kinds.JOB, job("high", priority="urgent"))
        await started(cluster, "high")
        assert 600 <= cluster.clock.monotonic() - begin < 640
        [entry] = await preempted(cluster, "low")
        assert entry["costLost"] == "72.33"
