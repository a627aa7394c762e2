"""`muster list`: shows jobs, one line each."""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from muster.cli.errors import BAD_INPUT, Failure
from muster.cli.options import Context, Kubeconfig, Namespace, Output, OutputFormat
from muster.cli.say import console, redrawn, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.text import Text

    from muster.api.base import Object
    from muster.app.views.job import JobView
    from muster.app.wiring.cluster import Target

#: Seconds between two reads of `--watch`.
LOOK: Final = 1.0

_RIGHT: Final = ("PRIORITY", "GPUS", "WANTED", "RUNNING", "DONE", "FAILED", "RESTARTS")
_COLUMNS: Final = ("NAME", "KIND", "STATE", "QUEUE", *_RIGHT, "AGE", "WHY")


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
    typer.Option("--all", "-a", help="Also jobs that were cancelled or deleted, while their logs are kept."),
]
States = Annotated[
    list[State] | None,
    typer.Option(
        "--state",
        metavar="STATE",
        help=f"Only jobs in this state: {', '.join(State)}. May be given several times.",
    ),
]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Keep running, and show changes.")]


def command(
    namespace: Namespace = None,
    everywhere: Everywhere = False,
    every: All = False,
    state: States = None,
    watch: Watch = False,
    output: OutputFormat = Output.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import asyncio

    from muster.app.views import summary
    from muster.app.wiring.cluster import Target, hosted
    from muster.cli import show

    target = Target(kubeconfig, context, "" if everywhere else namespace)
    wanted = frozenset(each.value for each in state or State)
    every |= State.CANCELLED in (state or ())
    if watch:
        if output is not Output.TABLE:
            raise Failure("--watch shows a table; omit --output", BAD_INPUT)
        asyncio.run(_watch(target, every, wanted))
        return
    found = asyncio.run(_views(target, every, wanted))
    if output is not Output.TABLE:
        show.machine([summary.summary(view) for view in found], output)
    else:
        show.lines(_lines(found))
        going = [view for view in found if not (view.state.finished or view.managed_by)]
        if going and not hosted(target):
            note = "the embedded cluster is not running; `muster up` continues unfinished jobs"
            say(note, err=True)


async def _views(target: "Target", every: bool, states: frozenset[str]) -> "list[JobView]":
    """The jobs in these states; `every`: also deleted ones."""
    from muster.app.records import past
    from muster.app.views import jobs, objects
    from muster.app.wiring.cluster import reading

    async with reading(target) as client:
        found = past.recalled(jobs.views(await objects.fetch(client, target.scope)), target)
    if every:
        found = sorted([*past.deleted(target, target.scope), *found], key=jobs.by_age)
    return [view for view in found if view.state.value in states]


async def _watch(target: "Target", every: bool, states: frozenset[str]) -> None:
    """Shows changes: a terminal's table is redrawn; elsewhere the lines of changed jobs are printed."""
    import asyncio

    from muster.app.views import summary
    from muster.cli import show

    if sys.stdout.isatty():
        with redrawn() as show_instead:
            while True:
                lines = _lines(await _views(target, every, states))
                show_instead(newest(lines, console().size.height))
                await asyncio.sleep(LOOK)
    before: list[Object] | None = None
    while True:
        found = await _views(target, every, states)
        changed = [view for view in found if before is None or summary.summary(view) not in before]
        if changed or before is None:
            show.lines(_lines(changed)[0 if before is None else 1 :])
            sys.stdout.flush()
        before = [summary.summary(view) for view in found]
        await asyncio.sleep(LOOK)


def newest(lines: "list[Text]", height: int) -> "list[Text]":
    """The header and as many of the last lines as a terminal of this height shows, at least one."""
    from rich.text import Text

    if len(lines) <= height:
        return lines
    room = max(height - 2, 1)  # besides the header, and the line that counts the others
    return [lines[0], Text(f"… {len(lines) - 1 - room:,} older", "dim"), *lines[-room:]]


def _lines(found: "Sequence[JobView]") -> "list[Text]":
    from rich.text import Text

    from muster.app.views import summary
    from muster.cli import show

    if not found:
        return [Text("no jobs")]
    several = len({view.namespace for view in found}) > 1
    columns = [*(["NAMESPACE"] if several else []), *_COLUMNS]
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
            ", ".join(code for code, _ in ([view.reason] if view.reason else view.anomalies)),
        ]
        for view in found
    ]
    return show.table_lines(columns, rows, right=_RIGHT)
