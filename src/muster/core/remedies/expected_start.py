"""When a gang is expected to start, and what that rests on: its reservation, else the earliest time known.

It is expected, not promised: it holds if nobody who ranks higher comes and everybody ends as expected.
"""

from collections.abc import Collection, Sequence
from math import inf
from typing import Final

from muster.core.decisions import ExpectedStart
from muster.core.gang import GangId, NodeName
from muster.core.remedies.question import Question

#: Gangs that are named.
NAMED: Final = 3
#: What a search for the earliest time costs, in trials.
COST: Final = 20


def expected_start(question: Question, *, search: bool) -> ExpectedStart | None:
    """None: at no time that can be told. `search`: also for those without a reservation."""
    reservations, names = question.case.cluster.reservations, question.case.cluster.nodes.names
    reserved = reservations.of(question.state.id)
    if reserved is not None:
        return _told(question, reserved.start, reserved.basis, set(reserved.nodes.values()))
    if not search:
        return None
    question.trials += COST
    start = reservations.earliest(question.claim)
    if start is None:
        return None
    return _told(question, start.at, start.basis, {names[column] for column in start.placed.values()})


def _told(
    question: Question, at: float, basis: Sequence[GangId], nodes: Collection[NodeName]
) -> ExpectedStart | None:
    if at == inf:
        return None
    before = question.state.explanation
    told = before.expected_start if before is not None else None
    start = ExpectedStart(at, _basis(question, basis, nodes))
    if told is not None and told.basis == start.basis and max(told.at, at) <= question.now:
        return told  # what is overdue begins any moment, now as before
    return start


def _basis(question: Question, basis: Sequence[GangId], nodes: Collection[NodeName]) -> str:
    """Of all who end by then, those who are on the nodes that it gets."""
    gangs = question.case.cluster.gangs
    there = [gang for gang in basis if gang in gangs and not gangs[gang].nodes.keys().isdisjoint(nodes)]
    if not there:
        return "after those that are before it"
    if len(there) == 1:
        gang = gangs[there[0]].gang
        said = "its limit" if gang is not None and gang.estimate is None else "its run time"
        where = sorted(gangs[there[0]].nodes.keys() & set(nodes))
        more = f" and {len(where) - 1} more" if len(where) > 1 else ""
        return f"when {there[0]} ends on {where[0]}{more} ({said})"
    last = there[-NAMED:]
    more = f"{len(there) - len(last)} others, " if len(there) > len(last) else ""
    return f"when {more}{', '.join(last[:-1])} and {last[-1]} have ended"
