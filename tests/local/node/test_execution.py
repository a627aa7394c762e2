"""Commands beside a container: nothing of their output is lost, and nothing of them is left."""

import asyncio
import os
from pathlib import Path

import pytest

from muster.local.node import marks
from muster.local.node.execution import STDERR, STDOUT, Execution, start

ENVIRON = {"PATH": os.environ["PATH"]}


async def begin(tmp_path: Path, script: str, *, stdin: bool = False, tty: bool = False) -> Execution:
    return await start(["sh", "-c", script], ENVIRON, str(tmp_path / "exec"), stdin=stdin, tty=tty)


async def everything(execution: Execution) -> dict[int, bytes]:
    found = {STDOUT: b"", STDERR: b""}
    async for channel, data in execution.output():
        found[channel] += data
    return found


async def test_output_and_the_exit_code(tmp_path: Path) -> None:
    execution = await begin(tmp_path, "seq 100000; echo oops >&2; exit 7")
    found = await everything(execution)
    assert (found[STDOUT].count(b"\n"), found[STDERR]) == (100_000, b"oops\n")
    assert await execution.exit_code() == 7
    await execution.close()


async def test_stdin_of_a_command_that_reads_slowly_and_of_one_that_does_not_read(tmp_path: Path) -> None:
    execution = await begin(tmp_path, "wc -c", stdin=True)
    for _ in range(40):
        await execution.write(b"x" * 10_000)
    execution.end_stdin()
    assert (await everything(execution))[STDOUT].split() == [b"400000"]
    await execution.close()
    execution = await begin(tmp_path, "exec 0<&-; echo deaf", stdin=True)
    assert (await everything(execution))[STDOUT] == b"deaf\n"
    await execution.write(b"x" * 1_000_000)
    await execution.close()


async def test_a_process_that_is_left_behind_does_not_keep_the_output_open(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    execution = await begin(tmp_path, f"sleep 1000 & echo $! >{pid}; echo done")
    assert (await everything(execution))[STDOUT] == b"done\n"
    await execution.close()
    os.kill(int(pid.read_text()), 9)


async def test_closing_ends_the_command_and_what_it_has_started(tmp_path: Path) -> None:
    execution = await begin(tmp_path, "setsid sleep 1000 & echo up; wait")
    async for _ in execution.output():
        break
    await execution.close()
    assert str(tmp_path / "exec") not in [mark for _, mark in marks.processes()]


async def test_a_terminal(tmp_path: Path) -> None:
    execution = await begin(tmp_path, "read line; stty size; echo got $line; exit 2", tty=True)
    execution.resize(123, 45)
    await execution.write(b"hello\n")
    assert (await everything(execution))[STDOUT] == b"hello\r\n45 123\r\ngot hello\r\n"
    assert await execution.exit_code() == 2
    await execution.close()


async def test_a_command_that_is_not_there_leaves_nothing_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(FileNotFoundError):
        await start(["/no/such/command"], {"PATH": ""}, "mark", stdin=True, tty=False)
    assert len(os.listdir("/proc/self/fd")) == before


async def test_nothing_is_left_open_after_many(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for tty in (False, True):
        executions = await asyncio.gather(
            *(begin(tmp_path, "echo hi", stdin=True, tty=tty) for _ in range(5))
        )
        for execution in executions:
            assert b"hi" in (await everything(execution))[STDOUT]
            await execution.close()
    assert len(os.listdir("/proc/self/fd")) == before
