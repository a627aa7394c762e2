"""A container's process, from its start to its end."""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.node import marks, processes
from muster.embedded.node.isolation import WRAPPER, Files, Setup, detect
from muster.embedded.node.marks import MARK, Tag
from tests.cli.binary import until
from tests.patience import PATIENCE
from tests.processes import started

#: A wrapper whose set-up has a process that minds no SIGTERM, and ends once `go` is there.
SCRIPT = """
sh -c 'trap : TERM; true >began; until test -e go; do sleep 0.01; done'
true >ready
sleep 1000
echo $? >exit
"""


#: A wrapper whose shell has forked itself, as before each command. The fork ends once `go` is written.
FORKED = """
mkfifo go joined
(true >began; read line <go)
echo >joined
sleep 1000
"""


async def test_a_process_stopped_during_set_up_gets_the_signal_as_soon_as_it_runs(tmp_path: Path) -> None:
    async with _began(SCRIPT, tmp_path) as process, asyncio.timeout(PATIENCE):
        ending = asyncio.create_task(process.terminate(grace=1000))
        await asyncio.sleep(0)  # it has looked for a process to signal
        (tmp_path / "go").touch()
        await ending
    assert processes.recorded_exit(process.files) == 128 + 15


async def test_a_fork_of_the_wrapper_that_ends_during_the_search_is_not_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = marks.processes

    def slow_search() -> Iterator[tuple[int, str | Tag]]:
        yield from search()
        (tmp_path / "go").write_text("\n")
        (tmp_path / "joined").read_text()

    async with _began(FORKED, tmp_path) as process:
        with monkeypatch.context() as patch:
            patch.setattr(marks, "processes", slow_search)
            found = processes.wrappers(tmp_path.parent)
    assert found == {tmp_path: process.pid}


async def test_a_wrapper_that_has_not_executed_its_program_yet_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the midst of `execve`, a process has neither an environment nor a command line."""
    files = Files(tmp_path)
    os.mkfifo(files.output)
    monkeypatch.setattr(marks, "OUTPUT_FD", 0)  # from which the shell reads for ever
    held = os.open(files.output, os.O_RDWR)
    with started([""], executable="/bin/sh", env={}, stdin=held, start_new_session=True) as shell:
        os.close(held)
        assert processes.wrappers(tmp_path.parent) == {tmp_path: shell.pid}
        assert processes.marked_directories(tmp_path.parent) == {tmp_path}
        process = processes.adopt(shell.pid, files, namespaces=False)
    assert process is not None
    await process.wait()


async def test_a_command_whose_start_is_cancelled_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if it took longer to start than the command to start others."""
    make, mark, began = subprocess.Popen.__init__, str(tmp_path / "beside"), tmp_path / "began"

    def slow(self: Any, *args: Any, **how: Any) -> None:
        make(self, *args, **how)
        until(began.exists, "the command")
        starting.cancel()

    monkeypatch.setattr(subprocess.Popen, "__init__", slow)
    argv = ["sh", "-c", f"sleep 1000 & echo >{began}; wait"]
    null = asyncio.subprocess.DEVNULL
    starting = asyncio.create_task(processes.start_beside(argv, os.environ, mark, (null, null, null)))
    with pytest.raises(asyncio.CancelledError):
        await starting
    left = [pid for pid, found in marks.processes() if found == mark]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left


@asynccontextmanager
async def _began(script: str, directory: Path) -> AsyncIterator[processes.Process]:
    """A wrapper without namespaces that runs `script` in `directory`, and has made the file `began` there."""
    files = Files(directory)
    os.mkfifo(files.output)
    reader = os.open(files.output, os.O_RDONLY | os.O_NONBLOCK)
    argv = ["sh", "-c", f"cd {directory}; {script}", WRAPPER]
    process = processes.start(argv, dict(os.environ), files, namespaces=False)
    try:
        async with asyncio.timeout(PATIENCE):
            while not (directory / "began").exists():  # noqa: ASYNC110  # a shell sends no events
                await asyncio.sleep(0.01)
        yield process
    finally:
        await process.kill()
        os.close(reader)


