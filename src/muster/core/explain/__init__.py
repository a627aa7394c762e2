"""Why a gang waits: one code, the numbers that show it, and who holds what it lacks.

The code is the first that applies, in the order of docs/names.md, which is the order of `Code`. Two kinds of
reasons compete for that:

- what kept *this gang* from being tried, or from having what it was promised: its gate, a failed commit,
  and `GangState.refusal`, which whoever refused it in this cycle has left there (its queue, victims that
  are still leaving, somebody's reservation);
- why *what it wants* does not fit (`FITTING`, a function per code). That depends only on the want and on
  the ledger, so equal wants share one explanation until a node changes: ten thousand equal gangs are
  explained once, and the others are told nothing if it says the same as before.

The totals behind `InsufficientCapacity` are those of nodes that the gang's pods may use at all, so "8 are
free" never means eight on nodes that they cannot use.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from muster.core.decisions import Explanation, Wait
from muster.core.exact import Verdict
from muster.core.explain.case import Case, Cluster
from muster.core.explain.fragmented import fragmented
from muster.core.explain.insufficient_capacity import insufficient_capacity
from muster.core.explain.invalid import invalid
from muster.core.explain.nothing_matches import nothing_matches
from muster.core.gang import Code
from muster.core.gangs import BackOff, GangState, stands
from muster.core.placement import Want

__all__ = ["Explainer"]

#: Why a want does not fit: the first that has something to say. The last always has.
FITTING: Final[tuple[Callable[[Case], Explanation | None], ...]] = (
    invalid,
    nothing_matches,
    insufficient_capacity,
    fragmented,
)

#: The order of codes: the first that applies is told.
_ORDER: Final[Mapping[Code, int]] = {code: place for place, code in enumerate(Code)}


class Explainer:
    """Explains gangs against the ledger as it is now."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        #: explanations of wants as of a revision of the nodes
        self._explained: dict[Want, Explanation] = {}
        self._as_of = -1

    def explain(
        self,
        served: Iterable[GangState],
        gangs: Collection[GangState],
        verdicts: Mapping[Want, Verdict | None],
    ) -> list[Wait]:
        """What changed in the reasons of the gangs that wait. Each keeps its own in `explanation`.

        `gangs` are searched for blockers; `verdicts` are what is known beyond greedy placement.
        """
        earlier = self._explained
        if self._as_of != self._cluster.nodes.revision:
            self._explained = {}
        waits = []
        for state in served:
            explanation = self._reason(state, gangs, verdicts, earlier)
            same = explanation is state.explanation or explanation == state.explanation
            if explanation is not None and not same:
                waits.append(Wait(state.id, explanation))
            state.explanation = explanation
        self._as_of = self._cluster.nodes.revision
        return waits

    def _reason(
        self,
        state: GangState,
        gangs: Collection[GangState],
        verdicts: Mapping[Want, Verdict | None],
        earlier: Mapping[Want, Explanation],
    ) -> Explanation | None:
        gang, want = state.gang, state.want
        if gang is None:
            return None
        if gang.gate is not None:
            return None if stands(state) else Explanation(gang.gate.code, "gate", gang.gate.message)
        if want is None or not state.waits:
            return None
        explanation = self._explained.get(want)
        if explanation is None:
            explanation = self._misfit(Case(self._cluster, want, gangs, verdicts.get(want)))
            if explanation == (known := earlier.get(want)):
                explanation = known  # the same object: gangs that share it are told nothing, fast
            self._explained[want] = explanation
        if state.id in explanation.blockers:
            others = tuple(gang for gang in explanation.blockers if gang != state.id)
            explanation = replace(explanation, blockers=others)
        if state.refusal is not None:
            explanation = _first(state.refusal, explanation)
        if state.back_off is not None:
            explanation = _first(_commit_failed(state.back_off, explanation), explanation)
        return explanation

    def _misfit(self, case: Case) -> Explanation:
        return next(found for reason in FITTING if (found := reason(case)) is not None)


def _first(one: Explanation | None, other: Explanation) -> Explanation:
    """The one whose code comes first; of equal codes the first."""
    return other if one is None or _ORDER[other.code] < _ORDER[one.code] else one


def _commit_failed(back_off: BackOff, fitting: Explanation) -> Explanation | None:
    """The whole gang backs off; or some nodes must be kept off for a while, and nothing else is wrong."""
    if back_off.gang:
        message = back_off.message
    elif all(pod_set.fits >= pod_set.wanted for pod_set in fitting.pod_sets):
        message = f"{', '.join(sorted(back_off.excluded))} failed and must wait; nothing else fits"
    else:
        return None
    return Explanation(Code.COMMIT_FAILED, "commit", message, fitting.pod_sets)
