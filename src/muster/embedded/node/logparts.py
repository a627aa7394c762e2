"""The files of one log, and where in them a reader begins."""

import os
from datetime import datetime
from pathlib import Path
from typing import Final

from muster.embedded.node.logtimes import Times

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
