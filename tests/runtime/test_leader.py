"""How many writes a leader makes at once, when it looks again, and that it acts in its term alone."""

import asyncio
from typing import Any, cast

import pytest

from muster.api import kinds
from muster.api.muster_v1alpha1 import Gang
from muster.effects import Patch
from muster.kube.client import Client
from muster.kube.clock import SystemClock
from muster.kube.informers import Informers
from muster.runtime.leader import LONGEST_SLEEP, REPORTS, WRITES, Deposed, Leader, Term
from muster.runtime.watched import WatchedMirror
from muster.runtime.writes import Fence
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


def leading(server: Slow, core: Planner, term: Term) -> Leader:
    client = cast(Client, server)  # it is only written to
    return Leader(client, SystemClock(), term, WatchedMirror(Informers(client)), core)


def test_a_leader_looks_again_though_no_timer_is_due() -> None:
    """The wall clock, by which timers are due, may be set."""
    assert leading(Slow(), Planner({}), Term(1)).idle() == LONGEST_SLEEP


async def test_a_leader_writes_nothing_once_its_term_cannot_be_proven() -> None:
    server = Slow()
    server.may.set()
    leader = leading(server, Planner({}), Term(1, fresh=lambda: False))
    with pytest.raises(Deposed):
        await leader.write(Patch(kinds.GANG, "ns", "g", {"status": {}}, missing_ok=True))
    assert server.under_way == 0


@pytest.mark.parametrize("sole", [True, False])
def test_where_no_other_leader_can_be_nothing_is_fenced(sole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    leader = leading(Slow(), Planner({}), Term(1, sole=sole))
    fences = [Fence(kinds.POD, "ns", "p", {})]
    monkeypatch.setattr(leader.fencing, "first", lambda now: fences)
    assert leader.fences() == ([] if sole else fences)


@pytest.mark.parametrize("most", [REPORTS, WRITES])
async def test_reports_and_other_writes_have_slots_of_their_own(most: int) -> None:
    server = Slow()
    leader = leading(server, Planner({}), Term(1))
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
