"""Events for the core. Each event states a fact about now; repeating it changes nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from muster.core.words.decisions import Victim
from muster.core.words.devices import (
    DeviceId,
    DeviceKindChanged,
    DeviceKindRemoved,
    DevicesChanged,
)
from muster.core.words.gang import (
    Amounts,
    Avoidance,
    Gang,
    GangId,
    Hashed,
    HostPort,
    Labels,
    Layer,
    NodeName,
    Place,
    PodId,
    PodTerm,
    Queue,
    Requirement,
    Taint,
)


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """A node was added or changed. `capacity` is its allocatable; without `pods`, pods are not limited."""

    name: NodeName
    capacity: Amounts
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    cordoned: bool = False
    ready: bool = True
    #: what it offers that not every node does, and pods may need
    features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeRemoved:
    name: NodeName


@dataclass(frozen=True, slots=True)
class GangSubmitted:
    """A gang was added, or its demand, minimum, priority or gate changed. Its oldest `submitted` counts."""

    gang: Gang


@dataclass(frozen=True, slots=True)
class GangRemoved:
    """A gang is finished or deleted: all it holds is released."""

    gang: GangId


@dataclass(frozen=True, slots=True)
class Footprint(Hashed):
    """What other pods see of a pod on a node, besides the amounts that it takes.

    No pod's affinity, anti-affinity or spread selects a pod without a namespace.
    """

    namespace: str = ""
    labels: Labels = ()
    ports: tuple[HostPort, ...] = ()
    #: its required anti-affinity, which holds against newcomers too
    pod_anti_affinity: tuple[PodTerm, ...] = ()
    #: which device of the node its share of a GPU is on, if that is on record
    device: int | None = None
    #: it is being deleted: topology spread does not count it any more
    leaving: bool = False
    #: devices of the node that its claims have
    devices: tuple[DeviceId, ...] = ()

    __hash__ = Hashed.__hash__


NOTHING: Final = Footprint()


@dataclass(frozen=True, slots=True)
class PodsBound:
    """Live pods, all the same, occupy a node: members at their places, or foreign pods (`gang` is None).

    A pod counts on its actual node, whatever node its place was promised, and whether or not the gang and the
    node are known yet. A member without a place (one of an earlier attempt) is charged to its gang and
    satisfies nothing; when it ends, the place that it filled before is held on its node. Of the resource
    `pods` a pod takes one, requested or not.
    """

    #: the pods, and the place that each fills
    pods: Mapping[PodId, Place | None]
    node: NodeName
    requests: Amounts
    gang: GangId | None = None
    footprint: Footprint = NOTHING
    #: since when the pods are bound, in seconds since the epoch; None = not known
    at: float | None = None


@dataclass(frozen=True, slots=True)
class PodsEnded:
    """These pods no longer occupy their nodes. Their places are held for replacements from `at` on."""

    pods: tuple[PodId, ...]
    at: float


@dataclass(frozen=True, slots=True)
class StartFailed:
    """A pod has failed on its node at its start: the node rejected it, or as a setting says.

    Its place is not held for its replacement, which keeps off the node for a while, as all pods of `origin`.
    """

    node: NodeName
    #: `Gang.origin` of its gang, or the gang
    origin: str
    #: its namespace; failures of one tenant do not keep others off the node
    tenant: str
    at: float
    message: str


@dataclass(frozen=True, slots=True)
class AvoidanceChanged:
    """When nodes are avoided from now on: a setting."""

    rules: Avoidance


@dataclass(frozen=True, slots=True)
class PlacesRetired:
    """All places, as of now, whose Job has no further pod to start: they are satisfied, and hold nothing.

    The set replaces the set of earlier events: a Job that starts again gets its places back.
    """

    gang: GangId
    places: frozenset[Place]


@dataclass(frozen=True, slots=True)
class PlanFound:
    """An open plan of an earlier leader: its unfilled places are held as it says, if they still fit.

    The scheduler answers with an `Assign` as usual; places that no longer fit are assigned again. `victims`
    are leaving for it: whole gangs, or some of their pods.
    """

    gang: GangId
    nodes: Mapping[Place, NodeName]
    victims: tuple[Victim, ...] = ()


@dataclass(frozen=True, slots=True)
class PlacesLost:
    """Binding these places failed: assign them again, avoiding `excluded` nodes until `until`."""

    gang: GangId
    places: frozenset[Place]
    excluded: frozenset[NodeName]
    until: float


@dataclass(frozen=True, slots=True)
class CommitFailed:
    """A gang's start failed and was undone: what it holds is released and it backs off until `until`.

    `until` = infinity means until the gang or a node changes. `excluded` is unused; it is kept so that
    older journals can be read.
    """

    gang: GangId
    until: float
    message: str
    excluded: frozenset[NodeName] = frozenset()


@dataclass(frozen=True, slots=True)
class LayersChanged:
    """The layers of the network topology, from the widest to the narrowest; nodes are below the last."""

    layers: tuple[Layer, ...]


@dataclass(frozen=True, slots=True)
class OutOfReach:
    """All resources that the cluster has in a form of which the scheduler gives nothing out, with a hint.

    A gang that waits because nodes have too little of such a resource is told the hint.
    """

    hints: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class QueueChanged:
    queue: Queue


@dataclass(frozen=True, slots=True)
class QueueRemoved:
    name: str


@dataclass(frozen=True, slots=True)
class QuotaChanged:
    """A namespace's ResourceQuota: what all pods that are still to be created may ask for in sum.

    `room` is hard minus used as the API server says, by the quota's own names (`requests.cpu`, `pods`).
    `hard` is what it never exceeds, as far as that is known.
    """

    namespace: str
    name: str
    room: Amounts
    hard: Amounts = ()


@dataclass(frozen=True, slots=True)
class QuotaRemoved:
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class BudgetChanged:
    """A PodDisruptionBudget: `allowed` of the namespace's matching pods may be evicted now."""

    namespace: str
    name: str
    labels: tuple[Requirement, ...]
    allowed: int


@dataclass(frozen=True, slots=True)
class BudgetRemoved:
    namespace: str
    name: str


Event = (
    NodeChanged
    | NodeRemoved
    | DeviceKindChanged
    | DeviceKindRemoved
    | DevicesChanged
    | GangSubmitted
    | GangRemoved
    | PodsBound
    | PodsEnded
    | PlacesRetired
    | PlanFound
    | PlacesLost
    | StartFailed
    | AvoidanceChanged
    | CommitFailed
    | LayersChanged
    | OutOfReach
    | QueueChanged
    | QueueRemoved
    | QuotaChanged
    | QuotaRemoved
    | BudgetChanged
    | BudgetRemoved
)
