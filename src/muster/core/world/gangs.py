"""What is known about each gang: which of its places are satisfied, held or vacant.

A place is

- *vacant* at first;
- *held* while it is promised on a node (`hold`): an Assign has announced that, or a pod of a gang that stood
  has just left it (`vacate`). The promise ends when a pod is bound there, or by `give_back`;
- *satisfied* while a live pod is bound to it (`fill`), or once its Job starts no further pod (`retired`).

Facts about a gang can arrive before the gang itself (a pod that is already bound, an open plan), so a
state may exist without a `gang`; it counts as soon as the gang appears. The functions below record what a
gang uses. Their callers charge the nodes for it (`ledger.py`), except that `give_back` uncharges them itself.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from typing import Final, NamedTuple

from muster.core.demand import Demand
from muster.core.words.amounts import PODS, Sums, Usage
from muster.core.words.decisions import Explanation
from muster.core.words.devices import DeviceId
from muster.core.words.events import NOTHING, Footprint, NodeChanged, PodsBound
from muster.core.words.gang import Amounts, Gang, GangId, NodeName, Place, PodId, PodSet, Shape
from muster.core.world.eligibility import Obstacle, obstacle
from muster.core.world.ledger import Charged, Ledger


class Hold(NamedTuple):
    """A promise of a place. `until` None: it lasts as long as the start that it belongs to.

    Places of one pod set that were promised together on one node share one object.
    """

    node: NodeName
    #: what it was promised for
    shape: Shape
    #: an Assign has said so
    announced: bool
    until: float | None = None
    #: device of the node, if the place shares a GPU
    device: int | None = None
    footprint: Footprint = NOTHING

    @property
    def requests(self) -> Amounts:
        return self.shape.requests

    @property
    def charged(self) -> Charged:
        return Charged(self.node, self.requests, self.device, self.footprint)


#: Obstacles that end by themselves: a promise outlasts them.
_PASSING: Final = Obstacle.CORDON | Obstacle.NOT_READY

_until = attrgetter("until")


@dataclass(frozen=True, slots=True)
class BackOff:
    """The gang is not started before `until`; infinite: before the gang or a node changes."""

    until: float
    message: str


@dataclass(slots=True)
class GangState:
    id: GangId
    gang: Gang | None = None
    #: live pods and the place each fills, None for a member without one
    pods: dict[PodId, Place | None] = field(default_factory=dict)
    #: how many live pods fill each place; more than one while an old pod leaves
    filled: dict[Place, int] = field(default_factory=dict)
    #: pods of an earlier attempt that are still there, and the place each filled
    leaving: dict[PodId, Place] = field(default_factory=dict)
    holds: dict[Place, Hold] = field(default_factory=dict)
    #: nodes of an open plan for places that are not held yet
    planned: dict[Place, NodeName] = field(default_factory=dict)
    retired: frozenset[Place] = frozenset()
    #: places whose hold has run out: not wanted as surplus until a pod or the demand of the gang changes
    lapsed: set[Place] = field(default_factory=set)
    back_off: BackOff | None = None
    #: nodes on which places were lost, and until when its pods keep off each
    avoided: dict[NodeName, float] = field(default_factory=dict)
    #: why the gang was not tried in this cycle, or got less than would fit; set by the part that refused
    refusal: Explanation | None = None
    #: the last reported reason why it waits
    explanation: Explanation | None = None
    #: what it still lacks, and the indices of each part's vacant places; set by `settle`
    demand: Demand | None = None
    vacant: tuple[Sequence[int], ...] = ()
    #: what other pods see of each pod set's pods
    footprints: dict[str, Footprint] = field(default_factory=dict)
    #: gangs with the same object here wait for one reason, or start alike (queueing/pending.py); None: alone
    peers: object = None
    #: how much anti-affinity was known when `demand` was set (`AntiAffinity.as_of`)
    carried: int = 0
    #: priority, then age, then id; lowest first
    rank: tuple[int, float, GangId] = (0, 0.0, GangId(""))
    #: what its pods and holds use, by resource, and how many of them are on which node; no zeros
    usage: Sums[str] = field(default_factory=Sums)
    nodes: Sums[NodeName] = field(default_factory=Sums)
    #: `Gangs.arrivals` when this gang arrived or was last changed by its owner
    arrived: int = 0
    #: counts changes of its pods, and of what it uses and where
    stamp: int = 0
    #: since when a pod of it is bound, and when it was first assigned, since it last used nothing
    bound: float | None = None
    assigned: float | None = None

    @property
    def started(self) -> float | None:
        return self.bound if self.bound is not None else self.assigned

    @property
    def begun(self) -> bool:
        """Whether it has a pod or a promised place: what it lacks is claimed before any new start."""
        return bool(self.pods or self.holds or self.planned)

    @property
    def waits(self) -> bool:
        """Whether its minimum is neither satisfied nor promised."""
        return self.demand is not None and self.demand.need > 0

    @property
    def lacks(self) -> bool:
        """Whether it is in a pending queue: it lacks places, or is gated."""
        return self.demand is not None or (self.gang is not None and self.gang.gate is not None)

    @property
    def plain(self) -> bool:
        """Whether `demand` alone decides if it fits: nothing else of the gang matters."""
        if self.back_off is not None or self.avoided or self.planned:
            return False
        if self.demand is not None and self.demand.bound:
            return False
        return not self.holds or all(promise.announced for promise in self.holds.values())

    @property
    def deadline(self) -> float | None:
        """When its first hold, back-off or avoidance of a node ends; None: none ends at a known time."""
        times = [until for until in map(_until, self.holds.values()) if until is not None]
        times += self.avoided.values()
        if self.back_off is not None:
            times.append(self.back_off.until)
        return min(times, default=None)

    @property
    def forgettable(self) -> bool:
        return self.gang is None and not (self.pods or self.holds or self.planned or self.retired)


class Gangs(dict[GangId, GangState]):
    """All gangs of which anything is known, and which of them need attention, now or at some time."""

    __slots__ = ("arrivals", "kept", "timed", "touched")

    def __init__(self) -> None:
        super().__init__()
        #: counts arrivals of gangs, and changes by their owners
        self.arrivals = 0
        #: gangs whose state changed since it was last settled
        self.touched: set[GangId] = set()
        #: gangs that only got promised pods since, or all that they lacked: what they lack, and what they
        #: use, is accounted for
        self.kept: set[GangId] = set()
        #: gangs with a hold or a back-off that ends, and when the first of these ends
        self.timed: dict[GangId, float] = {}

    def touch(self, gang: GangId) -> GangState:
        """The state of a gang, created if needed, which is marked as touched."""
        self.touched.add(gang)
        state = self.get(gang)
        if state is None:
            state = self[gang] = GangState(gang)
        return state


def occupy(state: GangState, node: NodeName, requests: Amounts, times: int) -> None:
    """Add what `times` pods of a gang use (below zero: remove it); the caller charges the ledger."""
    state.stamp += 1
    state.nodes.count(node, times)
    state.usage.count(PODS, times)
    for resource, amount in requests:
        if resource != PODS:
            state.usage.count(resource, times * amount)


def fill(state: GangState, pods: Mapping[PodId, Place | None], at: float | None = None) -> None:
    """Record live pods on a node, since `at` if known. The gang's lapsed places are wanted again."""
    if at is not None and (state.bound is None or at < state.bound):
        # Its earlier pods are bound since an unknown time, which is not before its Assign.
        since = state.assigned if state.pods and state.bound is None else None
        state.bound = at if since is None else min(at, since)
    state.pods.update(pods)
    state.stamp += 1
    filled, planned = state.filled, state.planned
    for place in pods.values():
        if place is not None:
            filled[place] = filled.get(place, 0) + 1
            if planned:
                planned.pop(place, None)
    state.lapsed.clear()


