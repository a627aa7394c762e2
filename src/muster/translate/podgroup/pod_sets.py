"""The pod sets of bare pods: pods of equal shape, named after that shape for ever.

The name depends on the shape and not on a pod or a number: pods are created and deleted, and the places that
are written on bound pods must keep their meaning for ever. Pods that select on labels which they carry
themselves (to spread, or to avoid each other) are alike only if those labels are equal.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import Final

from muster.core.words.gang import Labels, NodeTerm, Requirement, Shape, Toleration

PODS: Final = "pods"


@lru_cache(maxsize=4096)
def pod_set_name(shape: Shape, labels: Labels = (), *, namespaces: bool = False) -> str:
    """Returns the same name for the same shape, for ever: it is written on bound pods.

    `labels` are those of the pod's own labels that it selects on. The namespaces that its terms select
    change, so they only count if two sets of a gang differ in nothing else.
    """
    text = _told(shape if namespaces else _anywhere(shape)) + (repr(labels) if labels else "")
    return f"{PODS}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


#: Fields that names have always contained; other fields are in a name only if they are not the default.
_ALWAYS: Final = {
    Shape: ("requests", "selector", "affinity", "tolerations"),
    Toleration: ("key", "value", "effect"),
    NodeTerm: ("labels", "fields"),
    Requirement: ("key", "operator", "values"),
}


def _told(value: object) -> str:
    """Formats a value like `repr`, without fields that have their default: new fields change no name."""
    if isinstance(value, tuple):
        inner = ", ".join(map(_told, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if not is_dataclass(value) or isinstance(value, type):
        return repr(value)
    always = _ALWAYS.get(type(value), ())
    said = (
        f"{field.name}={_told(found)}"
        for field in fields(value)
        if (found := getattr(value, field.name)) != field.default or field.name in always
    )
    return f"{type(value).__name__}({', '.join(said)})"


def _anywhere(shape: Shape) -> Shape:
    return replace(
        shape,
        pod_affinity=tuple(replace(term, namespaces=None) for term in shape.pod_affinity),
        pod_anti_affinity=tuple(replace(term, namespaces=None) for term in shape.pod_anti_affinity),
        preferred_pod_affinity=tuple(
            (weight, replace(term, namespaces=None)) for weight, term in shape.preferred_pod_affinity
        ),
    )


def own_labels(shape: Shape, labels: Mapping[str, str]) -> Labels:
    """Returns those of a pod's own labels that its terms select on."""
    terms = [
        term.labels
        for term in (
            *shape.pod_affinity,
            *shape.pod_anti_affinity,
            *(term for _, term in shape.preferred_pod_affinity),
        )
    ]
    terms += [spread.labels for spread in shape.spread]
    keys = {requirement.key for requirements in terms for requirement in requirements}
    return tuple(sorted((key, labels[key]) for key in keys if key in labels))
