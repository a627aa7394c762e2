"""Resolves what a pod's spec only refers to: namespaces, labels and volumes.

A selector over namespaces means those that exist now, `matchLabelKeys` the pod's own values, a claim the
volume that it is bound to. All of these are resolved here, so that the shape of a pod follows from its spec
and its `Surroundings` alone, and pods of one template in one namespace still share one shape. When an object
that was looked up changes, the groups that depend on it are read again (`dialects.py`).
"""

from collections.abc import Iterator, Mapping, Set
from typing import Any, Final, NamedTuple

from muster.api import pod_claims
from muster.api.base import Kind, LabelSelector
from muster.api.batch_v1 import COMPLETION_INDEX
from muster.api.core_v1 import (
    NodeSelectorTerm,
    PersistentVolumeClaim,
    Pod,
    PodAffinityTerm,
    PodSpec,
    PodTemplate,
)
from muster.api.kinds import (
    DEVICE_CLASS,
    NAMESPACE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    PRIORITY_CLASS,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    STORAGE_CLASS,
)
from muster.api.resource_v1 import OF_CLASS
from muster.api.storage_v1 import NO_PROVISIONER, WAIT_FOR_FIRST_CONSUMER, StorageClass, TopologyTerm
from muster.core.words.devices import ClaimShape
from muster.core.words.gang import Code, Gate, NodeTerm, Operator, Requirement
from muster.core.world.labels import satisfied
from muster.translate.claims import claim_names
from muster.translate.devices.counted import by_class, resource_of
from muster.translate.devices.pods import NO_CLAIMS, PodClaims, claims_of, made_for
from muster.translate.world import World

#: The kinds that say what claims of devices ask for.
_OF_DEVICES: frozenset[Kind[Any]] = frozenset({DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE})
#: The kinds that say where the volumes of claims can be used.
_OF_CLAIMS: frozenset[Kind[Any]] = frozenset({PERSISTENT_VOLUME_CLAIM, PERSISTENT_VOLUME, STORAGE_CLASS})


class Made(NamedTuple):
    """What is known of the pods of a template before any exist."""

    namespace: str
    #: labels that the pods' creator adds to the template's
    labels: Mapping[str, str] = {}
    #: labels that differ between the pods, or are not known yet
    varying: frozenset[str] = frozenset({COMPLETION_INDEX})


class Surroundings(NamedTuple):
    """Everything besides its spec that determines a pod's shape. Hashable, and equal for equal pods."""

    namespace: str = ""
    #: the labels that its matchLabelKeys and mismatchLabelKeys name
    labels: tuple[tuple[str, str], ...] = ()
    #: labels with unknown values, if its terms select on them
    varying: frozenset[str] = frozenset()
    #: for each affinity term in order the namespaces that its selector selects; None: all of them
    selected: tuple[tuple[str, ...] | None, ...] = ()
    #: for each claim the nodes where its volume can be used
    volumes: tuple[tuple[NodeTerm, ...], ...] = ()
    #: its own claims of devices
    claims: tuple[ClaimShape, ...] = ()
    #: for each resource that names a class, the one as which devices of the class are counted
    counted: tuple[tuple[str, str], ...] = ()
    #: why a claim prevents it from starting
    gate: Gate | None = None


NOWHERE: Final = Surroundings()
#: Selectors over namespaces whose results are kept.
_SELECTORS: Final = 256


def surroundings(pod: Pod | PodTemplate, world: World | None, made: Made | None) -> Surroundings:
    """Returns those of a pod, or of pods `made` from a template. Without a world, no namespaces or claims."""
    spec = pod.spec
    terms = [*pod_terms(spec)]
    claims = [*claim_names(spec)]
    devices, counted = device_claims(pod, world, made), _counted(spec, world)
    if not terms and not spec.topology_spread_constraints and not claims:
        if devices is NO_CLAIMS and not counted:
            return NOWHERE
        return Surroundings(claims=devices.shapes, counted=counted, gate=devices.gate)
    namespace = made.namespace if made is not None else pod.metadata.namespace
    labels = {**pod.metadata.labels, **(made.labels if made is not None else {})}
    keys = {key for term in terms for key in (*term.match_label_keys, *term.mismatch_label_keys)}
    keys.update(key for spread in spec.topology_spread_constraints for key in spread.match_label_keys)
    looks = keys.union(*map(_keys, [term.label_selector for term in terms]))
    looks = looks.union(*(_keys(spread.label_selector) for spread in spec.topology_spread_constraints))
    volumes, gate = _volumes(claims, namespace, world)
    return Surroundings(
        namespace,
        tuple(sorted((key, labels[key]) for key in keys if key in labels)),
        frozenset(looks & made.varying) if made is not None else frozenset(),
        tuple(_namespaces(term.namespace_selector, world) for term in terms),
        volumes,
        devices.shapes,
        counted,
        gate or devices.gate,
    )


