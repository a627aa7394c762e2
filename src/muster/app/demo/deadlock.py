"""Two jobs that each need 6 of 8 GPUs, with pods created alternately: first pod by pod, then as gangs.

Pod by pod, each job gets 4 GPUs and waits for its other two workers until its controller gives up: nothing
runs, and all 8 GPUs are held. As gangs, one job runs and the other waits without holding GPUs. The measure
is how long each GPU is held before its worker can work: from the start of the worker's pod to the barrier,
or to the pod's end if the worker never passes the barrier.

Both controllers have the same patience, which begins when all GPUs are held, and both delete the pods that
wait before those that run. Otherwise the job that began later would get the GPUs of the other, and on a slow
machine it would still run.
"""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster.api import groups, kinds
from muster.api.base import Object
from muster.api.core_v1 import Pod
from muster.embedded.client import LocalClient
from muster.kube.errors import NotFound
from muster.kube.reflector import Reflector
from muster.names import GPU
from muster.workloads.pod_run import PodRun

GPUS: Final = 8
NODES: Final = f"2 x cpu=16,memory=128Gi,{GPU}={GPUS // 2}"
JOBS: Final = ("red", "blue")
WORKERS: Final = 6
LIMIT: Final = 10.0  # seconds after which a job that cannot start its other workers is given up
BARRIER: Final = 600.0  # seconds that a worker waits at the barrier by itself: longer than any machine takes
WORK: Final = 3.0  # seconds of work after it
SCRIPT: Final = Path(__file__).with_name("scripts") / "barrier.py"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one run of both jobs."""

    runs: tuple[PodRun, ...]
    submitted: float
    seconds: float
    #: GPU-seconds held before any work, or without any
    idle: float
    #: GPU-seconds of work
    worked: float
    succeeded: tuple[str, ...]


async def run(client: LocalClient, *, gangs: bool, namespace: str) -> Outcome:
    """Submits both jobs in a namespace of their own and waits until both have ended."""
    await client.create(kinds.NAMESPACE, "", {"metadata": {"name": namespace}})
    changed = asyncio.Event()
    pods = Reflector(client, kinds.POD, namespace=namespace)
    pods.subscribe(lambda old, new: changed.set())
    watching = asyncio.create_task(pods.run())
    try:
        for job in JOBS if gangs else ():
            await client.create(groups.CREATED.kind, namespace, groups.created(job, namespace, WORKERS))
        for rank in range(WORKERS):  # alternately, as two controllers create pods at the same time
            for job in JOBS:
                await client.create(kinds.POD, namespace, _pod(job, rank, gangs))
        await pods.synced.wait()
        patient = True
        while not all(pod.terminal for pod in pods.items.values()):
            changed.clear()
            if patient and _deadlocked(list(pods.items.values())):
                await asyncio.sleep(LIMIT)
                await _give_up(client, list(pods.items.values()))
                patient = False
            for job in {_job_of(pod) for pod in pods.items.values() if pod.status.phase == "Failed"}:
                await _give_up(client, [pod for pod in pods.items.values() if _job_of(pod) == job])
            await changed.wait()
        return await _outcome(client, namespace, list(pods.items.values()))
    finally:
        watching.cancel()


def _deadlocked(pods: Sequence[Pod]) -> bool:
    """Whether all GPUs are held by workers that wait for others, which wait for a GPU."""
    running = [_job_of(pod) for pod in pods if pod.status.phase == "Running"]
    return len(running) == GPUS and all(running.count(job) < WORKERS for job in JOBS)


async def _give_up(client: LocalClient, pods: Sequence[Pod]) -> None:
    """Deletes the pods that have not ended, as their jobs' controllers would: first those without a GPU."""
    for pod in sorted(pods, key=lambda pod: bool(pod.spec.node_name)):
        if not pod.terminal and pod.metadata.deletion_timestamp is None:
            with suppress(NotFound):  # a pod that was never bound is removed immediately
                await client.delete(kinds.POD, pod.metadata.namespace, pod.metadata.name)


async def _outcome(client: LocalClient, namespace: str, pods: Sequence[Pod]) -> Outcome:
    barriers = {pod.metadata.name: await _barrier(client, pod) for pod in pods}
    runs = client.registry.history.runs(namespace=namespace)
    idle = worked = 0.0
    for run in runs:
        if run.started is not None and run.ended is not None:
            barrier = barriers.get(run.name) or run.ended
            idle += barrier - run.started
            worked += run.ended - barrier
    done = [
        job
        for job in JOBS
        if sum(p.status.phase == "Succeeded" for p in pods if _job_of(p) == job) == WORKERS
    ]
    submitted = min(run.created for run in runs)
    return Outcome(
        tuple(runs), submitted, max(run.ended or 0 for run in runs) - submitted, idle, worked, tuple(done)
    )


async def _barrier(client: LocalClient, pod: Pod) -> float | None:
    """The time at which the worker reports that it passed its barrier.

    None if the worker did not pass it, or was removed before.
    """
    text = b""
    with suppress(NotFound):
        async for chunk in client.log(pod.metadata.namespace, pod.metadata.name):
            text += chunk
    for line in text.decode().splitlines():
        word, _, time = line.partition(" ")
        if word == "barrier":
            return float(time)
    return None


def _job_of(pod: Pod) -> str:
    return pod.metadata.name.rpartition("-")[0]


def _pod(job: str, rank: int, gang: bool) -> Object:
    labels = {groups.CREATED.label: job} if gang else {}
    words = [str(rank), str(WORKERS), f"{job}-0.{job}", str(BARRIER), str(WORK)]
    return {
        "metadata": {"name": f"{job}-{rank}", "labels": labels},
        "spec": {
            "restartPolicy": "Never",
            "hostname": f"{job}-{rank}",
            "subdomain": job,
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "worker",
                    "command": [sys.executable, str(SCRIPT), *words],
                    "resources": {"limits": {GPU: 1}, "requests": {"cpu": "100m"}},
                }
            ],
        },
    }