def vacate(state: GangState, pods: Sequence[PodId]) -> list[tuple[PodId, Place]]:
    """Remove pods from their places. Return each place that is empty then, with the last pod in it."""
    state.stamp += len(pods)
    state.lapsed.clear()
    bound, filled, vacated = state.pods, state.filled, []
    for pod in pods:
        if (place := bound.pop(pod)) is not None:
            if left := filled.pop(place) - 1:
                filled[place] = left
            else:
                vacated.append((pod, place))
        elif (before := state.leaving.pop(pod, None)) is not None and before not in filled:
            vacated.append((pod, before))
    return vacated


def hold(state: GangState, place: Place, promise: Hold) -> None:
    state.holds[place] = promise
    occupy(state, promise.node, promise.requests, 1)


def give_back(state: GangState, places: Iterable[Place], ledger: Ledger) -> list[Place]:
    """Release these holds. Return the places that an Assign had promised."""
    announced = []
    for place in sorted(places):
        promise = state.holds.pop(place, None)
        if promise is not None:
            ledger.give(promise.charged)
            occupy(state, promise.node, promise.requests, -1)
            if promise.announced:
                announced.append(place)
    return announced


def pod_set_of(state: GangState, place: Place) -> PodSet | None:
    """The pod set of this place; None if the gang, as it is now, has no open place of that name."""
    if state.gang is None or state.gang.gate is not None or place in state.retired:
        return None
    for pod_set in state.gang.pod_sets:
        if pod_set.name == place.pod_set and place.index < pod_set.count:
            return pod_set
    return None


