"""A pod's affinity context: its labels, as far as its own terms read them, and anti-affinity against it."""

from dataclasses import dataclass, replace
from typing import Final

from muster.core.words.events import NOTHING, Footprint
from muster.core.words.gang import PodTerm, Shape, Spread


@dataclass(frozen=True, slots=True)
class AffinityContext:
    """The affinity context of one part of a demand."""

    #: the pod's footprint, reduced to what terms of its own shape read, so that more demands are equal
    footprint: Footprint = NOTHING
    #: required anti-affinity of pods on nodes that selects it
    pod_anti_affinity: frozenset[PodTerm] = frozenset()


NO_CONTEXT: Final = AffinityContext()


def affinity_context(
    shape: Shape, footprint: Footprint, pod_anti_affinity: frozenset[PodTerm]
) -> AffinityContext:
    terms: list[PodTerm | Spread] = [*shape.pod_affinity, *shape.pod_anti_affinity, *shape.spread]
    terms += [term for _, term in shape.preferred_pod_affinity]
    if not terms:
        return AffinityContext(NOTHING, pod_anti_affinity) if pod_anti_affinity else NO_CONTEXT
    keys = {requirement.key for term in terms for requirement in term.labels}
    labels = tuple((key, value) for key, value in footprint.labels if key in keys)
    return AffinityContext(replace(footprint, labels=labels), pod_anti_affinity)
