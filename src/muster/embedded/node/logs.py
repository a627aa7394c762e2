"""Logs of containers: output is copied from FIFOs into bounded files, and read from there.

A container's stdout and stderr are a FIFO that muster empties into files. That costs one copy. It has
advantages over a file that the container itself opens: on a full disk output is lost (and the log says how
much) instead of the program's `write` failing, and logs leave room for the store; the bound holds exactly,
however fast a program writes; followers are woken instead of polling. The container's wrapper holds the FIFO
open for reading, too. While muster is down, a program that writes more than the pipe holds therefore waits,
and continues when muster is back. If the program ends meanwhile, its wrapper keeps the content of the pipe.

Files: `<root>/logs/<namespace>_<pod>_<uid>/<container>/<restart>.log`, the newest; when it is full it becomes
`.log.1`, `.log.1` becomes `.log.2`, and so on up to `KEEP`; beside each an index of times (`logtimes`). They
outlive the pod, until `prune`.
"""

import asyncio
import contextlib
import logging
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from muster.embedded.node import logparts
from muster.embedded.node.logparts import Position, cut_mark, numbered
from muster.embedded.node.logtimes import Recorder, beside
from muster.kube.client import EVERYTHING, LogOptions
from muster.kube.clock import Clock, SystemClock

if TYPE_CHECKING:
    from muster.embedded.node.isolation import Files

log = logging.getLogger(__name__)

FILE_BYTES: Final = 10 * 2**20
#: Output of one start that is kept at least.
LEAST_BYTES: Final = logparts.KEEP * FILE_BYTES
TOTAL_BYTES: Final = 2 * 2**30  # logs of all pods that have ended; the oldest are removed first
TOTAL_SECONDS: Final = 30 * 24 * 3600.0
#: Bytes that logs leave free, so that the cluster's store can still be written; on a small disk, half of it.
RESERVE: Final = 32 * 2**20
_LOOK: Final = 2**20  # bytes of output between two checks of the free space
_LOST: Final = b"\n[muster: %d bytes of output lost: the disk was nearly full]\n"
#: Text with which a log begins for readers who ask, if older output was dropped.
CUT: Final = f"[muster: older output was dropped; a log keeps the last {LEAST_BYTES // 2**20} MiB]"
_ENDED: Final = "ended"  # a file in a pod's directory


