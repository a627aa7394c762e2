"""An account of its own: what the core was told and what it decided, in plain dicts, and what must hold.

It is told the same events and shown every decision, and reckons everything anew from those: it reads no
ledger, no slots and no cached wants of the core. What it can say is therefore worth something when
all of those agree with each other and are wrong together.

    told     an event, before the core has it
    decided  the decisions of a cycle, in order; raises AssertionError where one breaks a promise

Whether a gang fits is answered exactly (`fits`): node by node, all mixtures of pods that can be made up so
far. That takes few nodes and few pods, and no luck.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Final

from muster.core.decisions import Assign, Decision, Evict, Explanation, Release, Victim, Wait
from muster.core.events import (
    CommitFailed,
    Event,
    GangRemoved,
    GangSubmitted,
    LayersChanged,
    NodeChanged,
    NodeRemoved,
    PlacesLost,
    PlacesRetired,
    PlanFound,
    PodBound,
    PodsEnded,
    QueueChanged,
    QueueRemoved,
)
from muster.core.gang import (
    Amounts,
    Code,
    Effect,
    Gang,
    GangId,
    HostPort,
    Labels,
    Layer,
    NodeName,
    Place,
    PodId,
    PodSet,
    Queue,
    Requirement,
    Shape,
    Strategy,
)
from muster.names import GPU, GPU_SHARE

#: Reasons by which a gang waits for room, and for nothing else.
NO_ROOM: Final = frozenset(
    {Code.NOTHING_MATCHES, Code.INSUFFICIENT_CAPACITY, Code.TOPOLOGY_UNSATISFIED, Code.FRAGMENTED}
)


@dataclass(frozen=True, order=True)
class Promise:
    node: NodeName
    requests: Amounts
    #: which shared device of the node
    device: int | None = None


@dataclass
class Room:
    """What is left on a node. Whole devices are those on which nothing is."""

    amounts: defaultdict[str, float]
    #: thousandths left on devices with shares, by device
    open: dict[int, int]
    #: some share is on a device that nobody has put on record
    vague: bool

    def take(self, requests: Amounts, device: int | None) -> None:
        for resource, amount in _demand(requests).items():
            if resource != GPU_SHARE:
                self.amounts[resource] -= amount
            elif device is None:
                self.vague = True
            else:
                if device not in self.open:
                    self.amounts[GPU] -= 1
                self.open[device] = self.open.get(device, 1000) - amount


@dataclass
class Witness:
    nodes: dict[NodeName, NodeChanged] = field(default_factory=dict)
    gangs: dict[GangId, Gang] = field(default_factory=dict)
    pods: dict[PodId, PodBound] = field(default_factory=dict)
    retired: dict[GangId, frozenset[Place]] = field(default_factory=dict)
    #: places that an Assign has promised and that are neither filled nor given up
    promised: dict[tuple[GangId, Place], Promise] = field(default_factory=dict)
    #: what each waiting gang was told last
    reasons: dict[GangId, Explanation] = field(default_factory=dict)
    #: gangs that had a pod, a plan or a promise before
    begun: set[GangId] = field(default_factory=set)
    #: gangs that have promises of a time when they asked something else of the topology, or when a node of
    #: theirs was elsewhere in it
    torn: set[GangId] = field(default_factory=set)
    layers: tuple[Layer, ...] = ()
    queues: dict[str, Queue] = field(default_factory=dict)
    #: pods that were told to end, and gangs that were as a whole: for whom
    leaving: dict[PodId, GangId] = field(default_factory=dict)
    ending: dict[GangId, GangId] = field(default_factory=dict)
    #: pods that were told to end, for whom last: also when he is promised nothing just now. His later places
    #: may count on their end, as their binds wait for it
    called: dict[PodId, GangId] = field(default_factory=dict)

    def told(self, event: Event) -> None:
        match event:
            case NodeChanged():
                before = self.nodes.get(event.name)
                if before is None or before.labels != event.labels:
                    self.torn |= {gang for (gang, _), at in self.promised.items() if at.node == event.name}
                self.nodes[event.name] = event
            case NodeRemoved():
                self.nodes.pop(event.name, None)
            case GangSubmitted():
                known = self.gangs.get(event.gang.id)
                if (known.gather if known else ()) != event.gang.gather:
                    self.torn.discard(event.gang.id)
                    if self._promises_of(event.gang.id):
                        self.torn.add(event.gang.id)
                self.gangs[event.gang.id] = event.gang
            case GangRemoved():
                self.gangs.pop(event.gang, None)
                self.retired.pop(event.gang, None)
                self.reasons.pop(event.gang, None)
                self.begun.discard(event.gang)
                self._give_up(self._promises_of(event.gang))
                self._call_off(event.gang)
            case PodBound():
                self.pods[event.pod] = event
                if event.gang is not None:
                    self.begun.add(event.gang)
                if event.gang is not None and event.place is not None:
                    self.promised.pop((event.gang, event.place), None)
                if event.gang in self.ending:
                    self.leaving[event.pod] = self.called[event.pod] = self.ending[event.gang]
            case PodsEnded():
                for pod in event.pods:
                    self.pods.pop(pod, None)
                    self.leaving.pop(pod, None)
                    self.called.pop(pod, None)
            case PlacesRetired():
                self.retired[event.gang] = event.places
            case PlanFound():
                self.begun.add(event.gang)
            case PlacesLost():
                self._give_up((event.gang, place) for place in event.places)
            case CommitFailed():
                self._give_up(self._promises_of(event.gang))
                self._call_off(event.gang)
            case LayersChanged():
                self.layers = event.layers
            case QueueChanged():
                self.queues[event.queue.name] = event.queue
            case QueueRemoved():
                self.queues.pop(event.name, None)
            case _:
                pass

    def decided(self, decisions: Sequence[Decision], *, clear: bool = False) -> None:
        """Check the decisions of a cycle, one after the other, and what follows from all of them.

        `clear`: all that is held is promised, and all has been searched; so what fits is known exactly.
        """
        for decision, follower in zip(decisions, [*decisions, None][1:], strict=True):
            match decision:
                case Evict():
                    self._evicted(decision, clear=clear)
                    assert isinstance(follower, Assign), "victims are ended for nobody"
                    assert follower.gang == decision.beneficiary, "victims are ended for somebody else"
                case Assign():
                    self._assigned(decision)
                case Release():
                    self._released(decision)
                case Wait():
                    self.reasons[decision.gang] = decision.explanation
                case _:
                    pass
        for gang in self.gangs:
            if not self.waits(gang):
                self.reasons.pop(gang, None)
        expecting = {gang for gang, _ in self.promised}
        self.torn &= expecting
        self.leaving = {pod: gang for pod, gang in self.leaving.items() if gang in expecting}
        here = {pod.gang for pod in self.pods.values()}
        self.ending = {victim: g for victim, g in self.ending.items() if g in expecting and victim in here}

    def facts(self) -> Iterator[Event]:
        """What a new scheduler would be told: the objects as they are, and promises as open plans."""
        yield LayersChanged(self.layers)
        yield from map(QueueChanged, self.queues.values())
        yield from self.nodes.values()
        yield from map(GangSubmitted, self.gangs.values())
        yield from itertools.starmap(PlacesRetired, self.retired.items())
        yield from self.pods.values()
        for gang in sorted({gang for gang, _ in self.promised}):
            places = {place: self.promised[gang, place].node for _, place in self._promises_of(gang)}
            whole = sorted(victim for victim, beneficiary in self.ending.items() if beneficiary == gang)
            parts: defaultdict[GangId, set[PodId]] = defaultdict(set)
            for pod, beneficiary in self.leaving.items():
                victim = self.pods[pod].gang
                if beneficiary == gang and victim is not None and victim not in whole:
                    parts[victim].add(pod)
            victims = [Victim(victim, frozenset(pods)) for victim, pods in sorted(parts.items())]
            yield PlanFound(gang, places, (*map(Victim, whole), *victims))

    # What follows from the account

    def waits(self, gang: GangId) -> bool:
        """Some minimum of an ungated gang is neither satisfied nor promised."""
        known = self.gangs.get(gang)
        return known is not None and known.gate is None and not self._complete(known)

    def room(self, node: NodeName, beneficiary: GangId | None = None) -> Room:
        """What pods and promised places leave of a node: may be below zero.

        Of a gang's places and the pods that end for it the node carries the greater, not both. Those that
        were told to end for the `beneficiary`, who is assigned places now, are taken to be gone.
        """
        capacity = dict(self.nodes[node].capacity)
        room = Room(defaultdict(float, {"pods": float("inf"), **capacity}), {}, vague=False)
        held: defaultdict[GangId, Counter[str]] = defaultdict(Counter)
        left: defaultdict[GangId, Counter[str]] = defaultdict(Counter)
        for (gang, _), promise in self.promised.items():
            if promise.node == node:
                room.take(promise.requests, promise.device)
                held[gang].update(_demand(promise.requests))
        for id_, pod in self.pods.items():
            if pod.node != node or (beneficiary is not None and self.called.get(id_) == beneficiary):
                continue
            if id_ in self.leaving:
                left[self.leaving[id_]].update(_demand(pod.requests))
            else:
                room.take(pod.requests, pod.presence.device)
        for gang, amounts in left.items():
            if GPU_SHARE in amounts or GPU_SHARE in held[gang]:
                continue  # what the latter have in common depends on devices: not counted at all
            for resource, amount in (amounts - held[gang]).items():
                room.amounts[resource] -= amount
        return room

    def fits_now(self, gang: GangId) -> bool | None:
        return self.fits(gang, {name: self.room(name) for name in self.nodes})

    def fits(self, gang: GangId, rooms: Mapping[NodeName, Room]) -> bool | None:
        """Whether any placement of what its minimum lacks exists. Exact; None: too hard to say."""
        known = self.gangs[gang]
        shapes = [s.shape for s in known.pod_sets]
        if any(shape.gpu_share for shape in shapes) and len(set(shapes)) > 1:
            return None
        devices = any(resource in (GPU, GPU_SHARE) for shape in shapes for resource, _ in shape.requests)
        if devices and any(room.vague for room in rooms.values()):
            return None  # a share that is on no known device may have opened one
        if any(constrained(shape) for shape in shapes) or known.exclusive:
            return None
        if known.gather:
            return self._gathers(known, rooms)
        return self._fits(known, rooms)

    def _gathers(self, gang: Gang, rooms: Mapping[NodeName, Room]) -> bool | None:
        """In one domain of each layer in which all of it must be."""
        if any(g.strategy is not Strategy.MUST_GATHER or g.multiple > 1 for g in gang.gather) or self._done(
            gang
        ):
            return None
        wanted = [g.layer for g in gang.gather]
        domains = {tuple(self._domain(node, layer) for layer in wanted) for node in rooms}
        return any(
            self._fits(gang, {n: r for n, r in rooms.items() if self._inside(n, wanted, domain)})
            for domain in domains
            if None not in domain
        )

    def _inside(self, node: NodeName, layers: Sequence[str], domain: Sequence[object]) -> bool:
        return [self._domain(node, layer) for layer in layers] == list(domain)

    def _domain(self, node: NodeName, layer: str) -> tuple[str, ...] | None:
        """The path of the node's domain; None: it lacks a label on the way."""
        labels = dict(self.nodes[node].labels)
        path = []
        for one in self.layers:
            found = next((labels[key] for key in one.keys if key in labels), None)
            if found is None:
                return None
            path.append(found)
            if one.name == layer:
                return tuple(path)
        return None

    def _fits(self, known: Gang, rooms: Mapping[NodeName, Room]) -> bool:
        shapes = [s.shape for s in known.pod_sets]
        done = self._done(known)
        least = [max(s.min_count - done[s.name], 0) for s in known.pod_sets]
        most = [s.count - done[s.name] for s in known.pod_sets]
        overall = max(known.min_count - sum(done.values()), sum(least))
        reached = {tuple(0 for _ in shapes)}
        for node, room in sorted(rooms.items()):
            mine = [
                n if may_run(shape, self.nodes[node]) else 0 for shape, n in zip(shapes, most, strict=True)
            ]
            fillings = [
                counts
                for counts in itertools.product(*(range(n + 1) for n in mine))
                if _holds(room, shapes, counts)
            ]
            reached = {
                tuple(min(a + b, n) for a, b, n in zip(before, counts, most, strict=True))
                for before in reached
                for counts in fillings
            }
        return any(
            sum(counts) >= overall and all(n >= m for n, m in zip(counts, least, strict=True))
            for counts in reached
        )

    # Decisions

    def _assigned(self, assign: Assign) -> None:
        gang = self.gangs[assign.gang]
        assert gang.gate is None, "a gated gang was started"
        shapes = {s.name: s.shape for s in gang.pod_sets}
        sizes = {s.name: s.count for s in gang.pod_sets}
        filled = {pod.place for pod in self.pods.values() if pod.gang == assign.gang}
        for place, node in assign.nodes.items():
            assert place.index < sizes[place.pod_set], "a place that the gang does not have"
            assert place not in filled, "a place that a pod fills"
            assert place not in self.retired.get(assign.gang, ()), "a place that is retired"
            assert may_run(shapes[place.pod_set], self.nodes[node]), "a node that the pod may not use"
            requests = shapes[place.pod_set].requests
            self.promised[assign.gang, place] = Promise(node, requests, assign.devices.get(place))
        for place, node in assign.nodes.items():
            room = self.room(node, gang.id)
            for resource in _demand(shapes[place.pod_set].requests):
                if resource != GPU_SHARE:
                    assert room.amounts[resource] >= 0, f"{resource} of {node} is oversubscribed"
                    continue
                assert room.open[assign.devices[place]] >= 0, f"a device of {node} is oversubscribed"
                assert room.amounts[GPU] >= 0, f"{node} has not so many devices"
        assert self._complete(gang), "less than the minimum was assigned"
        self._check_layers(gang)
        for place in assign.nodes:
            self._check_company(gang, place)
        self._check_caps(gang)
        self.begun.add(gang.id)

    def _evicted(self, evict: Evict, *, clear: bool) -> None:
        """Only those who rank below it and may be ended; and none of them for nothing."""
        gang = self.gangs[evict.beneficiary]
        assert gang.preempts
        assert self.waits(gang.id), "victims are ended for what is not needed"
        ended: dict[GangId, frozenset[PodId]] = {}
        for victim in evict.victims:
            other = self.gangs[victim.gang]
            assert other.preemptible, "a gang was ended that must not be"
            assert self.ending.get(other.id, gang.id) == gang.id, "a victim is counted twice"
            mine = {pod for pod, bound in self.pods.items() if bound.gang == other.id}
            ended[other.id] = victim.pods or frozenset(mine)
            assert ended[other.id] <= mine
            for pod in ended[other.id]:
                assert self.leaving.get(pod, gang.id) == gang.id, "a victim is counted twice"
            assert other.queue != gang.queue or other.priority < gang.priority
            if victim.pods:
                left = [self.pods[pod].place for pod in mine - victim.pods]
                assert self._enough(other, {place for place in left if place is not None})
        if clear and len({s.shape for s in gang.pod_sets}) == 1:
            for spared in ended:
                others = ended.keys() - {spared}
                assert self._without(others, ended).fits_now(gang.id) is not True, (
                    f"{spared} ends for nothing"
                )
        for victim in evict.victims:
            self.leaving.update(dict.fromkeys(ended[victim.gang], gang.id))
            self.called.update(dict.fromkeys(ended[victim.gang], gang.id))
            if not victim.pods:
                self.ending[victim.gang] = gang.id
                self._give_up(self._promises_of(victim.gang))

    def _released(self, release: Release) -> None:
        for place in release.places:
            assert self.promised.pop((release.gang, place), None), "what was released was not promised"

    def _without(self, gangs: Collection[GangId], ended: Mapping[GangId, frozenset[PodId]]) -> "Witness":
        """As it would be without what these gangs would lose."""
        gone = {pod for gang in gangs for pod in ended[gang]}
        pods = {id_: pod for id_, pod in self.pods.items() if id_ not in gone}
        whole = {gang for gang in gangs if not any(pod.gang == gang for pod in pods.values())}
        return replace(
            self, pods=pods, promised={k: p for k, p in self.promised.items() if k[0] not in whole}
        )

    # What one gang's places must keep to

    def _members(self, gang: Gang) -> list[tuple[PodSet, NodeName]]:
        """Its filled and promised places: of which set, and where."""
        sets = {s.name: s for s in gang.pod_sets}
        bound = [
            (pod.place, pod.node)
            for pod in self.pods.values()
            if pod.gang == gang.id and pod.place is not None
        ]
        held = [(key[1], promise.node) for key, promise in self.promised.items() if key[0] == gang.id]
        return [(sets[p.pod_set], node) for p, node in (*bound, *held) if p.pod_set in sets]

    def _check_layers(self, gang: Gang) -> None:
        """What has not begun elsewhere is where it must be, in whole multiples."""
        nodes = [node for _, node in self._members(gang)]
        if (
            gang.id in self.torn
            or any(pod.gang == gang.id for pod in self.pods.values())
            or any(n not in self.nodes for n in nodes)
        ):
            return
        for gather in gang.gather:
            domains = Counter(self._domain(node, gather.layer) for node in nodes)
            if gather.strategy is Strategy.MUST_GATHER:
                assert len(domains) <= 1, f"it is in {len(domains)} domains of {gather.layer}"
                assert None not in domains, f"it is in no domain of {gather.layer}"
            whole = all(count % gather.multiple == 0 for count in domains.values())
            assert whole or self.retired.get(gang.id), "no whole multiples"

    def _check_company(self, gang: Gang, place: Place) -> None:
        """Nobody on its node has its ports, and nobody in its domain is whom it keeps away from."""
        node = self.promised[gang.id, place].node
        shape = next(s.shape for s in gang.pod_sets if s.name == place.pod_set)
        for where, labels, ports in self._others(gang.id, place):
            if where == node:
                assert not {p.number for p in shape.ports} & {p.number for p in ports}, "a port is used twice"
            for term in shape.apart if where in self.nodes else ():
                here, there = (dict(self.nodes[n].labels).get(term.key) for n in (node, where))
                if here is not None and here == there:
                    assert not all(matches(r, labels) for r in term.labels), f"too close in {here}"

    def _others(self, gang: GangId, place: Place) -> Iterator[tuple[NodeName, Labels, tuple[HostPort, ...]]]:
        """All pods and promised places but this one, and but those that end for it."""
        for id_, pod in self.pods.items():
            if self.leaving.get(id_) != gang:
                yield pod.node, pod.presence.labels, pod.presence.ports
        for (other, of), promise in self.promised.items():
            known = self.gangs.get(other)
            sets = {s.name: s for s in known.pod_sets} if known else {}
            if (other, of) != (gang, place) and of.pod_set in sets:
                pod_set = sets[of.pod_set]
                yield promise.node, pod_set.labels, pod_set.shape.ports

    def _check_caps(self, gang: Gang) -> None:
        """No queue above it uses more than its cap. While victims leave, who is charged is not settled."""
        if self.leaving or self.ending or gang.id in self.begun:
            return  # who has begun keeps what he had, whatever has come into his queue since
        chain, name = [], gang.queue
        while name in self.queues:
            chain.append(name)
            name = self.queues[name].parent
        for queue in chain:
            rules, used = self.queues[queue], Counter[str]()
            assert not rules.closed, "a gang of a closed queue was started"
            below = {g.id for g in self.gangs.values() if self.is_below(g.queue, queue)}
            for id_, pod in self.pods.items():
                if pod.gang in below and id_ not in self.leaving:
                    used.update(_demand(pod.requests))
            for (owner, _), promise in self.promised.items():
                if owner in below:
                    used.update(_demand(promise.requests))
            asked = {r for s in gang.pod_sets for r in _demand(s.shape.requests)}
            for resource, cap in rules.capability:
                assert resource not in asked or used[resource] <= cap, (
                    f"{queue} is above its cap of {resource}"
                )

    def is_below(self, queue: str, ancestor: str) -> bool:
        while queue != ancestor and queue in self.queues:
            queue = self.queues[queue].parent
        return queue == ancestor

    # Helpers

    def _promises_of(self, gang: GangId) -> list[tuple[GangId, Place]]:
        return sorted(key for key in self.promised if key[0] == gang)

    def _call_off(self, beneficiary: GangId) -> None:
        """Whoever was told to end for this gang stays, as far as it is concerned."""
        self.called = {pod: gang for pod, gang in self.called.items() if gang != beneficiary}

    def _give_up(self, keys: Iterable[tuple[GangId, Place]]) -> None:
        for key in list(keys):
            self.promised.pop(key, None)

    def _done(self, gang: Gang) -> Counter[str]:
        """Places of each pod set that are filled, retired or promised."""
        places = {pod.place for pod in self.pods.values() if pod.gang == gang.id and pod.place is not None}
        places |= self.retired.get(gang.id, frozenset())
        places |= {place for _, place in self._promises_of(gang.id)}
        done: Counter[str] = Counter()
        for pod_set in gang.pod_sets:
            done[pod_set.name] = sum(p.pod_set == pod_set.name and p.index < pod_set.count for p in places)
        return done

    def _enough(self, gang: Gang, places: Set[Place]) -> bool:
        """Whether these, filled, and what is retired satisfy every minimum."""
        done = Counter(p.pod_set for p in places | self.retired.get(gang.id, frozenset()))
        return sum(done.values()) >= gang.min_count and all(
            done[s.name] >= s.min_count for s in gang.pod_sets
        )

    def _complete(self, gang: Gang) -> bool:
        done = self._done(gang)
        return sum(done.values()) >= gang.min_count and all(
            done[s.name] >= s.min_count for s in gang.pod_sets
        )


