"""MayNotPreempt: whom it would end, and what that would cost, if its preemption policy were not Never."""

from collections.abc import Iterator
from typing import Final

from muster.core.decisions import Remedy
from muster.core.remedies.question import LATER, Question

#: Gangs that are named.
NAMED: Final = 3


def may_not_preempt(question: Question) -> Iterator[Remedy]:
    gang = question.gang
    if gang.preempts or not question.state.waits:
        return
    if not question.admission.admits(question.state):
        return
    found = question.victims()
    if found is None:
        return
    names = [str(victim.gang) for victim in found.victims]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    lost = sum(victim.work_lost for victim in found.victims)
    ended = f"{', '.join(names[:NAMED])}{more} would end, {lost:,.0f} resource-seconds of work lost"
    yield Remedy(f"if it might preempt (MayNotPreempt): {ended}", LATER)
