"""Remedy "with smaller pods": twice as many of half the size, or four times as many of a quarter."""

from collections.abc import Container, Iterator
from dataclasses import replace
from typing import Final

from muster.core.demand import Part
from muster.core.explain.remedies.question import NOW, Question
from muster.core.words.amounts import PODS, bare, show
from muster.core.words.decisions import Remedy
from muster.core.words.gang import Amounts, Gang, PodSet, Shape

#: Into how many parts a pod is cut.
FACTORS: Final = (2, 4)


def smaller_pods(question: Question) -> Iterator[Remedy]:
    """Yield at most one remedy: the largest pods that fit. Each pod keeps whole devices or whole CPUs."""
    if question.state.begun:
        return
    short = {part.pod_set for part, _ in question.short}
    for factor in FACTORS:
        cut = {part.pod_set: _cut(part, factor) for part in question.demand.parts if part.pod_set in short}
        if not cut or None in cut.values():
            return
        parts = tuple(cut.get(part.pod_set) or part for part in question.demand.parts)
        more = sum(new.need - old.need for new, old in zip(parts, question.demand.parts, strict=True))
        demand = replace(question.demand, parts=parts, need=question.demand.need + more)
        if question.fits(demand) and question.starts(_edited(question, cut, factor, more)):
            changes = [
                _change(question, old, new) for old, new in zip(question.demand.parts, parts, strict=True)
            ]
            yield Remedy(f"with {' and '.join(change for change in changes if change)}", NOW)
            return


def _edited(question: Question, cut: Container[str], factor: int, more: int) -> Gang:
    gang = question.gang

    def edited(pod_set: PodSet) -> PodSet:
        requests = _divided(pod_set.shape.requests, factor) if pod_set.name in cut else None
        if requests is None:
            return pod_set
        return replace(
            pod_set,
            shape=replace(pod_set.shape, requests=requests),
            count=pod_set.count * factor,
            min_count=pod_set.min_count * factor,
            uncreated=pod_set.uncreated * factor,
            ranks=(),
        )

    return replace(gang, pod_sets=tuple(map(edited, gang.pod_sets)), min_count=gang.min_count + more)


def _cut(part: Part, factor: int) -> Part | None:
    """Return the part in pods of a fraction of the size; None if a pod cannot be cut so, or is optional."""
    requests = _divided(part.shape.requests, factor)
    if requests is None or not part.need or part.shape.gpu_share:
        return None
    shape: Shape = replace(part.shape, requests=requests)
    return replace(part, shape=shape, count=part.count * factor, need=part.need * factor)


def _divided(requests: Amounts, factor: int) -> Amounts | None:
    """Return divided requests: devices without remainder, or whole CPUs; the other amounts are rounded up.

    None if they cannot be divided so.
    """
    whole = [amount % factor == 0 for resource, amount in requests if "/" in resource]
    cpus = dict(requests).get("cpu", 0)
    if not (all(whole) if whole else cpus >= 1000 * factor):
        return None
    return tuple((resource, -(-amount // factor)) for resource, amount in requests if resource != PODS)


def _change(question: Question, old: Part, new: Part) -> str:
    """Return the wording: "8 × 2 GPUs instead of 4 × 4"."""
    if old is new:
        return ""
    vector = question.case.fit.slots.of(old.shape)
    resource, _, amount = question.case.asked(vector)[0]
    less = dict(new.shape.requests).get(resource, 0)
    change = f"{new.need} × {show(resource, less)} instead of {old.need} × {bare(resource, amount)}"
    return f"{old.pod_set} as {change}" if len(question.demand.parts) > 1 else change
