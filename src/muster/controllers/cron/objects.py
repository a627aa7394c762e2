"""What both controllers have in common: names and times of runs, Events, deletions."""

from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo
from typing import Final

from muster.api import times
from muster.api.base import AnyKind, ObjectMeta, Resource, involved
from muster.controllers.cron.decide import Concurrency, Decision, Run, State
from muster.effects import Delete, Effect, RecordEvent, Requeue

#: When a run was due, on the run.
SCHEDULED: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SKIPPED: Final = {
    "missed": ("MissSchedule", "a run missed its starting deadline"),
    "active": ("JobAlreadyActive", "a run is due, and the one before is active"),
}

#: A time that a user has written may be so far away that no calendar of another time zone contains it.


def name_of(name: str, at: datetime) -> str:
    """The name of a run: that of Kubernetes' controller, so that a repeated start finds the first."""
    return f"{name}-{int(at.timestamp()) // 60}"


def written(at: datetime, zone: tzinfo = UTC) -> str:
    """RFC 3339; a run's annotation has it in the zone of its schedule, as Kubernetes' controller does."""
    text = times.bounded(at).astimezone(zone).isoformat()
    return text.replace("+00:00", "Z")


def run(meta: ObjectMeta, state: State) -> Run:
    """A run, with the time at which it was due. A run made by hand does not say: its creation counts."""
    at = _scheduled(meta)
    return Run(meta.name, meta.uid, at or meta.creation_timestamp or _LONG_AGO, state)


def served(runs: Iterable[ObjectMeta], written: datetime | None) -> datetime | None:
    """Returns until when a schedule has been served: the last time that has a run, or that its status says.

    A run is made before the status is written, so either may be missing.
    """
    return max(filter(None, [written, *map(_scheduled, runs)]), default=None)


def _scheduled(meta: ObjectMeta) -> datetime | None:
    try:
        return times.read(meta.annotations.get(SCHEDULED, ""))
    except ValueError:
        return None


def concurrency(text: str) -> Concurrency:
    match text:
        case "Forbid" | "Replace":
            return text
        case _:
            return "Allow"


def told(kind: AnyKind, resource: Resource, reason: str, message: str, once: str) -> list[Effect]:
    """A warning Event about a schedule. It is recorded once for each value of `once`."""
    return [RecordEvent(involved(resource, kind), "Warning", reason, message, once)]


def after(
    kind: AnyKind, resource: Resource, of_runs: AnyKind, decision: Decision, now: datetime
) -> list[Effect]:
    """Deletions, the next look, and an Event if a run that is due does not begin."""
    effects: list[Effect] = [
        Delete(of_runs, resource.metadata.namespace, each.name, each.uid) for each in decision.delete
    ]
    if decision.skipped and decision.due is not None:
        effects += told(kind, resource, *_SKIPPED[decision.skipped], written(decision.due))
    if decision.again is not None:
        effects.append(Requeue(decision.again))
    return effects
