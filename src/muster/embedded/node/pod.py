"""Runs one pod on this machine, from its binding to its last status.

A worker is one task that follows the life of a pod: volumes, init containers in order, the containers, then
sidecars in reverse. Deletion, `activeDeadlineSeconds` and `sizeLimit` cut that short by the same path:
SIGTERM, the grace period, SIGKILL. A second task writes the status. It always writes the newest state and
retries until the API server has it, so no container ever waits for a write.

The worker reads past events from the pod's directory: `<container>/<n>/started`, `exit`, and the processes
with its mark. It treats a pod that an earlier muster left behind like a new pod; for each container it finds
a start that is running, has ended, is lost, or has not been made.
"""

import asyncio
import shutil
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from muster.api.base import Object
from muster.api.core_v1 import ContainerState, Pod, Running, Waiting
from muster.api.fields import dotted
from muster.api.kinds import POD
from muster.embedded.node import claims, hooks, processes, starts, status, usage, volumes
from muster.embedded.node.environment import Unavailable
from muster.embedded.node.execution import Execution
from muster.embedded.node.handlers import Handlers
from muster.embedded.node.isolation import SETUP_FAILED, Files
from muster.embedded.node.machine import Machine
from muster.embedded.node.probes import Probes
from muster.embedded.node.reporting import (
    IGNORED,
    UNHEALTHY,
    StatusWriter,
    confirm_deletion,
    record_event,
    tell,
)
from muster.embedded.node.starts import CannotStart, Start
from muster.embedded.node.status import TOO_LONG, Observed, Override
from muster.kube.clock import back_off, first
from muster.kube.errors import ApiError, Unanswered, Unreachable
from muster.workloads import pod_fields

BACK_OFF: Final = (10.0, 300.0)  # seconds before the second restart, and at most
BACK_OFF_RESET: Final = 600.0  # a container that ran this long starts with the first delay again
CONFIG_RETRY: Final = 2.0  # seconds between lookups of a missing object that the pod refers to
CACHE_LAG: Final = 0.05  # seconds between looks into a cache that is behind the API server
GRACE: Final = 30.0
START_ERROR: Final = 128  # exit code of a container that could not be started, as in container engines
LOST: Final = 137


