"""Finds when a gang is expected to start, and on what that is based: its reservation, else an outlook.

The start is an estimate, not a promise: it holds if no gang of higher rank arrives and all gangs end as
expected. If it depends on ends that are unknown, or if no end helps, the message says so.
"""

from collections.abc import Sequence
from math import inf
from typing import Final

from muster.core.explain.question import Question
from muster.core.words.decisions import ExpectedStart
from muster.core.words.gang import GangId, NodeName
from muster.core.world.gangs import departing

#: Gangs that are named.
NAMED: Final = 3
NEVER: Final = "no room was found for it even once all others have ended"
#: The part of the remaining time by which an outlook may be off before a new one is reported.
NEAR: Final = 0.1

#: The gangs that have to end, and the nodes on which each was.
_Ended = Sequence[tuple[GangId, frozenset[NodeName]]]


def expected_start(question: Question) -> ExpectedStart | None:
    """Return when the gang is expected to start; None if nothing was found out about it."""
    gangs, reservations = question.parts.world.gangs, question.parts.reservations
    reserved = reservations.of(question.state.id)
    if reserved is not None:
        ended = [
            (gang, frozenset(gangs[gang].nodes)) for gang in reservations.basis(reserved) if gang in gangs
        ]
        at, nodes = reserved.start, frozenset(reserved.nodes.values())
        endless = [gang for gang, _ in ended if _endless(question, gang)]
    elif (outlook := question.outlook()) is not None:
        at, ended, nodes, endless = outlook.at, [*outlook.ended], outlook.nodes, [*outlook.endless]
    else:
        return None
    if at == inf:
        endless = endless or [gang for gang in _helping(question) if _endless(question, gang)]
        return ExpectedStart(None, _unknown(question, endless) if endless else NEVER)
    start = ExpectedStart(at, _basis(question, [each for each in ended if each[1] & nodes]))
    return _as_told(question, start, near=reserved is None)


def _unknown(question: Question, endless: Sequence[GangId]) -> str:
    """Return why these gangs' ends are unknown. Those being deleted are left out if others are not."""
    gangs, pods = question.parts.world.gangs, question.parts.world.pods
    if staying := [gang for gang in endless if gang not in gangs or not departing(gangs[gang], pods)]:
        return f"{_named(staying)} {'gives' if len(staying) == 1 else 'give'} no run time"
    return f"when {_named(endless)} {'has' if len(endless) == 1 else 'have'} left, being deleted"


def _helping(question: Question) -> list[GangId]:
    """Return the gangs whose end alone was found to help. The end of all may not: some gangs need company."""
    ends = question.foresight.ends
    return [gang for gang in sorted(ends) if ends[gang].get(question.state.id)]


def _endless(question: Question, gang: GangId) -> bool:
    known = question.parts.world.gangs[gang].gang
    return known is None or (known.limit is None and known.estimate is None)


def _as_told(question: Question, start: ExpectedStart, *, near: bool) -> ExpectedStart:
    """Return the start that was reported last if it is as good as the new one; else the new one.

    A start that is overdue in both may happen at any moment, so the last one stays. `near`: it also stays if
    the new time is within `NEAR` of it, as an outlook moves on with the clock while a gang is overdue.
    """
    before, now = question.state.explanation, question.now
    told = before.expected_start if before is not None else None
    if told is None or told.at is None or start.at is None or told.basis != start.basis:
        return start
    overdue = max(told.at, start.at) <= now
    close = near and told.at > now and abs(start.at - told.at) <= NEAR * (start.at - now)
    return told if overdue or close else start


def _basis(question: Question, ended: _Ended) -> str:
    """Return the wording for the gangs in `ended`, which are on the nodes that the gang gets."""
    if not ended:
        return "after the gangs before it"
    if len(ended) > 1:
        return f"when {_listed(_last([gang for gang, _ in ended]))} have ended"
    ((name, nodes),) = ended
    gang = question.parts.world.gangs[name].gang
    said = "its limit" if gang is not None and gang.estimate is None else "its run time"
    where = sorted(nodes)
    more = f" and {len(where) - 1} more" if len(where) > 1 else ""
    return f"when {name} ends on {where[0]}{more} ({said})"


def _named(gangs: Sequence[GangId]) -> str:
    """Return the first gangs as a phrase: "a, b, c and 2 others"."""
    more = len(gangs) - NAMED
    return _listed([*gangs[:NAMED], *([_others(more)] if more > 0 else [])])


def _last(gangs: Sequence[GangId]) -> list[str]:
    """Return the names of the gangs that end last, in order: "2 others, a, b and c"."""
    more = len(gangs) - NAMED
    return [*([_others(more)] if more > 0 else []), *gangs[-NAMED:]]


def _others(count: int) -> str:
    return "1 other" if count == 1 else f"{count} others"


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]
