"""The supervisor of one pod: it runs a worker for the pod, and replaces a worker that has failed.

A worker fails only by an unforeseen error. The pod's status must not stay unchanged for ever, and the pod's
work must not be lost. The supervisor therefore writes the failure into the pod's status, the containers
continue, and a new worker takes over their processes and outputs, with a growing delay while that fails, too.
If the pod is to end anyway, the supervisor kills its processes without a worker.
"""

import contextlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from muster.api.core_v1 import Pod
from muster.api.kinds import POD
from muster.embedded.node import processes
from muster.embedded.node.execution import Execution
from muster.embedded.node.machine import Machine
from muster.embedded.node.pod import PodWorker
from muster.embedded.node.reporting import confirm_deletion
from muster.kube.clock import back_off, first
from muster.kube.errors import ApiError, Unanswered, Unreachable

log = logging.getLogger(__name__)

#: Seconds until the next worker, at first and at most.
BACK_OFF: Final = (1.0, 300.0)
REASON: Final = "AgentError"


class PodSupervisor:
    """Supervises one pod. Call `run` once, and `update` with each newer version of the pod."""

    def __init__(self, machine: Machine, pod: Pod, wrappers: dict[Path, int]) -> None:
        """`wrappers` are wrapper processes of an earlier muster process, by directory."""
        self._machine, self._wrappers = machine, wrappers
        self._worker = PodWorker(machine, pod, wrappers)

    @property
    def pod(self) -> Pod:
        return self._worker.pod

    def update(self, pod: Pod) -> None:
        self._worker.update(pod)

    def shut_down(self) -> None:
        self._worker.shut_down()

    def vanish(self) -> None:
        self._worker.vanish()

    async def execute(self, container: str, command: Sequence[str], *, stdin: bool, tty: bool) -> Execution:
        """Starts a command in a running container. Raises Unavailable, OSError, ValueError."""
        return await self._worker.execute(container, command, stdin=stdin, tty=tty)

    async def run(self) -> None:
        """Returns when the pod is terminal or gone. Cancelled, it leaves the processes running."""
        failures = 0
        try:
            while True:
                try:
                    return await self._worker.run()
                except Exception as error:
                    log.exception("%s: its worker failed", self.pod.key)
                    await self._tell(_first(error))
                delay = back_off(BACK_OFF, failures)
                failures += 1
                if await first(self._worker.ending(), self._machine.clock.sleep(delay)):
                    return await self._end()
                self._worker = PodWorker(self._machine, self.pod, self._wrappers, self._worker.starts)
        finally:
            self._release()

    async def _tell(self, error: BaseException) -> None:
        meta = self.pod.metadata
        message = f"the node agent failed and tries again: {type(error).__name__}: {error}"
        patch = {"metadata": {"uid": meta.uid}, "status": {"reason": REASON, "message": message}}
        with contextlib.suppress(ApiError, Unanswered, Unreachable):  # the error has been logged
            await self._machine.client.patch(POD, meta.namespace, meta.name, patch, subresource="status")

    async def _end(self) -> None:
        for start in self._worker.starts.values():
            await start.process.kill()
        directory = self._machine.directory(self.pod.metadata.uid)
        for marked in processes.marked_directories(self._machine.root):
            if directory in marked.parents:
                await processes.end_marked(str(marked))
        self._release()
        self._worker.clean_up()
        meta = self.pod.metadata
        self._machine.logs.pod_ended(meta.namespace, meta.name, meta.uid)
        if meta.deletion_timestamp is not None:
            await confirm_deletion(self._machine, self.pod)

    def _release(self) -> None:
        for start in self._worker.starts.values():
            start.process.release()
            start.writer.close()
        self._worker.starts.clear()


def _first(error: BaseException) -> BaseException:
    """The first error in a group of tasks."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
