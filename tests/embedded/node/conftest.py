"""A node agent on a real store, with real processes, in both kinds of isolation."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from muster.api.base import Object
from muster.api.core_v1 import Pod
from muster.api.kinds import POD
from muster.embedded.client import LocalClient
from muster.embedded.node.agent import NodeAgent
from muster.embedded.node.isolation import Isolation, detect
from muster.embedded.node.logs import Logs
from muster.embedded.nodespec import NodeSpec
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from muster.kube.client import LogOptions
from muster.kube.clock import Clock
from muster.kube.errors import NotFound
from muster.kube.informers import Informers
from tests.patience import PATIENCE

HERE = NodeSpec("here", {"cpu": 64, "memory": "64Gi", "pods": 1000})


class Cluster:
    """A store, a client and, while `running()` is open, an agent."""

    def __init__(
        self,
        root: Path,
        isolation: Isolation,
        nodes: list[NodeSpec],
        clock: Clock | None,
        store: Store | None = None,
    ) -> None:
        self.root, self.isolation, self.nodes, self.clock = root, isolation, nodes, clock
        self.logs = Logs(root / "logs")
        self.store = store or Store(":memory:")
        self.client = LocalClient(Registry(self.store), self.logs)
        self.agent: NodeAgent | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[NodeAgent]:
        """An agent; at the end it is cancelled, as by a crash."""
        informers = Informers(self.client, self.clock)
        agent = NodeAgent(
            self.client,
            informers,
            root=self.root,
            nodes=self.nodes,
            clock=self.clock,
            isolation=self.isolation,
            logs=self.logs,
        )
        watching = asyncio.create_task(informers.run())
        task = asyncio.create_task(agent.run())
        ready = asyncio.create_task(agent.ready.wait())
        try:
            await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
            yield agent
        finally:
            ready.cancel()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def submit(self, name: str, command: list[str] | None = None, **spec: Any) -> Pod:
        """Creates a pod that is bound already. `spec` overrides the pod's; `container` its container's."""
        container: Object = {"name": "main", "command": command} | spec.pop("container", {})
        meta: Object = {"name": name} | spec.pop("metadata", {})
        body: Object = {
            "metadata": meta,
            "spec": {"nodeName": "here", "restartPolicy": "Never", "containers": [container]} | spec,
        }
        return await self.client.create(POD, "default", body)

    async def get(self, name: str) -> Pod:
        return await self.client.get(POD, "default", name)

    async def until(self, name: str, condition: Callable[[Pod], bool]) -> Pod:
        """The first version of the pod that meets the condition."""
        async with asyncio.timeout(PATIENCE):
            pod = await self.get(name)
            if condition(pod):
                return pod
            version = pod.metadata.resource_version
            async for event in self.client.watch(POD, "default", resource_version=version):
                if event.object.metadata.name == name and condition(event.object):
                    return event.object
        raise AssertionError("the watch has ended")

    async def ended(self, name: str) -> Pod:
        return await self.until(name, lambda pod: pod.terminal)

    async def started(self, name: str) -> Pod:
        return await self.until(name, lambda pod: pod.status.phase == "Running")

    async def gone(self, name: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    await self.get(name)
                except NotFound:
                    return
                await asyncio.sleep(0.02)

    async def output(self, name: str, container: str = "main", **how: Any) -> str:
        chunks = [
            chunk
            async for chunk in self.client.log("default", name, container=container, how=LogOptions(**how))
        ]
        return b"".join(chunks).decode()


def isolations() -> list[Isolation]:
    found = detect({})
    without = Isolation(namespaces=False, reason="switched off by the test")
    return [found, without] if found.namespaces else [without]


@pytest.fixture
def nothing_left(tmp_path: Path) -> Iterator[None]:
    """Ends whatever containers a failed test has left, and says so."""
    yield
    # The kernel takes a killed namespace down a little after its first process.
    bound = time.monotonic() + PATIENCE
    while (left := marked_processes(tmp_path)) and time.monotonic() < bound:
        time.sleep(0.01)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)
    assert not left, "processes are left"


@pytest.fixture(params=isolations(), ids=lambda isolation: "namespaces" if isolation.namespaces else "shim")
def isolation(request: pytest.FixtureRequest, nothing_left: None) -> Isolation:
    chosen: Isolation = request.param
    return chosen


@pytest.fixture
def cluster(tmp_path: Path, isolation: Isolation) -> Iterator[Cluster]:
    made = Cluster(tmp_path, isolation, [HERE], None)
    yield made
    made.store.close()


def marked_processes(root: Path) -> list[int]:
    """Processes that some container below `root` has left behind."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            environ = Path(f"/proc/{name}/environ").read_bytes()
        except OSError:
            continue
        if f"MUSTER_CONTAINER={root}/".encode() in environ:
            found.append(int(name))
    return found
