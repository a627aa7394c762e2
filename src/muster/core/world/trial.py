"""One log of changes, so that they can be taken back.

An owner of state that a trial may change pushes how to undo each change: a function and its arguments. A
trial begins at a position in the log. It ends when it is kept, or when it is undone: then everything after
that position is undone, newest first. `with world.trial() as trial:` undoes it on leaving, unless
`trial.keep()` was called. Trials nest: what an inner trial keeps is undone with the outer one.

    with world.trial() as trial:
        placed = fit.fit(request)
        if placed:
            trial.keep()

Outside of trials nothing is logged.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Any


class Version:
    """A number that changes whenever what it stands for does, so that a reader of it can tell.

    No value is used twice. A trial that is undone restores the value of before.
    """

    __slots__ = ("_last", "value")

    def __init__(self) -> None:
        self.value = self._last = 0

    def change(self) -> None:
        self._last += 1
        self.value = self._last


#: A function that undoes a change, and its arguments.
Undo = tuple[Any, ...]  # Any: a function followed by arguments of any types


class UndoLog:
    __slots__ = ("_brief", "depth", "entries")

    def __init__(self) -> None:
        #: how many trials have begun and not ended
        self.depth = 0
        self.entries: list[Undo] = []
        #: what is undone at the end of a trial even if that is kept, and the position in `entries` before it
        self._brief: list[tuple[int, Undo]] = []

    def trial(self) -> "Trial":
        """Begin a trial."""
        return Trial(self)

    def push(self, undo: Callable[..., object], *arguments: object) -> None:
        if self.depth:
            self.entries.append((undo, *arguments))

    def push_brief(self, undo: Callable[..., object], *arguments: object) -> None:
        """As `push`, for a change that does not outlast its trial, even if that is kept."""
        assert self.depth, "only a trial makes such a change"
        self._brief.append((len(self.entries), (undo, *arguments)))


class Trial:
    __slots__ = ("_depth", "_log", "kept", "start")

    def __init__(self, log: UndoLog) -> None:
        self._log, self._depth = log, log.depth
        log.depth += 1
        self.kept = False
        #: its position in the log
        self.start = len(log.entries)

    def __enter__(self) -> "Trial":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._log.depth > self._depth:
            self.undo()

    def keep(self) -> None:
        """End the trial. Its changes stay, unless a trial around it is undone."""
        log, self.kept = self._log, True
        if log._brief:
            self._end_brief()
        log.depth = self._depth
        if not log.depth:
            log.entries.clear()

    def undo(self) -> None:
        """End the trial, and undo its changes."""
        entries = self._log.entries
        self._log.depth = 0  # what undoes a change is not logged itself
        while len(entries) > self.start:
            undo, *arguments = entries.pop()
            undo(*arguments)
        self._end_brief()
        self._log.depth = self._depth

    def _end_brief(self) -> None:
        log = self._log
        while log._brief and log._brief[-1][0] >= self.start:
            _, (undo, *arguments) = log._brief.pop()
            undo(*arguments)
