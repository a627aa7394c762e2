"""The result of every dialect of groups: a gang, its members, and the owner that can be suspended."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final

from muster.api import groups
from muster.api.base import Kind, Resource
from muster.api.core_v1 import Pod
from muster.api.kinds import JOB, POD
from muster.api.kinds import PERSISTENT_VOLUME_CLAIM as CLAIM
from muster.api.muster_v1alpha1 import Source
from muster.api.pod_claims import claims_are_read
from muster.core.words.gang import Gang, Place, PodId
from muster.translate.claims import where_usable
from muster.translate.running import checkpointed_at


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


@dataclass(slots=True)
class Touched:
    """The objects that have changed since a group was read, by name; each a set that keeps its order."""

    pods: dict[str, None] = field(default_factory=dict)
    jobs: dict[str, None] = field(default_factory=dict)
    #: by kind, the names of changed objects that pods refer to: a namespace, a class, a claim …
    others: dict[Kind[Any], set[str]] = field(default_factory=dict)  # Any: a kind that groups are read from
    #: whether a Job or PodGroup became part of another gang, and maybe came back, with other pods than before
    anew: bool = False

    def add(self, kind: Kind[Any], old: Resource | None, new: Resource | None) -> None:  # Any: as above
        """Takes in a change. If it is only the node that a claim is for, pods say the same."""
        name = (new or old).metadata.name  # type: ignore[union-attr]
        if kind is POD:
            self.pods[name] = None
        elif kind is JOB:
            self.jobs[name] = None
        elif kind in groups.BY_KIND:
            pass  # these are read each time
        elif old is None or new is None or kind is not CLAIM or where_usable(old) != where_usable(new):
            self.others.setdefault(kind, set()).add(name)


@dataclass(frozen=True, slots=True)
class Member:
    """A live pod of a gang. A member without a place waits until one is free."""

    pod: Pod
    place: Place | None


class Members(dict[PodId, Member]):
    """The live pods of a gang. A change of one pod costs one pod."""

    __slots__ = ("claiming", "filled", "ready", "saved")

    def __init__(self) -> None:
        super().__init__()
        #: the pods on a node that have a place, and those that wait for a node
        self.filled: dict[Place, Pod] = {}
        self.ready: dict[Place, Pod] = {}
        #: the pods without a node that have claims of devices, or are told of one, with or without a place;
        #: not those that have more claims than muster reads
        self.claiming: dict[PodId, Pod] = {}
        #: by pod that reports one, the time of its last checkpoint (seconds since the epoch)
        self.saved: dict[PodId, float] = {}

    def put(self, pod: Pod, place: Place | None) -> None:
        uid = PodId(pod.metadata.uid)
        self.remove(uid)
        self[uid] = Member(pod, place)
        if (saved := checkpointed_at(pod.metadata)) is not None:
            self.saved[uid] = saved
        if place is not None:
            (self.filled if pod.spec.node_name else self.ready)[place] = pod
        if claims_are_read(pod) and not pod.spec.node_name:
            self.claiming[uid] = pod

    def renew(self, pod: Pod) -> None:
        """Takes in a newer state of a member that says the same, and so has the same place."""
        uid = PodId(pod.metadata.uid)
        old = self[uid]
        self[uid] = Member(pod, old.place)
        if old.place is not None:
            for pods in (self.filled, self.ready):
                if pods.get(old.place) is old.pod:
                    pods[old.place] = pod

    def remove(self, uid: PodId) -> None:
        member = self.pop(uid, None)
        self.saved.pop(uid, None)
        self.claiming.pop(uid, None)
        if member is None or member.place is None:
            return
        for pods in (self.filled, self.ready):
            if pods.get(member.place) is member.pod:  # another pod may have the place by now
                del pods[member.place]


def all_of(parts: Sequence[Members]) -> Members:
    """Returns the members of all parts; those of the only part as they are."""
    if len(parts) == 1:
        return parts[0]
    found = Members()
    for part in parts:
        found.update(part)
        found.saved |= part.saved
        found.filled |= part.filled
        found.ready |= part.ready
        found.claiming |= part.claiming
    return found


@dataclass(frozen=True, slots=True)
class Group:
    """One gang as read from objects. A pod without a group is a gang of one, without `source`.

    `members` and `leaving` are the reader's own: the next reading of the gang changes them.
    """

    gang: Gang
    namespace: str
    #: name of the Gang record and of its plans, `<dialect>-<group>` (docs/reference/names.md)
    record: str
    source: Source
    owner: Owner | None
    members: Members
    #: places whose Job has no further pod to start
    retired: frozenset[Place]
    finished: bool
    #: a controller re-creates the pods: they may be evicted
    controlled: bool
    #: members without a controller may be deleted and re-created: neither they nor their group forbid it
    recreate: bool = field(default=False, kw_only=True)
    #: members that their nodes refused before a container ran, and that muster may re-create
    rejected: tuple[Pod, ...] = field(default=(), kw_only=True)
    #: by pod set, the group object that it belongs to, if that is not the source
    set_groups: dict[str, str] = field(default_factory=dict, kw_only=True)
    #: what muster interprets otherwise than it is written, or what is wrong with a gang that runs
    warnings: tuple[str, ...] = field(default=(), kw_only=True)
    #: the Lease of the scheduler that records the gang, as in its record (`GangSpec`)
    lease: str = field(default="", kw_only=True)
    #: pods on a node that no longer hold a place, because they are being deleted or belong to an
    #: earlier attempt: charged to the gang (PodsBound without a place) until they are gone
    leaving: Mapping[PodId, Pod] = field(default_factory=dict)

    @property
    def namespaces(self) -> frozenset[str]:
        """Returns its own namespaces: of its group and of its pods."""
        return frozenset({self.namespace, *(pod_set.namespace for pod_set in self.gang.pod_sets)} - {""})


#: What a reader returns: the group (None: there is no such gang), and pods whose place has changed.
ReadGroup = tuple[Group | None, Set[PodId]]
NONE_MOVED: Final = frozenset[PodId]()
