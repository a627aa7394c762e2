"""Remedy "by preemption": the victims if the policy were not Never (MayNotPreempt); or why there are none.

A gang that may preempt and waits has found no victims. If other gangs hold what it lacks, the reason is
given.
"""

from collections.abc import Iterator
from typing import Final

from muster.core.explain.remedies.question import LATER, Question
from muster.core.words.amounts import PODS
from muster.core.words.decisions import Remedy
from muster.core.words.gang import Code

#: Gangs that are named.
NAMED: Final = 3
NOT: Final = "not by preemption"


def preempting(question: Question) -> Iterator[Remedy]:
    gang = question.gang
    if not question.state.waits or not question.admission.admits(question.state):
        return
    if not gang.preempts and (found := question.victims()) is not None:
        names = [str(victim.gang) for victim in found.victims]
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        lost = sum(victim.work_lost for victim in found.victims)
        ended = f"{', '.join(names[:NAMED])}{more} would end, {lost:,.0f} resource-seconds of work lost"
        yield Remedy(f"if it might preempt (MayNotPreempt): {ended}", LATER)
    elif question.explanation.blockers and question.explanation.code is not Code.HELD_FOR_RESERVATION:
        holding = question.case.holds(PODS)
        reason = question.preemption.nobody(question.state, question.request, holding)
        if reason is not None:
            yield Remedy(reason, NOT)
