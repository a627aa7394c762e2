"""A pod's affinity context: its labels, as far as its own terms read them, and anti-affinity against it."""

from dataclasses import dataclass, replace
from typing import Final

from muster.core.words.events import NOTHING, Presence
from muster.core.words.gang import PodTerm, Shape, Spread


@dataclass(frozen=True, slots=True)
class AffinityContext:
    """The affinity context of one part of a demand."""

    #: the pod's footprint, reduced to what terms of its own shape read, so that more wants are equal
    presence: Presence = NOTHING
    #: required anti-affinity of pods on nodes that selects it
    apart: frozenset[PodTerm] = frozenset()


NO_CONTEXT: Final = AffinityContext()


def affinity_context(shape: Shape, presence: Presence, apart: frozenset[PodTerm]) -> AffinityContext:
    terms: list[PodTerm | Spread] = [*shape.near, *shape.apart, *shape.spread]
    terms += [term for _, term in shape.drawn]
    if not terms:
        return AffinityContext(NOTHING, apart) if apart else NO_CONTEXT
    keys = {requirement.key for term in terms for requirement in term.labels}
    labels = tuple((key, value) for key, value in presence.labels if key in keys)
    return AffinityContext(replace(presence, labels=labels), apart)
