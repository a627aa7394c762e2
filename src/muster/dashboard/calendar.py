"""What is ahead, and what evictions have cost: values of the pages Calendar and Evictions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from math import inf
from typing import Final

import msgspec

from muster.api import times
from muster.api.base import Object
from muster.api.muster_v1alpha1 import PreemptionSpec
from muster.api.rates import amount, money
from muster.app.views.job import JobView, State
from muster.dashboard import drawing
from muster.dashboard.cluster import Moment
from muster.dashboard.drawing import WIDTH, Mark

#: Rows of a page.
ROWS: Final = 100
#: Seconds that a calendar shows at least, and at most: what is later is at its right edge.
SHORTEST: Final = 600.0
LONGEST: Final = 7 * 86_400.0
#: A gang, by namespace and name of its record.
Record = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Entry:
    """A job that runs until a time, or starts at one. Both in seconds from now; infinite: not known."""

    view: JobView
    #: running, reserved or expected
    kind: str
    at: float
    note: str

    @property
    def mark(self) -> str:
        return "running" if self.kind == "running" else "waiting"


def calendar(moment: Moment, now: float, reserved: Mapping[Record, tuple[float, int]]) -> Object:
    """Ends of running jobs as far as they are known, then starts of waiting ones, each by time.

    `reserved`: from when nodes are kept for gangs, in seconds since the epoch, and how many nodes.
    """
    ends = moment.ends()
    running, waiting, unknown = list[Entry](), list[Entry](), 0
    for view in moment.jobs:
        records = [(view.namespace, gang.metadata.name) for gang in view.gangs]
        if view.state in (State.RUNNING, State.STARTING):
            known = [ends.get(record, inf) for record in records]
            end = max(known, default=inf)
            if end < inf:
                running.append(Entry(view, "running", max(end - now, 0.0), "by its limit or estimate"))
            else:
                unknown += 1
        elif view.state is State.WAITING:
            entry = _start(moment, view, now, [reserved[record] for record in records if record in reserved])
            if entry is not None:
                waiting.append(entry)
    running.sort(key=lambda entry: entry.at)
    waiting.sort(key=lambda entry: (entry.at, entry.view.created is None, entry.view.created))
    shown = [*running[:ROWS], *waiting[:ROWS]]
    length = min(max([SHORTEST, *(1.05 * each.at for each in shown if each.at < inf)]), LONGEST)
    return {
        "rows": [(each, _bar(each, length)) for each in shown],
        "length": length,
        "unknown": unknown,
        "more": len(running) + len(waiting) - len(shown),
    }


def _start(moment: Moment, view: JobView, now: float, reserved: list[tuple[float, int]]) -> Entry | None:
    if reserved:
        at, nodes = max(reserved)
        kept = f"{nodes} {'node is' if nodes == 1 else 'nodes are'} kept for it from then on"
        note = f"{kept}; shorter jobs may pass it" if at < inf else f"{kept}, at no known time"
        return Entry(view, "reserved", max(at - now, 0.0), note)
    for gang in view.gangs:
        expected = (gang.status.explanation or {}).get("expectedStart")
        if isinstance(expected, dict):
            return Entry(
                view,
                "expected",
                _seconds(expected.get("at")) - now,
                moment.text(str(expected.get("basis", ""))),
            )
    return None


def _seconds(at: object) -> float:
    try:
        return times.read(at).timestamp() if isinstance(at, str) else inf
    except ValueError:
        return inf


def _bar(entry: Entry, length: float) -> list[Mark]:
    at = min(max(entry.at, 0.0) / length, 1.0) * WIDTH
    said = drawing.duration(entry.at) if entry.at < inf else "a time that is not known"
    if entry.kind == "running":
        return [Mark(0.0, max(round(at, 1), 1.0), "running", f"runs for {said} more")]
    left = round(min(at, WIDTH - 4.0), 1)
    waits = Mark(0.0, left, "waiting", f"waits for {said}")
    return [waits, *([Mark(left, WIDTH - left, entry.kind, "")] if entry.at < inf else [])]


@dataclass(frozen=True, slots=True)
class Eviction:
    """A gang of a job was evicted for another."""

    view: JobView
    at: datetime
    #: the other gang, as users of the job's namespace may read it
    by: str
    kind: str
    pods: int | None
    lost: str
    cost: str


@dataclass(frozen=True, slots=True)
class Evicted:
    """Evictions, the newest first, and what all of them have lost: GPU-hours, and money."""

    rows: Sequence[Eviction]
    hours: Decimal
    cost: Decimal


def evictions(moment: Moment) -> Object:
    """The latest evictions of jobs that exist, and what all of them have lost."""
    found = evicted(moment, moment.jobs)
    return {
        "rows": found.rows[:ROWS],
        "total": len(found.rows),
        "hours": found.hours,
        "cost": money(found.cost) if found.cost else "",
    }


def evicted(moment: Moment, jobs: Iterable[JobView]) -> Evicted:
    """The evictions of these jobs."""
    found: list[Eviction] = []
    hours = cost = Decimal(0)
    for view in jobs:
        for told in (entry for gang in view.gangs for entry in gang.status.preemptions):
            try:
                entry = msgspec.convert(told, PreemptionSpec)
            except msgspec.ValidationError:
                continue  # not written by muster
            if entry.at is None:
                continue
            lost, priced = amount(entry.gpu_hours_lost), amount(entry.cost_lost)
            hours, cost = hours + (lost or 0), cost + (priced or 0)
            seconds = f"{entry.lost_resource_seconds:,.0f} resource-seconds"
            work = f"{lost} GPU-hours" if lost is not None else seconds
            price = money(priced) if priced is not None else ""
            found.append(Eviction(view, entry.at, moment.text(entry.by), entry.kind, entry.pods, work, price))
    found.sort(key=lambda each: each.at, reverse=True)
    return Evicted(found, hours, cost)
