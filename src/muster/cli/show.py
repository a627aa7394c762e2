"""Tables for people, JSON and YAML for programs, times in words."""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from muster.api import duration
from muster.api.base import Object
from muster.api.muster_v1alpha1 import Gang, PreemptionSpec
from muster.api.visible import visible, visible_lines
from muster.app.views.job import JobView, State
from muster.cli import bars
from muster.cli.bars import clock
from muster.cli.options import Output
from muster.cli.say import say, say_styled
from muster.names import SUBMITTED_FROM
from muster.workloads.jobfile import Source

if TYPE_CHECKING:
    from rich.text import Text

    from muster.api.progress import Report
    from muster.app.records.runs import Record
    from muster.app.views.find import Meant
    from muster.app.wiring.state_directory import Endpoint

#: most characters of a cell that is not the last of its line: the longest name of an object
_WIDEST: Final = 253
#: most characters of the failed indexes in a headline
_INDEXES: Final = 120
#: characters of a name and of a note that a narrow terminal shows at least, and of the end of a cut name
_NAME: Final = 20
_NOTE: Final = 16
_TAIL: Final = 9
#: bars shown at the end of a run; `timeline` shows all
ROWS: Final = 40
COLOURS: Final = {
    State.SCHEDULED: "dim",
    State.DENIED: "red",
    State.WAITING: "yellow",
    State.SUSPENDED: "dim",
    State.STARTING: "cyan",
    State.RUNNING: "green",
    State.SUCCEEDED: "green",
    State.FAILED: "red",
    State.CANCELLED: "dim",
}


def machine(value: Any, output: Output) -> None:  # Any: whatever JSON can say
    """Prints JSON or YAML."""
    if output is Output.JSON:
        text = escaped(msgspec.json.format(msgspec.json.encode(value)).decode()) + "\n"
    else:
        from muster.workloads import source

        text = source.written(msgspec.to_builtins(value, str_keys=True))
    for_programs(text)


def for_programs(text: str) -> None:
    """Prints text that a program reads: in UTF-8, whatever the terminal's encoding."""
    sys.stdout.buffer.write(text.encode())
    sys.stdout.flush()


def stream() -> Callable[[bytes], object]:
    """Writes bytes that a program reads, piece by piece."""
    return sys.stdout.buffer.write


def escaped(json: str) -> str:
    """The JSON with an escape for each character that JSON allows but a terminal may act upon."""
    if visible_lines(json) == json:
        return json
    return "".join(each if each.isprintable() or each == "\n" else dumps(each)[1:-1] for each in json)


def table(
    columns: Sequence[str], rows: Sequence[Sequence["str | Text"]], *, right: Sequence[str] = ()
) -> None:
    """Prints a plain table: columns are as wide as needed, whatever the terminal."""
    lines(table_lines(columns, rows, right=right))


def lines(texts: Sequence["Text"]) -> None:
    """Prints each text on a line of its own, however long it is."""
    say_styled(texts)


def table_lines(
    columns: Sequence[str], rows: Sequence[Sequence["str | Text"]], *, right: Sequence[str] = ()
) -> list["Text"]:
    """The lines of `table`, its header first. A cell that would make the other lines too long is cut."""
    from rich.text import Text

    header = [Text(column, "bold") for column in columns]
    lines = [
        header,
        *([cell if isinstance(cell, Text) else Text(visible(cell)) for cell in row] for row in rows),
    ]
    for line in lines:
        for cell in line[:-1]:
            cell.truncate(_WIDEST, overflow="ellipsis")
    widths = [max(line[index].cell_len for line in lines) for index in range(len(columns))]
    found = []
    for line in lines:
        cells = []
        for cell, column, width in zip(line, columns, widths, strict=True):
            blank = Text(" " * (width - cell.cell_len))
            cells.append(blank + cell if column in right else cell + blank)
        text = Text("  ").join(cells)
        text.rstrip()
        found.append(text)
    return found


