"""Commands beside a container: nothing of their output is lost, and nothing of them is left."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Protocol

import pytest
import pytest_asyncio

from muster.embedded.node import marks
from muster.embedded.node.execution import STDERR, STDOUT, Execution, start
from muster.embedded.node.processes import end_marked

ENVIRON = {"PATH": os.environ["PATH"]}


class Begin(Protocol):
    async def __call__(self, script: str, *, stdin: bool = False, tty: bool = False) -> Execution: ...


@pytest_asyncio.fixture
async def begin(tmp_path: Path) -> AsyncIterator[Begin]:
    """Starts a script; it ends with the test, and so does what it has started."""
    mark = str(tmp_path / "exec")
    async with AsyncExitStack() as at_last:
        at_last.push_async_callback(end_marked, mark)

        async def begin(script: str, *, stdin: bool = False, tty: bool = False) -> Execution:
            execution = await start(["sh", "-c", script], ENVIRON, mark, stdin=stdin, tty=tty)
            at_last.push_async_callback(execution.close)
            return execution

        yield begin


async def everything(execution: Execution) -> dict[int, bytes]:
    found = {STDOUT: b"", STDERR: b""}
    async for channel, data in execution.output():
        found[channel] += data
    return found


async def test_output_and_the_exit_code(begin: Begin) -> None:
    execution = await begin("seq 100000; echo oops >&2; exit 7")
    found = await everything(execution)
    assert (found[STDOUT].count(b"\n"), found[STDERR]) == (100_000, b"oops\n")
    assert await execution.exit_code() == 7
    await execution.close()


async def test_stdin_of_a_command_that_reads_slowly_and_of_one_that_does_not_read(begin: Begin) -> None:
    execution = await begin("wc -c", stdin=True)
    for _ in range(40):
        await execution.write(b"x" * 10_000)
    execution.end_stdin()
    assert (await everything(execution))[STDOUT].split() == [b"400000"]
    await execution.close()
    execution = await begin("exec 0<&-; echo deaf", stdin=True)
    assert (await everything(execution))[STDOUT] == b"deaf\n"
    await execution.write(b"x" * 1_000_000)
    await execution.close()


async def test_a_process_that_is_left_behind_does_not_keep_the_output_open(begin: Begin) -> None:
    execution = await begin("sleep 1000 & echo done")
    assert (await everything(execution))[STDOUT] == b"done\n"
    await execution.close()


async def test_closing_ends_the_command_and_what_it_has_started(tmp_path: Path, begin: Begin) -> None:
    execution = await begin("setsid sleep 1000 & echo up; wait")
    async for _ in execution.output():
        break
    await execution.close()
    assert str(tmp_path / "exec") not in [mark for _, mark in marks.processes()]


async def test_a_terminal(begin: Begin) -> None:
    execution = await begin("read line; stty size; echo got $line; exit 2", tty=True)
    execution.resize(123, 45)
    await execution.write(b"hello\n")
    assert (await everything(execution))[STDOUT] == b"hello\r\n45 123\r\ngot hello\r\n"
    assert await execution.exit_code() == 2
    await execution.close()


async def test_a_command_that_is_not_there_leaves_nothing_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(FileNotFoundError):
        await start(["/no/such/command"], {"PATH": ""}, "mark", stdin=True, tty=False)
    assert len(os.listdir("/proc/self/fd")) == before


async def test_nothing_is_left_open_after_many(begin: Begin) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for tty in (False, True):
        executions = await asyncio.gather(*(begin("echo hi", stdin=True, tty=tty) for _ in range(5)))
        for execution in executions:
            assert b"hi" in (await everything(execution))[STDOUT]
            await execution.close()
    assert len(os.listdir("/proc/self/fd")) == before
