"""`muster list`: shows jobs, one line each."""

import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from muster.cli.errors import BAD_INPUT, Failure
from muster.cli.options import Context, Failed, Kubeconfig, Namespace, Output
from muster.cli.say import console, redrawn, say

if TYPE_CHECKING:
    from rich.text import Text

    from muster.api.base import Object
    from muster.app.views.job import JobView
    from muster.app.wiring.cluster import Target

#: Seconds between two reads of `--watch`.
LOOK: Final = 1.0


class Format(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


class State(StrEnum):
    """The states of `muster.app.views.jobs`; duplicated so that `--help` need not import that module."""

    SCHEDULED = "scheduled"
    DENIED = "denied"
    WAITING = "waiting"
    SUSPENDED = "suspended"
    STARTING = "starting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


Everywhere = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Look in all namespaces.")]
All = Annotated[
    bool,
    typer.Option(
        "--all",
        "-a",
        help="Also jobs that finished more than a day ago, and those that were cancelled or deleted.",
    ),
]
States = Annotated[
    list[State] | None,
    typer.Option(
        "--state",
        metavar="STATE",
        help=f"Only jobs in this state: {', '.join(State)}. May be given several times.",
    ),
]
Limit = Annotated[
    int | None, typer.Option("--limit", metavar="N", min=1, help="Only the N jobs that were made last.")
]
Shown = Annotated[
    Format,
    typer.Option("--output", "-o", help="A table that fits the terminal, or a wide one; JSON or YAML."),
]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Keep running, and show changes.")]


def command(
    namespace: Namespace = None,
    everywhere: Everywhere = False,
    every: All = False,
    state: States = None,
    failed: Failed = False,
    limit: Limit = None,
    watch: Watch = False,
    output: Shown = Format.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import asyncio

    from muster.app.views import summary
    from muster.app.wiring.cluster import Target, hosted
    from muster.cli import show

    target = Target(kubeconfig, context, "" if everywhere else namespace)
    if failed:
        state = [*(state or ()), State.FAILED]
    wanted = frozenset(each.value for each in state or State)
    day = sys.stdout.isatty() and not (every or state or limit)
    asked = _Asked(target, every or State.CANCELLED in (state or ()), wanted, limit, day)
    if watch:
        if output not in (Format.TABLE, Format.WIDE):
            raise Failure("--watch shows a table; omit --output", BAD_INPUT)
        asyncio.run(_watch(asked, wide=output is Format.WIDE))
        return
    found = asyncio.run(_views(asked))
    if output in (Format.JSON, Format.YAML):
        show.machine([summary.summary(view) for view in asked.shown(found)], Output(output.value))
    else:
        show.lines(_lines(asked, found, wide=output is Format.WIDE))
        going = [view for view in found if not (view.state.finished or view.managed_by)]
        if going and not hosted(target):
            note = "the embedded cluster is not running; `muster up` continues unfinished jobs"
            say(note, err=True)


@dataclass(frozen=True, slots=True)
class _Asked:
    """Which jobs are listed."""

    target: "Target"
    #: also deleted ones
    every: bool
    states: frozenset[str]
    limit: int | None
    #: only unfinished ones, and those that finished within the last day
    day: bool

    def shown(self, found: "list[JobView]") -> "list[JobView]":
        if not self.day:
            return found[-self.limit :] if self.limit else found
        from datetime import UTC, datetime

        from muster.cli import job_table

        return job_table.recent(found, datetime.now(UTC))


async def _views(asked: _Asked) -> "list[JobView]":
    """The jobs in the wanted states, the oldest first."""
    from muster.app.records import past
    from muster.app.views import jobs, objects
    from muster.app.wiring.cluster import reading

    target = asked.target
    async with reading(target) as client:
        found = past.recalled(jobs.views(await objects.fetch(client, target.scope)), target)
    if asked.every:
        found = sorted([*past.deleted(target, target.scope), *found], key=jobs.by_age)
    return [view for view in found if view.state.value in asked.states]


async def _watch(asked: _Asked, *, wide: bool) -> None:
    """Shows changes: a terminal's table is redrawn; elsewhere the lines of changed jobs are printed."""
    import asyncio

    from muster.app.views import summary
    from muster.cli import job_table, show

    if sys.stdout.isatty():
        with redrawn() as show_instead:
            while True:
                found = await _views(asked)
                show_instead(_lines(asked, found, wide=wide, height=console().size.height))
                await asyncio.sleep(LOOK)
    before: list[Object] | None = None
    while True:
        found = asked.shown(await _views(asked))
        changed = [view for view in found if before is None or summary.summary(view) not in before]
        if changed or before is None:
            lines = job_table.wide(changed) if wide else job_table.narrow(changed, whole=True)
            show.lines(lines[0 if before is None else 1 :])
            sys.stdout.flush()
        before = [summary.summary(view) for view in found]
        await asyncio.sleep(LOOK)


def newest(lines: "list[Text]", height: int | None = None, older: int = 0, hint: str = "") -> "list[Text]":
    """The header and as many of the last lines as a terminal of this height shows, at least one.

    A line counts the others, together with `older` ones that have no line, and ends with the `hint`.
    """
    from rich.text import Text

    rows = lines[1:]
    if height is not None and len(lines) + bool(older) > height:
        rows = rows[-max(height - 2, 1) :]  # besides the header, and the line that counts the others
    if others := older + len(lines) - 1 - len(rows):
        return [lines[0], Text(f"… {others:,} older{hint}", "dim"), *rows]
    return lines


def _lines(asked: _Asked, found: "list[JobView]", *, wide: bool, height: int | None = None) -> "list[Text]":
    """The table, which fits a terminal unless it is to be wide, and how many jobs it leaves out."""
    from muster.cli import job_table

    shown = asked.shown(found)
    width = console().size.width if sys.stdout.isatty() else None
    lines = job_table.wide(shown) if wide else job_table.narrow(shown, width)
    return newest(lines, height, len(found) - len(shown), "" if height else ": muster list --all")
