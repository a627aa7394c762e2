"""The embedded cluster at work: 500 processes at once, and 10,000 pods without processes.

Times count from the submission of the job, over the HTTP API, as `muster submit` does; the cluster runs in
a process of its own.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import msgspec

from muster.api import kinds
from muster.api.base import Object
from muster.api.core_v1 import Pod
from muster.app.wiring.cluster import Target, acting
from muster.app.wiring.state_directory import StateDirectory
from muster.kube.reflector import Reflector

SLEEPERS: Final = 500
PRETENDED: Final = 10_000


def run() -> dict[str, float]:
    """Seconds from submission."""
    figures = {}
    nodes = "1 x cpu=1000,memory=1000Gi,pods=1000"
    bound, running, _ = _measure(nodes, _job(SLEEPERS, ["sleep", "1000"]))
    figures[f"{SLEEPERS} sleeps: all bound, s"] = bound
    figures[f"{SLEEPERS} sleeps: all running, s"] = running
    nodes = "100 x cpu=1000,memory=1000Gi,pods=200,runtime=none"
    bound, running, size = _measure(nodes, _job(PRETENDED, ["sleep", "1000"]))
    figures[f"{PRETENDED} pods, runtime=none: all bound, s"] = bound
    figures[f"{PRETENDED} pods, runtime=none: all running, s"] = running
    figures[f"{PRETENDED} pods, runtime=none: host resident, MB"] = size
    return figures


def _job(pods: int, command: list[str]) -> Object:
    return {
        "apiVersion": kinds.JOBSET.api_version,
        "kind": "JobSet",
        "metadata": {"name": "many"},
        "spec": {
            "replicatedJobs": [
                {
                    "name": "w",
                    "template": {
                        "spec": {
                            "parallelism": pods,
                            "completions": pods,
                            "backoffLimit": 0,
                            "template": {
                                "spec": {
                                    "restartPolicy": "Never",
                                    "terminationGracePeriodSeconds": 1,
                                    "containers": [
                                        {
                                            "name": "main",
                                            "command": command,
                                            "resources": {"requests": {"cpu": "100m"}},
                                        }
                                    ],
                                }
                            },
                        }
                    },
                }
            ]
        },
    }


def _measure(nodes: str, job: Object) -> tuple[float, float, float]:
    """Seconds until all pods were bound and all were running, and the host's resident MB then."""
    with tempfile.TemporaryDirectory() as directory:
        environment = {**os.environ, "MUSTER_HOME": directory}
        os.environ["MUSTER_HOME"] = directory
        muster = str(Path(sys.executable).with_name("muster"))
        subprocess.run(
            [muster, "up", "--detach", "--nodes", nodes],
            check=True,
            env=environment,
            stdout=subprocess.DEVNULL,
        )
        try:
            return asyncio.run(_watch(job))
        finally:
            subprocess.run([muster, "down"], check=True, env=environment, stdout=subprocess.DEVNULL)


async def _watch(job: Object) -> tuple[float, float, float]:
    wanted = job["spec"]["replicatedJobs"][0]["template"]["spec"]["completions"]
    endpoint = StateDirectory.of_user().endpoint()
    assert endpoint is not None
    bound: set[str] = set()
    running: set[str] = set()
    all_bound, all_running = asyncio.Event(), asyncio.Event()

    def seen(old: object, new: Pod | None) -> None:
        if new is None:
            return
        if new.spec.node_name:
            bound.add(new.metadata.uid)
        if new.status.phase == "Running":
            running.add(new.metadata.uid)
        for pods, event in ((bound, all_bound), (running, all_running)):
            if len(pods) >= wanted:
                event.set()

    async with acting(Target(), endpoint) as client, asyncio.TaskGroup() as group:
        pods = Reflector(client, kinds.POD)
        pods.subscribe(seen)
        watching = group.create_task(pods.run())
        await pods.synced.wait()
        begin = time.perf_counter()
        await client.create(kinds.JOBSET, "default", job)
        async with asyncio.timeout(120):
            await all_bound.wait()
            to_bound = time.perf_counter() - begin
            await all_running.wait()
        to_running = time.perf_counter() - begin
        watching.cancel()
    return to_bound, to_running, _resident(endpoint.pid)


def _resident(pid: int) -> float:
    """MB"""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def main() -> None:
    print(msgspec.json.format(msgspec.json.encode(run())).decode())


if __name__ == "__main__":
    main()
