"""Starts, finds, signals and ends the processes of containers, never by name and never by a bare pid.

A process is held by its pidfd from the moment it is started, so muster never signals another process to which
the kernel has given the same pid. A muster that was killed and restarted identifies a container's processes
by their marks (`muster.embedded.node.marks`).

With a PID namespace, the kernel ends every process in it together with its first. Without one, a container's
processes are all processes with its mark, daemons included.
"""

import asyncio
import contextlib
import errno
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from muster.embedded.node import marks
from muster.embedded.node.isolation import WRAPPER, Files
from muster.embedded.node.marks import MARK, Tag

#: Seconds by which the clock of file times may be behind: two ticks of most kernels, one of the slowest.
COARSE: Final = 0.01

log = logging.getLogger(__name__)

#: PIDFD_SIGNAL_PROCESS_GROUP: signals the group that the process leads. Linux knows it from 6.9 on.
_PROCESS_GROUP: Final = 1 << 2
#: Rounds of finding and killing processes that fork while they are being killed: some 10 s at least.
_ROUNDS: Final = 250
_POLL_SECONDS: Final = 0.02
_HANGING_SECONDS: Final = 10.0


class Process:
    """One start of a container: the wrapper, and through it the command.

    Create it by `start` or `adopt`, in a running event loop.
    """

    def __init__(self, pid: int, pidfd: int, files: Files, *, namespaces: bool) -> None:
        self.pid = pid
        self.files = files
        self._namespaces = namespaces
        self._pidfd = pidfd
        self._loop = asyncio.get_running_loop()
        self._exit: asyncio.Future[int | None] = self._loop.create_future()
        self._loop.add_reader(pidfd, self._ended)

    @property
    def running(self) -> bool:
        return not self._exit.done()

    async def wait(self) -> int | None:
        """Waits for the end; returns the exit code, 128 + n for signal n, or None if it is not known."""
        return await asyncio.shield(self._exit)

    async def set_up(self) -> None:
        """Waits until the container is set up, so that other processes may enter it, or has ended."""
        while self.running and not self.files.ready.exists():  # noqa: ASYNC110  # a shell sends no events
            await asyncio.sleep(_POLL_SECONDS)

    def init(self) -> int | None:
        """The pid, outside the container, of the process whose namespaces other processes enter."""
        if not self._namespaces:
            return self.pid
        return next(iter(_children(self.pid)), None)

    async def terminate(self, grace: float) -> None:
        """Sends SIGTERM to the command, and after `grace` seconds SIGKILL to all of the container."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                # there is no command until the wrapper has set up the container, which no event reports
                while self.running and not self._signal_command(signal.SIGTERM):  # noqa: ASYNC110
                    await asyncio.sleep(_POLL_SECONDS)
                await self.wait()
        await self.kill()

    async def kill(self) -> None:
        """Ends all processes of the container; returns when they are gone."""
        if self.running:
            init = self.init() if self._namespaces else None
            if init is not None:
                await _end_namespace(init, self.pid, self._pidfd)
            else:
                _kill_group(self._pidfd, self.pid)
            if self.running:
                signal_pidfd(self._pidfd, signal.SIGKILL)
            await self.wait()
        if not self._namespaces:
            await end_marked(str(self.files.directory))

    def _signal_command(self, number: int) -> bool:
        """Signals the command; returns whether there was one. The container's set-up is not interrupted."""
        init = self.init() if self.files.ready.exists() else None
        command = next(iter(_children(init)), None) if init is not None else None
        if init is None or command is None:
            return False
        return _signal_child(command, init, number)

    def release(self) -> None:
        """Stops watching the process, because muster ends; the process continues."""
        if self.running:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._exit.cancel()

    def _ended(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._exit.set_result(self._code())

    def _code(self) -> int | None:
        with contextlib.suppress(ChildProcessError):  # an earlier muster started the process
            code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            return code if code >= 0 else 128 - code
        return recorded_exit(self.files)


def start(argv: Sequence[str], env: Mapping[str, str], files: Files, *, namespaces: bool) -> Process:
    """Starts a wrapper. Its FIFO must be open for reading. Raises OSError."""
    output = str(files.output)
    pid = os.posix_spawnp(
        argv[0],
        list(argv),
        {**env, MARK: str(files.directory)},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            # Only the wrapper holds it, so that the command's output never lacks a reader. It is opened
            # first, because opening for writing waits for a reader, and muster may be killed at this moment.
            (os.POSIX_SPAWN_OPEN, marks.OUTPUT_FD, output, os.O_RDWR, 0),
            (os.POSIX_SPAWN_OPEN, 1, output, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=[],
        # Python ignores SIGPIPE, and children would inherit the disposition
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP],
    )
    return Process(pid, os.pidfd_open(pid), files, namespaces=namespaces)


def adopt(pid: int, files: Files, *, namespaces: bool) -> Process | None:
    """The process that an earlier muster started; None if it is gone."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return None
    if marks.variable(pid) != str(files.directory):  # the pid was given to another process meanwhile
        os.close(pidfd)
        return None
    return Process(pid, pidfd, files, namespaces=namespaces)


def recorded_exit(files: Files) -> int | None:
    """The exit code that the wrapper recorded; None if it recorded none."""
    try:
        return int(files.exit.read_text())
    except (OSError, ValueError):
        return None


def recorded_end(files: Files) -> datetime | None:
    """The earliest time at which the wrapper may have recorded the exit code.

    File times are of the kernel's coarse clock, which may be a tick behind. Without a correction for it, a
    deleted pod could seem to have ended before its deletion, and to have failed by itself.
    """
    try:
        return datetime.fromtimestamp(files.exit.stat().st_mtime + COARSE, UTC)
    except OSError:
        return None


def wrappers(root: Path) -> dict[Path, int]:
    """The wrappers of containers whose directories are below `root`: directory → pid.

    The wrapper is the marked process that has the wrapper's name, or none yet, and leads its session (`start`
    makes the session). The shell's forks have the mark and the name, too, until they execute a command.
    """
    return {
        Path(mark): pid
        for pid, mark in marks.processes()
        if isinstance(mark, str) and mark.startswith(f"{root}/") and _is_wrapper(pid)
    }


def marked_directories(root: Path) -> set[Path]:
    """The directories below `root` whose containers still have a process."""
    found = {mark for _, mark in marks.processes()}
    tagged = {path for path in root.glob("pods/*/*/*") if marks.tag(str(path)) in found}
    return tagged | {Path(mark) for mark in found if isinstance(mark, str) and mark.startswith(f"{root}/")}


async def end_marked(mark: str) -> None:
    """Kills every process with this mark, until none is left.

    A scan may miss a process that forks and ends without pause. Once a scan has found a process, two scans
    must therefore find none.
    """
    left = 1
    for _ in range(_ROUNDS):
        found = await _SWEEP.find(mark)
        left = 2 if found else left - 1
        if not left:
            return
        for pid in found:
            _kill_marked(pid, mark)
        await asyncio.sleep(_POLL_SECONDS)
    log.warning("processes of %s fork faster than they can be killed", mark)


async def start_beside(
    argv: Sequence[str], env: Mapping[str, str], mark: str, streams: Sequence[int], *, leads: bool = True
) -> asyncio.subprocess.Process:
    """Starts a command with this mark beside a container. Raises OSError, ValueError.

    `streams` are its stdin, stdout and stderr; `leads`: a session of its own. A caller that is cancelled
    meanwhile leaves nothing of it: asyncio ends the process, but not what the process has started.
    """
    stdin, stdout, stderr = streams
    try:
        return await asyncio.create_subprocess_exec(
            *argv,
            env={**env, MARK: mark},
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=leads,
        )
    except asyncio.CancelledError:
        await end_marked(mark)
        raise


def signal_pidfd(pidfd: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, number)


def _kill_group(pidfd: int, pid: int) -> None:
    """Kills all processes of the group that this process leads, if it leads one.

    All at once, as a fork bomb would outrun a search for one after the other.
    """
    with contextlib.suppress(ProcessLookupError):
        try:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL, None, _PROCESS_GROUP)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            signal.pidfd_send_signal(pidfd, 0)  # fails if the process is gone: its pid may be another's
            if os.getpgid(pid) == pid:
                os.killpg(pid, signal.SIGKILL)


async def _end_namespace(init: int, parent: int, parent_pidfd: int) -> None:
    """Kills the first process of a PID namespace, if it still is a child of `parent`, and `parent`.

    The first process ends after all others of the namespace. Its parent (`unshare`) is killed before, or it
    would report in the container's output that it cannot end by the same signal.
    """
    try:
        pidfd = os.pidfd_open(init)
    except OSError:
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    try:
        if _parent(init) == parent:
            loop.add_reader(pidfd, ended.set)
            signal_pidfd(parent_pidfd, signal.SIGKILL)
            signal_pidfd(pidfd, signal.SIGKILL)
            with contextlib.suppress(TimeoutError):  # a process that hangs in the kernel ends later
                async with asyncio.timeout(_HANGING_SECONDS):
                    await ended.wait()
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)


def _signal_child(pid: int, parent: int, number: int) -> bool:
    """Signals `pid` if it still is a child of `parent`."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if _parent(pid) != parent:
            return False
        signal_pidfd(pidfd, number)
        return True
    finally:
        os.close(pidfd)


