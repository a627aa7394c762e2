"""Chrome's trace event format, which ui.perfetto.dev draws (Google, "Trace Event Format", 2016).

A process is a row of tracks, such as a node; its threads have slices of time, and its counters curves. The
events may be told in any order, and are written in that of time: chunks of them are sorted and wait in
temporary files, so memory does not grow with a trace.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from heapq import heappop, heappush, merge
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Final

import msgspec

from muster.api.visible import visible

#: Events that are in memory at most.
CHUNK: Final = 100_000
#: Characters of a name at most: the longest name of an object.
_LONGEST: Final = 253
#: Digits of the time that begins each line of a temporary file, by which the lines are sorted.
_DIGITS: Final = 20


class _Event(msgspec.Struct, omit_defaults=True):
    """Times are in microseconds since the begin of the trace."""

    name: str
    ph: str
    ts: int
    pid: int
    tid: int
    dur: int | None = None
    args: dict[str, str | float] | None = None


class Trace:
    """A trace that is written when its `with` block has ended."""

    def __init__(self, write: Callable[[bytes], object], begin: float) -> None:
        """`begin`: the time in seconds that is 0 in the trace. What was before it counts as 0."""
        self._write, self._begin = write, begin
        self._chunk: list[bytes] = []
        self._files: list[IO[bytes]] = []
        self._open = ExitStack()
        self._processes: dict[str, int] = {}
        self._threads: set[tuple[int, int]] = set()
        #: the last value of each counter, which another may replace at the same time
        self._counters: dict[tuple[int, str], tuple[int, float]] = {}

    def __enter__(self) -> "Trace":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._open:
            if error is None:
                for (pid, name), (at, value) in self._counters.items():
                    self._count(pid, name, at, value)
                self._write(b'{"displayTimeUnit":"ms","traceEvents":[\n')
                for number, line in enumerate(merge(*self._files, self._sorted(), key=_time)):
                    self._write((b",\n" if number else b"") + line[_DIGITS:].rstrip(b"\n"))
                self._write(b"\n]}\n")

    def process(self, name: str) -> int:
        """The process of this name."""
        found = self._processes.get(name)
        if found is None:
            found = self._processes[name] = len(self._processes) + 1
            self._add(_Event("process_name", "M", 0, found, 0, args={"name": _shown(name)}))
            self._add(_Event("process_sort_index", "M", 0, found, 0, args={"sort_index": found}))
        return found

    def slice(
        self,
        pid: int,
        tid: int,
        thread: str,
        name: str,
        begin: float,
        end: float,
        args: Mapping[str, str | float],
    ) -> None:
        """A period in seconds on a thread of a process: its number from 1 on, and its name."""
        if (pid, tid) not in self._threads:
            self._threads.add((pid, tid))
            self._add(_Event("thread_name", "M", 0, pid, tid, args={"name": _shown(thread)}))
        at = self._at(begin)
        told = {
            key: _shown(value) if isinstance(value, str) else value for key, value in args.items() if value
        }
        self._add(_Event(_shown(name), "X", at, pid, tid, max(0, self._at(end) - at), told or None))

    def counter(self, pid: int, name: str, at: float, value: float) -> None:
        """The value of a counter from this time in seconds on. Each counter's times must rise."""
        now, key = self._at(at), (pid, name)
        before = self._counters.get(key)
        if before is not None and before[1] == value:
            return
        if before is not None and before[0] != now:
            self._count(pid, name, *before)
        self._counters[key] = now, value

    def _count(self, pid: int, name: str, at: int, value: float) -> None:
        self._add(_Event(name, "C", at, pid, 0, args={name: value}))

    def _at(self, seconds: float) -> int:
        return max(0, round((seconds - self._begin) * 1e6))

    def _add(self, event: _Event) -> None:
        self._chunk.append(b"%0*d%b\n" % (_DIGITS, event.ts, msgspec.json.encode(event)))
        if len(self._chunk) >= CHUNK:
            file = self._open.enter_context(TemporaryFile())  # noqa: SIM115  # until it is written
            file.writelines(self._sorted())
            file.seek(0)
            self._files.append(file)
            self._chunk.clear()

    def _sorted(self) -> list[bytes]:
        return sorted(self._chunk, key=_time)  # stable: what names a process stays before what it has


class Lanes:
    """Numbers from 1 on, of which the smallest free one is taken: slices of a thread must not overlap."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self._most = 0

    def take(self) -> int:
        if self._free:
            return heappop(self._free)
        self._most += 1
        return self._most

    def give_back(self, lane: int) -> None:
        heappush(self._free, lane)


def lanes(periods: Iterable[tuple[float, float]]) -> Iterator[int]:
    """The lane of each period, in order of their begins."""
    free, busy = Lanes(), list[tuple[float, int]]()
    for begin, end in periods:
        while busy and busy[0][0] <= begin:
            free.give_back(heappop(busy)[1])
        lane = free.take()
        heappush(busy, (end, lane))
        yield lane


def _time(line: bytes) -> bytes:
    return line[:_DIGITS]


def _shown(name: str) -> str:
    told = visible(name)
    return told if len(told) <= _LONGEST else f"{told[: _LONGEST - 1]}…"
