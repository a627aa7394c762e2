"""The Job controller run by the driver, under virtual time, against a server in memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta

import pytest

from muster.api.base import AnyKind, Object, is_true
from muster.api.batch_v1 import Job
from muster.api.core_v1 import Pod
from muster.api.kinds import JOB, POD
from muster.api.rules.job import default
from muster.controllers.driver import run
from muster.controllers.job import CONTROLLER
from muster.kube.errors import Unanswered
from tests.controllers.job.cluster import job_object
from tests.controllers.memory import START, Memory, MemoryClient
from tests.informed import informed

pytestmark = pytest.mark.looptime


class LoopClock:
    """The loop's own time, which looptime makes virtual."""

    def now(self) -> datetime:
        return START + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@asynccontextmanager
async def controlled() -> AsyncIterator[MemoryClient]:
    client = MemoryClient(Memory(LoopClock().now))
    synced = asyncio.Event()
    task = asyncio.create_task(informed(run, client, [CONTROLLER], LoopClock(), synced=synced))
    await synced.wait()
    try:
        yield client
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def submit(memory: Memory, **spec: object) -> None:
    memory.create(JOB, "ml", default(job_object(dict(spec))))


def job(memory: Memory) -> Job:
    return memory.read(JOB, "ml/train")


def active(memory: Memory) -> list[Pod]:
    return [pod for pod in memory.all(POD) if not pod.terminal]


def end(memory: Memory, pod: Pod, exit_code: int) -> None:
    finished = LoopClock().now().isoformat()
    status: Object = {
        "phase": "Failed" if exit_code else "Succeeded",
        "containerStatuses": [
            {"name": "main", "state": {"terminated": {"exitCode": exit_code, "finishedAt": finished}}}
        ],
    }
    memory.patch(POD, "ml", pod.metadata.name, {"status": status}, "status")


async def test_a_life() -> None:
    async with controlled() as client:
        memory = client.memory
        submit(memory, completionMode="Indexed", completions=3, parallelism=2)
        await asyncio.sleep(1)
        first, second = active(memory)
        end(memory, first, 0)
        end(memory, second, 1)
        await asyncio.sleep(1)
        assert len(active(memory)) == 0, "a failure makes all wait"
        assert job(memory).status.failed == 1
        await asyncio.sleep(10)
        assert len(active(memory)) == 2
        for pod in active(memory):
            end(memory, pod, 0)
        await asyncio.sleep(1)
        assert is_true(job(memory).status.conditions, "Complete")
        assert job(memory).status.completed_indexes == "0-2"
        quiet = memory.revision
        await asyncio.sleep(1000)
        assert memory.revision == quiet


async def test_lost_answers_make_no_second_pod_and_no_second_count() -> None:
    async with controlled() as client:
        memory, lost = client.memory, {"create", "patch"}

        def lose(operation: str, kind: AnyKind, name: str) -> Exception | None:
            if operation in lost:
                lost.remove(operation)
                return Unanswered("no answer")
            return None

        client.fault_after = lose
        submit(memory, completions=2, parallelism=2)
        await asyncio.sleep(5)
        assert len(memory.all(POD)) == 2
        for operation in ("patch", "patch", "patch"):
            lost.add(operation)
            await asyncio.sleep(5)
        for pod in active(memory):
            end(memory, pod, 0)
            lost.add("patch")
        await asyncio.sleep(60)
        assert len(memory.all(POD)) == 2
        assert job(memory).status.succeeded == 2
        assert is_true(job(memory).status.conditions, "Complete")


async def test_a_job_of_another_controller_is_left_alone() -> None:
    async with controlled() as client:
        submit(client.memory, managedBy="example.com/other")
        await asyncio.sleep(5)
        assert client.memory.all(POD) == []
        assert client.calls == [call for call in client.calls if call[0] in ("list", "watch")]


async def test_pods_of_a_job_that_is_gone_lose_their_finalizer() -> None:
    async with controlled() as client:
        memory = client.memory
        submit(memory, parallelism=2, completions=2)
        await asyncio.sleep(1)
        for pod in memory.all(POD):
            memory.delete(POD, "ml", pod.metadata.name)
        memory.delete(JOB, "ml", "train")
        await asyncio.sleep(1)
        assert memory.all(POD) == []


async def test_pods_that_their_job_has_let_go_lose_their_finalizer() -> None:
    """Deleted with --cascade=orphan: the garbage collector takes the owner references away, and pods stay."""
    async with controlled() as client:
        memory = client.memory
        submit(memory, parallelism=2, completions=2)
        await asyncio.sleep(1)
        memory.delete(JOB, "ml", "train")
        for pod in memory.all(POD):
            memory.patch(POD, "ml", pod.metadata.name, {"metadata": {"ownerReferences": None}})
        await asyncio.sleep(1)
        assert [pod.metadata.finalizers for pod in memory.all(POD)] == [[], []]