def device_claims(pod: Pod | PodTemplate, world: World | None, made: Made | None = None) -> PodClaims:
    """Returns what the claims of a pod, or of pods `made` from a template, ask of devices."""
    if not pod.spec.resource_claims or world is None:
        return NO_CLAIMS
    namespace = made.namespace if made is not None else pod.metadata.namespace
    known, spec = world.device_claims, pod.spec
    claims = made_for(pod, known) if isinstance(pod, Pod) else {}
    found = claims_of(spec, namespace, known, claims, world.asks.faults)
    if not spec.node_name and (full := world.asks.add(namespace, found.asked)):
        return PodClaims(gate=Gate(Code.GATED, full))
    return found


def _counted(spec: PodSpec, world: World | None) -> tuple[tuple[str, str], ...]:
    """Returns the resources of a pod that name an existing class, and those as which these are counted."""
    if world is None or not world.device_claims.classes:
        return ()
    known, named = world.device_claims, sorted({*by_class(spec)})
    classes = ((name, name.removeprefix(OF_CLASS)) for name in named)
    return tuple((name, resource_of(of, known.counted)) for name, of in classes if ("", of) in known.classes)


def pod_terms(spec: PodSpec) -> Iterator[PodAffinityTerm]:
    """Yields all terms of affinity and anti-affinity, required ones first."""
    affinity = spec.affinity
    if affinity is None:
        return
    for side in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if side is not None:
            yield from side.required
            yield from (weighted.pod_affinity_term for weighted in side.preferred)


def selects_namespaces(spec: PodSpec) -> bool:
    """Whether its shape depends on which namespaces exist."""
    return any(term.namespace_selector is not None for term in pod_terms(spec))


def refers(pod: Pod, others: Mapping[Kind[Any], Set[str]]) -> bool:
    """Whether what a pod says may depend on one of these objects, by kind and name."""
    spec = pod.spec
    if DEVICE_CLASS in others and any(by_class(spec)):
        return True
    if spec.resource_claims and not others.keys().isdisjoint(_OF_DEVICES):
        templates, claims = others.get(RESOURCE_CLAIM_TEMPLATE, ()), others.get(RESOURCE_CLAIM, ())
        if DEVICE_CLASS in others or any(each in templates for each in pod_claims.templates(pod).values()):
            return True
        if any(each in claims for each in pod_claims.names(pod).values()):
            return True
    if PRIORITY_CLASS in others or (NAMESPACE in others and selects_namespaces(spec)):
        return True
    if not spec.volumes or others.keys().isdisjoint(_OF_CLAIMS):
        return False
    by_volume = PERSISTENT_VOLUME in others or STORAGE_CLASS in others
    claims = others.get(PERSISTENT_VOLUME_CLAIM, frozenset())
    return any(by_volume or claim in claims for claim in claim_names(spec))


def requirements(selector: LabelSelector) -> tuple[Requirement, ...]:
    """Translates a label selector into the core's terms. Raises ValueError for an unknown operator."""
    found = [Requirement(key, Operator.IN, (value,)) for key, value in selector.match_labels.items()]
    for one in selector.match_expressions:
        if one.operator not in _OPERATORS:
            raise ValueError(
                f"operator {one.operator!r} of the label selector on {one.key!r} is not one of "
                f"{', '.join(_OPERATORS)}"
            )
        found.append(Requirement(one.key, Operator(one.operator), tuple(sorted(one.values))))
    return tuple(sorted(set(found), key=repr))


