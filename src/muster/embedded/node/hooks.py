"""Lifecycle hooks of one start of a container: after its start, and before SIGTERM.

Source: kubernetes pkg/kubelet/kuberuntime/kuberuntime_container.go (startContainer, killContainer).
"""

import asyncio
import contextlib
from typing import Final

from muster.api.core_v1 import Pod
from muster.embedded.node.handlers import Handlers
from muster.embedded.node.machine import Machine
from muster.embedded.node.reporting import tell
from muster.embedded.node.starts import Start
from muster.embedded.node.status import Observed
from muster.kube.clock import first

#: Reasons of Events.
POST_START_FAILED: Final = "FailedPostStartHook"
PRE_STOP_FAILED: Final = "FailedPreStopHook"
LAST_MOMENT: Final = 2.0  # seconds that a preStop hook leaves to the command at least


async def started(machine: Machine, pod: Pod, container: Observed, start: Start) -> str:
    """Runs the postStart hook, if there is one, until the container ends; returns why it failed, or ""."""
    return await _run(machine, pod, container, start, "postStart")


async def stop(machine: Machine, pod: Pod, container: Observed, start: Start, grace: float) -> None:
    """Runs the preStop hook and sends SIGTERM; SIGKILL follows `grace` seconds after the beginning.

    As on a kubelet, a hook leaves at least 2 s to the command, and there is none without grace.
    """
    loop = asyncio.get_running_loop()
    until, least, failed = loop.time() + grace, 0.0, ""
    if grace and (container.spec.lifecycle or {}).get("preStop"):
        least, failed = LAST_MOMENT, "preStop hook failed: not done within the grace period"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                failed = await _run(machine, pod, container, start, "preStop")
    await start.process.terminate(max(least, until - loop.time()))
    if failed:
        await tell(machine, pod, container, PRE_STOP_FAILED, failed)


async def _run(machine: Machine, pod: Pod, container: Observed, start: Start, hook: str) -> str:
    handler = (container.spec.lifecycle or {}).get(hook)
    if not handler:
        return ""
    await start.process.set_up()
    handlers = Handlers(machine, pod, container, start.process)
    told: str | int | None = await first(start.process.wait(), handlers.run(handler, hook))
    return f"{hook} hook failed: {told}" if isinstance(told, str) else ""
