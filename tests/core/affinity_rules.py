"""Kubernetes' rules on ports, affinity and spread, naively: every pod is compared with every other.

The module cannot place pods, but is easy to compare with docs/concepts/constraints.md: the oracle of
`constrained.py` and the checker of the rule machine both judge by it, and it shares no code with
`muster.core.placement.constraints`. New pods are on known nodes; running pods may be on unknown ones, and are
in no domain then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from muster.core.words.events import Footprint, NodeChanged
from muster.core.words.gang import Labels, NodeName, Operator, PodTerm, Requirement, Shape, Spread
from muster.core.world.eligibility import obstacle

#: Nodes by name.
Nodes = Mapping[NodeName, NodeChanged]
NOWHERE: Final = NodeName("")


@dataclass(frozen=True)
class Pod:
    footprint: Footprint
    shape: Shape
    node: NodeName = NOWHERE


def tolerated(new: Sequence[Pod], there: Sequence[Pod], nodes: Nodes) -> bool:
    """No port is used twice, and no pod violates an anti-affinity, whichever pod came first."""
    return not any(
        other is not pod and (_collide(pod, other) or _too_close(pod, other, nodes))
        for pod in new
        for other in (*there, *new)
    )


def even(new: Sequence[Pod], there: Sequence[Pod], nodes: Nodes) -> bool:
    """With all pods in place, the domains of the new pods are within their maximal skews."""
    all_pods = [*there, *new]
    return all(_even(pod, spread, all_pods, nodes) for pod in new for spread in pod.shape.spread)


def affinity_satisfied(new: Sequence[Pod], there: Sequence[Pod], nodes: Nodes) -> bool:
    """The new pods can be added in some order in which each finds its required affinity satisfied."""

    @lru_cache(None)
    def reach(come: frozenset[int]) -> bool:
        if len(come) == len(new):
            return True
        present = [*there, *(new[i] for i in come)]
        return any(
            _affinity_satisfied(new[i], present, nodes) and reach(come | {i})
            for i in range(len(new))
            if i not in come
        )

    return reach(frozenset())


def selects(term: PodTerm, pod: Pod) -> bool:
    of = pod.footprint
    return (term.namespaces is None or of.namespace in term.namespaces) and matches(term.labels, of.labels)


def matches(requirements: Sequence[Requirement], labels: Labels) -> bool:
    by_key = dict(labels)
    checks = {
        Operator.IN: lambda r: by_key.get(r.key) in r.values,
        Operator.NOT_IN: lambda r: by_key.get(r.key) not in r.values,
        Operator.EXISTS: lambda r: r.key in by_key,
    }
    return all(checks[r.operator](r) for r in requirements)


def _label(pod: Pod, key: str, nodes: Nodes) -> str | None:
    """Of the pod's node."""
    return dict(nodes[pod.node].labels).get(key) if pod.node in nodes else None


def _together(key: str, one: Pod, other: Pod, nodes: Nodes) -> bool:
    value = _label(one, key, nodes)
    return value is not None and value == _label(other, key, nodes)


def _collide(one: Pod, other: Pod) -> bool:
    return one.node == other.node and any(
        (p.number, p.protocol) == (q.number, q.protocol)
        and (p.address == q.address or "" in (p.address, q.address) or "0.0.0.0" in (p.address, q.address))
        for p in one.footprint.ports
        for q in other.footprint.ports
    )


def _too_close(one: Pod, other: Pod, nodes: Nodes) -> bool:
    return any(
        selects(term, theirs) and _together(term.key, mine, theirs, nodes)
        for mine, theirs in ((one, other), (other, one))
        for term in mine.footprint.pod_anti_affinity
    )


def _even(pod: Pod, spread: Spread, all_pods: Sequence[Pod], nodes: Nodes) -> bool:
    keys = [s.key for s in pod.shape.spread]
    if any(_label(pod, key, nodes) is None for key in keys):
        return False
    counts: dict[str, int] = {}
    for name, node in nodes.items():
        labels = dict(node.labels)
        usable = not obstacle(pod.shape, replace(node, taints=())) if spread.honor_affinity else True
        clean = not node.taints if spread.honor_taints else True
        if usable and clean and all(key in labels for key in keys):
            counts.setdefault(labels[spread.key], 0)
            counts[labels[spread.key]] += sum(
                other.footprint.namespace == pod.footprint.namespace
                and matches(spread.labels, other.footprint.labels)
                for other in all_pods
                if other.node == name and not other.footprint.leaving
            )
    least = 0 if len(counts) < spread.min_domains else min(counts.values())
    mine = _label(pod, spread.key, nodes)
    assert mine is not None
    return counts[mine] - least <= spread.max_skew


def _affinity_satisfied(pod: Pod, present: Sequence[Pod], nodes: Nodes) -> bool:
    terms = pod.shape.pod_affinity
    if any(_label(pod, term.key, nodes) is None for term in terms):
        return False
    liked = [p for p in present if all(selects(term, p) for term in terms)]
    anywhere = any(_label(p, term.key, nodes) is not None for p in liked for term in terms)
    if not anywhere and all(selects(term, pod) for term in terms):
        return True
    return all(any(_together(term.key, pod, p, nodes) for p in liked) for term in terms)
