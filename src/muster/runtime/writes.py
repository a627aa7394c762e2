"""Everything the committer may do to the world: one class per write, and the effect to expect of it.

Each write can be repeated: it names the object by uid, and a write that must not happen twice or late carries
the resourceVersion that its decision was based on, so that the API server refuses it if another writer was
first. After a write its gang is visited again only once the mirror shows the effect (`expectation`), which
keeps the committer from acting twice on one stale picture.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from muster.api import kinds
from muster.api.base import Kind, Object, Resource
from muster.api.core_v1 import Pod
from muster.core.words.gang import NodeName, Place
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
    """A patch of the `spec` or `metadata` of a Gang."""

    namespace: str
    name: str
    version: str
    body: Object


@dataclass(frozen=True, slots=True)
class PatchGangStatus:
    namespace: str
    name: str
    version: str  # as seen; not a precondition, since the gang controller writes there too
    body: Object


@dataclass(frozen=True, slots=True)
class CreatePlan:
    plan: Plan
    body: Object


@dataclass(frozen=True, slots=True)
class RecordPods:
    """Creates a plan that holds those of these pods that still exist, for re-creation.

    The pods are read in full for this: the mirror keeps only what scheduling needs of a pod.
    """

    plan: Plan
    pods: tuple[PodRef, ...]


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Re-creates a recorded pod: by name, so that there is never a second."""

    namespace: str
    name: str
    body: Object


@dataclass(frozen=True, slots=True)
class DeletePlan:
    plan: Plan


@dataclass(frozen=True, slots=True)
class Suspend:
    """Ends a whole gang in one write, if its owner is still as it was seen."""

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
    """Writes why a gang of one waits into its pod's PodScheduled condition."""

    pod: Pod
    body: Object


@dataclass(frozen=True, slots=True)
class PatchQueueStatus:
    """Writes what the scheduler knows of a queue; no decision depends on it."""

    name: str
    version: str  # as seen; not a precondition: no other client writes there
    body: Object


@dataclass(frozen=True, slots=True)
class PatchTopologyStatus:
    """Writes the domains of the network topology; no decision depends on it."""

    name: str
    version: str  # as seen; not a precondition, as any other writer writes the same
    body: Object


@dataclass(frozen=True, slots=True)
class Touch:
    """Changes an object's resourceVersion, so that writes that an earlier leader planned are refused.

    A touch is itself conditional: a late touch must not hide that of a later leader.
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

#: Writes that do not depend on adjacent writes of the same class: these may go out together.
PARALLEL: Final = (Bind, CreatePod, EvictPod, Touch)


class Effect(Enum):
    CREATED = "created"
    CHANGED = "changed"  # or gone
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Expectation:
    """What the mirror must show of an object before its gang is visited again."""

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
    """Returns what a write is for: two consecutive writes of equal aim are the same write again.

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
    """Returns what the mirror must show after `write` succeeded or lost to another writer."""
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
