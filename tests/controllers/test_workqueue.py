"""The queue's two promises: one place in line per key, and never two workers on one."""

import asyncio
from contextlib import suppress

from muster.controllers.workqueue import WorkQueue


async def test_a_key_is_in_line_once_and_in_order() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in ("a", "b", "a", "b", "a"):
        queue.add(key)
    assert [await queue.take(), await queue.take()] == ["a", "b"]
    waiting = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.add("c")
    assert await waiting == "c"


async def test_a_key_comes_back_only_when_it_is_done() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    await queue.take()
    queue.add("a")
    queue.add("a")
    again = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    assert not again.done()
    queue.done("a")
    assert await again == "a"
    queue.done("a")
    last = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    assert not last.done()
    last.cancel()
    with suppress(asyncio.CancelledError):
        await last


async def test_a_worker_that_is_cancelled_while_woken_loses_no_key() -> None:
    queue: WorkQueue[str] = WorkQueue()
    first, second = asyncio.create_task(queue.take()), asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    queue.add("a")  # wakes the first
    first.cancel()
    with suppress(asyncio.CancelledError):
        await first
    assert await asyncio.wait_for(second, 60) == "a"
