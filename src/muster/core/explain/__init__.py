"""Explains why a gang waits: one code, the numbers behind it, and the gangs that hold what it lacks.

The code is the first that applies, in the order of docs/names.md. `Explainer._reason` follows that list; its
reasons are of two kinds:

- what kept *this gang* from being tried, or from using room that exists: its gate, a failed commit, and
  `GangState.refusal`, which the component that refused the gang in this cycle has set (its queue, victims
  that are still leaving, another gang's reservation);
- why *its demand* does not fit (`NEVER` and `NOW`, a function per code). That depends only on the demand and
  on the ledger, so equal demands share one explanation until a node changes: ten thousand equal gangs are
  explained once, and an explanation that is the same as before is not reported again.

A gang whose minimum runs does not wait, but pods above its minimum may: they start when there is room. The
gang is told why not one more of them starts, in the same codes; no dry run is made for them.

The totals behind `InsufficientCapacity` are those of nodes that the gang's pods may use at all, so "8 are
free" never means eight on nodes that they cannot use.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from muster.core.demand import Demand
from muster.core.explain.case import Case
from muster.core.explain.constraint_unsatisfied import constraint_unsatisfied
from muster.core.explain.fragmented import fragmented
from muster.core.explain.insufficient_capacity import insufficient_capacity
from muster.core.explain.invalid import invalid
from muster.core.explain.kept_by_queue import kept_by_queue
from muster.core.explain.nothing_matches import nothing_matches
from muster.core.explain.topology_unsatisfied import topology_unsatisfied
from muster.core.placement import Fit, Infeasible
from muster.core.queueing.admission import Admission
from muster.core.words.decisions import Explanation, Wait
from muster.core.words.gang import Code, GangId
from muster.core.world import World
from muster.core.world.gangs import GangState, stands, whole

if TYPE_CHECKING:  # remedies read the cases of this package
    from muster.core.explain.remedies import Remedies

__all__ = ["Explainer"]

_Reasons = tuple[Callable[[Case], Explanation | None], ...]

#: Why a demand would not fit even if the cluster were empty: the first that returns an explanation counts.
NEVER: Final[_Reasons] = (invalid, nothing_matches)
#: Why it does not fit now. The last always returns an explanation.
NOW: Final[_Reasons] = (insufficient_capacity, topology_unsatisfied, constraint_unsatisfied, fragmented)


#: Exact problems per cycle that may be solved to find out whether something besides room keeps gangs off.
PROBLEMS: Final = 4


class Explainer:
    """Explains gangs against the ledger as it is now."""

    def __init__(self, world: World, fit: Fit, admission: Admission, remedies: "Remedies") -> None:
        self._world, self._fit = world, fit
        self._admission = admission
        self._remedies = remedies
        #: by want and reasons, as of a revision of the nodes; None: no explanation applies
        self._explained: _Explained = {}
        self._earlier: _Explained = {}
        self._as_of = -1

    def explain(
        self, served: Iterable[GangState], verdict: Callable[[Demand], Infeasible | None], now: float
    ) -> list[Wait]:
        """Explain all waiting gangs, and return the explanations that changed, in serving order.

        Each gang keeps its own in `explanation`. `verdict`: what is known beyond greedy placement.
        """

        case_of = self._cases(verdict)
        if self._as_of != self._world.nodes.revision:
            self._earlier, self._explained = self._explained, {}
        with self._fit.exact.budget.lending(PROBLEMS):
            reasons = [(state, _without(state.id, self._reason(state, case_of))) for state in served]
        self._remedies.begin(reasons, now)
        waits = []
        for state, reason in reasons:
            explanation = reason
            if explanation is not None:
                explanation = self._remedies.added(state, explanation, case_of)
            same = explanation is state.explanation or explanation == state.explanation
            if explanation is not None and not same:
                waits.append(Wait(state.id, explanation))
            state.explanation = explanation
        self._remedies.end()
        self._as_of = self._world.nodes.revision
        return waits

    def asked(self, state: GangState, verdict: Callable[[Demand], Infeasible | None]) -> Explanation | None:
        """Return the last cycle's explanation with all remedies; None if the gang does not wait."""
        told = state.explanation
        return None if told is None else self._remedies.asked(state, told, self._cases(verdict))

    def _cases(self, verdict: Callable[[Demand], Infeasible | None]) -> Callable[[Demand], Case]:
        """Return a function that makes one case per demand; all cases read the ledger as it is now."""
        holding: dict[str, list[GangState]] = {}
        cases: dict[Demand, Case] = {}

        def case_of(demand: Demand) -> Case:
            case = cases.get(demand)
            if case is None:
                case = cases[demand] = Case(self._world, self._fit, demand, verdict(demand), holding)
            return case

        return case_of

    @property
    def behind(self) -> bool:
        """Whether remedies for some gangs are still to be found in later cycles."""
        return self._remedies.behind

    def _reason(self, state: GangState, case_of: Callable[[Demand], Case]) -> Explanation | None:
        """Return the explanation of the first code that applies, in the order of docs/names.md."""
        gang = state.gang
        if gang is None:
            return None
        if gang.gate is not None:  # Invalid, Gated, MembersMissing
            told = Explanation(gang.gate.code, "gate", gang.gate.message)
            return None if stands(state) and whole(state) else told
        if state.demand is None:
            return None
        if state.waits:
            refusal = state.refusal
            if refusal is None or refusal.code in (Code.OVER_SHARE, Code.HELD_FOR_RESERVATION):
                refusal = self._admission.used_up(state, state.demand) or refusal
            return self._of(state, state.demand, refusal, case_of)
        # pods for its held places are on their way
        return None if state.holds else self._of_surplus(state, state.demand, case_of)

    def _of_surplus(
        self, state: GangState, demand: Demand, case_of: Callable[[Demand], Case]
    ) -> Explanation | None:
        """Explain why not one more pod above the minimum starts. Computed once for equal gangs."""
        assert state.gang is not None
        more = self._world.demands.of(demand.parts, 1, demand.rules)
        refusal = self._admission.refusal(state, more) or state.refusal
        count = sum(map(len, state.vacant))

        def find() -> Explanation | None:
            told = self._of(state, more, refusal, case_of)
            if told is None or (
                told.code is Code.FRAGMENTED and all(s.fits >= s.wanted for s in told.pod_sets)
            ):
                return None  # there is room: it will be served
            pods = "1 more pod waits" if count == 1 else f"{count} more pods wait"
            return replace(told, message=f"its minimum runs, and {pods}: {told.message}")

        if state.back_off is not None or state.avoided:
            return find()
        key = more, count, state.gang.queue, refusal and (refusal.code, refusal.message)
        return self._once(key, find)

    def _of(
        self, state: GangState, demand: Demand, refusal: Explanation | None, case_of: Callable[[Demand], Case]
    ) -> Explanation | None:
        """Return the first code that applies to a demand that does not fit, from its queue's `Invalid` on."""
        code = None if refusal is None else refusal.code
        if code is Code.INVALID:
            return refusal
        if refusal is not None and code in (Code.QUEUE_CLOSED, Code.QUOTA_EXCEEDED):
            return self._kept(state, refusal, demand, case_of)
        if (never := self._first(NEVER, demand, case_of)) is not None:  # Invalid, NothingMatches
            return never
        if refusal is not None and code is Code.OVER_SHARE:
            return self._kept(state, refusal, demand, case_of)
        if state.back_off is not None or state.avoided:
            failed = _commit_failed(state, case_of(demand))
            if failed is not None:
                return failed
        if code is Code.WAITING_FOR_VICTIMS or code is Code.HELD_FOR_RESERVATION:
            return refusal
        return self._first(NOW, demand, case_of)

    def _first(
        self, reasons: _Reasons, demand: Demand, case_of: Callable[[Demand], Case]
    ) -> Explanation | None:
        """Return the first explanation that these reasons give. Computed once for equal demands."""
        return self._once((demand, reasons is NEVER), lambda: _told(reasons, case_of(demand)))

    def _kept(
        self, state: GangState, refusal: Explanation, demand: Demand, case_of: Callable[[Demand], Case]
    ) -> Explanation | None:
        """Return the queue's refusal with numbers added. Computed once for equal gangs."""
        assert state.gang is not None
        queue = state.gang.queue
        return self._once(
            (demand, queue, refusal.code, refusal.message),
            lambda: kept_by_queue(case_of(demand), self._world.queues, queue, refusal),
        )

    def _once(self, key: Hashable, find: Callable[[], Explanation | None]) -> Explanation | None:
        if key in self._explained:
            return self._explained[key]
        found = find()
        if found == (known := self._earlier.get(key)):
            found = known  # the same object: `explain` then compares by identity, which is fast
        self._explained[key] = found
        return found


_Explained = dict[Hashable, Explanation | None]


def _told(reasons: _Reasons, case: Case) -> Explanation | None:
    return next((told for reason in reasons if (told := reason(case)) is not None), None)


def _commit_failed(state: GangState, case: Case) -> Explanation | None:
    """Explain a failed commit: the gang backs off, or it only fits on nodes that it avoids for a while."""
    if state.back_off is not None:
        message = state.back_off.message
    elif all(pod_set.fits >= pod_set.wanted for pod_set in case.pod_sets):
        message = f"{', '.join(sorted(state.avoided))} failed and must wait; nothing else fits"
    else:
        return None
    return Explanation(Code.COMMIT_FAILED, "commit", message, case.pod_sets)


def _without(gang: GangId, explanation: Explanation | None) -> Explanation | None:
    """Remove the gang itself from its blockers."""
    if explanation is None or gang not in explanation.blockers:
        return explanation
    return replace(explanation, blockers=tuple(other for other in explanation.blockers if other != gang))
