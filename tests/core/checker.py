"""What must hold of every decision, judged from an account of its own (`account.py`).

The checker gets the same events as the core, and every decision. It shares no code with the core, so
what it says is worth something when the core's ledger, slots and cached demands agree with each other and
are wrong together.

    told     an event, before the core has it
    decided  the decisions of a cycle, in order; raises AssertionError where one breaks a promise

Whether a gang fits is answered exactly (`fits`): node by node, all mixtures of pods that can be made up so
far. That takes few nodes and few pods, and no luck.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final

from muster.core.words.decisions import Assign, Decision, Evict, Explanation, Release, Wait
from muster.core.words.events import NodeChanged
from muster.core.words.gang import Code, Effect, Gang, GangId, NodeName, Place, PodId, Shape, Strategy
from muster.names import GPU, GPU_SHARE
from tests.core import affinity_rules
from tests.core.account import Account, Promise, Room, row_amounts
from tests.core.entitled import Entitled, counted, slack

#: Reasons by which a gang waits for room, and for nothing else.
NO_ROOM: Final = frozenset(
    {Code.NOTHING_MATCHES, Code.INSUFFICIENT_CAPACITY, Code.TOPOLOGY_UNSATISFIED, Code.FRAGMENTED}
)


@dataclass
class Checker(Account):
    #: what each waiting gang was told last
    reasons: dict[GangId, Explanation] = field(default_factory=dict)

    def decided(self, decisions: Sequence[Decision], now: float, *, clear: bool = False) -> None:
        """Check the decisions of a cycle, one after the other, and what follows from all of them.

        `clear`: all that is held is promised, and all has been searched; so what fits, and what queues use
        and want, is known exactly.
        """
        self.vacated = {key: held for key, held in self.vacated.items() if held.until > now}
        for decision, follower in zip(decisions, [*decisions, None][1:], strict=True):
            match decision:
                case Evict():
                    self._evicted(decision, now, clear=clear)
                    assert isinstance(follower, Assign), "victims are evicted for no gang"
                    assert follower.gang == decision.beneficiary, "victims are evicted for another gang"
                case Assign():
                    self._assigned(decision)
                case Release():
                    self._released(decision)
                case Wait():
                    self.reasons[decision.gang] = decision.explanation
                case _:
                    pass
        self.reasons = {gang: why for gang, why in self.reasons.items() if self.waits(gang)}
        self.forget()

    # What follows from the account

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
        if any(s.ports or s.pod_affinity or s.pod_anti_affinity or s.spread for s in shapes):
            return None
        open_ = {name: room for name, room in rooms.items() if not self._intrudes(known, name)}
        if known.gather:
            return self._gathers(known, open_)
        return self._fits(known, open_)

    def refused_rightly(self, gang: GangId, there: Entitled) -> bool:
        """Whether it is true what it was told of its queue, as things stand at the end of the cycle."""
        known, code = self.gangs[gang], self.reasons[gang].code
        path, used, least = self.tree.path(known.queue), self.used(), self.least(known)
        if code is Code.QUEUE_CLOSED:
            return any(self.tree.rules[queue].closed for queue in path)
        if code is Code.OVER_SHARE:  # with domains to itself it is charged for more than it asks for
            return bool(known.exclusive) or any(
                used[queue][r] + amount > there[queue].get(r, 0) - slack(r)
                for queue in path
                for r, amount in least.items()
            )
        if code is Code.QUOTA_EXCEEDED:
            counted_for = any(s.quotas for s in known.pod_sets) or any(map(self._caps, path))
            if known.exclusive and counted_for:  # as above
                return True
            return self._capped(known) or self._short_of_quota(known)
        return True

    def wronged(self, starts: Sequence[Assign], there: Entitled) -> GangId | None:
        """The gang that waits within its share, and could have had what the first of these starts borrowed.

        `starts`: the last of the cycle, in order. The first is of a gang that had nothing before the cycle.
        """
        borrower = self.gangs[starts[0].gang]
        later = {(start.gang, place) for start in starts[1:] for place in start.nodes}
        after = replace(self, promised={k: p for k, p in self.promised.items() if k not in later})
        used = after.used()
        mine = {(borrower.id, place) for place in starts[0].nodes} & after.promised.keys()
        lent = Counter[str]()
        for key in mine:
            lent.update(counted(row_amounts(self.promised[key].requests).items()))
        if not any(
            there[queue].get(r, 0) + slack(r) < min(used[queue][r], there["root"].get(r, 0))
            for queue in self.tree.path(borrower.queue)
            for r in lent
        ):
            return None
        before = replace(after, promised={k: p for k, p in after.promised.items() if k not in mine})
        used = before.used()
        for gang in filter(self.waits, self.gangs):
            within = all(
                used[queue][r] + amount <= there[queue].get(r, 0) - slack(r)
                for queue in self.tree.path(self.gangs[gang].queue)
                for r, amount in self.least(self.gangs[gang]).items()
            )
            if within and self.reasons[gang].code in NO_ROOM and before.fits_now(gang):
                return gang
        return None

    def _capped(self, gang: Gang) -> bool:
        """What its minimum lacks would be more than some queue may use, or one more gang than it may have."""
        used, least = self.used_below_caps(), self.least(gang)
        begun = replace(self, vacated={}).has_begun(gang.id)  # of those places it may hold none
        return any(
            (not begun and self._crowd(queue) >= self._most(queue))
            or any(least[r] and used[queue][r] + least[r] > cap for r, cap in self._caps(queue).items())
            for queue in self.tree.path(gang.queue)
        )

    def _short_of_quota(self, gang: Gang) -> bool:
        """All of it together would be charged more than some ResourceQuota of its namespace has left."""
        charged = self.charged(gang.namespace, self.gangs.keys() - {gang.id})
        for pod_set in gang.pod_sets:
            for quota, amounts in pod_set.quotas:
                for resource, amount in amounts:
                    charged[quota, resource] += amount * pod_set.uncreated
        rooms = {name: room for (namespace, name), room in self.quotas.items() if namespace == gang.namespace}
        return any(charged[name, r] > left for name, room in rooms.items() for r, left in room.items())

    def _caps(self, queue: str) -> Counter[str]:
        return counted(self.tree.rules[queue].capability)

    def _most(self, queue: str) -> float:
        most = self.tree.rules[queue].max_gangs
        return inf if most is None else most

    def shares(self) -> Entitled:
        """What each queue is entitled to."""
        return self.tree.entitled(self.usable(), self.used(), self.wanted())

    @property
    def renewable(self) -> bool:
        """Whether all promises could be made again, each where it is, and all shares are on known devices.

        Plans do not name devices, and a pod on an unknown device has `device` None.
        """
        return not any(
            GPU_SHARE in dict(pod.requests) and pod.footprint.device is None for pod in self.pods.values()
        ) and not any(
            gang in self.torn
            or self.waits(gang)
            or promise.device is not None
            or promise.node not in self.nodes
            or not may_run(self._shape(gang, place), self.nodes[promise.node])
            or min(self.room(promise.node).amounts.values()) < 0
            for (gang, place), promise in self.promised.items()
        )

    def _shape(self, gang: GangId, place: Place) -> Shape:
        return next(s.shape for s in self.gangs[gang].pod_sets if s.name == place.pod_set)

    def _gathers(self, gang: Gang, rooms: Mapping[NodeName, Room]) -> bool | None:
        """In one domain of each layer in which all of it must be."""
        if any(g.strategy is not Strategy.MUST_GATHER or g.multiple > 1 for g in gang.gather):
            return None
        if self.done(gang):
            return None
        wanted = [g.layer for g in gang.gather]
        domains = {tuple(self.domain(node, layer) for layer in wanted) for node in rooms}
        return any(
            self._fits(gang, {n: r for n, r in rooms.items() if self._inside(n, wanted, domain)})
            for domain in domains
            if None not in domain
        )

    def _inside(self, node: NodeName, layers: Sequence[str], domain: Sequence[object]) -> bool:
        return [self.domain(node, layer) for layer in layers] == list(domain)

    def _fits(self, known: Gang, rooms: Mapping[NodeName, Room]) -> bool:
        shapes = [s.shape for s in known.pod_sets]
        done = self.done(known)
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

    # Starts

    def _assigned(self, assign: Assign) -> None:
        gang = self.gangs[assign.gang]
        assert gang.gate is None, "a gated gang was started"
        begun, planned = self.has_begun(gang.id), self.planned.get(gang.id, {})
        charged = self.charged(gang.namespace, [gang.id])
        more = self._more(gang, assign)
        shapes = {s.name: s.shape for s in gang.pod_sets}
        sizes = {s.name: s.count for s in gang.pod_sets}
        filled = self.filled(assign.gang)
        for place, node in assign.nodes.items():
            assert place.index < sizes[place.pod_set], "a place that the gang does not have"
            assert place not in filled, "a place that a pod fills"
            assert place not in self.retired.get(assign.gang, ()), "a place that is retired"
            assert may_run(shapes[place.pod_set], self.nodes[node]), "a node that the pod may not use"
            requests = shapes[place.pod_set].requests
            self.promised[assign.gang, place] = Promise(node, requests, assign.devices.get(place))
        self.vacated = {key: held for key, held in self.vacated.items() if key[0] != gang.id}
        self.planned.pop(gang.id, None)
        for place, node in assign.nodes.items():
            room = self.room(node, gang.id)
            for resource in row_amounts(shapes[place.pod_set].requests):
                if resource != GPU_SHARE:
                    assert room.amounts[resource] >= 0, f"{resource} of {node} is oversubscribed"
                    continue
                assert room.open[assign.devices[place]] >= 0, f"a device of {node} is oversubscribed"
                assert room.amounts[GPU] >= 0, f"{node} has not so many devices"
        assert self.complete(gang), "less than the minimum was assigned"
        self._check_layers(gang, assign)
        self._check_constraints(gang, assign, {*planned.values()})
        self._check_caps(gang, more)
        if not planned:
            self._check_quotas(gang, charged)
        if not begun:
            self._check_admission(gang)

    def _more(self, gang: Gang, assign: Assign) -> Counter[str]:
        """What the gang will use besides what it was promised, by a plan too, and what was held for it."""
        shapes = {s.name: s.shape for s in gang.pod_sets}
        more: Counter[str] = Counter()
        for place in assign.nodes:
            if (gang.id, place) not in self.promised and place not in self.planned[gang.id]:
                more.update(counted(row_amounts(shapes[place.pod_set].requests).items()))
        for key, held in self.vacated.items():
            if key[0] == gang.id:
                more.subtract(counted(row_amounts(held.requests).items()))
        return +more

    def _check_layers(self, gang: Gang, assign: Assign) -> None:
        """What has not begun elsewhere is where it must be, in whole multiples in every domain it is put.

        A domain that is given nothing now may have lost some of its multiple.
        """
        nodes = [promise.node for (of, _), promise in self.promised.items() if of == gang.id]
        if (
            gang.id in self.torn
            or any(pod.gang == gang.id for pod in self.pods.values())
            or any(n not in self.nodes for n in nodes)
        ):
            return
        for gather in gang.gather:
            domains = Counter(self.domain(node, gather.layer) for node in nodes)
            if gather.strategy is Strategy.MUST_GATHER:
                assert len(domains) <= 1, f"it is in {len(domains)} domains of {gather.layer}"
                assert None not in domains, f"it is in no domain of {gather.layer}"
            given = {self.domain(node, gather.layer) for node in assign.nodes.values()}
            whole = all(domains[domain] % gather.multiple == 0 for domain in given)
            assert whole or self.retired.get(gang.id), "no whole multiples"

    def _check_constraints(self, gang: Gang, assign: Assign, planned: Set[NodeName]) -> None:
        """Anti-affinity holds, required affinity is satisfied, and spreads are even.

        `planned`: where an open plan put it, even if a domain has become exclusive since then.
        """
        mine, others = self.seen(gang.id)
        new = [mine[place] for place in assign.nodes]
        there = [*others, *(pod for place, pod in mine.items() if place not in assign.nodes)]
        assert affinity_rules.tolerated(new, there, self.nodes), (
            "a port is used twice, or an anti-affinity is violated"
        )
        if not self.blurred:
            assert affinity_rules.affinity_satisfied(new, there, self.nodes), (
                "a required affinity is not satisfied"
            )
            assert affinity_rules.even(new, there, self.nodes), "a domain is ahead of the others by too much"
        for node in {*assign.nodes.values()} - planned:
            assert not self._intrudes(gang, node), f"{node} is in a domain that belongs to one gang alone"

    def _intrudes(self, gang: Gang, node: NodeName) -> bool:
        """The node is in a domain that another gang has to itself, or that this one cannot have so."""
        if gang.exclusive and self.domain(node, gang.exclusive) is None:
            return True
        if not (gang.exclusive or any(other.exclusive for other in self.gangs.values())):
            return False
        for other, where in self._others(gang.id):
            known = self.gangs.get(other)
            for layer in (gang.exclusive, known.exclusive if known is not None else ""):
                if layer and self.domain(node, layer) == self.domain(where, layer) is not None:
                    return True
        return False

    def _others(self, gang: GangId) -> Set[tuple[GangId, NodeName]]:
        """Where other gangs are, but for pods that end for this one."""
        here = {
            (pod.gang, pod.node)
            for id_, pod in self.pods.items()
            if pod.gang is not None and self.leaving.get(id_) != gang
        }
        promised = {(other, promise.node) for (other, _), promise in self.promised.items()}
        return {(other, node) for other, node in here | promised if other != gang}

    def _check_caps(self, gang: Gang, more: Counter[str]) -> None:
        """What the gang uses more leaves no queue above its cap, once its victims have gone.

        Until then the greater of the two counts (`used_below_caps`): that is within the cap, or what was
        there before in a queue that was above it already.
        """
        used = self.used_below_caps(gone=self.called, starting=gang.id)
        for queue in self.tree.path(gang.queue):
            for resource, cap in self._caps(queue).items():
                assert not more[resource] or used[queue][resource] <= cap, (
                    f"{queue} is above its cap of {resource}"
                )

    def _check_quotas(self, gang: Gang, before: Counter[tuple[str, str]]) -> None:
        """What is still to be created will not be refused."""
        mine = self.charged(gang.namespace, [gang.id])
        total = self.charged(gang.namespace, self.gangs.keys())
        for (quota, resource), amount in (mine - before).items():
            room = self.quotas.get((gang.namespace, quota), {})
            assert total[quota, resource] <= room.get(resource, total[quota, resource]), (
                f"{amount} of {resource} more than {quota} has left"
            )

    def _check_admission(self, gang: Gang) -> None:
        """Its queue admits gangs, also of its namespace, and has no more than its maximum."""
        tree = self.tree
        assert tree.may_start(gang.queue, gang.namespace)
        for queue in tree.path(gang.queue):
            assert not tree.rules[queue].closed, "a gang of a closed queue was started"
            assert self._crowd(queue, gang.id) <= self._most(queue), f"{queue} has more gangs than it may"

    def _crowd(self, queue: str, starting: GangId | None = None) -> int:
        """The number of gangs of the queue; of a gang and its wholly evicted victims the greater number.

        The `starting` gang counts with its victims: until they have gone, it is one of as many as there
        were before.
        """
        here = {pod.gang for pod in self.pods.values()} | {gang for gang, _ in self.promised}
        begun = {
            gang.id for gang in self.gangs.values() if gang.id in here and queue in self.tree.path(gang.queue)
        }
        ending = Counter(self.ending[gang] for gang in begun if gang in self.ending)
        both = sum(
            number if beneficiary == starting else min(number, 1)
            for beneficiary, number in ending.items()
            if beneficiary in begun
        )
        return len(begun) - both

    # Evictions

    def _evicted(self, evict: Evict, now: float, *, clear: bool) -> None:
        """Only preemptible gangs of lower rank are evicted, and none in vain."""
        gang = self.gangs[evict.beneficiary]
        assert gang.preempts
        assert self.waits(gang.id), "victims are ended for what is not needed"
        ended: dict[GangId, frozenset[PodId]] = {}
        for victim in evict.victims:
            other = self.gangs[victim.gang]
            assert other.preemptible, "a gang was ended that must not be"
            assert now - self.bound.get(other.id, now) >= other.min_run_time, "a gang was ended too soon"
            assert self.ending.get(other.id, gang.id) == gang.id, "a victim is counted twice"
            mine = {pod for pod, bound in self.pods.items() if bound.gang == other.id}
            ended[other.id] = victim.pods or frozenset(mine)
            assert ended[other.id] <= mine
            for pod in ended[other.id]:
                assert self.leaving.get(pod, gang.id) == gang.id, "a victim is counted twice"
            assert victim.reclaimed == (other.queue != gang.queue)
            assert victim.reclaimed or other.priority < gang.priority
            if victim.pods:
                left = [self.pods[pod].pods[pod] for pod in mine - victim.pods]
                assert self._enough(other, {place for place in left if place is not None})
        if clear and len({s.shape for s in gang.pod_sets}) == 1:
            for spared in ended:
                others = ended.keys() - {spared}
                without = self._without(others, ended)
                assert without.fits_now(gang.id) is not True or without._capped(gang), (
                    f"{spared} ends for nothing"
                )
        self._check_budgets(gang, ended)
        if clear:
            self._check_reclaimed(gang, ended)
        for victim in evict.victims:
            self.leaving.update(dict.fromkeys(ended[victim.gang], gang.id))
            self.called.update(dict.fromkeys(ended[victim.gang], gang.id))
            if not victim.pods:
                self.ending[victim.gang] = gang.id
                if promises := self.promises_of(victim.gang):
                    self.ghosts.add(gang.id)
                    self.give_up(promises)

    def _check_budgets(self, gang: Gang, ended: Mapping[GangId, frozenset[PodId]]) -> None:
        """No PodDisruptionBudget forbids it within the gang's queue, those that leave already counted.

        What another queue has borrowed is reclaimed whatever its budgets say.
        """
        own = (pods for victim, pods in ended.items() if self.gangs[victim].queue == gang.queue)
        new = [self.pods[pod] for pods in own for pod in pods if pod not in self.leaving]
        expecting = {gang for gang, _ in self.promised}
        before = [self.pods[pod] for pod, gang in self.leaving.items() if gang in expecting]
        for (namespace, name), budget in self.budgets.items():
            gone, going = (
                sum(
                    pod.footprint.namespace == namespace
                    and affinity_rules.matches(budget.labels, pod.footprint.labels)
                    for pod in some
                )
                for some in (new, before)
            )
            assert not gone or gone + going <= budget.allowed, f"budget {name} forbids it"

    def _check_reclaimed(self, gang: Gang, ended: Mapping[GangId, frozenset[PodId]]) -> None:
        """From other queues only what they have borrowed, and for what stays within its own share."""
        tree, used, least, shares = self.tree, self.used(), self.least(gang), self.shares()
        taken: defaultdict[str, list[Counter[str]]] = defaultdict(list)
        for victim, pods in ended.items():
            mine, theirs = tree.parting(gang.queue, self.gangs[victim].queue)
            freed = Counter[str]()
            for pod in pods:
                freed.update(counted(row_amounts(self.pods[pod].requests).items()))
            if pods >= {id_ for id_, pod in self.pods.items() if pod.gang == victim}:
                freed.update(self.surcharge(self.gangs[victim]))
            for queue in theirs:
                taken[queue].append(freed)
            for queue in mine if theirs else ():
                for resource, amount in least.items():
                    limit = shares[queue].get(resource, 0)
                    if limit + slack(resource) < shares["root"].get(resource, 0):
                        assert used[queue][resource] + amount <= limit + slack(resource), (
                            f"{queue} takes back more than its share of {resource}"
                        )
        for queue, all_freed in taken.items():
            assert tree.rules[queue].reclaimable, f"{queue} does not give back"
            gone = sum(all_freed, Counter[str]())
            for resource, amount in counted(tree.rules[queue].guarantee).items():
                assert not gone[resource] or used[queue][resource] - gone[resource] >= amount, (
                    f"{queue} is left with less than its guarantee of {resource}"
                )
            # The last of them may leave it below its share; the earlier ones must not.
            assert any(
                last[r]
                and least[r]
                and used[queue][r] - gone[r] + last[r] > shares[queue].get(r, 0) - slack(r)
                for last in all_freed
                for r in last
            ), f"{queue} has not borrowed as much as it has to give"

    def _released(self, release: Release) -> None:
        for place in release.places:
            assert self.promised.pop((release.gang, place), None), "what was released was not promised"

    def _without(self, gangs: Collection[GangId], ended: Mapping[GangId, frozenset[PodId]]) -> "Checker":
        """As it would be without what these gangs would lose."""
        gone = {pod for gang in gangs for pod in ended[gang]}
        pods = {id_: pod for id_, pod in self.pods.items() if id_ not in gone}
        whole = {gang for gang in gangs if not any(pod.gang == gang for pod in pods.values())}
        return replace(
            self, pods=pods, promised={k: p for k, p in self.promised.items() if k[0] not in whole}
        )

    def _enough(self, gang: Gang, places: Set[Place]) -> bool:
        """Whether these, filled, and what is retired satisfy every minimum."""
        done = Counter(p.pod_set for p in places | self.retired.get(gang.id, frozenset()))
        return sum(done.values()) >= gang.min_count and all(
            done[s.name] >= s.min_count for s in gang.pod_sets
        )


def may_run(shape: Shape, node: NodeChanged) -> bool:
    """Ready, not cordoned, the labels of the selector, no taint that keeps it off."""
    labels = dict(node.labels)
    assert not shape.tolerations, "the checker knows of none"
    return (
        node.ready
        and not node.cordoned
        and all(labels.get(key) == value for key, value in shape.selector)
        and all(taint.effect is Effect.PREFER_NO_SCHEDULE for taint in node.taints)
    )


def _holds(room: Room, shapes: Sequence[Shape], counts: Sequence[int]) -> bool:
    together: Counter[Shape] = Counter()
    for shape, count in zip(shapes, counts, strict=True):
        together[shape] += count
    taken: defaultdict[str, int] = defaultdict(int)
    for shape, count in together.items():
        for resource, amount in row_amounts(shape.requests).items() if count else ():
            if resource == GPU_SHARE:  # of one size: what open devices do not take needs whole ones
                if room.amounts[GPU] < 0:
                    return False
                more = count - sum(max(left, 0) // amount for left in room.open.values())
                taken[GPU] += -(-max(more, 0) // (1000 // amount))
            else:
                taken[resource] += amount * count
    return all(room.amounts[resource] >= amount for resource, amount in taken.items() if amount)
