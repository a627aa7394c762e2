"""From the bytes that a program prints to lines that a terminal may show. Pure.

Of a line that is written over (`\\r`, as progress bars do) its last state counts. Escape sequences other than
colours are removed: a pod must not clear the screen, move the cursor or set the title of a terminal that
shows other pods beside it.
"""

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

LONGEST_LINE: Final = 1 << 16  # bytes
#: lines that may wait for a terminal, those of all pods together; and bytes
WAITING: Final = (5_000, 1 << 20)
#: lines of one pod that may wait, however many pods there are
LEAST: Final = 20
#: lines that a terminal is given at a time
BATCH: Final = 500
#: bytes of one pod that may wait for a file or pipe before its reader waits, too
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
    """What a terminal shows of a line, without its end. A `stamped` line begins with its time."""
    text = line.decode(errors="replace")
    if text.isprintable():
        return text
    stamp, blank, text = text.partition(" ") if stamped else ("", "", text)
    return clean(stamp + blank + text.rstrip("\r").rpartition("\r")[2])


def clean(text: str) -> str:
    """Without control characters other than tabs, and without escape sequences other than colours."""
    text, removed = _CONTROL.subn(lambda found: found["colour"] or "", text)
    if removed and "\x1b" in text and not text.endswith(_RESET):
        text += _RESET
    return text


def plain(text: str) -> str:
    """Clean text without its colours."""
    return _COLOUR.sub("", text)


class Splitter:
    """Lines out of chunks; a line without an end is broken at a bound."""

    def __init__(self, *, stamped: bool = False) -> None:
        #: the beginning of a line that has not ended
        self.rest = b""
        self._stamped = stamped

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk ends."""
        *whole, rest = (self.rest + chunk if self.rest else chunk).split(b"\n")
        if (overwritten := rest.rstrip(b"\r").rfind(b"\r")) >= 0:
            stamp, blank, _ = rest.partition(b" ") if self._stamped else (b"", b"", b"")
            rest = stamp + blank + rest[overwritten + 1 :]
        self.rest = rest
        if len(self.rest) > LONGEST_LINE:
            whole.append(self.end())
        return whole

    def end(self) -> bytes:
        """What is left of a line whose end does not come."""
        rest, self.rest = self.rest, b""
        return rest


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines that a pod printed, in order."""

    pod: str  # its label
    texts: tuple[str, ...]
    #: lines before these that are left out
    missing: int = 0


@dataclass(frozen=True, slots=True)
class Printed:
    """What pods have printed."""

    lines: tuple[Lines, ...]
    #: by label, the lines that have not ended (for a terminal only)
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
        """No chunk follows."""
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
    """What the pods of a job print, on its way to its reader.

    A terminal takes only so much: what waits for it is bounded, and the oldest lines of each pod are left
    out and counted. A file or pipe gets every line; whoever feeds a source waits while it is `full`.
    """

    def __init__(self, *, terminal: bool, stamped: bool = False) -> None:
        self._terminal, self._stamped = terminal, stamped
        self._sources: list[Source] = []  # those that have not ended, or have lines
        self._unfinished: tuple[tuple[str, str], ...] = ()

    def source(self, pod: str) -> Source:
        """A new one; `pod` is the label of its lines."""
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
        """Whether more of this source has to wait; never so for a terminal."""
        return not self._terminal and source.size > BACKLOG

    @property
    def waiting(self) -> bool:
        """Whether any line is."""
        return any(map(len, self._sources))

    def take(self) -> Printed | None:
        """What is next; None if nothing has changed."""
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
