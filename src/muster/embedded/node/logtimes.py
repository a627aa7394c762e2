"""The times at which a log was written: an index beside each of its files.

An entry says at which time the file was written from an offset on. The time of a line is the time at which
the chunk in which the line begins was read. Entries are at least 10 ms apart, so a program that writes fast
costs at most a hundred of them a second. An entry takes 8 bytes: `time in 10 ms since 1970 << 24 | offset`.

An entry is written before its output. If muster is killed in between, or the output cannot be written, the
next entry has the same offset and counts instead. A file without an index, written by an earlier version of
muster, has one time: that of its last write.
"""

import contextlib
import os
from array import array
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

TICKS: Final = 100  # a second
_SHIFT: Final = 24  # a file of a log is smaller than 16 MiB
_OFFSET: Final = (1 << _SHIFT) - 1
_BYTES: Final = 8


def beside(log: Path) -> Path:
    """The path of a log file's index: that of `0.log.1` is `0.times.1`."""
    start, _, number = log.name.partition(".log")
    return log.with_name(f"{start}.times{number}")


class Recorder:
    """Writes the index of the newest file."""

    def __init__(self, log: Path) -> None:
        """Opens the index of `log`. Raises OSError."""
        path = beside(log)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.size = os.fstat(self._file).st_size
        self._last = 0
        if self.size % _BYTES:  # half an entry: the disk was full
            self.size -= self.size % _BYTES
            os.ftruncate(self._file, self.size)
        with contextlib.suppress(FileNotFoundError):
            written = log.stat()
            if not self.size and written.st_size:
                self.note(0, written.st_mtime)

    def close(self) -> None:
        os.close(self._file)

    def note(self, offset: int, now: float) -> None:
        """Records that output from `offset` on is written `now`, in seconds since 1970. Raises OSError."""
        tick = int(now * TICKS)
        if tick != self._last:
            self.size += os.write(self._file, array("Q", [tick << _SHIFT | offset]).tobytes())
            self._last = tick


class Times:
    """Reads the index of one file, as far as it has been written."""

    def __init__(self, log: BinaryIO, path: Path) -> None:
        """`path` is the path of `log`. If the log is rotated in between, the times are not those of `log`."""
        self._log = log
        self._file: BinaryIO | None = None
        with contextlib.suppress(FileNotFoundError):
            self._file = beside(path).open("rb")
        self._entries = array("Q")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def since(self, begin: float) -> int | None:
        """The offset of the output written since `begin`; None if there is none. Call it before `pieces`."""
        self._read_on()
        tick = int(begin * TICKS)
        found = (index for index, entry in enumerate(self._entries) if entry >> _SHIFT >= tick)
        if (index := next(found, None)) is not None:
            return self._entries[index] & _OFFSET if index else 0
        return 0 if not self._entries and os.fstat(self._log.fileno()).st_mtime >= begin else None

    def pieces(self, chunk: bytes, offset: int) -> Iterator[tuple[bytes, bytes]]:
        """The parts of the chunk at `offset`, each with the time at which it was written (RFC 3339).

        Call it for chunks in their order.
        """
        self._read_on()
        end = offset + len(chunk)
        current = 0
        while offset < end:
            while current + 1 < len(self._entries) and self._entries[current + 1] & _OFFSET <= offset:
                current += 1
            following = self._entries[current + 1] & _OFFSET if current + 1 < len(self._entries) else end
            size = min(following, end) - offset
            yield chunk[:size], self._time(current)
            chunk, offset = chunk[size:], offset + size
        del self._entries[:current]

    def _time(self, index: int) -> bytes:
        if self._entries:
            ticks = self._entries[index] >> _SHIFT
        else:
            ticks = int(os.fstat(self._log.fileno()).st_mtime * TICKS)
        moment = datetime.fromtimestamp(ticks // TICKS, UTC)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{ticks % TICKS:02}Z".encode()

    def _read_on(self) -> None:
        if self._file is not None and (more := self._file.read()):
            self._entries.frombytes(more[: len(more) // _BYTES * _BYTES])
            self._file.seek(-(len(more) % _BYTES), os.SEEK_CUR)  # an entry that is being written
