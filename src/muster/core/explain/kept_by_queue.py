"""Adds numbers to a queue's refusal: how many pods its remaining quota allows, and which gangs use it.

The reason is the queue's (`admission.py`). Added are how many pods of each pod set would fit in what the
queue has left, and the blockers: gangs of the same queue and, for OverShare, the gangs on the nodes.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

import numpy as np

from muster.core.demand import Part
from muster.core.explain.case import BLOCKERS, Case
from muster.core.words.amounts import PODS
from muster.core.words.decisions import Explanation, PodSetExplanation
from muster.core.words.gang import Code, GangId
from muster.core.world.queues import Queues


def kept_by_queue(case: Case, queues: Queues, queue: str, refusal: Explanation) -> Explanation:
    left = _left(case, queues, queue, refusal.code)
    parts = {part.pod_set: part for part in case.demand.parts}
    sets = tuple(_cut(case, parts[told.name], told, left) for told in case.pod_sets)
    return replace(refusal, pod_sets=sets, blockers=_blockers(case, queue, refusal.code))


def _left(case: Case, queues: Queues, queue: str, code: Code) -> dict[str, int]:
    """Return what the queue may still use of each limited resource; no pods if nothing may start at all."""
    account = queues.find(queue)
    if account is None:
        return {PODS: 0}
    if code is Code.OVER_SHARE:
        return account.room(borrow=False)
    if code is Code.QUOTA_EXCEEDED and account.cap_exceeded(case.demand.least, new=False):
        return account.room(borrow=True)
    return {PODS: 0}


def _cut(case: Case, part: Part, told: PodSetExplanation, left: dict[str, int]) -> PodSetExplanation:
    """Limit a pod set's explanation to the pods that quota allows, and subtract these from `left`."""
    one = {r: n for r, n in part.usage.items() if n and r in left}
    allowed = min((max(left[r], 0) // n for r, n in one.items()), default=told.wanted)
    taken = min(allowed, told.wanted)
    for resource, amount in one.items():
        left[resource] -= taken * amount
    if taken == told.wanted:
        return told
    vector = case.fit.slots.room(part.shape)
    free = int(np.count_nonzero(vector.slots))
    limits: Mapping[str, int] = {**case.limits(vector), **({"quota": free} if free else {})}
    return replace(told, fits=min(told.fits, taken), limited_by=limits)


def _blockers(case: Case, queue: str, code: Code) -> tuple[GangId, ...]:
    if not case.demand.parts:
        return ()
    part = max(case.demand.parts, key=lambda part: part.need)
    resource, row, _ = case.asked(case.fit.slots.room(part.shape))[0]
    own = [state.id for state in case.holds(resource) if state.gang is not None and state.gang.queue == queue]
    others = case.holders(resource, case.usable(row)) if code is Code.OVER_SHARE else ()
    return tuple(islice(dict.fromkeys([*own, *others]), BLOCKERS))