def footprint(gang: Gang, pod_set: PodSet) -> Footprint:
    """What other pods see of a pod of this set, as far as that is known before the pod exists."""
    shape, namespace = pod_set.shape, pod_set.namespace or gang.namespace
    if not namespace and not shape.ports and not shape.pod_anti_affinity:
        return NOTHING
    return Footprint(namespace, pod_set.labels, shape.ports, shape.pod_anti_affinity)


def having(footprint: Footprint, devices: tuple[DeviceId, ...]) -> Footprint:
    """The footprint of a pod whose claims have these devices."""
    if not devices:
        return footprint
    return Footprint(devices=devices) if footprint is NOTHING else replace(footprint, devices=devices)


def unwanted(
    state: GangState, nodes: Mapping[NodeName, NodeChanged], avoided: Container[NodeName] = ()
) -> set[Place]:
    """Held places that the gang in its present form must not or need not hold, or whose node is gone.

    `avoided`: nodes that its pods must keep off.
    """
    found = set()
    for place, promise in state.holds.items():
        pod_set = pod_set_of(state, place)
        node = nodes.get(promise.node)
        if pod_set is None or node is None or promise.node in avoided:
            found.add(place)
            continue
        if not _still_holds(promise.shape, pod_set.shape, node):
            found.add(place)
    return found


def _still_holds(promised: Shape, shape: Shape, node: NodeChanged) -> bool:
    """Whether a place that was promised for one shape may hold a pod of another.

    What depends on other pods must be the same; only what the node alone decides is looked at again.
    """
    if promised is shape or promised == shape:
        return True
    alike = _beside_its_node(promised) == _beside_its_node(shape)
    return alike and not obstacle(shape, node) & ~_PASSING


def _beside_its_node(shape: Shape) -> tuple[object, ...]:
    return (
        shape.requests,
        shape.ports,
        shape.pod_affinity,
        shape.pod_anti_affinity,
        shape.spread,
        shape.claims,
    )


def stands(state: GangState) -> bool:
    """Whether live pods and retired places satisfy every minimum."""
    gang = state.gang
    if gang is None or len(state.filled) + len(state.retired) < gang.min_count:
        return False
    return gang.met(satisfied(state, gang))


def starting(state: GangState) -> bool:
    """Whether places are promised to it, so that what it lacks may come right now."""
    return bool(state.holds or state.planned)


def satisfied(state: GangState, gang: Gang) -> dict[str, int]:
    """By pod set, how many of its places live pods satisfy, or are retired."""
    found = indices(state.filled, state.retired)
    return {p.name: sum(i < p.count for i in found.get(p.name, ())) for p in gang.pod_sets}


def whole(state: GangState) -> bool:
    """Whether every place is satisfied, also those above the minimum."""
    satisfied = indices(state.filled, state.retired)
    sets = state.gang.pod_sets if state.gang is not None else ()
    return all(len(satisfied.get(p.name, ())) >= p.count for p in sets)


def departing(state: GangState, pods: Mapping[PodId, PodsBound]) -> bool:
    """Whether the gang has pods, and all of them are being deleted."""
    return bool(state.pods) and all(pods[pod].footprint.leaving for pod in state.pods)


def indices(*places: Iterable[Place]) -> dict[str, set[int]]:
    """Indices of these places by pod set: for gangs of thousands, sets of numbers are fast to compare."""
    sets: defaultdict[str, set[int]] = defaultdict(set)
    for pod_set, index in chain.from_iterable(places):
        sets[pod_set].add(index)
    return sets


def used_by(some: Iterable[PodsBound | Hold]) -> Usage:
    """What one pod of each of these uses together."""
    usage = Usage()
    for each in some:
        usage.add(Usage.of_pod(each.requests))
    return usage


def given_up(state: GangState) -> Usage:
    """Return what a gang uses in unannounced places: it gives them up for the places assigned to it now."""
    return used_by(promise for promise in state.holds.values() if not promise.announced)
