"""Reads marks about the run of a job: its length, the cost of its eviction, whether it may be preempted.

The marks of docs/reference/names.md are read from the job object or group, which takes precedence, else from
its pods or their templates. If pods say different things, the most careful value counts: no gang is preempted
because one pod of ten does not forbid it. A value that cannot be read is refused, not guessed.

A pod that Koordinator or Volcano would never preempt is no victim here either. Then its whole gang is none,
whatever its own object says.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from muster.api import marks, times
from muster.api.base import ObjectMeta, controller_of, mark
from muster.api.core_v1 import Pod
from muster.api.koordinator_v1alpha1 import NOT_PREEMPTIBLE
from muster.api.volcano_v1beta1 import PREEMPTABLE
from muster.core.words.gang import Code, Gang, Gate

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Run:
    """The marks of one object; None = no mark. Seconds, and seconds since the epoch."""

    preemptible: bool | None = None
    min_run_time: float | None = None
    restart_cost: float | None = None
    checkpoint_every: float | None = None
    checkpointed: float | None = None
    checkpoint_grace: float | None = None
    estimate: float | None = None
    #: whether a mark of Koordinator or Volcano protects it: never a victim
    spared: bool | None = None
    refusal: Gate | None = None


SILENT = Run()


def run(meta: ObjectMeta) -> Run:
    """Returns this object's marks about its run."""
    spared = None
    for key, value in NOT_PREEMPTIBLE:
        if meta.labels.get(key) == value:
            spared = True
    if mark(meta, PREEMPTABLE) == "false":
        spared = True
    if _KEYS.isdisjoint(meta.labels) and _KEYS.isdisjoint(meta.annotations):
        return Run(spared=True) if spared else SILENT
    try:
        saves = marks.CHECKPOINT.read(meta) or marks.Checkpoint()
        return Run(
            preemptible=marks.PREEMPTIBLE.read(meta),
            min_run_time=marks.MIN_RUN_TIME.read(meta),
            restart_cost=marks.RESTART_COST.read(meta),
            estimate=marks.RUN_TIME.read(meta),
            checkpoint_every=saves.every,
            checkpointed=None if saves.at is None else times.seconds(saves.at),
            checkpoint_grace=marks.CHECKPOINT_GRACE.read(meta),
            spared=spared,
        )
    except ValueError as error:
        return Run(spared=spared, refusal=Gate(Code.INVALID, str(error)))


def marked(gang: Gang, own: Run, pods: Iterable[Run]) -> Gang:
    """Returns the gang with the marks about its run: of its own object, else of its pods."""
    said = _over(own, _most_careful([one for one in pods if one != SILENT]))
    if said == SILENT:
        return gang
    gate = gang.gate
    if said.refusal is not None and (gate is None or gate.code is not Code.INVALID):
        gate = said.refusal
    return replace(
        gang,
        gate=gate,
        preemptible=gang.preemptible and said.preemptible is not False and not said.spared,
        min_run_time=said.min_run_time or 0.0,
        restart_cost=said.restart_cost or 0.0,
        checkpoint_every=said.checkpoint_every,
        checkpointed=said.checkpointed,
        checkpoint_grace=said.checkpoint_grace or 0.0,
        estimate=said.estimate,
    )


def checkpointed_at(meta: ObjectMeta) -> float | None:
    """Returns the time of a pod's last checkpoint by its annotation; None if that is not a time."""
    text = meta.annotations.get(marks.CHECKPOINT.key)
    try:
        saved = marks.CHECKPOINT.parse(text).at if text is not None else None
    except ValueError:
        return None
    return None if saved is None else times.seconds(saved)


def reported(gang: Gang, saved: Collection[float]) -> Gang:
    """Returns the gang with the checkpoint that its pods report; if they differ, the oldest."""
    if not saved:
        return gang
    latest = max(min(saved), gang.checkpointed or 0.0)
    return gang if latest == gang.checkpointed else replace(gang, checkpointed=latest)


def pod_limit(pod: Pod) -> float | None:
    """Returns the seconds after which the pod's place is free; None if a controller would fill it again."""
    return None if controller_of(pod) is not None else pod.spec.active_deadline_seconds


def limit_of_all(limits: Iterable[float | None]) -> float | None:
    """Returns the seconds after which all are gone; None unless each has a limit."""
    known = list(limits)
    return max((limit for limit in known if limit is not None), default=None) if None not in known else None


def _over(own: Run, pods: Run) -> Run:
    """Merges two: `own` wins where it has a value."""
    if own == SILENT:
        return pods
    if pods == SILENT:
        return own
    both = {
        field.name: getattr(own if getattr(own, field.name) is not None else pods, field.name)
        for field in fields(Run)
    }
    if own.checkpointed is not None:
        both["checkpoint_every"] = own.checkpoint_every
    return Run(**both)


def _most_careful(said: list[Run]) -> Run:
    if len(said) < 2:
        return said[0] if said else SILENT
    return Run(
        preemptible=_least(min, (one.preemptible for one in said)),
        min_run_time=_least(max, (one.min_run_time for one in said)),
        restart_cost=_least(max, (one.restart_cost for one in said)),
        estimate=_least(max, (one.estimate for one in said)),
        checkpoint_every=_least(max, (one.checkpoint_every for one in said)),
        checkpointed=_least(min, (one.checkpointed for one in said)),
        checkpoint_grace=_least(max, (one.checkpoint_grace for one in said)),
        spared=_least(max, (one.spared for one in said)),
        refusal=next((one.refusal for one in said if one.refusal is not None), None),
    )


def _least(pick: Callable[[list[T]], T], said: Iterable[T | None]) -> T | None:
    found = [value for value in said if value is not None]
    return pick(found) if found else None


_KEYS = frozenset(
    mark.key
    for mark in (
        *(marks.PREEMPTIBLE, marks.MIN_RUN_TIME, marks.RESTART_COST),
        *(marks.CHECKPOINT, marks.CHECKPOINT_GRACE, marks.RUN_TIME),
    )
)