def fitted(
    rows: Sequence[Mapping[str, "str | Text"]],
    width: int | None,
    *,
    plain: Mapping[str, str],
    right: Sequence[str] = (),
) -> list["Text"]:
    """The lines of a table, at least one row, by column, that is at most `width` cells wide (None: any).

    `plain`: columns that are left out if they say this of every row. The first cells, which are names, are
    cut in their middle, and the lines at their end, if they must be.
    """
    columns = [
        each for each in rows[0] if each not in plain or any(str(row[each]) != plain[each] for row in rows)
    ]
    cells = [[row[column] for column in columns] for row in rows]
    if width is not None:
        _fit(cells, columns, width)
    lines = table_lines(columns, cells, right=right)
    if width is not None:
        for line in lines:
            line.truncate(width, overflow="ellipsis")
    return lines


def _fit(rows: list[list["str | Text"]], columns: Sequence[str], width: int) -> None:
    """Cuts the names in their middle, so that the table with the beginnings of its notes is that wide."""
    widest = [max(len(str(row[index])) for row in rows) for index in range(len(columns))]
    others = [
        max(wide, len(column)) + 2
        for column, wide in zip(columns[1:], widest[1:], strict=True)
        if column != "NOTE"
    ]
    note = min(widest[columns.index("NOTE")], _NOTE) + 2 if "NOTE" in columns else 0
    room = max(_NAME, width - sum(others) - note)
    for row in rows:
        name = str(row[0])
        if len(name) > room:
            row[0] = f"{name[: room - _TAIL - 1]}…{name[-_TAIL:]}"


def state(view: JobView) -> "Text":
    """A job's state in its colour."""
    from rich.text import Text

    return Text(view.state.value, COLOURS[view.state])


def headline(view: JobView) -> str:
    """The headline of a job: `train-3f9a1c20 · running · 5 of 5 running · 1 restart`."""
    return f"{view.name} · {standing(view, None)}"


def standing(view: JobView, now: datetime | None) -> str:
    """The state of a job: `running 1:07 · 5 of 5 running · 1 restart`.

    Without `now` the time is omitted, so that the text changes only with the job.
    """
    parts = [view.state.value]
    if view.state.finished:
        if view.created and view.finished:
            parts[0] += f" in {span(view.created, view.finished)}"
    else:
        if view.created and now:
            parts[0] += f" {span(view.created, now)}"
        if view.wanted:  # unknown before a BatchJob is compiled
            parts.append(f"{view.running} of {view.wanted} running")
    return visible(" · ".join(parts + _counts(view) + _why(view)))


def end(name: str, view: JobView | None, record: "Record", output: Sequence[str] = ()) -> None:
    """Prints the result of a job, `succeeded in 3:41 (waited 0:12)`, and its bars.

    If the job failed, also prints what is known of the first container that failed; `output`: its last lines.
    """
    drawn = record.timeline(time.time())
    words = standing(view, None).split(" · ") if view else ["cancelled"]
    if drawn.waited is not None:
        words[0] += f" (waited {clock(drawn.waited)})"
    say(" · ".join([name, *words] if name else words), prose=True)
    for line in failure(view, output) if view is not None else ():
        say(line, prose=True)
    if drawn.rows:
        say("", *bars.lines(drawn, most=ROWS))


def started(endpoint: "Endpoint | None") -> None:
    """Prints what users should know about an embedded cluster that has just started, on stderr."""
    if endpoint is None:
        return
    if endpoint.degraded:
        say(f"note: {endpoint.degraded}", err=True)
    if endpoint.continues:
        say(f"continuing unfinished jobs: {', '.join(endpoint.continues)}", err=True)


def meant(jobs: "Sequence[Meant | Record]") -> None:
    """Says on stderr which of several jobs a name stands for."""
    for each in jobs:
        if each.told:
            say(f"note: {each.told}", err=True)


#: jobs that a line names at most
_NAMED: Final = 5


