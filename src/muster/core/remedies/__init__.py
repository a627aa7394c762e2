"""What would start a gang that waits: changes that were tried on the ledger, not guessed.

A reason says what is wrong; a remedy says what would be right. Each is verified the way a start is: `Fit.fit`
between a mark of the ledger and its rollback, with the change made (fewer pods, smaller ones, a gang's
pods taken away …). What is told therefore holds for the state that it is told of. The opposite is not
claimed: a trial is greedy (`Claim.search`), so a change that only a search would find may be missing.

Trials are bounded three times: a question asks at most a few of each kind, only the first `Config.remedies`
gangs of each queue are asked about, and a cycle makes about `Config.trials` trials; who comes after that
has none until a later cycle. Gangs that want the same in one queue share theirs until a node changes.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from muster.core.decisions import Explanation, Remedy
from muster.core.explain.case import Case
from muster.core.fit import Claim
from muster.core.gang import Code
from muster.core.gangs import GangState
from muster.core.placement import Want
from muster.core.remedies.blocker_ends import blocker_ends
from muster.core.remedies.fewer_pods import fewer_pods
from muster.core.remedies.question import Admission, Question
from muster.core.remedies.smaller_pods import smaller_pods

__all__ = ["Question", "Remedies"]

_Search = Callable[[Question], Iterator[Remedy]]

#: In the order in which they are told: what the owner can change first, then what others would have to do.
KINDS: Final[tuple[_Search, ...]] = (fewer_pods, smaller_pods, blocker_ends)

#: Reasons that a change of the gang's own demand, or of somebody else's, does not touch.
_BEYOND: Final = frozenset(
    {Code.INVALID, Code.GATED, Code.MEMBERS_MISSING, Code.QUEUE_CLOSED, Code.COMMIT_FAILED}
)

_Key = tuple[Want, str, Code]


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

    def next_cycle(self, *, changed: bool) -> None:
        """`changed`: the cluster is not as it was in the last cycle."""
        self._left = self._trials
        self._asked.clear()
        if changed or self._rules != self._admission.rules:
            self._known.clear()
            self._rules = self._admission.rules

    def added(
        self, state: GangState, explanation: Explanation, case_of: Callable[[Want], Case]
    ) -> Explanation:
        """The explanation of a gang that waits, with its remedies. Gangs are told in serving order."""
        if state.gang is None or state.want is None or explanation.code in _BEYOND:
            return explanation
        queue = state.gang.queue
        self._asked[queue] += 1
        if self._asked[queue] > self._first:
            return explanation
        key = (state.want, queue, explanation.code)
        known = self._known.get(key)
        if known is None:
            if self._left <= 0:
                return explanation
            claim, case = self._claim(state, state.want), case_of(state.want)
            question = Question(state, explanation, claim, case, self._admission)
            known = self._known[key] = replace(explanation, remedies=remedies(question))
            self._left -= question.trials
        if (known.blockers, known.message) == (explanation.blockers, explanation.message):
            return known  # one object: equal gangs share it
        return replace(explanation, remedies=known.remedies)


def remedies(question: Question) -> tuple[Remedy, ...]:
    """All that is found, whoever asks: for one gang, on request."""
    return tuple(remedy for kind in KINDS for remedy in kind(question))
