"""Exec probes that misbehave: endless output, processes left behind, and what bounds both."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from muster.api.base import is_true
from muster.api.kinds import POD
from muster.embedded.node import handlers, marks, processes
from muster.embedded.node.isolation import Files
from tests.embedded.node.conftest import Cluster
from tests.patience import PATIENCE
from tests.processes import started

PYTHON: Final = sys.executable
#: Four processes, each of which forks and ends without pause; they end by themselves after 200 s.
FORKING: Final = """
import os, sys, time
end = time.monotonic() + 200
for _ in range(4):
    if not os.fork():
        break
else:
    time.sleep(200)
    os._exit(0)
open(sys.argv[1], "w").close()
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
"""


def readiness(script: str, **more: Any) -> Any:
    return {"readinessProbe": {"exec": {"command": ["sh", "-c", script]}, "periodSeconds": 1, **more}}


def with_mark(directory: Path) -> list[int]:
    return sorted(pid for pid, mark in marks.processes() if marks.belongs(mark, str(directory)))


def name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""  # it has ended


async def test_endless_output_is_read_slowly_and_only_its_end_is_kept() -> None:
    read = 0
    with handlers._Output() as output, started(["yes"], stdout=output.sink):
        start = asyncio.get_running_loop().time()
        take = output._take

        def counted() -> None:
            nonlocal read
            read += 1
            take()

        output._take = counted  # type: ignore[method-assign]
        while read < 5:  # noqa: ASYNC110  # bytes send no events
            await asyncio.sleep(0.01)
        assert asyncio.get_running_loop().time() - start >= 4 * handlers._PAUSE
        assert set(output.end().split()) == {"y"}
        assert len(output.end()) <= handlers._LAST_OUTPUT


async def test_a_probe_that_prints_much_is_judged_by_its_exit(cluster: Cluster) -> None:
    async with cluster.running():
        script = "head -c 300000 /dev/zero; test -e ok"
        container = {"workingDir": str(cluster.root), **readiness(script, timeoutSeconds=60)}
        await cluster.submit("loud", ["sleep", "1000"], container=container)
        (cluster.root / "ok").touch()
        await cluster.until("loud", lambda pod: is_true(pod.status.conditions, "Ready"))
        await cluster.client.delete(POD, "default", "loud", grace_period=1)
        await cluster.gone("loud")


@pytest.mark.parametrize(
    "script",
    [
        "echo x >>began; sleep 1000",
        "echo x >>began; sleep 1000 & sleep 1000",
        "setsid sleep 1000 & echo x >>began; sleep 1000",
    ],
)
async def test_a_probe_beyond_its_time_leaves_nothing(cluster: Cluster, script: str) -> None:
    async with cluster.running():
        pod = await cluster.submit(
            "slow", ["sleep", "1000"], container={"workingDir": str(cluster.root), **readiness(script)}
        )
        await cluster.started("slow")
        began, directory = cluster.root / "began", cluster.root / "node" / "pods" / pod.metadata.uid
        async with asyncio.timeout(PATIENCE):
            while not began.exists() or len(began.read_text().split()) < 2:  # noqa: ASYNC110  # nor do files
                await asyncio.sleep(0.02)
        # the second probe has started: the first was ended, with everything it had started
        probing = [pid for pid in with_mark(directory) if marks.variable(pid).endswith("/readiness")]
        asleep = [pid for pid in probing if name(pid) == "sleep"]
        assert len(asleep) <= script.count("sleep"), "those of one probe"
        await cluster.client.delete(POD, "default", "slow", grace_period=1)
        await cluster.gone("slow")
    assert with_mark(directory) == []


async def test_a_probe_that_leaves_a_process_succeeds_and_that_ends_with_the_container(
    cluster: Cluster,
) -> None:
    async with cluster.running():
        container = readiness("setsid sleep 1000 &", timeoutSeconds=60)
        pod = await cluster.submit("daemon", ["sleep", "1000"], container=container)
        await cluster.until("daemon", lambda pod: is_true(pod.status.conditions, "Ready"))
        directory = cluster.root / "node" / "pods" / pod.metadata.uid
        await cluster.client.delete(POD, "default", "daemon", grace_period=1)
        await cluster.gone("daemon")
    assert with_mark(directory) == []


async def test_processes_that_fork_and_end_without_pause_end_with_their_container(tmp_path: Path) -> None:
    files = Files(tmp_path)
    os.mkfifo(files.output)
    reader = os.open(files.output, os.O_RDONLY | os.O_NONBLOCK)
    process = processes.start(
        [PYTHON, "-c", FORKING, str(tmp_path / "began")],
        {"PATH": os.environ["PATH"]},
        files,
        namespaces=False,
    )
    try:
        async with asyncio.timeout(PATIENCE):
            while not (tmp_path / "began").exists():  # noqa: ASYNC110  # nor do forks
                await asyncio.sleep(0.01)
    finally:
        async with asyncio.timeout(PATIENCE):
            await process.kill()
        os.close(reader)
    assert with_mark(tmp_path) == []


async def test_a_pod_that_is_gone_has_left_no_process(cluster: Cluster) -> None:
    many = "i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i + 1)); done"
    script = f"trap '' TERM; {many}; touch full; exec sleep 1000"
    async with cluster.running():
        pod = await cluster.submit("many", ["sh", "-c", script], container={"workingDir": str(cluster.root)})
        directory = cluster.root / "node" / "pods" / pod.metadata.uid
        async with asyncio.timeout(PATIENCE):
            while not (cluster.root / "full").exists():  # noqa: ASYNC110  # no event tells
                await asyncio.sleep(0.01)
        await cluster.client.delete(POD, "default", "many", grace_period=1)
        await cluster.gone("many")
        assert with_mark(directory) == []
