"""What probes and lifecycle hooks do to a container: a command inside it, a request to its pod, a pause.

Supported are `exec` inside the container's namespaces, `tcpSocket` and `httpGet` to the pod's address, and
`sleep`. Source: kubernetes pkg/kubelet/lifecycle/handlers.go and pkg/probe.
"""

import asyncio
import contextlib
import os
import signal
from types import TracebackType
from typing import Final

from muster.api.base import Object
from muster.api.core_v1 import Pod
from muster.embedded.node import starts, variables
from muster.embedded.node.environment import Unavailable
from muster.embedded.node.machine import Machine
from muster.embedded.node.processes import Process, end_marked, start_beside
from muster.embedded.node.status import Observed

_LAST_OUTPUT: Final = 200  # most bytes of the output of a failed command in its message
_CHUNK: Final = 2**16  # bytes of output read at once, which is what a pipe holds
_PAUSE: Final = 0.01  # seconds between two reads


class Handlers:
    """Runs the handlers of one start of a container."""

    def __init__(self, machine: Machine, pod: Pod, container: Observed, process: Process) -> None:
        self._machine, self._pod, self._container, self._process = machine, pod, container, process
        self._address = pod.status.pod_ip or "127.0.0.1"

    async def run(self, handler: Object, which: str) -> str | None:
        """Runs a handler once; returns None for a success, else what failed. `which` marks its processes."""
        try:
            if "exec" in handler:
                return await self._exec(which, list(handler["exec"].get("command", [])))
            if "tcpSocket" in handler:
                return await self._request(handler["tcpSocket"], b"")
            if "httpGet" in handler:
                path = handler["httpGet"].get("path", "/")
                head = f"GET {path} HTTP/1.1\r\nHost: {self._address}\r\nConnection: close\r\n\r\n"
                return await self._request(handler["httpGet"], head.encode())
            if "sleep" in handler:
                await self._machine.clock.sleep(handler["sleep"].get("seconds", 0))
                return None
        except (OSError, ValueError, Unavailable) as error:  # ValueError: a status line without end
            return str(error)
        return f"{', '.join(handler)}: choose from exec, tcpSocket, httpGet, sleep"

    async def _exec(self, which: str, command: list[str]) -> str | None:
        init = self._process.init()
        if init is None:
            return "the container has ended"
        environ = starts.environment_inside(self._machine, self._pod, self._container)
        carried, argv = variables.carry(environ, command)
        working_dir = starts.working_dir_of(self._pod, self._container)
        argv = self._machine.isolation.inside(init, working_dir, argv, self._machine.umask)
        mark = str(self._process.files.directory / which)
        with _Output() as output:
            streams = (asyncio.subprocess.DEVNULL, output.sink, output.sink)
            process = await start_beside(argv, carried, mark, streams)
            try:
                # not the end of the output: a process that the command leaves running may hold it open
                code = await process.wait()
            finally:
                if process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):  # its group: the command may have children
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
