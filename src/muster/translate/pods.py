"""Pods and pod templates → what the core is told: a shape, a refusal, what occupies which node.

What muster cannot honour yet is refused by name, never ignored; preferences (preferred affinity,
ScheduleAnyway) may be ignored, because that is what a preference means. Thousands of pods of one
template have one shape: what it depends on is packed into bytes, and the shape is remembered by them.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from muster.api.base import LabelSelectorRequirement
from muster.api.batch_v1 import COMPLETION_INDEX
from muster.api.core_v1 import Container, NodeSelectorTerm, Pod, PodSpec, PodTemplate
from muster.api.core_v1 import Toleration as PodToleration
from muster.core.events import NOTHING, PodBound, Presence
from muster.core.gang import (
    Code,
    Effect,
    GangId,
    Gate,
    NodeName,
    NodeTerm,
    Operator,
    Place,
    PodId,
    Requirement,
    Shape,
    Toleration,
)
from muster.names import GPU, GPU_SHARE
from muster.translate.marks import gpu_device, gpu_share
from muster.translate.requests import requests

#: Shapes remembered; a cluster has far fewer templates at work than pods.
_REMEMBERED: Final = 4096


class Asked(NamedTuple):
    """What a pod asks of a node, and why it must not be started (Invalid), if so."""

    shape: Shape
    refusal: Gate | None


def asked(pod: Pod | PodTemplate) -> Asked:
    """The shape of a pod, or of a template's pods. Equal ones give the identical shape."""
    share: int | str
    try:
        share = gpu_share(pod.metadata)
    except ValueError as error:
        share = str(error)
    return _asked(_ENCODE(_what_counts(pod.spec)), share)


def occupies(pod: Pod) -> bool:
    """Whether a pod takes from its node: bound, and not ended. A pod being deleted still does."""
    return bool(pod.spec.node_name) and not pod.terminal


def live(pod: Pod) -> bool:
    """Whether a pod can fill a place: neither ended nor being deleted."""
    return not pod.terminal and pod.metadata.deletion_timestamp is None


def pod_bound(pod: Pod, gang: GangId | None = None, place: Place | None = None) -> PodBound:
    """The event of a pod that `occupies` its node; without a gang it is a foreign pod's."""
    return PodBound(
        pod=PodId(pod.metadata.uid),
        node=NodeName(pod.spec.node_name),
        requests=asked(pod).shape.requests,
        gang=gang,
        place=place,
        presence=_presence(pod),
    )


def _presence(pod: Pod) -> Presence:
    device = gpu_device(pod.metadata)
    return NOTHING if device is None else Presence(device=device)


def completion_index(pod: Pod) -> int | None:
    """The index that an Indexed Job gave the pod."""
    meta = pod.metadata
    text = meta.annotations.get(COMPLETION_INDEX, meta.labels.get(COMPLETION_INDEX, ""))
    return int(text) if text.isdecimal() else None


def scheduling_gates(spec: PodSpec) -> str:
    """Names of the scheduling gates on a pod or a template; "" if it may be scheduled."""
    return ", ".join(sorted(gate.name for gate in spec.scheduling_gates))


_ENCODE: Final = msgspec.msgpack.Encoder(order="deterministic").encode
_DECODE: Final = msgspec.msgpack.Decoder(PodSpec).decode


def _what_counts(spec: PodSpec) -> PodSpec:
    """The spec without what differs between pods of one template and has no say in where they can run."""
    return PodSpec(
        containers=[_what_counts_of(container) for container in spec.containers],
        init_containers=[_what_counts_of(container) for container in spec.init_containers],
        volumes=[volume for volume in spec.volumes if _needs_a_claim(volume)],
        node_selector=spec.node_selector,
        affinity=spec.affinity,
        tolerations=spec.tolerations,
        topology_spread_constraints=spec.topology_spread_constraints,
        resource_claims=spec.resource_claims,
        overhead=spec.overhead,
        resources=spec.resources,
        host_network=spec.host_network,
    )


def _what_counts_of(container: Container) -> Container:
    return Container(
        name=container.name,
        ports=container.ports,
        resources=container.resources,
        restart_policy=container.restart_policy,
    )


