"""What `muster run` shows while a job runs, and what it does when it is interrupted."""

import asyncio
import itertools
import signal
import sys
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from muster.app.cancel import cancel
from muster.app.cluster import Target, acting
from muster.app.follow import Ended, News, Stand, follow
from muster.app.home import Endpoint
from muster.app.jobs import JobView, State, failure_code
from muster.app.logs import Line
from muster.app.submit import submit
from muster.cli import show
from muster.cli.errors import INTERRUPTED
from muster.cli.jobfile import header
from muster.kube.client import Client
from muster.workloads.jobfile import JobFile

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


class Runner:
    """Runs one job file; the exit code is the job's."""

    def __init__(self, job: JobFile, target: Target, endpoint: Endpoint | None) -> None:
        self._job, self._target, self._endpoint = job, target, endpoint
        self._views: tuple[JobView, ...] = ()
        self._interrupts = 0
        self._interrupted = asyncio.Event()

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        async with acting(self._target, self._endpoint) as client:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self._interrupt)
            jobs = await submit(client, self._job)
            with Screen() as screen:
                screen.say(f"{', '.join(job.name for job in jobs)} · {header(self._job)}")
                cancelling = asyncio.create_task(self._cancel_when_interrupted(client, screen))
                try:
                    async for news in follow(client, jobs):
                        if isinstance(news, Stand):
                            self._views = news.views
                        screen.show(news)
                        if isinstance(news, Ended):
                            return self._exit_code(news)
                finally:
                    cancelling.cancel()
                    with suppress(asyncio.CancelledError):
                        await cancelling
        raise AssertionError("following a job ends with Ended")

    def _interrupt(self) -> None:
        self._interrupts += 1
        self._interrupted.set()

    async def _cancel_when_interrupted(self, client: Client, screen: "Screen") -> None:
        await self._interrupted.wait()
        screen.say("cancelling: pods get their grace period; Ctrl-C again ends them at once")
        for view in self._views:
            await cancel(client, view)
        while self._interrupts < 2:
            self._interrupted.clear()
            await self._interrupted.wait()
        for view in self._views:
            await cancel(client, view, at_once=True)

    def _exit_code(self, ended: Ended) -> int:
        if self._interrupts:
            return INTERRUPTED
        if ended.views and all(view.state is State.SUCCEEDED for view in ended.views):
            return 0
        failed = next((view for view in ended.views if view.state is State.FAILED), None)
        return failure_code(failed, ended.pods) if failed else 1


class Screen:
    """The terminal: lines that scroll, and one line that stands. Without a terminal, only lines."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=True)
        self._tty = self._console.is_terminal
        self._views: tuple[JobView, ...] = ()
        self._said = ""
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
        if isinstance(news, Line):
            self._print_line(news)
            return
        self._views = news.views
        if not self._tty or isinstance(news, Ended):
            for view in news.views:
                self._say_once(standing(view, None))

    def _print_line(self, line: Line) -> None:
        self._width = max(self._width, len(line.pod))
        if self._tty:
            colour = self._colour.setdefault(line.pod, "") or next(self._colours)
            self._colour[line.pod] = colour
            self._console.print(Text.assemble((f"{line.pod:<{self._width}} │ ", colour), line.text))
        else:
            sys.stdout.write(f"{line.pod:<{self._width}} │ {line.text}\n")
            sys.stdout.flush()

    def _say_once(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self.say(text)

    def _line(self) -> Text:
        now = datetime.now(UTC)
        return Text(
            " | ".join(standing(view, now) for view in self._views), overflow="ellipsis", no_wrap=True
        )


def standing(view: JobView, now: datetime | None) -> str:
    """`running 1:07 · 5 of 5 running · 1 restart`; without `now` no time: it changes only with the job."""
    parts = [view.state.value]
    begin = view.created
    if view.state.finished and begin and view.finished:
        parts[0] += f" in {show.span(begin, view.finished)}"
    elif begin and now:
        parts[0] += f" {show.span(begin, now)}"
    parts.append(f"{view.running} of {view.wanted} running")
    if view.succeeded:
        parts.append(f"{view.succeeded} succeeded")
    if view.failed:
        parts.append(f"{view.failed} failed")
    if view.restarts:
        parts.append(show.plural(view.restarts, "restart"))
    if view.reason:
        parts.append(": ".join(filter(None, view.reason)))
    return " · ".join(parts)
