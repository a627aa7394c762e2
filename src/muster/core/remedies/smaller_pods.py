"""With smaller pods: twice as many of half the size, or four times as many of a quarter."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from muster.core.decisions import Remedy
from muster.core.explain.amounts import bare, show
from muster.core.gang import Amounts, Shape
from muster.core.nodes import PODS
from muster.core.placement import Part
from muster.core.remedies.question import NOW, Question

#: Into how many parts a pod is cut.
FACTORS: Final = (2, 4)


def smaller_pods(question: Question) -> Iterator[Remedy]:
    """At most one: the largest that fits. Only whole devices and whole CPUs count as pods of their own."""
    if question.state.begun:
        return
    short = {part.pod_set for part, _ in question.short}
    for factor in FACTORS:
        cut = {part.pod_set: _cut(part, factor) for part in question.want.parts if part.pod_set in short}
        if not cut or None in cut.values():
            return
        parts = tuple(cut.get(part.pod_set) or part for part in question.want.parts)
        more = sum(new.need - old.need for new, old in zip(parts, question.want.parts, strict=True))
        if question.fits(replace(question.want, parts=parts, need=question.want.need + more)):
            changes = [
                _change(question, old, new) for old, new in zip(question.want.parts, parts, strict=True)
            ]
            yield Remedy(f"with {' and '.join(change for change in changes if change)}", NOW)
            return


def _cut(part: Part, factor: int) -> Part | None:
    """The part in pods of a fraction of the size; None if a pod cannot be cut so, or is optional."""
    requests = _divided(part.shape.requests, factor)
    if requests is None or not part.need or part.shape.gpu_share:
        return None
    shape: Shape = replace(part.shape, requests=requests)
    return replace(part, shape=shape, count=part.count * factor, need=part.need * factor)


def _divided(requests: Amounts, factor: int) -> Amounts | None:
    """Devices divide without remainder, or there are whole CPUs to divide; the rest is rounded up."""
    whole = [amount % factor == 0 for resource, amount in requests if "/" in resource]
    cpus = dict(requests).get("cpu", 0)
    if not (all(whole) if whole else cpus >= 1000 * factor):
        return None
    return tuple((resource, -(-amount // factor)) for resource, amount in requests if resource != PODS)


def _change(question: Question, old: Part, new: Part) -> str:
    """ "8 × 2 GPUs instead of 4 × 4"."""
    if old is new:
        return ""
    vector = question.case.cluster.slots.of(old.shape)
    resource, _, amount = question.case.asked(vector)[0]
    less = dict(new.shape.requests).get(resource, 0)
    change = f"{new.need} × {show(resource, less)} instead of {old.need} × {bare(resource, amount)}"
    return f"{old.pod_set} as {change}" if len(question.want.parts) > 1 else change