class LogWriter:
    """Empties one FIFO into one log until `close` is called."""

    def __init__(self, files: "Files", target: Path, clock: Clock, on_write: Callable[[], None]) -> None:
        """Creates the FIFO if necessary, and opens it. Raises OSError."""
        if not files.output.exists():
            os.mkfifo(files.output, 0o600)
        self._rest, self._target, self._clock, self._on_write = files.rest, target, clock, on_write
        self._fifo = os.open(files.output, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._file = -1
        self._times: Recorder | None = None
        self._size = 0
        self._lost = 0
        self._granted = 0  # bytes that may be written before the next check of the disk
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._fifo, self._read)

    def close(self) -> None:
        """Reads what is still in the FIFO, or what the wrapper kept of it, and closes both ends."""
        while self._read():
            pass
        with contextlib.suppress(OSError):
            self._write(self._rest.read_bytes()[: logparts.CHUNK])
            self._rest.unlink()
        self._loop.remove_reader(self._fifo)
        os.close(self._fifo)
        if self._lost and self._file >= 0:  # these few bytes may use the reserve
            with contextlib.suppress(OSError):
                os.write(self._file, _LOST % self._lost)
        self._close_file()
        self._on_write()

    def _read(self) -> bool:
        """Reads one chunk only, so that a program that writes without end does not starve the others."""
        try:
            chunk = os.read(self._fifo, logparts.CHUNK)
        except BlockingIOError:
            return False
        if chunk:
            self._write(chunk)
            self._on_write()
        return bool(chunk)

    def _write(self, chunk: bytes) -> None:
        if self._lost:
            if not self._append(_LOST % self._lost):
                self._lost += len(chunk)
                return
            self._lost = 0
        written = self._append(chunk)
        if written < len(chunk):
            if not self._lost:
                log.warning("%s: output is lost: the disk is nearly full", self._target)
            self._lost += len(chunk) - written

    def _append(self, chunk: bytes) -> int:
        """Appends `chunk` to the newest file; returns how many bytes could be written."""
        try:
            if self._times is not None and max(self._size, self._times.size) >= FILE_BYTES:
                self._rotate()
            if self._times is None:
                _make(self._target.parent)
                self._times = Recorder(self._target)
            if self._file < 0:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self._file = os.open(self._target, flags, 0o600)
                self._size = os.fstat(self._file).st_size
            if self._granted <= 0:
                self._granted = room(self._file)
                if self._granted <= 0:
                    return 0
            self._times.note(self._size, self._clock.now().timestamp())
            written = os.write(self._file, chunk)
            self._granted -= written
        except OSError:  # an error of the log must not end the pod
            return 0
        self._size += written
        return written

    def _rotate(self) -> None:
        self._close_file()
        if numbered(self._target, logparts.KEEP).exists():
            cut_mark(self._target).touch(0o600)
        for number in range(logparts.KEEP - 1, -1, -1):
            old, new = numbered(self._target, number), numbered(self._target, number + 1)
            if old.exists():
                if beside(old).exists():  # first: a crash in between leaves a log without times
                    beside(old).replace(beside(new))
                else:
                    beside(new).unlink(missing_ok=True)
                old.replace(new)

    def _close_file(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        if self._times is not None:
            self._times.close()
            self._times = None


def _make(directory: Path) -> None:
    """Makes a container's directory, the pod's above it and that of all logs, each of them private."""
    for each in (directory.parent.parent, directory.parent, directory):
        each.mkdir(mode=0o700, parents=True, exist_ok=True)


def room(where: int | Path) -> int:
    """How many bytes of logs may be written now on the disk of this file; none if 0 or less."""
    disk = os.statvfs(where)
    reserve = min(RESERVE, disk.f_blocks * disk.f_frsize // 2)
    return min(_LOOK, disk.f_bavail * disk.f_frsize - reserve)


@dataclass(frozen=True, slots=True)
class Kept:
    """The logs of one pod."""

    path: Path
    #: when something was written last, in seconds since 1970
    changed: float
    bytes: int


class Logs:
    """All logs under one directory: writers for running containers, and readers."""

    def __init__(self, directory: Path, clock: Clock | None = None) -> None:
        self._directory = directory
        self._clock = clock or SystemClock()
        self._changed: dict[Path, asyncio.Event] = {}  # by directory of a container that is followed
        self._gone: set[Path] = set()  # pods that have ended and whose directory cannot say so, until removed

    def writer(
        self, namespace: str, pod: str, uid: str, container: str, restart: int, files: "Files"
    ) -> LogWriter:
        directory = self._of(namespace, pod, uid) / container
        if restart:  # a start that writes nothing has a log, too: the log of the start before is `previous`
            with contextlib.suppress(OSError):
                _make(directory)
                (directory / f"{restart}.log").touch(0o600)
        return LogWriter(files, directory / f"{restart}.log", self._clock, lambda: self._wake(directory))

    def pod_ended(self, namespace: str, pod: str, uid: str) -> None:
        """Ends the followers of a pod. Call it once no container of the pod will start any more."""
        directory = self._of(namespace, pod, uid)
        try:
            (directory / _ENDED).touch()
        except OSError:  # nothing was written, or the disk is full
            self._gone.add(directory)
        for container in [key for key in self._changed if key.parent == directory]:
            self._wake(container)

    async def read(
        self,
        namespace: str,
        pod_name: str,
        pod_uid: str,
        container: str,
        how: LogOptions = EVERYTHING,
    ) -> AsyncIterator[bytes]:
        """Output of the container's newest start, the one before it, or all. `how.since` is a time, or None.

        A follower continues through restarts until the pod has ended, and may start before the pod does. A
        slow follower does not block the container: it misses output that is removed meanwhile, and gets a
        line that says so.
        """
        directory = self._of(namespace, pod_name, pod_uid) / container
        restarts = _restarts(directory)
        if how.previous:
            restarts = restarts[:-1]
            if not restarts:
                return  # the container has started only once
        earlier, how = _earlier(directory, restarts, how)
        for position in earlier:
            try:
                for chunk in position.chunks():
                    yield chunk
                    await asyncio.sleep(0)
            finally:
                position.close()
        restart = restarts[-1] if restarts else 0
        position = Position(directory / f"{restart}.log", how)
        follows = how.follow and not how.previous
        changed = asyncio.Event()
        try:
            while True:
                ended = self._has_ended(directory.parent)  # before the last look, not after it
                if follows:
                    changed = self._changed.setdefault(directory, asyncio.Event())
                for chunk in position.chunks():
                    yield chunk
                    await asyncio.sleep(0)  # a large log must not starve other tasks
                if not follows:
                    return
                newest = _restarts(directory)
                if newest and newest[-1] > restart:
                    restart = next(number for number in newest if number > restart)
                    position.close()
                    position = Position(directory / f"{restart}.log", LogOptions(timestamps=how.timestamps))
                elif ended:
                    return
                elif not self._has_ended(directory.parent):
                    await changed.wait()
        finally:
            position.close()
            if follows:
                self._wake(directory)  # other followers look once for nothing, and wait again

    def is_cut(
        self, namespace: str, pod: str, uid: str, container: str, how: LogOptions = EVERYTHING
    ) -> bool:
        """Whether `read` would give more if older output had not been dropped."""
        directory = self._of(namespace, pod, uid) / container
        restarts = _restarts(directory)[: -1 if how.previous else None]
        if not restarts:
            return False
        earlier, how = _earlier(directory, restarts, how)
        positions = [*earlier, Position(directory / f"{restarts[-1]}.log", how)]
        try:
            return any(position.is_cut() for position in positions)
        finally:
            for position in positions:
                position.close()

    def _has_ended(self, directory: Path) -> bool:
        return directory in self._gone or (directory / _ENDED).exists()

    def containers(self, namespace: str, pod: str, uid: str) -> list[str]:
        """The containers of a pod that have written something; the pod may have been removed."""
        directory = self._of(namespace, pod, uid)
        return (
            sorted(path.name for path in directory.iterdir() if path.is_dir()) if directory.is_dir() else []
        )

    def started_again(self, namespace: str, pod: str, uid: str) -> bool:
        """Whether any container of a pod that wrote something was started again."""
        directory = self._of(namespace, pod, uid)
        containers = self.containers(namespace, pod, uid)
        return any(len(_restarts(directory / container)) > 1 for container in containers)

    def prune(self, now: float, living: Set[str], ended: Set[str] = frozenset()) -> None:
        """Removes logs of pods that have ended: those that are too old, then the oldest if all are too large.

        `now` is in seconds since the epoch. `living` has the uids of the pods that exist, `ended` of those
        that have ended.
        """
        self._gone = {directory for directory in self._gone if directory.name.rpartition("_")[2] in living}
        total = 0
        for each in sorted(self.of_others(living - ended), key=lambda each: (-each.changed, each.bytes)):
            total += each.bytes
            if now - each.changed > TOTAL_SECONDS or total > TOTAL_BYTES:
                shutil.rmtree(each.path, ignore_errors=True)

    def of_others(self, kept: Set[str]) -> Iterator[Kept]:
        """The logs of pods, those with these uids excepted."""
        for directory in self._directory.glob("*_*_*"):
            if directory.name.rpartition("_")[2] not in kept:
                with contextlib.suppress(FileNotFoundError):  # another process removes it meanwhile
                    files = [path.stat() for path in directory.rglob("*") if path.is_file()]
                    changed = max((stat.st_mtime for stat in files), default=directory.stat().st_mtime)
                    yield Kept(directory, changed, sum(stat.st_size for stat in files))

    def last_lines(self, namespace: str, pod: str, uid: str, container: str, restart: int) -> str:
        """The last lines of a log, to find the cause of a failure."""
        path = self._of(namespace, pod, uid) / container / f"{restart}.log"
        try:
            with path.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
                return file.read(4096).decode(errors="replace")
        except OSError:
            return ""

    def _of(self, namespace: str, pod: str, uid: str) -> Path:
        return self._directory / f"{namespace}_{pod}_{uid}"

    def _wake(self, directory: Path) -> None:
        event = self._changed.pop(directory, None)
        if event is not None:
            event.set()


def _restarts(directory: Path) -> list[int]:
    """The starts of a container in order; the first start only if it wrote something."""
    return sorted(int(path.name.removesuffix(".log")) for path in directory.glob("*.log"))


def _earlier(
    directory: Path, restarts: Sequence[int], how: LogOptions
) -> tuple[list["Position"], LogOptions]:
    """The positions to read in the logs of earlier starts, and the part to read of the newest."""
    if not how.every_start or how.previous or len(restarts) < 2:
        return [], how
    paths = [directory / f"{restart}.log" for restart in restarts]
    if how.tail is None:
        return [Position(path, how) for path in paths[:-1]], how
    left, earlier = how.tail - _lines(paths[-1], how), list[Position]()
    for path in reversed(paths[:-1]):
        if left <= 0:
            break
        earlier.insert(0, Position(path, replace(how, tail=left)))
        left -= _lines(path, replace(how, tail=left))
    return earlier, how


def _lines(path: Path, how: LogOptions) -> int:
    """How many lines this part of a log has."""
    position, count, last = Position(path, how), 0, b"\n"
    try:
        for chunk in position.chunks():
            count, last = count + chunk.count(b"\n"), chunk
    finally:
        position.close()
    return count + (not last.endswith(b"\n"))
