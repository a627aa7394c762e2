"""What would start a gang that waits: changes that were tried on the ledger, not guessed.

A reason says what is wrong; a remedy says what would be right. Each is verified the way a start is: `Fit.fit`
between a mark of the ledger and its rollback, with the change made (fewer pods, smaller ones, a gang's
pods taken away …); its queue must allow it, and nobody with a reservation may be delayed by it. What is told
therefore holds for the state that it is told of. The opposite is not claimed: a trial is greedy
(`Claim.search`), so a change that only a search would find may be missing.

Trials are bounded three times: a question asks at most a few of each kind, only the first `Config.remedies`
gangs of each queue are asked about, and a cycle makes about `Config.trials` trials; who comes after that
has none until a later cycle. Gangs that want the same in one queue share theirs until a node changes.

The same gangs are told when they are expected to start: at the time of their reservation, else when
`Reservations.earliest` says.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from muster.core.decisions import ExpectedStart, Explanation, Remedy
from muster.core.ends import expected
from muster.core.explain.case import Case
from muster.core.fit import Claim
from muster.core.gang import Code, GangId
from muster.core.gangs import GangState
from muster.core.placement import Want
from muster.core.remedies.blocker_ends import blocker_ends
from muster.core.remedies.expected_start import expected_start
from muster.core.remedies.fewer_pods import fewer_pods
from muster.core.remedies.may_not_preempt import may_not_preempt
from muster.core.remedies.other_queue import other_queue
from muster.core.remedies.question import Admission, Question
from muster.core.remedies.smaller_pods import smaller_pods
from muster.core.remedies.without_layer import without_layer

__all__ = ["Question", "Remedies"]

_Search = Callable[[Question], Iterator[Remedy]]

#: What helps where there is no room for it, in the order in which it is told: what the owner can change
#: first, then what others would have to do.
ROOM: Final[tuple[_Search, ...]] = (
    fewer_pods,
    smaller_pods,
    without_layer,
    blocker_ends,
    may_not_preempt,
)
#: What helps where its queue does not let it.
QUEUE: Final[tuple[_Search, ...]] = (fewer_pods, smaller_pods, other_queue, blocker_ends)
#: What helps, by reason. Against others nothing does that could be changed here.
KINDS: Final[Mapping[Code, tuple[_Search, ...]]] = {
    Code.QUEUE_CLOSED: (other_queue,),
    Code.QUOTA_EXCEEDED: (*QUEUE, may_not_preempt),
    Code.OVER_SHARE: QUEUE,
    Code.NOTHING_MATCHES: (smaller_pods,),
    Code.HELD_FOR_RESERVATION: ROOM,
    Code.INSUFFICIENT_CAPACITY: ROOM,
    Code.TOPOLOGY_UNSATISFIED: ROOM,
    Code.CONSTRAINT_UNSATISFIED: ROOM,
    Code.FRAGMENTED: ROOM,
}
#: Reasons that pass when others end.
PASSING: Final = frozenset(
    {
        Code.OVER_SHARE,
        Code.HELD_FOR_RESERVATION,
        Code.INSUFFICIENT_CAPACITY,
        Code.TOPOLOGY_UNSATISFIED,
        Code.CONSTRAINT_UNSATISFIED,
        Code.FRAGMENTED,
    }
)

_HELPED: Final = KINDS.keys() | PASSING

#: Equal gangs, as far as a change would help them equally.
_Key = tuple[Want, str, Code, int, bool, float]


class Remedies:
    """Who is asked about in a cycle, and what was found for equals."""

    def __init__(
        self, first: int, trials: int, claim: Callable[[GangState, Want], Claim], admission: Admission
    ) -> None:
        """`claim`: what a gang would be placed with; `admission`: what its queue would say to that."""
        self._admission = admission
        self._rules = admission.rules
        self._first = first
        self._trials = trials
        self._claim = claim
        self._left = trials
        self._asked: Counter[str] = Counter()
        self._known: dict[_Key, Explanation] = {}
        self._starts: dict[GangId, ExpectedStart | None] = {}
        self._now = 0.0

    def next_cycle(self, now: float, *, changed: bool) -> None:
        """`changed`: the cluster is not as it was in the last cycle."""
        self._now = now
        self._left = self._trials
        self._asked.clear()
        if changed or self._rules != self._admission.rules:
            self._known.clear()
            self._rules = self._admission.rules

    def added(
        self, state: GangState, explanation: Explanation, case_of: Callable[[Want], Case]
    ) -> Explanation:
        """The explanation of a gang that waits, with its remedies and its expected start.

        Gangs are told in serving order.
        """
        if state.gang is None or state.want is None or explanation.code not in _HELPED:
            return explanation
        queue = state.gang.queue
        self._asked[queue] += 1
        if self._asked[queue] > self._first:
            return explanation
        question = Question(
            state,
            explanation,
            self._claim(state, state.want),
            case_of(state.want),
            self._admission,
            self._now,
        )
        explanation = self._with_remedies(queue, question)
        if explanation.code not in PASSING:
            return explanation
        start = self._start(question)
        return explanation if start is None else replace(explanation, expected_start=start)

    def _with_remedies(self, queue: str, question: Question) -> Explanation:
        explanation = question.explanation
        gang = question.state.gang
        assert gang is not None
        key = (question.want, queue, explanation.code, gang.priority, gang.preempts, expected(gang))
        known = self._known.get(key)
        if known is None:
            if self._left <= 0:
                return explanation
            known = self._known[key] = replace(explanation, remedies=remedies(question))
            self._left -= question.trials
        if (known.blockers, known.message) == (explanation.blockers, explanation.message):
            return known  # one object: equal gangs share it
        return replace(explanation, remedies=known.remedies)

    def _start(self, question: Question) -> ExpectedStart | None:
        gang = question.state.id
        if gang not in self._starts:
            before = question.trials
            start = expected_start(question, search=self._left > 0)
            self._left -= question.trials - before
            self._starts[gang] = start
        return self._starts[gang]


def remedies(question: Question) -> tuple[Remedy, ...]:
    """All that is found, whoever asks: for one gang, on request."""
    kinds = KINDS.get(question.explanation.code, ())
    return tuple(remedy for kind in kinds for remedy in kind(question))