_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


def node_term(term: NodeSelectorTerm) -> NodeTerm:
    return NodeTerm(
        labels=tuple(_node_requirement(one.key, one.operator, one.values) for one in term.match_expressions),
        fields=tuple(_node_requirement(one.key, one.operator, one.values) for one in term.match_fields),
    )


def _node_requirement(key: str, text: str, values: list[str]) -> Requirement:
    try:
        operator = Operator(text)
    except ValueError:
        known = ", ".join(operator.value for operator in Operator)
        raise ValueError(f"operator {text!r} of node affinity on {key!r} is not one of {known}") from None
    return Requirement(key, operator, tuple(sorted(values)))


def _keys(selector: LabelSelector | None) -> set[str]:
    if selector is None:
        return set()
    return {*selector.match_labels, *(one.key for one in selector.match_expressions)}


def _namespaces(selector: LabelSelector | None, world: World | None) -> tuple[str, ...] | None:
    """Returns the namespaces that a selector selects; none without a selector, None for all of them."""
    if selector is None:
        return ()
    if not selector.match_labels and not selector.match_expressions:
        return None
    try:
        wanted = requirements(selector)
    except ValueError:
        return ()  # reported where the rest of the term is read
    if world is None:
        return ()
    if (known := world.selected_namespaces.get(wanted)) is not None:
        return known
    if len(world.selected_namespaces) >= _SELECTORS:
        world.selected_namespaces.clear()
    named = ((n.metadata.name, n.metadata.labels) for n in world.namespaces.values())
    found = tuple(sorted(name for name, labels in named if satisfied(wanted, labels)))
    world.selected_namespaces[wanted] = found
    return found


def _volumes(
    names: list[str], namespace: str, world: World | None
) -> tuple[tuple[tuple[NodeTerm, ...], ...], Gate | None]:
    """Returns where the volumes of these claims can be used; and why the pod waits for or cannot have one."""
    if world is None:
        return (), None
    found: list[tuple[NodeTerm, ...]] = []
    for name in names:
        claim = world.claims.get((namespace, name))
        if claim is None:
            return (), Gate(Code.GATED, f"there is no PersistentVolumeClaim {name}")
        if claim.metadata.deletion_timestamp is not None:
            return (), Gate(Code.GATED, f"the PersistentVolumeClaim {name} is being deleted")
        if not claim.spec.volume_name:
            kind = world.storage_classes.get(("", claim.spec.storage_class_name or ""))
            if kind is None or kind.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER:
                return (), Gate(Code.GATED, f"the PersistentVolumeClaim {name} is not bound to a volume yet")
            if kind.provisioner == NO_PROVISIONER:
                return (), _by_hand(claim, kind)
            if kind.allowed_topologies:
                found.append(tuple(map(_topology, kind.allowed_topologies)))
            continue
        volume = world.volumes.get(("", claim.spec.volume_name))
        if volume is None:
            gone = f"its volume {claim.spec.volume_name} is not there"
            return (), Gate(Code.GATED, f"the PersistentVolumeClaim {name} cannot be used: {gone}")
        affinity = volume.spec.node_affinity
        if affinity is not None and affinity.required is not None:
            terms = affinity.required.node_selector_terms
            try:
                found.append(tuple(node_term(t) for t in terms if t.match_expressions or t.match_fields))
            except ValueError as error:
                return (), Gate(Code.INVALID, f"its volume {claim.spec.volume_name}: {error}")
    return tuple(found), None


def _by_hand(claim: PersistentVolumeClaim, kind: StorageClass) -> Gate:
    return Gate(
        Code.INVALID,
        f"the PersistentVolumeClaim {claim.metadata.name} has no volume yet, and the volumes of its class "
        f"{kind.metadata.name} are chosen for a pod that has a node ({WAIT_FOR_FIRST_CONSUMER}) from those "
        f"that exist ({NO_PROVISIONER}), which is not supported; bind it first, or use another class",
    )


def _topology(term: TopologyTerm) -> NodeTerm:
    labels = (
        Requirement(one.key, Operator.IN, tuple(sorted(one.values))) for one in term.match_label_expressions
    )
    return NodeTerm(tuple(labels))
