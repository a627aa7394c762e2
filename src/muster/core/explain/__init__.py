"""Explains why a gang waits: one code, the numbers behind it, and the gangs that hold what it lacks.

The code is the first that applies, in the order of docs/reference/names.md. `Explainer._reason` follows that
list; its reasons are of two kinds:

- what kept *this gang* from being tried, or from using room that exists: its gate, a failed commit, and
  `GangState.refusal`, which the component that refused the gang in this cycle has set (its queue, victims
  that are still leaving, another gang's reservation);
- why *its demand* does not fit (`reasons.py`). That depends only on the demand and on the ledger, so equal
  demands share one explanation until a node changes: ten thousand equal gangs are explained once, and an
  explanation that is the same as before is not reported again.

A gang whose minimum runs does not wait, but pods above its minimum may: they start when there is room. The
gang is told why not one more of them starts, in the same codes; no remedies are sought for them.

The totals behind `InsufficientCapacity` are those of nodes that the gang's pods may use at all, so "8 are
free" never means eight on nodes that they cannot use.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import Final

from muster.core.demand import Demand
from muster.core.explain.case import Case
from muster.core.explain.reasons import NEVER, NOW, Reasons, kept_by_queue, nodes_avoided
from muster.core.explain.remedies import Remedies
from muster.core.parts import Parts
from muster.core.words.decisions import Explanation, Wait
from muster.core.words.gang import Code
from muster.core.work import WorkBudget
from muster.core.world.gangs import GangState, stands, whole

__all__ = ["Explainer", "Remedies"]

#: What an explanation takes besides its trials.
STEPS: Final = 20
#: Exact problems per cycle and namespace that are solved to find out whether something besides room keeps its
#: gangs off.
PROBLEMS: Final = 4
#: The reason of a gang that has been told none yet, and cannot be in this cycle.
UNEXPLAINED: Final = Explanation(
    Code.POSTPONED,
    "placement",
    "why it waits is found out in a later cycle: its namespace has used up its share of this cycle",
)


class Explainer:
    """Explains gangs against the ledger as it is now."""

    def __init__(self, parts: Parts, remedies: Remedies, steps: int | None) -> None:
        """`steps`: as in `Config`."""
        self._work = WorkBudget(steps)
        self._world, self._fit, self._admission = parts.world, parts.fit, parts.admission
        self._infeasible, self._remedies = parts.infeasible, remedies
        #: the cases of this cycle, or of one request, and the holders that they share
        self._cases: dict[Demand, Case] = {}
        self._holding: dict[str, list[GangState]] = {}
        #: exact problems that were solved in this cycle, by namespace
        self._problems = Counter[str]()
        #: by demand and reasons, as of a revision of the nodes; None: no explanation applies
        self._explained: dict[Hashable, Explanation | None] = {}
        self._earlier: dict[Hashable, Explanation | None] = {}
        self._as_of = -1

    def explain(self, served: Iterable[GangState], now: float) -> list[Wait]:
        """Explain all waiting gangs, and return the explanations that changed, in serving order.

        Each gang keeps its own in `explanation`.
        """
        self._begin()
        self._work.next_cycle()
        self._problems.clear()
        if self._as_of != self._world.nodes.revision:
            self._earlier, self._explained = self._explained, {}
        reasons = self._reasons(served)
        examined = self._remedies.begin(reasons, now)
        waits = []
        for state, explanation in reasons:
            if explanation is not None and state.id in examined:
                explanation = self._with_remedies(state, explanation)
            if explanation is state.explanation:
                continue
            if explanation is not None and explanation != state.explanation:
                waits.append(Wait(state.id, explanation))
            state.explanation = explanation
        self._remedies.end()
        self._as_of = self._world.nodes.revision
        return waits

    def asked(self, state: GangState) -> Explanation | None:
        """Return the last cycle's explanation with all remedies; None if the gang does not wait."""
        self._begin()
        told = state.explanation
        return None if told is None else self._remedies.asked(state, told, self._case)

    @property
    def postponed(self) -> bool:
        """Whether some explanations are still as of an earlier cycle, or are to be found in a later one."""
        return self._work.behind

    @property
    def behind(self) -> bool:
        """Whether remedies for some gangs are still to be found in later cycles."""
        return self._remedies.behind

    def _begin(self) -> None:
        """Start over: read the ledger again."""
        self._cases, self._holding = {}, {}

    def _case(self, demand: Demand) -> Case:
        case = self._cases.get(demand)
        if case is None:
            case = Case(self._world, self._fit, demand, self._infeasible.answer(demand), self._holding)
            self._cases[demand] = case
        return case

    def _reasons(self, served: Iterable[GangState]) -> list[tuple[GangState, Explanation | None]]:
        """Return why each gang waits. Gangs of one class that were refused alike have one reason."""
        reasons: list[tuple[GangState, Explanation | None]] = []
        known: dict[tuple[object, int], Explanation | None] = {}
        for state in served:
            key = state.peers, id(state.refusal)
            if state.peers is None or key not in known:
                known[key] = self._found_now(state)
            reason = known[key]
            if reason is not None and reason.code is Code.POSTPONED:
                reason = state.explanation or reason  # the first of its class may be new
            if reason is not None and state.id in reason.blockers:
                others = tuple(other for other in reason.blockers if other != state.id)
                reason = replace(reason, blockers=others)
            reasons.append((state, reason))
        return reasons

    def _with_remedies(self, state: GangState, explanation: Explanation) -> Explanation:
        """Add the remedies of a gang that is examined, unless its namespace has used up its share."""
        assert state.gang is not None
        namespace, done = state.gang.namespace, self._world.nodes.steps
        if not self._remedies.known(state, explanation) and not self._work.takes(namespace, state.id):
            return explanation
        added = self._remedies.added(state, explanation, self._case)
        self._work.charge(namespace, self._world.nodes.steps - done, len(self._world.nodes))
        return added

    def _found_now(self, state: GangState) -> Explanation | None:
        """Return why a gang waits; if it was postponed, or its namespace has used up its share: as before.

        A gang that waits and has been told nothing yet is told what is known: its refusal, or `UNEXPLAINED`.
        """
        namespace, before = state.gang.namespace if state.gang is not None else "", state.explanation
        if state.refusal is not None and state.refusal.code is Code.POSTPONED:
            return before or state.refusal
        if state.demand is not None and not self._served(namespace, state.demand):
            return before or (state.refusal or UNEXPLAINED if state.waits else None)
        done, left = self._world.nodes.steps, PROBLEMS - self._problems[namespace]
        with self._fit.exact.lending(left):
            reason = self._reason(state)
            self._problems[namespace] += left - self._fit.exact.lent
        self._work.charge(namespace, self._world.nodes.steps - done, len(self._world.nodes))
        return reason

    def _served(self, namespace: str, demand: Demand) -> bool:
        """Whether a demand is explained in this cycle; all of its gangs then are, by what is known of it."""
        return self._work.taken(namespace, demand) or self._work.takes(namespace, demand)

    def _reason(self, state: GangState) -> Explanation | None:
        """Return the explanation of the first code that applies, in the order of docs/reference/names.md."""
        gang, demand = state.gang, state.demand
        if gang is None:
            return None
        if gang.gate is not None:  # Invalid, Gated, MembersMissing
            told = Explanation(gang.gate.code, "gate", gang.gate.message)
            return None if stands(state) and whole(state) else told
        if demand is None:
            return None
        if state.waits:
            refusal = state.refusal
            if refusal is None or refusal.code in (Code.OVER_SHARE, Code.HELD_FOR_RESERVATION):
                refusal = self._admission.used_up(state, demand) or refusal
            return self._of(state, gang.queue, demand, refusal)
        # pods for its held places are on their way
        return None if state.holds else self._of_surplus(state, gang.queue, demand)

    def _of_surplus(self, state: GangState, queue: str, demand: Demand) -> Explanation | None:
        """Explain why not one more pod above the minimum starts. Computed once for equal gangs."""
        more = self._world.demands.of(demand.parts, 1, demand.rules)
        refusal = self._admission.refusal(state, more) or state.refusal
        count = sum(map(len, state.vacant))

        def find() -> Explanation | None:
            told = self._of(state, queue, more, refusal)
            if told is None or (
                told.code is Code.FRAGMENTED and all(s.fits >= s.wanted for s in told.pod_sets)
            ):
                return None  # there is room: it will be served
            pods = "1 more pod waits" if count == 1 else f"{count} more pods wait"
            return replace(told, message=f"its minimum runs, and {pods}: {told.message}")

        if state.back_off is not None or state.avoided:
            return find()
        return self._once((more, count, queue, refusal and (refusal.code, refusal.message)), find)

    def _of(
        self, state: GangState, queue: str, demand: Demand, refusal: Explanation | None
    ) -> Explanation | None:
        """Return the first code that applies to a demand that does not fit, from its queue's `Invalid` on."""
        code = None if refusal is None else refusal.code
        if code is Code.INVALID:
            return refusal
        if refusal is not None and code in (Code.QUEUE_CLOSED, Code.QUOTA_EXCEEDED):
            return self._kept(queue, refusal, demand)
        if (never := self._first(NEVER, demand)) is not None:  # Invalid, NothingMatches
            return never
        if refusal is not None and code is Code.OVER_SHARE and self._world.queues.could_run(state, demand):
            return self._kept(queue, refusal, demand)
        failing = state.back_off is not None or state.avoided
        if failing and (failed := _commit_failed(state, self._case(demand))) is not None:
            return failed
        if (avoided := self._keeps_off(state, demand)) is not None:
            return avoided
        if code is Code.WAITING_FOR_VICTIMS or code is Code.HELD_FOR_RESERVATION:
            return refusal
        return self._first(NOW, demand)

    def _keeps_off(self, state: GangState, demand: Demand) -> Explanation | None:
        """Explain that only nodes would do on which pods have failed. Computed once for equal gangs."""
        failed, gang = self._world.failed_starts, state.gang
        assert gang is not None
        origin = gang.origin or gang.id
        if not failed.of(origin).avoided and not failed.avoided:
            return None
        told = failed.told(origin, {gang.namespace, *(pod_set.namespace for pod_set in gang.pod_sets)})
        key = (demand, tuple(sorted(told.items())), failed.avoided)
        return self._once(key, lambda: nodes_avoided(self._case(demand), told))

    def _first(self, reasons: Reasons, demand: Demand) -> Explanation | None:
        """Return the first explanation that these reasons give. Computed once for equal demands."""

        def find() -> Explanation | None:
            self._world.nodes.steps += STEPS
            case = self._case(demand)
            return next((told for reason in reasons if (told := reason(case)) is not None), None)

        return self._once((demand, reasons is NEVER), find)

    def _kept(self, queue: str, refusal: Explanation, demand: Demand) -> Explanation | None:
        """Return the queue's refusal with numbers added. Computed once for equal gangs."""
        key, queues = (demand, queue, refusal.code, refusal.message), self._world.queues
        return self._once(key, lambda: kept_by_queue(self._case(demand), queues, queue, refusal))

    def _once(self, key: Hashable, find: Callable[[], Explanation | None]) -> Explanation | None:
        if key in self._explained:
            return self._explained[key]
        found = find()
        if found == (known := self._earlier.get(key)):
            found = known  # the same object: `explain` then compares by identity, which is fast
        self._explained[key] = found
        return found


def _commit_failed(state: GangState, case: Case) -> Explanation | None:
    """Explain a failed commit: the gang backs off, or it only fits on nodes that it avoids for a while."""
    if state.back_off is not None:
        message = state.back_off.message
    elif all(pod_set.fits >= pod_set.wanted for pod_set in case.pod_sets):
        message = f"{', '.join(sorted(state.avoided))} failed and must wait; nothing else fits"
    else:
        return None
    return Explanation(Code.COMMIT_FAILED, "commit", message, case.pod_sets)
