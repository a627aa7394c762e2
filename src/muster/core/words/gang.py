"""The words of the core: gangs, their pod sets and places, and what a pod asks of a node."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache, partial
from itertools import repeat
from operator import attrgetter
from typing import Final, NamedTuple, NewType

from muster.core.words.devices import ClaimShape
from muster.names import GPU_SHARE, is_gpu

#: `namespace/name` of the group, plus `/stage` where it has several.
GangId = NewType("GangId", str)
NodeName = NewType("NodeName", str)
#: a pod's uid
PodId = NewType("PodId", str)

#: Most places of one gang. A plan of more would not fit into one object anyway (docs/concepts/gangs.md).
MOST_PLACES: Final = 50_000
#: Most shared devices of one node; muster never writes a higher number on a pod.
MOST_DEVICES: Final = 256

#: Amounts of resources by name: milli-CPU, bytes, pieces. Sorted by name, no zeros.
Amounts = tuple[tuple[str, int], ...]


def gpus(requests: Amounts) -> float:
    """Returns the GPUs among requests; a share of a GPU counts as that part of one."""
    found = 0.0
    for resource, amount in requests:
        if resource == GPU_SHARE:
            found += amount / 1000
        elif is_gpu(resource):
            found += amount
    return found


class Hashed:
    """Base of frozen dataclasses that are keys of many tables: their hash is computed once.

    The hash is no field, so it is not compared, copied, pickled or written down. (A dataclass makes its
    own hash unless its body names one: `__hash__ = Hashed.__hash__`.)
    """

    __slots__ = ("_hash",)
    _hash: int
    __match_args__: tuple[str, ...]

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", hash(_fields(self.__match_args__)(self)))
            return self._hash


@cache
def _fields(names: tuple[str, ...]) -> Callable[[object], object]:
    """Return a function that returns these fields of an object."""
    return attrgetter(*names)


class Place(NamedTuple):
    """One running pod's worth of a gang. A tuple, because places are looked up and sorted by the thousand."""

    pod_set: str
    index: int  # type: ignore[assignment]  # a field, and no method of tuples

    def __str__(self) -> str:
        return f"{self.pod_set}/{self.index}"


def places(pod_set: str, indices: Iterable[int]) -> Iterator[Place]:
    """These places of a pod set, made without a call of Python for each."""
    return map(_place, zip(repeat(pod_set), indices))


_place: Final[Callable[[tuple[str, int]], Place]] = partial(tuple.__new__, Place)


class Effect(Enum):
    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str
    effect: Effect


