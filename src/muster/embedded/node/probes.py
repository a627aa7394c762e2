"""Startup, readiness and liveness probes of one start of a container.

Supported are `exec` inside the container's namespaces, and `tcpSocket` and `httpGet` to the pod's address.
The other two probes wait until the startup probe has succeeded.
Source: kubernetes pkg/kubelet/prober/worker.go.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from types import TracebackType
from typing import Final

from muster.api.base import Object
from muster.embedded.node import variables
from muster.embedded.node.machine import Machine
from muster.embedded.node.processes import Process, end_marked, start_beside
from muster.embedded.node.status import Observed

_LAST_OUTPUT: Final = 200  # most bytes of a failed probe's output in its message
_CHUNK: Final = 2**16  # bytes of output read at once, which is what a pipe holds
_PAUSE: Final = 0.01  # seconds between two reads


class Probes:
    """The probes of one start, as an asynchronous context: their tasks run as long as it is open."""

    def __init__(
        self,
        container: Observed,
        machine: Machine,
        process: Process,
        environ: dict[str, str],
        working_dir: str,
        address: str,
        report: Callable[[], None],
    ) -> None:
        self._container, self._machine, self._process = container, machine, process
        self._environ, self._working_dir, self._address = environ, working_dir, address
        self._report = report
        self._failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> None:
        spec = self._container.spec
        if spec.startup_probe is None:
            self._container.started = True
            self._container.ready = spec.readiness_probe is None
        if spec.startup_probe or spec.liveness_probe or spec.readiness_probe:
            self._tasks.append(asyncio.create_task(self._all()))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def failed(self) -> str:
        """Waits until a probe requires the container to end; returns why."""
        return await asyncio.shield(self._failed)

    async def _all(self) -> None:
        spec = self._container.spec
        await self._process.set_up()
        if spec.startup_probe is not None:
            await self._until(spec.startup_probe, "startup", once=True)
            if self._failed.done():
                return
            self._container.started = True
            self._container.ready = spec.readiness_probe is None
            self._report()
        async with asyncio.TaskGroup() as tasks:
            if spec.liveness_probe is not None:
                tasks.create_task(self._until(spec.liveness_probe, "liveness", once=False))
            if spec.readiness_probe is not None:
                tasks.create_task(self._readiness(spec.readiness_probe))

    async def _until(self, probe: Object, which: str, *, once: bool) -> None:
        """Probes until the first success (with `once`), or until too many consecutive failures."""
        await self._machine.clock.sleep(probe.get("initialDelaySeconds", 0))
        failures = 0
        while not self._failed.done():
            said = await self._probe(probe, which)
            failures = failures + 1 if said is not None else 0
            if said is None and once:
                return
            if failures >= _number(probe, "failureThreshold", 3):
                self._failed.set_result(f"{which} probe failed {failures} times: {said}")
                return
            await self._machine.clock.sleep(_number(probe, "periodSeconds", 10))

    async def _readiness(self, probe: Object) -> None:
        await self._machine.clock.sleep(probe.get("initialDelaySeconds", 0))
        failures = successes = 0
        while True:
            if await self._probe(probe, "readiness") is None:
                failures, successes = 0, successes + 1
            else:
                failures, successes = failures + 1, 0
            ready = self._container.ready
            if successes >= _number(probe, "successThreshold", 1):
                ready = True
            elif failures >= _number(probe, "failureThreshold", 3):
                ready = False
            if ready != self._container.ready:
                self._container.ready = ready
                self._report()
            await self._machine.clock.sleep(_number(probe, "periodSeconds", 10))

    async def _probe(self, probe: Object, which: str) -> str | None:
        """Probes once; returns None for a success, else the probe's message."""
        timeout = _number(probe, "timeoutSeconds", 1)
        try:
            async with asyncio.timeout(timeout):
                if "exec" in probe:
                    return await self._exec(which, list(probe["exec"].get("command", [])))
                if "tcpSocket" in probe:
                    return await self._request(probe["tcpSocket"], b"")
                if "httpGet" in probe:
                    path = probe["httpGet"].get("path", "/")
                    head = f"GET {path} HTTP/1.1\r\nHost: {self._address}\r\nConnection: close\r\n\r\n"
                    return await self._request(probe["httpGet"], head.encode())
        except TimeoutError:
            return f"no answer within {timeout} s"
        except (OSError, ValueError) as error:  # ValueError: a status line without end
            return str(error)
        return f"{', '.join(probe)}: choose from exec, tcpSocket, httpGet"

    async def _exec(self, which: str, command: list[str]) -> str | None:
        init = self._process.init()
        if init is None:
            return "the container has ended"
        carried, argv = variables.carry(self._environ, command)
        argv = self._machine.isolation.inside(init, self._working_dir, argv, self._machine.umask)
        mark = str(self._process.files.directory / which)
        with _Output() as output:
            streams = (asyncio.subprocess.DEVNULL, output.sink, output.sink)
            process = await start_beside(argv, carried, mark, streams)
            try:
                # not the end of the output: a process that the probe leaves running may hold it open
                code = await process.wait()
            finally:
                if process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):  # its group: the probe may have children
                        os.killpg(process.pid, signal.SIGKILL)
                    await process.wait()
                    await end_marked(mark)
            return None if code == 0 else f"exit {code}: {output.end()}"

    async def _request(self, target: Object, request: bytes) -> str | None:
        port = target.get("port")
        if isinstance(port, str):
            port = next((p.container_port for p in self._container.spec.ports if p.name == port), None)
        if port is None:
            return f"port {target.get('port')!r} is not one of the container's"
        reader, writer = await asyncio.open_connection(target.get("host") or self._address, int(port))
        try:
            if not request:
                return None
            writer.write(request)
            status = (await reader.readline()).split()
            code = int(status[1]) if len(status) > 1 and status[1].isdigit() else 0
            return None if 200 <= code < 400 else f"HTTP {code}"
        finally:
            writer.close()


def _number(probe: Object, field: str, default: int) -> float:
    """A field of a probe as a number. Zero means the default, as it does to the API server."""
    return float(probe.get(field) or default)


class _Output:
    """A pipe for the output of a probe, which keeps the end. Endless output is read at 6 MB/s."""

    def __init__(self) -> None:
        self._source, self.sink = os.pipe()
        os.set_blocking(self._source, False)
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._kept = b""

    def __enter__(self) -> "_Output":
        self._loop.add_reader(self._source, self._read)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.remove_reader(self._source)
        if self._pause is not None:
            self._pause.cancel()
        os.close(self._source)
        os.close(self.sink)

    def end(self) -> str:
        """The end of the output so far."""
        self._take()
        return self._kept.decode(errors="replace").strip()

    def _read(self) -> None:
        self._take()
        self._loop.remove_reader(self._source)
        self._pause = self._loop.call_later(_PAUSE, self._loop.add_reader, self._source, self._read)

    def _take(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._kept = (self._kept + os.read(self._source, _CHUNK))[-_LAST_OUTPUT:]
