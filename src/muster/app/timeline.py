"""Who waited and who ran when, from recorded times.

A row is a place in the job: type and job, and `/0`, `/1`, … where pods of a job ran beside each other.
Pods that came one after the other, waves and restarts, share a row. Waiting counts from the job's
creation for the first pod of a row, and from its own for those that follow.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from muster.api.base import condition, is_true
from muster.api.batch_v1 import COMPLETION_INDEX, JOB_NAME
from muster.api.core_v1 import Pod
from muster.api.jobset_v1alpha2 import (
    JOB_GLOBAL_INDEX,
    JOB_INDEX,
    JOBSET_NAME,
    JOBSET_UID,
    REPLICATED_JOB_NAME,
    RESTART_ATTEMPT,
)
from muster.api.natural import natural
from muster.app.pods import exit_code, told_to_end
from muster.local.history import PodRun
from muster.names import PREEMPTED


class Phase(Enum):
    WAITING = "waiting"
    RUNNING = "running"


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time in seconds since the epoch; `failed` marks its end."""

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


def timeline(runs: Iterable[PodRun], submitted: float | None, now: float) -> Timeline:
    """`submitted` is when the job was created, if that is known; what has not ended lasts until `now`."""
    ordered = sorted(runs, key=_order)
    begin = min(
        [run.created for run in ordered] + ([submitted] if submitted is not None else []), default=now
    )
    end = max((run.ended if run.ended is not None else now for run in ordered), default=now)
    by_job: dict[tuple[str, str, int], list[PodRun]] = defaultdict(list)
    for run in ordered:
        alone = "" if run.replicated_job else run.job or run.name
        by_job[run.replicated_job, alone, run.job_index or 0].append(run)
    rows = []
    for (group, alone, index), members in sorted(by_job.items(), key=lambda job: _first(job[1])):
        name = f"{group} {index}" if group else alone
        lanes = _lanes(members)
        for number, lane in enumerate(lanes):
            follow = [run.created for run in lane[1:]] + [now]
            spans = [
                span
                for position, run in enumerate(lane)
                for span in _spans(
                    run, run.created if position else begin, max(run.created, follow[position])
                )
            ]
            rows.append(Row(name if len(lanes) == 1 else f"{name}/{number}", spans, _note(lane)))
    first = min((run.started for run in ordered if run.started is not None), default=None)
    return Timeline(tuple(rows), begin, end, None if first is None else max(0.0, first - begin))


def _first(runs: Sequence[PodRun]) -> tuple[int, float]:
    """Jobs as in the file; their pods are created side by side, in any order."""
    return runs[0].job_global_index or 0, runs[0].created


def _order(run: PodRun) -> tuple[float, str, int, int]:
    return (run.created, run.replicated_job, run.job_index or 0, run.completion_index or 0)


def _lanes(runs: Sequence[PodRun]) -> list[list[PodRun]]:
    """Runs that follow each other, in as few lanes as they need; a restarted pod stays in its own."""
    lanes: list[list[PodRun]] = []
    for run in runs:
        free = [lane for lane in lanes if (lane[-1].ended or float("inf")) <= run.created]
        same = [lane for lane in free if lane[-1].completion_index == run.completion_index]
        # The next attempt is made while the last one's pods still end.
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
    """Waiting counts from `since`; what still runs `until` its successor is made, or until now, is cut."""
    ended = until if run.ended is None else min(run.ended, until)
    started = ended if run.started is None else min(run.started, ended)
    if started > since:
        yield Span(Phase.WAITING, since, started)
    if run.started is not None:
        yield Span(Phase.RUNNING, started, ended, failed(run))


def failed(run: PodRun) -> bool:
    """Whether it failed by itself: what was told to end has not, whatever its exit code."""
    return run.phase == "Failed" and not run.preempted and not run.deleted


def _note(lane: Sequence[PodRun]) -> str:
    """`restarted once: exit 137 on node-1`"""
    failures = [run for run in lane if failed(run)]
    if not failures:
        return "preempted" if any(run.preempted for run in lane) else ""
    first = failures[0]
    why = f"exit {first.exit_code}" if first.exit_code else first.reason or "failed"
    where = f" on {first.node}" if first.node else ""
    restarts = sum(failed(run) for run in lane[:-1])
    if not restarts:
        return f"{why}{where}"
    times = {1: "once", 2: "twice"}.get(restarts, f"{restarts} times")
    return f"restarted {times}: {why}{where}"


def runs_of(pods: Iterable[Pod]) -> list[PodRun]:
    """What the pods that are there tell of their runs, for clusters that keep no history."""
    return [_run_of(pod) for pod in pods if pod.metadata.creation_timestamp]


def _run_of(pod: Pod) -> PodRun:
    labels = pod.metadata.labels
    states = [status.state for status in pod.status.container_statuses]
    ends = [state.terminated for state in states if state.terminated]
    starts = [running.started_at for state in states if (running := state.running or state.terminated)]
    bound = condition(pod.status.conditions, "PodScheduled")
    index = labels.get(COMPLETION_INDEX) or pod.metadata.annotations.get(COMPLETION_INDEX)
    last_end = max((end.finished_at for end in ends if end.finished_at), default=None)
    assert pod.metadata.creation_timestamp is not None, "the caller has looked"
    return PodRun(
        uid=pod.metadata.uid,
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        jobset=labels.get(JOBSET_NAME, ""),
        jobset_uid=labels.get(JOBSET_UID, ""),
        replicated_job=labels.get(REPLICATED_JOB_NAME, ""),
        job=labels.get(JOB_NAME, ""),
        job_index=natural(labels.get(JOB_INDEX)),
        completion_index=natural(index),
        attempt=natural(labels.get(RESTART_ATTEMPT)) or 0,
        node=pod.spec.node_name,
        created=pod.metadata.creation_timestamp.timestamp(),
        bound=_seconds(bound.last_transition_time if bound and bound.status == "True" else None),
        started=_seconds(min((start for start in starts if start), default=None)),
        ended=_seconds(last_end) if pod.terminal else None,
        phase=pod.status.phase or "Pending",
        exit_code=exit_code(pod),
        reason=pod.status.reason,
        restarts=sum(status.restart_count for status in pod.status.container_statuses),
        preempted=is_true(pod.status.conditions, PREEMPTED),
        deleted=pod.terminal and last_end is not None and told_to_end(pod, last_end),
        job_global_index=natural(labels.get(JOB_GLOBAL_INDEX)),
    )


def _seconds(time: datetime | None) -> float | None:
    return time.timestamp() if time else None
