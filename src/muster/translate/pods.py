"""Translates pods and pod templates for the core: a shape, a refusal, and which pod occupies which node.

What muster cannot honour yet is refused by name, never ignored. Thousands of pods of one template have one
shape: what the shape depends on is packed into bytes, which are the key of the cache.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from muster.api import marks, pod_claims
from muster.api.base import condition
from muster.api.batch_v1 import COMPLETION_INDEX
from muster.api.core_v1 import Container, ContainerStatus, Pod, PodSpec, PodTemplate
from muster.api.core_v1 import Toleration as PodToleration
from muster.api.natural import natural
from muster.api.requests import as_it_runs, requests
from muster.api.times import seconds
from muster.core.words.devices import DEVICE_CLASS, ClaimShape, DeviceId
from muster.core.words.events import Footprint, PodsBound
from muster.core.words.gang import (
    Amounts,
    Code,
    Effect,
    GangId,
    Gate,
    Labels,
    NodeName,
    Operator,
    Place,
    PodId,
    Shape,
    Toleration,
)
from muster.names import GPU, GPU_SHARE
from muster.translate import constraints, features, limits
from muster.translate.devices.claims import least
from muster.translate.devices.pods import devices_of, unknown_claims
from muster.translate.marks import gpu_device
from muster.translate.surroundings import Made, Surroundings, node_term, surroundings
from muster.translate.world import World

#: Most shapes in the cache; a cluster has far fewer templates at work than pods.
_REMEMBERED: Final = 4096
#: The same for specs of more than so many bytes, so that the cache stays small whatever they contain.
_LARGE: Final = 64
_SMALL: Final = 8192


class Asked(NamedTuple):
    """What a pod requests of a node, and why it must not start now, if so.

    The refusal is Invalid if muster cannot honour the pod, and Gated while a claim has no volume.
    """

    shape: Shape
    refusal: Gate | None


def asked(pod: Pod | PodTemplate, world: World | None = None, made: Made | None = None) -> Asked:
    """Returns the shape of a pod, or of pods `made` from a template. Equal ones give the identical shape."""
    share: int | str
    try:
        share = marks.GPU_SHARE.read(pod.metadata) or 0
    except ValueError as error:
        share = str(error)
    if too_much := limits.excess(pod.spec):
        bound = isinstance(pod, Pod) and bool(pod.spec.node_name)
        return _refused(pod.spec, too_much) if bound else Asked(Shape(requests=()), _invalid(too_much))
    spec, around = _what_counts(pod.spec), surroundings(pod, world, made)
    try:
        packed = _ENCODE(spec)
    except (OverflowError, RecursionError) as error:
        large = isinstance(error, OverflowError)
        what = "a number in its spec is larger than any may be" if large else "its spec is nested too deeply"
        return Asked(Shape(requests=()), Gate(Code.INVALID, f"{what}: {error}"))
    return _asked(packed, share, around)


def _invalid(message: str) -> Gate:
    return Gate(Code.INVALID, message)


def _refused(spec: PodSpec, too_much: str) -> Asked:
    """Returns what a pod beyond a limit is charged for on a node, whatever else it demands."""
    try:
        amounts = requests(limits.charged(spec))
    except ValueError as error:
        return Asked(Shape(requests=()), _invalid(str(error)))
    return Asked(Shape(requests=amounts), _invalid(too_much))


def occupies(pod: Pod) -> bool:
    """Whether a pod uses resources of its node: bound, and not ended. A pod being deleted still does."""
    return bool(pod.spec.node_name) and not pod.terminal


def live(pod: Pod) -> bool:
    """Whether a pod can fill a place: neither ended nor being deleted."""
    return not pod.terminal and pod.metadata.deletion_timestamp is None


def says_the_same(pod: Pod, old: Pod) -> bool:
    """Whether a pod differs from its earlier state in nothing that its gang is read from.

    Most changes of pods are of this sort: their conditions, and the states of their containers.
    """
    now, before = pod.metadata, old.metadata
    return (
        now.uid == before.uid
        and pod.spec == old.spec
        and pod.terminal == old.terminal
        and now.labels == before.labels
        and now.annotations == before.annotations
        and now.deletion_timestamp == before.deletion_timestamp
        and now.owner_references == before.owner_references
        and now.unreadable == before.unreadable
        and pod.status.resource_claim_statuses == old.status.resource_claim_statuses
        and pod_claims.for_resources(pod) == pod_claims.for_resources(old)
    )


def rejected(pod: Pod) -> bool:
    """Whether the node has refused the pod, for instance for lack of room (`OutOfcpu`), so that it never ran.

    Source: the kubelet's `rejectPod` (pkg/kubelet/kubelet.go).
    """
    status = pod.status
    refused = status.phase == "Failed" and status.message.startswith("Pod was rejected")
    return refused and all(c.state.running is None and c.state.terminated is None for c in containers(pod))


def containers(pod: Pod) -> Iterator[ContainerStatus]:
    yield from pod.status.init_container_statuses
    yield from pod.status.container_statuses


def labels_of(labels: Mapping[str, str]) -> Labels:
    if len(labels) > _MANY:
        return tuple(sorted(labels.items()))
    return _once(tuple(sorted(map(_once, labels.items()))))


#: In place of a label key: the group that `spec.schedulingGroup` names. No label has such a key.
IN_GROUP: Final = "/schedulingGroup"
#: Labels of a pod with more of them are not shared.
_MANY: Final = 64
#: Returns the first of equal tuples: most labels are shared by the pods of one template.
_once: Final = lru_cache(maxsize=2 * _REMEMBERED)(tuple)


def pod_bound(
    pod: Pod, gang: GangId | None = None, place: Place | None = None, world: World | None = None
) -> PodsBound:
    """Returns the event of a pod that `occupies` its node; without a gang it is a foreign pod."""
    shape = asked(as_it_runs(pod), world).shape
    return PodsBound(
        {PodId(pod.metadata.uid): place},
        node=NodeName(pod.spec.node_name),
        requests=shape.requests,
        gang=gang,
        footprint=Footprint(
            namespace=pod.metadata.namespace,
            labels=_selectable(pod),
            ports=shape.ports,
            pod_anti_affinity=shape.pod_anti_affinity,
            device=gpu_device(pod.metadata),
            leaving=pod.metadata.deletion_timestamp is not None,
            devices=_devices(pod, world),
        ),
        at=bound_at(pod),
    )


def _devices(pod: Pod, world: World | None) -> tuple[DeviceId, ...]:
    return devices_of(pod, world.device_claims) if world is not None and pod_claims.has_claims(pod) else ()


def _selectable(pod: Pod) -> Labels:
    """Returns the labels of a pod; one more if its spec names a group, by which its fellows select it."""
    own, group = labels_of(pod.metadata.labels), pod.spec.scheduling_group
    return own if group is None else ((IN_GROUP, str(group.get("podGroupName", ""))), *own)


def bound_at(pod: Pod) -> float | None:
    """Returns when the pod was bound, or the nearest known time, in seconds since the epoch."""
    scheduled = condition(pod.status.conditions, "PodScheduled")
    bound = scheduled.last_transition_time if scheduled is not None and scheduled.status == "True" else None
    at = bound or pod.status.start_time or pod.metadata.creation_timestamp
    return seconds(at) if at is not None else None


def completion_index(pod: Pod) -> int | None:
    """Returns the index that an Indexed Job gave the pod."""
    meta = pod.metadata
    return natural(meta.annotations.get(COMPLETION_INDEX, meta.labels.get(COMPLETION_INDEX)))


def scheduling_gates(spec: PodSpec) -> str:
    """Returns the names of the scheduling gates on a pod or a template; "" if it may be scheduled."""
    return ", ".join(sorted(gate.name for gate in spec.scheduling_gates))


_ENCODE: Final = msgspec.msgpack.Encoder(order="deterministic").encode
_DECODE: Final = msgspec.msgpack.Decoder(PodSpec).decode


def _what_counts(spec: PodSpec) -> PodSpec:
    """Returns the spec without what differs between pods of a template and does not limit where they run."""
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
        host_users=spec.host_users,
    )


def _what_counts_of(container: Container) -> Container:
    return Container(
        name=container.name,
        ports=container.ports,
        resources=container.resources,
        restart_policy=container.restart_policy,
        restart_policy_rules=container.restart_policy_rules,
        volume_mounts=[mount for mount in container.volume_mounts if mount.get(features.OPTIONS)],
    )


def _asked(packed: bytes, share: int | str, around: Surroundings) -> Asked:
    return (_asked_by_small if len(packed) <= _SMALL else _asked_by_large)(packed, share, around)


def _shape_and_refusal(packed: bytes, share: int | str, around: Surroundings) -> Asked:
    """Computes shape and refusal. `share`: a number of thousandths, or what is wrong with it."""
    spec = _DECODE(packed)
    shape = Shape(requests=())
    try:
        shape = replace(shape, requests=_requests(spec, around), ports=constraints.ports(spec))
        if too_much := limits.excess_around(spec, around):
            raise ValueError(too_much)
        shape = _constrained(shape, spec, around)
        if around.claims:
            shape = _claiming(shape, around.claims)
        if share:
            shape = _sharing(shape, share)
    except ValueError as error:
        return Asked(shape, Gate(Code.INVALID, str(error)))
    faults = list(_unsupported(spec, around))
    if faults:
        return Asked(shape, Gate(Code.INVALID, "; ".join(faults)))
    return Asked(shape, around.gate)


_asked_by_small: Final = lru_cache(maxsize=_REMEMBERED)(_shape_and_refusal)
_asked_by_large: Final = lru_cache(maxsize=_LARGE)(_shape_and_refusal)


def _requests(spec: PodSpec, around: Surroundings) -> Amounts:
    amounts = requests(spec)
    if dict(amounts).get(GPU_SHARE):
        raise ValueError(f"{GPU_SHARE} is not a resource; write it as a label or an annotation of the pod")
    if around.counted:
        counted = dict(around.counted)
        amounts = _sum((counted.get(name, name), amount) for name, amount in amounts)
    return amounts


def _sum(amounts: Iterable[tuple[str, int]]) -> Amounts:
    total: dict[str, int] = {}
    for name, amount in amounts:
        total[name] = total.get(name, 0) + amount
    return tuple(sorted(total.items()))


def _constrained(shape: Shape, spec: PodSpec, around: Surroundings) -> Shape:
    required = spec.affinity and spec.affinity.node_affinity and spec.affinity.node_affinity.required
    near, apart, drawn = constraints.affinity(spec, around)
    return replace(
        shape,
        selector=tuple(sorted(spec.node_selector.items())),
        # a term without requirements matches no node: it adds nothing to an "any of"
        affinity=tuple(
            node_term(term)
            for term in required.node_selector_terms
            if term.match_expressions or term.match_fields
        )
        if required
        else None,
        tolerations=tuple(sorted({_toleration(t) for t in spec.tolerations}, key=repr)),
        volumes=around.volumes,
        preferred=constraints.preferred(spec),
        pod_affinity=near,
        pod_anti_affinity=apart,
        preferred_pod_affinity=drawn,
        spread=tuple(constraints.spreads(spec, around)),
        features=features.needed(spec),
    )


def _claiming(shape: Shape, claims: tuple[ClaimShape, ...]) -> Shape:
    return replace(shape, requests=_sum((*shape.requests, *least(claims))), claims=claims)


def _sharing(shape: Shape, share: int | str) -> Shape:
    if isinstance(share, str):
        raise ValueError(share)
    if dict(shape.requests).get(GPU):
        raise ValueError(f"{GPU_SHARE} is for pods that ask for no whole {GPU}; take one of them away")
    return replace(shape, requests=tuple(sorted((*shape.requests, (GPU_SHARE, share)))))


def _toleration(toleration: PodToleration) -> Toleration:
    if toleration.operator not in ("", "Equal", "Exists", "Gt", "Lt"):
        raise ValueError(
            f"operator {toleration.operator!r} of the toleration of {toleration.key!r} is not one of "
            "Equal, Exists, Gt, Lt"
        )
    try:
        effect = Effect(toleration.effect) if toleration.effect else None
    except ValueError:
        known = ", ".join(effect.value for effect in Effect)
        raise ValueError(
            f"effect {toleration.effect!r} of the toleration of {toleration.key!r} is not one of {known}"
        ) from None
    value = None if toleration.operator == "Exists" else toleration.value
    operator = Operator(toleration.operator) if toleration.operator in ("Gt", "Lt") else None
    if operator is not None and not _INTEGER.fullmatch(toleration.value):
        raise ValueError(
            f"operator {toleration.operator} of the toleration of {toleration.key!r} compares integers, "
            f"and its value is {toleration.value!r}"
        )
    return Toleration(key=toleration.key, value=value, effect=effect, operator=operator)


_INTEGER: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)


def _unsupported(spec: PodSpec, around: Surroundings) -> Iterator[str]:
    """Yields each requirement of a pod that muster does not consider when it chooses a node."""
    if claims := unknown_claims(spec):
        yield f"containers name the resourceClaims {', '.join(claims)}, which the pod does not have"
    for name, _ in requests(spec):
        if name.startswith(DEVICE_CLASS):
            yield f"{name} is not a resource; write resourceClaims with deviceClassName in their requests"
    for volume in spec.volumes:
        if "ephemeral" in volume:
            yield f"volume {volume.get('name', '?')} with a claim of its own (ephemeral) is not supported yet"
    for key in sorted(around.varying):
        yield (
            f"affinity, anti-affinity or spread looks at the label {key}, which differs between the pods of "
            "one template; that is not supported yet"
        )


def _needs_a_claim(volume: dict[str, object]) -> bool:
    return "persistentVolumeClaim" in volume or "ephemeral" in volume
