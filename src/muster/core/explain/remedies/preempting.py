"""Remedy "by preemption": the victims if the policy were not Never (MayNotPreempt); or why there are none.

A gang that may preempt and waits has found no victims. If other gangs hold what it lacks, the reason is
given.
"""

from collections.abc import Iterator
from typing import Final

from muster.core.explain.remedies.question import LATER, Question
from muster.core.words.amounts import PODS
from muster.core.words.decisions import Remedy, Victim
from muster.core.words.gang import Code
from muster.core.world.gangs import departing

#: Gangs that are named.
NAMED: Final = 3
NOT: Final = "not by preemption"


def preempting(question: Question) -> Iterator[Remedy]:
    gang = question.gang
    if not question.state.waits or not question.admission.admits(question.state):
        return
    if not gang.preempts and (found := question.victims()) is not None:
        names = [str(victim.gang) for victim in found.gangs]
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        lost = sum(victim.work_lost for victim in found.gangs)
        ended = f"{', '.join(names[:NAMED])}{more} would end, {lost:,.0f} resource-seconds of work lost"
        yield Remedy(f"if it might preempt (MayNotPreempt): {ended}", LATER)
    elif question.explanation.blockers and question.explanation.code is not Code.HELD_FOR_RESERVATION:
        reason = _no_victims(question)
        if reason is not None:
            yield Remedy(reason, NOT)


def _no_victims(question: Question) -> str | None:
    """Why there are no victims for the gang among the running gangs; None: not known yet."""
    gang, demand, preemption, world = question.gang, question.demand, question.preemption, question.case.world
    pending = world.pending_evictions
    if pending or (gang.preempts and preemption.may_help(question.state, demand)):
        return None
    ranks_above = preemption.ranks_above(gang, demand)
    lower = [
        other
        for other in question.case.holds(PODS)
        if other.gang is not None and other.pods and other.id != gang.id and ranks_above(other.gang)
    ]
    if not lower:
        if len(world.queues.accounts) == 1:
            return "no gang of lower priority runs"
        return f"no gang of lower priority runs in queue {gang.queue}, and other queues need not give way"
    staying = [other for other in lower if not departing(other, world.pods)]
    if not staying:
        return f"{_gangs(len(lower))} of lower rank {_are(len(lower))} leaving already"
    able = preemption.evictable(gang, demand).intersection(other.id for other in lower)
    if not able:
        protected = "protected: not preemptible, starting, or within a minimum run time"
        return f"{_gangs(len(staying))} of lower rank {_are(len(staying))} {protected}"
    if pending.deleted:  # perhaps no victims are searched because the room of these pods is enough
        return None
    with world.trial():
        pending.lift_victims([Victim(other) for other in sorted(able)])
        fits = bool(question.case.fit.fit(question.request._replace(search=False)))
    if fits:
        return f"budgets or entitlements protect too much of the {_gangs(len(able))} of lower rank"
    if demand.helped_by_arrivals:  # it may need some of them to stay
        return f"no way was found to make it fit by ending some of the {_gangs(len(able))} that it may end"
    return f"it would not fit even without the {_gangs(len(able))} that it may end"


def _gangs(count: int) -> str:
    return "1 gang" if count == 1 else f"{count} gangs"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
