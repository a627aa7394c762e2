"""A command beside a running container, as `kubectl exec` starts it: with pipes, or in a terminal of its own.

The command has the container's namespaces, environment and mark, so it ends with the container. Nothing is
buffered for a slow side: a reader that does not read stops the command, and a command that does not read
stops the writer. What the command wrote before its end is read to the end, even if a process that it has left
behind holds the pipe open.
"""

import asyncio
import contextlib
import fcntl
import os
import pty
import shutil
import signal
import struct
import termios
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

from muster.embedded.node.processes import end_marked, start_beside

STDOUT: Final = 1
STDERR: Final = 2
_CHUNK: Final = 32 * 1024
_SYSTEM_PATH: Final = "/usr/sbin:/usr/bin:/sbin:/bin"


class Execution:
    """A running command. The caller reads `output` to its end, and calls `close` in any case."""

    def __init__(
        self, process: asyncio.subprocess.Process, mark: str, stdin: int | None, outputs: dict[int, int]
    ) -> None:
        self._process, self._mark = process, mark
        self._stdin, self._outputs = stdin, outputs
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._waiting = asyncio.create_task(self._wait())

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """What the command prints, until it has ended: (STDOUT or STDERR, bytes). A terminal has STDOUT."""
        while True:
            ended = self._waiting.done()
            progress = False
            for channel, descriptor in list(self._outputs.items()):
                try:
                    data = os.read(descriptor, _CHUNK)
                except BlockingIOError:
                    continue
                except OSError:  # a terminal that no process has open any more
                    data = b""
                progress = True
                if data:
                    yield channel, data
                else:
                    self._close_output(channel)
            if progress:
                continue
            if ended:
                return
            self._wake.clear()
            for descriptor in self._outputs.values():
                self._loop.add_reader(descriptor, self._readable, descriptor)
            await self._wake.wait()

    async def write(self, data: bytes) -> None:
        """Writes to the command's stdin; returns once its pipe has taken all of it, or is closed."""
        while data and self._stdin is not None:
            try:
                data = data[os.write(self._stdin, data) :]
            except BlockingIOError:
                await self._writable(self._stdin)
            except OSError:  # the command does not read any more
                self.end_stdin()

    def end_stdin(self) -> None:
        """Ends the command's stdin. A terminal has no end; it is closed with the command."""
        if self._stdin is not None and self._stdin not in self._outputs.values():
            os.close(self._stdin)
            self._stdin = None

    def resize(self, columns: int, rows: int) -> None:
        """Gives the terminal, if there is one, a new size."""
        if self._stdin is not None and self._stdin in self._outputs.values():
            size = struct.pack("HHHH", min(rows, 0xFFFF), min(columns, 0xFFFF), 0, 0)
            fcntl.ioctl(self._stdin, termios.TIOCSWINSZ, size)

    async def exit_code(self) -> int:
        """Waits for the end of the command: its exit code, 128 + n for signal n."""
        return await asyncio.shield(self._waiting)

    async def close(self) -> None:
        """Ends the command, if it still runs, and closes everything."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._waiting
            await end_marked(self._mark)
        terminal = self._stdin is not None and self._stdin in self._outputs.values()
        if not terminal:
            self.end_stdin()
        for channel in list(self._outputs):
            self._close_output(channel)
        self._stdin = None

    async def _wait(self) -> int:
        code = await self._process.wait()
        self._wake.set()
        return code if code >= 0 else 128 - code

    def _readable(self, descriptor: int) -> None:
        self._loop.remove_reader(descriptor)
        self._wake.set()

    def _close_output(self, channel: int) -> None:
        descriptor = self._outputs.pop(channel)
        self._loop.remove_reader(descriptor)
        if descriptor == self._stdin:
            self._loop.remove_writer(descriptor)
            self._stdin = None
        os.close(descriptor)

    async def _writable(self, descriptor: int) -> None:
        ready = asyncio.Event()
        self._loop.add_writer(descriptor, ready.set)
        try:
            await ready.wait()
        finally:
            if self._stdin == descriptor:
                self._loop.remove_writer(descriptor)


async def start(
    argv: Sequence[str], env: Mapping[str, str], mark: str, *, stdin: bool, tty: bool
) -> Execution:
    """Starts a command line, as `Isolation.inside` makes it. Raises OSError, ValueError."""
    if tty:
        return await _in_terminal(argv, {"TERM": "xterm", **env}, mark)
    ours: list[int] = []
    theirs: list[int] = []
    try:
        for is_input in (True, False, False):
            ends = os.pipe()
            ours.append(ends[is_input])
            theirs.append(ends[not is_input])
            os.set_blocking(ours[-1], False)
        process = await start_beside(_found(argv), env, mark, theirs)
    except BaseException:
        for descriptor in ours:
            os.close(descriptor)
        raise
    finally:
        for descriptor in theirs:
            os.close(descriptor)
    execution = Execution(process, mark, ours[0], {STDOUT: ours[1], STDERR: ours[2]})
    if not stdin:
        execution.end_stdin()
    return execution


async def _in_terminal(argv: Sequence[str], env: Mapping[str, str], mark: str) -> Execution:
    """Starts the command as leader of a session whose terminal it has, so that Ctrl-C reaches it."""
    master, slave = pty.openpty()
    try:
        os.set_blocking(master, False)
        command = _found(["setsid", "--ctty", *_found(argv)])
        process = await start_beside(command, env, mark, (slave, slave, slave), leads=False)
    except BaseException:
        os.close(master)
        raise
    finally:
        os.close(slave)
    return Execution(process, mark, master, {STDOUT: master})


def _found(argv: Sequence[str]) -> list[str]:
    """The command line with the tool's own path: the container's PATH is for its command."""
    return [shutil.which(argv[0], path=_SYSTEM_PATH) or argv[0], *argv[1:]]
