"""The tables of `muster list`: one that fits the terminal, and a wide one with everything."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from rich.text import Text

from muster.app.views import pods, summary
from muster.app.views.failures import failure_code
from muster.app.views.job import JobView, State
from muster.cli import show

#: How long a terminal shows a job that has finished, unless all are wanted.
RECENT: Final = timedelta(hours=24)
_RIGHT: Final = (
    "PRIORITY",
    "GPUS",
    "WANTED",
    "RUNNING",
    "DONE",
    "FAILED",
    "RESTARTS",
    "PODS",
    "TIME",
)
_WIDE: Final = ("NAME", "KIND", "STATE", "QUEUE", *_RIGHT[:7], "AGE", "WHY")
_NARROW: Final = ("NAME", "STATE", "QUEUE", "PODS", "GPUS", "TIME", "ENDED", "NOTE")
#: Columns that are left out if they say the same of every job.
_PLAIN: Final = {"QUEUE": "default", "GPUS": "0", "ENDED": "", "NOTE": ""}


def recent(found: Sequence[JobView], now: datetime) -> list[JobView]:
    """The jobs that have not finished, and those that finished within `RECENT`."""
    return [
        view
        for view in found
        if not view.state.finished or view.finished is None or now - view.finished < RECENT
    ]


def wide(found: Sequence[JobView]) -> list[Text]:
    """Everything about each job, however wide."""
    if not found:
        return [Text("no jobs")]
    several = len({view.namespace for view in found}) > 1
    columns = [*(["NAMESPACE"] if several else []), *_WIDE]
    rows: list[list[str | Text]] = [
        [
            *([view.namespace] if several else []),
            view.name,
            view.kind.kind,
            show.state(view),
            view.queue,
            str(view.priority),
            f"{summary.gpus(view):g}",
            *map(str, (view.wanted, view.running, view.succeeded, view.failed, view.restarts)),
            show.age(view.created),
            _why(view),
        ]
        for view in found
    ]
    return show.table_lines(columns, rows, right=_RIGHT)


def narrow(
    found: Sequence[JobView], width: int | None = None, now: datetime | None = None, *, whole: bool = False
) -> list[Text]:
    """What one looks for every day, at most `width` cells wide (None: as wide as needed).

    Columns that say nothing are left out, unless the table is to be `whole`. Names and notes are cut if they
    must be.
    """
    if not found:
        return [Text("no jobs")]
    now = now or datetime.now(UTC)
    several = len({view.namespace for view in found}) > 1
    rows = [dict(zip(_NARROW, _row(view, several=several, now=now), strict=True)) for view in found]
    return show.fitted(rows, width, plain={} if whole else _PLAIN, right=_RIGHT)


def _row(view: JobView, *, several: bool, now: datetime) -> list[str | Text]:
    ended = view.finished if view.state.finished else None
    count = view.succeeded if view.state.finished else view.running
    return [
        f"{view.namespace}/{view.name}" if several else view.name,
        show.state(view),
        view.queue,
        f"{count}/{view.wanted}" if view.wanted else "-",
        f"{summary.gpus(view):g}",
        show.span(view.created, ended or now) if view.created and (ended or not view.state.finished) else "-",
        f"{show.age(ended, now)} ago" if ended else "",
        note(view),
    ]


def note(view: JobView) -> str:
    """How the job failed, or why it waits; what it reports; and what has happened to it."""
    failed = view.state is State.FAILED and view.verdict is not None
    told = [f"exit {failure_code(view)}" if failed else "", _why(view)]
    if not view.state.finished:
        if (report := pods.reported(view.pods)) is not None:
            told.append(show.progress(report))
        if view.succeeded:
            told.append(f"{view.succeeded:,} done")
        if view.failed:
            told.append(f"{view.failed:,} failed")
    if view.restarts:
        told.append(show.plural(view.restarts, "restart"))
    return ", ".join(filter(None, told))


def _why(view: JobView) -> str:
    return ", ".join(code for code, _ in ([view.reason] if view.reason else view.anomalies))