KERNELS = pytest.mark.parametrize("flag", [processes._PROCESS_GROUP, 1 << 20], ids=["of today", "before 6.9"])


@contextmanager
def _adopted(directory: Path, other: str) -> Iterator[tuple[processes.Process, "subprocess.Popen[bytes]"]]:
    """A process that something else started, and `other` in its group; its output ends with both."""
    script = f"{other} sleep 1000 & echo; wait"  # without exec, in the midst of which a process has no marks
    environ = {**os.environ, MARK: str(directory)}
    with subprocess.Popen(
        ["sh", "-c", script], env=environ, stdout=subprocess.PIPE, start_new_session=True
    ) as leader:
        try:
            assert leader.stdout is not None
            leader.stdout.readline()
            process = processes.adopt(leader.pid, Files(directory), namespaces=False)
            assert process is not None
            yield process, leader
            leader.stdout.read()
        finally:
            if leader.poll() is None:
                os.killpg(leader.pid, 9)


@KERNELS
async def test_all_of_a_group_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: int) -> None:
    monkeypatch.setattr(processes, "_PROCESS_GROUP", flag)
    with _adopted(tmp_path, other=f"env -u {MARK}") as (process, _):
        async with asyncio.timeout(PATIENCE):
            await process.kill()
    assert not process.running


@KERNELS
async def test_an_adopted_process_that_has_just_gone_is_not_killed_by_its_pid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: int
) -> None:
    monkeypatch.setattr(processes, "_PROCESS_GROUP", flag)
    with _adopted(tmp_path, other="") as (process, leader):
        leader.kill()
        leader.wait(PATIENCE)  # nothing holds its pid any more, and the event loop has not heard of it
        with monkeypatch.context() as patch:
            patch.setattr(os, "killpg", None)
            async with asyncio.timeout(PATIENCE):
                await process.kill()
    assert not process.running


def test_no_end_is_recorded_before_it_came(tmp_path: Path) -> None:
    assert processes.recorded_end(Files(tmp_path)) is None
    for number in range(50):  # some of them late in a tick of the clock that dates files
        files = Files(tmp_path / str(number))
        files.directory.mkdir()
        came = datetime.now(UTC)
        subprocess.run(["sh", "-c", f"echo 0 >{files.exit}"], check=True)
        recorded = processes.recorded_end(files)
        assert recorded is not None
        assert came <= recorded <= datetime.now(UTC) + timedelta(seconds=2 * processes.COARSE)


async def test_to_kill_a_container_adds_nothing_to_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    isolation = detect()
    if not isolation.namespaces:
        pytest.skip(isolation.reason)
    files = Files(tmp_path / "start")
    files.directory.mkdir()
    os.mkfifo(files.output)
    fifo = os.open(files.output, os.O_RDONLY | os.O_NONBLOCK)
    command = ["sh", "-c", "trap '' TERM; echo up; while :; do read line <never || exit; done"]
    os.mkfifo(tmp_path / "never")
    wrapper = isolation.command(Setup("trial", str(tmp_path), []), files, tmp_path / "lock", command)
    process = processes.start(wrapper, os.environ, files, namespaces=True)
    try:
        until(lambda: _read(fifo) == b"up\n", "the command")
        send = processes.signal_pidfd

        def slowly(pidfd: int, number: int) -> None:
            send(pidfd, number)
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has said what it has to say

        with monkeypatch.context() as patch:
            patch.setattr(processes, "signal_pidfd", slowly)
            async with asyncio.timeout(PATIENCE):
                await process.kill()
        assert _read(fifo) == b""
    finally:
        os.close(fifo)


def _read(fifo: int) -> bytes:
    try:
        return os.read(fifo, 1000)
    except BlockingIOError:
        return b""
