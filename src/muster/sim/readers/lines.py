"""Lines and numbers of text files, compressed or not, with errors that say where they are.

Whether a file is gzip is seen from its first bytes, not from its name. One line is in memory at a time.
"""

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import IO, Final, cast

from muster.sim.trace import TraceError

#: Characters of a line; more is no line of a trace, and would be read into memory as a whole.
LONGEST: Final = 65_536
#: Lines of a file, and bytes of them once unpacked; a few MB of gzip may unpack to any size.
MOST_LINES: Final = 10_000_000
MOST_BYTES: Final = 2**30
#: Seconds, processors, numbers of jobs: beyond this a float no longer tells neighbours apart.
LARGEST: Final = 2**53
#: Lines in a row that are blank or comments: a few KB of gzip may unpack to millions.
MOST_IDLE: Final = 100_000
_GZIP: Final = b"\x1f\x8b"
_SHOWN: Final = 40  # characters of a line in a message


class Line(str):
    """A line of a file, as errors name it, and what is said of its fields."""

    __slots__ = ()

    def field(self, path: str) -> str:
        """Where a field is: `f.json, line 3, pods[0].min`. "" is the line itself."""
        return f"{self}, {path}" if path else str(self)

    def fault(self, error: ValueError) -> TraceError:
        """The error of a field, whose message begins with the field's path."""
        path, _, message = str(error).partition(": ")
        return TraceError(f"{self.field(path)}: {message}")


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbers from 1, and lines without their end. Raises TraceError."""
    number = size = idle = 0
    try:
        with opened(path) as file:
            while line := file.readline(LONGEST + 1):
                number += 1
                size += len(line)
                if len(line) > LONGEST:
                    raise TraceError(f"{path}, line {number}: longer than {LONGEST} bytes; is this a trace?")
                if number > MOST_LINES or size > MOST_BYTES:
                    raise TraceError(
                        f"{path}, line {number}: a trace has {MOST_LINES:,} lines and "
                        f"{MOST_BYTES >> 20:,} MiB at most, unpacked; split the file by time"
                    )
                idle = idle + 1 if line.lstrip()[:1] in (b"", b";") else 0
                if idle > MOST_IDLE:
                    raise TraceError(
                        f"{path}, line {number}: more than {MOST_IDLE:,} lines in a row are blank or "
                        "comments; is this a trace?"
                    )
                if number == 1:
                    line = line.removeprefix(codecs.BOM_UTF8)
                yield number, line.decode("utf-8", "replace").rstrip("\r\n")
    except EOFError:
        raise TraceError(
            f"{path}: the gzip data ends after line {number}, in the middle; fetch the file again"
        ) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(f"{path}: the gzip data is damaged after line {number} ({error})") from None
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from None


def first(path: Path) -> str:
    """The first line that is not blank, "" if there is none; what a file is written in shows there."""
    return next((text for _, text in lines(path) if text.strip()), "")


def opened(path: Path) -> IO[bytes]:
    """A file to read, decompressed if it is gzip."""
    with path.open("rb") as file:
        compressed = file.read(len(_GZIP)) == _GZIP
    if not compressed:
        return path.open("rb")
    return io.BufferedReader(
        cast(io.RawIOBase, gzip.open(path))
    )  # it splits lines without running Python code


def number(text: str, where: str, low: float, *, whole: bool = False) -> float:
    """A number of at least `low`; raises TraceError. `where` names file, line and column."""
    try:
        value = float(text.replace("_", "?"))  # only Python reads 1_000 as a number
    except ValueError:
        raise TraceError(f"{where}: {shown(text)} is not a number") from None
    if not isfinite(value) or abs(value) > LARGEST:
        raise TraceError(f"{where}: {shown(text)} is out of range; expected less than {LARGEST}")
    if value < low:
        raise TraceError(f"{where}: {shown(text)} is too small; expected {low:g} or more")
    if whole and value != int(value):
        raise TraceError(f"{where}: {shown(text)} is not a whole number")
    return value


def shown(text: str) -> str:
    """A piece of the file, as messages show it."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