def stays(jobs: Sequence[str]) -> None:
    """Prints on stderr for which other jobs the embedded cluster stays up after a run."""
    if jobs:
        named = ", ".join(jobs[:_NAMED]) + (f" and {len(jobs) - _NAMED} more" if len(jobs) > _NAMED else "")
        ends = f"`muster cancel {' '.join(jobs[:_NAMED])}` or `muster down` ends that"
        say(f"note: the cluster stays up for {named}; {ends}", err=True)


def cut(pods: Sequence[str], jobs: Sequence[str]) -> None:
    """Warns on stderr about pods whose output was not awaited to its end."""
    if pods:
        verbs = " or ".join(f"`muster logs {job}`" for job in jobs)
        say(
            f"note: the output of {', '.join(pods)} is incomplete; {verbs} may have the rest",
            err=True,
        )


def _counts(view: JobView) -> list[str]:
    which = view.failed_indexes
    indexes = f" (indexes {which if len(which) <= _INDEXES else which[:_INDEXES] + '…'})" if which else ""
    counts = [(view.succeeded, "succeeded"), (view.failed, f"failed{indexes}")]
    return [f"{count} {what}" for count, what in counts if count] + (
        [plural(view.restarts, "restart")] if view.restarts else []
    )


def _why(view: JobView) -> list[str]:
    told = [*([view.reason] if view.reason else []), *view.anomalies]
    return [": ".join(filter(None, each)) for each in told]


def reason(view: JobView) -> str:
    """Why a job waits, or that it is denied; the headline if it is neither.

    Example: `big-8c1d waits: Fragmented. 16 GPUs asked as 4 × 4; 19 are free, but …`.
    """
    if view.state is State.DENIED and view.findings:
        return f"{view.name} is denied, so nothing of it has been created:"
    if view.state is not State.WAITING or view.reason is None:
        return headline(view)
    code, message = view.reason
    return visible(f"{view.name} waits: {code}. {message}")


def findings(view: JobView) -> list[str]:
    """What keeps a BatchJob from being created, each with its fix: a line each."""
    lines = []
    for each in view.findings:
        lines.append(": ".join(filter(None, [each.field, each.message])))
        lines += [f"    {line}" for line in each.fix.splitlines()]
    return list(map(visible, lines))


def failure(view: JobView, output: Sequence[str] = ()) -> list[str]:
    """What is known of the first failure beyond what the headline says: a line each.

    `output`: the last lines that its container printed.
    """
    if view.verdict is None or view.state is State.SUCCEEDED:
        return []
    first, told = view.verdict.first, list[str]()
    if view.reason is None or str(view.verdict) not in view.reason[1]:
        told.append(str(view.verdict))
    if first.code is not None:
        told += [f"{first.source}: {line}" for line in first.why.splitlines() if line.strip()]
    if output and not set(output) <= set(first.why.splitlines()):
        told += [f"{first.source} printed last:", *(f"  {line}" for line in output)]
    if view.verdict.others:
        told.append(f"what all that failed have printed: muster logs --failed {view.name}")
    return list(map(visible, told))


def explanation(gang: Gang, now: datetime | None = None) -> list[str]:
    """Why a gang waits, its remedies and its warnings, from its Gang object: a line each."""
    lines = explained(gang.status.explanation, now) if gang.status.explanation else []
    return lines + [visible(f"note: {warning}") for warning in gang.status.warnings]


def explained(told: Object, now: datetime | None = None) -> list[str]:
    """The same lines for an explanation as JSON (docs/reference/names.md)."""
    lines = []
    for pod_set in told.get("podSets", []):
        limits = ", ".join(
            f"{what} on {plural(count, 'node')}" for what, count in pod_set["limitedBy"].items()
        )
        lines.append(
            f"{pod_set['name']}: {pod_set['fits']} of {pod_set['wanted']} fit"
            + (f"; {limits}" if limits else "")
        )
    if told.get("blockers"):
        lines.append("held by " + ", ".join(told["blockers"]))
    changes = [(remedy["effect"], remedy["change"]) for remedy in told.get("remedies", [])]
    if expected := told.get("expectedStart"):
        if expected.get("at") is None:  # a merge patch removes null fields
            changes.append(("start time not known", expected["basis"]))
        else:
            changes.append(("would start", f"{_in(expected['at'], now)}, {expected['basis']}"))
    changes.sort(key=lambda change: change[0].startswith("not "))  # what does not help is last
    return list(map(visible, lines + _columns(changes)))


