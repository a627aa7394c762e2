"""The files of one log, where in them a reader begins, and how it follows them while they are rotated."""

import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from muster.embedded.node.logtimes import Times
from muster.kube.client import LogOptions

KEEP: Final = 9  # older files beside the newest: 100 MB per start of a container
CHUNK: Final = 2**16  # what a pipe holds
#: Text that a reader gets in place of output that was removed before it was read.
LATE: Final = b"\n[muster: output may be missing here: it was written faster than it was read]\n"
_TAIL_BLOCK: Final = 2**16
#: A line is looked for at most so far into the oldest file, since output may have no lines.
_LONGEST_LINE: Final = 2**16


def numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}") if number else path


def cut_mark(path: Path) -> Path:
    """Exists once the oldest output of this log has been dropped."""
    return path.with_name(f"{path.name}.cut")


class Part:
    """One file of a log. It stays readable when it is rotated or removed."""

    def __init__(self, path: Path, times: bool) -> None:
        self.file = path.open("rb")
        self.times = Times(self.file, path) if times else None

    def close(self) -> None:
        self.file.close()
        if self.times is not None:
            self.times.close()


def first_line(path: Path) -> int:
    """The offset of the first line of which the beginning is in this file."""
    with path.open("rb") as file:
        return file.read(_LONGEST_LINE).find(b"\n") + 1


def since(files: list[Path], begin: datetime) -> tuple[int, int]:
    """The file and the offset at which output written since `begin` starts; the end if there is none."""
    end = (0, 0)
    for index, path in enumerate(files):
        part = Part(path, times=True)
        try:
            assert part.times is not None, "as asked"
            if (offset := part.times.since(begin.timestamp())) is not None:
                return index, offset
            end = index, os.fstat(part.file.fileno()).st_size
        finally:
            part.close()
    return end


def begins_line(files: list[Path], index: int, offset: int) -> bool:
    while not offset:  # a file may be empty
        if not index:
            return True
        index -= 1
        offset = files[index].stat().st_size
    with files[index].open("rb") as file:
        file.seek(offset - 1)
        return file.read(1) in (b"\n", b"")


def tail(files: list[Path], lines: int) -> tuple[int, int]:
    """The file and the offset at which the last `lines` lines begin."""
    wanted = lines
    for index in range(len(files) - 1, -1, -1):
        with files[index].open("rb") as file:
            end = os.fstat(file.fileno()).st_size
            first = index == len(files) - 1
            while end > 0:
                begin = max(0, end - _TAIL_BLOCK)
                file.seek(begin)
                block = file.read(end - begin)
                position = len(block)
                if first and block.endswith(b"\n"):  # ends the last line, does not begin another
                    position -= 1
                first = False
                while (position := block.rfind(b"\n", 0, position)) >= 0:
                    wanted -= 1
                    if wanted == 0:
                        return index, begin + position + 1
                end = begin
            if lines == 0:
                return index, os.fstat(file.fileno()).st_size
    return 0, 0


class Position:
    """The position of a reader in a log that may be rotated while it reads.

    The position holds its file open, so that a file that is removed meanwhile is read to its end.
    """

    def __init__(self, path: Path, how: LogOptions) -> None:
        assert not isinstance(how.since, timedelta), "a clock has made a time of it"
        self._path = path
        self._part: Part | None = None
        self._next: Part | None = None
        self._tail, self._since, self._timestamps = how.tail, how.since, how.timestamps
        self._within_line = False  # the last bytes read do not end a line
        self._skips = False  # the rest of a line that began earlier
        self._after_dropped = False  # it began where output was dropped

    def close(self) -> None:
        for part in (self._part, self._next):
            if part is not None:
                part.close()

    def is_cut(self) -> bool:
        """Whether the position is where the output begins that is left of a longer one."""
        return self._begin() and self._after_dropped

    def chunks(self) -> Iterator[bytes]:
        """The output written since the last call."""
        if self._part is None and not self._begin():
            return
        assert self._part is not None, "it has started"
        while True:
            yield from self._rest(self._part)
            late = self._next is None and self._look_for_next()
            if self._next is None:
                return
            yield from self._rest(self._part)  # the output written before the file was full
            if late:
                yield LATE
                self._within_line = self._skips = False
            self._part.close()
            self._part, self._next = self._next, None

    def _begin(self) -> bool:
        files = self._files()
        if not files:
            return False
        index, offset = (0, 0) if self._tail is None else tail(files, self._tail)
        if self._since is not None and (later := since(files, self._since)) > (index, offset):
            index, offset = later
            self._skips = not begins_line(files, index, offset)
        self._after_dropped = (index, offset) == (0, 0) and cut_mark(self._path).exists()
        if self._after_dropped:  # the end of a line whose beginning is gone is no line
            offset = first_line(files[0])
        self._part = self._open(files[index])
        self._part.file.seek(offset)
        return True

    def _rest(self, part: Part) -> Iterator[bytes]:
        while chunk := part.file.read(CHUNK):
            offset = part.file.tell() - len(chunk)
            if self._skips:
                _, end, kept = chunk.partition(b"\n")
                self._skips = not end
                chunk, offset = kept, offset + len(chunk) - len(kept)
            if part.times is not None:
                chunk = b"".join(self._stamped(*piece) for piece in part.times.pieces(chunk, offset))
            if chunk:
                yield chunk

    def _stamped(self, piece: bytes, time: bytes) -> bytes:
        begin = b"" if self._within_line else time + b" "
        self._within_line = not piece.endswith(b"\n")
        return begin + piece[:-1].replace(b"\n", b"\n" + time + b" ") + piece[-1:]

    def _look_for_next(self) -> bool:
        """Opens the file after the current one, if there is any. True if there may be others in between."""
        assert self._part is not None, "it has started"
        files = self._files()
        inodes = [path.stat().st_ino for path in files]
        own = os.fstat(self._part.file.fileno()).st_ino
        late = own not in inodes
        following = files if late else files[inodes.index(own) + 1 :]
        if following:
            self._next = self._open(following[0])
        return late

    def _open(self, path: Path) -> Part:
        return Part(path, self._timestamps)

    def _files(self) -> list[Path]:
        """The files of the log, oldest first."""
        return [path for number in range(KEEP, -1, -1) if (path := numbered(self._path, number)).exists()]
