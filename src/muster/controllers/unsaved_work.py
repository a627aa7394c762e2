"""Warns of gangs that have run for long without a checkpoint and may be evicted.

The gang controller writes the warning to the condition `WorkSaved` of a Gang once it has run for `LONG`: one
warning per run, which stays until the gang stops running or names a checkpoint.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from muster import names
from muster.api.base import ObjectMeta, condition
from muster.api.kinds import PRIORITY_CLASS, QUEUE
from muster.api.marks import CHECKPOINT, PREEMPTIBLE
from muster.api.muster_v1alpha1 import Gang
from muster.api.scheduling import above
from muster.controllers.caches import Caches

#: The condition of a Gang.
SAVED: Final = "WorkSaved"
#: How long a gang may run without a warning, as for the expected run time of a job that is submitted.
LONG: Final = timedelta(hours=1)
#: Most PriorityClasses that a message names.
_MOST: Final = 3

#: (status, reason, message) of a condition
Answer = tuple[bool, str, str]


def evictors(caches: Caches, gang: Gang, metas: Iterable[ObjectMeta]) -> str:
    """Returns what may evict a gang without a checkpoint; "" = nothing, or it has a checkpoint."""
    for meta in metas:
        if CHECKPOINT.text(meta) or PREEMPTIBLE.get(meta) is False:
            return ""
    higher = above(caches[PRIORITY_CLASS].items.values(), gang.spec.priority)
    if higher:
        plural = "classes" if len(higher) > 1 else "class"
        more = " and others" if len(higher) > _MOST else ""
        return f"{len(higher)} higher {plural} can preempt it ({', '.join(higher[:_MOST])}{more})"
    queue = caches[QUEUE].get(gang.spec.queue)
    if queue is not None and queue.spec.reclaimable and queue.status.borrowed:
        return f"its queue {gang.spec.queue} borrows, which other queues can reclaim"
    return ""


def judge(gang: Gang, evictors: str, running: bool, now: datetime) -> tuple[Answer | None, datetime | None]:
    """Returns the condition, None for none, and when it has to be judged again."""
    before, runs = condition(gang.status.conditions, SAVED), condition(gang.status.conditions, "Running")
    if not running or not evictors:
        return ((True, "NoRisk", "") if before is not None else None), None
    if before is not None and before.status == "False":
        return (False, before.reason, before.message), None
    since = runs.last_transition_time if runs is not None and runs.status == "True" else None
    due = (since or now) + LONG
    if now < due:
        return ((True, "NoRisk", "") if before is not None else None), due
    told = f"it has run for more than 1h without a checkpoint, and {evictors}; let it save its work"
    return (False, "NoCheckpoint", f"{told}, and annotate it {names.CHECKPOINT}: 30m"), None
