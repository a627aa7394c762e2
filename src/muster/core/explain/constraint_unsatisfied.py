"""ConstraintUnsatisfied: the demand would fit but for host ports, pod (anti-)affinity, or a spread."""

from collections.abc import Iterable, Iterator

from muster.core.demand import Part
from muster.core.explain.case import Case
from muster.core.explain.fragmented import certainty
from muster.core.placement import Infeasible, Reason
from muster.core.words.amounts import PODS, show
from muster.core.words.decisions import Explanation, PodSetExplanation
from muster.core.words.gang import Code


def constraint_unsatisfied(case: Case) -> Explanation | None:
    if not case.demand.constrained or not case.fits_without_constraints:
        return None
    sets = case.pod_sets
    constrained = {part.pod_set: part for part in case.demand.parts if part.constrained}
    short = next((told for told in sets if told.fits < told.wanted and told.name in constrained), None)
    if short is None:  # each part fits by itself, but not all together
        short = next((told for told in sets if told.name in constrained), sets[0])
        found = "not all together"
    else:
        found = f"{short.fits} of {short.wanted} fit"
    part = constrained.get(short.name, case.demand.parts[0])
    names = _decisive(part, short)
    message = (
        f"{show(PODS, short.wanted)} asked with {' and '.join(names)}; {found}{_certainty(case.verdict)}; "
    )
    message += "without that they would"
    return Explanation(Code.CONSTRAINT_UNSATISFIED, "placement", case.named(part, message), sets)


def _decisive(part: Part, told: PodSetExplanation) -> list[str]:
    """Return the constraints that keep the next pod off nodes; all constraints if none of them alone does."""
    all_ = list(constraints(part))
    return [text for key, text in all_ if key in told.limited_by] or [text for _, text in all_]


def constraints(part: Part) -> Iterator[tuple[str, str]]:
    """Yield a part's constraints besides room: the key in `limited_by`, and the wording for messages."""
    shape = part.shape
    if shape.ports:
        yield "ports", f"host port {', '.join(str(port.number) for port in shape.ports)}"
    if shape.pod_anti_affinity:
        yield "podAntiAffinity", f"anti-affinity by {_keys(term.key for term in shape.pod_anti_affinity)}"
    if part.affinity.pod_anti_affinity - set(shape.pod_anti_affinity):
        yield "podAntiAffinity", "other pods' anti-affinity"
    if shape.pod_affinity:
        yield "podAffinity", f"affinity by {_keys(term.key for term in shape.pod_affinity)}"
    if spreads := [spread.key for spread in shape.spread if spread.required]:
        yield "spread", f"spread over {_keys(spreads)}"


def _keys(keys: Iterable[str]) -> str:
    return ", ".join(sorted(set(keys)))


def _certainty(verdict: Infeasible | None) -> str:
    """Return the wording for the result of the pod-by-pod search; "" if there was none."""
    if verdict is None or verdict.reason not in (Reason.EXHAUSTED, Reason.BUDGET):
        return ""
    return certainty(verdict)
