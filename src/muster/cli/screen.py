"""The terminal during `muster run` and `muster logs -f`: lines that scroll, and a status area below them.

The status area holds the unfinished lines of pods (progress bars) and the jobs' states. Without a terminal
there are only scrolling lines; a job's state is then printed whenever it changes.
"""

import asyncio
import itertools
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Final

from rich.cells import cell_len, set_cell_size

from muster.api.visible import visible, visible_lines
from muster.app.commands.follow import Note, StatusChanged
from muster.app.views.job import JobView
from muster.app.views.lines import Lines, Printed, clean, plain
from muster.cli import show
from muster.cli.say import folded
from muster.cli.writer import Writer

#: ANSI colours of pods
_PALETTE: Final = (36, 35, 33, 34, 32, 91, 96, 95)
_DIM: Final = 2
#: seconds between two frames on a terminal, and between two updates of the clock
FRAME: Final = 0.05
TICK: Final = 0.5
#: seconds that the last frame may take if following was interrupted
PATIENCE: Final = 0.5
#: lines of a terminal that unfinished lines leave free
_OTHERS: Final = 4


class Screen:
    def __init__(
        self, writer: Writer | None = None, *, width: int = 0, stands: bool = True, several: bool = False
    ) -> None:
        """`width`: that of the longest label, if known. Without `stands` nothing is printed about jobs.

        `several`: whether there are several jobs, so that each state is printed with the name of its job.
        """
        self._writer = writer or Writer()
        self.terminal = self._writer.terminal
        self._width, self._stands, self._several = width, stands, several
        self._colours = itertools.cycle(_PALETTE)
        self._colour: dict[str, int] = {}
        self._stand = StatusChanged(())
        self._said: dict[str, str] = {}  # by job
        self._unfinished: Sequence[tuple[str, str]] = ()
        self._pending: list[str] = []
        self._below: Sequence[str] = ()  # the current status area
        self._wake = asyncio.Event()
        self._writing = asyncio.Lock()
        self._ticking: asyncio.Task[None] | None = None
        #: whether lines were left out
        self.missing = False

    async def __aenter__(self) -> "Screen":
        self._ticking = asyncio.create_task(self._tick())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
        self._stand, self._unfinished = StatusChanged(()), ()
        if not isinstance(error, OSError):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._write(), PATIENCE if error else None)

    def say(self, text: str) -> None:
        """Adds a line of muster's own, made visible; does not wait until it is written."""
        columns = self._writer.size().columns if self.terminal else None
        self._pending.append(f"{folded(visible_lines(text), columns)}\n")
        self._wake.set()

    async def show(self, news: Printed | StatusChanged | Note) -> None:
        """Shows a follower's news. Returns once it is written; raises OSError if it cannot be."""
        if isinstance(news, Note):
            if self._stands:
                self.say(plain(clean(news.text)))
        elif isinstance(news, StatusChanged):
            self._stand = news
            if self._stands and not self.terminal:
                self._say_what_changed()
        else:
            self._unfinished = news.unfinished
            for lines in news.lines:
                self._print(lines)
        await self._write()
        if self.terminal:
            await asyncio.sleep(FRAME)

    def _print(self, lines: Lines) -> None:
        pod = visible(lines.pod)
        self._width = max(self._width, len(pod))
        label = f"{pod:<{self._width}} │ "
        if self._writer.colours:
            if lines.pod not in self._colour:
                self._colour[lines.pod] = next(self._colours)
            label = _coloured(label, self._colour[lines.pod])
        if lines.missing:
            self.missing = True
            note = f"… {show.plural(lines.missing, 'line')} not shown"
            self._pending.append(f"{label}{_coloured(note, _DIM) if self._writer.colours else note}\n")
        self._pending += [f"{label}{text}\n" for text in lines.texts]

    def _say_what_changed(self) -> None:
        if all(view.state.finished for view in self._stand.views):
            return  # the final messages follow instead
        for view in self._stand.views:
            text = self._standing(view, None)
            if text != self._said.get(view.name):
                self._said[view.name] = text
                self._pending.append(f"{text}\n")

    async def _tick(self) -> None:
        """Writes pending messages, and updates the clock."""
        while True:
            with suppress(OSError):  # `show` raises it again
                await self._write()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), TICK if self.terminal else None)
            self._wake.clear()

    async def _write(self) -> None:
        async with self._writing:
            below = self._lines_below() if self.terminal else ()
            text = frame(self._pending, self._below, below)
            self._pending, self._below = [], below
            await self._writer.write(text)

    def _lines_below(self) -> Sequence[str]:
        size = self._writer.size()
        room = max(1, size.lines - _OTHERS)
        lines = [f"{visible(pod):<{self._width}} │ {plain(text)}" for pod, text in self._unfinished[:room]]
        if len(self._unfinished) > room:
            lines.append(f"… and {len(self._unfinished) - room} more")
        if self._stands and self._stand.views:
            now = datetime.now(UTC)
            lines.append(" | ".join(self._standing(view, now) for view in self._stand.views))
        return [_cut(line.expandtabs(), size.columns - 1) for line in lines]

    def _standing(self, view: JobView, now: datetime | None) -> str:
        standing = visible(plain(clean(show.standing(view, now))))
        if self._stand.unread:
            standing += f" · output of {self._stand.unread} containers is not shown yet"
        return f"{visible(view.name)} · {standing}" if self._several else standing


def frame(scrolled: Sequence[str], before: Sequence[str], below: Sequence[str]) -> str:
    """The text that makes a terminal that ends with `before` scroll `scrolled` and end with `below`."""
    if not scrolled and before == below:
        return ""
    erased = "\r\x1b[2K" + "\x1b[1A\x1b[2K" * (len(before) - 1) if before else ""
    return erased + "".join(scrolled) + "\n".join(below)


def _cut(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, max(0, width - 1)) + "…"


def _coloured(text: str, colour: int) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m"
