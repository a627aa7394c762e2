"""Finds changes that would start a waiting gang, and confirms each by a dry run.

A reason says what is wrong; a remedy says what would help. Each remedy is confirmed by a dry run of the
next cycle with the change made: the gang starts in it, after the gangs before it have been served, and its
queue, its namespace's quotas and all reservations allow that. A remedy is therefore true for the state it was
computed from. The list may be incomplete: a trial is greedy (`Request.search`), so a change that only a
search would find may be missing.

Trials are bounded in three ways: a question tries only a few changes of each kind, only the first
`Config.remedies` gangs of each queue are examined, and a cycle makes about `Config.trials` trials for gangs
of one namespace (`core/work.py`); further gangs are examined in later cycles. Results are kept until
something changes.

For the same gangs an expected start is found: the time of their reservation, else the estimate of an
`Outlook`; or the reason why it is unknown.
"""

from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import replace
from typing import Final

from muster.core.demand import Demand, Request
from muster.core.explain.case import Case
from muster.core.explain.changes import HELPING
from muster.core.explain.expected_start import expected_start
from muster.core.explain.question import DryRun, Foresight, Question
from muster.core.parts import Parts
from muster.core.words.decisions import ExpectedStart, Explanation, Remedy
from muster.core.words.gang import Code, GangId
from muster.core.work import WorkBudget
from muster.core.world.gangs import GangState

#: Reasons that may disappear when other gangs end.
PASSING: Final = HELPING.keys() - {Code.QUEUE_CLOSED, Code.NOTHING_MATCHES}
#: How many times as much as in a cycle is tried for a gang that is examined on request.
PATIENCE: Final = 40


class Remedies:
    """Selects the gangs to examine in a cycle, and keeps what was found."""

    def __init__(
        self,
        first: int,
        trials: int,
        request: Callable[[GangState, Demand], Request],
        parts: Parts,
        dry_run: DryRun,
    ) -> None:
        """`first`, `trials`: `Config.remedies` and `trials`; `request`: what a gang would be placed with."""
        self._first, self._budget = first, WorkBudget(trials)
        self._request, self._parts, self._dry_run = request, parts, dry_run
        #: what was found, as long as nothing changes
        self._known: dict[GangId, tuple[Code, tuple[Remedy, ...], ExpectedStart | None]] = {}
        self._foresight = Foresight()
        self._as_of: Hashable = None
        #: by queue the gangs that are examined in this cycle, in serving order
        self._asked: dict[str, dict[GangId, tuple[GangState, Code]]] = {}
        self._now = 0.0

    def begin(
        self, waiting: Iterable[tuple[GangState, Explanation | None]], now: float
    ) -> Collection[GangId]:
        """Begin a cycle. Return the gangs that are examined. `waiting`: all that wait, and why, as served."""
        if self._as_of != self._dry_run.as_of or (now != self._now and self._dry_run.timed):
            self._known.clear()
            self._foresight = Foresight()
        self._now = now
        self._budget.next_cycle()
        self._asked.clear()
        full = set[str]()
        for state, explanation in waiting:
            if state.gang is None or state.gang.queue in full or explanation is None:
                continue
            asked = self._asked.setdefault(state.gang.queue, {})
            if len(asked) >= self._first:
                full.add(state.gang.queue)
            elif _may_be_helped(state, explanation):
                asked[state.id] = state, explanation.code
        return {gang for asked in self._asked.values() for gang in asked}

    def end(self) -> None:
        """End the cycle: all gangs have been explained."""
        self._as_of = self._dry_run.as_of

    @property
    def behind(self) -> bool:
        """Whether a gang was not examined because its namespace had used up its share of this cycle."""
        return self._budget.behind

    def known(self, state: GangState, explanation: Explanation) -> bool:
        """Whether remedies for this gang have been found already, and still hold."""
        known = self._known.get(state.id)
        return known is not None and known[0] is explanation.code

    def added(
        self, state: GangState, explanation: Explanation, case_of: Callable[[Demand], Case]
    ) -> Explanation:
        """Return the explanation of a gang that is examined, with its remedies and its expected start added.

        Call it for the gangs in serving order.
        """
        assert state.gang is not None
        asked = self._asked[state.gang.queue]
        known = self._known.get(state.id)
        if known is None or not self.known(state, explanation):
            if not self._budget.takes(state.gang.namespace, state.id):
                return explanation
            before = self._dry_run.trials
            question = self._question(state, explanation, case_of, asked.values(), self._foresight)
            known = self._known[state.id] = (explanation.code, *_answer(question))
            self._budget.charge(state.gang.namespace, self._dry_run.trials - before)
        _, found, start = known
        return replace(explanation, remedies=found, expected_start=start) if found or start else explanation

    def asked(
        self, state: GangState, explanation: Explanation, case_of: Callable[[Demand], Case]
    ) -> Explanation:
        """Return the explanation with remedies on request: for any gang, and with more trials."""
        if not _may_be_helped(state, explanation):
            return explanation
        only = [(state, explanation.code)]
        question = self._question(state, explanation, case_of, only, Foresight(), PATIENCE)
        found, start = _answer(question)
        return replace(explanation, remedies=found, expected_start=start)

    def _question(
        self,
        state: GangState,
        explanation: Explanation,
        case_of: Callable[[Demand], Case],
        asked: Iterable[tuple[GangState, Code]],
        foresight: Foresight,
        patience: int = 1,
    ) -> Question:
        gang, demand = state.gang, state.demand
        assert gang is not None
        assert demand is not None
        return Question(
            state,
            gang,
            explanation,
            self._request(state, demand),
            case_of(demand),
            self._parts,
            self._dry_run,
            self._now,
            [other for other, code in asked if code in PASSING],
            foresight,
            patience,
        )


def _may_be_helped(state: GangState, explanation: Explanation) -> bool:
    return state.gang is not None and state.waits and explanation.code in HELPING


def _answer(question: Question) -> tuple[tuple[Remedy, ...], ExpectedStart | None]:
    code = question.explanation.code
    remedies = tuple(remedy for change in HELPING[code] for remedy in change(question))
    return remedies, expected_start(question) if code in PASSING else None
