"""An account of its own of what the core was told and has promised, in plain dicts.

It computes everything from events and decisions, and reads no ledger, slots or cached demands of the core.
What can be said of it may be lenient where the core remembers more than is told: places that it holds for
replacements on its own (`vacated`), and victims' promises of which a bind may be on its way (`ghosts`).
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from muster.core.words.decisions import Victim
from muster.core.words.events import (
    BudgetChanged,
    BudgetRemoved,
    CommitFailed,
    Event,
    Footprint,
    GangRemoved,
    GangSubmitted,
    LayersChanged,
    NodeChanged,
    NodeRemoved,
    PlacesLost,
    PlacesRetired,
    PlanFound,
    PodsBound,
    PodsEnded,
    QueueChanged,
    QueueRemoved,
    QuotaChanged,
    QuotaRemoved,
)
from muster.core.words.gang import Amounts, Gang, GangId, Layer, NodeName, Place, PodId, PodSet, Queue, Shape
from muster.names import GPU, GPU_SHARE
from tests.core.affinity_rules import Pod
from tests.core.entitled import Tree, counted

#: A place of a gang.
Key = tuple[GangId, Place]


@dataclass(frozen=True, order=True)
class Promise:
    node: NodeName
    requests: Amounts
    #: which shared device of the node
    device: int | None = None


class Vacated(NamedTuple):
    """A place whose pod has ended, and which may be held for its replacement up to a time."""

    requests: Amounts
    until: float


@dataclass
class Room:
    """What is left on a node. Whole devices are those on which nothing is."""

    amounts: defaultdict[str, float]
    #: thousandths left on devices with shares, by device
    open: dict[int, int]
    #: some share is on a device that is not on record
    vague: bool

    def take(self, requests: Amounts, device: int | None) -> None:
        for resource, amount in row_amounts(requests).items():
            if resource != GPU_SHARE:
                self.amounts[resource] -= amount
            elif device is None:
                self.vague = True
            else:
                if device not in self.open:
                    self.amounts[GPU] -= 1
                self.open[device] = self.open.get(device, 1000) - amount


@dataclass
class Account:
    #: seconds for which the core holds the place of a pod that has ended
    hold: float = 300.0
    nodes: dict[NodeName, NodeChanged] = field(default_factory=dict)
    layers: tuple[Layer, ...] = ()
    gangs: dict[GangId, Gang] = field(default_factory=dict)
    #: what was told of each pod by itself
    pods: dict[PodId, PodsBound] = field(default_factory=dict)
    #: the place that a pod filled that fills none now
    formerly: dict[PodId, Place] = field(default_factory=dict)
    #: since when a pod of a gang is bound
    bound: dict[GangId, float] = field(default_factory=dict)
    retired: dict[GangId, frozenset[Place]] = field(default_factory=dict)
    #: places that an Assign has promised and that are neither filled nor given up
    promised: dict[Key, Promise] = field(default_factory=dict)
    #: places that an open plan names, and that no Assign has promised yet
    planned: defaultdict[GangId, dict[Place, NodeName]] = field(default_factory=lambda: defaultdict(dict))
    vacated: dict[Key, Vacated] = field(default_factory=dict)
    #: gangs that have promises of a time when they asked something else of the topology, when a node of
    #: theirs was elsewhere in it, or before a pod of theirs was bound elsewhere
    torn: set[GangId] = field(default_factory=set)
    queues: dict[str, Queue] = field(default_factory=dict)
    quotas: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    budgets: dict[tuple[str, str], BudgetChanged] = field(default_factory=dict)
    #: evicted pods, and gangs that were evicted as a whole, with the beneficiary
    leaving: dict[PodId, GangId] = field(default_factory=dict)
    ending: dict[GangId, GangId] = field(default_factory=dict)
    #: evicted pods with their latest beneficiary, even if it has no promised places at present. Its later
    #: places may count on the eviction, since their binds wait for it
    called: dict[PodId, GangId] = field(default_factory=dict)
    #: beneficiaries whose victims had been promised places
    ghosts: set[GangId] = field(default_factory=set)
    #: what of a gang might run if nothing else did (`placement/test_attainable.py`); None: all of it
    could_run: Callable[[GangId], Mapping[str, int] | None] = lambda gang: None

    def told(self, event: Event) -> None:
        """An event, before the core has it."""
        match event:
            case NodeChanged():
                before = self.nodes.get(event.name)
                if before is None or before.labels != event.labels:
                    here = {pod.gang for pod in self.pods.values() if pod.node == event.name}
                    self.torn |= {
                        gang
                        for (gang, _), at in self.promised.items()
                        if at.node == event.name or gang in here
                    }
                self.nodes[event.name] = event
            case NodeRemoved():
                self.nodes.pop(event.name, None)
            case GangSubmitted():
                known = self.gangs.get(event.gang.id)
                if (known.gather if known else ()) != event.gang.gather:
                    self.torn.discard(event.gang.id)
                    if self.promises_of(event.gang.id):
                        self.torn.add(event.gang.id)
                self.gangs[event.gang.id] = event.gang
            case GangRemoved():
                self.gangs.pop(event.gang, None)
                self.retired.pop(event.gang, None)
                self._begin_anew(event.gang)
            case PodsBound():
                for pod, place in event.pods.items():
                    self._pod_bound(pod, place, replace(event, pods={pod: place}))
            case PodsEnded():
                for pod in event.pods:
                    self._pod_ended(pod, event.at)
            case PlacesRetired():
                self.retired[event.gang] = event.places
                self._unplan(event.gang, event.places)
            case PlanFound():
                promised = {place for _, place in self.promises_of(event.gang)}
                known_ = self.filled(event.gang) | promised | self.retired.get(event.gang, frozenset())
                self.planned[event.gang] |= {p: n for p, n in event.nodes.items() if p not in known_}
            case PlacesLost():
                self.give_up((event.gang, place) for place in event.places)
                self._unplan(event.gang, event.places)
            case CommitFailed():
                self._begin_anew(event.gang)
            case LayersChanged():
                self.layers = event.layers
            case QueueChanged():
                self.queues[event.queue.name] = event.queue
            case QueueRemoved():
                self.queues.pop(event.name, None)
            case QuotaChanged():
                self.quotas[event.namespace, event.name] = dict(event.room)
            case QuotaRemoved():
                self.quotas.pop((event.namespace, event.name), None)
            case BudgetChanged():
                self.budgets[event.namespace, event.name] = event
            case BudgetRemoved():
                self.budgets.pop((event.namespace, event.name), None)

    def _pod_bound(self, pod: PodId, place: Place | None, event: PodsBound) -> None:
        before = self.pods.get(pod)
        if before is not None and (filled := before.pods[pod]) is not None and place is None:
            self.formerly[pod] = filled
        self.pods[pod] = event
        if event.gang is None:
            return
        if event.at is not None:
            self.bound[event.gang] = min(event.at, self.bound.get(event.gang, event.at))
        if place is not None:
            promise = self.promised.get((event.gang, place))
            if promise is not None and promise.node != event.node:
                self.torn.add(event.gang)
            self.give_up([(event.gang, place)])
            self._unplan(event.gang, [place])
        if event.gang in self.ending:
            self.leaving[pod] = self.called[pod] = self.ending[event.gang]

    def _pod_ended(self, pod: PodId, at: float) -> None:
        bound = self.pods.pop(pod, None)
        self.leaving.pop(pod, None)
        self.called.pop(pod, None)
        former = self.formerly.pop(pod, None)
        if bound is not None and bound.gang is not None and (place := bound.pods[pod] or former) is not None:
            self.vacated[bound.gang, place] = Vacated(bound.requests, at + self.hold)

    def _begin_anew(self, gang: GangId) -> None:
        """The gang holds nothing, and its victims are not charged to it any more."""
        self.give_up([key for key in (*self.promised, *self.vacated) if key[0] == gang])
        self.planned.pop(gang, None)
        self.called = {pod: other for pod, other in self.called.items() if other != gang}
        self.leaving = {pod: other for pod, other in self.leaving.items() if other != gang}
        self.ending = {victim: other for victim, other in self.ending.items() if other != gang}

    def _unplan(self, gang: GangId, places: Iterable[Place]) -> None:
        for place in places:
            self.planned[gang].pop(place, None)

    def give_up(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self.promised.pop(key, None)
            self.vacated.pop(key, None)

    def forget(self) -> None:
        """Victims of a beneficiary without promised places count as pods that stay."""
        expecting = {gang for gang, _ in self.promised}
        self.torn &= expecting
        self.ghosts &= expecting
        self.leaving = {pod: gang for pod, gang in self.leaving.items() if gang in expecting}
        here = {pod.gang for pod in self.pods.values()}
        self.ending = {victim: g for victim, g in self.ending.items() if g in expecting and victim in here}
        self.bound = {gang: at for gang, at in self.bound.items() if self.has_begun(gang)}

    def facts(self) -> Iterator[Event]:
        """What a new scheduler would be told: the objects as they are, and promises as open plans."""
        yield LayersChanged(self.layers)
        yield from map(QueueChanged, self.queues.values())
        yield from self.budgets.values()
        yield from (QuotaChanged(*key, tuple(room.items())) for key, room in self.quotas.items())
        yield from self.nodes.values()
        yield from map(GangSubmitted, self.gangs.values())
        yield from itertools.starmap(PlacesRetired, self.retired.items())
        yield from self.pods.values()
        for gang in sorted({gang for gang, _ in self.promised}):
            places = {place: self.promised[gang, place].node for _, place in self.promises_of(gang)}
            whole = sorted(victim for victim, beneficiary in self.ending.items() if beneficiary == gang)
            parts: defaultdict[GangId, set[PodId]] = defaultdict(set)
            for pod, beneficiary in self.leaving.items():
                victim = self.pods[pod].gang
                if beneficiary == gang and victim is not None and victim not in whole:
                    parts[victim].add(pod)
            victims = [Victim(victim, frozenset(pods)) for victim, pods in sorted(parts.items())]
            yield PlanFound(gang, places, (*map(Victim, whole), *victims))

    def restarted(self) -> None:
        """Of what it had been promised and had asked for, a new scheduler knows what it is told."""
        self.promised.clear()
        self.vacated.clear()
        self.planned.clear()
        self.formerly.clear()
        self.ghosts.clear()
        self.called = dict(self.leaving)  # open plans name no others

    # Gangs

    def waits(self, gang: GangId) -> bool:
        """Some minimum of an ungated gang is neither satisfied nor promised."""
        known = self.gangs.get(gang)
        return known is not None and known.gate is None and not self.complete(known)

    def complete(self, gang: Gang) -> bool:
        done = self.done(gang)
        return sum(done.values()) >= gang.min_count and all(
            done[s.name] >= s.min_count for s in gang.pod_sets
        )

    def done(self, gang: Gang) -> Counter[str]:
        """Places of each pod set that are filled, retired or promised."""
        places = self.filled(gang.id) | self.retired.get(gang.id, frozenset())
        places |= {place for _, place in self.promises_of(gang.id)}
        done: Counter[str] = Counter()
        for pod_set in gang.pod_sets:
            done[pod_set.name] = sum(p.pod_set == pod_set.name and p.index < pod_set.count for p in places)
        return done

    def has_begun(self, gang: GangId) -> bool:
        """It may have something: a pod, a promise, an open plan, a place held for a replacement."""
        return bool(
            self.planned.get(gang)
            or any(pod.gang == gang for pod in self.pods.values())
            or any(key[0] == gang for key in (*self.promised, *self.vacated))
        )

    def filled(self, gang: GangId) -> set[Place]:
        """Places that its pods fill."""
        places = {bound.pods[pod] for pod, bound in self.pods.items() if bound.gang == gang}
        return {place for place in places if place is not None}

    def promises_of(self, gang: GangId) -> list[Key]:
        return sorted(key for key in self.promised if key[0] == gang)

    # Nodes

    def room(self, node: NodeName, beneficiary: GangId | None = None) -> Room:
        """What pods and promised places leave of a node: may be below zero.

        Of a gang's places and its victims' pods the node carries the greater, not both. Victims of the
        `beneficiary`, which is assigned places now, count as gone.
        """
        capacity = dict(self.nodes[node].capacity)
        room = Room(defaultdict(float, {"pods": float("inf"), **capacity}), {}, vague=False)
        held: defaultdict[GangId, Counter[str]] = defaultdict(Counter)
        left: defaultdict[GangId, Counter[str]] = defaultdict(Counter)
        for (gang, _), promise in self.promised.items():
            if promise.node == node:
                room.take(promise.requests, promise.device)
                held[gang].update(row_amounts(promise.requests))
        for id_, pod in self.pods.items():
            if pod.node != node or (beneficiary is not None and self.called.get(id_) == beneficiary):
                continue
            if id_ in self.leaving:
                left[self.leaving[id_]].update(row_amounts(pod.requests))
            else:
                room.take(pod.requests, pod.footprint.device)
        for gang, amounts in left.items():
            if GPU_SHARE in amounts or GPU_SHARE in held[gang]:
                continue  # what the latter have in common depends on devices: not counted at all
            for resource, amount in (amounts - held[gang]).items():
                room.amounts[resource] -= amount
        return room

    def domain(self, node: NodeName, layer: str) -> tuple[str, ...] | None:
        """The path of the node's domain; None: it lacks a label on the way."""
        labels = dict(self.nodes[node].labels) if node in self.nodes else {}
        path = []
        for one in self.layers:
            found = next((labels[key] for key in one.keys if key in labels), None)
            if found is None:
                return None
            path.append(found)
            if one.name == layer:
                return tuple(path)
        return None

    def seen(self, gang: GangId) -> tuple[dict[Place, Pod], list[Pod]]:
        """The gang's promised places, and all other pods and promises but those that end for it."""
        mine, others = {}, []
        for id_, pod in self.pods.items():
            if self.leaving.get(id_) != gang:
                others.append(Pod(pod.footprint, Shape(pod.requests), pod.node))
        for (other, place), promise in self.promised.items():
            known = self.gangs.get(other)
            pod_set = next((s for s in known.pod_sets if s.name == place.pod_set), None) if known else None
            if known is None or pod_set is None:
                continue
            one = Pod(footprint(known, pod_set, promise.device), pod_set.shape, promise.node)
            if other == gang:
                mine[place] = one
            else:
                others.append(one)
        return mine, others

    @property
    def blurred(self) -> bool:
        """Whether the core may count more pods than this account knows."""
        return bool(self.vacated or self.ghosts or self.called)

    # Queues

    @property
    def tree(self) -> Tree:
        return Tree(self.queues)

    def used(self, gone: Collection[PodId] = ()) -> dict[str, Counter[str]]:
        """By queue, what its gangs use and those of queues below: pods that stay, and promised places."""
        tree = self.tree
        used = {queue: Counter[str]() for queue in ("root", *tree.rules)}
        for gang, requests in self._uses(gone):
            known = self.gangs.get(gang)
            for queue in ("root", *(tree.path(known.queue) if known is not None else ())):
                used[queue].update(counted(requests.items()))
        for known in self.gangs.values():
            surcharge = self.surcharge(known, gone)
            for queue in ("root", *tree.path(known.queue)) if surcharge else ():
                used[queue].update(surcharge)
        return used

    def surcharge(self, gang: Gang, gone: Collection[PodId] = ()) -> Counter[str]:
        """What is in a gang's exclusive domains besides what it uses, unless all of it is leaving."""
        if not gang.exclusive:
            return Counter()
        mine = {id_: pod for id_, pod in self.pods.items() if pod.gang == gang.id and id_ not in gone}
        promises = [promise for (other, _), promise in self.promised.items() if other == gang.id]
        if not promises and mine.keys() <= self.leaving.keys():
            return Counter()
        places = [(one.node, one.requests) for one in mine.values()]
        places += [(one.node, one.requests) for one in promises]
        there = {self.domain(where, gang.exclusive) for where, _ in places} - {None}
        whole, used = Counter[str](), Counter[str]()
        for name, node in self.nodes.items():
            if self.domain(name, gang.exclusive) in there:
                whole.update(counted((r, n) for r, n in node.capacity if r != "pods"))
        for _, requests in places:
            used.update(counted(row_amounts(requests).items()))
        return whole - used

    def _uses(self, gone: Collection[PodId]) -> Iterator[tuple[GangId, dict[str, int]]]:
        for id_, pod in self.pods.items():
            if pod.gang is not None and id_ not in gone and id_ not in self.leaving:
                yield pod.gang, row_amounts(pod.requests)
        for (gang, _), promise in self.promised.items():
            yield gang, row_amounts(promise.requests)

    def used_below_caps(
        self, gone: Collection[PodId] = (), starting: GangId | None = None
    ) -> dict[str, Counter[str]]:
        """As `used`, plus what departing pods use beyond the promised places of their beneficiary.

        Departing pods whose beneficiary is the `starting` gang do not count.
        """
        tree, used = self.tree, self.used(gone)
        for beneficiary in sorted({*self.leaving.values()} - {starting}):
            comes: Counter[str] = Counter()
            for key in self.promises_of(beneficiary):
                comes.update(counted(row_amounts(self.promised[key].requests).items()))
            known = self.gangs.get(beneficiary)
            mine = tree.path(known.queue) if known is not None else []
            left = {queue: Counter[str]() for queue in tree.rules}
            for id_ in (pod for pod, gang in self.leaving.items() if gang == beneficiary):
                victim = self.gangs.get(self.pods[id_].gang or GangId(""))
                for queue in tree.path(victim.queue) if victim is not None else ():
                    left[queue].update(counted(row_amounts(self.pods[id_].requests).items()))
            for queue, leaves in left.items():
                used[queue].update(leaves - comes if queue in mine else leaves)
        return used

    def wanted(self) -> dict[str, Counter[str]]:
        """By queue, what its own gangs lack, those that may start at all; new ones not in a closed queue."""
        tree = self.tree
        wanted = {queue: Counter[str]() for queue in tree.rules}
        for gang in self.gangs.values():
            closed = any(tree.rules[queue].closed for queue in tree.path(gang.queue))
            if closed and not self.has_begun(gang.id):
                continue
            least = self.least(gang)
            caps = [
                (counted(tree.rules[above].capability), tree.rules[above]) for above in tree.path(gang.queue)
            ]
            if any(least[r] > cap for amounts, _ in caps for r, cap in amounts.items()):
                continue
            if not self.has_begun(gang.id) and any(rules.max_gangs == 0 for _, rules in caps):
                continue
            if gang.gate is None and tree.may_start(gang.queue, gang.namespace):
                if (part := self.could_run(gang.id)) is not None:
                    wanted[gang.queue].update(part)
                    continue
                done = self.done(gang)
                for pod_set in gang.pod_sets:
                    missing = max(pod_set.count - done[pod_set.name], 0)
                    wanted[gang.queue].update(times(row_amounts(pod_set.shape.requests), missing))
        return wanted

    def least(self, gang: Gang) -> Counter[str]:
        """What its minimum lacks takes at least of each resource."""
        done = self.done(gang)
        lacking = {s.name: max(s.min_count - done[s.name], 0) for s in gang.pod_sets}
        rest = max(gang.min_count - sum(done.values()) - sum(lacking.values()), 0)
        least: Counter[str] = Counter()
        for pod_set in gang.pod_sets:
            least.update(times(row_amounts(pod_set.shape.requests), lacking[pod_set.name]))
        pods = [
            counted(row_amounts(s.shape.requests).items())
            for s in gang.pod_sets
            for _ in range(s.count - done[s.name] - lacking[s.name])
        ]
        for resource in {r for requests in pods for r in requests}:
            least[resource] += sum(sorted(requests[resource] for requests in pods)[:rest])
        if not gang.exclusive:
            return +least
        if self.has_begun(gang.id):
            return least - self.surcharge(gang)
        domains: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
        for name, node in self.nodes.items():
            if (domain := self.domain(name, gang.exclusive)) is not None:
                domains[domain].update(counted((r, n) for r, n in node.capacity if r != "pods"))
        some = [domain for domain in domains.values() if any(domain.values())]
        for resource in {r for domain in some for r in domain}:
            least[resource] = max(least[resource], min(domain[resource] for domain in some))
        return +least

    def usable(self) -> Counter[str]:
        """What ready, uncordoned nodes have, and what is used on all others."""
        usable: Counter[str] = Counter()
        for node in self.nodes.values():
            if node.ready and not node.cordoned:
                usable.update(counted({"pods": 2**31 - 1, **dict(node.capacity)}.items()))
        used = {pod.node for pod in self.pods.values()} | {at.node for at in self.promised.values()}
        for name in used:
            known = self.nodes.get(name)
            if known is None or known.cordoned or not known.ready:
                empty = replace(self, nodes={**self.nodes, name: NodeChanged(name, (("pods", 0),))})
                room = empty.room(name)
                usable.update(counted((r, -int(left)) for r, left in room.amounts.items()))
                usable[GPU_SHARE] -= sum(room.open.values())
        return usable

    def charged(self, namespace: str, gangs: Collection[GangId]) -> Counter[tuple[str, str]]:
        """By quota and resource, what these gangs' promised pods will be charged that are not there yet."""
        charged: Counter[tuple[str, str]] = Counter()
        for gang in self.gangs.values():
            for pod_set in gang.pod_sets if gang.namespace == namespace and gang.id in gangs else ():
                held = sum(place.pod_set == pod_set.name for _, place in self.promises_of(gang.id))
                for quota, amounts in pod_set.quotas:
                    for resource, amount in amounts:
                        charged[quota, resource] += amount * min(held, pod_set.uncreated)
        return charged


def footprint(gang: Gang, pod_set: PodSet, device: int | None = None) -> Footprint:
    """What others see of a pod of this set before there is one."""
    namespace = pod_set.namespace or gang.namespace
    return Footprint(namespace, pod_set.labels, pod_set.shape.ports, pod_set.shape.pod_anti_affinity, device)


def row_amounts(requests: Amounts) -> dict[str, int]:
    return {**{r: amount for r, amount in requests if r != "pods" and amount}, "pods": 1}


def times(amounts: Mapping[str, int], count: int) -> Counter[str]:
    return counted((resource, count * amount) for resource, amount in amounts.items())
