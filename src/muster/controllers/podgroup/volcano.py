"""The phases, counts and conditions of Volcano's PodGroups.

"" and Pending: it is not admitted. Volcano's controllers create the pods of a Job only once its PodGroup has
another phase. Inqueue: it is admitted, and its pods wait, or are still to be created. Volcano admits by
`minResources`, which its controller computes of limits too, and without GPUs; here every group is admitted
whose gang is neither Invalid nor held, as a gang starts whole or not at all in any case. Running: the minimum
has nodes. Unknown: fewer have, and some run. Completed: as many as have had nodes have ended.

Of the conditions Unschedulable and Scheduled at most one is True, and the other then False. In Volcano both
stay True, and the later one counts; who follows that rule reads the same here.

Source: volcano-sh/volcano, pkg/scheduler/framework/session.go (getPodGroupPhase), plugins/gang/gang.go.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from muster.api.base import Condition, Object, condition
from muster.api.marks import HOLD
from muster.controllers.podgroup.observed import Counts, Observed, same_reason

PENDING: Final = "Pending"
INQUEUE: Final = "Inqueue"
RUNNING: Final = "Running"
UNKNOWN: Final = "Unknown"
COMPLETED: Final = "Completed"

UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULED: Final = "Scheduled"
NOT_ENOUGH_TASKS: Final = "NotEnoughTasks"
#: Codes of a gang that is not admitted.
_NOT_ADMITTED: Final = ("Invalid", "Gated")
#: Volcano's reasons by muster's codes; the other codes are reasons themselves.
_REASONS: Final = {
    "MembersMissing": NOT_ENOUGH_TASKS,
    **dict.fromkeys(
        (
            *("QuotaExceeded", "NothingMatches", "OverShare", "WaitingForVictims", "HeldForReservation"),
            *("InsufficientCapacity", "TopologyUnsatisfied", "ConstraintUnsatisfied", "Fragmented"),
        ),
        "NotEnoughResources",
    ),
}
_READY: Final = "tasks in gang are ready to be scheduled"
#: Most characters of a message.
_LONGEST: Final = 1024


def status(observed: Observed, now: datetime) -> Object | None:
    """Returns the status if it has to change."""
    counts, before = Counts.of(observed.pods), observed.group.status
    conditions = latest(observed.group.status.conditions, said(observed, counts), now)
    new: Object = {
        "phase": _phase(observed, counts),
        "running": counts.running,
        "succeeded": counts.succeeded,
        "failed": counts.failed,
        "conditions": msgspec.to_builtins(conditions),
    }
    old: Object = {
        "phase": before.phase,
        "running": before.running,
        "succeeded": before.succeeded,
        "failed": before.failed,
        "conditions": msgspec.to_builtins(before.conditions),
    }
    return new if new != old else None


def _phase(observed: Observed, counts: Counts) -> str:
    least, ended = observed.least, counts.succeeded + counts.failed
    placed = counts.scheduled + counts.failed
    if counts.running and counts.scheduled < least:
        return UNKNOWN
    if placed >= least:
        return COMPLETED if placed == ended else RUNNING
    return INQUEUE if _admitted(observed) else PENDING


def _admitted(observed: Observed) -> bool:
    """Whether its pods may be created. A gang without pods has no record yet."""
    group, asked, gang = observed.group, observed.dialect.asked, observed.gang
    assert asked is not None, "a group that pods name says what it asks for"
    if asked(group).refusal or HOLD.text(group.metadata) not in (None, "false"):
        return False
    reason = gang.status.reason if gang is not None else None
    return reason is None or reason.code not in _NOT_ADMITTED


def latest(before: Sequence[Condition], said: Condition | None, now: datetime) -> list[Condition]:
    """Returns all conditions; the times are those of the last change of status or reason."""
    found = [*before]
    if said is None:
        return found
    other = SCHEDULED if said.type == UNSCHEDULABLE else UNSCHEDULABLE
    stale = condition(found, other)
    if stale is not None and stale.status != "False":
        lapsed = Condition(other, "False", stale.reason, last_transition_time=now)
        found = [lapsed if each is stale else each for each in found]
    known = condition(found, said.type)
    if known is None:
        return [*found, msgspec.structs.replace(said, last_transition_time=now)]
    if same_reason(known, said):
        return found
    same = (known.status, known.reason) == (said.status, said.reason)
    since = known.last_transition_time if same else now
    new = msgspec.structs.replace(said, last_transition_time=since or now)
    return [new if each is known else each for each in found]


def said(observed: Observed, counts: Counts) -> Condition | None:
    """Returns the condition that holds now; None: neither does."""
    least = observed.least
    below = counts.running > 0 and counts.scheduled < least
    if observed.pods and counts.scheduled + counts.failed >= least and not below:
        return Condition(SCHEDULED, "True", _READY)
    reason = observed.gang.status.reason if observed.gang is not None else None
    if reason is None or not reason.code:
        message = f"MembersMissing: {counts.scheduled} pods have not failed, and {least} are needed"
        return Condition(UNSCHEDULABLE, "True", _REASONS["MembersMissing"], message) if below else None
    if not observed.pods and reason.code == "MembersMissing":
        return None  # its controller is still to create them
    why = _REASONS.get(reason.code, reason.code)
    return Condition(UNSCHEDULABLE, "True", why, f"{reason.code}: {reason.message}"[:_LONGEST])