@lru_cache(maxsize=_REMEMBERED)
def _asked(packed: bytes, share: int | str) -> Asked:
    """`share` is a number of thousandths, or what is wrong with it."""
    spec = _DECODE(packed)
    faults = list(_unsupported(spec))
    try:
        shape = _shape(spec)
        if share:
            shape = _sharing(shape, share)
    except ValueError as error:
        return Asked(Shape(requests=()), Gate(Code.INVALID, str(error)))
    if faults:
        return Asked(shape, Gate(Code.INVALID, "; ".join(faults)))
    return Asked(shape, None)


def _shape(spec: PodSpec) -> Shape:
    required = spec.affinity and spec.affinity.node_affinity and spec.affinity.node_affinity.required
    amounts = requests(spec)
    if dict(amounts).get(GPU_SHARE):
        raise ValueError(f"{GPU_SHARE} is no resource; write it as a label or an annotation of the pod")
    return Shape(
        requests=amounts,
        selector=tuple(sorted(spec.node_selector.items())),
        # a term without requirements matches no node: it adds nothing to an "any of"
        affinity=tuple(
            _term(term)
            for term in required.node_selector_terms
            if term.match_expressions or term.match_fields
        )
        if required
        else None,
        tolerations=tuple(sorted({_toleration(t) for t in spec.tolerations}, key=repr)),
    )


def _sharing(shape: Shape, share: int | str) -> Shape:
    if isinstance(share, str):
        raise ValueError(share)
    if dict(shape.requests).get(GPU):
        raise ValueError(f"{GPU_SHARE} is for pods that ask for no whole {GPU}; take one of them away")
    return replace(shape, requests=tuple(sorted((*shape.requests, (GPU_SHARE, share)))))


def _term(term: NodeSelectorTerm) -> NodeTerm:
    return NodeTerm(
        labels=tuple(_requirement(one) for one in term.match_expressions),
        fields=tuple(_requirement(one) for one in term.match_fields),
    )


def _requirement(one: LabelSelectorRequirement) -> Requirement:
    try:
        operator = Operator(one.operator)
    except ValueError:
        known = ", ".join(operator.value for operator in Operator)
        raise ValueError(
            f"operator {one.operator!r} of node affinity on {one.key!r} is not one of {known}"
        ) from None
    return Requirement(one.key, operator, tuple(sorted(one.values)))


def _toleration(toleration: PodToleration) -> Toleration:
    if toleration.operator not in ("", "Equal", "Exists"):
        raise ValueError(
            f"operator {toleration.operator!r} of the toleration of {toleration.key!r} is not supported yet; "
            "supported: Equal, Exists"
        )
    try:
        effect = Effect(toleration.effect) if toleration.effect else None
    except ValueError:
        known = ", ".join(effect.value for effect in Effect)
        raise ValueError(
            f"effect {toleration.effect!r} of the toleration of {toleration.key!r} is not one of {known}"
        ) from None
    value = None if toleration.operator == "Exists" else toleration.value
    return Toleration(key=toleration.key, value=value, effect=effect)


def _unsupported(spec: PodSpec) -> Iterator[str]:
    """Each thing that a pod requires and that muster does not look at when it chooses a node."""
    affinity = spec.affinity
    if spec.resource_claims or any(c.resources.claims for c in (*spec.containers, *spec.init_containers)):
        yield "resourceClaims (dynamic resource allocation) is not supported yet"
    if affinity and (affinity.pod_affinity or {}).get(_REQUIRED):
        yield "required podAffinity is not supported yet"
    if affinity and (affinity.pod_anti_affinity or {}).get(_REQUIRED):
        yield "required podAntiAffinity is not supported yet"
    for constraint in spec.topology_spread_constraints:
        if constraint.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule":
            yield (
                f"topologySpreadConstraints by {constraint.get('topologyKey', '?')} with DoNotSchedule "
                "is not supported yet"
            )
    for container in (*spec.containers, *spec.init_containers):
        for port in container.ports:
            if port.host_port or spec.host_network:
                number = port.host_port or port.container_port
                yield f"hostPort {number} of container {container.name} is not supported yet"
    for volume in spec.volumes:
        yield f"volume {volume.get('name', '?')} on a PersistentVolumeClaim is not supported yet"


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def _needs_a_claim(volume: dict[str, object]) -> bool:
    return "persistentVolumeClaim" in volume or "ephemeral" in volume
