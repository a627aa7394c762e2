"""Replays a live scheduler's journal: the same events must give the same decisions.

The journal holds the scheduler's events, the times of its cycles, and its decisions. A new scheduler receives
the same events and cycles, and each decision is compared with the recorded one. The replay stops at the first
difference: from there on the two have different states. Decisions that a crash cut off at the end of a term
do not count as differences.

If the journal's beginning has been rotated away, the replay starts with the snapshot at the beginning of what
is left, or, without one, at the first `Began`.
"""

import base64
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from muster.core.saved import restored
from muster.core.words.decisions import Decision
from muster.journal import Began, Cycle, Entry, Snapshot, encode, previous, read
from muster.sim.engine import Core
from muster.sim.readers.lines import opened
from muster.sim.trace import TraceError
from muster.version import VERSION


@dataclass(frozen=True, slots=True)
class Difference:
    """The first decision that differs; None on the side that has no counterpart."""

    #: seconds since the epoch, of the cycle
    at: float
    #: which decision of the journal, from 1
    number: int
    logged: Decision | None
    decided: Decision | None

    def __str__(self) -> str:
        return (
            f"decision {self.number} differs, in the cycle at {self.at:.6f}:\n"
            f"  the journal has  {_show(self.at, self.logged)}\n"
            f"  decided now      {_show(self.at, self.decided)}"
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    schedulers: int
    events: int
    cycles: int
    decisions: int
    difference: Difference | None


def recheck(
    path: Path,
    make: Callable[[], Core],
    turn: Callable[[], None] = lambda: None,
    resume: Callable[[bytes], Core] | None = restored,
) -> Comparison:
    """Replay a journal up to the first difference. Raises TraceError if it cannot be read as one.

    `make` returns a new scheduler, and `resume` that of a snapshot; None: snapshots are not used.
    """
    if not path.exists() and not previous(path).exists():
        raise TraceError(f"{path}: no such file; a journal is written by a scheduler that runs")
    try:
        return _Check(make, turn, resume).run(read(path, opened), path)
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (EOFError, zlib.error) as error:
        raise TraceError(f"{path}: the gzip data is damaged or cut off ({error})") from None
    except ValueError as error:
        raise error if isinstance(error, TraceError) else TraceError(str(error)) from None


class _Check:
    def __init__(
        self, make: Callable[[], Core], turn: Callable[[], None], resume: Callable[[bytes], Core] | None
    ) -> None:
        self._make, self._turn, self._resume = make, turn, resume
        self._core: Core | None = None
        #: decisions of this cycle that have not been found in the journal yet; None: of this cycle nothing is
        #: known, since the journal begins in it
        self._due: list[Decision] | None = []
        self._at = 0.0
        self._schedulers = self._events = self._cycles = self._decisions = 0

    def run(self, entries: Iterable[Entry], path: Path) -> Comparison:
        difference = next(self._differences(entries), None)
        if self._core is None:
            raise TraceError(
                f"{path}: no scheduler begins in it; it is empty, or its beginning has been rotated away"
            )
        return Comparison(self._schedulers, self._events, self._cycles, self._decisions, difference)

    def _differences(self, entries: Iterable[Entry]) -> Iterator[Difference]:
        for entry in entries:
            match entry.what:
                case Began():
                    self._core, self._due = self._make(), []
                    self._schedulers += 1
                case Snapshot() as snapshot:
                    if self._core is None and self._resume is not None:
                        self._core, self._due = _resumed(snapshot, self._resume), None
                        self._schedulers += 1
                case _ if self._core is None:
                    continue
                case Cycle():
                    yield from self._missing()
                    self._at, self._due = entry.at, list(self._core.decide(entry.at))
                    self._cycles += 1
                    self._turn()
                case what if isinstance(what, Decision):
                    if self._due is None:
                        continue
                    self._decisions += 1
                    decided = self._due.pop(0) if self._due else None
                    if decided != what:
                        yield Difference(self._at, self._decisions, what, decided)
                case event:
                    yield from self._missing()
                    self._due = []
                    self._core.apply(event)
                    self._events += 1

    def _missing(self) -> Iterator[Difference]:
        """Yield decisions that were made now but not recorded, though the journal continues."""
        if self._due:
            yield Difference(self._at, self._decisions + 1, None, self._due[0])


def _resumed(snapshot: Snapshot, resume: Callable[[bytes], Core]) -> Core:
    """Return the scheduler of a snapshot. Raises ValueError."""
    try:
        return resume(base64.b64decode(snapshot.state, validate=True))
    except ValueError as error:
        whose = (
            "" if snapshot.version == VERSION else f" (muster {snapshot.version} wrote it; this is {VERSION})"
        )
        raise ValueError(f"the snapshot at its beginning cannot be read{whose}: {error}") from None


def _show(at: float, decision: Decision | None) -> str:
    return "nothing" if decision is None else encode(at, decision).decode()
