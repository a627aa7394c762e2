"""Startup, readiness and liveness probes of one start of a container.

The other two probes wait until the startup probe has succeeded.
Source: kubernetes pkg/kubelet/prober/worker.go.
"""

import asyncio
from collections.abc import Callable
from types import TracebackType

from muster.api.base import Object
from muster.embedded.node.handlers import Handlers
from muster.embedded.node.machine import Machine
from muster.embedded.node.processes import Process
from muster.embedded.node.status import Observed


class Probes:
    """The probes of one start, as an asynchronous context: their tasks run as long as it is open."""

    def __init__(
        self,
        container: Observed,
        machine: Machine,
        process: Process,
        handlers: Handlers,
        report: Callable[[], None],
    ) -> None:
        self._container, self._machine, self._process = container, machine, process
        self._handlers, self._report = handlers, report
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
                return await self._handlers.run(probe, which)
        except TimeoutError:
            return f"no answer within {timeout} s"


def _number(probe: Object, field: str, default: int) -> float:
    """A field of a probe as a number. Zero means the default, as it does to the API server."""
    return float(probe.get(field) or default)