class PodWorker:
    """Runs one pod. Call `run` once, and `update` with each newer version of the pod."""

    def __init__(
        self, machine: Machine, pod: Pod, wrappers: dict[Path, int], starts: dict[str, Start] | None = None
    ) -> None:
        """`wrappers` are wrapper processes of an earlier muster process, by directory.

        `starts` are those of an earlier worker, whose place this one takes.
        """
        self.pod = pod
        self._machine = machine
        self._wrappers = wrappers
        self._directory = machine.directory(pod.metadata.uid)
        self._containers = status.restored(pod)
        #: starts that have not been seen to end, by container
        self.starts = starts or {}
        self._override = Override()
        self._start_time = pod.status.start_time or machine.clock.now()
        self._ending = asyncio.Event()
        self._cut = asyncio.Event()  # the grace period is over or cut short
        self._gone = False
        self._over = False  # nothing of the pod is left on this machine
        self._status = StatusWriter(machine, self)
        self.update(pod)

    def update(self, pod: Pod) -> None:
        self.pod = pod
        if pod.metadata.deletion_timestamp is not None:
            if self._ending.is_set():  # this may be a second deletion, with less grace
                asyncio.get_running_loop().call_later(self._grace(), self._cut.set)
            self._ending.set()

    def shut_down(self) -> None:
        """Ends the pod within its grace period because muster shuts down; it does not count as a failure."""
        message = "Pod was terminated because muster was shut down"
        self._override = Override("Terminated", message, failed=True, spared=True)
        self._ending.set()

    def vanish(self) -> None:
        """Ends the processes at once, because the pod was removed from the API server without the worker."""
        self._gone = True
        self._ending.set()
        self._cut.set()

    async def execute(self, container: str, command: Sequence[str], *, stdin: bool, tty: bool) -> Execution:
        """Starts a command in a running container. Raises Unavailable, OSError, ValueError."""
        found = next((each for each in self._containers if each.spec.name == container), None)
        start = self.starts.get(container)
        if found is None or start is None:
            raise Unavailable(f"container {container} is not running")
        return await starts.execute(
            self._machine, self.pod, found, start.process, command, stdin=stdin, tty=tty
        )

    async def ending(self) -> Literal[True]:
        """Waits until the pod has to end."""
        return await self._ending.wait()

    async def run(self) -> None:
        """Returns when the pod is terminal or gone. Cancelled or failed, it leaves `starts` running."""
        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(self._status.run())
            limits = [tasks.create_task(each) for each in (self._watch_deadline(), self._watch_usage())]
            tasks.create_task(self._tell_what_is_ignored())
            await first(self._live(), self._ending.wait())
            if self._ending.is_set():
                await self._end()
            for limit in limits:
                limit.cancel()
            self.clean_up()
            self._over = True
            self._report()
            await self._status.settled()
            writing.cancel()
        meta = self.pod.metadata
        self._machine.logs.pod_ended(meta.namespace, meta.name, meta.uid)
        if self.pod.metadata.deletion_timestamp is not None and not self._gone:
            await confirm_deletion(self._machine, self.pod)

    # the life of a pod

    async def _live(self) -> None:
        await self._has_devices()
        sources = await self._when_available(self._volumes)
        sidecars: list[asyncio.Task[None]] = []
        try:
            for container in [c for c in self._containers if c.init]:
                if container.sidecar:
                    sidecars.append(asyncio.create_task(self._supervise(container, sources)))
                    await self._has_started(container, sidecars[-1])
                else:
                    await self._supervise(container, sources)
                    self._machine.devices.done(self.pod.metadata.uid, container.spec.name)
                    if container.exit_code != 0:
                        return
            mains = [c for c in self._containers if not c.init]
            await _all(self._supervise(container, sources) for container in mains)
        finally:
            for task in sidecars:
                task.cancel()
            await asyncio.gather(*sidecars, return_exceptions=True)
        for container in reversed([c for c in self._containers if c.sidecar]):
            await self._terminate(container, self._grace())

    async def _tell_what_is_ignored(self) -> None:
        """Records an Event about fields of the pod that other clusters act upon."""
        meta = self.pod.metadata
        try:
            whole = await self._machine.client.get_json(POD, meta.namespace, meta.name)
        except (ApiError, Unanswered, Unreachable):  # the command that made the pod says it, too
            return
        if found := list(pod_fields.ignored(whole["spec"])):
            told = "; ".join(f"{dotted(path)}: {instead}" for path, instead in found)
            await self._record(IGNORED, f"ignored on the embedded cluster: {told}")

    async def _end(self) -> None:
        """Ends all containers at once, then sidecars in reverse order, all within one grace period."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._grace()
        mains = [c for c in self._containers if not c.sidecar]
        await _all(self._terminate(c, until - loop.time()) for c in mains)
        for container in reversed([c for c in self._containers if c.sidecar]):
            await self._terminate(container, max(0.0, until - loop.time()))
        if not self._override.failed and status.phase(self.pod, self._containers) not in (
            "Succeeded",
            "Failed",
        ):
            codes = [c.exit_code for c in self._containers if not c.init]
            self._override = Override(failed=any(code != 0 for code in codes))

    async def _watch_deadline(self) -> None:
        deadline = status.deadline(self.pod, self._start_time)
        if deadline is None:
            return
        left = deadline - self._machine.clock.now()
        await self._machine.clock.sleep(max(0.0, left.total_seconds()))
        self._override = TOO_LONG
        self._ending.set()

    async def _watch_usage(self) -> None:
        if message := await usage.exceeded(self._machine, self.pod):
            self._override = Override("Evicted", message, failed=True, grace=usage.GRACE)
            self._ending.set()

    def _grace(self) -> float:
        meta = self.pod.metadata
        if self._gone:
            return 0.0
        if self._override.grace is not None:
            return self._override.grace
        if meta.deletion_timestamp is not None and meta.deletion_grace_period_seconds is not None:
            return meta.deletion_grace_period_seconds
        wish = self.pod.spec.termination_grace_period_seconds
        return GRACE if wish is None else wish

    # one container

    async def _supervise(self, container: Observed, sources: dict[str, Path]) -> None:
        """Runs a container until it does not have to be restarted any more."""
        failures = 0
        while True:
            started = self._machine.clock.monotonic()
            await self._run_once(container, sources)
            if not self._restarts(container):
                return
            if self._machine.clock.monotonic() - started >= BACK_OFF_RESET:
                failures = 0
            if failures:
                delay = back_off(BACK_OFF, failures - 1)
                container.last_state = container.state
                message = f"back-off {delay:.0f} s restarting failed container {container.spec.name}"
                container.state = ContainerState(waiting=Waiting("CrashLoopBackOff", message))
                self._report()
                await self._machine.clock.sleep(delay)
            else:
                container.last_state = container.state
            failures += 1
            container.restart_count += 1

    def _restarts(self, container: Observed) -> bool:
        policy = self.pod.spec.restart_policy
        if container.sidecar:
            return True
        if container.exit_code == 0:
            return policy == "Always" and not container.init
        return policy in ("Always", "OnFailure")

    async def _run_once(self, container: Observed, sources: dict[str, Path]) -> None:
        """Runs one start to its end, from the state in which it is."""
        start = await self._start(container, sources)
        if start is None:
            return
        self.starts[container.spec.name] = start
        # an earlier worker has run the hook of a container that is running
        failed = (
            "" if container.state.running else await hooks.started(self._machine, self.pod, container, start)
        )
        if failed:
            await self._stop(container, start, self._grace())
            await tell(self._machine, self.pod, container, hooks.POST_START_FAILED, failed)
        else:
            failed = await self._probe(container, start)
        await self._finish(container, await start.process.wait(), failed)

    async def _probe(self, container: Observed, start: Start) -> str:
        """Probes a running container until its end; returns why it was ended, "" if it ended by itself."""
        container.state = ContainerState(running=Running(start.started))
        handlers = Handlers(self._machine, self.pod, container, start.process)
        probes = Probes(container, self._machine, start.process, handlers, self._report)
        self._report()
        async with probes:
            ended: int | str | None = await first(start.process.wait(), probes.failed())
            if not isinstance(ended, str):
                return ""
            await self._stop(container, start, self._grace())
            await tell(self._machine, self.pod, container, UNHEALTHY, ended)
            return ended

    async def _stop(self, container: Observed, start: Start, grace: float) -> None:
        await hooks.stop(self._machine, self.pod, container, start, grace)

    async def _start(self, container: Observed, sources: dict[str, Path]) -> Start | None:
        """The start that is running, found or made; None if it has ended already, or could not be made."""
        base = self._directory / container.spec.name
        made = sorted(int(path.name) for path in base.glob("[0-9]*"))
        if made and made[-1] > container.restart_count:
            container.restart_count = made[-1]
        if container.spec.name in self.starts:
            return self.starts[container.spec.name]
        files = Files(base / str(container.restart_count))
        if files.directory not in self._wrappers and made and not files.started.exists():
            shutil.rmtree(files.directory, ignore_errors=True)  # muster was killed before the process began
        if files.directory.exists() or (container.state.running is not None and not made):
            pid = self._wrappers.get(files.directory)
            start = starts.adopt(self._machine, self.pod, container, files, sources, pid)
            if start is None:
                self._found_ended(container, files)
            return start
        # one start per turn of the event loop, so that all of 500 pods are bound before most are started
        async with self._machine.turnstile:
            await asyncio.sleep(0)
        try:
            made_now: Start = await self._when_available(
                lambda: starts.start(self._machine, self.pod, container, files, sources), container
            )
        except CannotStart as error:
            self._start_error(container, str(error))
            return None
        return made_now

    def _found_ended(self, container: Observed, files: Files) -> None:
        """Records a start whose processes are gone: it ended while muster was down, or with the machine."""
        if files.output.exists():
            # reads the last output; the agent has kept its file open
            starts.writer_of(self._machine, self.pod, container, files).close()
        code = processes.recorded_exit(files)
        started, now = starts.started_at(files), starts.ended_at(self._machine, files)
        if code is None:
            message = "the container was gone when muster restarted; its exit code is unknown"
            container.state = status.ended(LOST, "ContainerStatusUnknown", message, started, now)
        else:
            reason = "Completed" if code == 0 else "Error"
            said = starts.termination_message(self._machine, self.pod, container, files, code)
            container.state = status.ended(code, reason, said, started, now)
        container.ready = container.started = False
        self._report()

    def _start_error(self, container: Observed, message: str) -> None:
        now = self._machine.clock.now()
        container.state = status.ended(START_ERROR, "StartError", message, None, now)
        container.ready = container.started = False
        self._report()

    async def _finish(self, container: Observed, code: int | None, failed: str = "") -> None:
        """Records the end of a start, of which no process and no output is left.

        `failed`: the failure of a probe or hook that ended it, whatever exit code the command made of that.
        """
        start = self.starts[container.spec.name]
        if not self._machine.isolation.namespaces:
            await start.process.kill()
        del self.starts[container.spec.name]
        start.writer.close()
        container.ready = container.started = False
        now = starts.ended_at(self._machine, start.process.files)
        told = _read(start.process.files.started) if code == SETUP_FAILED else ""
        if told:
            self._start_error(container, told)
            return
        if code is None:
            code = LOST
        message = failed or (
            starts.PORT_IN_USE if code and starts.says_in_use(self._machine, self.pod, container) else ""
        )
        files = start.process.files
        said = message or starts.termination_message(self._machine, self.pod, container, files, code)
        if message and self.pod.spec.restart_policy == "Never" and not self._override.failed:
            self._override = Override(message=f"container {container.spec.name}: {message}")
        reason = "Completed" if code == 0 else "Error"
        container.state = status.ended(code, reason, said, start.started, now)
        self._report()

    async def _terminate(self, container: Observed, grace: float) -> None:
        start = self.starts.get(container.spec.name)
        if start is not None:
            ending = asyncio.create_task(self._stop(container, start, max(0.0, grace)))
            cut = asyncio.create_task(self._cut.wait())
            await asyncio.wait({ending, cut}, return_when=asyncio.FIRST_COMPLETED)
            cut.cancel()
            await start.process.kill()
            await ending
            await self._finish(container, await start.process.wait())
        elif container.state.waiting is not None and container.last_state.terminated is not None:
            container.state = container.last_state  # the container was waiting for its next start

    async def _has_started(self, container: Observed, task: asyncio.Task[None]) -> None:
        """Waits until a sidecar has started; the next container must not start before."""
        while not container.started and not task.done():
            await self._status.changed()

    # what containers need

    async def _when_available(
        self, attempt: Callable[[], Any], container: Observed | None = None
    ) -> Any:  # Any: whatever the attempt returns
        """Retries `attempt` until all objects that the pod refers to exist; reports which is missing."""
        while True:
            try:
                return attempt()
            except Unavailable as missing:
                message = str(missing)
            except (KeyError, TypeError, ValueError) as error:
                message = f"the pod cannot be read: {error!r}"
            waiting = ContainerState(waiting=Waiting("CreateContainerConfigError", message))
            for each in [container] if container else self._containers:
                each.state = waiting
            self._report()
            await self._machine.clock.sleep(CONFIG_RETRY)

    async def _has_devices(self) -> None:
        """Waits until the pod has its devices, unless it had them before; an Event says what it lacks."""
        if any(c.state.running or c.state.terminated for c in self._containers):
            return
        while claims.refusal(self.pod, self._machine.lookup(self.pod)):
            why = await claims.lacking(self._machine.client, self.pod, self._machine.lookup(self.pod))
            if why:
                for each in self._containers:
                    each.state = ContainerState(waiting=Waiting("ContainerCreating", why))
                self._report()
                await self._record(claims.FAILED, f"Failed to prepare dynamic resources: {why}")
            await self._machine.clock.sleep(CONFIG_RETRY if why else CACHE_LAG)

    def _volumes(self) -> dict[str, Path]:
        try:
            directory = self._machine.volumes(self.pod.metadata.uid)
            return volumes.prepare(self.pod, directory, self._machine.lookup(self.pod), self._machine.umask)
        except OSError as error:
            raise Unavailable(f"volumes: {error}") from None

    # reporting

    def document(self) -> Object:
        now = self._machine.clock.now()
        return status.document(
            self.pod, self._containers, now, self._start_time, self._override, over=self._over
        )

    def _report(self) -> None:
        self._status.wanted()

    async def _record(self, reason: str, message: str) -> None:
        await record_event(self._machine.client, self._machine.clock, self.pod, reason, message)

    def clean_up(self) -> None:
        """Removes everything of the pod from this machine, except its logs."""
        self._machine.links.release(self.pod.metadata.uid)
        self._machine.forget(self.pod.metadata.uid)
        self._machine.devices.give_back(self.pod.metadata.uid)


async def _all(steps: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Runs all steps at once; if one is cancelled or fails, the others are cancelled."""
    async with asyncio.TaskGroup() as tasks:
        for step in steps:
            tasks.create_task(step)


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
