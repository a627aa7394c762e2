"""Converts the bytes that a program prints to lines that are safe to show on a terminal. Pure.

Of a line that is overwritten (`\\r`, as progress bars do) the last state counts. Escape sequences other than
colours are removed: a pod must not clear the screen, move the cursor or set the title of a terminal that also
shows other pods.
"""

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

LONGEST_LINE: Final = 1 << 16  # bytes
#: lines that may wait for a terminal, over all pods; and bytes
WAITING: Final = (5_000, 1 << 20)
#: lines of one pod that may always wait, however many pods there are
LEAST: Final = 20
#: lines that a terminal gets at a time
BATCH: Final = 500
#: bytes of one pod that may wait for a file or pipe before that pod's reader pauses
BACKLOG: Final = 1 << 18

_COLOUR: Final = re.compile(r"\x1b\[[0-9;:]*m")
_RESET: Final = "\x1b[0m"
_CONTROL: Final = re.compile(
    r"(?P<colour>\x1b\[[0-9;:]*m)"
    r"|\x1b\[[\x30-\x3f]*[\x20-\x2f]*[\x40-\x7e]"  # CSI: cursor, erasing, modes
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # OSC, DCS, SOS, PM, APC: titles, links, the clipboard
    r"|\x1b[\x20-\x2f]*[\x30-\x7e]"
    r"|[\x00-\x08\x0a-\x1f\x7f-\x9f]"
)


def shown(line: bytes, *, stamped: bool = False) -> str:
    """The line as a terminal shows it, without its line end. A `stamped` line begins with its time."""
    text = line.decode(errors="replace")
    if text.isprintable():
        return text
    stamp, blank, text = text.partition(" ") if stamped else ("", "", text)
    return clean(stamp + blank + text.rstrip("\r").rpartition("\r")[2])


def clean(text: str) -> str:
    """The text without control characters except tabs, and without escape sequences except colours."""
    text, removed = _CONTROL.subn(lambda found: found["colour"] or "", text)
    if removed and "\x1b" in text and not text.endswith(_RESET):
        text += _RESET
    return text


def plain(text: str) -> str:
    """Clean text without colours."""
    return _COLOUR.sub("", text)


class Splitter:
    """Splits chunks into lines; breaks a line at a length bound if it does not end."""

    def __init__(self, *, stamped: bool = False) -> None:
        #: the beginning of a line that has not ended
        self.rest = b""
        self._stamped = stamped

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that end with this chunk."""
        *whole, rest = (self.rest + chunk if self.rest else chunk).split(b"\n")
        if (overwritten := rest.rstrip(b"\r").rfind(b"\r")) >= 0:
            stamp, blank, _ = rest.partition(b" ") if self._stamped else (b"", b"", b"")
            rest = stamp + blank + rest[overwritten + 1 :]
        self.rest = rest
        if len(self.rest) > LONGEST_LINE:
            whole.append(self.end())
        return whole

    def end(self) -> bytes:
        """The rest of a line that did not end."""
        rest, self.rest = self.rest, b""
        return rest


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines that a pod printed, in order."""

    pod: str  # its label
    texts: tuple[str, ...]
    #: lines left out before these
    missing: int = 0


@dataclass(frozen=True, slots=True)
class Printed:
    """What pods have printed."""

    lines: tuple[Lines, ...]
    #: the unfinished lines, by label (for a terminal only)
    unfinished: tuple[tuple[str, str], ...] = ()


class Source:
    """The lines of one container that wait for their reader."""

    def __init__(self, pod: str, *, stamped: bool = False) -> None:
        self.pod = pod
        self._stamped = stamped
        self.size = 0  # bytes
        self.ended = False
        self._lines: deque[bytes] = deque()
        self._missing = 0
        self._splitter = Splitter(stamped=stamped)

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def rest(self) -> str:
        """The beginning of a line that has not ended."""
        return self._shown(self._splitter.rest)

    def feed(self, chunk: bytes) -> None:
        self._add(self._splitter.feed(chunk))

    def end(self) -> None:
        """Marks the source as ended: no chunk follows."""
        self.ended = True
        if rest := self._splitter.end():
            self._add([rest])

    def bound(self, lines: int, size: int) -> None:
        """Leaves out the oldest lines beyond these bounds."""
        while len(self._lines) > lines or (self.size > size and len(self._lines) > 1):
            self.size -= len(self._lines.popleft())
            self._missing += 1

    def take(self, most: int) -> Lines:
        raw = [self._lines.popleft() for _ in range(min(most, len(self._lines)))]
        self.size -= sum(map(len, raw))
        missing, self._missing = self._missing, 0
        return Lines(self.pod, tuple(map(self._shown, raw)), missing)

    def _shown(self, line: bytes) -> str:
        return shown(line, stamped=self._stamped)

    def _add(self, lines: Sequence[bytes]) -> None:
        self._lines.extend(lines)
        self.size += sum(map(len, lines))


class Output:
    """The output of a job's pods on its way to its reader.

    A terminal takes only so much: the waiting lines are bounded, and the oldest lines of each pod are left
    out and counted. A file or pipe gets every line; the caller that feeds a source waits while it is `full`.
    """

    def __init__(self, *, terminal: bool, stamped: bool = False) -> None:
        self._terminal, self._stamped = terminal, stamped
        self._sources: list[Source] = []  # sources that have not ended or have lines
        self._unfinished: tuple[tuple[str, str], ...] = ()

    def source(self, pod: str) -> Source:
        """A new source; `pod` is the label of its lines."""
        source = Source(pod, stamped=self._stamped)
        self._sources.append(source)
        return source

    def feed(self, source: Source, chunk: bytes) -> None:
        source.feed(chunk)
        if self._terminal and len(source) > LEAST:
            sharing = sum(1 for each in self._sources if len(each))
            lines, size = (bound // sharing for bound in WAITING)
            source.bound(max(LEAST, lines), size)

    def full(self, source: Source) -> bool:
        """Whether the caller must wait before it feeds this source again; never so for a terminal."""
        return not self._terminal and source.size > BACKLOG

    @property
    def waiting(self) -> bool:
        """Whether any line is waiting."""
        return any(map(len, self._sources))

    def take(self) -> Printed | None:
        """The next output; None if nothing has changed."""
        waiting = [source for source in self._sources if len(source)]
        most = max(1, BATCH // max(1, len(waiting)))
        taken = tuple(source.take(most if self._terminal else len(source)) for source in waiting)
        self._sources = [source for source in self._sources if len(source) or not source.ended]
        unfinished = self._rests() if self._terminal else ()
        if not taken and unfinished == self._unfinished:
            return None
        self._unfinished = unfinished
        return Printed(taken, unfinished)

    def _rests(self) -> tuple[tuple[str, str], ...]:
        rests = ((source.pod, source.rest) for source in self._sources)
        return tuple((pod, text) for pod, text in rests if text.strip())
