"""How many writes a leader makes at once."""

import asyncio
from typing import Any, cast

import pytest

from muster.api import kinds
from muster.api.muster_v1alpha1 import Gang
from muster.effects import Patch
from muster.kube.client import Client
from muster.kube.clock import SystemClock
from muster.kube.informers import Informers
from muster.runtime.leader import REPORTS, WRITES, Leader, Term
from muster.runtime.watched import WatchedMirror
from tests.runtime.planner import Planner

pytestmark = pytest.mark.looptime


class Slow:
    """An API server that answers no patch until it may."""

    def __init__(self) -> None:
        self.under_way, self.may = 0, asyncio.Event()

    async def patch(self, *_: Any, **__: Any) -> Gang:
        self.under_way += 1
        await self.may.wait()
        return Gang()


@pytest.mark.parametrize("most", [REPORTS, WRITES])
async def test_reports_and_other_writes_have_slots_of_their_own(most: int) -> None:
    server = Slow()
    client = cast(Client, server)  # it is only written to
    mirror = WatchedMirror(Informers(client))
    leader = Leader(client, SystemClock(), Term(1), mirror, Planner({}))
    patch = Patch(kinds.GANG, "ns", "g", {"status": {}}, missing_ok=True)
    async with asyncio.TaskGroup() as tasks:
        for _ in range(most + 5):
            tasks.create_task(leader.write(patch, reports=most == REPORTS))
        await asyncio.sleep(1)
        assert server.under_way == most
        tasks.create_task(leader.write(patch, reports=most != REPORTS))
        await asyncio.sleep(1)
        assert server.under_way == most + 1, "the others are full"
        server.may.set()
    assert server.under_way == most + 6
