"""Expressions in a process: what holds, and what is bounded there."""

import asyncio
from typing import cast

import msgspec
import pytest

from muster.app import worker
from muster.app.plan.answers import TOGETHER, Answer, Question
from muster.app.wiring import selecting
from muster.app.wiring.selecting import Selecting, answer
from muster.app.worker import Ended, Worker
from muster.translate.devices.selectors import MISSING, Expressions, Facts
from tests.patience import PATIENCE

DEVICES = [Facts(driver="a"), Facts(driver="b"), Facts(driver="a")]
IS_A = 'device.driver == "a"'
#: takes more memory than there is
LARGE = f'"{"a" * 100}"' + f'.replace("a", "{"a" * 100}")' * 6 + ' == "x"'


class Fake:
    """A process that does with each question what it is told; the last thing for ever."""

    def __init__(self, *does: str) -> None:
        self.does, self.asked, self.started, self.ended = list(does), 0, 0, 0
        self.by, self.begun = Expressions(), asyncio.Event()

    async def start(self) -> Worker:
        self.started += 1
        return cast(Worker, self)

    async def ask(self, question: bytes) -> bytes:
        self.asked += 1
        self.begun.set()
        match self.does.pop(0) if len(self.does) > 1 else self.does[0]:
            case "sleep":
                await asyncio.Event().wait()
            case "die":
                raise Ended("it ended by SIGSEGV")
            case "babble":
                return b"\xc1"
        return answer(question, self.by)

    async def end(self) -> None:
        self.ended += 1


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cel_expr_python")
    monkeypatch.setattr(worker, "START", PATIENCE)


async def test_many_devices_are_asked_about_in_parts() -> None:
    fake = Fake("answer")
    found = await Selecting(fake.start).holds(IS_A, DEVICES * TOGETHER)
    assert found == Answer([True, False, True] * TOGETHER)
    assert (fake.asked, fake.started) == (3, 1)
    assert await Selecting(fake.start).holds("1", []) == Answer([], "it is INT, and must be true or false")


async def test_an_expression_that_takes_too_long_holds_of_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selecting, "DEADLINE", 0.0)
    fake = Fake("sleep", "answer")
    asks = Selecting(fake.start)
    assert await asks.holds(IS_A, DEVICES) == Answer([False] * 3, "evaluating it took longer than 0 s")
    assert (fake.started, fake.ended) == (1, 1)
    monkeypatch.setattr(selecting, "DEADLINE", PATIENCE)
    assert (await asks.holds(IS_A, DEVICES)).holds == [True, False, True], "the next has a process of its own"


@pytest.mark.parametrize("does", ["die", "babble"])
async def test_a_process_that_ends_is_replaced_once(does: str) -> None:
    fake = Fake(does, "answer")
    assert (await Selecting(fake.start).holds(IS_A, DEVICES)).holds == [True, False, True]
    assert (fake.started, fake.ended) == (2, 1)
    fake = Fake(does)
    found = await Selecting(fake.start).holds(IS_A, DEVICES)
    assert found.holds == [False] * 3
    assert found.fault.startswith("evaluating it failed: ")
    assert (fake.started, fake.ended) == (2, 2)


async def test_a_cancelled_question_ends_its_process() -> None:
    fake = Fake("sleep")
    asking = asyncio.create_task(Selecting(fake.start).holds(IS_A, DEVICES))
    await fake.begun.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert fake.ended == 1


def test_without_the_library_it_is_said_what_to_install() -> None:
    said = msgspec.msgpack.decode(
        answer(msgspec.msgpack.encode(Question("true", DEVICES)), None), type=Answer
    )
    assert said == Answer([], MISSING)
    assert "muster-scheduler[devices]" in MISSING


async def test_a_real_process_has_too_little_memory_for_some_expressions() -> None:
    asks = Selecting()
    try:
        found = await asks.holds(LARGE, DEVICES)
        assert (found.holds, bool(found.fault)) == ([False] * 3, True)
        assert (await asks.holds(IS_A, DEVICES)).holds == [True, False, True]
    finally:
        await asks.end()
