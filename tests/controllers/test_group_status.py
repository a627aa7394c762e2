"""The controllers of Gang records and PodGroups together, under the driver and virtual time."""

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pytest

from muster.api import groups
from muster.api.kinds import GANG, POD, POD_GROUP_X
from muster.controllers import gang, podgroup
from muster.controllers.driver import Controller, run
from tests.controllers.memory import START, Memory, MemoryClient
from tests.informed import informed

pytestmark = pytest.mark.looptime


class LoopClock:
    """The loop's own time, which looptime makes virtual."""

    def now(self) -> datetime:
        return START + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def test_status_follows_the_pods() -> None:
    memory = Memory(LoopClock().now)
    client = MemoryClient(memory)
    controllers: list[Controller[Any]] = [  # Any: each has its own type of observation
        gang.controller(),
        podgroup.controller(groups.POD_GROUP),
        podgroup.controller(groups.KOORDINATOR),
    ]
    task = asyncio.create_task(informed(run, client, controllers, LoopClock()))
    created = memory.create(POD_GROUP_X, "ns", {"metadata": {"name": "g"}, "spec": {"minMember": 2}})
    source = {
        "apiVersion": POD_GROUP_X.api_version,
        "kind": "PodGroup",
        "name": "g",
        "uid": created["metadata"]["uid"],
    }
    record = {"metadata": {"name": "podgroup-g"}, "spec": {"minCount": 2, "source": source}}
    memory.create(GANG, "ns", record)
    labels = {groups.POD_GROUP.label: "g"}
    for name in ("a", "b"):
        memory.create(POD, "ns", {"metadata": {"name": name, "labels": labels}, "spec": {"nodeName": "n"}})
        memory.patch(POD, "ns", name, {"status": {"phase": "Running"}}, "status")
    await asyncio.sleep(10)
    status = memory.read(GANG, "ns/podgroup-g").status
    assert status.running == 2
    assert memory.read(POD_GROUP_X, "ns/g").status.phase == "Running"
    before = memory.revision
    await asyncio.sleep(100)
    assert memory.revision == before, "nothing is written when nothing changes"
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
