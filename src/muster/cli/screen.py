"""The terminal during `muster run`: lines that scroll, and one line that stands.

Without a terminal there are only lines; how the job stands is then said whenever it changes.
"""

import itertools
import sys
from datetime import UTC, datetime
from types import TracebackType
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from muster.app.follow import Ended, News
from muster.app.jobs import JobView
from muster.app.logs import Line
from muster.cli import show

_PALETTE: Final = (
    "cyan",
    "magenta",
    "yellow",
    "blue",
    "green",
    "bright_red",
    "bright_cyan",
    "bright_magenta",
)


class Screen:
    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, soft_wrap=True)
        self._tty = self._console.is_terminal
        self._views: tuple[JobView, ...] = ()
        self._said: dict[str, str] = {}  # by job
        self._width = 0
        self._colours = itertools.cycle(_PALETTE)
        self._colour: dict[str, str] = {}
        self._live = Live(
            console=self._console, refresh_per_second=4, transient=True, get_renderable=self._line
        )

    def __enter__(self) -> "Screen":
        if self._tty:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._tty:
            self._live.stop()

    def say(self, text: str) -> None:
        self._console.print(Text(text))

    def show(self, news: News) -> None:
        """What the job's follower told. Its end is left to others."""
        if isinstance(news, Line):
            self._print_line(news)
        elif not isinstance(news, Ended):
            self._views = news.views
            if not self._tty:
                for view in news.views:
                    self._say_once(view.name, self._standing(view, None))

    def _print_line(self, line: Line) -> None:
        self._width = max(self._width, len(line.pod))
        if self._tty:
            colour = self._colour.setdefault(line.pod, "") or next(self._colours)
            self._colour[line.pod] = colour
            self._console.print(Text.assemble((f"{line.pod:<{self._width}} │ ", colour), line.text))
        else:
            sys.stdout.write(f"{line.pod:<{self._width}} │ {line.text}\n")
            sys.stdout.flush()

    def _say_once(self, job: str, text: str) -> None:
        if text != self._said.get(job):
            self._said[job] = text
            self.say(text)

    def _line(self) -> Text:
        now = datetime.now(UTC)
        return Text(
            " | ".join(self._standing(view, now) for view in self._views), overflow="ellipsis", no_wrap=True
        )

    def _standing(self, view: JobView, now: datetime | None) -> str:
        standing = show.standing(view, now)
        return standing if len(self._views) == 1 else f"{view.name} · {standing}"
