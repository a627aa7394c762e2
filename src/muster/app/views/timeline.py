"""When the pods of a job waited and ran, from recorded times.

A row is a place in the job: type and job, and `/0`, `/1`, … if pods of a job ran at the same time. Pods that
ran one after the other (waves, restarts, a preempted pod and its successor) share a row. If pods of several
completion indexes do, the row is called a slot. A place waits from the job's creation until its first pod
runs, between two pods, and at present if its pod was preempted.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from fractions import Fraction
from typing import Final

import msgspec

from muster.api.base import Object
from muster.api.failures import verdict
from muster.perfetto import Trace, lanes
from muster.workloads.pod_run import PodRun, failure_of


class Phase(Enum):
    WAITING = "waiting"
    RUNNING = "running"


@dataclass(frozen=True, slots=True)
class Span:
    """A period in seconds since the epoch; `failed`: its pod failed at the end."""

    phase: Phase
    begin: float
    end: float
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    label: str
    spans: Sequence[Span]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Timeline:
    rows: tuple[Row, ...]
    begin: float
    end: float
    #: seconds until the first pod ran; None if none has
    waited: float | None = None


#: How pods ended that muster ended for another reason than to preempt them, by the reason in their status.
_ENDED: Final = {"Terminated": "ended with the cluster", "NodeLost": "its node was removed"}


class Now(Enum):
    """What the job's places without a pod do at present."""

    #: all of them wait: the job has not started, or must restart
    WAITING = "waiting"
    #: the places whose pods were preempted wait
    RUNNING = "running"
    #: none waits
    ENDED = "ended"


def timeline(
    runs: Iterable[PodRun],
    submitted: float | None,
    now: float,
    present: Now = Now.ENDED,
    name: str = "",
) -> Timeline:
    """The rows of a job, called `name` until it has pods. A run that has not ended lasts until `now`.

    `submitted` is the job's creation time, if known.
    """
    ordered = sorted(runs, key=_order)
    begin = min(
        [run.created for run in ordered] + ([submitted] if submitted is not None else []), default=now
    )
    if not ordered and present is Now.WAITING:
        return Timeline((Row(name, [Span(Phase.WAITING, begin, now)]),), begin, now)
    by_job: dict[tuple[str, str, int], list[PodRun]] = defaultdict(list)
    for run in ordered:
        alone = "" if run.replicated_job else run.job or run.name
        by_job[run.replicated_job, alone, run.job_index or 0].append(run)
    failed = verdict(failure for run in ordered if (failure := failure_of(run)) is not None)
    first_failed = failed.first.uid if failed is not None and failed.others else ""
    rows = []
    for (group, alone, index), members in sorted(by_job.items(), key=lambda job: _first(job[1])):
        label = f"{group} {index}" if group else alone
        lanes = _lanes(members)
        slots = any(len({run.completion_index for run in lane}) > 1 for lane in lanes)
        last = {run.completion_index: run for run in members}  # the last of each index
        for number, lane in enumerate(lanes):
            place = label if len(lanes) == 1 else f"{label}{' slot ' if slots else '/'}{number}"
            note = _note_of_indexes(lane, last) if slots else _note(lane, first_failed)
            rows.append(Row(place, list(_lane(lane, begin, now, present)), note))
    first = min((run.started for run in ordered if run.started is not None), default=None)
    end = max((span.end for row in rows for span in row.spans), default=now)
    return Timeline(tuple(rows), begin, end, None if first is None else max(0.0, first - begin))


def _lane(runs: Sequence[PodRun], begin: float, now: float, present: Now) -> Iterator[Span]:
    """The spans of pods that ran in a place one after the other."""
    since = begin
    for run, follows in zip(runs, [*runs[1:], None], strict=True):
        until = max(run.created, follows.created) if follows is not None else now
        yield from _spans(run, since, until)
        since = until if run.ended is None else min(run.ended, until)
    lost = runs[-1].preempted or (runs[-1].deleted and present is Now.WAITING)
    if lost and present is not Now.ENDED and since < now:
        yield Span(Phase.WAITING, since, now)


def _first(runs: Sequence[PodRun]) -> tuple[int, float]:
    """Sort key: jobs in the order of the file. Their pods are created concurrently, in any order."""
    return runs[0].job_global_index or 0, runs[0].created


def _order(run: PodRun) -> tuple[float, str, int, int]:
    return (run.created, run.replicated_job, run.job_index or 0, run.completion_index or 0)


def _lanes(runs: Sequence[PodRun]) -> list[list[PodRun]]:
    """Distributes runs over as few lanes as runs that follow each other need.

    A restarted pod stays in its lane.
    """
    lanes: list[list[PodRun]] = []
    for run in runs:
        free = [lane for lane in lanes if (lane[-1].ended or float("inf")) <= run.created]
        same = [lane for lane in free if lane[-1].completion_index == run.completion_index]
        # The next attempt's pods are created while the last attempt's pods still terminate.
        again = [
            lane
            for lane in lanes
            if lane[-1].completion_index == run.completion_index and lane[-1].attempt < run.attempt
        ]
        lane = next(iter(again or same or free), None)
        if lane is None:
            lanes.append([run])
        else:
            lane.append(run)
    return lanes


