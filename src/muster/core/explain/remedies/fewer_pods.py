"""Remedy "with fewer pods": one set reduced to what fits beside the others; else all sets that do not fit.

The number that greedy placement reached is tried first. It is nearly always the answer, so that the search
above it (a bisection, as what fits with n pods fits with fewer) rarely takes a second step.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from muster.core.demand import Demand
from muster.core.explain.remedies.question import NOW, Question
from muster.core.words.amounts import PODS, bare, show
from muster.core.words.decisions import PodSetExplanation, Remedy
from muster.core.words.gang import Gang, PodSet


def fewer_pods(question: Question) -> Iterator[Remedy]:
    """Yield at most one remedy; none for gangs that have started: their size is what runs already."""
    if question.state.begun:
        return
    sets = question.case.pod_sets
    wanted = {told.name: told.wanted for told in sets}
    for told in sorted(sets, key=lambda told: (told.fits >= told.wanted, -told.wanted)):
        for most in _sizes(question, wanted, told):
            if question.starts(_edited(question, wanted, {told.name: most})):
                yield Remedy(_change(question, wanted, {told.name: most}), NOW)
                return
    short = {told.name: told.fits for told in sets if told.fits < told.wanted}
    if (
        len(short) > 1
        and all(short.values())
        and question.fits(_of_size(question.demand, wanted | short))
        and question.starts(_edited(question, wanted, short))
    ):
        yield Remedy(_change(question, wanted, short), NOW)


def _sizes(question: Question, wanted: Mapping[str, int], told: PodSetExplanation) -> Iterator[int]:
    """Yield sizes to try: first as many as there are slots; reservations may allow fewer."""
    if told.fits and question.demand.fits_by_slots:
        yield told.fits
    if most := _most(question, wanted, told):
        yield most


def _most(question: Question, wanted: Mapping[str, int], told: PodSetExplanation) -> int:
    """Return the largest number of pods of one set, below what is wanted, that fits; 0 if none does."""

    def fits(count: int) -> bool:
        return question.fits(_of_size(question.demand, {**wanted, told.name: count}))

    low, high = 0, told.wanted
    for guess in (told.fits, told.fits + 1):
        if low < guess < high:
            low, high = (guess, high) if fits(guess) else (low, guess)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _of_size(demand: Demand, counts: Mapping[str, int]) -> Demand:
    parts = tuple(
        replace(part, count=counts[part.pod_set], need=counts[part.pod_set])
        for part in demand.parts
        if part.pod_set in counts
    )
    return replace(demand, parts=parts, need=sum(counts.values()))


def _edited(question: Question, wanted: Mapping[str, int], counts: Mapping[str, int]) -> Gang:
    """Return the gang with so many pods; an elastic set gets so small a minimum instead."""
    gang = question.gang

    def edited(pod_set: PodSet) -> PodSet:
        count = counts.get(pod_set.name)
        if count is None:
            return pod_set
        least = min(pod_set.min_count, count)
        if wanted[pod_set.name] < pod_set.count:
            return replace(pod_set, min_count=least)
        uncreated = min(pod_set.uncreated, count)
        return replace(
            pod_set, count=count, min_count=least, ranks=pod_set.ranks[:count], uncreated=uncreated
        )

    fewer = sum(wanted[name] - count for name, count in counts.items())
    least = max(gang.min_count - fewer, 0)
    return replace(gang, pod_sets=tuple(map(edited, gang.pod_sets)), min_count=least)


def _change(question: Question, wanted: Mapping[str, int], counts: Mapping[str, int]) -> str:
    """Return the wording: "with 12 GPUs (3 × 4)", "with 3 instead of 4 pods of worker"."""
    sizes = {part.pod_set: part.count for part in question.demand.parts}
    least = {name: "a minimum of " if wanted[name] < sizes[name] else "" for name in counts}
    if len(question.demand.parts) > 1:
        changes = [
            f"{least[name]}{count} instead of {wanted[name]} pods of {name}" for name, count in counts.items()
        ]
        return f"with {' and '.join(changes)}"
    (part,) = question.demand.parts
    count = counts[part.pod_set]
    resource, _, amount = question.case.asked(question.case.fit.slots.of(part.shape))[0]
    if resource == PODS:
        return f"with {least[part.pod_set]}{show(PODS, count)}"
    return f"with {least[part.pod_set]}{show(resource, count * amount)} ({count} × {bare(resource, amount)})"
