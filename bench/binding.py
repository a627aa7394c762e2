"""Processor time of the scheduler from a pod's watch event to its Binding, per pod, by size of the gang.

The API server (the embedded cluster's store and HTTP server, over TLS) is one process, the scheduler another:
its loop as on a real cluster, over the HTTP client, with nothing else in the process. The load comes from a
third: a PodGroup, then all its pods at once over 32 connections; small gangs one after the other, until there
were 500 pods. The time counts from the first watch event of a pod to the answer to the last Binding.

    python -m bench.binding 500 --profile FILE    gangs of one size, the scheduler under cProfile
"""

import asyncio
import cProfile
import gc
import multiprocessing
import multiprocessing.connection
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final, TypeVar

from bench.http_api import serve
from muster.api import kinds
from muster.api.base import Kind, Object, Resource
from muster.embedded import credentials
from muster.kube.client import WatchEvent
from muster.kube.clock import SystemClock
from muster.kube.http import Connection, HttpClient
from muster.kube.informers import Informers

GANGS: Final = (20, 500, 10_000)
LEAST: Final = 500  # pods of all gangs of one size
NODES: Final = 100
CONNECTIONS: Final = 32
LONGEST: Final = 600  # seconds
R = TypeVar("R", bound=Resource)
Pipe = multiprocessing.connection.Connection


def run() -> dict[str, float]:
    """Milliseconds per pod."""
    return {f"binding: gang of {pods:,}, ms of CPU per pod": measure(pods) for pods in GANGS}


def measure(size: int, profile: str = "", beside: Callable[[str, int, Pipe], None] | None = None) -> float:
    """Milliseconds per pod. `beside`: what another process does meanwhile, with the state directory, the API
    server's port, and a pipe on which it says that it is ready."""
    spawn = multiprocessing.get_context("spawn")
    gangs = -(-LEAST // size)
    seconds = 0.0
    with tempfile.TemporaryDirectory() as directory:
        serving, theirs = spawn.Pipe()
        server = spawn.Process(target=serve, args=(directory, theirs), daemon=True)
        server.start()
        port = serving.recv()
        scheduling, theirs = spawn.Pipe()
        scheduler = spawn.Process(
            target=_schedule, args=(directory, port, theirs, gangs, size, profile), daemon=True
        )
        ready, theirs = spawn.Pipe()
        other = spawn.Process(target=beside, args=(directory, port, theirs), daemon=True) if beside else None
        try:
            asyncio.run(_prepare(Path(directory), port))
            if other is not None:
                other.start()
                assert ready.recv() == "ready"
            scheduler.start()
            assert scheduling.recv() == "leading"
            for number in range(gangs):
                asyncio.run(_load(Path(directory), port, f"gang-{number}", size))
                assert scheduling.poll(LONGEST), f"not all bound within {LONGEST} s"
                seconds = scheduling.recv()
            scheduler.join(30)
        finally:
            if other is not None:
                other.terminate()
                other.join(10)
            if scheduler.is_alive():
                scheduler.terminate()
            serving.send("stop")
            server.join(10)
    return seconds / gangs / size * 1000


class _Measured(HttpClient):
    """Counts from the first pod that is seen; puts the time into `bound` whenever a gang is bound."""

    def __init__(self, connection: Connection, size: int, profile: cProfile.Profile | None) -> None:
        super().__init__(connection)
        self._size, self._binds, self._began, self._profile = size, 0, 0.0, profile
        self.bound = asyncio.Queue[float]()

    async def watch(
        self,
        kind: Kind[R],
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[WatchEvent[R]]:
        watch = super().watch(
            kind, namespace, resource_version=resource_version, labels=labels, fields=fields
        )
        async for event in watch:
            if kind is kinds.POD and not self._began:
                self._began = time.process_time()
                if self._profile is not None:
                    self._profile.enable()
            yield event

    async def bind(self, namespace: str, name: str, binding: Object) -> None:
        await super().bind(namespace, name, binding)
        self._binds += 1
        if self._binds % self._size == 0:
            self.bound.put_nowait(time.process_time() - self._began)


def _schedule(directory: str, port: int, pipe: Pipe, gangs: int, size: int, profile: str) -> None:
    import uvloop

    from muster.runtime import loop
    from muster.runtime.leader import Term
    from muster.runtime.watched import WatchedMirror

    gc.set_threshold(50_000, 20, 20)  # as `muster scheduler` sets it

    async def schedule() -> None:
        profiler = cProfile.Profile(time.process_time) if profile else None
        client = _Measured(connection(Path(directory), port), size, profiler)
        leading = asyncio.Event()
        informers = Informers(client)
        watching = asyncio.create_task(informers.run())
        running = asyncio.create_task(
            loop.run(
                client,
                informers,
                SystemClock(),
                Term(1),
                leading=leading,
                mirror=WatchedMirror(informers, frozenset({"muster"})),
            )
        )
        await leading.wait()
        pipe.send("leading")
        for _ in range(gangs):
            pipe.send(await client.bound.get())
        if profiler is not None:
            profiler.disable()
            profiler.dump_stats(profile)
        running.cancel()
        watching.cancel()
        await asyncio.gather(running, watching, return_exceptions=True)
        await client.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(schedule())


def connection(home: Path, port: int) -> Connection:
    headers = {"Authorization": f"Bearer {credentials.token_file(home).read_text()}"}
    return Connection(f"https://127.0.0.1:{port}", credentials.client_context(home), lambda: headers)


async def _prepare(home: Path, port: int) -> None:
    """Nodes that have room for every gang."""
    capacity = {"cpu": "1000", "memory": "1000Gi", "pods": "200"}
    client = HttpClient(connection(home, port))
    for number in range(NODES):
        status = {"allocatable": capacity, "conditions": [{"type": "Ready", "status": "True"}]}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"node-{number:03}"},
            "status": status,
        }
        await client.create(kinds.NODE, "", node)
    await client.close()


async def _load(home: Path, port: int, gang: str, size: int) -> None:
    client = HttpClient(connection(home, port))
    group = {
        "apiVersion": kinds.POD_GROUP_X.api_version,
        "kind": "PodGroup",
        "metadata": {"name": gang},
        "spec": {"minMember": size},
    }
    await client.create(kinds.POD_GROUP_X, "default", group)
    numbers = iter(range(size))

    async def create() -> None:
        for number in numbers:
            await client.create(kinds.POD, "default", _pod(gang, number))

    await asyncio.gather(*(create() for _ in range(CONNECTIONS)))
    await client.close()


def _pod(gang: str, number: int) -> Object:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{gang}-{number:05}",
            "labels": {"scheduling.x-k8s.io/pod-group": gang, "app": "trainer"},
        },
        "spec": {"schedulerName": "muster", "restartPolicy": "Never", "containers": [container]},
    }


def main() -> None:
    profile = sys.argv[sys.argv.index("--profile") + 1] if "--profile" in sys.argv else ""
    print(f"{measure(int(sys.argv[1]), profile):.3f} ms per pod")


if __name__ == "__main__":
    main()
