"""Limits on what a pod, and a gang, may ask about the nodes that it can use.

Kubernetes limits an object's size only, so a pod may carry thousands of terms, and each costs every decision
about the pod a step per node. The limits are far above what manifests in use have. They are checked before
anything is computed from the terms. What exceeds one is refused by the name of the limit.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from muster.api.base import LabelSelector
from muster.api.core_v1 import Container, PodSpec, Quantities, ResourceRequirements
from muster.core.words.gang import Code, Gate, PodSet
from muster.translate.claims import claim_names
from muster.translate.surroundings import Surroundings, pod_terms

#: Of one pod. Containers are those of all sorts, and resources the distinct names that they request.
CONTAINERS: Final = 256
RESOURCES: Final = 64
CLAIMS: Final = 64
SELECTOR_LABELS: Final = 64
NODE_REQUIREMENTS: Final = 128
NODE_VALUES: Final = 1024
TOLERATIONS: Final = 64
POD_TERMS: Final = 16
SPREADS: Final = 8
POD_REQUIREMENTS: Final = 64
POD_VALUES: Final = 512
#: Namespaces that its terms name or select, counted once for each term.
NAMESPACES: Final = 4096
HOST_PORTS: Final = 64
#: Terms of pod affinity and anti-affinity, spreads and ports of a gang, over its pod sets.
TERMS_OF_GANG: Final = 256
#: Pod sets of a gang. Pods of a PodGroup form one for each set of equal requests and constraints.
POD_SETS: Final = 256


def excess(spec: PodSpec) -> str:
    """Returns which limit a pod exceeds, and by what; "" if none."""
    affinity = spec.affinity
    plain = affinity is None and not spec.topology_spread_constraints
    containers = [*spec.containers, *spec.init_containers]
    stated = sum(len(c.resources.requests) + len(c.resources.limits) for c in containers)
    ports = sum(1 for c in containers for port in c.ports if port.host_port or spec.host_network)
    plain = plain and len(containers) <= CONTAINERS and stated <= RESOURCES and ports <= HOST_PORTS
    plain = plain and len(spec.volumes) <= CLAIMS and len(spec.overhead) <= RESOURCES
    if plain and len(spec.node_selector) <= SELECTOR_LABELS and len(spec.tolerations) <= TOLERATIONS:
        return ""
    node = affinity.node_affinity if affinity is not None else None
    terms = [] if node is None else [weighted.preference for weighted in node.preferred]
    if node is not None and node.required is not None:
        terms += node.required.node_selector_terms
    wanted = [one for term in terms for one in (*term.match_expressions, *term.match_fields)]
    selectors = [*_selectors(spec)]
    return _first(
        (len(containers), "containers", CONTAINERS),
        (len(_resources(spec)), "different resources", RESOURCES),
        (ports, "host ports", HOST_PORTS),
        (sum(1 for _ in claim_names(spec)), "PersistentVolumeClaims", CLAIMS),
        (len(spec.node_selector), "labels in nodeSelector", SELECTOR_LABELS),
        (len(spec.tolerations), "tolerations", TOLERATIONS),
        (len(wanted), "requirements of node affinity", NODE_REQUIREMENTS),
        (sum(len(one.values) for one in wanted), "values of node affinity", NODE_VALUES),
        (sum(1 for _ in pod_terms(spec)), "terms of pod affinity and anti-affinity", POD_TERMS),
        (len(spec.topology_spread_constraints), "topologySpreadConstraints", SPREADS),
        (
            sum(len(s.match_labels) + len(s.match_expressions) for s in selectors) + _label_keys(spec),
            "requirements of label selectors in its affinity and spreads",
            POD_REQUIREMENTS,
        ),
        (
            sum(len(one.values) for s in selectors for one in s.match_expressions),
            "values of label selectors in its affinity and spreads",
            POD_VALUES,
        ),
    )


def excess_around(spec: PodSpec, around: Surroundings) -> str:
    """As `excess`, of what follows from where a pod is: the namespaces that its terms select."""
    named = sum(len(term.namespaces) for term in pod_terms(spec))
    selected = sum(len(found) for found in around.selected if found is not None)
    return _first(
        (named + selected, "namespaces that its affinity terms name or select", NAMESPACES),
    )


def charged(spec: PodSpec) -> PodSpec:
    """Returns what a pod beyond a limit is charged for on a node: only for resources within the limit.

    Kubernetes' own resources come first: no node has hundreds of others, so none runs a pod that needs them.
    """
    named = _resources(spec)
    if len(named) <= RESOURCES:
        return spec
    kept = {*sorted(named, key=lambda name: ("/" in name, name))[:RESOURCES]}
    return PodSpec(
        containers=[_asking_for(container, kept) for container in spec.containers],
        init_containers=[_asking_for(container, kept) for container in spec.init_containers],
        overhead=_only(spec.overhead, kept),
        resources=spec.resources,
    )


def of_gang(pod_sets: Sequence[PodSet]) -> Gate | None:
    """Returns the refusal of a gang with too many pod sets, or too many terms in them; None: few enough."""
    if len(pod_sets) > POD_SETS:
        different = f"its pods have {len(pod_sets)} different requests and constraints"
        return Gate(Code.INVALID, f"{different}; muster takes at most {POD_SETS} of a gang")
    terms = 0
    for shape in (pod_set.shape for pod_set in pod_sets):
        terms += len(shape.pod_affinity) + len(shape.pod_anti_affinity) + len(shape.preferred_pod_affinity)
        terms += len(shape.spread) + len(shape.ports)
    if terms <= TERMS_OF_GANG:
        return None
    return Gate(
        Code.INVALID,
        f"its pod sets have {terms} terms of pod affinity, anti-affinity, spread and host ports together; "
        f"muster takes at most {TERMS_OF_GANG}: make several gangs of it, or use fewer terms",
    )


def _resources(spec: PodSpec) -> set[str]:
    asked = [container.resources for container in (*spec.containers, *spec.init_containers)]
    return set(spec.overhead).union(*(one.requests for one in asked), *(one.limits for one in asked))


def _asking_for(container: Container, kept: set[str]) -> Container:
    asked = container.resources
    if asked.requests.keys() <= kept and asked.limits.keys() <= kept:
        return container
    within = ResourceRequirements(requests=_only(asked.requests, kept), limits=_only(asked.limits, kept))
    return Container(name=container.name, restart_policy=container.restart_policy, resources=within)


def _only(amounts: Quantities, kept: set[str]) -> Quantities:
    return {name: amount for name, amount in amounts.items() if name in kept}


def _first(*counted: tuple[int, str, int]) -> str:
    for count, what, most in counted:
        if count > most:
            return f"it has {count} {what}; muster takes at most {most} of a pod"
    return ""


def _selectors(spec: PodSpec) -> Iterator[LabelSelector]:
    for term in pod_terms(spec):
        yield from filter(None, (term.label_selector, term.namespace_selector))
    yield from (s.label_selector for s in spec.topology_spread_constraints if s.label_selector is not None)


def _label_keys(spec: PodSpec) -> int:
    keys = sum(len(term.match_label_keys) + len(term.mismatch_label_keys) for term in pod_terms(spec))
    return keys + sum(len(spread.match_label_keys) for spread in spec.topology_spread_constraints)
