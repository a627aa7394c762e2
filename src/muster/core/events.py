"""What the core is told. Each event states a fact about now; telling it twice changes nothing."""

from collections.abc import Mapping
from dataclasses import dataclass

from muster.core.gang import Amounts, Gang, GangId, NodeName, Place, PodId, Taint


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """A node is there (new or changed). `capacity` is its allocatable; without `pods` it sets no limit."""

    name: NodeName
    capacity: Amounts
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    cordoned: bool = False
    ready: bool = True


@dataclass(frozen=True, slots=True)
class NodeRemoved:
    name: NodeName


@dataclass(frozen=True, slots=True)
class GangSubmitted:
    """A gang is there, or its demand, minimum, priority or gate changed. Its age stays the oldest told."""

    gang: Gang


@dataclass(frozen=True, slots=True)
class GangRemoved:
    """A gang is finished or gone: all it holds is given back."""

    gang: GangId


@dataclass(frozen=True, slots=True)
class PodBound:
    """A live pod occupies a node: a member at its place, or a foreign pod (`gang` is None).

    It counts where it really is, whatever node its place was promised, and whether or not the gang and the
    node are known yet. A member without a place (one of an earlier attempt) is charged to its gang and
    satisfies nothing; when it ends, the place that it filled before is held on its node. Of the resource
    `pods` a pod takes one, requested or not.
    """

    pod: PodId
    node: NodeName
    requests: Amounts
    gang: GangId | None = None
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class PodEnded:
    """A pod occupies its node no longer. Its place stays held for a replacement from `at` on."""

    pod: PodId
    at: float


@dataclass(frozen=True, slots=True)
class PlacesRetired:
    """All places, as of now, whose Job has no further pod to start: satisfied, and holding nothing.

    The set replaces what was told before: a Job that starts anew has its places back.
    """

    gang: GangId
    places: frozenset[Place]


@dataclass(frozen=True, slots=True)
class PlanFound:
    """An open plan of an earlier leader: its unfilled places are held as it says, if they still fit.

    Answered by an `Assign` as usual; places that no longer fit are assigned anew.
    """

    gang: GangId
    nodes: Mapping[Place, NodeName]


@dataclass(frozen=True, slots=True)
class PlacesLost:
    """Binding these places failed: assign them anew, avoiding `excluded` nodes until `until`."""

    gang: GangId
    places: frozenset[Place]
    excluded: frozenset[NodeName]
    until: float


@dataclass(frozen=True, slots=True)
class CommitFailed:
    """A gang's start failed and was undone: what it holds is given back and it backs off until `until`.

    `until` = infinity means until the gang or a node changes.
    """

    gang: GangId
    until: float
    message: str
    excluded: frozenset[NodeName] = frozenset()


Event = (
    NodeChanged
    | NodeRemoved
    | GangSubmitted
    | GangRemoved
    | PodBound
    | PodEnded
    | PlacesRetired
    | PlanFound
    | PlacesLost
    | CommitFailed
)