def moved(view: JobView, now: datetime | None = None) -> list[str]:
    """The line of a job that muster has moved to other nodes."""
    return [visible(f"moved {age(found[0], now)} ago: {found[1]}")] if (found := view.moved) else []


def progress(report: "Report") -> str:
    """What a program reports of its training: `25m left, step 1,200 loss 0.31`."""
    loss = "" if report.loss is None else f" loss {report.loss:g}"
    left = "" if report.left is None else f"{duration.show(report.left)} left, "
    return f"{left}step {report.step:,}{loss}"


def origin(view: JobView) -> list[str]:
    """How the job was submitted: the command line, and what was checked out in its directory."""
    source = Source.read(view.resource.metadata.annotations.get(SUBMITTED_FROM))
    if source is None or not source.command:
        return []
    changed = {True: ", with changes", False: "", None: ", perhaps with changes"}[source.dirty]
    commit = f" · commit {source.commit[:12]}{changed}" if source.commit else ""
    return [visible(f"submitted as: {source.command}"), visible(f"in {source.cwd}{commit}")]


def preemptions(told: Sequence[Object], now: datetime | None = None) -> list[str]:
    """What preempted a gang and when, from `status.preemptions` of its Gang object: a line each."""
    lines = []
    for each in told:
        try:
            entry = msgspec.convert(each, PreemptionSpec)
        except msgspec.ValidationError:
            continue  # not written by muster
        surplus = f"{plural(entry.pods, 'pod')} above its minimum " if entry.pods is not None else ""
        if entry.at is not None:
            what = f"{surplus}evicted for {entry.by} {age(entry.at, now)} ago ({entry.kind})"
            lines.append(visible(f"{what}, {_lost(entry)} lost"))
    return lines


def _lost(entry: PreemptionSpec) -> str:
    """Returns what an eviction lost: `20 GPU-hours of work ($70.00)`; in resource-seconds without GPUs."""
    from muster.api.rates import amount, money

    hours, cost = amount(entry.gpu_hours_lost), amount(entry.cost_lost)
    seconds = f"{entry.lost_resource_seconds:,.0f} resource-seconds"
    work = f"{hours} GPU-hours" if hours is not None else seconds
    return f"{work} of work" + (f" ({money(cost)})" if cost is not None else "")


def _in(at: str, now: datetime | None) -> str:
    """The time until `at`: `in ~25m`."""
    then = datetime.fromisoformat(at)
    seconds = (then - (now or datetime.now(UTC))).total_seconds()
    return f"in ~{age(now or datetime.now(UTC), then)}" if seconds > 0 else "at any moment"


def _columns(rows: list[tuple[str, str]]) -> list[str]:
    """Two columns: each effect once on the left, and its causes on the right."""
    width = max((len(effect) for effect, _ in rows), default=0)
    before = [""] + [effect for effect, _ in rows]
    return [
        f"{effect if effect != last else '':{width}}   {change}"
        for (effect, change), last in zip(rows, before, strict=False)
    ]


def age(since: datetime | None, now: datetime | None = None) -> str:
    """The age in one unit: `12s`, `4m`, `3h`, `2d`."""
    if since is None:
        return "-"
    seconds = max(0, ((now or datetime.now(UTC)) - since).total_seconds())
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size * (2 if unit != "d" else 1):
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"


def span(begin: datetime, end: datetime) -> str:
    """The time between both: `0:12`."""
    return clock(max(0.0, (end - begin).total_seconds()))


def path(where: Path) -> str:
    """A path as a shell takes it, on a terminal with `~` for the user's home."""
    home = os.environ.get("HOME", "") if sys.stdout.isatty() else ""
    return f"~/{where.relative_to(home)}" if home and where.is_relative_to(home) else str(where)


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count:,} {noun}s"