def may_run(shape: Shape, node: NodeChanged) -> bool:
    """Ready, not cordoned, the labels of the selector, no taint that keeps it off."""
    labels = dict(node.labels)
    assert not shape.tolerations, "the witness knows of none"
    return (
        node.ready
        and not node.cordoned
        and all(labels.get(key) == value for key, value in shape.selector)
        and all(taint.effect is Effect.PREFER_NO_SCHEDULE for taint in node.taints)
    )


def constrained(shape: Shape) -> bool:
    """It minds who else is there."""
    return bool(shape.ports or shape.near or shape.apart or shape.spread)


def matches(requirement: Requirement, labels: Labels) -> bool:
    """`In` only: that is all that is asked here."""
    return dict(labels).get(requirement.key) in requirement.values


def _demand(requests: Amounts) -> dict[str, int]:
    return {**{r: amount for r, amount in requests if r != "pods" and amount}, "pods": 1}


def _holds(room: Room, shapes: Sequence[Shape], counts: Sequence[int]) -> bool:
    taken: defaultdict[str, int] = defaultdict(int)
    for shape, count in zip(shapes, counts, strict=True):
        for resource, amount in _demand(shape.requests).items() if count else ():
            if resource == GPU_SHARE:  # of one size: what open devices do not take needs whole ones
                if room.amounts[GPU] < 0:
                    return False
                more = count - sum(max(left, 0) // amount for left in room.open.values())
                taken[GPU] += -(-max(more, 0) // (1000 // amount))
            else:
                taken[resource] += amount * count
    return all(room.amounts[resource] >= amount for resource, amount in taken.items() if amount)
