"""Pods as a scheduler keeps them: without what only their nodes read, and with equal parts shared.

A cluster has 100,000 pods of a few hundred templates. The fields of a spec that the scheduler reads are equal
in all pods of a template, except for the node. Labels, owners and conditions are equal in many pods. Each
such part is kept once. Fields that the scheduler never reads (`env`, probes, images, most volumes) are not
even decoded. A pod takes 1 kB instead of 13.
"""

from collections.abc import Callable
from types import GenericAlias
from typing import Any, Final, Generic, TypeVar

import msgspec

from muster.api.base import Condition, Kind, Object, Struct
from muster.api.core_v1 import Container, ContainerStatus, Pod, PodSpec, PodStatus
from muster.api.kinds import POD

T = TypeVar("T")

#: Most bytes of the parts of one sort, as they are encoded, that are remembered. Beyond that all are
#: forgotten: pods that were read earlier keep sharing them, later pods share new ones.
REMEMBERED: Final = 1 << 25
#: Bytes that count for each part besides its own.
_ENTRY: Final = 1 << 10


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


class _Mount(Struct, frozen=True):
    bind_mount_options: list[str] = []


_Container = _slim(
    Container,
    "image command args working_dir env env_from startup_probe liveness_probe readiness_probe lifecycle "
    "termination_message_path termination_message_policy",
    volume_mounts=[_Mount],
)
_ContainerStatus = _slim(ContainerStatus, "image last_state restart_count ready started")
_Spec = _slim(
    PodSpec,
    "hostname subdomain host_aliases set_hostname_as_fqdn restart_policy service_account_name",
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
    node = spec.node_name
    plain = msgspec.structs.replace(
        spec,
        node_name="",
        volumes=_claims(spec),
        containers=[*map(_with_options, spec.containers)],
        init_containers=[*map(_with_options, spec.init_containers)],
    )
    plain = _SPECS.first(_packed(plain), plain)
    return Pod(
        api_version=POD.api_version,
        kind=POD.kind,
        metadata=msgspec.structs.replace(
            meta,
            generate_name=_TEXTS.first(meta.generate_name, meta.generate_name),
            namespace=_TEXTS.first(meta.namespace, meta.namespace),
            labels=_MAPS.first(tuple(meta.labels.items()), meta.labels),
            annotations=_MAPS.first(tuple(meta.annotations.items()), meta.annotations),
            owner_references=_LISTS.first(tuple(meta.owner_references), meta.owner_references),
            finalizers=_LISTS.first(tuple(meta.finalizers), meta.finalizers),
        ),
        spec=msgspec.structs.replace(plain, node_name=_TEXTS.first(node, node)) if node else plain,
        status=_status(msgspec.structs.replace(status, nominated_node_name="") if node else status),
    )


def _with_options(container: Container) -> Container:
    """Returns the container with only the mounts that limit where a pod runs."""
    if not container.volume_mounts:
        return container
    mounts: Any = container.volume_mounts  # Any: they have been read as `_Mount`
    kept = [{"bindMountOptions": mount.bind_mount_options} for mount in mounts if mount.bind_mount_options]
    return msgspec.structs.replace(container, volume_mounts=kept)


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
    packed = _packed(status)
    known = _STATUSES.known(packed)
    if known is not None:
        return known
    conditions = [_CONDITIONS.first(each, each) for each in status.conditions]
    return _STATUSES.first(packed, msgspec.structs.replace(status, conditions=conditions))


class _Parts(Generic[T]):
    """Parts of one sort, each by a key that only equal parts have; `size`: the bytes of a key."""

    def __init__(self, size: Callable[[Any], int]) -> None:
        self._size, self._parts, self._left = size, dict[Any, T](), REMEMBERED

    def known(self, key: object) -> T | None:
        return self._parts.get(key)

    def first(self, key: object, part: T) -> T:
        """Returns the first of equal parts; without a key, this one."""
        known = self._parts.get(key)
        if known is not None or key is None:
            return part if known is None else known
        self._left -= self._size(key) + _ENTRY
        if self._left < 0:
            self._parts.clear()
            self._left = REMEMBERED - self._size(key)
        self._parts[key] = part
        return part


def _packed(part: Struct) -> bytes | None:
    """Returns a key for a part; None for one with values that no API server has checked."""
    try:
        return _ENCODE(part)
    except (OverflowError, RecursionError):
        return None


_ENCODE: Final = msgspec.msgpack.Encoder(order="deterministic").encode
_SPECS: Final = _Parts[PodSpec](len)
_STATUSES: Final = _Parts[PodStatus](len)
_CONDITIONS: Final = _Parts[Condition](lambda condition: len(_ENCODE(condition)))
_MAPS: Final = _Parts[dict[str, str]](lambda items: sum(len(key) + len(value) for key, value in items))
_LISTS: Final = _Parts[list[Any]](lambda items: len(_ENCODE(items)))  # Any: lists of any type
_TEXTS: Final = _Parts[str](len)

#: `POD`, as the scheduler reads it.
SCHEDULED_POD: Final[Kind[Pod]] = Kind(
    POD.group, POD.version, POD.kind, POD.plural, POD.namespaced, _Pod, kept=_shared
)
