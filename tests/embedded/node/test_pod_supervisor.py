"""Workers that fail in unforeseen ways."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from muster.api.core_v1 import ContainerStatus, Terminated
from muster.api.kinds import POD
from muster.embedded.node import marks, processes, status
from muster.embedded.node.isolation import Isolation
from muster.embedded.node.pod import PodWorker
from muster.embedded.node.pod_supervisor import BACK_OFF, REASON
from tests.embedded.node.conftest import HERE, Cluster, marked_processes
from tests.embedded.node.virtual import VirtualClock
from tests.patience import PATIENCE


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def late(tmp_path: Path, isolation: Isolation, clock: VirtualClock) -> Cluster:
    return Cluster(tmp_path, isolation, [HERE], clock)


async def test_a_pod_whose_worker_fails_says_so_and_is_tried_again(
    late: Cluster, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    live, failures = PodWorker._live, [RuntimeError("one"), OSError("two"), KeyError("three")]

    async def fail_at_first(worker: PodWorker) -> None:
        if failures:
            raise failures.pop(0)
        await live(worker)

    monkeypatch.setattr(PodWorker, "_live", fail_at_first)
    async with late.running():
        await late.submit("p", ["true"])
        for told, delay in (("RuntimeError: one", 1.0), ("OSError: two", 2.0), ("KeyError: 'three'", 4.0)):
            pod = await late.until("p", lambda pod: pod.status.message.endswith(told))  # noqa: B023
            assert pod.status.reason == REASON
            await _sleeps(late, clock, delay)
            clock.advance(delay)
        pod = await late.ended("p")
        assert (pod.status.phase, pod.status.reason, pod.status.message) == ("Succeeded", "", "")
    assert BACK_OFF == (1.0, 300.0)


@pytest.mark.parametrize("when", ["began", "running", "ended"])
async def test_a_running_container_is_taken_over(
    late: Cluster, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    document, fails = status.document, False

    def fail(*args: Any, **more: Any) -> Any:
        if fails:
            raise TypeError("cannot be said")
        return document(*args, **more)

    monkeypatch.setattr(status, "document", fail)
    first, second = late.root / "first", late.root / "second"
    wait = "while ! [ -e {} ]; do sleep 0.02; done; "
    other = {"name": "other", "command": ["sh", "-c", f"{wait.format(first)} exit 3"]}
    main = {"name": "main", "command": ["sh", "-c", f"echo one; {wait.format(second)} echo two; exit 7"]}
    async with late.running():
        await late.submit("p", containers=[main, other])
        await late.until("p", lambda pod: all(c.state.running for c in pod.status.container_statuses))
        fails = True
        first.touch()
        await late.until("p", lambda pod: "cannot be said" in pod.status.message)
        await _sleeps(late, clock, BACK_OFF[0])
        if when == "ended":
            second.touch()
            await _end(late, containers=2)
        fails = False
        with monkeypatch.context() as patch:
            if when == "began":  # a process has no environment before it has executed its program
                patch.setattr(marks, "variable", lambda pid: "")
            clock.advance(BACK_OFF[0])
            await late.until("p", lambda pod: not pod.status.message)
        second.touch()
        pod = await late.ended("p")
        assert {
            c.name: (terminated(c).exit_code, c.restart_count) for c in pod.status.container_statuses
        } == {
            "main": (7, 0),
            "other": (3, 0),
        }
        assert await late.output("p") == "one\ntwo\n"


async def test_what_a_container_left_is_ended_after_a_worker_failed_to(
    tmp_path: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, nothing_left: None
) -> None:
    shim = Cluster(tmp_path, Isolation(namespaces=False), [HERE], clock)
    end, failures = processes.end_marked, [RuntimeError("cannot end")]

    async def fail_at_first(mark: str) -> None:
        if failures:
            raise failures.pop()
        await end(mark)

    monkeypatch.setattr(processes, "end_marked", fail_at_first)
    async with shim.running():
        await shim.submit("p", ["sh", "-c", "setsid sleep 1000 & exit 3"])
        await shim.until("p", lambda pod: "cannot end" in pod.status.message)
        await _sleeps(shim, clock, BACK_OFF[0])
        clock.advance(BACK_OFF[0])
        pod = await shim.ended("p")
        assert terminated(pod.status.container_statuses[0]).exit_code == 3
        assert marked_processes(tmp_path) == []


def terminated(container: ContainerStatus) -> Terminated:
    assert container.state.terminated is not None
    return container.state.terminated


async def _end(cluster: Cluster, containers: int) -> None:
    """Waits until so many containers have recorded their exit, and no process is left."""
    async with asyncio.timeout(PATIENCE):
        while (  # noqa: ASYNC110  # no event tells
            len([*cluster.root.glob("node/pods/*/*/0/exit")]) < containers or marked_processes(cluster.root)
        ):
            await asyncio.sleep(0.01)


async def _sleeps(cluster: Cluster, clock: VirtualClock, seconds: float) -> None:
    async with asyncio.timeout(PATIENCE):
        while clock.slept[-1:] != [seconds]:  # noqa: ASYNC110  # no event tells
            await asyncio.sleep(0)


async def test_a_pod_that_is_to_end_ends_all_the_same(late: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PodWorker, "_end", _fail)
    async with late.running():
        await late.submit("p", ["sleep", "1000"])
        await late.started("p")
        await late.client.delete(POD, "default", "p")
        await late.gone("p")
        assert marked_processes(late.root) == []
        assert list((late.root / "node/pods").iterdir()) == []


async def _fail(worker: PodWorker) -> None:
    raise RuntimeError("cannot end")
