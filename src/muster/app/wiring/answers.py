"""Answers what a mirror asks of devices: of which of them the expressions of classes and claims hold."""

import logging
from typing import Final

from muster.app.wiring.selecting import Selecting
from muster.app.worker import Ended
from muster.kube.clock import Clock
from muster.runtime.watched import WatchedMirror

log = logging.getLogger(__name__)

#: Seconds until it is tried again to start a process.
AGAIN: Final = 30.0


async def answering(mirror: WatchedMirror, clock: Clock, selecting: Selecting | None = None) -> None:
    """Answers until cancelled. There is a process only while there are questions: they come together."""
    selecting = selecting or Selecting()
    try:
        while True:
            await mirror.asks.wait()
            mirror.asks.clear()
            try:
                await _answered(mirror, selecting)
            except (OSError, Ended) as error:
                log.warning("expressions that select devices cannot be evaluated: %s", error)
                await clock.sleep(AGAIN)
                mirror.asks.set()
            await selecting.end()
    finally:
        await selecting.end()


async def _answered(mirror: WatchedMirror, selecting: Selecting) -> None:
    for expression, devices in mirror.devices.questions():
        found = await selecting.holds(expression, devices)
        if found.fault:
            log.warning("the expression %r selects no device: %s", expression, found.fault)
        mirror.devices.tell(expression, devices, found.holds, found.fault)
        mirror.changed.set()
