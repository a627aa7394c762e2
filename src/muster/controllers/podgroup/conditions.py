"""The conditions of Kubernetes' own PodGroups.

`PodGroupInitiallyScheduled` is True once as many pods as must run together have a node; it then stays True,
whatever happens to them. Until then it is False while the Gang record says why the gang waits: SchedulerError
if the group cannot be honoured as it is written or a start has failed, otherwise Unschedulable. A gang whose
pods are still missing, or are kept by a gate, has not been tried and has no such condition, as upstream.

`DisruptionTarget` is there from the eviction of so many pods that fewer than the minimum are left, until the
minimum has nodes again. Upstream's API has the condition; its scheduler (1.37) sets it on the pods only.

Source: kubernetes, pkg/scheduler/schedule_one_podgroup.go; kubernetes/api, scheduling/v1beta1/types.go.
"""

from datetime import datetime
from typing import Final

import msgspec

from muster.api.base import Condition, Object, condition
from muster.api.core_v1 import Pod
from muster.api.scheduling_v1beta1 import (
    DISRUPTION_TARGET,
    INITIALLY_SCHEDULED,
    PREEMPTED,
    SCHEDULED,
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
)
from muster.controllers.podgroup.observed import Counts, Observed, same_reason

#: Codes with which a gang has not been tried, and codes with which more capacity would not start it.
_NOT_TRIED: Final = ("", "Gated", "MembersMissing", "Postponed")
_ERRORS: Final = ("Invalid", "CommitFailed")
#: Most characters of a message; the API allows more.
_LONGEST: Final = 1024


def status(observed: Observed, now: datetime) -> Object | None:
    """Returns the conditions if they have to change. Those of others are kept."""
    old: list[Condition] = observed.group.status.conditions
    own = {type_: condition(old, type_) for type_ in (INITIALLY_SCHEDULED, DISRUPTION_TARGET)}
    new = {
        INITIALLY_SCHEDULED: _scheduled(observed, own[INITIALLY_SCHEDULED]),
        DISRUPTION_TARGET: _disrupted(observed, own[DISRUPTION_TARGET]),
    }
    if all(_alike(own[type_], new[type_]) for type_ in own):
        return None
    generation = observed.group.metadata.generation
    kept = [each for each in old if each.type not in own]
    stamped = [_stamped(own[type_], each, generation, now) for type_, each in new.items() if each]
    return {"conditions": [*msgspec.to_builtins(kept), *stamped]}


def _scheduled(observed: Observed, before: Condition | None) -> Condition | None:
    if before is not None and before.status == "True":
        return before
    if Counts.of(observed.pods).scheduled >= observed.least:
        return Condition(INITIALLY_SCHEDULED, "True", SCHEDULED)
    reason = observed.gang.status.reason if observed.gang is not None else None
    if reason is None or reason.code in _NOT_TRIED:
        return before
    why = SCHEDULER_ERROR if reason.code in _ERRORS else UNSCHEDULABLE
    return Condition(INITIALLY_SCHEDULED, "False", why, f"{reason.code}: {reason.message}"[:_LONGEST])


def _disrupted(observed: Observed, before: Condition | None) -> Condition | None:
    evicted = [found for pod in observed.pods if (found := _eviction(pod)) is not None]
    left = Counts.of(pod for pod in observed.pods if _eviction(pod) is None)
    if left.scheduled >= observed.least:
        return None
    if not evicted or before is not None:
        return before
    return Condition(DISRUPTION_TARGET, "True", PREEMPTED, evicted[0].message[:_LONGEST])


def _eviction(pod: Pod) -> Condition | None:
    """Returns the condition of a pod that was evicted for others; None without one."""
    found = condition(pod.status.conditions, DISRUPTION_TARGET)
    return found if found is not None and (found.status, found.reason) == ("True", PREEMPTED) else None


def _alike(old: Condition | None, new: Condition | None) -> bool:
    if old is None or new is None:
        return old is new
    return same_reason(old, new)


def _stamped(old: Condition | None, new: Condition, generation: int, now: datetime) -> Object:
    """Returns a condition as the API demands it: all fields but the generation must be there."""
    if old is not None and _alike(old, new):
        return {"message": "", **msgspec.to_builtins(old)}
    since = old.last_transition_time if old is not None and old.status == new.status else now
    found: Object = {"message": "", **msgspec.to_builtins(new)}
    found["lastTransitionTime"] = msgspec.to_builtins(since or now)
    return found | ({"observedGeneration": generation} if generation else {})
