"""The words of the core: gangs, their pod sets and places, and what a pod asks of a node."""

from dataclasses import dataclass
from enum import Enum
from typing import NewType

#: `namespace/name` of the group, plus `/stage` where it has several.
GangId = NewType("GangId", str)
NodeName = NewType("NodeName", str)
#: a pod's uid
PodId = NewType("PodId", str)

#: Amounts of resources by name: milli-CPU, MiB, pieces. Sorted by name, no zeros.
Amounts = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """One running pod's worth of a gang."""

    pod_set: str
    index: int

    def __str__(self) -> str:
        return f"{self.pod_set}/{self.index}"


class Effect(Enum):
    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str
    effect: Effect


@dataclass(frozen=True, slots=True)
class Toleration:
    """Tolerates taints of `key` ("" = any), with `value` (None = any), of `effect` (None = any)."""

    key: str = ""
    value: str | None = None
    effect: Effect | None = None

    def tolerates(self, taint: Taint) -> bool:
        return (
            (not self.key or self.key == taint.key)
            and (self.value is None or self.value == taint.value)
            and (self.effect is None or self.effect == taint.effect)
        )


class Operator(Enum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    key: str
    operator: Operator
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """Requirements that hold together: on labels, and on the node's name (`metadata.name`)."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class Shape:
    """What one pod asks of a node. Pods of equal shape are interchangeable to the scheduler."""

    requests: Amounts
    #: every label must have this value
    selector: tuple[tuple[str, str], ...] = ()
    #: any one term must hold; None = no affinity. An empty tuple matches no node.
    affinity: tuple[NodeTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True)
class PodSet:
    name: str
    shape: Shape
    count: int
    min_count: int = 0


class Code(Enum):
    """Why a gang waits; the first that applies (docs/names.md)."""

    INVALID = "Invalid"
    GATED = "Gated"
    MEMBERS_MISSING = "MembersMissing"
    QUEUE_CLOSED = "QueueClosed"
    QUOTA_EXCEEDED = "QuotaExceeded"
    NOTHING_MATCHES = "NothingMatches"
    OVER_SHARE = "OverShare"
    COMMIT_FAILED = "CommitFailed"
    WAITING_FOR_VICTIMS = "WaitingForVictims"
    HELD_FOR_RESERVATION = "HeldForReservation"
    INSUFFICIENT_CAPACITY = "InsufficientCapacity"
    TOPOLOGY_UNSATISFIED = "TopologyUnsatisfied"
    CONSTRAINT_UNSATISFIED = "ConstraintUnsatisfied"
    FRAGMENTED = "Fragmented"


@dataclass(frozen=True, slots=True)
class Gate:
    """Why a gang must not be started now, found before the core: Invalid, Gated or MembersMissing."""

    code: Code
    message: str


@dataclass(frozen=True, slots=True)
class Gang:
    """A group of pods that is queued, charged, placed, preempted and explained as one.

    All stated minima hold together: each pod set's `min_count`, and `min_count` over the whole gang.
    """

    id: GangId
    pod_sets: tuple[PodSet, ...]
    min_count: int
    #: seconds since the epoch; kept over restarts and preemptions
    submitted: float
    priority: int = 0
    queue: str = "default"
    gate: Gate | None = None
