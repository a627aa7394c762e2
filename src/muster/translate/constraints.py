"""Translates host ports, pod affinity and topology spread of a pod spec into the core's terms.

The terms are resolved for the pod's surroundings (`surroundings.py`): they name the namespaces that they
select and the values that their matchLabelKeys stand for. All functions raise ValueError, with what to write
instead, for values that have no meaning in Kubernetes.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from muster.api.base import LabelSelector
from muster.api.core_v1 import PodAffinityTerm, PodSpec, TopologySpreadConstraint
from muster.core.words.gang import HostPort, NodeTerm, Operator, PodTerm, Requirement, Spread
from muster.translate.surroundings import Surroundings, node_term, pod_terms, requirements

#: A requirement that selects nothing.
_NOTHING: Final = (Requirement("", Operator.IN, ()),)


def ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """Returns the pod's ports on the node itself; on the host's network that is every container port."""
    lasting = [*spec.containers, *(c for c in spec.init_containers if c.restart_policy == "Always")]
    found = {
        HostPort(number, port.protocol, port.host_ip)
        for container in lasting
        for port in container.ports
        if (number := port.host_port or (port.container_port if spec.host_network else 0))
    }
    return tuple(sorted(found, key=repr))


def preferred(spec: PodSpec) -> tuple[tuple[int, NodeTerm], ...]:
    """Returns preferred node affinity: weights and terms."""
    affinity = spec.affinity and spec.affinity.node_affinity
    if not affinity:
        return ()
    return tuple((one.weight, node_term(one.preference)) for one in affinity.preferred if one.weight)


def affinity(
    spec: PodSpec, around: Surroundings
) -> tuple[tuple[PodTerm, ...], tuple[PodTerm, ...], tuple[tuple[int, PodTerm], ...]]:
    """Returns required affinity, required anti-affinity, and preferred terms (weight < 0: away from)."""
    if spec.affinity is None:
        return (), (), ()
    selected = iter(zip(pod_terms(spec), around.selected, strict=True))
    near: list[PodTerm] = []
    apart: list[PodTerm] = []
    drawn: list[tuple[int, PodTerm]] = []
    for side, found, sign, name in (
        (spec.affinity.pod_affinity, near, 1, "podAffinity"),
        (spec.affinity.pod_anti_affinity, apart, -1, "podAntiAffinity"),
    ):
        if side is None:
            continue
        for _ in side.required:
            term, namespaces = next(selected)
            if not term.topology_key:
                raise ValueError(f"a term of {name} has no topologyKey; write the node label of its domains")
            found.append(_pod_term(term, namespaces, around))
        for weighted in side.preferred:
            term, namespaces = next(selected)
            if term.topology_key:
                drawn.append((sign * weighted.weight, _pod_term(term, namespaces, around)))
    return tuple(dict.fromkeys(near)), tuple(dict.fromkeys(apart)), tuple(drawn)


def _pod_term(term: PodAffinityTerm, selected: tuple[str, ...] | None, around: Surroundings) -> PodTerm:
    """Translates one term. `selected`: the namespaces that its selector selects; None = all of them."""
    if selected is None:
        namespaces = None
    elif term.namespaces or term.namespace_selector is not None:
        namespaces = tuple(sorted({*term.namespaces, *selected}))
    else:
        namespaces = (around.namespace,)
    labels = dict(around.labels)
    more = [Requirement(k, Operator.IN, (labels[k],)) for k in term.match_label_keys if k in labels]
    more += [Requirement(k, Operator.NOT_IN, (labels[k],)) for k in term.mismatch_label_keys if k in labels]
    return PodTerm(term.topology_key, _selects(term.label_selector, more), namespaces)


def spreads(spec: PodSpec, around: Surroundings) -> Iterator[Spread]:
    """Yields topology spread constraints, hard and soft."""
    labels = dict(around.labels)
    for one in spec.topology_spread_constraints:
        required = _one_of(one.when_unsatisfiable, "whenUnsatisfiable", ("DoNotSchedule", "ScheduleAnyway"))
        if not one.topology_key:
            if required == "ScheduleAnyway":
                continue
            raise ValueError(
                "a topologySpreadConstraint has no topologyKey; write the node label of its domains"
            )
        if one.max_skew < 1:
            raise ValueError(
                f"maxSkew of the spread by {one.topology_key} is {one.max_skew}; write at least 1"
            )
        keys = [Requirement(k, Operator.IN, (labels[k],)) for k in one.match_label_keys if k in labels]
        yield Spread(
            one.topology_key,
            one.max_skew,
            _selects(one.label_selector, keys),
            required == "DoNotSchedule",
            one.min_domains if one.min_domains is not None else 1,
            _honors(one, one.node_affinity_policy, "nodeAffinityPolicy"),
            _honors(one, one.node_taints_policy, "nodeTaintsPolicy"),
        )


def _selects(selector: LabelSelector | None, more: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """Translates a label selector: none selects nothing, an empty one selects everything."""
    if selector is None:
        return _NOTHING
    return tuple(sorted({*requirements(selector), *more}, key=repr))


def _honors(constraint: TopologySpreadConstraint, text: str, field: str) -> bool:
    return (
        _one_of(text, f"{field} of the spread by {constraint.topology_key}", ("Honor", "Ignore")) == "Honor"
    )


def _one_of(text: str, what: str, known: tuple[str, str]) -> str:
    if text not in known:
        raise ValueError(f"{what} is {text!r}; write {known[0]} or {known[1]}")
    return text
