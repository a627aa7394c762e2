"""Devices of a mirror are asked about in a process, and its answers reach the core."""

import asyncio
from typing import cast

import pytest

from muster.api.kinds import DEVICE_CLASS, RESOURCE_SLICE
from muster.app.plan.answers import Answer
from muster.app.wiring.answers import AGAIN, answering
from muster.app.wiring.selecting import Selecting
from muster.core.words.devices import DeviceKind, DeviceKindChanged
from muster.kube.clock import Clock
from muster.runtime.watched import WatchedMirror
from muster.translate.devices.selectors import Facts
from tests.translate.devices.test_devices import a_class, a_slice


class Nobody:
    """Informers without objects."""

    off = False

    def __getitem__(self, kind: object) -> "Nobody":
        return self

    def subscribe(self, take: object) -> None:
        pass


class Fake:
    """Answers, if nothing fails; and a clock whose time does not pass by itself."""

    def __init__(self, *fails: Exception, fault: str = "") -> None:
        self.fails, self.fault = [*fails], fault
        self.asked, self.ended, self.slept = 0, 0, list[float]()

    async def holds(self, expression: str, devices: list[Facts]) -> Answer:
        self.asked += 1
        if self.fails:
            raise self.fails.pop()
        return Answer([not self.fault] * len(devices), self.fault)

    async def end(self) -> None:
        self.ended += 1

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def mirror() -> WatchedMirror:
    return WatchedMirror(cast(object, Nobody()))  # type: ignore[arg-type]


async def answers(of: WatchedMirror, by: Fake) -> list[DeviceKind]:
    """Returns the kinds that the core is told of once there are answers."""
    task = asyncio.create_task(answering(of, cast(Clock, by), cast(Selecting, by)))
    found = list[DeviceKind]()
    try:
        of.changed.set()
        while not of.asks.is_set() and not found:
            found += [each.kind for each in of.drain(0.0).events if isinstance(each, DeviceKindChanged)]
        await of.changed.wait()
        return [each.kind for each in of.drain(0.0).events if isinstance(each, DeviceKindChanged)]
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def filled() -> WatchedMirror:
    made = mirror()
    made.change(DEVICE_CLASS, None, a_class())
    made.change(RESOURCE_SLICE, None, a_slice("s"))
    return made


async def test_answers_reach_the_core_and_the_process_ends() -> None:
    by = Fake()
    [kind] = await answers(filled(), by)
    assert kind.answers == {"deviceclass/gpu.nvidia.com"}
    assert (by.asked, by.ended >= 1) == (1, True)


@pytest.mark.parametrize("error", [OSError("no memory")])
async def test_a_process_that_cannot_be_started_is_tried_again_later(error: Exception) -> None:
    by = Fake(error)
    [kind] = await answers(filled(), by)
    assert kind.answers == {"deviceclass/gpu.nvidia.com"}
    assert by.slept == [AGAIN]


async def test_an_expression_with_a_fault_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    of, by = filled(), Fake(fault="it is INT, and must be true or false")
    assert await answers(of, by) == [], "nothing has changed: it holds of no device"
    assert "selects no device: it is INT" in caplog.text


async def test_without_classes_nothing_is_asked() -> None:
    of = mirror()
    of.change(RESOURCE_SLICE, None, a_slice("s"))
    of.drain(0.0)
    assert not of.asks.is_set()
