"""The shape for which a place is chosen that any of several pods may take.

The pods of a Job are of one template, and its places are interchangeable. Where its pods differ all the same,
a place is chosen so that each of them may take it: a node that satisfies the result satisfies each.
"""

from dataclasses import replace
from functools import lru_cache, reduce
from itertools import product
from typing import Final, TypeVar

from muster.core.words.gang import Amounts, Effect, NodeTerm, Shape, Toleration
from muster.names import GPU, GPU_SHARE

T = TypeVar("T")

#: Most alternatives of node affinity that are combined; beyond, no node matches.
_ALTERNATIVES: Final = 256
#: What admission adds to every pod (plugin DefaultTolerationSeconds), which is no difference to the template.
_ADDED: Final = frozenset(
    Toleration(key=f"node.kubernetes.io/{state}", value=None, effect=Effect.NO_EXECUTE)
    for state in ("not-ready", "unreachable")
)


@lru_cache(maxsize=4096)
def as_created(shape: Shape, template: Shape) -> Shape:
    """Returns the shape of a pod without what every new pod gets: the template's own if they are equal."""
    if shape is template:
        return template
    added = _ADDED.difference(template.tolerations)
    kept = tuple(one for one in shape.tolerations if one not in added)
    shape = replace(shape, tolerations=kept) if len(kept) < len(shape.tolerations) else shape
    return template if shape == template else shape


@lru_cache(maxsize=1024)
def all_of(shapes: frozenset[Shape]) -> Shape:
    """Returns a shape whose nodes satisfy each of these; the only one as it is."""
    return reduce(_both, sorted(shapes, key=repr))


def _both(one: Shape, other: Shape) -> Shape:
    found = replace(
        one,
        requests=_most(one.requests, other.requests),
        selector=_union(one.selector, other.selector),
        affinity=_each(one.affinity, other.affinity),
        tolerations=tuple(t for t in one.tolerations if t in other.tolerations),
        volumes=_union(one.volumes, other.volumes),
        ports=_union(one.ports, other.ports),
        pod_affinity=_union(one.pod_affinity, other.pod_affinity),
        pod_anti_affinity=_union(one.pod_anti_affinity, other.pod_anti_affinity),
        spread=_union(one.spread, other.spread),
        features=_union(one.features, other.features),
    )
    if one.claims != other.claims:
        return replace(found, affinity=())  # no devices serve pods that ask for different ones
    amounts = dict(found.requests)
    # a whole device and a share of one are not had together
    return replace(found, affinity=()) if GPU in amounts and GPU_SHARE in amounts else found


def _most(one: Amounts, other: Amounts) -> Amounts:
    mine, theirs = dict(one), dict(other)
    return tuple(sorted((key, max(mine.get(key, 0), theirs.get(key, 0))) for key in mine | theirs))


def _union(one: tuple[T, ...], other: tuple[T, ...]) -> tuple[T, ...]:
    return tuple(dict.fromkeys((*one, *other)))


def _each(
    one: tuple[NodeTerm, ...] | None, other: tuple[NodeTerm, ...] | None
) -> tuple[NodeTerm, ...] | None:
    if one is None or other is None or one == other:
        return one if other is None else other
    if len(one) * len(other) > _ALTERNATIVES:
        return ()
    pairs = product(one, other)
    return _union(
        tuple(NodeTerm(_union(a.labels, b.labels), _union(a.fields, b.fields)) for a, b in pairs), ()
    )
