"""The result of every dialect of groups: a gang, its members, and the owner that can be suspended."""

from dataclasses import dataclass, field
from typing import Any

from muster.api.base import Kind
from muster.api.core_v1 import Pod
from muster.api.muster_v1alpha1 import Source
from muster.core.words.gang import Gang, Place, PodId


@dataclass(frozen=True, slots=True)
class Owner:
    """The Job or JobSet whose `spec.suspend` starts and stops a gang as a whole."""

    kind: Kind[Any]  # Any: Job or JobSet
    name: str
    uid: str
    resource_version: str
    suspended: bool
    #: created suspended for muster (`muster.dev/admission: gang`): muster may unsuspend it
    admission: bool


@dataclass(frozen=True, slots=True)
class Member:
    """A live pod of a gang. A member without a place waits until one is free."""

    pod: Pod
    place: Place | None


@dataclass(frozen=True, slots=True)
class Group:
    """One gang as read from objects. A pod without a group is a gang of one, without `source`."""

    gang: Gang
    namespace: str
    #: name of the Gang record and of its plans, `<dialect>-<group>` (docs/names.md)
    record: str
    source: Source
    owner: Owner | None
    members: dict[PodId, Member]
    #: places whose Job has no further pod to start
    retired: frozenset[Place]
    finished: bool
    #: a controller re-creates the pods: they may be evicted
    controlled: bool
    #: members without a controller may be deleted and re-created: all of them say so, or their group does
    recreate: bool = field(default=False, kw_only=True)
    #: by pod set, the group object that it belongs to, if that is not the source
    set_groups: dict[str, str] = field(default_factory=dict, kw_only=True)
    #: what muster interprets otherwise than it is written
    warnings: tuple[str, ...] = field(default=(), kw_only=True)
    #: pods on a node that no longer hold a place, because they are being deleted or belong to an
    #: earlier attempt: charged to the gang (PodsBound without a place) until they are gone
    leaving: dict[PodId, Pod] = field(default_factory=dict)