def _spans(run: PodRun, since: float, until: float) -> Iterable[Span]:
    """The spans of one run: the place waits from `since`.

    A pod that has a successor counts until the successor's creation (`until`).
    """
    ended = until if run.ended is None else min(run.ended, until)
    started = ended if run.started is None else min(run.started, ended)
    if started > since:
        yield Span(Phase.WAITING, since, started)
    if run.started is not None:
        yield Span(Phase.RUNNING, started, ended, run.failed_by_itself)


def _note(lane: Sequence[PodRun], first_failed: str) -> str:
    """`restarted once: exit 137 on node-1`; `first_failed`: the pod that failed before others, by uid."""
    failures = [run for run in lane if run.failed_by_itself]
    if not failures:
        ends = [_ENDED.get(run.reason, "preempted") for run in lane if run.preempted]
        return ", ".join(sorted(set(ends)))
    why, restarts = _why(failures[0]), sum(run.failed_by_itself for run in lane[:-1])
    if not restarts:
        return why + (", the first to fail" if failures[0].uid == first_failed else "")
    times = {1: "once", 2: "twice"}.get(restarts, f"{restarts} times")
    last = _why(failures[-1])
    return f"restarted {times}: {why}" + (f"; last: {last}" if last != why else "")


#: Indexes that the note of a row names at most.
_NAMED: Final = 8


def _note_of_indexes(lane: Sequence[PodRun], last: Mapping[int | None, PodRun]) -> str:
    """`failed: 24, 31 (exit 3 on node-1); restarted: 5 (exit 1 on node-1)`

    `last`: the last run of each index of the Job. An index with a later run has been restarted, in whichever
    slot; the others have failed.
    """
    failures = {run.completion_index: run for run in reversed(lane) if run.failed_by_itself}
    if not failures:
        return _note(lane, "")
    told = []
    for what, ended in (("failed", True), ("restarted", False)):
        found = [index for index in failures if last[index].failed_by_itself == ended]
        if found:
            names = ", ".join(map(str, sorted(each for each in found if each is not None)[:_NAMED]))
            more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
            told.append(f"{what}: {names}{more} ({_why(failures[found[-1]])})")
    return "; ".join(told)


def _why(run: PodRun) -> str:
    """How a pod failed, and where."""
    why = f"exit {run.exit_code}" if run.exit_code else run.reason or "failed"
    return f"{why} on {run.node}" if run.node else why


@dataclass(frozen=True, slots=True)
class Drawn:
    """A job as a trace has it."""

    name: str
    #: "" if it is not known
    queue: str
    runs: Sequence[PodRun]
    timeline: Timeline


#: A pod that ran: from when to when, and the job of that name.
_Ran = tuple[float, float, str, PodRun]


def traced(trace: Trace, jobs: Sequence[Drawn], now: float) -> None:
    """Draws jobs: the places of each, when each ran in its queue, and the pods and GPUs of each node."""
    by_queue, by_node = defaultdict[str, list[_Ran]](list), defaultdict[str, list[_Ran]](list)
    for job in jobs:
        pid = trace.process(f"job {job.name}")
        for number, row in enumerate(job.timeline.rows, 1):
            for span in row.spans:
                what = "failed" if span.failed else span.phase.value
                trace.slice(pid, number, row.label, what, span.begin, span.end, {"note": row.note})
        for run in job.runs:
            if run.started is not None and run.node:
                end = max(run.started, now if run.ended is None else run.ended)
                by_node[run.node].append((run.started, end, job.name, run))
                if job.queue:
                    by_queue[job.queue].append((run.started, end, job.name, run))
    for queue, ran in sorted(by_queue.items()):
        pid, periods = trace.process(f"queue {queue}"), sorted(_periods(ran))
        for (begin, end, name), lane in zip(periods, lanes(each[:2] for each in periods), strict=True):
            trace.slice(pid, lane, f"slot {lane}", name, begin, end, {})
        _count_gpus(trace, pid, ran)
    for node, ran in sorted(by_node.items()):
        pid = trace.process(f"node {node}")
        ran.sort(key=lambda each: (each[0], each[3].name))
        for (begin, end, name, run), lane in zip(ran, lanes(each[:2] for each in ran), strict=True):
            trace.slice(pid, lane, f"slot {lane}", run.name, begin, end, {"job": name, "gpus": run.gpus})
        _count_gpus(trace, pid, ran)


def _periods(ran: Sequence[_Ran]) -> Iterator[tuple[float, float, str]]:
    """When any pod of each job ran: begin, end and the job."""
    open_: dict[str, tuple[float, float]] = {}
    for begin, end, name, _ in sorted(ran, key=lambda each: each[:3]):
        was = open_.get(name)
        if was is not None and begin > was[1]:
            yield (*was, name)
            was = None
        open_[name] = (begin, end) if was is None else (was[0], max(was[1], end))
    for name, last in open_.items():
        yield (*last, name)


def _count_gpus(trace: Trace, pid: int, ran: Sequence[_Ran]) -> None:
    used = Fraction()
    begun = [(begin, Fraction(run.gpus)) for begin, _, _, run in ran]
    for at, by in sorted([*begun, *((end, -Fraction(run.gpus)) for _, end, _, run in ran)]):
        used += by
        trace.counter(pid, "GPUs used", at, float(used))


def summary(run: PodRun) -> Object:
    """A run as JSON: its times are in RFC 3339."""
    told: Object = msgspec.structs.asdict(run)
    for key in ("created", "bound", "started", "ended", "failed_at"):
        if told[key] is not None:
            told[key] = datetime.fromtimestamp(told[key], UTC)
    return told
