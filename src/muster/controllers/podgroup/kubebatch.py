"""The phases, counts and conditions of kube-batch's PodGroups.

Pending: fewer pods than the minimum have nodes. Running: the minimum has; pods that have succeeded count.
Unknown: fewer have, and some run. `admitted` counts the pods on nodes that have not failed.

The condition Unschedulable is True while the gang waits, or once too few of its pods are left; otherwise
False. A group whose name another group has taken is Unschedulable, too. Whenever the condition becomes True,
or gets another reason, an Event of its type is recorded on the group, for the controllers that manage its
pods.

Quota that is held for `totalResources` is given back if the minimum does not exist `HELD` after the group was
created, and once the group has finished: the condition QuotaReleased is then True, and stays so.

With kube-batch a group of which all pods have succeeded is Pending again; here it is Running.

Source: kubernetes-retired/kube-batch, pkg/scheduler/framework/session.go (jobStatus), plugins/gang/gang.go,
cache/cache.go (RecordJobStatusEvent).
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

import msgspec

from muster.api.base import Condition, Object, condition, involved
from muster.api.kube_batch import QUOTA_RELEASED
from muster.controllers.podgroup import volcano
from muster.controllers.podgroup.observed import Counts, Observed
from muster.controllers.podgroup.volcano import (
    NOT_ENOUGH_TASKS,
    PENDING,
    RUNNING,
    SCHEDULED,
    UNKNOWN,
    UNSCHEDULABLE,
)
from muster.effects import Effect, RecordEvent, Requeue

#: How long quota is held for pods that do not come.
HELD: Final = timedelta(minutes=10)
#: The reason of a group that describes no gang: a group of the same name does.
NAME_TAKEN: Final = "NameTaken"


def status(observed: Observed, now: datetime) -> Object | None:
    """Returns the status if it has to change."""
    counts, before = Counts.of(observed.pods), observed.group.status
    new: Object = {
        "phase": _phase(observed, counts),
        "admitted": counts.scheduled,
        "running": counts.running,
        "succeeded": counts.succeeded,
        "failed": counts.failed,
        "conditions": msgspec.to_builtins(_conditions(observed, now)),
    }
    old: Object = {
        "phase": before.phase,
        "admitted": before.admitted,
        "running": before.running,
        "succeeded": before.succeeded,
        "failed": before.failed,
        "conditions": msgspec.to_builtins(before.conditions),
    }
    return new if new != old else None


def besides(observed: Observed, now: datetime) -> Iterator[Effect]:
    """Yields the Event of a group that has become Unschedulable, and when it is looked at again."""
    if (due := _due(observed)) is not None and now < due:
        yield Requeue(due)
    group = observed.group
    before = condition(group.status.conditions, UNSCHEDULABLE)
    after = condition(_conditions(observed, now), UNSCHEDULABLE)
    if after is None or after.status != "True":
        return
    if before is None or (before.status, before.reason) != (after.status, after.reason):
        occasion = f"{UNSCHEDULABLE} since {after.last_transition_time}"
        yield RecordEvent(
            involved(group, observed.dialect.kind), "Warning", UNSCHEDULABLE, after.message, occasion
        )


def _conditions(observed: Observed, now: datetime) -> list[Condition]:
    found = volcano.latest(observed.group.status.conditions, _said(observed), now)
    found = [each for each in found if each.type != SCHEDULED]  # kube-batch has no such condition
    if observed.total and _finished(observed):
        found.append(Condition(QUOTA_RELEASED, "True", "Finished", last_transition_time=now))
    elif (due := _due(observed)) is not None and due <= now:
        told = f"its pods did not come within {HELD.total_seconds():.0f} s"
        found.append(Condition(QUOTA_RELEASED, "True", "MembersMissing", told, last_transition_time=now))
    return found


def _finished(observed: Observed) -> bool:
    counts = Counts.of(observed.pods)
    return counts.succeeded >= observed.least and counts.succeeded + counts.failed == counts.pods


def _due(observed: Observed) -> datetime | None:
    """Returns when the quota is given back that is held for pods that do not come; None: never."""
    created = observed.group.metadata.creation_timestamp
    if not observed.total or created is None or Counts.of(observed.pods).pods >= observed.least:
        return None
    due: datetime = created + HELD
    return due


def _phase(observed: Observed, counts: Counts) -> str:
    if counts.scheduled >= observed.least:
        return RUNNING
    return UNKNOWN if counts.running else PENDING


def _said(observed: Observed) -> Condition | None:
    """Returns the condition that holds now; None: it is as it was."""
    counts, least = Counts.of(observed.pods), observed.least
    if observed.instead is not None:
        name, kind = observed.group.metadata.name, observed.instead
        told = f"{kind.kind} {name} of {kind.group} has its name and its pods; delete one of the two"
        return Condition(UNSCHEDULABLE, "True", NAME_TAKEN, told)
    if counts.scheduled >= least:
        return Condition(SCHEDULED, "True")
    if counts.running and counts.pods - counts.failed < least:
        left = counts.pods - counts.failed
        told = f"MembersMissing: {left} of {least} pods are left, of which {counts.running} run"
        return Condition(UNSCHEDULABLE, "True", NOT_ENOUGH_TASKS, told)
    return volcano.said(observed, counts) if counts.scheduled + counts.failed < least else None