class Operator(Enum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


@dataclass(frozen=True, slots=True)
class Toleration:
    """Tolerates taints of `key` ("" = any), with `value` (None = any), of `effect` (None = any).

    With GT or LT as operator: taints whose value is an integer above or below `value` (KEP-5471).
    """

    key: str = ""
    value: str | None = None
    effect: Effect | None = None
    operator: Operator | None = None


@dataclass(frozen=True, slots=True)
class Requirement:
    """`key operator values` on a label, or a node's name, by Kubernetes' rules (core/world/labels.py)."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """Requirements that hold together: on labels, and on the node's name (`metadata.name`)."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


#: Labels of a pod or a node, sorted by key.
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the node itself. "" and 0.0.0.0 stand for every address, and collide with each."""

    number: int
    protocol: str = "TCP"
    address: str = ""


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Pods of these namespaces (None = all) whose labels satisfy every requirement, per domain of `key`.

    A domain is all nodes with the same value of the node label `key`; nodes without it are in none.
    """

    key: str
    labels: tuple[Requirement, ...]
    namespaces: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Spread:
    """Topology spread: no domain of `key` may have more than `max_skew` more matching pods than the least."""

    key: str
    max_skew: int
    labels: tuple[Requirement, ...]
    #: DoNotSchedule; else ScheduleAnyway, which only orders nodes
    required: bool = True
    min_domains: int = 1
    #: nodeAffinityPolicy, nodeTaintsPolicy = Honor: domains of nodes that the pod may not use do not count
    honor_affinity: bool = True
    honor_taints: bool = False


@dataclass(frozen=True, slots=True)
class Shape(Hashed):
    """What one pod asks of a node. Pods of equal shape are interchangeable to the scheduler.

    It is the key of every cache, so its hash is computed once.
    """

    requests: Amounts
    #: every label must have this value
    selector: tuple[tuple[str, str], ...] = ()
    #: any one term must hold; None = no affinity. An empty tuple matches no node.
    affinity: tuple[NodeTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    #: for each bound volume the nodes it can be used on: any one term of each must hold
    volumes: tuple[tuple[NodeTerm, ...], ...] = ()
    ports: tuple[HostPort, ...] = ()
    #: weight and term: nodes that satisfy more weight come first
    preferred: tuple[tuple[int, NodeTerm], ...] = ()
    #: required pod affinity and anti-affinity, and preferred (weight; negative = away from)
    pod_affinity: tuple[PodTerm, ...] = ()
    pod_anti_affinity: tuple[PodTerm, ...] = ()
    preferred_pod_affinity: tuple[tuple[int, PodTerm], ...] = ()
    spread: tuple[Spread, ...] = ()
    #: what its node must offer, by name
    features: tuple[str, ...] = ()
    #: its own claims; `requests` has what any allocation of them takes at least, by class
    claims: tuple[ClaimShape, ...] = ()
    #: nodes that its pods must not use for now, and nodes that they use last (core/world/failed_starts.py)
    avoided: tuple[NodeName, ...] = ()
    last: tuple[NodeName, ...] = ()

    __hash__ = Hashed.__hash__

    @property
    def gpu_share(self) -> int:
        """Thousandths of one GPU device that it asks for (names.GPU_SHARE in its requests); 0 = none."""
        return next((amount for resource, amount in self.requests if resource == GPU_SHARE), 0)


@dataclass(frozen=True, slots=True)
class PodSet(Hashed):
    """Pods of one shape: `count` places, of which `min_count` are needed whatever the gang's minimum is."""

    name: str
    shape: Shape
    count: int
    min_count: int = 0
    #: labels of its pods, as far as other pods' affinity and spread select by them
    labels: Labels = ()
    #: namespace of its pods, where it is not the gang's
    namespace: str = ""
    #: the subgroup of the gang to which it belongs; "" = none
    subgroup: str = ""
    #: by index of the set, its rank in the gang's own order, which decides neighbours. () = set after set
    ranks: tuple[int, ...] = ()
    #: number of places whose pod the API server has not charged to a ResourceQuota yet
    uncreated: int = 0
    #: each ResourceQuota that counts for its pods, by name, and what it charges for one pod
    quotas: tuple[tuple[str, Amounts], ...] = ()

    __hash__ = Hashed.__hash__


class Strategy(Enum):
    MUST_GATHER = "MustGather"
    PREFER_GATHER = "PreferGather"


@dataclass(frozen=True, slots=True)
class Gather:
    """All pods of a gang or a subgroup in one domain of a topology layer, or as close to that as possible.

    Source: koordinator, apis/extension/network_topology.go.
    """

    layer: str
    #: None: only `multiple` counts
    strategy: Strategy | None
    #: pods in any one domain of the layer are a multiple of this
    multiple: int = 1


@dataclass(frozen=True, slots=True)
class Subgroup:
    """Pod sets of a gang that share a minimum: of all their places together, `min_count` are needed.

    Its rules about the topology hold for its own pods, besides those of the gang.
    """

    name: str
    min_count: int = 0
    gather: tuple[Gather, ...] = ()


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer of the network topology: of the labels `keys`, the first that a node has names its domain."""

    name: str
    keys: tuple[str, ...]


#: In place of a queue: pods of other schedulers that may be victims. They are charged to no queue, and no
#: queue has such a name.
FOREIGN: Final = "/foreign"


class QueueOrder(Enum):
    PRIORITY = "priority"
    FIFO = "fifo"
    FAIR = "fair"


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue's rules (docs/reference/names.md). An amount does not limit resources that it does not name."""

    name: str
    parent: str = "root"
    weight: int = 1
    guarantee: Amounts = ()
    #: None: computed
    deserved: Amounts | None = None
    capability: Amounts = ()
    order: QueueOrder = QueueOrder.PRIORITY
    reclaimable: bool = True
    #: what its gangs say against their eviction counts for what the queue borrows, too
    protect_borrowed: bool = False
    closed: bool = False
    #: empty: all
    namespaces: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    max_gangs: int | None = None
    #: the highest layer of which its gangs may have domains to themselves; "" = any
    max_exclusive_layer: str = ""
    #: by resource, its part of what siblings that have parts share; on average each of them weighs 1
    parts: Amounts = ()
    #: why it cannot be used, found before the core
    fault: str = ""
    #: another scheduler's: it counts as far as it makes no other queue unusable
    adopted: bool = False


@dataclass(frozen=True, slots=True)
class Avoidance:
    """When nodes are avoided because pods have failed there at their start; times in seconds."""

    #: how long an origin keeps off a node after its first failure there, and at most
    first: float = 60.0
    longest: float = 600.0
    #: how long a failure counts
    remembered: float = 3600.0
    #: a suspect has failed pods of so many origins, and of so many tenants
    origins: int = 3
    tenants: int = 2
    #: how long a suspect is avoided after the last failure there
    lasts: float = 600.0
    #: the share of the nodes that is avoided at most
    share: float = 0.05


class Code(Enum):
    """Why a gang waits: the first that applies, in this order, which is that of docs/reference/names.md."""

    INVALID = "Invalid"
    GATED = "Gated"
    MEMBERS_MISSING = "MembersMissing"
    QUEUE_CLOSED = "QueueClosed"
    QUOTA_EXCEEDED = "QuotaExceeded"
    NOTHING_MATCHES = "NothingMatches"
    OVER_SHARE = "OverShare"
    POSTPONED = "Postponed"
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

    All stated minima hold together: each pod set's and each subgroup's `min_count`, and that of the gang.
    """

    id: GangId
    pod_sets: tuple[PodSet, ...]
    min_count: int
    #: seconds since the epoch; kept over restarts and preemptions
    submitted: float
    priority: int = 0
    queue: str = "default"
    gate: Gate | None = None
    namespace: str = ""
    #: "" = not known
    user: str = ""
    #: what has made its only pod, and others like it; "" = the gang has no siblings
    origin: str = ""
    gather: tuple[Gather, ...] = ()
    #: the layer in which it has a domain to itself; "" = none
    exclusive: str = ""
    #: seconds after its start at which it is stopped by force; None = never
    limit: float | None = None
    #: seconds it is expected to run; None = as its limit says
    estimate: float | None = None
    #: seconds between checkpoints, or when the last one was (seconds since the epoch)
    checkpoint_every: float | None = None
    checkpointed: float | None = None
    #: seconds for which an eviction of the gang waits so that it can save its work
    checkpoint_grace: float = 0.0
    #: seconds lost by a restart besides lost work
    restart_cost: float = 0.0
    #: seconds from its start in which gangs of its queue must not preempt it
    min_run_time: float = 0.0
    #: False: gangs of its queue must not preempt it
    preemptible: bool = True
    #: it belongs to its node, like a DaemonSet's pod: it is never a victim
    of_node: bool = False
    #: it may preempt other gangs; False: preemptionPolicy Never
    preempts: bool = True
    #: it is evicted as a whole, also while more of its pods run than its minimum
    indivisible: bool = False
    #: those that its pod sets name, each once
    subgroups: tuple[Subgroup, ...] = ()

    def met(self, counts: Mapping[str, int]) -> bool:
        """Whether so many places of each pod set satisfy all minima."""
        sets = self.pod_sets
        if sum(counts.get(p.name, 0) for p in sets) < self.min_count:
            return False
        return all(counts.get(p.name, 0) >= p.min_count for p in sets) and all(
            sum(counts.get(p.name, 0) for p in sets if p.subgroup == subgroup.name) >= subgroup.min_count
            for subgroup in self.subgroups
        )

    def time_lost(self, since: float | None, now: float) -> float:
        """Returns the seconds of work that a pod of the gang, bound at `since`, would have to repeat.

        That is the time since the bind or since the last checkpoint, and the cost of a restart. A known time
        of the last checkpoint outweighs an interval. A pod whose time of binding is not known counts as bound
        now.
        """
        ran = max(now - since, 0.0) if since is not None else 0.0
        if self.checkpointed is not None:
            ran = min(ran, max(now - self.checkpointed, 0.0))
        elif self.checkpoint_every:
            ran %= self.checkpoint_every
        return ran + self.restart_cost

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces of all its pods."""
        return frozenset(pod_set.namespace or self.namespace for pod_set in self.pod_sets) | {self.namespace}
