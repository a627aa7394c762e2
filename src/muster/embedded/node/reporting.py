"""Reports a pod's status, and the end of a deleted pod, to the API server, with retries until it has them.

No container ever waits for a write.
"""

import asyncio
import contextlib
import logging
from typing import Final, Protocol

from muster.api.base import Object, involved
from muster.api.core_v1 import Pod
from muster.api.kinds import EVENT, POD
from muster.effects import events
from muster.embedded.node.machine import Machine
from muster.embedded.node.status import Observed
from muster.kube.client import Client
from muster.kube.clock import Clock, back_off
from muster.kube.errors import AlreadyExists, ApiError, Conflict, NotFound, Unanswered, Unreachable

log = logging.getLogger(__name__)

WRITE_RETRY: Final = (0.1, 10.0)
#: Who reports Events of pods.
COMPONENT: Final = "muster-node"
#: Reasons of Events: a probe that fails has its container ended, or fields of the pod are ignored.
UNHEALTHY: Final = "Unhealthy"
IGNORED: Final = "FieldsIgnored"


class Worker(Protocol):
    """The worker whose status is written."""

    @property
    def pod(self) -> Pod: ...

    def document(self) -> Object: ...

    def update(self, pod: Pod) -> None: ...


class StatusWriter:
    """Writes the newest status of one pod, and retries until the API server has it."""

    def __init__(self, machine: Machine, worker: Worker) -> None:
        self._machine, self._worker = machine, worker
        self._wanted = asyncio.Event()
        self._idle = asyncio.Event()
        self._changed = asyncio.Event()
        self._written: Object = {}

    def wanted(self) -> None:
        self._wanted.set()
        self._idle.clear()
        self._changed.set()

    async def settled(self) -> None:
        await self._idle.wait()

    async def changed(self) -> None:
        """Waits for the next change of any container."""
        self._changed.clear()
        await self._changed.wait()

    async def run(self) -> None:
        failures = 0
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self._write()
                failures = 0
            except NotFound:
                pass  # the pod has been removed; the agent will call `vanish`
            except Conflict:
                self._wanted.set()
                await self._look_again()
            except (ApiError, Unanswered, Unreachable) as error:
                self._wanted.set()
                log.warning("%s: status not written: %s", self._worker.pod.key, error)
                await self._machine.clock.sleep(back_off(WRITE_RETRY, failures))
                failures += 1
            if not self._wanted.is_set():
                self._idle.set()

    async def _write(self) -> None:
        body, pod = self._worker.document(), self._worker.pod
        if body == self._written:
            return
        meta = {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version}
        patch = {"metadata": meta, "status": body}
        written = await self._machine.client.patch(
            POD, pod.metadata.namespace, pod.metadata.name, patch, subresource="status"
        )
        self._written = body
        self._worker.update(written)

    async def _look_again(self) -> None:
        pod = self._worker.pod
        with contextlib.suppress(ApiError, Unanswered, Unreachable):
            newest = await self._machine.client.get(POD, pod.metadata.namespace, pod.metadata.name)
            if newest.metadata.uid == pod.metadata.uid:
                self._worker.update(newest)


async def record_event(client: Client, clock: Clock, pod: Pod, reason: str, message: str) -> None:
    """Records a warning about the pod, once. Nothing depends on an Event, so a refusal is only logged."""
    about, now = involved(pod, POD), clock.now()
    identity = f"{pod.metadata.uid}/{reason}/{message}"
    body = events.first(about, "Warning", reason, message, COMPONENT, now, identity)
    try:
        await client.create(EVENT, body["metadata"]["namespace"], body)
    except AlreadyExists:
        pass
    except (ApiError, Unanswered, Unreachable) as error:
        log.warning("%s: event not recorded: %s", pod.key, error)


async def tell(machine: Machine, pod: Pod, container: Observed, reason: str, failed: str) -> None:
    """Records a warning about a container."""
    told = f"container {container.spec.name}: {failed}"
    await record_event(machine.client, machine.clock, pod, reason, told)


async def confirm_deletion(machine: Machine, pod: Pod) -> None:
    """Tells the API server that nothing of a deleted pod is left on this machine."""
    meta, failures = pod.metadata, 0
    while True:
        try:
            await machine.client.delete(POD, meta.namespace, meta.name, uid=meta.uid, grace_period=0)
            return
        except (NotFound, Conflict):
            return
        except (ApiError, Unanswered, Unreachable) as error:
            log.warning("%s: deletion not confirmed: %s", pod.key, error)
            await machine.clock.sleep(back_off(WRITE_RETRY, failures))
            failures += 1
