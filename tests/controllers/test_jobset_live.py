"""JobSet controller, garbage collection and driver together, under virtual time and with faults."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Any

import pytest

from muster.api import jobset_v1alpha2 as keys
from muster.api.base import AnyKind, Object, owner
from muster.api.batch_v1 import Job
from muster.api.core_v1 import Pod
from muster.api.jobset_v1alpha2 import JobSet
from muster.api.kinds import EVENT, JOB, JOBSET, POD
from muster.api.rules import jobset as rules
from muster.controllers import garbage
from muster.controllers import jobset as jobsets
from muster.controllers.caches import Caches
from muster.controllers.driver import Controller, Watch, controlled_by, itself, run
from muster.effects import Create, Delete, Effect, Patch
from muster.kube.errors import Conflict, Unanswered
from tests.controllers.memory import Memory, MemoryClient
from tests.informed import informed
from tests.loop_clock import LoopClock

pytestmark = pytest.mark.looptime


def observe_job(caches: Caches, key: str) -> tuple[Job, list[Pod]] | None:
    job = caches[JOB].get(key)
    return None if job is None else (job, caches[POD].owned_by(job))


def play_job(observed: tuple[Job, list[Pod]], now: datetime) -> list[Effect]:
    """Just enough of a Job controller: one pod, which fails the Job if it fails."""
    job, pods = observed
    namespace, name = job.metadata.namespace, job.metadata.name
    pods = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
    if job.status.conditions:
        return []
    if job.spec.suspend:
        return [Delete(POD, namespace, pod.metadata.name, pod.metadata.uid) for pod in pods]
    if not pods:
        meta = {"generateName": f"{name}-0-", "ownerReferences": [owner(job, JOB)]}
        return [Create(POD, namespace, {"metadata": meta, "spec": {}})]
    status: Object = {"active": 1, "ready": 1}
    if any(pod.status.phase == "Failed" for pod in pods):
        at = now.isoformat()
        failed = {"type": "FailureTarget", "status": "True", "reason": "Test", "lastTransitionTime": at}
        status = {"active": 0, "ready": 0, "failed": 1, "conditions": [failed]}
    return [Patch(JOB, namespace, name, {"status": status}, "status")]


PLAYED = Controller("played", (Watch(JOB, itself), Watch(POD, controlled_by(JOB))), observe_job, play_job)


@asynccontextmanager
async def cluster() -> AsyncIterator[MemoryClient]:
    client = MemoryClient(Memory(LoopClock().now))
    synced = asyncio.Event()
    controllers: list[Controller[Any]] = [jobsets.controller(), garbage.controller(), PLAYED]
    task = asyncio.create_task(informed(run, client, controllers, LoopClock(), synced=synced))
    await synced.wait()
    yield client
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def submit(client: MemoryClient, replicas: int, **spec: object) -> None:
    group = {"name": "w", "replicas": replicas, "template": {"spec": {"template": {"spec": {}}}}}
    obj = {"metadata": {"name": "js"}, "spec": {"replicatedJobs": [group], **spec}}
    client.memory.create(JOBSET, "ns", rules.default(obj))


def jobset(client: MemoryClient) -> JobSet:
    return client.memory.read(JOBSET, "ns/js")


def counts(client: MemoryClient) -> tuple[int, int]:
    """Jobs and live pods."""
    pods = [pod for pod in client.memory.all(POD) if pod.metadata.deletion_timestamp is None]
    return len(client.memory.all(JOB)), len(pods)


def fail_a_pod(client: MemoryClient) -> None:
    pod = client.memory.all(POD)[0]
    client.memory.patch(POD, "ns", pod.metadata.name, {"status": {"phase": "Failed"}}, "status")


async def test_five_hundred_jobs_start_and_restart_quickly() -> None:
    async with cluster() as client:  # where every request takes 10 ms
        submit(client, 500, failurePolicy={"maxRestarts": 1})
        await asyncio.sleep(2)
        assert counts(client) == (500, 500)
        assert jobset(client).status.replicated_jobs_status[0].ready == 500
        fail_a_pod(client)
        await asyncio.sleep(2)
        assert counts(client) == (500, 500)
        assert {job.metadata.labels[keys.RESTART_ATTEMPT] for job in client.memory.all(JOB)} == {"1"}


@pytest.mark.parametrize("seed", range(6))
async def test_faults_delay_and_change_nothing(seed: int) -> None:
    """One request in five fails before or after it took effect; two restarts, a suspension, then the end."""
    chance = random.Random(seed)

    def fault(operation: str, kind: AnyKind, name: str) -> Exception | None:
        if operation in ("list", "get") or kind is EVENT or chance.random() > 0.2:
            return None
        return chance.choice([Conflict("by chance"), Unanswered("by chance")])

    def lost(operation: str, kind: AnyKind, name: str) -> Exception | None:
        return Unanswered("by chance") if kind is not EVENT and chance.random() < 0.1 else None

    async with cluster() as client:
        client.fault, client.fault_after = fault, lost
        submit(client, 4, failurePolicy={"maxRestarts": 2})
        for restarts in range(3):
            await asyncio.sleep(60)
            assert counts(client) == (4, 4)
            assert jobset(client).status.restarts == restarts
            if restarts == 1:
                client.memory.patch(JOBSET, "ns", "js", {"spec": {"suspend": True}})
                await asyncio.sleep(60)
                assert counts(client) == (4, 0)
                client.memory.patch(JOBSET, "ns", "js", {"spec": {"suspend": False}})
                await asyncio.sleep(60)
                assert counts(client) == (4, 4)
            fail_a_pod(client)
        await asyncio.sleep(60)
        status = jobset(client).status
        assert (status.terminal_state, status.restarts) == ("Failed", 2)
        assert counts(client) == (1, 1)  # the failed Job and its pod stay to be looked at
        client.memory.delete(JOBSET, "ns", "js", propagation="Foreground")
        await asyncio.sleep(60)
        assert [path for kind, path in client.memory.objects if kind is not EVENT] == []


async def test_a_new_driver_goes_on_where_the_last_one_stopped() -> None:
    """Cut off after any number of requests; what the next one finds is enough to go on."""
    for requests in range(2, 40, 3):
        client = MemoryClient(Memory(LoopClock().now))
        submit(client, 3, failurePolicy={"maxRestarts": 1})
        for limit in (requests, None):
            task = asyncio.create_task(informed(run, client, [jobsets.controller(), PLAYED], LoopClock()))
            before = len(client.calls)
            while limit is None or len(client.calls) - before < limit:
                if limit is None and len(client.calls) - before > 2000:
                    raise AssertionError("no end")
                await asyncio.sleep(0.005)
                if counts(client) == (3, 3) and jobset(client).status.restarts == 0:
                    fail_a_pod(client)
                if limit is None and jobset(client).status.restarts == 1 and counts(client)[0] == 3:
                    await asyncio.sleep(60)
                    break
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        assert jobset(client).status.restarts == 1
        attempts = [job.metadata.labels[keys.RESTART_ATTEMPT] for job in client.memory.all(JOB)]
        assert attempts == ["1", "1", "1"]
        uids = [job.metadata.uid for job in client.memory.all(JOB)]
        live = [pod.metadata.owner_references[0].uid for pod in client.memory.all(POD)]
        assert sorted(uid for uid in live if uid in uids) == sorted(uids)
