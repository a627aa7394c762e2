"""Which writes wait for which: closing a plan for binds, reports for nothing but each other."""

import asyncio

import pytest

from muster.api import kinds
from muster.effects import Patch
from muster.runtime.lanes import LONGEST, Lanes
from muster.runtime.writes import closes

pytestmark = pytest.mark.looptime
CLOSE = Patch(kinds.GANG, "ns", "g", {"plan": None, "status": {"phase": "Standing"}}, missing_ok=True)
PLAN = Patch(kinds.GANG, "ns", "g", {"plan": {"blob": "x"}}, missing_ok=False)
STATUS = Patch(kinds.GANG, "ns", "g", {"status": {"phase": "Waiting"}}, missing_ok=False)


def test_only_the_removal_of_a_plan_closes() -> None:
    assert [*map(closes, (CLOSE, PLAN, STATUS))] == [True, False, False]


@pytest.mark.parametrize(
    ("seconds", "closed"),
    [
        pytest.param(0.4, 0.4, id="when no gang is being bound"),
        pytest.param(5.0, LONGEST, id="at the latest"),
    ],
)
async def test_a_plan_is_closed_after_the_binds_of_other_gangs(seconds: float, closed: float) -> None:
    lanes, loop, began = Lanes(asyncio.sleep), asyncio.get_running_loop(), asyncio.Event()
    at: dict[str, float] = {}

    async def bind() -> None:
        async with lanes.turn(PLAN):
            began.set()
            await asyncio.sleep(seconds)

    async def make(name: str, write: Patch, *, reports: bool = False) -> None:
        async with lanes.turn(write, reports=reports):
            at[name] = loop.time()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(bind())
        await began.wait()
        start = loop.time()
        tasks.create_task(make("close", CLOSE))
        tasks.create_task(make("plan", PLAN))
        tasks.create_task(make("report", STATUS, reports=True))
    assert {name: round(when - start, 3) for name, when in at.items()} == {
        "close": closed,
        "plan": 0.0,
        "report": 0.0,
    }


async def test_an_idle_leader_closes_a_plan_at_once() -> None:
    lanes, loop = Lanes(asyncio.sleep), asyncio.get_running_loop()
    start = loop.time()
    async with lanes.turn(CLOSE):
        assert loop.time() == start
