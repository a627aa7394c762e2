"""The pauses between tries, and the first of several coroutines."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kube.clock import back_off, first


@given(pace=st.tuples(st.floats(0.01, 10), st.floats(10, 1_000)), earlier=st.integers(-5, 10**9))
def test_each_pause_is_twice_the_one_before_up_to_the_longest(
    pace: tuple[float, float], earlier: int
) -> None:
    pause = back_off(pace, earlier)
    assert pause == (pace[0] if earlier <= 0 else min(pace[1], 2 * back_off(pace, earlier - 1)))
    assert back_off(pace, earlier + 100_000) >= pause


async def test_the_first_result_counts_and_the_others_have_ended() -> None:
    ended = []

    async def waits() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("waits")
        return "never"

    async def answers() -> str:
        return "answer"

    assert await first(waits(), answers(), waits()) == "answer"
    assert ended == ["waits", "waits"]


async def test_the_earlier_argument_wins_if_several_are_done() -> None:
    async def answers(what: str) -> str:
        return what

    assert await first(answers("a"), answers("b")) == "a"


async def test_an_error_is_raised_and_the_others_have_ended() -> None:
    waiting = asyncio.Event()
    ended = asyncio.Event()

    async def waits() -> None:
        try:
            await waiting.wait()
        finally:
            ended.set()

    async def fails() -> None:
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        await first(waits(), fails())
    assert ended.is_set()


async def test_a_cancelled_caller_leaves_none_of_them() -> None:
    ended = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("one")

    caller = asyncio.ensure_future(first(waits(), waits()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert ended == ["one", "one"]