def _kill_marked(pid: int, mark: str) -> None:
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if marks.carries(pid, mark):
            signal_pidfd(pidfd, signal.SIGKILL)
    finally:
        os.close(pidfd)


class _Sweep:
    """Scans all processes once for all containers that end at the same time."""

    def __init__(self) -> None:
        self._next: asyncio.Task[dict[str | Tag, list[int]]] | None = None

    async def find(self, mark: str) -> list[int]:
        if self._next is None or self._next.get_loop() is not asyncio.get_running_loop():
            self._next = asyncio.create_task(self._look())
        found = await asyncio.shield(self._next)
        return [pid for each, pids in found.items() if marks.belongs(each, mark) for pid in pids]

    async def _look(self) -> dict[str | Tag, list[int]]:
        await asyncio.sleep(_POLL_SECONDS)
        self._next = None  # later callers may look for a process that starts later
        found: dict[str | Tag, list[int]] = {}
        for pid, mark in marks.processes():
            found.setdefault(mark, []).append(pid)
        return found


_SWEEP: Final = _Sweep()


def _is_wrapper(pid: int) -> bool:
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
        return (not line.strip(b"\0") or f"\0{WRAPPER}\0".encode() in line) and os.getsid(pid) == pid
    except OSError:
        return False


def _children(pid: int) -> list[int]:
    """The children of a process in order of their start."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0
