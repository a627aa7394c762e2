"""Pods as a scheduler keeps them: without what only their nodes read, and with equal parts shared.

A cluster has 100,000 pods of a few hundred templates. The fields of a spec that the scheduler reads are equal
in all pods of a template, except for the node. Labels, owners and conditions are equal in many pods. Each
such part is kept once. Fields that the scheduler never reads (`env`, probes, images, most volumes) are not
even decoded. A pod takes 1 kB instead of 13.
"""

from types import GenericAlias
from typing import Any, Final, TypeVar

import msgspec

from muster.api.base import Condition, Kind, Object, Struct
from muster.api.core_v1 import Container, ContainerStatus, Pod, PodSpec, PodStatus
from muster.api.kinds import POD

T = TypeVar("T")

#: Most parts of one sort that are remembered. At this number all are forgotten: pods that were read earlier
#: keep sharing them, later pods share new ones.
SHARED: Final = 1 << 14


def _slim(base: type[Struct], unread: str, **other: Any) -> Any:  # Any: types that no checker can know
    """Returns a struct that does not decode the fields `unread`: they are empty. `other`: types of fields."""
    defaults = {field.name: field.default for field in msgspec.structs.fields(base)}
    skipped = [
        (
            name,
            Any,
            msgspec.field(
                default=() if defaults[name] is msgspec.NODEFAULT else defaults[name], name=f"-{name}"
            ),
        )
        for name in unread.split()
    ]
    changed = [
        (name, GenericAlias(list, tuple(type_)), msgspec.field(default=()))
        if isinstance(type_, list)
        else (name, type_, msgspec.field(default=type_()))
        for name, type_ in other.items()
    ]
    return msgspec.defstruct(
        base.__name__,
        [*skipped, *changed],
        bases=(base,),
        frozen=True,
        gc=False,
        rename="camel",
        kw_only=True,
        omit_defaults=True,
    )


class _Volume(Struct, frozen=True):
    name: str = ""
    persistent_volume_claim: Object | None = None
    ephemeral: Object | None = None


_Container = _slim(
    Container,
    "image command args working_dir env env_from volume_mounts startup_probe liveness_probe readiness_probe "
    "lifecycle",
)
_ContainerStatus = _slim(ContainerStatus, "image last_state restart_count ready started")
_Spec = _slim(
    PodSpec,
    "hostname subdomain restart_policy service_account_name",
    containers=[_Container],
    init_containers=[_Container],
    volumes=[_Volume],
)
_Status = _slim(
    PodStatus,
    "host_ip pod_ip",
    container_statuses=[_ContainerStatus],
    init_container_statuses=[_ContainerStatus],
)


_Pod = _slim(Pod, "", spec=_Spec, status=_Status)


def _shared(pod: Pod) -> Pod:
    """Returns the pod. Parts that equal those of other pods are the same objects as theirs."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    node, plain = spec.node_name, msgspec.structs.replace(spec, node_name="", volumes=_claims(spec))
    plain = _once(_SPECS, _ENCODE(plain), plain)
    return Pod(
        api_version=POD.api_version,
        kind=POD.kind,
        metadata=msgspec.structs.replace(
            meta,
            generate_name=_text(meta.generate_name),
            namespace=_text(meta.namespace),
            labels=_once(_MAPS, tuple(meta.labels.items()), meta.labels),
            annotations=_once(_MAPS, tuple(meta.annotations.items()), meta.annotations),
            owner_references=_once(_LISTS, tuple(meta.owner_references), meta.owner_references),
            finalizers=_once(_LISTS, tuple(meta.finalizers), meta.finalizers),
        ),
        spec=msgspec.structs.replace(plain, node_name=_text(node)) if node else plain,
        status=_status(status),
    )


def _claims(spec: PodSpec) -> list[Object]:
    """Returns the volumes that limit where a pod runs."""
    volumes: Any = spec.volumes  # Any: they have been read as `_Volume`
    return [
        {"name": volume.name}
        | ({"persistentVolumeClaim": claim} if (claim := volume.persistent_volume_claim) is not None else {})
        | ({"ephemeral": volume.ephemeral} if volume.ephemeral is not None else {})
        for volume in volumes
        if volume.persistent_volume_claim is not None or volume.ephemeral is not None
    ]


def _status(status: PodStatus) -> PodStatus:
    """Returns the status, with containers only if the pod has failed or has been resized."""
    each = (*status.container_statuses, *status.init_container_statuses)
    if status.phase != "Failed" and not any(one.allocated_resources or one.resources for one in each):
        status = msgspec.structs.replace(status, container_statuses=[], init_container_statuses=[])
    packed = _ENCODE(status)
    known = _STATUSES.get(packed)
    if known is not None:
        return known
    conditions = [_once(_CONDITIONS, each, each) for each in status.conditions]
    return _once(_STATUSES, packed, msgspec.structs.replace(status, conditions=conditions))


def _once(known: dict[Any, T], key: object, value: T) -> T:  # Any: keys of any type
    """Returns the first of equal values."""
    if len(known) >= SHARED:
        known.clear()
    return known.setdefault(key, value)


def _text(text: str) -> str:
    return _once(_TEXTS, text, text)


_ENCODE: Final = msgspec.msgpack.Encoder(order="deterministic").encode
_SPECS: Final[dict[bytes, PodSpec]] = {}
_STATUSES: Final[dict[bytes, PodStatus]] = {}
_CONDITIONS: Final[dict[Condition, Condition]] = {}
_MAPS: Final[dict[Any, dict[str, str]]] = {}
_LISTS: Final[dict[Any, Any]] = {}
_TEXTS: Final[dict[str, str]] = {}

#: `POD`, as the scheduler reads it.
SCHEDULED_POD: Final[Kind[Pod]] = Kind(
    POD.group, POD.version, POD.kind, POD.plural, POD.namespaced, _Pod, kept=_shared
)
