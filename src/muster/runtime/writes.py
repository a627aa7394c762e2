"""Everything the committer may do to the world: one class per write, and what is seen once it is done.

Each write can be repeated: it names the object by uid, and what must not happen twice or late carries
the resourceVersion it was decided on, so that the API server refuses it when someone else was there
first. After a write its gang is looked at again only once the mirror shows the effect (`expectation`),
which keeps the committer from acting twice on one stale picture.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from muster.api import kinds
from muster.api.base import Kind, Object, Resource
from muster.api.core_v1 import Pod
from muster.core.gang import NodeName, Place
from muster.runtime.plan import Plan, PodRef
from muster.translate.group import Owner

AnyKind = Kind[Any]  # Any: writes go to objects of many kinds


@dataclass(frozen=True, slots=True)
class CreateGang:
    namespace: str
    name: str
    body: Object


@dataclass(frozen=True, slots=True)
class PatchGang:
    """`spec` or `metadata` of a Gang."""

    namespace: str
    name: str
    version: str
    body: Object


@dataclass(frozen=True, slots=True)
class PatchGangStatus:
    namespace: str
    name: str
    version: str  # what was seen; not a precondition, since the gang controller writes there too
    body: Object


@dataclass(frozen=True, slots=True)
class CreatePlan:
    plan: Plan
    body: Object


@dataclass(frozen=True, slots=True)
class RecordPods:
    """Creates a plan that holds these pods, those that are still there, to make them anew.

    They are read whole for it: what this process knows of a pod is only what scheduling needs.
    """

    plan: Plan
    pods: tuple[PodRef, ...]


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Makes a recorded pod anew: by name, so that there is never a second."""

    namespace: str
    name: str
    body: Object


@dataclass(frozen=True, slots=True)
class DeletePlan:
    plan: Plan


@dataclass(frozen=True, slots=True)
class Suspend:
    """One write that ends a whole gang, if its owner is still as we saw it."""

    namespace: str
    owner: Owner


@dataclass(frozen=True, slots=True)
class Unsuspend:
    namespace: str
    owner: Owner


@dataclass(frozen=True, slots=True)
class Bind:
    pod: Pod
    place: Place
    node: NodeName
    mark: str
    #: which of the node's shared GPUs
    device: int | None = None
    #: part of an open plan, not a transaction of its own
    planned: bool = True


@dataclass(frozen=True, slots=True)
class EvictPod:
    """Marks the pod as ended by muster's own decision, then deletes it: two writes, in this order."""

    pod: Pod
    message: str


@dataclass(frozen=True, slots=True)
class PatchPodStatus:
    """Why a gang of one waits, in its pod's PodScheduled condition."""

    pod: Pod
    body: Object


@dataclass(frozen=True, slots=True)
class PatchQueueStatus:
    """What the scheduler knows of a queue; nothing is decided by it."""

    name: str
    version: str  # what was seen; no precondition: nobody else writes there
    body: Object


@dataclass(frozen=True, slots=True)
class PatchTopologyStatus:
    """The domains of the network topology; nothing is decided by it."""

    name: str
    version: str  # what was seen; no precondition, as whoever else writes there says the same
    body: Object


@dataclass(frozen=True, slots=True)
class Touch:
    """Moves an object's resourceVersion on, so that what an earlier leader planned for it is refused.

    It is conditional itself: one that comes late must not hide a later leader's.
    """

    kind: AnyKind
    namespace: str
    name: str
    version: str
    epoch: int


Write = (
    CreateGang
    | PatchGang
    | PatchGangStatus
    | CreatePlan
    | RecordPods
    | CreatePod
    | DeletePlan
    | Suspend
    | Unsuspend
    | Bind
    | EvictPod
    | PatchPodStatus
    | PatchQueueStatus
    | PatchTopologyStatus
    | Touch
)

#: Writes of which neighbours of one class are independent of each other and may go out together.
PARALLEL: Final = (Bind, CreatePod, EvictPod, Touch)


class Effect(Enum):
    CREATED = "created"
    CHANGED = "changed"  # or gone
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Expectation:
    """What the mirror must show of an object before its gang is looked at again."""

    effect: Effect
    kind: AnyKind
    key: str
    was: str = ""  # CHANGED: the resourceVersion before, GONE: the uid

    def met(self, found: Resource | None) -> bool:
        match self.effect:
            case Effect.CREATED:
                return found is not None
            case Effect.CHANGED:
                return found is None or found.metadata.resource_version != self.was
            case Effect.GONE:
                return found is None or found.metadata.uid != self.was


def aim(write: Write) -> object:
    """What a write is for: two of equal aim, one after the other, are the same write again.

    Versions and attempts do not count: they change with each try.
    """
    match write:
        case CreatePlan(plan) | RecordPods(plan):
            return type(write), plan.namespace, plan.record
        case Bind(pod, _, node):
            return Bind, pod.metadata.uid, node
        case EvictPod(pod) | PatchPodStatus(pod):
            return type(write), pod.metadata.uid
        case CreateGang(body=body) | PatchGang(body=body) | PatchGangStatus(body=body):
            return type(write), write.namespace, write.name, body
        case _:
            expected = expectation(write)
            return type(write), expected.kind, expected.key


def expectation(write: Write) -> Expectation:
    """What must be seen after `write` succeeded, or was refused because someone else had been there."""
    match write:
        case CreateGang(namespace, name):
            return Expectation(Effect.CREATED, kinds.GANG, f"{namespace}/{name}")
        case PatchGang(namespace, name, version) | PatchGangStatus(namespace, name, version):
            return Expectation(Effect.CHANGED, kinds.GANG, f"{namespace}/{name}", version)
        case CreatePod(namespace, name):
            return Expectation(Effect.CREATED, kinds.POD, f"{namespace}/{name}")
        case CreatePlan(plan) | RecordPods(plan):
            return Expectation(Effect.CREATED, kinds.GANG_PLAN, f"{plan.namespace}/{plan.name}")
        case DeletePlan(plan):
            return Expectation(Effect.GONE, kinds.GANG_PLAN, f"{plan.namespace}/{plan.name}", plan.uid)
        case Suspend(namespace, owner) | Unsuspend(namespace, owner):
            return Expectation(
                Effect.CHANGED, owner.kind, f"{namespace}/{owner.name}", owner.resource_version
            )
        case Bind(pod) | EvictPod(pod) | PatchPodStatus(pod):
            return Expectation(Effect.CHANGED, kinds.POD, pod.key, pod.metadata.resource_version)
        case PatchQueueStatus(name, version):
            return Expectation(Effect.CHANGED, kinds.QUEUE, name, version)
        case PatchTopologyStatus(name, version):
            return Expectation(Effect.CHANGED, kinds.CLUSTER_NETWORK_TOPOLOGY, name, version)
        case Touch(kind, namespace, name, version):
            return Expectation(Effect.CHANGED, kind, f"{namespace}/{name}" if namespace else name, version)
