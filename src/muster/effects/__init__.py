"""What muster does to the cluster, as data: the effects that controllers and the committer return.

`muster.effects.execute` executes them, in their order. A pure function that returns effects is tested by
comparing them.

An effect can be repeated. It names its object by uid where a namesake could be meant, and an effect that must
not happen twice or late carries the resourceVersion that its decision was based on, so that the API server
refuses it if another writer was first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from muster.api.base import AnyKind, Object
from muster.api.core_v1 import Pod
from muster.api.resource_v1 import ResourceClaim
from muster.core.words.gang import NodeName, Place
from muster.kube.client import Patch as Document
from muster.kube.client import Propagation


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """An Event about an object, recorded once the effects before it have succeeded.

    If the server refuses the Event, that is only logged.
    """

    about: Object = field(repr=False)  # {apiVersion, kind, namespace, name, uid}
    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    #: an occasion: Events that are equal in this too are recorded once; "" = each is recorded
    once: str = ""


@dataclass(frozen=True, slots=True)
class Create:
    """An object to create.

    It is success if the object exists already; if the body names a controller, only under that controller.
    Other owners that the body names are added to those of an object that exists and has owners; `join`
    returns the fields of its spec to change for the new owner, and raises ValueError if it cannot serve it.
    `refused` says what else to do if the server refuses the object. With `best_effort` it is success, too,
    if the server forbids it, as in a namespace that is being deleted.
    """

    kind: AnyKind
    namespace: str
    body: Object
    refused: "Refusal | None" = None
    best_effort: bool = False
    #: (existing object, body) → fields of the spec
    join: Callable[[Object, Object], Object] | None = None

    @property
    def name(self) -> str:
        """The object's name; "" if the server generates it."""
        return str(self.body["metadata"].get("name", ""))


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch to apply. `resourceVersion` and `uid` in a merge patch's metadata make it conditional.

    `tests` make a merge patch conditional by single fields: other writers of the object do not matter. They
    must show that it has those of the fields `metadata`, `spec` and `status` that the patch names. `refused`
    says what else to do if the server refuses the patch, unless it does so because of a condition.
    """

    kind: AnyKind
    namespace: str
    name: str
    body: Document
    subresource: str = ""
    #: whether it is success if the object is gone
    missing_ok: bool = True
    #: the object's resourceVersion when the patch was decided; "" where nothing waits for the change
    seen: str = ""
    refused: "Refusal | None" = None
    #: JSON pointers, and the values that the object must have there
    tests: Object = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Delete:
    """An object to delete; it is success if the object is gone. `uid` protects a successor of its name."""

    kind: AnyKind
    namespace: str
    name: str
    uid: str
    propagation: Propagation = "Background"
    grace_period: int | None = None


@dataclass(frozen=True, slots=True)
class Bind:
    """A pod to bind to a node, if the pod is still as it was seen."""

    pod: Pod
    place: Place
    node: NodeName
    #: value of the annotation `muster.dev/plan`
    mark: str
    #: which of the node's shared GPUs
    device: int | None = None
    #: part of an open plan, not a transaction of its own
    planned: bool = True


@dataclass(frozen=True, slots=True)
class Allocate:
    """A claim of devices to allocate and to reserve for pods, if it is as it was seen: at most two writes.

    The first write makes the claim muster's, and protects it from deletion; a claim that is allocated
    already is only reserved.
    """

    claim: ResourceClaim
    #: the pods for which it is to be reserved besides those that it has, and their places
    users: tuple[tuple[Place, Pod], ...]
    #: value of the annotation `muster.dev/plan`
    mark: str
    #: `status.allocation`; None = it has one
    allocation: Object | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Deallocate:
    """A claim to free, if it is as it was seen: at most two writes, of which the first frees its devices.

    If it stays reserved for others, these pods' reservations are removed, and nothing else.
    """

    claim: ResourceClaim
    #: uids of the pods whose reservations end
    pods: frozenset[str]


@dataclass(frozen=True, slots=True)
class Evict:
    """A pod to mark as ended by muster's own decision, then to delete: two writes, in this order.

    Without a message it is only deleted: it has no controller that would read the mark. `at_once`: without a
    grace period, since no node is left that would end it.
    """

    pod: Pod
    message: str = ""
    at_once: bool = False
    #: the message of the condition DisruptionTarget, if it is another
    disruption: str = ""


@dataclass(frozen=True, slots=True)
class Absent:
    """A check at the server itself: continue only if no object of this uid exists; otherwise start over.

    `refused` says what else to do if one does.
    """

    kind: AnyKind
    namespace: str
    name: str
    #: "" = any object of the name
    uid: str
    refused: "Refusal | None" = None


@dataclass(frozen=True, slots=True)
class Requeue:
    """Reconciles this object again at `at`, even if nothing changes. Executing it does nothing."""

    at: datetime


#: The server's message → what tells of the refusal.
Refusal = Callable[[str], "Sequence[Effect]"]

Effect = Create | Patch | Delete | Bind | Allocate | Deallocate | Evict | Absent | RecordEvent | Requeue


def warned(about: Object, reason: str, message: str) -> Refusal:
    """Returns what tells of a refusal by a warning Event: the message, then the server's words."""
    return lambda words: [RecordEvent(about, "Warning", reason, f"{message}: {words}")]
